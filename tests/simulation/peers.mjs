// The same simulated sessions over this driver, pg and postgres.js, as one table of what each loses, hangs or mixes:
//
//   node tests/simulation/peers.mjs                       2,000 sessions, from seed 1
//   SESSIONS=500 FIRST=7 node tests/simulation/peers.mjs
//   SEED=7 DRIVER=pg node tests/simulation/peers.mjs      one session again: its program, its timeline, what was found
//   POSTGRES_JS=/some/node_modules/postgres               another copy than that of bench/ or of the root
//
// Nothing here touches a real socket: both packages are bundled with a `node:net` of the simulator's. pkg/ must be there
// (`scripts/build`).
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const { env } = process;
// Two tasks may use one Client of pg's at once where they must not: it is told by what happens, not by a warning.
process.noDeprecation = true;

const root = fileURLToPath(new URL("../..", import.meta.url));
const postgresJs = [env.POSTGRES_JS, path.join(root, "bench/node_modules/postgres"), packageAt("postgres")].find(
  (folder) => folder && existsSync(folder),
);
const { compare, draw, play, tableOf, DRIVERS, ROWS } = await loaded();

try {
  if (env.SEED === undefined) await table(Number(env.FIRST ?? 1), Number(env.SESSIONS ?? 2_000));
  else await again(Number(env.SEED), env.DRIVER ?? DRIVERS[0]);
} catch (error) {
  // Sessions collect what nobody catches, so this would be lost too.
  console.error(error);
  process.exit(2);
}

async function table(first, count) {
  const tallies = await compare(
    Array.from({ length: count }, (_, at) => first + at),
    progress(count),
  );
  const titles = {
    "pgz-edge": "pgz-edge",
    pg: `pg ${versionOf(packageAt("pg"))}`,
    "postgres.js": `postgres.js ${versionOf(postgresJs)}`,
  };
  console.log(tableOf(tallies, titles));
  const [{ model }] = os.cpus();
  const seconds = DRIVERS.reduce((sum, driver) => sum + tallies[driver].seconds, 0);
  console.log(
    `\n${new Date().toISOString().slice(0, 10)}, seeds ${first} to ${first + count - 1}, Node ${process.versions.node}, ` +
      `pg-cursor ${versionOf(packageAt("pg-cursor"))}, ${model}, ${os.platform()}, ${seconds.toFixed(0)} s.`,
  );
  process.exit(0);
}

/** Every finding on standard error, where DETAILS is set. */
function progress(count) {
  let last = performance.now();
  return (driver, seed, findings) => {
    if (env.DETAILS)
      for (const { row, text } of findings) console.error(`${driver} seed ${seed} ${row}: ${text.split("\n")[0]}`);
    if (performance.now() - last < 10_000) return;
    last = performance.now();
    console.error(`seed ${seed}, ${count} sessions in all`);
  };
}

async function again(seed, driver) {
  const program = draw(seed);
  const { findings, lines } = await play(program, driver, true);
  console.log(JSON.stringify(program, undefined, 2));
  console.log(lines.join("\n"));
  for (const { row, text } of findings) console.log(`FOUND of seed ${seed}, ${driver}: ${ROWS[row]}: ${text}`);
  process.exit(findings.length ? 1 : 0);
}

async function loaded() {
  const outfile = path.join(root, `.cache/simulation/peers-${process.pid}.mjs`);
  mkdirSync(path.dirname(outfile), { recursive: true });
  await build({
    absWorkingDir: root,
    entryPoints: [fileURLToPath(new URL("peers.ts", import.meta.url))],
    outfile,
    bundle: true,
    ignoreAnnotations: true, // package.json says that no file has side effects; patches.ts has
    format: "esm",
    platform: "node",
    target: "node20",
    loader: { ".wasm": "binary" },
    logLevel: "warning",
    sourcemap: "inline",
    alias: { postgres: path.join(postgresJs, "src/index.js") },
    external: ["pg-native"],
    banner: { js: `import { createRequire } from "node:module"; const require = createRequire(import.meta.url);` },
    plugins: [{ name: "net", setup: withOwnNet }],
  });
  return import(pathToFileURL(outfile).href);
}

function withOwnNet(all) {
  const own = fileURLToPath(new URL("peers/net.ts", import.meta.url));
  all.onResolve({ filter: /^(node:)?net$/ }, () => ({ path: own }));
}

function packageAt(name) {
  return path.join(root, "node_modules", name);
}

function versionOf(folder) {
  return JSON.parse(readFileSync(path.join(folder, "package.json"), "utf8")).version;
}
