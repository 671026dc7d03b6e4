// `make bench CASE=<case>`: finds the case, installs the peers, starts a server, prints a table, writes
// bench/results/<case>.json.
//
// Knows cases by their folder: bench/<case>/case.mjs exports a case of lib/harness.mjs, or one that measures itself by
// `measure({ server, option })` -> `{ rows, failures }`, with `needsServer: false` if it needs no PostgreSQL. Only the
// case knows what it measures and checks; the format of the results is the one below. `RESULTS=<folder>` writes there
// instead. Use it for a try with few rows, whose figures must not be published.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "../scripts/build.mjs";
import { bundleSizes, packageSizes } from "../scripts/sizes.mjs";
import { startServers } from "../tests/servers/index.mjs";
import { load, machine, versions } from "./lib/environment.mjs";
import { measure } from "./lib/harness.mjs";
import { textOf } from "./lib/results.mjs";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const option = (name) =>
  process.argv
    .slice(2)
    .find((argument) => argument.startsWith(`${name}=`))
    ?.slice(name.length + 1) ?? process.env[name];
const name = option("CASE") ?? "stream";

if (!existsSync(here(`${name}/case.mjs`))) {
  console.error(`No benchmark is called "${name}". Cases are the folders of bench/ that hold a case.mjs.`);
  process.exit(2);
}
const installed = spawnSync("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error"], {
  cwd: here("."),
  stdio: ["ignore", 2, 2],
});
if (installed.status !== 0) process.exit(1);
await build();
const results = path.resolve(option("RESULTS") ?? here("results"));
mkdirSync(results, { recursive: true });
write("size", { ...(await bundleSizes()), ...packageSizes() });

const { default: bench } = await import(`./${name}/case.mjs`);
const needsServer = bench.needsServer ?? true;
const { servers, stop } = needsServer ? await startServers({ majors: [18] }) : { servers: [], stop: () => {} };
try {
  const before = load();
  const given = { server: servers[0], option };
  const { rows, failures } = await (bench.measure ? bench.measure(given) : measure(name, bench, given));
  const result = {
    case: name,
    date: new Date().toISOString(),
    machine: { ...machine(), load_before: before, load_after: load() },
    versions: versions(servers[0]),
    rows,
  };
  write(name, result);
  print(rows);
  for (const failure of failures) console.log(`NOT REACHED: ${failure}`);
} finally {
  await stop();
}

function write(what, content) {
  writeFileSync(path.join(results, `${what}.json`), textOf(content));
}

function print(rows) {
  console.log(["shape", "library", "runtime", "metric", "median", "min", "max", "trials"].join("\t"));
  const number = (value) => (Math.abs(value) < 10 ? value.toFixed(3) : value.toFixed(1));
  for (const row of rows)
    console.log(
      [
        row.shape,
        row.library,
        row.runtime,
        [row.metric, row.config?.format, row.config?.execution, row.config?.part].filter(Boolean).join(" "),
        number(row.median),
        number(row.min),
        number(row.max),
        row.trials,
      ].join("\t"),
    );
}
