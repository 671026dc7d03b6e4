// What V8 still holds of finished calls after it has collected only its young generation: `node --expose-gc
// kept-child.mjs <url>`. Sends the result to its parent process, or prints it if there is none.
import process from "node:process";
import { createClient, createPool } from "../../dist/node.js";

const CALLS = 100;

/** Bytes of each of `CALLS` calls that remain after a minor collection: the median of several rounds. */
async function kept(database) {
  const call = () => database.query("select 1 as x");
  for (let n = 0; n < 300; n++) await call();
  globalThis.gc();
  const rounds = [];
  let before = process.memoryUsage().heapUsed;
  for (let round = 0; round < 15; round++) {
    for (let n = 0; n < CALLS; n++) await call();
    await new Promise(setImmediate);
    globalThis.gc({ type: "minor" });
    const { heapUsed } = process.memoryUsage();
    rounds.push((heapUsed - before) / CALLS);
    before = heapUsed;
  }
  return rounds.sort((a, b) => a - b)[rounds.length >> 1];
}

const client = createClient(process.argv[2]);
const pool = createPool(process.argv[2], { max: 1 });
const bytes = { client: await kept(client), pool: await kept(pool) };
if (process.send) process.send(bytes);
else console.log(bytes);
await client.close();
await pool.close();
process.disconnect?.();
