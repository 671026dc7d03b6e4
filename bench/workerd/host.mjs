// A workerd with one library's Worker, in a process of its own: `host.mjs <options>`, with `{ library, bindings,
// inspectorPort, folder, compatibilityFlags }`. That folder of bench/ has the Workers. It reports its address and
// workerd's pid when asked.
import { build } from "esbuild";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { Miniflare } from "miniflare";
import { serve } from "../lib/child.mjs";

const {
  library,
  bindings,
  inspectorPort,
  folder: workers = "workerd",
  compatibilityFlags,
} = JSON.parse(process.argv[2]);
const at = (name) => fileURLToPath(new URL(name, import.meta.url));
const worker = library.split(" ")[0].replace(".", "-");

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
await build({
  entryPoints: [at(`../${workers}/${worker}.mjs`)],
  outfile: scriptPath,
  bundle: true,
  format: "esm",
  target: "es2022",
  conditions: ["workerd"],
  external: ["cloudflare:*", "node:*"],
  loader: { ".wasm": "copy" },
  logLevel: "warning",
  ...(worker === "pg" ? commonJs : {}),
});
const miniflare = new Miniflare({
  host: "127.0.0.1",
  port: 0,
  inspectorPort,
  modules: true,
  scriptPath,
  modulesRoot: folder,
  modulesRules: [{ type: "CompiledWasm", include: ["**/*.wasm"] }],
  compatibilityDate: "2026-04-01",
  compatibilityFlags: compatibilityFlags ?? (worker === "pgz-edge" ? [] : ["nodejs_compat"]),
  bindings: { CURSOR: library.endsWith("cursor"), ...bindings },
});
const address = (await miniflare.ready).href;
const inspector = inspectorPort === undefined ? undefined : (await miniflare.getInspectorURL()).href;
serve(
  async () => ({ address, pid: workerd(), inspector }),
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
