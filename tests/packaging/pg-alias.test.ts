// Each line of docs/pg.md's "For libraries that import pg themselves", with a library that says `require("pg")`. The
// library is installed from a registry of our own, as from npm's, or bundled; then it runs.
import { execFile, execFileSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";
import { build as esbuild } from "esbuild";
import ts from "typescript";
import { build as vite } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import webpack from "webpack";
import { npmPack, ownCaches } from "../../scripts/own-caches.mjs";
import { testServers } from "../integration/servers.ts";
import { bin, root } from "./project.ts";

const url = `${testServers().servers[0]!.url.split("?")[0]}?sslmode=disable`;
const ANSWER = '[{"a":1}] true pgz';
/** A library that knows only pg. */
const LIBRARY = `
  const pg = require("pg");
  module.exports = async (url, Result = pg.Result) => {
    const pool = new pg.Pool({ connectionString: url });
    const result = await pool.query("select $1::int4 as a", [1]);
    await pool.end();
    return [JSON.stringify(result.rows), result instanceof Result, pg.isReal ? "pg" : "pgz"].join(" ");
  };`;
/** A library that also imports a file of pg, as pg-cursor does. */
const DEEP = 'module.exports = (url) => require("./index.js")(url, require("pg/lib/result.js"));';
const APP = 'require("old-library/deep.js")(process.env.URL).then(console.log);';
const module = (library: string) => `import ask from "${library}"; ask(process.env.URL).then(console.log);`;
const manifest = (name: string, version: string, more: object = {}) => JSON.stringify({ name, version, ...more });

let folder: string;
let registry: Server;
let npm: NodeJS.ProcessEnv;
const at = (...names: string[]) => path.join(folder, ...names);
function write(name: string, text: string): string {
  mkdirSync(path.dirname(at(name)), { recursive: true });
  writeFileSync(at(name), text);
  return at(name);
}

beforeAll(async () => {
  folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-alias-"));
  write("packages/old-library/package.json", manifest("old-library", "1.0.0", { dependencies: { pg: "^8.11.0" } }));
  write("packages/old-library/index.js", LIBRARY);
  write("packages/old-library/deep.js", DEEP);
  write("packages/old-library/which.js", 'module.exports = require("pg").isReal ? "pg" : "pgz";');
  write("packages/pg/package.json", manifest("pg", "8.23.1"));
  write("packages/pg/index.js", "exports.isReal = true;");
  const tarballs = new Map<string, Buffer>();
  for (const source of [root, path.join(root, "js/adapters/pg-alias"), at("packages/old-library"), at("packages/pg")]) {
    const packed = npmPack(source, folder);
    tarballs.set(packed.name, readFileSync(at(packed.filename)));
  }
  registry = createServer(({ url: asked, headers }, response) => {
    const [, name = "", isTarball] = /^\/([\w-]+)(\.tgz)?/.exec(asked!) ?? [];
    const tarball = tarballs.get(name);
    if (!tarball) return void response.writeHead(404).end("{}");
    if (isTarball) return void response.end(tarball);
    const text = execFileSync("tar", ["-xzO", "package/package.json"], { input: tarball, encoding: "utf8" });
    const described = JSON.parse(text) as { version: string };
    const { version } = described;
    const dist = { tarball: `http://${headers.host}/${name}.tgz` };
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify({ name, "dist-tags": { latest: version }, versions: { [version]: { ...described, dist } } }),
    );
  });
  await new Promise<void>((resolve) => registry.listen(0, "127.0.0.1", resolve));
  const address = `http://127.0.0.1:${(registry.address() as AddressInfo).port}/`;
  npm = { ...process.env, URL: url, ...ownCaches(at("caches"), { registry: address }) };
});
afterAll(() => {
  registry.close();
  rmSync(folder, { recursive: true, force: true });
});

async function run(project: string, command: string, ...parameters: string[]): Promise<string> {
  const { stdout } = await promisify(execFile)(command, parameters, { cwd: at(project), env: npm });
  return stdout.trim();
}

/** The lines that docs/pg.md says to write. */
const ALIAS = "npm:pgz-edge-pg@^8.23.0";
const dependencies = { pg: ALIAS, "pgz-edge": "*", "old-library": "1.0.0" };
const install = ["install", "--no-audit", "--no-fund", "--loglevel=error"];

/** The application, with pg's name for the facade, installed by npm. */
async function installed(name: string): Promise<string> {
  write(`${name}/package.json`, manifest(name, "1.0.0", { dependencies, overrides: { pg: ALIAS } }));
  write(`${name}/app.cjs`, APP);
  await run(name, "npm", ...install);
  return name;
}

test("npm: an alias and an override, run in Node, with and without modules by require, in Deno and in Bun", async () => {
  const project = await installed("by-npm");
  expect(await run(project, process.execPath, "app.cjs")).toBe(ANSWER);
  expect(await run(project, process.execPath, "--no-experimental-require-module", "app.cjs")).toBe(ANSWER);
  expect(await run(project, bin("deno"), "run", "-A", "app.cjs")).toBe(ANSWER);
  expect(await run(project, bin("bun"), "app.cjs")).toBe(ANSWER);
  write(`${project}/app.mjs`, 'import pg, { Pool } from "pg"; console.log(pg.Pool === Pool, pg.native);');
  expect(await run(project, process.execPath, "app.mjs")).toBe("true null");
  write(
    `${project}/facade.cjs`,
    'const { Client, default: pg } = require("pgz-edge/pg"); console.log(pg.Client === Client, require("pg/types") === require("pg").types);',
  );
  expect(await run(project, process.execPath, "--no-experimental-require-module", "facade.cjs")).toBe("true true");
  // Without the override the library would get pg itself.
  write("without/package.json", manifest("without", "1.0.0", { dependencies: { "old-library": "1.0.0" } }));
  await run("without", "npm", ...install);
  expect(await run("without", process.execPath, "-p", 'require("pg").isReal')).toBe("true");
});

test("knex, which is CommonJS, over the package that stands for pg, where Node cannot load modules by require", async () => {
  const project = await installed("by-knex");
  // It must look as if installed here: through a link, Node would look for pg in this repository.
  for (const name of readdirSync(path.join(root, "node_modules")))
    if (!name.startsWith(".") && !existsSync(at(project, "node_modules", name)))
      symlinkSync(path.join(root, "node_modules", name), at(project, "node_modules", name));
  write(
    `${project}/knex.cjs`,
    `const knex = require("knex")({ client: "pg", connection: process.env.URL, pool: { min: 0, max: 1 } });
     (async () => {
       await knex.raw("create temp table k_users (id serial, name text unique)");
       await knex("k_users").insert([{ name: "Ann" }, { name: "Bob" }]);
       const failed = await knex("k_users").insert({ name: "Ann" }).catch((error) => error);
       const names = await knex("k_users").orderBy("id").pluck("name");
       await knex.destroy();
       console.log(names.join(), failed.code, failed instanceof require("pg").DatabaseError, require("pg").isReal);
     })();`,
  );
  const flags = ["--preserve-symlinks", "--no-experimental-require-module"];
  expect(await run(project, process.execPath, ...flags, "knex.cjs")).toBe("Ann,Bob 23505 true undefined");
});

test("npm installs the packed files while no registry has them", async () => {
  const packed = (name: string) => readdirSync(folder).find((file) => new RegExp(`^${name}-\\d.*tgz$`).test(file))!;
  const [alias, driver] = [packed("pgz-edge-pg"), packed("pgz-edge")];
  expect(readFileSync(path.join(root, "docs/pg.md"), "utf8")).toContain(`tarballs/${alias}`);
  const files = { pg: `file:../${alias}`, "pgz-edge": `file:../${driver}`, "old-library": "1.0.0" };
  write("by-file/package.json", manifest("by-file", "1.0.0", { dependencies: files, overrides: { pg: "$pg" } }));
  write("by-file/app.cjs", APP);
  await run("by-file", "npm", ...install);
  expect(await run("by-file", process.execPath, "app.cjs")).toBe(ANSWER);
});

test("Bun's own install accepts the same lines", async () => {
  write("by-bun/package.json", manifest("by-bun", "1.0.0", { dependencies, overrides: { pg: ALIAS } }));
  write("by-bun/app.cjs", APP);
  await run("by-bun", bin("bun"), "install");
  expect(await run("by-bun", bin("bun"), "app.cjs")).toBe(ANSWER);
});

test("Deno's import map works for modules of the application", async () => {
  const imports = { pg: ALIAS, "pgz-edge": "npm:pgz-edge@*" };
  write("by-deno/deno.json", JSON.stringify({ imports }));
  write(
    "by-deno/app.ts",
    `import pg from "pg";
     const pool = new pg.Pool({ connectionString: Deno.env.get("URL") });
     console.log(JSON.stringify((await pool.query("select 1 as a")).rows));
     await pool.end();`,
  );
  expect(await run("by-deno", bin("deno"), "run", "-A", "app.ts")).toBe('[{"a":1}]');
  write("by-deno/library.ts", 'import which from "npm:old-library@1.0.0/which.js"; console.log(which);');
  expect(await run("by-deno", bin("deno"), "run", "-A", "library.ts")).toBe("pg");
});

/** Runs the bundle in a folder without node_modules. */
const answerOf = (file: string) => run("bundles", process.execPath, file);

let hasBundled = false;
/** Writes an application for which only its bundler knows that pg is the facade. All of them share one project. */
async function unaliased(name: string, library: string): Promise<string> {
  if (!hasBundled) {
    const own = { "pgz-edge": "*", "pgz-edge-pg": "^8.23.0", "old-library": "1.0.0" };
    write("bundled/package.json", manifest("bundled", "1.0.0", { dependencies: own }));
    await run("bundled", "npm", ...install);
    hasBundled = true;
  }
  return write(`bundled/${name}.mjs`, module(library));
}

const bundlers = ["esbuild", "vite", "webpack"] as const;
const aliases = [
  ["pgz-edge/pg", "old-library"],
  ["pgz-edge-pg", "old-library/deep.js"],
] as const;
test.each(bundlers.flatMap((bundler) => aliases.map((alias) => [bundler, ...alias] as const)))(
  "%s: %s in place of pg, for %s",
  async (bundler, alias, library) => {
    const application = `${bundler}-${alias === "pgz-edge/pg" ? "facade" : "package"}`;
    const entry = await unaliased(application, library);
    const name = `${application}.${bundler === "vite" ? "mjs" : "cjs"}`;
    await bundle[bundler]({ alias, entry, root: at("bundled"), outdir: at("bundles"), name });
    expect(await answerOf(name)).toBe(ANSWER);
  },
);

interface Bundle {
  readonly alias: string;
  readonly entry: string;
  readonly root: string;
  readonly outdir: string;
  readonly name: string;
}

const bundle: Record<(typeof bundlers)[number], (what: Bundle) => Promise<unknown>> = {
  esbuild: ({ alias, entry, root, outdir, name }) =>
    esbuild({
      absWorkingDir: root,
      entryPoints: [entry],
      bundle: true,
      platform: "node",
      outfile: path.join(outdir, name),
      alias: { pg: alias },
      logLevel: "error",
    }),
  vite: ({ alias, entry, root, outdir, name }) =>
    vite({
      root,
      configFile: false,
      logLevel: "error",
      resolve: { alias: { pg: alias } },
      ssr: { noExternal: true },
      build: { ssr: entry, outDir: outdir, emptyOutDir: false, rollupOptions: { output: { entryFileNames: name } } },
    }),
  webpack: ({ alias, entry, root, outdir, name }) =>
    new Promise((resolve, reject) => {
      const settings: webpack.Configuration = {
        mode: "production",
        optimization: { minimize: false }, // which takes most of the time, and changes no import
        context: root,
        entry,
        target: "node",
        resolve: { alias: { pg: alias } },
        output: { path: outdir, filename: name },
      };
      webpack(settings, (error, stats) => {
        if (error || stats!.hasErrors() || stats!.hasWarnings()) reject(error ?? new Error(stats!.toString()));
        else resolve(undefined);
      });
    }),
};

test("TypeScript: paths lead to the facade's types, and the package that stands for pg has its own", async () => {
  const project = await installed("by-typescript");
  const file = write(
    `${project}/app.ts`,
    `import pg, { Client, type PoolClient, type QueryResult } from "pg";
     export const pool = new pg.Pool({ max: 3 });
     export const rows = async (): Promise<QueryResult<{ a: number }>> => pool.query<{ a: number }>("select 1 as a");
     export const one: Promise<PoolClient> = pool.connect();
     // @ts-expect-error: there is no such option
     export const client = new Client({ nothing: 1 });`,
  );
  const errors = (paths: Record<string, string[]>) => {
    const options: ts.CompilerOptions = {
      strict: true,
      noEmit: true,
      target: ts.ScriptTarget.ES2022,
      module: ts.ModuleKind.ESNext,
      moduleResolution: ts.ModuleResolutionKind.Bundler,
      types: [path.join(root, "node_modules/@types/node")],
      skipLibCheck: true,
      paths,
    };
    const found = ts.getPreEmitDiagnostics(ts.createProgram([file], options));
    return found.map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, " "));
  };
  expect(errors({})).toEqual([]);
  rmSync(at(project, "node_modules/pg"), { recursive: true });
  expect(errors({})).not.toEqual([]);
  expect(errors({ pg: [at(project, "node_modules/pgz-edge/dist/types/adapters/pg.d.ts")] })).toEqual([]);
});
