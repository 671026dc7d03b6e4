// Builds Rust into pkg/ (the wasm and the types of its exports, by wasm-pack), then TypeScript into dist/ (the files
// that npm ships).
//
// Each part is skipped while the hash of its inputs is unchanged (stamps in .cache/build/). `--without-types` leaves
// dist/types unchanged, for tests that run the bundles only. The tools come from `scripts/setup`. All entries of
// runtimes share dist/shared/core.js. dist/workerd.js imports ./pgz_edge_bg.wasm as a file, which workerd's bundlers
// compile ahead of time. dist/{node,bun,deno}.js import it as base64, because bundlers and single-file compilers lose a
// file that is read at run time. dist/slim.js has no wasm and no socket: its user passes both.
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import os from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { linkedCrates, thirdPartyLicenses } from "./licenses.mjs";
import { bundleSizes } from "./sizes.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const at = (...parts) => path.join(root, ...parts);
const say = (text) => process.stderr.write(`[build] ${text}\n`);

export async function build({ types = true } = {}) {
  const cargo = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".cargo/config.toml"];
  const rust = ["src", ...cargo, "scripts/build.mjs", "scripts/licenses.mjs"];
  const made = CRATES.flatMap(([, name]) => [`${name}.js`, `${name}.d.ts`, `${name}_bg.wasm`]);
  const core = [...made, "THIRD-PARTY-LICENSES.txt"].map((name) => `pkg/${name}`);
  await unlessBuilt("wasm", rust, core, () => {
    say("wasm-pack");
    buildWasm();
  });
  const typescript = ["js", "pkg", "tsconfig.json", "tsconfig.build.json", "package.json", "scripts/build.mjs"];
  await unlessBuilt("js", typescript, ["dist/workerd.js", "dist/cli/main.js"], async () => {
    say("esbuild");
    await bundle();
  });
  // worker-example imports the driver by its name.
  (await import("../worker-example/build.mjs")).linkDriver();
  if (!types) return;
  await unlessBuilt("types", typescript, ["dist/types/index.d.ts", "dist/cjs/types/index.d.ts"], async () => {
    say("tsc");
    for (const folder of ["dist/types", "dist/cjs/types"]) rmSync(at(folder), { recursive: true, force: true });
    run(process.execPath, [at("node_modules/typescript/bin/tsc"), "-p", "tsconfig.build.json"]);
    drizzleTypesAsUsed();
    commonJsTypes();
    typesInUse();
    const kilobytes = Object.entries(await bundleSizes()).map(
      ([name, bytes]) => `${name.replace("_bytes", "")} ${(bytes / 1000).toFixed(1)} kB`,
    );
    say(kilobytes.join(", "));
  });
}

/** Each crate makes one wasm with this name. */
const CRATES = [
  ["src/wasm", "pgz_edge"],
  ["src/wasm-changes", "pgz_changes"],
];

function buildWasm() {
  const home = process.env.CARGO_HOME ?? path.join(os.homedir(), ".cargo");
  // wasm-opt comes from npm's binaryen.
  const env = {
    ...process.env,
    PATH: [at("node_modules/.bin"), path.join(home, "bin"), process.env.PATH].join(path.delimiter),
  };
  // These variables would replace the flags of .cargo/config.toml (simd128) and the pinned compiler. `--config` below
  // adds to the flags.
  for (const name of Object.keys(env)) if (name.endsWith("RUSTFLAGS") || name === "RUSTUP_TOOLCHAIN") delete env[name];
  const made = at(`.cache/build/pkg-${process.pid}`);
  const plain = ["--target", "web", "--release", "--mode", "no-install", "--no-gitignore", "--no-pack"];
  const cargo = ["--config", `target.wasm32-unknown-unknown.rustflags=${JSON.stringify(remaps(env, home))}`];
  for (const [crate, name] of CRATES) {
    const options = [...plain, "--out-dir", made, "--out-name", name];
    run("wasm-pack", ["--log-level", "warn", "build", at(crate), ...options, "--", ...cargo], env);
    // TypeScript would take this file for the type of `import wasm from "….wasm"`, which js/entrypoints/ambient.d.ts
    // declares.
    rmSync(path.join(made, `${name}_bg.wasm.d.ts`));
  }
  writeFileSync(path.join(made, "THIRD-PARTY-LICENSES.txt"), thirdPartyLicenses(env));
  rmSync(at("pkg"), { recursive: true, force: true });
  renameSync(made, at("pkg"));
}

/**
 * Panic locations contain the paths of source files. Without this option the wasm would differ between machines and
 * reveal their paths. Cargo names the folder of the crates by their registry, which may be a mirror.
 */
function remaps(env, home) {
  const rustc = (...parameters) => spawnSync("rustc", parameters, { cwd: root, env, encoding: "utf8" }).stdout.trim();
  const commit = /^commit-hash: (.*)$/m.exec(rustc("-vV"))?.[1];
  const paths = {
    [`${rustc("--print", "sysroot")}/lib/rustlib/src/rust`]: `/rustc/${commit}`,
    [home]: "/cargo",
    [path.resolve(root)]: "/pgz-edge",
    ...Object.fromEntries(
      linkedCrates(env).map(({ name, manifest_path }) => [path.dirname(manifest_path), `/${name}`]),
    ),
  };
  return Object.entries(paths).map(([from, to]) => `--remap-path-prefix=${from}=${to}`);
}

/** Each runtime has its own entry, js/entrypoints/<name>.ts. */
const RUNTIMES = ["workerd", "edge-light", "slim", "node", "bun", "deno", "browser"];

async function bundle() {
  const { build: esbuild } = await import("esbuild");
  const common = {
    absWorkingDir: root,
    outdir: "dist",
    bundle: true,
    format: "esm",
    target: "es2022",
    platform: "neutral",
    external: ["node:*", "cloudflare:*", "@opentelemetry/api", "drizzle-orm", "kysely"],
    sourcemap: "external", // for bench/profile; package.json does not publish them
    minifySyntax: true, // inlines constants across modules; names and lines stay readable
    plugins: [commentless],
    logLevel: "warning",
  };
  const entries = (...names) => names.map((name) => `js/entrypoints/${name}.ts`);
  const pg = ["pg", "pg-copy-streams"].map((name) => `js/adapters/${name}.ts`);
  const adapters = (...names) => names.map((name) => `js/adapters/${name}.ts`);
  const drizzle = adapters("drizzle", "drizzle-migrator");
  const drizzle1 = {
    entryPoints: adapters("drizzle-v1", "drizzle-v1-migrator"),
    plugins: [commentless, driverBeside, drizzleAsUsed],
  };
  /** Commands are chunks that the entry loads. A dependency of a single command is a package that its user installs. */
  const commands = {
    ...common,
    outdir: "dist/cli",
    platform: "node",
    splitting: true,
    external: ["typescript", "@modelcontextprotocol/*", "zod"],
    plugins: [commentless, driverBeside],
  };
  // Chunk names contain a hash, so chunks of an earlier build would remain.
  for (const folder of ["dist/cli", "dist/shared", "dist/cjs/shared"])
    rmSync(at(folder), { recursive: true, force: true });
  const plugins = [commentless, driverBeside, wasmBeside];
  const changes = { splitting: true, chunkNames: "shared/changes-[hash]", plugins };
  /** The files for `require` where it cannot load an ES module. */
  const commonjs = { ...common, outdir: "dist/cjs", format: "cjs" };
  await Promise.all([
    driver(common, commonjs, esbuild),
    esbuild({ ...common, entryPoints: ["js/sqlstates.ts"] }),
    esbuild({ ...common, entryPoints: ["js/adapters/otel.ts"] }),
    esbuild({ ...common, entryPoints: ["js/runtime/websocket.ts"] }),
    esbuild({ ...common, entryPoints: entries("otel-workers") }),
    esbuild({ ...common, ...changes, entryPoints: entries("changes", "changes-workerd") }),
    esbuild({ ...common, entryPoints: ["js/cluster.ts"], plugins: [commentless, driverBeside] }),
    esbuild({ ...common, entryPoints: ["js/cache.ts"], plugins: [commentless, driverBeside] }),
    esbuild({ ...common, entryPoints: pg, plugins: [commentless, driverBeside] }),
    esbuild({ ...common, entryPoints: adapters("prisma", "aws", "vpc"), plugins: [commentless, driverBeside] }),
    esbuild({ ...common, entryPoints: drizzle, plugins: [commentless, driverBeside] }),
    esbuild({ ...common, ...drizzle1 }),
    esbuild({ ...common, entryPoints: adapters("kysely"), plugins: [commentless, driverBeside] }),
    esbuild({ ...common, entryPoints: ["js/testing.ts"], plugins: [commentless, driverBeside] }),
    esbuild({ ...commands, entryPoints: ["js/cli/main.ts"] }),
    esbuild({ ...commonjs, entryPoints: ["js/sqlstates.ts"] }),
    esbuild({ ...commonjs, entryPoints: ["js/adapters/otel.ts"] }),
    esbuild({ ...commonjs, entryPoints: ["js/runtime/websocket.ts"] }),
    esbuild({ ...commonjs, entryPoints: pg, plugins: [commentless, driverBeside] }),
    esbuild({ ...commonjs, entryPoints: adapters("prisma", "aws"), plugins: [commentless, driverBeside] }),
    esbuild({ ...commonjs, entryPoints: drizzle, plugins: [commentless, driverBeside] }),
    esbuild({ ...commonjs, ...drizzle1 }),
    esbuild({ ...commonjs, entryPoints: adapters("kysely"), plugins: [commentless, driverBeside] }),
    esbuild({ ...commonjs, entryPoints: ["js/testing.ts"], plugins: [commentless, driverBeside] }),
  ]);
  for (const name of ["pgz_edge_bg.wasm", "pgz_changes_bg.wasm", "THIRD-PARTY-LICENSES.txt"])
    copyFileSync(at("pkg", name), at("dist", name));
  copyFileSync(at("js/cache/cache.sql"), at("dist/cache.sql"));
}

/**
 * Builds one core for all runtimes. Code that several entries share is in dist/shared: the core, the sockets of Node,
 * and the wasm as base64, which js/wasm/inside.ts decodes. `require` gets the same files, each converted to CommonJS.
 */
async function driver(common, commonjs, esbuild) {
  const { outputFiles, metafile } = await esbuild({
    ...common,
    entryPoints: RUNTIMES.map((name) => `js/entrypoints/${name}.ts`),
    splitting: true,
    chunkNames: "shared/[hash]",
    loader: { ".wasm": "base64" },
    plugins: [commentless, wasmBeside],
    metafile: true,
    write: false,
  });
  const shared = sharedNames(metafile);
  const named = (text) => [...shared].reduce((done, [hash, name]) => done.replaceAll(hash, name), text);
  mkdirSync(at("dist/shared"), { recursive: true });
  for (const { path: file, text } of outputFiles) writeFileSync(named(file), named(text));
  const needed = new Set();
  const need = (file) => {
    if (needed.has(file)) return;
    needed.add(file);
    for (const { path: imported, external } of metafile.outputs[file].imports) if (!external) need(imported);
  };
  for (const name of ["node", "slim"]) need(`dist/${name}.js`);
  const asThey = { bundle: false, external: [], plugins: [], sourcemap: false, minifySyntax: false, outbase: "dist" };
  await esbuild({ ...commonjs, ...asThey, entryPoints: [...needed].map(named) });
}

/** Names each shared file after the largest of its sources instead of by a hash, because stack traces show the name. */
function sharedNames({ outputs }) {
  const shared = Object.entries(outputs).filter(([file]) => /^dist\/shared\/\w+\.js$/.test(file));
  const names = shared.map(([file, { inputs }]) => {
    const [largest] = Object.entries(inputs).sort(([, one], [, other]) => other.bytesInOutput - one.bytesInOutput)[0];
    const name = "js/index.ts" in inputs ? "core" : path.basename(largest).replace(/\.\w+$/, "");
    return [path.basename(file, ".js"), name];
  });
  if (new Set(names.map(([, name]) => name)).size < names.length) throw new Error(`twice the same name: ${names}`);
  return new Map(names);
}

/** The same types for users of `require`. TypeScript reads the format of a file from the nearest package.json. */
function commonJsTypes() {
  cpSync(at("dist/types"), at("dist/cjs/types"), { recursive: true });
  writeFileSync(at("dist/cjs/package.json"), '{ "type": "commonjs" }\n');
}

/** Removes types that no entry leads to, since no program can import them: 205 of 416 files, a fifth of the bytes. */
function typesInUse() {
  const { exports, types, typesVersions } = JSON.parse(readFileSync(at("package.json"), "utf8"));
  const used = new Set();
  const use = (file) => {
    if (used.has(file)) return;
    used.add(file);
    for (const [, to] of readFileSync(at(file), "utf8").matchAll(/(?:\bfrom |\bimport\(|\bimport )"(\.[^"]+)"/g))
      use(path.join(path.dirname(file), to).replace(/\.[jt]s$/, ".d.ts"));
  };
  const entries = (value) => (typeof value === "string" ? [value] : Object.values(value ?? {}).flatMap(entries));
  for (const entry of entries({ exports, types, typesVersions }))
    if (entry.endsWith(".d.ts")) use(path.normalize(entry));
  for (const folder of ["dist/types", "dist/cjs/types"])
    for (const name of readdirSync(at(folder), { recursive: true })) {
      const file = path.join(folder, name);
      if (file.endsWith(".d.ts") && !used.has(file)) rmSync(at(file));
    }
}

/**
 * Removes comments. They would be a fifth of the code that each runtime has to read before its first query. esbuild
 * keeps comments inside of classes and objects, unless a file comes without white space.
 */
const commentless = {
  name: "commentless",
  setup: ({ onLoad }) =>
    onLoad({ filter: /[\\/](js|pkg)[\\/].*\.[jt]s$/ }, async ({ path: file }) => {
      const { transform } = await import("esbuild");
      const { code } = await transform(readFileSync(file, "utf8"), {
        loader: path.extname(file).slice(1),
        sourcefile: path.basename(file),
        sourcemap: "inline",
        minifyWhitespace: true,
        target: "es2022",
        tsconfigRaw: readFileSync(at("tsconfig.json"), "utf8"),
      });
      return { contents: code, loader: "js" };
    }),
};

/** The entries for platforms that do not compile wasm from bytes: their bundler compiles the file ahead of time. */
const COMPILED_AHEAD = /[\\/](workerd|edge-light|changes-workerd)\.ts$/;

const wasmBeside = {
  name: "wasm-beside",
  setup: ({ onResolve }) =>
    onResolve({ filter: /pgz_(edge|changes)_bg\.wasm(\?module)?$/ }, ({ path: given, importer }) =>
      COMPILED_AHEAD.test(importer) ? { path: `./${path.basename(given)}`, external: true } : undefined,
    ),
};

const ABOVE_THE_DRIVER = /\bjs\/(adapters|cache|changes|cli|cluster|testing)\b/;

/** What stands above the driver in js/ uses the application's driver: one copy, built for its runtime. */
const driverBeside = {
  name: "driver-beside",
  setup({ onResolve }) {
    onResolve({ filter: /\/index\.ts$/ }, ({ path, importer }) =>
      /^(\.\/|(\.\.\/)+)index\.ts$/.test(path) && ABOVE_THE_DRIVER.test(importer.replaceAll("\\", "/"))
        ? { path: "pgz-edge", external: true }
        : undefined,
    );
    onResolve({ filter: /^\.\.\/changes\.ts$/ }, ({ importer }) =>
      /\bjs\/(cache|cli)\b/.test(importer.replaceAll("\\", "/"))
        ? { path: "pgz-edge/changes", external: true }
        : undefined,
    );
  },
};

/**
 * In this repository drizzle-orm 1.0 has another name, because 0.45 is installed beside it. Its users have it under its
 * own name.
 */
const drizzleAsUsed = {
  name: "drizzle-as-used",
  setup: ({ onResolve }) =>
    onResolve({ filter: /^drizzle-orm-v1(\/|$)/ }, ({ path }) => ({ path: usedDrizzle(path), external: true })),
};
const usedDrizzle = (text) => text.replaceAll("drizzle-orm-v1", "drizzle-orm");

function drizzleTypesAsUsed() {
  const folder = at("dist/types/adapters");
  for (const name of readdirSync(folder, { recursive: true })) {
    if (!/v1[^/\\]*\.d\.ts$/.test(name)) continue;
    const file = path.join(folder, name);
    writeFileSync(file, usedDrizzle(readFileSync(file, "utf8")));
  }
}

/**
 * Runs `make` unless the inputs are unchanged since the last run and the outputs exist. Inputs that are edited during
 * the build count as not built.
 */
async function unlessBuilt(name, inputs, outputs, make) {
  const stamp = at(`.cache/build/${name}.stamp`);
  const now = digest(inputs);
  if (outputs.every((file) => existsSync(at(file))) && existsSync(stamp) && readFileSync(stamp, "utf8") === now) return;
  rmSync(stamp, { force: true });
  await make();
  mkdirSync(path.dirname(stamp), { recursive: true });
  writeFileSync(stamp, now);
}

function digest(inputs) {
  const hash = createHash("sha256");
  const add = (file) => {
    if (!existsSync(at(file))) return;
    if (!statSync(at(file)).isDirectory()) return hash.update(`${file}\0`).update(readFileSync(at(file)));
    for (const name of readdirSync(at(file)).sort()) add(path.join(file, name));
  };
  inputs.forEach(add);
  return hash.digest("hex");
}

function run(command, parameters, env = process.env) {
  const { status, error } = spawnSync(command, parameters, { cwd: root, env, stdio: ["ignore", 2, 2] });
  if (status !== 0) throw new Error(`${path.basename(command)} ${error?.message ?? `ended with status ${status}`}`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  try {
    await build({ types: !process.argv.includes("--without-types") });
  } catch (error) {
    say(error.message);
    process.exitCode = 1;
  }
}
