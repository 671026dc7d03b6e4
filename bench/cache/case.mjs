// CASE=cache: what `pgz-edge/cache` costs.
//
// - `answer`: CPU of this process and of its session's server process for a `respond`, for a `cached` that is a miss,
//   and for one that is answered 304, in random order. The invalidator is in this process, with sessions of its own.
// - `commits`: commits to ten tables, whose answers are stored again and again: CPU of this process for each, most of
//   which the writer needs, and calls of `purge` for each.
//
//   TRIALS   how many          CALLS   of a trial, and commits
import { readFileSync } from "node:fs";
import { cached, Invalidator } from "../../dist/cache.js";
import { createClient, createPool, sql } from "../../dist/node.js";
import { until } from "../../tests/support/until.mjs";
import { shuffled } from "../lib/statistics.mjs";
import { resultRows } from "../lib/trials.mjs";
import { cpuTime } from "../lib/workerd.mjs";

export default { measure };

const SETUP = readFileSync(new URL("../../dist/cache.sql", import.meta.url), "utf8");
const TABLES = Array.from({ length: 10 }, (_, n) => `cached_${n}`);
/** Milliseconds between two answers of a table while commits are followed. */
const STORING = 100;

async function measure({ server, option }) {
  const [trials, calls] = [Number(option("TRIALS") ?? 15), Number(option("CALLS") ?? 2_000)];
  const db = createPool(`${server.superuserUrl}?sslmode=disable`);
  const asking = createClient(`${server.superuserUrl}?sslmode=disable`);
  await db.simple(SETUP);
  for (const name of TABLES)
    await db.simple(`create table ${name} (id int primary key, v int); insert into ${name} select 1, 0`);
  await db.simple("create publication cache_bench for all tables");
  const over = new AbortController();
  let purges = 0;
  const invalidator = new Invalidator(db, {
    slot: "cache_bench",
    createSlot: "permanent",
    publication: "cache_bench",
    purge: async () => void purges++,
    onFailure: (error) => console.error(String(error)),
    signal: over.signal,
  });
  const running = invalidator.run();
  const query = (table) => ({ text: `select v from ${table} where id = $1`, values: [1] });
  const ask = async (table, etag) => {
    const headers = new Headers(etag ? { "if-none-match": etag } : {});
    const request = { method: "GET", url: `https://example.com/${table}`, headers };
    const response = await cached(request, asking, query(table), { maxAge: 3_600, invalidator });
    return { status: response.status, headers: response.headers, text: await response.text() };
  };
  const isStored = async (table) => (await ask(table)).headers.has("cdn-cache-control");
  try {
    for (const table of TABLES) await until(() => isStored(table), `an answer of ${table} is stored`);
    const { rows, failures } = await answers({ asking, ask, query, trials, calls });
    const count = () => purges;
    const followed = await commits({ db, isStored, count, invalidator, trials, calls });
    return { rows: [...rows, ...followed.rows], failures: [...failures, ...followed.failures] };
  } finally {
    over.abort();
    await running;
    const free = () => db.first(sql`select not active as it from pg_replication_slots where slot_name = 'cache_bench'`);
    await until(async () => (await free()).it);
    await db.simple(`select pg_drop_replication_slot('cache_bench'); drop publication cache_bench;
      drop table ${TABLES.join(", ")}; drop schema pgz_edge_cache cascade`);
    await Promise.all([db.close(), asking.close()]);
  }
}

const rowOf = (shape, part, metric, unit, values) => {
  const ours = { library: "pgz-edge", runtime: "node" };
  return resultRows(ours, shape, { part }, values, { [metric]: [unit, (value) => value] })[0];
};

async function answers({ asking, ask, query, trials, calls }) {
  const { pid } = await asking.first(sql`select pg_backend_pid() as pid`);
  const [table] = TABLES;
  let etag = (await ask(table)).headers.get("etag");
  const failures = [];
  const check = (holds, text) => void (holds || failures.includes(text) || failures.push(text));
  const ways = {
    respond: async () => check((await (await asking.respond(query(table))).text()) === '{"v":0}\n', "wrong rows"),
    miss: async () => check((await ask(table)).headers.has("cdn-cache-control"), "a miss was not stored"),
    304: async () => check((await ask(table, etag)).status === 304, "a 304 was none"),
  };
  const used = { respond: [], miss: [], 304: [] };
  const ofServer = { respond: [], miss: [], 304: [] };
  const flights = {};
  // The first round warms up.
  for (let trial = 0; trial <= trials; trial++)
    for (const name of shuffled(Object.keys(ways))) {
      etag = (await ask(table)).headers.get("etag"); // those of before may be forgotten
      globalThis.gc?.();
      const before = { cpu: process.cpuUsage(), server: cpuTime(pid), flights: asking.stats().flights };
      for (let call = 0; call < calls; call++) await ways[name]();
      const { user, system } = process.cpuUsage(before.cpu);
      flights[name] = (asking.stats().flights - before.flights) / calls;
      if (!trial) continue;
      used[name].push((user + system) / calls);
      ofServer[name].push(((cpuTime(pid) - before.server) * 1_000) / calls);
    }
  check(flights.miss === 1 && flights[304] === 0, `flights: ${JSON.stringify(flights)}`);
  const rows = Object.keys(ways).flatMap((name) => [
    rowOf("answer", name, "cpu_us_per_call", "us", used[name]),
    rowOf("answer", name, "server_cpu_us_per_call", "us", ofServer[name]),
  ]);
  return { rows, failures };
}

async function commits({ db, isStored, count, invalidator, trials, calls }) {
  const failures = [];
  const figures = { cpu: [], purges: [], rate: [] };
  for (let trial = 0; trial <= trials; trial++) {
    let isOver = false;
    const storing = (async () => {
      for (let n = 0; !isOver; n++) {
        await isStored(TABLES[n % TABLES.length]);
        await new Promise((resolve) => setTimeout(resolve, STORING / TABLES.length));
      }
    })();
    const before = { cpu: process.cpuUsage(), purges: count(), at: performance.now() };
    await Promise.all(
      TABLES.map(async (table) => {
        for (let n = 0; n < calls / TABLES.length; n++) await db.exec(`update ${table} set v = v + 1`);
      }),
    );
    const seconds = (performance.now() - before.at) / 1_000;
    const written = performance.now();
    await until(() => invalidator.stats.lag < performance.now() - written);
    isOver = true;
    await storing;
    const { user, system } = process.cpuUsage(before.cpu);
    if (!trial) continue;
    figures.cpu.push((user + system) / calls);
    figures.purges.push((count() - before.purges) / calls);
    figures.rate.push(calls / seconds);
  }
  const most = Math.max(...figures.purges);
  if (most > 1) failures.push(`${most} calls of purge for each commit`);
  const rows = [
    rowOf("commits", "all of this process", "cpu_us_per_commit", "us", figures.cpu),
    rowOf("commits", "purges", "purges_per_commit", "1", figures.purges),
    rowOf("commits", "rate", "commits_per_s", "1/s", figures.rate),
  ];
  return { rows, failures };
}
