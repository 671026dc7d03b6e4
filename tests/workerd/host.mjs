// A Worker of the tests in workerd, in a process of its own.
//
//   const worker = await startWorker({ entry, options });   // { url, stop, pid } (its process; workerd is a child)
//
// `options.tail` is the script of a second Worker, which gets the traces of the first one, and is its binding TAIL.
// `outbound: { entry, options }` is a second Worker, where each socket of the first one ends (its handler `connect`).
//
// `entry` is a TypeScript file, bundled here, with other packages for those that `alias` names. `built` in its place is
// a folder with what wrangler has bundled, which runs as it is. `options` go to Miniflare. `which` picks the workerd
// (scripts/node); without it PGZ_TEST_WORKERD does, which tests/run.mjs sets for a suite. workerd takes the test CA
// from NODE_EXTRA_CA_CERTS, which is read when a process starts; and miniflare's Hyperdrive proxy has no error handlers
// and would take its process along, so it is not the test's process: exactly those errors are dropped.
import { fork } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { workerd } from "../../scripts/node/index.mjs";

const self = fileURLToPath(import.meta.url);
const REQUIRE = 'import { createRequire as __of } from "node:module"; const require = __of("/");';

export async function startWorker({
  entry,
  built,
  alias = {},
  caFile,
  options = {},
  outbound,
  which = process.env.PGZ_TEST_WORKERD,
}) {
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-workerd-"));
  const bundled = async (entryPoint, name, { compatibilityFlags = [] }) => {
    const outfile = path.join(folder, name);
    const { build } = await import("esbuild");
    await build({
      entryPoints: [entryPoint],
      outfile,
      bundle: true,
      format: "esm",
      target: "es2022",
      conditions: ["workerd"],
      external: ["cloudflare:*", "node:*", ...builtinModules],
      alias,
      loader: { ".wasm": "copy" },
      // For packages that are CommonJS and need Node's modules, which the flag nodejs_compat brings.
      banner: { js: compatibilityFlags.includes("nodejs_compat") ? REQUIRE : "" },
      logLevel: "warning",
    });
    return outfile;
  };
  const scriptPath = built ? undefined : await bundled(entry, "worker.js", options);
  const second = outbound && {
    ...outbound.options,
    scriptPath: await bundled(outbound.entry, "outbound.js", outbound.options),
  };
  const { execPath, miniflare } = workerd(which);
  // Miniflare leaves files in TMPDIR: its `dispose` does not wait until it has removed them.
  const env = { ...process.env, TMPDIR: folder, ...(caFile === undefined ? {} : { NODE_EXTRA_CA_CERTS: caFile }) };
  const child = fork(self, { env, execPath, detached: true, execArgv: [] });
  const gone = new Promise((resolve) => child.once("exit", resolve)).then(() =>
    rmSync(folder, { recursive: true, force: true }),
  );
  const stop = () => {
    if (child.connected) child.disconnect();
    return gone;
  };
  child.send({ folder, scriptPath, built, options, outbound: second, miniflare });
  const answer = await new Promise((resolve) => {
    child.once("message", resolve);
    child.once("exit", (code) => resolve({ failure: `workerd's process ended with status ${code}` }));
  });
  if (answer.failure === undefined) return { url: answer.url, stop, pid: child.pid };
  await stop();
  throw new Error(answer.failure);
}

async function run({ folder, scriptPath, built, options, outbound, miniflare: file }) {
  let miniflare;
  let isEnding = false;
  const end = async (status) => {
    // A Miniflare that has not started cannot be disposed of: its error would be thrown here again and again.
    if (isEnding) process.exit(1);
    isEnding = true;
    await miniflare?.dispose();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 }); // the parent does too, unless it has ended
    process.exit(status);
  };
  process.once("disconnect", () => void end(0));
  process.on("uncaughtException", (error) => {
    if (["ECONNRESET", "ECONNREFUSED", "EPIPE", "ERR_STREAM_DESTROYED"].includes(error.code)) return;
    console.error(error);
    void end(1);
  });
  const module = await import(pathToFileURL(file).href);
  const { Miniflare, supportedCompatibilityDate } = module.default ?? module;
  const { tail, ...others } = options;
  const bundle = {
    modules: true,
    modulesRoot: built ?? path.dirname(scriptPath),
    modulesRules: [{ type: "CompiledWasm", include: ["**/*.wasm"] }],
    // As a new Worker has it. From 2026-08-04 on nodejs_compat is on unless a flag turns it off.
    compatibilityDate: supportedCompatibilityDate,
  };
  const worker = { ...bundle, ...(built ? { modules: modulesOf(built) } : { scriptPath }), ...others };
  const tailed = tail && [
    { ...worker, name: "main", streamingTails: ["tail"], serviceBindings: { TAIL: "tail" } },
    {
      name: "tail",
      modules: true,
      script: tail,
      compatibilityDate: supportedCompatibilityDate,
      compatibilityFlags: ["experimental"],
    },
  ];
  const workers = outbound
    ? [
        { ...worker, name: "main", outboundService: "outbound" },
        { ...bundle, ...outbound, name: "outbound" },
      ]
    : tailed;
  miniflare = new Miniflare({ host: "127.0.0.1", port: 0, ...(workers ? { workers } : worker) });
  const url = (await miniflare.ready).href;
  process.send({ url });
}

/**
 * The modules are named one by one, because Miniflare cannot find modules whose import is computed. The first is the
 * entry.
 */
function modulesOf(folder) {
  const wasm = readdirSync(folder).filter((name) => name.endsWith(".wasm"));
  return ["worker.js", ...wasm].map((name) => ({
    type: name.endsWith(".wasm") ? "CompiledWasm" : "ESModule",
    path: path.join(folder, name),
  }));
}

if (process.send && import.meta.url === pathToFileURL(process.argv[1]).href) {
  process.once("message", (task) => run(task).catch((error) => process.send({ failure: error.stack })));
}
