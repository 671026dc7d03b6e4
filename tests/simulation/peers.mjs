// Runs the same simulated sessions over this driver, pg and postgres.js, and prints a table of what each loses, hangs
// or mixes up:
//
//   node tests/simulation/peers.mjs                       2,000 sessions, from seed 1
//   SESSIONS=500 FIRST=7 node tests/simulation/peers.mjs
//   DRIVER=pgz-edge node tests/simulation/peers.mjs       one column alone; the others are pg and postgres.js
//   DETAILS=1 node tests/simulation/peers.mjs             each finding on standard error
//   SEED=7 DRIVER=pg node tests/simulation/peers.mjs      one session again: its program, its timeline, its findings
//   POSTGRES_JS=/some/node_modules/postgres               a copy other than that of bench/ or of the root
//
// Nothing here touches a real socket: both packages are bundled with the simulator's `node:net`. pkg/ must exist
// (`scripts/build`). peers/real.mjs shows the findings on a real server.
import { execSync } from "node:child_process";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const { env } = process;

/** What a reader of the table has to know. */
const NOTES = `- A call has 90 virtual seconds, and 60 more for each time that the process stands still; so has an end when all calls
  of its user are over. A kernel that gives up on a silent peer after a quarter of an hour is not modelled: what waits
  for it counts as left behind.
- Limits: pgz-edge \`timeout\`, pg \`query_timeout\`, \`connectionTimeoutMillis\` and \`statement_timeout\`, postgres.js
  \`connect_timeout\` and \`statement_timeout\`: it has no limit of a call. An abort is pgz-edge's \`signal\` and
  postgres.js's \`cancel()\`, whose documents say that it may hit another query; pg has none.
- Neither pg nor postgres.js resets what a borrower has set, and neither says that it does.
- Servers that draw SCRAM take MD5 here: pg's SCRAM waits for WebCrypto, which does not rest with the microtasks.
- Tasks on a single pg Client take turns, as its documents ask; its \`error\` events have listeners; a transaction that
  fails is rolled back; a client that failed by anything but the server's answer is released with its error.
- postgres.js's question for the types of arrays is answered with int4's alone.`;

// Two tasks may wrongly use one Client of pg at the same time. The outcome shows it, so the warning is not needed.
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
  // Sessions collect uncaught errors, so this error would be lost too.
  console.error(error);
  process.exit(2);
}

async function table(first, count) {
  const drivers = env.DRIVER ? [env.DRIVER] : DRIVERS;
  const seeds = Array.from({ length: count }, (_, at) => first + at);
  const tallies = await compare(drivers, seeds, progress(count));
  const titles = {
    "pgz-edge": `pgz-edge ${versionOf(root)}`,
    pg: `pg ${versionOf(packageAt("pg"))}, pg-cursor ${versionOf(packageAt("pg-cursor"))}`,
    "postgres.js": `postgres.js ${versionOf(postgresJs)}`,
  };
  console.log(`${tableOf(tallies, titles)}\n\n${where(first, count, tallies)}\n\n${NOTES}`);
  process.exit(0);
}

function where(first, count, tallies) {
  const seconds = [...tallies.values()].reduce((sum, tally) => sum + tally.seconds, 0);
  const commit = execSync("git describe --always --dirty", { cwd: root, encoding: "utf8" }).trim();
  return (
    `${new Date().toISOString().slice(0, 10)}, commit ${commit}, seeds ${first} to ${first + count - 1}, ` +
    `Node ${process.versions.node}, ${os.cpus()[0].model}, ${os.platform()} ${os.arch()}, ${seconds.toFixed(0)} s.`
  );
}

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
    ignoreAnnotations: true, // package.json says that no file has side effects; patches.ts has some
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
  const simulation = await import(pathToFileURL(outfile).href);
  rmSync(outfile);
  return simulation;
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
