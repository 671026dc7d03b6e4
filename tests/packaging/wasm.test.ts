// What ships is what was intended: the wasm has no unexpected import or export, uses SIMD, and is small.
// wasm-interface.json and the bounds here are committed, so a change of either is a decision and not an accident.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { expect, test } from "vitest";
import { bundleSizes, packageSizes, peerSizes } from "../../scripts/sizes.mjs";

const at = (name: string) => fileURLToPath(new URL(name, import.meta.url));
const wasm = () => new WebAssembly.Module(readFileSync(at("../../dist/pgz_edge_bg.wasm")));

/**
 * Bytes of the last release, or, until there is one, of 2026-11-28: README's Worker (wasm and JavaScript, minified and
 * gzipped), and the package, packed and installed, without source maps. A bound that every honest change meets is no
 * bound, so each may grow by a twentieth until the next release. docs/decisions/0005 says what the bytes are for.
 * `pgz-edge/cache` is an entry that came after that day.
 */
const CACHE = { tarball: 39_600, unpacked: 126_500 };
const LAST_RELEASE = {
  readme_worker_gzip_bytes: 147_600,
  tarball_bytes: 1_050_000 + CACHE.tarball,
  unpacked_bytes: 3_700_000 + CACHE.unpacked,
};
const GROWTH = 1.05;

test("the wasm imports and exports exactly what the committed file lists", () => {
  const module = wasm();
  // wasm-bindgen ends the names of its imports with a hash of their signature.
  const name = (text: string) => text.replace(/_[0-9a-f]{16}$/, "");
  const found = {
    imports: WebAssembly.Module.imports(module)
      .map(({ name: text, kind }) => `${kind} ${name(text)}`)
      .sort(),
    exports: WebAssembly.Module.exports(module)
      .map(({ name: text, kind }) => `${kind} ${name(text)}`)
      .sort(),
  };
  expect(found).toEqual(JSON.parse(readFileSync(at("wasm-interface.json"), "utf8")));
});

test("the wasm uses SIMD", () => {
  const text = execFileSync(at("../../node_modules/.bin/wasm-dis"), [at("../../dist/pgz_edge_bg.wasm")], {
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  // The escape scan alone uses a handful of SIMD instructions; a RUSTFLAGS variable that replaces our flags leaves
  // none.
  expect(text.match(/\((v128|i8x16)\./g)?.length ?? 0).toBeGreaterThan(20);
});

test("nothing that ships evaluates code or names the machine it was built on", () => {
  for (const name of ["workerd", "node", "deno", "bun", "slim", "shared/core", "shared/node"]) {
    const text = readFileSync(at(`../../dist/${name}.js`), "utf8");
    expect(text, name).not.toMatch(/\beval\s*\(|new Function\s*\(/);
  }
  const bytes = readFileSync(at("../../dist/pgz_edge_bg.wasm")).toString("latin1");
  expect(bytes).not.toMatch(/\/(root|home|work)\//);
});

test("sizes are within their bounds", async () => {
  const found: Record<string, number> = { ...(await bundleSizes()), ...(await peerSizes()), ...packageSizes() };
  console.log(JSON.stringify(found));
  for (const [name, bytes] of Object.entries(LAST_RELEASE)) {
    const { [name]: now = Infinity } = found;
    expect(now, `${name}: node bench/size.mjs shows the largest parts`).toBeLessThanOrEqual(GROWTH * bytes);
  }
  // The README shows these numbers.
  const committed = JSON.parse(readFileSync(at("../../bench/results/size.json"), "utf8")) as Record<string, number>;
  for (const [name, bytes] of Object.entries(committed))
    expect(Math.abs(found[name]! / bytes - 1), `${name}: run make bench, or node bench/size.mjs`).toBeLessThan(0.02);
});

test("no bundle has telemetry unless it imports it, and telemetry contains no second driver", () => {
  const text = (name: string) => readFileSync(at(`../../dist/${name}.js`), "utf8");
  for (const name of ["workerd", "node", "bun", "deno", "slim", "shared/core"])
    expect(text(name), name).not.toMatch(/opentelemetry|db\.system\.name/);
  for (const name of ["otel", "otel-workers"]) {
    expect(text(name), name).toContain("db.system.name");
    // This includes the SQL lexer, which finds the literals to hide.
    expect(text(name).length, name).toBeLessThan(25_000);
  }
});

test("a Worker that imports no pool bundles none", async () => {
  const bundle = async (name: string) => {
    const { outputFiles } = await build({
      stdin: {
        contents: `import { ${name} } from "./dist/workerd.js"; globalThis.it = ${name};`,
        resolveDir: at("../.."),
      },
      bundle: true,
      minify: true,
      format: "esm",
      write: false,
      outdir: "/",
      external: ["cloudflare:*"],
      loader: { ".wasm": "empty" },
    });
    return outputFiles[0]!.text;
  };
  const pool = /ACQUIRE_TIMEOUT/;
  expect(await bundle("createPool")).toMatch(pool);
  expect(await bundle("createClient")).not.toMatch(pool);
});

test("the wasm-bindgen CLI that setup installs is the crate's version", () => {
  const crate = /wasm-bindgen = "=([\d.]+)"|wasm-bindgen = \{ version = "=([\d.]+)"/.exec(
    readFileSync(at("../../src/wasm/Cargo.toml"), "utf8"),
  );
  const cli = execFileSync("wasm-bindgen", ["--version"], {
    encoding: "utf8",
    env: { ...process.env, PATH: `${process.env["HOME"]}/.cargo/bin:${process.env["PATH"]}` },
  });
  expect(cli.trim()).toBe(`wasm-bindgen ${crate?.[1] ?? crate?.[2]}`);
});
