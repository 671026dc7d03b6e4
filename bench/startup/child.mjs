// A cold process on Node, Deno and Bun: `child.mjs <library> <url> [<file of a certificate>]`. It loads one library,
// makes its first query, prints the rows in a line, and stays until its stdin ends, so that its CPU time can be read.
import process from "node:process";
import { drivers } from "./drivers.mjs";

const [library, url, caFile] = process.argv.slice(2);
// Not peers.mjs: what it imports would count.
const modules = {
  "pgz-edge": () => import(`../../dist/${globalThis.Bun ? "bun" : globalThis.Deno ? "deno" : "node"}.js`),
  "postgres.js": () => import("postgres"),
  pg: () => import("pg"),
  empty: () => ({}),
};
const ca = caFile && (await import("node:fs")).readFileSync(caFile, "utf8");
const rows = await drivers[library](await modules[library](), { url, ca });
process.stdout.write(`${JSON.stringify(rows)}\n`);
process.stdin.on("end", () => process.exit(0)).resume();
