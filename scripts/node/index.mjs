// Chooses the Node binary and the workerd for the demo, tests and benchmarks.
//
//   nodeBinary(22)          // a Node from npm: optional packages `node-22-<platform>`, 24 and 26 likewise
//   workerd("newest")       // { execPath, miniflare }: a Node, and the file of the miniflare that it runs
//   workerd("node-20")      // the last miniflare for Node 20, with the workerd that it brings
//
// The newest miniflare needs Node 22. On a machine with Node 20 it runs in the Node 24 from npm.
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const { resolve } = createRequire(fileURLToPath(new URL("../../package.json", import.meta.url)));
const platform = `${process.platform}-${process.arch}`;
const ownMajor = Number.parseInt(process.versions.node);

/** Returns npm's executable of that major version. Throws with instructions if npm has none. */
export function nodeBinary(major) {
  try {
    return path.join(path.dirname(resolve(`node-${major}-${platform}/package.json`)), "bin/node");
  } catch (cause) {
    throw new Error(
      `npm brought no Node ${major} for ${platform}: run scripts/setup, or install Node ${major} and run this with it`,
      { cause },
    );
  }
}

/**
 * Returns the Node that must run miniflare, and the file of miniflare. `import(miniflare)` has the package's exports.
 */
export function workerd(which = "newest") {
  // By file name, because from tests/ "miniflare" would resolve to wrangler's copy.
  if (which === "newest")
    return { execPath: ownMajor >= 22 ? process.execPath : nodeBinary(24), miniflare: resolve("miniflare") };
  if (which === "node-20") return { execPath: process.execPath, miniflare: resolve("miniflare-node-20") };
  throw new Error(`there is no workerd "${which}", only "newest" and "node-20"`);
}
