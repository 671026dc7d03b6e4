// Sessions behind PgBouncer in transaction mode: what a session keeps, what it loses, what it shares with other
// clients, and which error reports it. docs/poolers.md tells users; each of its statements about PgBouncer 1.18 is a
// test here.
//
// `one` has a single server connection, so every client finds what another client has left there. `two` has two, so a
// client whose first server connection is taken is certainly on the other.
import { readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Client, Notice, Options } from "../../js/index.ts";
import { logFile, type ServerDescriptor } from "../servers/index.mjs";
import { startPgBouncer } from "../servers/pgbouncer.mjs";
import { inTime } from "../support/until.mjs";
import { direct, driver, plain } from "./pooled.ts";

type Pooler = Awaited<ReturnType<typeof startPgBouncer>>;
let one: Pooler;
let two: Pooler;
const clients: Client[] = [];

beforeAll(async () => {
  const start = (name: string, poolSize: number, settings = "") =>
    startPgBouncer({ server: direct as ServerDescriptor, log: logFile(name), poolSize, settings });
  one = await start("pgbouncer-one", 1);
  two = await start(
    "pgbouncer-two",
    2,
    "query_wait_timeout = 1\nignore_startup_parameters = extra_float_digits, search_path, options",
  );
});
afterAll(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await Promise.all([one?.stop(), two?.stop()]);
});

async function client(pooler: Pooler, options: Options = {}): Promise<Client> {
  const made = await driver.connect(plain(pooler.descriptor), options);
  clients.push(made);
  return made;
}

async function value(of: Client, text: string): Promise<unknown> {
  return (await of.query<unknown[]>(text, { rowMode: "array" })).rows[0]?.[0];
}

/** Holds the server connection that is taken first, while `work` runs. */
async function besides<T>(work: (taken: unknown) => Promise<T>): Promise<T> {
  const holder = await client(two);
  return holder.transaction(async (tx) =>
    work((await tx.query<unknown[]>("select pg_backend_pid()", { rowMode: "array" })).rows[0]?.[0]),
  );
}

const refused = (pooler: Pooler, options: Options) =>
  client(pooler, options).then(
    () => "connected",
    ({ name, code, message }: Error & { code: string }) => [name, code, message],
  );

test("statements of one client run on several server connections, those of a transaction on one", async () => {
  const a = await client(two);
  const home = await value(a, "select pg_backend_pid()");
  await besides(async (taken) => {
    expect(taken).toBe(home);
    const away = await value(a, "select pg_backend_pid()");
    expect(away).not.toBe(home);
    await a.transaction(async (tx) => {
      for (let n = 0; n < 3; n++)
        expect((await tx.query("select pg_backend_pid() as pid")).rows).toEqual([{ pid: away }]);
    });
  });
});

test("SET stays on the server connection and is seen by other clients; SET LOCAL ends with its transaction", async () => {
  const [a, b] = [await client(one), await client(one)];
  await a.exec("set work_mem = '7MB'");
  await a.exec("set search_path = pg_catalog");
  expect([await value(b, "show work_mem"), await value(b, "show search_path")]).toEqual(["7MB", "pg_catalog"]);
  await b.exec("reset all");
  await a.transaction(async (tx) => {
    await tx.exec("set local work_mem = '8MB'");
    await tx.exec("select set_config('search_path', 'pg_catalog', true)");
    expect(
      (await tx.query("select current_setting('work_mem') as m, current_setting('search_path') as s")).rows,
    ).toEqual([{ m: "8MB", s: "pg_catalog" }]);
  });
  for (const each of [a, b])
    expect([await value(each, "show work_mem"), await value(each, "show search_path")]).toEqual([
      "4MB",
      '"$user", public',
    ]);
});

test("the settings that PgBouncer tracks follow their client", async () => {
  const [a, b] = [
    await client(one, { startup: { TimeZone: "Asia/Tokyo" }, applicationName: "first" }),
    await client(one),
  ];
  for (let n = 0; n < 2; n++) {
    expect([await value(a, "show time zone"), await value(a, "show application_name")]).toEqual([
      "Asia/Tokyo",
      "first",
    ]);
    expect([await value(b, "show time zone"), await value(b, "show application_name")]).toEqual(["UTC", "pgz-edge"]);
  }
  await b.exec("set time zone 'Europe/Paris'");
  expect([await value(a, "show time zone"), await value(b, "show time zone"), b.parameterStatus("TimeZone")]).toEqual([
    "Asia/Tokyo",
    "Europe/Paris",
    "Europe/Paris",
  ]);
  // Rows do not depend on these clients' DateStyle.
  await b.exec("set datestyle = 'German'");
  expect(await value(b, "select date '2026-02-01'")).toBe("2026-02-01");
  expect([await value(a, "show datestyle"), await value(b, "show datestyle")]).toEqual(["ISO, MDY", "German, DMY"]);
});

test("other startup parameters are refused, or silently lost when PgBouncer is told to ignore them", async () => {
  expect(await refused(one, { startup: { search_path: "app" } })).toEqual([
    "PostgresError",
    "08P01",
    "unsupported startup parameter: search_path",
  ]);
  expect(await refused(one, { options: "-c work_mem=9MB" })).toEqual([
    "PostgresError",
    "08P01",
    "unsupported startup parameter: options",
  ]);
  const ignored = await client(two, { startup: { search_path: "app" }, options: "-c work_mem=9MB" });
  expect([await value(ignored, "show search_path"), await value(ignored, "show work_mem")]).toEqual([
    '"$user", public',
    "4MB",
  ]);
});

test("a failed login, an unknown database and protocol 3.2 are errors with PgBouncer's message", async () => {
  expect(await refused(one, { password: "wrong" })).toMatchObject([
    "PostgresError",
    "08P01",
    /SASL authentication failed/,
  ]);
  expect(await refused(one, { database: "nowhere" })).toEqual(["PostgresError", "08P01", "no such database: nowhere"]);
  expect(await refused(one, { maxProtocolVersion: "3.2" })).toMatchObject([
    "PostgresError",
    "08P01",
    /^bad packet header/,
  ]);
});

test("TLS to PgBouncer works, and the first query leaves with the last message of authentication", async () => {
  const a = driver.createClient(plain(one.descriptor), {
    host: "localhost",
    sslmode: "verify-full",
    ca: readFileSync(direct.caFile!, "utf8"),
    earlyQuery: true,
  });
  clients.push(a);
  expect(await value(a, "select 7")).toBe(7);
});

test("listen() is refused behind a pooler, which is recognised by its process id", async () => {
  const a = await client(one);
  const attempt = () =>
    a.listen("news").then(
      (listener) => (listener.close(), "listens"),
      ({ name, code }: { name: string; code: string }) => `${name} ${code}`,
    );
  // One process id in 1024 looks like a server's.
  expect([await attempt(), await attempt(), await attempt()]).toContain("UsageError LISTEN_BEHIND_POOLER");
});

test("LISTEN in SQL is accepted but never delivers: the server connection listens, and its next client is undisturbed", async () => {
  const notices: Notice[] = [];
  const observer = { onNotice: (notice: Notice) => void notices.push(notice) };
  const [a, b] = [await client(one, { observer }), await client(one, { observer })];
  expect(await a.exec("listen news")).toEqual({ command: "LISTEN", rowCount: null });
  expect(await value(b, "select pg_listening_channels()")).toBe("news");
  // NotificationResponse arrives in the middle of another client's results.
  await b.exec("notify news, 'from inside'");
  const outside = await driver.connect(plain(direct));
  await b.transaction(async (tx) => {
    await tx.query("select 1");
    await outside.exec("notify news, 'from outside'");
    for (let n = 0; n < 5; n++) expect((await tx.query("select 2 as a")).rows).toEqual([{ a: 2 }]);
  });
  await outside.exec("notify news, 'to nobody'");
  await outside.close();
  expect([await value(a, "select 3"), await value(b, "select 4")]).toEqual([3, 4]);
  expect(notices).toEqual([]);
  await a.exec("unlisten *");
});

test("session advisory locks do not exclude clients on the same server connection; transaction locks do", async () => {
  const [a, b] = [await client(one), await client(one)];
  expect([await value(a, "select pg_try_advisory_lock(4)"), await value(b, "select pg_try_advisory_lock(4)")]).toEqual([
    true,
    true,
  ]);
  await b.exec("select pg_advisory_unlock_all()");
  const [c, d] = [await client(two), await client(two)];
  await c.transaction(async (tx) => {
    await tx.query("select pg_advisory_xact_lock(5)");
    expect(await value(d, "select pg_try_advisory_xact_lock(5)")).toBe(false);
  });
  expect(await value(d, "select pg_try_advisory_xact_lock(5)")).toBe(true);
});

test("temporary tables, SQL's PREPARE and WITH HOLD cursors belong to the server connection", async () => {
  const a = await client(two);
  await a.exec("create temp table mine (n int4)");
  await a.exec("prepare mine as select 5");
  await a.exec("declare mine cursor with hold for select 7");
  await besides(async () => {
    await expect(a.query("table mine")).rejects.toMatchObject({ name: "PostgresError", code: "42P01" });
    await expect(a.query("execute mine")).rejects.toMatchObject({ name: "PostgresError", code: "26000" });
    await expect(a.query("fetch mine")).rejects.toMatchObject({ name: "PostgresError", code: "34000" });
  });
  expect((await (await client(two)).query("table mine")).rows).toEqual([]);
  await a.exec("discard all");
  await a.transaction(async (tx) => {
    await tx.exec("create temp table mine on commit drop as select 6 as n");
    expect((await tx.query("table mine")).rows).toEqual([{ n: 6 }]);
  });
});

test("a connection ends after a failed COPY, since its pooler may have lost count of the responses", async () => {
  let ended = 0;
  const a = await client(one, { observer: { onDisconnect: () => void ended++ } });
  await a.exec("create table if not exists failed_copy (n int4)");
  const copy = (on: Pick<Client, "copyFrom">) => on.copyFrom("copy failed_copy (n) from stdin", ["1\n", "x\n"]);
  const failed = expect.objectContaining({ code: "22P02" }) as unknown;
  await expect(copy(a)).rejects.toEqual(failed);
  expect(await value(a, "select 2")).toBe(2);
  expect(ended).toBe(1);
  // A transaction needs its connection until its end.
  await a.transaction(async (tx) => {
    await expect(tx.transaction(copy)).rejects.toEqual(failed);
    expect((await tx.query("select count(*)::int4 as n from failed_copy")).rows).toEqual([{ n: 0 }]);
    expect(ended).toBe(1);
  });
  expect(await value(a, "select 3")).toBe(3);
  expect(ended).toBe(2);
  await a.exec("drop table failed_copy");
});

test('prepare: "named" outside a transaction: a missing name is noticed once and nobody hears of it', async () => {
  const a = await client(two, { prepare: "named" });
  for (let n = 0; n < 2; n++) expect(await value(a, "select 11")).toBe(11);
  await besides(async () => {
    for (let n = 0; n < 2; n++) expect(await value(a, "select 11")).toBe(11);
  });
  expect(a.stats().errors).toBe(0);
});

test('prepare: "named" outside a transaction: batches with a missing name run once and completely', async () => {
  const setup = await client(two);
  await setup.exec("create table batched (n int4)");
  const one = { text: "select $1::int4 as a", values: [1] };
  for (const atomic of [true, false] as const) {
    const a = await client(two, { prepare: "named" });
    for (let n = 0; n < 2; n++) await a.query(one);
    const results = await besides(() =>
      a.batch(["insert into batched values (1)", one], { atomic } as { atomic: true }),
    );
    expect(results).toMatchObject(
      atomic ? [{ rowCount: 1 }, { rows: [{ a: 1 }] }] : [{ value: { rowCount: 1 } }, { value: { rows: [{ a: 1 }] } }],
    );
  }
  expect(await value(setup, "select count(*)::int4 from batched")).toBe(2);
  await setup.exec("drop table batched");
});

test('prepare: "named" inside a transaction: a missing name is 26000, rolled back; from then on nothing is named', async () => {
  const a = await client(two, { prepare: "named" });
  for (let n = 0; n < 2; n++) expect(await value(a, "select 12")).toBe(12);
  const transaction = () =>
    a.transaction(async (tx) => {
      await tx.query("select 13");
      return (await tx.query("select 12 as a")).rowCount;
    });
  // The statement is named from its second run on. The name of its first run lasts only one flight.
  for (let n = 0; n < 2; n++) await a.query("select 12 as a");
  await besides(async () => {
    await expect(transaction()).rejects.toMatchObject({
      name: "PostgresError",
      code: "26000",
      isInvalidSqlStatementName: true,
    });
    expect(a.stats()).toMatchObject({ state: "idle", transactionStatus: "I" });
    expect(await transaction()).toBe(1);
  });
});

test("a call that waits too long for a server connection gets PgBouncer's error, and an earlier deadline of its own fires first", async () => {
  await besides(() =>
    besides(async () => {
      const [patient, hasty] = [await client(two), await client(two)];
      await expect(hasty.query("select 1", { timeout: 100 })).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
      await expect(patient.query("select 1")).rejects.toMatchObject({
        name: "PostgresError",
        code: "08P01",
        message: "query_wait_timeout",
      });
      expect(patient.stats().state).toBe("lost");
    }),
  );
});

test("a PgBouncer that stops is a lost connection", async () => {
  const third = await startPgBouncer({ server: direct as ServerDescriptor, log: logFile("pgbouncer-three") });
  const [idle, busy] = [await client(third), await client(third)];
  const running = busy.query("select pg_sleep(5)");
  const lost = expect(running).rejects.toMatchObject({
    name: "ConnectionError",
    code: "CONNECTION_LOST",
    retryable: false,
  });
  await new Promise((resolve) => setTimeout(resolve, 50));
  await third.stop();
  await lost;
  await expect(idle.query("select 1")).rejects.toMatchObject({ name: "ConnectionError", code: "CONNECT_FAILED" });
});

test("a call whose deadline passes while it waits for a server connection ends in time, and the next call settles", async () => {
  const [holder, late] = [await client(one), await client(one)];
  await late.query({ text: "select pg_sleep($1)", values: [0] });
  await holder.exec("begin");
  await expect(late.query({ text: "select pg_sleep($1)", values: [4] }, { timeout: 100 })).rejects.toMatchObject({
    code: "QUERY_TIMEOUT",
  });
  expect(late.stats().state).toBe("busy"); // the driver still gives the connection time to become ready
  await holder.exec("commit");
  // PgBouncer drops a CancelRequest for a waiting client, so the statement may run after all. Then the client is lost
  // within two seconds.
  const next = await inTime(late.query("select 1 as a")).then(
    ({ rows }) => rows,
    ({ code, retryable }: { code: string; retryable: boolean }) => ({ code, retryable }),
  );
  expect([[{ a: 1 }], { code: "CONNECTION_LOST", retryable: true }]).toContainEqual(next);
});
