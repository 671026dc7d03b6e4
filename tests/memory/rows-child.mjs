// Reads 1,000,000 rows of 1 kB in batches and reports its RSS (KiB) at a tenth and at the end: `node rows-child.mjs
// <url>`.
import { readFileSync } from "node:fs";
import { connect } from "../../dist/node.js";

const rss = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);
const client = await connect(process.argv[2]);
const seen = [];
let rows = 0;
for await (const batch of client
  .rows("select g as id, repeat('x', 1000) as pad, array[g, g] as pair from generate_series(1, 1000000) g")
  .batches(1000)) {
  rows += batch.length;
  if (rows === 100_000 || rows === 1_000_000) seen.push(rss());
}
await client.close();
process.send({ rows, seen });
