// Splits the size of README's Worker into parts. Knows the folders of js/ and the file that cargo links (it still has
// the names of functions, which wasm-opt removes).
import { readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { readmeWorker } from "../../scripts/sizes.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const LINKED = "target/wasm32-unknown-unknown/release/pgz_edge_wasm.wasm";
const CRATES = /base64ct|hmac|itoa|memchr|pbkdf2|serde_json|serde_core|sha2|talc|zmij|alloc|core/;
/** Numbers of the sections of a wasm module. */
const CUSTOM = 0;
const IMPORT = 2;
const CODE = 10;
const DATA = 11;
/** The number of the function names in the section `name`. */
const FUNCTION_NAMES = 1;

/** Returns `[folder, bytes]` pairs, bundled from the sources, since the bundle in dist/ is one file. */
export async function partsOfScript() {
  const { build } = await import("esbuild");
  const { metafile } = await build({
    stdin: { contents: readmeWorker(), loader: "ts", resolveDir: root },
    plugins: [workerd],
    absWorkingDir: root,
    bundle: true,
    minify: true,
    format: "esm",
    target: "es2022",
    external: ["cloudflare:*", "*.wasm"],
    write: false,
    metafile: true,
  });
  const [{ inputs }] = Object.values(metafile.outputs);
  return summed(Object.entries(inputs).map(([file, { bytesInOutput }]) => [path.dirname(file), bytesInOutput]));
}

/** package.json describes dist/ only, so the side effects of this source must be declared here. */
const workerd = {
  name: "workerd",
  setup: ({ onResolve }) =>
    onResolve({ filter: /^pgz-edge$/ }, () => ({
      path: path.join(root, "js/entrypoints/workerd.ts"),
      sideEffects: true,
    })),
};

/** Returns `[module, bytes]` pairs, for example of `pgz_edge::types`. */
export function partsOfCore() {
  const { sizes, names, data } = functionsOf(readFileSync(path.join(root, LINKED)));
  return summed([["data", data], ...[...sizes].map(([index, bytes]) => [moduleOf(names.get(index) ?? ""), bytes])]);
}

/** The module of a mangled name such as `_ZN8pgz_edge5types6scalar…` or `_ZN50_$LT$pgz_edge..types..Plan$u20$as…`. */
function moduleOf(name) {
  if (name.startsWith("coreconnection")) return "the boundary";
  const [, module] = /pgz_edge(?:\.\.|\d+)([a-z_]+)/.exec(name) ?? [];
  return module ? `pgz_edge::${module}` : (CRATES.exec(name)?.[0] ?? "others");
}

/** Returns the bytes of each function's code and its name, both by its number, and the bytes of the data. */
function functionsOf(bytes) {
  const reader = new Reader(bytes, 8);
  const sizes = new Map();
  const names = new Map();
  let imported = 0;
  let data = 0;
  while (reader.at < bytes.length) {
    const section = reader.byte();
    const length = reader.number();
    const end = reader.at + length;
    if (section === IMPORT) imported = reader.number();
    if (section === DATA) data = length;
    if (section === CODE) {
      const count = reader.number();
      for (let at = 0; at < count; at++) {
        const size = reader.number();
        sizes.set(imported + at, size);
        reader.at += size;
      }
    }
    if (section === CUSTOM && reader.text() === "name") {
      while (reader.at < end) {
        const kind = reader.byte();
        const next = reader.number() + reader.at;
        const count = kind === FUNCTION_NAMES ? reader.number() : 0;
        for (let at = 0; at < count; at++) names.set(reader.number(), reader.text());
        reader.at = next;
      }
    }
    reader.at = end;
  }
  return { sizes, names, data };
}

class Reader {
  constructor(bytes, at) {
    this.bytes = bytes;
    this.at = at;
  }
  byte() {
    return this.bytes[this.at++];
  }
  /** Reads a LEB128 number. */
  number() {
    let value = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = this.byte();
      value |= (byte & 127) << shift;
      if (byte < 128) return value >>> 0;
    }
  }
  text() {
    const length = this.number();
    const text = this.bytes.subarray(this.at, this.at + length).toString();
    this.at += length;
    return text;
  }
}

function summed(pairs) {
  const sums = new Map();
  for (const [name, bytes] of pairs) sums.set(name, (sums.get(name) ?? 0) + bytes);
  return sums;
}
