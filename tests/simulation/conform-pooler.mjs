// Compares the model of PgBouncer with real ones (server/pooler-conformance.ts): each script runs on both, and every
// difference is printed. VERSIONS="1.18 1.24", ONLY="a part of the name".
//
// It starts a server of the model's version. The last line counts.
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { logFile, startServers } from "../servers/index.mjs";
import { startPgBouncer } from "../servers/pgbouncer.mjs";

const { env } = process;
const root = fileURLToPath(new URL("../..", import.meta.url));
const outfile = path.join(root, ".cache/simulation", `pooler-${process.pid}.mjs`);
await build({
  absWorkingDir: root,
  entryPoints: [fileURLToPath(new URL("server/pooler-conformance.ts", import.meta.url))],
  outfile,
  bundle: true,
  ignoreAnnotations: true,
  format: "esm",
  platform: "node",
  target: "node20",
  logLevel: "warning",
});
const { onModel, onReal, scripts } = await import(pathToFileURL(outfile).href);

const { servers, stop } = await startServers({ majors: [18], databaseUrl: "" });
const [server] = servers;
/** Milliseconds of a script that only a hang reaches: on two cores the longest takes less than a second. */
const LONGEST = 120_000;
const counts = { equal: 0, different: 0, messages: 0 };
try {
  for (const version of (env.VERSIONS ?? "1.18 1.24").split(" "))
    for (const script of scripts) if (script.name.includes(env.ONLY ?? "")) await conform(version, script);
} finally {
  await stop();
}
console.log(`[simulation] ${counts.messages} messages of PgBouncer compared`);
console.log(`${counts.equal} passed, ${counts.different} failed`);
process.exit(counts.different ? 1 : 0);

async function conform(version, script) {
  const { poolSize = 4, settings = "" } = script.wants ?? {};
  const own = version === "1.24" ? settings : settings.replace(/^max_prepared.*$/m, "");
  const pooler = await startPgBouncer({
    server,
    log: logFile(`conform-pooler-${version}`),
    poolSize,
    settings: own,
    newer: version === "1.24",
  });
  try {
    const { port, password } = pooler.descriptor;
    const late = new Promise((resolve) => setTimeout(() => resolve(["the real one is stuck"]), LONGEST).unref());
    const model = await onModel(script, version, 18);
    const real = await Promise.race([onReal(script, version, { port, password }, model.heard), late]);
    compare(`${script.name} on ${version}`, model.said, real);
  } finally {
    await pooler.stop();
  }
}

/** Prints the messages around the first difference. A test run repeats its two sides at its end. */
function compare(what, model, real) {
  counts.messages += real.length;
  const at = Array.from({ length: Math.max(model.length, real.length) }).findIndex((_, at) => model[at] !== real[at]);
  if (at < 0) return void counts.equal++;
  counts.different++;
  const from = Math.max(0, at - Number(env.CONTEXT ?? 2));
  const first = [model[at], real[at]].map((line) => line ?? "no more messages");
  console.log(`[simulation] FAILED ${what}: model: ${first[0]}, PgBouncer: ${first[1]}`);
  for (const line of real.slice(from, at)) console.log(`    both:  ${line}`);
  for (const line of model.slice(at, at + Number(env.AFTER ?? 3))) console.log(`    model: ${line}`);
  for (const line of real.slice(at, at + Number(env.AFTER ?? 3))) console.log(`    real:  ${line}`);
}
