// The Durable Object of worker-example: one pool for all its requests, and LISTEN fanned out to many clients. It
// recovers from the loss of connections, of the listener, and of the object itself.
import { randomBytes } from "node:crypto";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { linkDriver } from "../../worker-example/build.mjs";
import { testServers } from "../integration/servers.ts";
import { until } from "../support/until.mjs";
import { startWorker, type Worker } from "./host.mjs";

const { superuserUrl, url: ownUrl } = testServers().servers[0]!;
const MAX = 5;
/** A role of our own, which distinguishes the object's sessions from others. */
const role = `durable_${randomBytes(4).toString("hex")}`;
const admin = new pg.Client({ connectionString: superuserUrl });
let worker: Worker;

beforeAll(async () => {
  await admin.connect();
  await admin.query(`create role ${role} login password 'durable'`);
  const url = new URL(ownUrl);
  [url.username, url.password, url.search] = [role, "durable", "?sslmode=disable"];
  linkDriver();
  worker = await startWorker({
    entry: fileURLToPath(new URL("fixture/durable-object.ts", import.meta.url)),
    options: {
      compatibilityFlags: ["no_nodejs_compat"],
      bindings: { DATABASE_URL: url.href },
      durableObjects: { DATABASE: { className: "Database", useSQLite: true } },
    },
  });
});
afterAll(async () => {
  await worker?.stop();
  await until(async () => (await sessions()).length === 0);
  await admin.query(`drop role ${role}`);
  await admin.end();
});
beforeEach(async () => {
  // A client that has hung up is noticed by a write, and LISTEN ends with the last client.
  await until(async () => (await listeners()) === 0);
});

async function get<T = Record<string, unknown>>(path: string): Promise<T> {
  const response = await fetch(new URL(path, worker.url));
  const text = await response.text();
  if (!response.ok) throw new Error(`${path}: ${response.status} ${text}`);
  return JSON.parse(text) as T;
}

const sessions = async () =>
  (
    await admin.query<{ pid: number; query: string }>("select pid, query from pg_stat_activity where usename = $1", [
      role,
    ])
  ).rows;
const listeners = async () => (await sessions()).filter(({ query }) => /^listen/i.test(query)).length;
const terminate = (which: string) =>
  admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where usename = '${role}' and query ${which}`);
const notify = (channel: string, payload: string) => admin.query("select pg_notify($1, $2)", [channel, payload]);

interface Event {
  name: string;
  data: { channel?: string; payload?: string; reason?: string };
}

/** A client of server-sent events. It reads only when `next` is called. */
async function hear(path: string) {
  const controller = new AbortController();
  const response = await fetch(new URL(path, worker.url), { signal: controller.signal });
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  const reader = response.body!.getReader();
  const decoder = new TextDecoder();
  const events: Event[] = [];
  let text = "";
  let bytes = 0;
  const next = async (): Promise<Event> => {
    while (!events.length) {
      const { done, value } = await reader.read();
      if (done) throw new Error("the stream has ended");
      bytes += value.length;
      const parts = (text + decoder.decode(value, { stream: true })).split("\n\n");
      text = parts.pop()!;
      for (const part of parts) {
        const [, name, data] = /^event: (.*)\ndata: (.*)$/.exec(part) ?? [];
        if (name) events.push({ name, data: JSON.parse(data!) as Event["data"] });
        else if (part !== ":") throw new Error(`no event: ${part}`);
      }
    }
    return events.shift()!;
  };
  expect(await next()).toMatchObject({ name: "listening" });
  return { next, leave: () => controller.abort(), bytes: () => bytes };
}
type Hearer = Awaited<ReturnType<typeof hear>>;

const heard = (channel: string, payload: string) => ({ name: "notification", data: { channel, payload } });

test("50 requests at once share the object's pool, which never has more than max connections", async () => {
  let most = 0;
  let isOver = false;
  const watching = (async () => {
    while (!isOver) most = Math.max(most, (await sessions()).length);
  })();
  const answers = await Promise.all(Array.from({ length: 50 }, () => get<{ total: number }>("/sleep")));
  for (let n = 0; n < 5; n++) await get("/sleep");
  isOver = true;
  await watching;
  expect(Math.max(...answers.map(({ total }) => total))).toBe(MAX);
  expect(most).toBe(MAX);
  expect(await get("/stats")).toMatchObject({ max: MAX, connects: MAX, acquires: 55, waiting: 0, acquired: 0 });
});

test("connections that the server has ended are noticed before the next call, transaction or lease", async () => {
  for (const path of ["/sleep", "/transaction", "/lease"]) {
    await Promise.all(Array.from({ length: 20 }, () => get("/sleep")));
    // Repeated, because a connection that is just being opened is not visible yet.
    await until(async () => {
      await terminate("is not null");
      return (await get<{ total: number }>("/stats")).total === 0;
    });
    await get(path);
  }
});

test("while the server refuses logins, calls wait: the pool's back-off continues from request to request", async () => {
  await admin.query(`alter role ${role} connection limit 0`);
  await terminate("is not null");
  await until(async () => (await sessions()).length === 0);
  const calls = Array.from({ length: 8 }, () => get("/sleep"));
  try {
    // Eight attempts are more than the first pause allows.
    await until(async () => (await get<{ failedConnects: number }>("/stats")).failedConnects >= 8);
    expect(await get("/stats")).toMatchObject({ waiting: 8, idle: 0, acquired: 0 });
  } finally {
    await admin.query(`alter role ${role} connection limit -1`);
  }
  await Promise.all(calls);
});

test("clients of a channel share one LISTEN, which ends when the last client leaves", async () => {
  const [one, two] = await Promise.all([hear("/hear?channel=jobs"), hear("/hear?channel=jobs")]);
  expect(await listeners()).toBe(1);
  await notify("jobs", "first\nline");
  for (const client of [one, two]) expect(await client.next()).toEqual(heard("jobs", "first\nline"));

  const other = await hear("/hear?channel=Jobs");
  expect(await listeners()).toBe(2);
  await expect(hear("/hear?channel=jobs")).rejects.toThrow("503"); // one more than the caps allow

  one.leave();
  await notify("jobs", "second");
  expect(await two.next()).toEqual(heard("jobs", "second"));
  await notify("Jobs", "third");
  expect(await other.next()).toEqual(heard("Jobs", "third"));
  await leaveAll([two, other], "jobs", "Jobs");
});

/** Makes the clients leave. The object notices only when it writes to them. */
async function leaveAll(clients: Hearer[], ...channels: string[]) {
  for (const client of clients) client.leave();
  await until(async () => {
    for (const channel of channels) await notify(channel, "is anybody there?");
    return (await listeners()) === 0;
  });
}

test("a listener whose connection is lost reconnects, and its clients are told", async () => {
  const clients = await Promise.all([hear("/hear?channel=jobs"), hear("/hear?channel=jobs")]);
  await terminate("ilike 'listen%'");
  for (const client of clients)
    expect(await client.next()).toEqual({ name: "missed", data: { reason: "connection lost" } });
  await notify("jobs", "again");
  for (const client of clients) expect(await client.next()).toEqual(heard("jobs", "again"));
  await leaveAll(clients, "jobs");
});

test("an evicted object returns with the next request, and its listeners find their streams ended", async () => {
  const client = await hear("/hear?channel=jobs");
  await get("/sleep");
  await expect(get("/evict")).rejects.toThrow();
  await expect(client.next()).rejects.toThrow();
  expect(await get("/stats")).toMatchObject({ connects: 0, total: 0 });
  await Promise.all(Array.from({ length: 20 }, () => get("/sleep")));
  const again = await hear("/hear?channel=jobs");
  await notify("jobs", "after");
  expect(await again.next()).toEqual(heard("jobs", "after"));
  await leaveAll([again], "jobs");
});

/** Notifications of 8 kB each, with the numbers from `first` on. */
const flood = (channel: string, first: number, count: number) =>
  admin.query(`select pg_notify($1, repeat('x', 7980) || n) from generate_series(${first}, ${first + count - 1}) n`, [
    channel,
  ]);

test("a slow client costs bounded memory and is told, and a fast client beside it misses nothing", async () => {
  const [slow, fast] = [await hear("/hear?channel=flood"), await hear("/hear?channel=flood")];
  const burst = 50;
  for (let first = 0; first < 4_000; first += burst) {
    await flood("flood", first, burst);
    for (let n = first; n < first + burst; n++)
      expect((await fast.next()).data.payload).toMatch(new RegExp(`^x+${n}$`));
  }
  await notify("flood", "last");
  let missed = 0;
  for (let event = await slow.next(); event.data.payload !== "last"; event = await slow.next())
    if (event.name === "missed") expect(event.data.reason).toBe((missed++, "too slow"));
  expect(missed).toBeGreaterThan(0);
  expect(slow.bytes()).toBeLessThan(fast.bytes() * 0.75); // 32 MB, more than two sockets buffer
  await leaveAll([slow, fast], "flood");
});

test("a client that does not read is disconnected", async () => {
  await hear("/hear?stuck&channel=stuck");
  await flood("stuck", 0, 4_000);
  await until(async () => (await listeners()) === 0);
});
