// Races between a CancelRequest and the end of its target: the cancel never ends the next statement. A statement of 0
// to 2 ms is aborted after 0 to 3 ms, and the next one follows at once; it must return its own row.
//
//   node tests/races/next.mjs            10,000 rounds on PostgreSQL 18; ROUNDS=100 MAJOR=15 for others
//   bun tests/races/next.mjs
//
// Run by hand, because it takes a minute. The random sessions of tests/random do similar things on every runtime.
import { readFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { startServers } from "../servers/index.mjs";
import { driver, runtime } from "../support/by-hand.mjs";

const { createClient, sql } = driver;
const rounds = Number(process.env.ROUNDS ?? 10_000);
const { servers, stop } = await startServers({ majors: [Number(process.env.MAJOR ?? 18)], databaseUrl: "" });
const [{ url, log }] = servers;
const logged = () => readFileSync(log, "utf8").split("canceling statement due to user request").length - 1;

const client = createClient(url);
const sleep = (n, options) => client.query(sql`select ${n}::int4 as n, pg_sleep(random() * 0.002)`, options);
const next = (n) => client.query(sql`select ${n}::int4 as next`);
for (let n = 0; n < 3; n++) await Promise.all([sleep(n), next(n)]);

const before = logged();
const own = { aborted: 0, done: 0 };
const wrong = [];
for (let round = 0; round < rounds; round++) {
  const controller = new AbortController();
  const first = sleep(round, { signal: controller.signal });
  if (round % 4) await pause(Math.random() * 3);
  controller.abort();
  const [raced, after] = await Promise.allSettled([first, next(round)]);
  own[raced.status === "rejected" ? "aborted" : "done"]++;
  if (raced.status === "rejected" && raced.reason.code !== "ABORTED") wrong.push(`round ${round}: ${raced.reason}`);
  if (raced.status === "fulfilled" && raced.value.rows[0].n !== round) wrong.push(`round ${round}: a foreign row`);
  if (after.value?.rows[0].next !== round) wrong.push(`round ${round}: ${after.reason ?? "another's row"}`);
}
const { cancels } = client.stats();
await client.close();
await stop();
for (const one of wrong.slice(0, 20)) console.log(one);
console.log(
  `${runtime}: ${rounds} rounds, ${own.aborted} calls aborted, ${cancels} CancelRequests sent, ` +
    `${logged() - before} statements ended by them, ${wrong.length} wrong`,
);
process.exit(wrong.length ? 1 : 0);
