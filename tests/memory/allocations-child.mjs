// How many bytes a known query allocates, by this driver and by pg, in one process: `allocations-child.mjs <url>`.
//
// With a young generation that holds a whole round no collection comes in between, so the heap's growth is what was
// allocated. On a slow machine V8 may collect by its own clock: such a round is not counted. The least of some rounds,
// because compilation and other work of the process only add to it.
import { PerformanceObserver } from "node:perf_hooks";
import { setImmediate as turn } from "node:timers/promises";
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
let collections = 0;
new PerformanceObserver((list) => (collections += list.getEntries().length)).observe({ entryTypes: ["gc"] });

/** Node tells of a collection a few turns of its loop later. */
async function told() {
  for (let turns = 0; turns < 10; turns++) await turn();
}

/** Returns the bytes for each call; `undefined` if the garbage was collected meanwhile. */
async function allocatedBy(name, call) {
  globalThis.gc();
  await told();
  const seen = collections;
  const before = process.memoryUsage().heapUsed;
  for (let calls = 0; calls < CALLS; calls++) {
    const { rows } = await call();
    if (rows[0].n !== 7) throw new Error(`${name}: ${JSON.stringify(rows)}`);
  }
  const bytes = Math.round((process.memoryUsage().heapUsed - before) / CALLS);
  await told();
  return collections === seen ? bytes : undefined;
}

const least = {};
for (const [name, call] of Object.entries(contestants)) {
  for (let rounds = 0; rounds < ROUNDS;) {
    const bytes = await allocatedBy(name, call);
    if (bytes === undefined) continue;
    rounds++;
    if (!(bytes > least[name])) least[name] = bytes;
  }
}
console.log(JSON.stringify(least));
await Promise.all([client.close(), pool.close(), peer.end()]);
