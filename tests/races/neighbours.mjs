// Races between a CancelRequest and the calls beside its target: no neighbour may fail, and no insert may be lost or
// doubled.
//
//   node tests/races/neighbours.mjs            10,000 rounds on PostgreSQL 18; ROUNDS=100 MAJOR=15 for others
//   bun tests/races/neighbours.mjs, deno run -A tests/races/neighbours.mjs
//
// Run by hand, because it takes a minute and a half. tests/integration/cases/together.ts runs some such rounds on every
// runtime. The last line reports how many neighbours the server really ended.
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { startServers } from "../servers/index.mjs";
import { driver } from "../support/by-hand.mjs";

const { createClient, sql } = driver;
const rounds = Number(process.env.ROUNDS ?? 10_000);
const { servers, stop } = await startServers({ majors: [Number(process.env.MAJOR ?? 18)], databaseUrl: "" });
const [{ url, log }] = servers;
const logged = () => readFileSync(log, "utf8").split("canceling statement due to user request").length - 1;

const client = createClient(url);
await client.exec("create temp table seen (n int4)");
const add = (n) => client.exec(sql`insert into seen values (${n}::int4)`);
const sleep = (n, ms, options) => client.query(sql`select ${n}::int4 as n, pg_sleep(${ms / 1000}::float8)`, options);
await Promise.all([add(-1), sleep(0, 0)]);

const before = logged();
const own = { aborted: 0, done: 0 };
const wrong = [];
for (let round = 0; round < rounds; round++) {
  const controller = new AbortController();
  const calls = Promise.allSettled([
    sleep(round, round % 7, { signal: controller.signal }),
    add(2 * round),
    sleep(round, 0.3),
    add(2 * round + 1),
    sleep(round + 1, 0),
  ]);
  if (round % 3) await pause(round % 9);
  controller.abort();
  const [first, ...neighbours] = await calls;
  own[first.status === "rejected" ? "aborted" : "done"]++;
  for (const { status, reason } of neighbours) if (status === "rejected") wrong.push(`round ${round}: ${reason}`);
  if (neighbours[3].value?.rows[0].n !== round + 1) wrong.push(`round ${round}: a foreign row`);
}
const { rows } = await client.query(
  "select count(*)::int4 as inserted, count(distinct n)::int4 as different from seen",
);
if (rows[0].inserted !== 2 * rounds + 1 || rows[0].different !== 2 * rounds + 1) wrong.push(JSON.stringify(rows[0]));
const { cancels } = client.stats();
await client.close();
await stop();
for (const one of wrong) console.log(one);
console.log(
  `${rounds} rounds, ${own.aborted} calls aborted, ${cancels} CancelRequests sent, ${logged() - before} statements`,
);
console.log(`ended by them, ${wrong.length} of ${4 * rounds} neighbours wrong`);
process.exitCode = wrong.length ? 1 : 0;
