// A program that does not close its pool: `node idle-child.mjs <url> <options as JSON> <what it leaves>`. If it is
// still running a second after its work, it reports that and ends.
import process from "node:process";
import { setTimeout } from "node:timers";

const name = globalThis.Deno ? "deno" : globalThis.Bun ? "bun" : "node";
const { createPool } = await import(`../../dist/${name}.js`);
const [url, options, left] = process.argv.slice(2);
const pool = createPool(url, { min: 2, ...JSON.parse(options) });
await Promise.all([1, 2, 3].map((n) => pool.query("select $1::int4 as n", [n])));
await pool.transaction((tx) => tx.query("select 1"));
const lease = await pool.acquire();
if (left !== "lease") await lease.release();
if (left === "call") void pool.query("select pg_sleep(60)");
setTimeout(() => {
  console.log("still there");
  process.exit();
}, 1_000).unref();
console.log("done");
