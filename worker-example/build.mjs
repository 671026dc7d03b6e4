/**
 * Bundles the Worker for miniflare's workerd. Only the demo and the tests need this: `wrangler dev` and `wrangler
 * deploy` bundle by themselves.
 */
import { build } from "esbuild";
import { existsSync, lstatSync, mkdirSync, symlinkSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const here = fileURLToPath(new URL(".", import.meta.url));
export const root = path.dirname(here);

/**
 * Links node_modules/pgz-edge to this checkout, as `npm install` would for `"pgz-edge": "file:.."`, without the
 * network.
 */
export function linkDriver() {
  const link = path.join(here, "node_modules", "pgz-edge");
  if (lstatSync(link, { throwIfNoEntry: false })) return;
  mkdirSync(path.dirname(link), { recursive: true });
  symlinkSync("../..", link, "dir");
}

/**
 * Bundles into `folder` and returns the entry module's file. With `plugins` a test can replace a module, such as the
 * limits.
 */
export async function bundleWorker(folder, { plugins = [] } = {}) {
  linkDriver();
  if (!existsSync(path.join(root, "dist", "workerd.js")))
    throw new Error("dist/workerd.js is missing: run scripts/build first");
  await build({
    entryPoints: [path.join(here, "src", "worker.ts")],
    outfile: path.join(folder, "worker.js"),
    bundle: true,
    format: "esm",
    target: "es2022",
    conditions: ["workerd", "worker", "browser"],
    external: ["cloudflare:*"],
    // The wasm stays a separate file: workerd loads it as a compiled module, as wrangler does by default.
    loader: { ".html": "text", ".wasm": "copy" },
    plugins,
    logLevel: "warning",
  });
  return path.join(folder, "worker.js");
}
