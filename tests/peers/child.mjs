// Asks one driver for one thing after another, and prints an answer as a line of JSON for each: features.mjs starts it,
// in Node or in Bun.
//
// Each question has a client of its own and twenty seconds. Knows the wire, through proxies; must not know how a driver
// is asked, which is adapters.mjs'.
import { connect, createServer } from "node:net";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import pg from "pg";
import { startProxy } from "../../docker/websocket-proxy/proxy.mjs";
import { ByteProxy } from "../support/byte-proxy.mjs";
import { FrontendReader, bind } from "../support/wire.mjs";
import { adapters, CONFLICT } from "./adapters.mjs";

const { driver, folder, url, adminUrl, tlsUrl, betweenUrl, poolers, options = {}, only } = JSON.parse(process.argv[2]);
const adapter = adapters[driver];
const escaped = [];
for (const event of ["uncaughtException", "unhandledRejection"]) process.on(event, (error) => escaped.push(error));

/** A package of `folder`, where the peers are installed. */
const { load } = await import(pathToFileURL(path.join(folder, "load.mjs")).href);

const admin = new pg.Client({ connectionString: adminUrl });
await admin.connect();

const closers = [];
const proxies = [];

/** A way to the server that counts, with `delay` milliseconds for each piece. */
async function counted(delay) {
  const { hostname: host, port } = new URL(url);
  const proxy = new ByteProxy({ host, port: Number(port) }, { delay });
  const own = await proxy.listen();
  proxies.push(proxy);
  const to = new URL(url);
  to.port = String(own);
  return {
    url: to.href,
    flights: () => sum(proxy.report().map((one) => one.flights.length)),
    bytes: () => sum(proxy.report().map((one) => one.toClient)),
  };
}

const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);

/** For neon: a WebSocket in front of that address. */
async function socketProxy(to) {
  const { host } = new URL(to);
  const { port, stop } = await startProxy({ allow: [host] });
  closers.push(stop);
  return `127.0.0.1:${port}`;
}

async function open(to, more = {}) {
  const client = await adapter.open(to, load, { ...options, ...more, socketProxy });
  closers.push(() => client.close());
  return client;
}

/** A client on a counted way that has run something. */
async function warm(more) {
  const way = await counted(10);
  const client = await open(way.url, more);
  for (let time = 0; time < 3; time++) await client.query("select 1 as one");
  return { way, client };
}

const running = async (mark) => {
  const text =
    "select count(*)::int4 as n from pg_stat_activity where state = 'active' and query like $1 and pid <> pg_backend_pid()";
  return (await admin.query(text, [`%${mark}%`])).rows[0].n;
};

/** Whether the server stops running what has that mark. */
async function stops(mark, within = 3_000) {
  for (const end = Date.now() + within; Date.now() < end; await pause(50)) if ((await running(mark)) === 0) return true;
  return false;
}

const settles = (promise, within = 3_000) =>
  Promise.race([
    promise.then(
      () => "resolved",
      (error) => `rejected: ${firstLine(error)}`,
    ),
    pause(within, "not settled"),
  ]);

const firstLine = (error) => String(error?.cause?.message ?? error?.message ?? error).split("\n")[0];

/** 100,000 rows of 1 kB each. */
const MANY = "select n, repeat('x', 1000) as filler from generate_series(1, 100000) n";
const COPY_MANY = `copy (${MANY}) to stdout`;

/** What a reader that stands still for a second and a half lets through; then it leaves, and the connection goes on. */
async function slowly(read) {
  const way = await counted(0);
  const client = await open(way.url);
  let whileStill;
  const loop = (async () => {
    let seen = 0;
    for await (const one of await read(client)) {
      void one;
      if (++seen === 1) {
        await pause(1_500);
        whileStill = way.bytes();
      }
      if (seen === 10) break;
    }
  })();
  const left = await settles(loop, 10_000);
  const next = await settles(client.query("select 1 as one"), 5_000);
  const MiB = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  return `${MiB(whileStill)} while it stood still, ${MiB(way.bytes())} in all; leaving ${left}, the next query ${next}`;
}

const questions = {
  async "round trips: new connection to its first row"() {
    const way = await counted(10);
    const client = await open(way.url);
    await client.query("select $1::int4 as n", [1]);
    return way.flights();
  },
  async "round trips: a new statement with a parameter"() {
    const { way, client } = await warm();
    const before = way.flights();
    await client.query("select $1::int4 + 1 as n", [1]);
    return way.flights() - before;
  },
  async "round trips: five new statements together"() {
    const { way, client } = await warm();
    const before = way.flights();
    await Promise.all([1, 2, 3, 4, 5].map((i) => client.query(`select $1::int4 + ${i} as n`, [i])));
    return way.flights() - before;
  },
  async "round trips: five runs of a known statement together"() {
    const { way, client } = await warm();
    for (let time = 0; time < 3; time++) await client.query("select $1::int4 + 9 as n", [time]);
    const before = way.flights();
    await Promise.all([1, 2, 3, 4, 5].map((i) => client.query("select $1::int4 + 9 as n", [i])));
    return way.flights() - before;
  },
  async "round trips: a tenant's setting and its query"() {
    const { way, client } = await warm();
    if (!client.tenant) return "none";
    const text = "select current_setting('app.tenant', true) as tenant";
    for (let time = 0; time < 3; time++) await client.tenant(text);
    const before = way.flights();
    const rows = await client.tenant(text);
    const flights = way.flights() - before;
    const [{ tenant }] = await client.query(text);
    return `${flights}; saw ${JSON.stringify(rows[0].tenant)}, left ${JSON.stringify(tenant)}`;
  },
  async "rows one by one, slowly"() {
    return (await open(url)).stream ? slowly((client) => client.stream(MANY)) : "none";
  },
  async "COPY out, slowly"() {
    return (await open(url)).copyOut ? slowly((client) => client.copyOut(COPY_MANY)) : "none";
  },
  async "COPY out and in"() {
    const client = await open(url);
    if (!client.copyIn) return "none";
    await admin.query("drop table if exists peers_copy; create table peers_copy (n int4, t text)");
    await admin.query("grant all on peers_copy to public");
    await client.copyIn("copy peers_copy from stdin", ["1\tone\n2\t", "two\n"]);
    let bytes = "";
    for await (const piece of await client.copyOut("copy peers_copy to stdout")) bytes += Buffer.from(piece).toString();
    return bytes === "1\tone\n2\ttwo\n" ? "yes" : `no: ${JSON.stringify(bytes)}`;
  },
  async "rows as NDJSON and CSV bytes"() {
    const client = await open(url);
    if (!client.ndjson) return "none";
    const text = "select n, 'x' as t from generate_series(1, 2) n";
    return JSON.stringify([await client.ndjson(text), await client.csv(text)]);
  },
  async "a running statement is cancelled"() {
    const client = await open(url);
    if (!client.cancellable) return "none";
    const { result, cancel } = client.cancellable("select pg_sleep(20) /* peers cancel */");
    result.catch?.(() => {});
    await pause(300);
    const before = await running("peers cancel");
    cancel();
    const [settled, stopped] = await Promise.all([settles(Promise.resolve(result)), stops("peers cancel")]);
    const next = await settles(client.query("select 1 as one"));
    return `running ${before}; the call ${settled}; the server ${stopped ? "stops" : "goes on"}; the next query ${next}`;
  },
  async "a call has a time limit"() {
    const client = await open(url);
    if (!client.limited) return "none";
    const settled = await settles(client.limited("select pg_sleep(8) /* peers limit */", 300));
    const stopped = await stops("peers limit", 2_000);
    const begin = Date.now();
    const next = await settles(client.query("select 1 as one"), 10_000);
    const after = Date.now() - begin < 500 ? "at once" : `after ${Math.round((Date.now() - begin) / 1000)} s`;
    return `the call ${settled}; the server ${stopped ? "stops" : "goes on"}; the next query ${next} ${after}`;
  },
  async "a cap on rows"() {
    const client = await open(url);
    return client.capped ? settles(client.capped(MANY, 100)) : "none";
  },
  async "a transaction by a callback"() {
    const client = await open(url);
    if (!client.transaction) return "none";
    await admin.query("drop table if exists peers_tx; create table peers_tx (n int4)");
    await admin.query("grant all on peers_tx to public");
    const undone = client.transaction(async (query) => {
      await query("insert into peers_tx values (1)");
      throw new Error("undo");
    });
    const settled = await settles(undone);
    await client.transaction(async (query) => void (await query("insert into peers_tx values (2)")));
    const { rows } = await admin.query("select n from peers_tx");
    return `${settled}; stored ${JSON.stringify(rows.map(({ n }) => n))}`;
  },
  async "a transaction is run again behind 40001"() {
    const client = await open(url);
    if (!client.retried) return "none";
    let runs = 0;
    const settled = await settles(client.retried((query) => query(++runs < 3 ? CONFLICT : "select 1 as one")));
    return `${settled} behind ${runs} runs`;
  },
  async "LISTEN, and again behind a lost connection"() {
    if (!adapter.listen) return "none";
    const heard = [];
    const channel = "peerschannel";
    const stop = await adapter.listen(url, load, channel, (payload) => heard.push(payload), { socketProxy });
    closers.push(stop);
    const hears = async (payload) => {
      for (const end = Date.now() + 8_000; Date.now() < end && !heard.includes(payload); await pause(200))
        await admin.query("select pg_notify($1, $2)", [channel, payload]);
      return heard.includes(payload) ? "heard" : "not heard";
    };
    const first = await hears("first");
    const { rowCount } = await admin.query(
      "select pg_terminate_backend(pid) from pg_stat_activity where query ilike 'listen %' and pid <> pg_backend_pid()",
    );
    return `${first}; ${rowCount} ended; ${await hears("second")}`;
  },
  async "values by default"() {
    const client = await open(url);
    const text = `select $1::int8 as int8, 12345678901234567890.123456789::numeric as numeric,
      '2024-02-29 12:00:00.123456+00'::timestamptz as timestamptz, '{"n": 9007199254740993}'::jsonb as jsonb`;
    const [row] = await client.query(text, ["9007199254740993"]);
    return Object.entries(row)
      .map(([name, value]) => `${name} ${value?.constructor?.name ?? typeof value} ${shown(value)}`)
      .join("; ");
  },
  async "results are asked for in binary"() {
    const seen = [];
    const { hostname: host, port } = new URL(url);
    const server = createServer((client) => {
      const real = connect({ host, port: Number(port) });
      const reader = new FrontendReader();
      client.on("data", (piece) => {
        reader.push(piece);
        for (let message = reader.next(); message; message = reader.next())
          if (message.name === "Bind") seen.push(bind(message.body).resultFormatCodes.join(""));
      });
      client.pipe(real).pipe(client);
      for (const socket of [client, real]) socket.on("error", () => {});
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    closers.push(() => server.close());
    const to = new URL(url);
    to.port = String(server.address().port);
    const client = await open(to.href);
    for (let time = 0; time < 4; time++) await client.query("select $1::int4 + 5 as n, 'x'::text as t", [time]);
    return seen
      .slice(-4)
      .map((codes) => codes || "text")
      .join(", ");
  },
  async "a login is bound to the certificate"() {
    if (driver === "neon") return "not run";
    const attempt = async (to) => {
      const client = await adapter.open(to, load, tlsOptions());
      closers.push(() => client.close());
      return client.query("select 1 as one");
    };
    const [straight, between] = [await settles(attempt(tlsUrl), 5_000), await settles(attempt(betweenUrl), 5_000)];
    return `straight ${straight}; through somebody in between ${between}`;
  },
  async "behind PgBouncer 1.18"() {
    return pooled(poolers.old, {});
  },
  async "transactions behind PgBouncer 1.18"() {
    return pooled(poolers.old, {}, true);
  },
  async "behind PgBouncer 1.18, told not to prepare"() {
    return pooled(poolers.old, { unprepared: true });
  },
  async "transactions behind PgBouncer 1.18, told not to prepare"() {
    return pooled(poolers.old, { unprepared: true }, true);
  },
  async "behind PgBouncer 1.24"() {
    return pooled(poolers.newer, {});
  },
  async "transactions behind PgBouncer 1.24"() {
    return pooled(poolers.newer, {}, true);
  },
};

const tlsOptions = () =>
  driver === "pg" ? { ssl: { rejectUnauthorized: false }, enableChannelBinding: true } : { tls: true };

const shown = (value) =>
  value instanceof Date ? value.toISOString() : typeof value === "bigint" ? `${value}n` : JSON.stringify(value);

/**
 * Eight clients on four server connections, each with the same five statements ten times: one by one, or each two times
 * in a transaction.
 */
async function pooled(to, more, inTransactions = false) {
  const clients = await Promise.all(Array.from({ length: 8 }, () => open(to, more)));
  if (inTransactions && !clients[0].transaction) for (const client of clients) client.transaction = byHand(client);
  const errors = [];
  let asked = 0;
  const work = clients.map(async (client, who) => {
    for (let round = 0; round < 10; round++)
      for (let which = 0; which < 5; which++) {
        asked++;
        const text = `select $1::int4 + ${which} as n`;
        const call = inTransactions
          ? client.transaction(async (query) => void [await query(text, [who]), await query(text, [who])])
          : client.query(text, [who]).then(([{ n }]) => n === who + which || Promise.reject(new Error(`${n}`)));
        const settled = await settles(call, 5_000);
        if (settled !== "resolved") errors.push(settled);
      }
  });
  await Promise.race([Promise.all(work), pause(15_000)]);
  return `${errors.length} of ${asked} wrong${errors.length > 0 ? `: ${errors[0]}` : ""}`;
}

/** For a driver without a call for it. */
const byHand = (client) => async (work) => {
  await client.query("begin");
  try {
    await work(client.query);
    await client.query("commit");
  } catch (error) {
    await client.query("rollback");
    throw error;
  }
};

for (const [name, ask] of Object.entries(questions)) {
  if (only && !name.includes(only)) continue;
  const answer = await Promise.race([
    ask().catch((error) => `error: ${firstLine(error)}`),
    pause(20_000, "no answer within 20 s"),
  ]);
  if (escaped.length > 0) {
    const [error] = escaped.splice(0);
    console.log(JSON.stringify([name, `${answer} (an error escapes: ${firstLine(error)})`]));
  } else console.log(JSON.stringify([name, String(answer)]));
  await Promise.race([Promise.allSettled(closers.splice(0).map(async (close) => close())), pause(2_000)]);
  for (const proxy of proxies.splice(0)) proxy.close();
  escaped.length = 0;
  await admin.query(
    "select pg_terminate_backend(pid) from pg_stat_activity where query like '%/* peers %' and pid <> pg_backend_pid()",
  );
}
process.exit(0);
