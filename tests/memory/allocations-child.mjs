// How many bytes a known query allocates, by this driver and by pg, in one process: `allocations-child.mjs <url>`.
//
// With a young generation that holds a whole round no collection comes in between, so the heap's growth is what was
// allocated. The least of some rounds, because compilation and other work of the process only add to it.
import pg from "pg";
import { createClient, createPool } from "../../dist/node.js";

const url = process.argv[2];
const CALLS = 2_000;
const ROUNDS = 12;
const [client, pool, peer] = [createClient(url), createPool(url), new pg.Client(url)];
await peer.connect();

const text = "select $1::int4 as n";
const contestants = {
  client: () => client.query({ text, values: [7] }),
  pool: () => pool.query({ text, values: [7] }),
  pg: () => peer.query({ name: "known", text, values: [7] }),
};
const least = {};
for (let round = 0; round < ROUNDS; round++)
  for (const [name, call] of Object.entries(contestants)) {
    globalThis.gc();
    const before = process.memoryUsage().heapUsed;
    for (let calls = 0; calls < CALLS; calls++) {
      const { rows } = await call();
      if (rows[0].n !== 7) throw new Error(`${name}: ${JSON.stringify(rows)}`);
    }
    const bytes = Math.round((process.memoryUsage().heapUsed - before) / CALLS);
    if (!(bytes > least[name])) least[name] = bytes;
  }
console.log(JSON.stringify(least));
await Promise.all([client.close(), pool.close(), peer.end()]);
