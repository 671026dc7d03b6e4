// What bundlers make of the tarball, with the settings of docs/bundlers.md: each builds in an empty project, and the
// bundle runs where it belongs, against a server. Wrong settings must give a helpful error.
import { execFile } from "node:child_process";
import { copyFileSync, mkdirSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { nodeResolve } from "@rollup/plugin-node-resolve";
import { build as esbuild } from "esbuild";
import { rolldown } from "rolldown";
import { rollup } from "rollup";
import { build as vite } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import webpack from "webpack";
import { nodeBinary } from "../../scripts/node/index.mjs";
import { testServers } from "../integration/servers.ts";
import { startWorker } from "../workerd/host.mjs";
import { Project, root } from "./project.ts";

const url = `${testServers().servers[0]!.url.split("?")[0]}?sslmode=disable`;
const env = { ...process.env, URL: url };
const ROW = '{"a":1}\n';
/** A Worker. It returns its errors as text, since each runtime has an error page of its own. */
const WORKER = `
  import { createClient } from "pgz-edge";
  export async function answer(url) {
    try {
      return await createClient(url).respond("select 1 as a", { closeWhenDone: true });
    } catch (error) {
      return new Response(error.code + ": " + error.message, { status: 500 });
    }
  }
  export default { fetch: (request, env) => answer(env.URL) };`;
const SCRIPT = `
  import { answer } from "./worker.mjs";
  answer(process.env.URL).then((response) => response.text()).then((text) => process.stdout.write(text));`;
const CLOUDFLARE = /^cloudflare:/;
const WASM = /pgz_edge_bg\.wasm$/;
let project: Project;
let entry: string;

beforeAll(() => {
  project = new Project();
  project.link("@opentelemetry/api");
  entry = project.write("worker.mjs", WORKER);
  project.write("script.mjs", SCRIPT);
});
afterAll(() => project.remove());

/** Puts the wasm beside the bundle, where `./pgz_edge_bg.wasm` finds it. */
function besideWasm(folder: string): string {
  mkdirSync(project.at(folder), { recursive: true });
  copyFileSync(project.at("node_modules/pgz-edge/dist/pgz_edge_bg.wasm"), project.at(folder, "pgz_edge_bg.wasm"));
  return project.at(folder, "worker.mjs");
}

async function inWorkerd(file: string, compatibilityFlags: string[] = []): Promise<string> {
  const worker = await startWorker({ entry: file, options: { bindings: { URL: url }, compatibilityFlags } });
  try {
    return await (await fetch(worker.url)).text();
  } finally {
    await worker.stop();
  }
}

/** Runs the bundle in a folder without node_modules. */
async function inNode(file: string): Promise<string> {
  return (await promisify(execFile)(process.execPath, [file], { env, cwd: path.dirname(file) })).stdout;
}

function byWebpack(settings: webpack.Configuration): Promise<void> {
  return new Promise((resolve, reject) => {
    webpack({ mode: "production", context: project.folder, ...settings }, (error, stats) => {
      if (error || stats!.hasErrors() || stats!.hasWarnings()) reject(error ?? new Error(stats!.toString()));
      else resolve();
    });
  });
}

test("webpack builds for Workers", async () => {
  const file = besideWasm("webpack");
  await byWebpack({
    entry,
    target: "webworker",
    output: { path: path.dirname(file), filename: "worker.mjs", module: true, library: { type: "module" } },
    experiments: { outputModule: true },
    resolve: { conditionNames: ["workerd", "..."] },
    externalsType: "module",
    externals: [
      CLOUDFLARE,
      ({ request }, done) => (WASM.test(request!) ? done(undefined, "./pgz_edge_bg.wasm") : done()),
    ],
  });
  expect(await inWorkerd(file)).toBe(ROW);
});

test("webpack builds for Node", async () => {
  const file = project.at("webpack-node", "script.cjs");
  await byWebpack({
    entry: project.at("script.mjs"),
    target: "node",
    output: { path: path.dirname(file), filename: "script.cjs" },
  });
  expect(await inNode(file)).toBe(ROW);
});

test.each(["rollup", "rolldown"])("%s builds for Workers", async (name) => {
  const file = besideWasm(name);
  const external = [CLOUDFLARE, WASM];
  const output = {
    file,
    format: "es" as const,
    paths: { [project.at("node_modules/pgz-edge/dist/pgz_edge_bg.wasm")]: "./pgz_edge_bg.wasm" },
  };
  if (name === "rollup")
    await (
      await rollup({ input: entry, external, plugins: [nodeResolve({ exportConditions: ["workerd"] })] })
    ).write(output);
  else
    await (
      await rolldown({ input: entry, external, resolve: { conditionNames: ["workerd", "import"] } })
    ).write(output);
  expect(await inWorkerd(file)).toBe(ROW);
});

test("Vite builds for Workers with its option ssr", async () => {
  const file = besideWasm("vite");
  await vite({
    root: project.folder,
    configFile: false,
    logLevel: "error",
    ssr: { target: "webworker", noExternal: true, resolve: { conditions: ["workerd"] } },
    build: {
      ssr: entry,
      outDir: path.dirname(file),
      emptyOutDir: false,
      rollupOptions: {
        external: [CLOUDFLARE, WASM],
        output: {
          entryFileNames: "worker.mjs",
          paths: { [project.at("node_modules/pgz-edge/dist/pgz_edge_bg.wasm")]: "./pgz_edge_bg.wasm" },
        },
      },
    },
  });
  expect(await inWorkerd(file)).toBe(ROW);
});

test("a Worker that was bundled without the condition says what to set", async () => {
  const outDir = project.at("vite-wrong");
  await vite({
    root: project.folder,
    configFile: false,
    logLevel: "error",
    ssr: { target: "webworker", noExternal: true },
    build: { ssr: entry, outDir, rollupOptions: { output: { entryFileNames: "worker.mjs" } } },
  });
  const said = /^UNSUPPORTED_ON_RUNTIME: .*the bundler has to resolve the condition "workerd" \(docs\/bundlers\.md\)/;
  expect(await inWorkerd(path.join(outDir, "worker.mjs"))).toMatch(said);
  const file = project.at("esbuild-node", "worker.mjs");
  await esbuild({ entryPoints: [entry], bundle: true, platform: "node", format: "esm", outfile: file });
  expect(await inWorkerd(file, ["nodejs_compat"])).toMatch(said);
});

test.each(["esm", "cjs"] as const)("esbuild builds for Node as %s", async (format) => {
  const outfile = project.at(`esbuild-${format}`, format === "esm" ? "script.mjs" : "script.cjs");
  const entryPoints = [project.at("script.mjs")];
  await esbuild({ entryPoints, bundle: true, platform: "node", format, outfile, logLevel: "error" });
  expect(await inNode(outfile)).toBe(ROW);
});

test.each([
  ["as it is", process.execPath, []],
  ["where it cannot load modules", process.execPath, ["--no-experimental-require-module"]],
  ["22", nodeBinary(22), []],
  ["24", nodeBinary(24), []],
])("require in Node %s", async (_, node, flags) => {
  const file = project.write(
    "require.cjs",
    `const { connect, PgzError } = require("pgz-edge");
     const { SQLSTATES } = require("pgz-edge/sqlstates");
     const { installRuntime } = require("pgz-edge/slim");
     const { openTelemetry } = require("pgz-edge/otel");
     connect(process.env.URL).then(async (db) => {
       const error = await db.query("select 1 / 0").catch((error) => error);
       await db.close();
       console.log(error.code === SQLSTATES.division_by_zero, error instanceof PgzError, typeof installRuntime, typeof openTelemetry);
     });`,
  );
  const { stdout } = await promisify(execFile)(node, [...flags, file], { env });
  expect(stdout).toBe("true true function function\n");
});

test("Jest runs a test that uses the driver", async () => {
  project.write(
    "jest/db.test.js",
    `const { connect } = require("pgz-edge");
     test("a query", async () => {
       const db = await connect(process.env.URL);
       expect((await db.query("select 1 as a")).rows).toEqual([{ a: 1 }]);
       await db.close();
     });`,
  );
  project.write("jest/package.json", "{}");
  const jest = path.join(root, "node_modules/jest/bin/jest.js");
  const { stderr } = await promisify(execFile)(process.execPath, [jest, "--rootDir", project.at("jest")], { env });
  expect(stderr).toContain("1 passed, 1 total");
});
