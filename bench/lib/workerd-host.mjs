// A workerd with one library's Worker, in a process of its own: `workerd-host.mjs <options>`. The Worker is
// `worker(library, module)` of the case's worker.mjs. It reports its address and workerd's pid when asked.
import { build } from "esbuild";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { Miniflare } from "miniflare";
import { serve } from "./child.mjs";

const { name, library, module, bindings, inspectorPort, compatibilityFlags } = JSON.parse(process.argv[2]);
const bench = fileURLToPath(new URL("..", import.meta.url));
/** The module of each library in a Worker, if the case names no other. */
const modules = { "pgz-edge": "../dist/workerd.js", "postgres.js": "postgres", pg: "pg" };
const peer = library.split(" ")[0];
const imported = module ?? modules[peer];

/**
 * For CommonJS packages that require Node's modules: esbuild leaves a `require`, which a module in workerd must create.
 */
const commonJs = {
  external: ["cloudflare:*", "node:*", ...builtinModules],
  banner: { js: 'import { createRequire } from "node:module"; const require = createRequire("file:///worker.js");' },
};

const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-bench-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
const scriptPath = path.join(folder, "worker.js");
const contents = `
  import { worker } from "./${name}/worker.mjs";
  ${imported ? `import * as module from "${imported}";` : "const module = {};"}
  export default worker("${library}", module);`;
await build({
  stdin: { contents, resolveDir: bench },
  outfile: scriptPath,
  bundle: true,
  format: "esm",
  target: "es2022",
  conditions: ["workerd"],
  external: ["cloudflare:*", "node:*"],
  loader: { ".wasm": "copy" },
  logLevel: "warning",
  ...(peer === "pg" ? commonJs : {}),
});
const miniflare = new Miniflare({
  host: "127.0.0.1",
  port: 0,
  inspectorPort,
  modules: true,
  scriptPath,
  modulesRoot: folder,
  modulesRules: [{ type: "CompiledWasm", include: ["**/*.wasm"] }],
  compatibilityDate: "2026-11-17",
  compatibilityFlags: compatibilityFlags ?? (["pgz-edge", "empty"].includes(peer) ? [] : ["nodejs_compat"]),
  bindings,
});
const address = (await miniflare.ready).href;
const inspector = inspectorPort === undefined ? undefined : (await miniflare.getInspectorURL()).href;
serve(
  () => ({ address, pid: workerd(), inspector }),
  () => miniflare.dispose(),
);

/** The workerd among this process's children. */
function workerd() {
  const parent = (pid) => Number(/^PPid:\s+(\d+)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]);
  const named = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && commandName(pid) === "workerd");
  const [pid] = named.filter((one) => parent(one) === process.pid);
  if (pid === undefined) throw new Error("no workerd among the children of this process");
  return Number(pid);
}

function commandName(pid) {
  try {
    return readFileSync(`/proc/${pid}/comm`, "utf8").trim();
  } catch {
    return ""; // the process has ended meanwhile
  }
}
