// The simulator's model of a PostgreSQL server, as the real driver sees it, over sockets in memory and real time.
import { afterEach, describe, expect, it } from "vitest";
import { createClient, type Client } from "../../js/api/client.ts";
import type { Options } from "../../js/config/options.ts";
import { createPool, type Pool } from "../../js/pool/pool.ts";
import type { PoolOptions } from "../../js/pool/options.ts";
import { sql } from "../../js/statement/sql.ts";
import { Server, type ServerOptions } from "../simulation/server/server.ts";
import type { Clock } from "../simulation/contract.ts";
import { clock, listen, newDice } from "../support/model-host.ts";

let server: Server;
const clients: (Client | Pool)[] = [];

function newServer(options: Partial<ServerOptions> = {}, time = clock): void {
  server = new Server(time, newDice(), {
    version: 18,
    authentication: "trust",
    maxConnections: 10,
    roles: { app: { password: "app-secret" }, other: { password: "other-secret" } },
    ...options,
  });
  listen(server);
}

let databases = 0;

/** A new database, so that no client knows another's statements. */
const place = (): Options => ({
  host: "memory",
  user: "app",
  password: "app-secret",
  database: `simulated${databases++}`,
  sslmode: "disable",
});

function newClient(options: Options = {}): Client {
  const client = createClient({ ...place(), ...options });
  clients.push(client);
  return client;
}

function newPool(options: PoolOptions): Pool {
  const pool = createPool(place(), options);
  clients.push(pool);
  return pool;
}

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  expect(server.unknownStatements).toEqual([]);
});

/** The ways in which the driver may send a statement. */
const WAYS: readonly Options[] = [
  { prepare: "named" },
  { prepare: "unnamed" },
  { firstRun: "describe" },
  { prepare: "named", firstRun: "describe" },
];

describe.each([15, 18] as const)("PostgreSQL %d", (version) => {
  it.each(["trust", "password", "md5", "scram-sha-256"] as const)("accepts a login by %s", async (authentication) => {
    newServer({ version, authentication });
    const client = newClient({ allowCleartextPassword: true });
    const { rows } = await client.query("select current_user::text as name, 7::int4 as n");
    expect(rows).toEqual([{ name: "app", n: 7 }]);
  });

  it.each(["password", "md5", "scram-sha-256"] as const)("refuses a wrong password by %s", async (authentication) => {
    newServer({ version, authentication });
    const client = newClient({ allowCleartextPassword: true, password: "wrong" });
    await expect(client.query("select 1")).rejects.toMatchObject({ code: "28P01" });
  });

  it.each(WAYS)("returns and accepts values of all types, with %o", async (way) => {
    newServer({ version });
    const client = newClient(way);
    const names = ["i2", "i8", "t", "b", "f8", "n", "j", "u", "ia", "ta", "m"];
    const types = ["int2", "int8", "text", "bool", "float8", "numeric", "jsonb", "uuid", "int4[]", "text[]", "mood"];
    const list = types.map((type, at) => `$${at + 1}::${type} as ${names[at]}`).join(", ");
    const uuid = "6f1f9a3e-0b1c-4d2e-8f30-414243444546";
    const values = [7, 9007199254740993n, "ü €", true, 0.1, "12.30", { a: [1] }, uuid, [1, null], ["a", "b c"], "glad"];
    for (let run = 0; run < 3; run++) {
      const { rows } = await client.query(`select ${list}`, values as never[]);
      expect(JSON.parse(JSON.stringify(rows, (_, it: unknown) => (typeof it === "bigint" ? String(it) : it)))).toEqual([
        {
          i2: 7,
          i8: "9007199254740993",
          t: "ü €",
          b: true,
          f8: 0.1,
          n: "12.30",
          j: { a: [1] },
          u: uuid,
          ia: [1, null],
          ta: ["a", "b c"],
          m: "glad",
        },
      ]);
    }
  });

  it("keeps what was committed, and nothing else", async () => {
    newServer({ version });
    const client = newClient();
    await client.exec("insert into ledger (n) values ($1), ($2)", [1, 2]);
    await client.transaction(async (tx) => {
      await tx.exec("insert into ledger (n) values ($1)", [3]);
      await tx
        .transaction(async (inner) => {
          await inner.exec("insert into ledger (n) values ($1)", [4]);
          throw new Error("undone");
        })
        .catch(() => {});
    });
    await client
      .transaction(async (tx) => {
        await tx.exec("insert into ledger (n) values ($1)", [5]);
        throw new Error("undone");
      })
      .catch(() => {});
    await client.batch([sql`insert into ledger (n) values (${6})`, sql`update ledger set n = ${10} where n = ${1}`]);
    const failing = client.batch([sql`insert into ledger (n) values (${7})`, sql`select 1 / 0`]);
    await expect(failing).rejects.toMatchObject({ code: "22012" });
    expect([...server.ledger].sort((a, b) => a - b)).toEqual([2, 3, 6, 10]);
    expect(server.openTransactions).toBe(0);
    expect(server.locks).toEqual([]);
  });

  it("copies in and out", async () => {
    newServer({ version });
    const client = newClient();
    await client.copyFrom("copy ledger from stdin", "1\n2\n");
    await client.copyFrom("copy ledger (n) from stdin", "3\n");
    expect(await new Response(await client.copyTo("copy ledger to stdout")).text()).toBe("1\n2\n3\n");
    await expect(client.copyFrom("copy ledger from stdin", "x\n")).rejects.toMatchObject({ code: "22P02" });
    expect(server.ledger).toEqual([1, 2, 3]);
  });

  it("streams, and stops in the middle", async () => {
    newServer({ version });
    const client = newClient();
    let count = 0;
    for await (const _ of client.rows("select n from generate_series(1, 5000) n")) if (++count === 100) break;
    for await (const rows of client.cursor("select n from generate_series(1, 500) n", 100)) count += rows.length;
    expect(count).toBe(600);
    expect((await client.query("select 1::int4 as n")).rows).toEqual([{ n: 1 }]);
  });

  it("cancels a running call", async () => {
    newServer({ version });
    const client = newClient();
    await client.query("select 1");
    const signal = AbortSignal.timeout(30);
    await expect(client.query("select pg_sleep(30)", [], { signal })).rejects.toThrow();
    expect((await client.query("select 1::int4 as n")).rows).toEqual([{ n: 1 }]);
    expect(server.cancelRequests).toMatchObject([{ isKnown: true, state: "active" }]);
  });

  it("ends a session, and accepts the next one", async () => {
    newServer({ version });
    const client = newClient();
    await client.query("select 1");
    const [{ processId }] = server.backends as [(typeof server.backends)[0]];
    const sleeping = client.query("select pg_sleep(30)");
    sleeping.catch(() => {});
    setTimeout(() => server.terminate(processId), 20);
    await expect(sleeping).rejects.toMatchObject({ code: "57P01" });
    expect((await client.query("select 1::int4 as n")).rows).toEqual([{ n: 1 }]);
    expect(server.mostBackends).toBeLessThanOrEqual(2);
  });

  it("notifies", async () => {
    newServer({ version });
    const client = newClient();
    await using listener = await client.listen("news");
    await listener.ready;
    await client.notify("news", "hello");
    const { value } = await listener[Symbol.asyncIterator]().next();
    expect(value).toMatchObject({ channel: "news", payload: "hello" });
  });

  it("gives a pool's borrowers clean sessions", async () => {
    newServer({ version });
    const pool = newPool({ max: 2 });
    await using lease = await pool.acquire();
    await lease.exec("set application_name = 'left'");
    await lease.exec("create temp table picked (n int4)");
    await lease.exec("select pg_advisory_lock(1)");
    await lease.exec("listen rest");
    await lease.release();
    await pool.query("select 1");
    expect(server.locks).toEqual([]);
    expect(server.temporaryTables).toEqual([]);
    expect(server.backends.flatMap(({ listening, settings }) => [...listening, ...settings])).toEqual([]);
  });

  it("reports that a cached plan's columns have changed", async () => {
    newServer({ version });
    const client = newClient();
    for (let run = 0; run < 3; run++)
      expect((await client.query("select * from shape")).rows).toEqual([{ a: 1, b: "one" }]);
    await client.exec("alter table shape add column c int8");
    expect((await client.query("select * from shape")).rows).toEqual([{ a: 1, b: "one", c: null }]);
  });

  it("sets a scope's settings for its calls alone", async () => {
    newServer({ version });
    const client = newClient();
    const scope = client.scope({ settings: { "app.tenant": 7 }, role: "other" });
    const text = "select current_setting('app.tenant', true) as tenant, current_user::text as role";
    expect((await scope.query(text)).rows).toEqual([{ tenant: "7", role: "other" }]);
    expect((await scope.query(text)).rows).toEqual([{ tenant: "7", role: "other" }]);
    expect((await client.query(text)).rows).toEqual([{ tenant: "", role: "app" }]);
  });

  it("accepts logins up to its limit, and says why it refuses more", async () => {
    newServer({ version, maxConnections: 1, roles: { app: { password: "", connectionLimit: 1 } } });
    await newClient().query("select 1");
    await expect(newClient().query("select 1")).rejects.toMatchObject({ code: "53300" });
    await expect(newClient({ user: "nobody" }).query("select 1")).rejects.toMatchObject({ code: "53300" });
    expect([server.mostBackends, server.mostBackendsOf("app")]).toEqual([1, 1]);
  });

  it("refuses a role or a database that does not exist", async () => {
    newServer({ version });
    await expect(newClient({ user: "nobody" }).query("select 1")).rejects.toMatchObject({ code: "28000" });
    await expect(newClient({ database: "nowhere" }).query("select 1")).rejects.toMatchObject({ code: "3D000" });
  });

  it("loses uncommitted changes in a restart, and accepts clients again", async () => {
    // Delayed work runs when this test says so.
    const later: (() => void)[] = [];
    const after: Clock["after"] = (milliseconds, event) => {
      if (milliseconds < 50) return clock.after(milliseconds, event);
      later.push(event);
      return { cancel: () => {} };
    };
    newServer({ version }, { now: 0, note: () => {}, after });
    let restarted = 0;
    const client = newClient();
    await client.exec("insert into ledger values (1)");
    const lost = client.transaction(async (tx) => {
      await tx.exec("insert into ledger values (2)");
      restarted = later.length;
      server.restart(200);
      await tx.query("select pg_sleep(1)");
    });
    await expect(lost).rejects.toMatchObject({ code: "57P01" });
    expect(server.backends).toEqual([]);
    const [begins, isUp] = later.slice(restarted);
    begins!();
    await expect(newClient().query("select 1")).rejects.toMatchObject({ code: "57P03" });
    isUp!();
    expect((await newClient().query("select n from ledger")).rows).toEqual([{ n: 1 }]);
    expect(server.locks).toEqual([]);
  });

  it("makes one session wait for another", async () => {
    newServer({ version });
    const [first, second] = [newClient(), newClient()];
    await first.exec("insert into ledger values (1)");
    const order: string[] = [];
    let waiting: Promise<unknown> | undefined;
    await first.transaction(async (tx) => {
      await tx.exec("update ledger set n = 2 where n = 1");
      waiting = second.exec("update ledger set n = n + 10").then(() => order.push("second"));
      await new Promise((resolve) => setTimeout(resolve, 30));
      order.push("first");
    });
    await waiting;
    expect([order, server.ledger]).toEqual([["first", "second"], [12]]);
  });
});
