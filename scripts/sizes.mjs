// The size of the driver in bytes. bench/results/size.json has these figures, and tests/packaging/wasm.test.ts bounds
// them. All but the package's are minified and gzipped.
//
// Knows dist/ and README's Worker. `scripts/build` must have made dist/.
import { readFileSync } from "node:fs";
import { builtinModules } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { npmPack } from "./own-caches.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const at = (...parts) => path.join(root, ...parts);
const gzip = (bytes) => gzipSync(bytes, { level: 9 }).length;

/** The wasm alone, all exports of the builds for a Worker and for Node, and README's Worker with its imports. */
export async function bundleSizes() {
  const wasm = readFileSync(at("dist/pgz_edge_bg.wasm"));
  const contents = readmeWorker();
  const readme = { stdin: { contents, loader: "ts", resolveDir: root }, alias: { "pgz-edge": at("dist/workerd.js") } };
  return {
    wasm_bytes: wasm.length,
    wasm_gzip_bytes: gzip(wasm),
    wasm_brotli_bytes: brotliCompressSync(wasm).length,
    workerd_gzip_bytes: gzip(wasm) + gzip(await minified({ entryPoints: [at("dist/workerd.js")] })),
    readme_worker_gzip_bytes: gzip(wasm) + gzip(await minified(readme)),
    node_gzip_bytes: gzip(await minified({ entryPoints: [at("dist/node.js")] })),
  };
}

/**
 * README's Worker written with other drivers. Their imports of Node's modules are part of the runtime and not counted.
 */
const PEERS = {
  postgres_js: `import postgres from "postgres";
    export default {
      async fetch(request, env) {
        const sql = postgres(env.HYPERDRIVE.connectionString);
        return Response.json(await sql\`select id, name from users where id > \${1}\`);
      },
    };`,
  pg: `import { Client } from "pg";
    export default {
      async fetch(request, env) {
        const client = new Client(env.HYPERDRIVE);
        await client.connect();
        return Response.json((await client.query("select id, name from users where id > $1", [1])).rows);
      },
    };`,
};

export async function peerSizes() {
  const external = ["cloudflare:*", "node:*", ...builtinModules];
  const sizes = Object.entries(PEERS).map(async ([name, contents]) => {
    const bytes = await minified({ stdin: { contents, resolveDir: root }, conditions: ["workerd"], external });
    return [`${name}_worker_gzip_bytes`, gzip(bytes)];
  });
  return Object.fromEntries(await Promise.all(sizes));
}

/** The package that npm would publish. */
export function packageSizes() {
  const { size, unpackedSize } = npmPack(root);
  return { tarball_bytes: size, unpacked_bytes: unpackedSize };
}

/** README's first program, as text. */
export function readmeWorker() {
  return /```ts run\n([^]*?)```/.exec(readFileSync(at("README.md"), "utf8"))[1];
}

async function minified(what) {
  const { build } = await import("esbuild");
  const options = { bundle: true, minify: true, format: "esm", target: "es2022", write: false, absWorkingDir: root };
  const { outputFiles } = await build({ ...options, external: ["cloudflare:*", "node:*", "*.wasm"], ...what });
  return outputFiles[0].contents;
}
