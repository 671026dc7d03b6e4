// The simulator's model of PgBouncer in front of its model of a server, as the real driver sees them, over sockets in
// memory and real time. tests/simulation/conform-pooler.mjs compares the model with real ones.
import { afterEach, describe, expect, it } from "vitest";
import { createClient, type Client } from "../../js/api/client.ts";
import type { Options } from "../../js/config/options.ts";
import type { PoolOptions } from "../../js/pool/options.ts";
import { createPool, type Pool } from "../../js/pool/pool.ts";
import { sql } from "../../js/statement/sql.ts";
import { Pooler, type PoolerOptions } from "../simulation/server/pooler.ts";
import { Server, type Quirks } from "../simulation/server/server.ts";
import { clock, listen, newDice } from "../support/model-host.ts";
import { until } from "../support/until.mjs";

let server: Server;
let pooler: Pooler;
const clients: (Client | Pool)[] = [];
const roles = { app: { password: "app-secret" }, other: { password: "other-secret" } };

function newPooler(options: Pick<PoolerOptions, "version"> & Partial<PoolerOptions>): void {
  server = new Server(clock, newDice(), { version: 18, authentication: "scram-sha-256", maxConnections: 10, roles });
  pooler = new Pooler(clock, newDice(), server, { authentication: "scram-sha-256", roles, ...options });
  listen(pooler);
}

let databases = 0;

/** A new database, so that no client knows another's statements. `same`: the database of the previous client. */
const place = (same = false): Options => ({
  host: "memory",
  user: "app",
  password: "app-secret",
  database: `pooled${same ? databases : ++databases}`,
  sslmode: "disable",
});

function newClient(options: Options = {}, same = false): Client {
  const client = createClient({ ...place(same), ...options });
  clients.push(client);
  return client;
}

function newPool(options: PoolOptions): Pool {
  const pool = createPool(place(), options);
  clients.push(pool);
  return pool;
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  await until(() => !pooler.clients.length && !pooler.waiting && !server.openTransactions);
  await until(() => pooler.serverConnections.every(({ state }) => state === "idle"));
  await until(() => server.backends.length === pooler.serverConnections.length);
  expect(server.unknownStatements).toEqual([]);
  pooler.shutDown();
  await until(() => !server.backends.length);
});

/** The ways in which the driver may send a statement. */
const WAYS: readonly Options[] = [{}, { prepare: "unnamed" }, { firstRun: "describe" }, { prepare: "named" }];

describe.each(["1.18", "1.24"] as const)("PgBouncer %s", (version) => {
  it.each(["trust", "password", "md5", "scram-sha-256"] as const)("accepts a login by %s", async (authentication) => {
    newPooler({ version, authentication });
    const client = newClient({ allowCleartextPassword: true });
    const { rows } = await client.query("select current_user::text as name, 7::int4 as n");
    expect(rows).toEqual([{ name: "app", n: 7 }]);
  });

  it.each(["password", "md5", "scram-sha-256"] as const)("refuses a wrong password by %s", async (authentication) => {
    newPooler({ version, authentication });
    const client = newClient({ allowCleartextPassword: true, password: "wrong" });
    await expect(client.query("select 1")).rejects.toMatchObject({
      code: "08P01",
      message: `${authentication === "scram-sha-256" ? "SASL" : "password"} authentication failed`,
    });
  });

  it("refuses unknown parameters at login", async () => {
    newPooler({ version, databases: ["app"], maxClientConnections: 1 });
    const message = (options: Options) =>
      newClient(options)
        .query("select 1")
        .then(
          () => "well",
          (error: Error) => error.message,
        );
    expect(await message({ database: "nowhere" })).toBe("no such database: nowhere");
    expect(await message({ database: "app", startup: { search_path: "app" } })).toBe(
      "unsupported startup parameter: search_path",
    );
    expect(await message({ database: "app" })).toBe("well");
    expect(await message({ database: "app" })).toBe("no more connections allowed (max_client_conn)");
  });

  it("reports what the server says at login", async () => {
    newPooler({ version });
    const error = await newClient({ database: "nowhere" })
      .query("select 1")
      .then(
        () => undefined,
        (reason: Error) => reason,
      );
    expect(error).toMatchObject({
      code: version === "1.18" ? "08P01" : "3D000",
      message: 'database "nowhere" does not exist',
    });
  });

  it.each(WAYS)("runs many clients over two server connections, with %o", async (way) => {
    newPooler({ version, poolSize: 2 });
    const all = Array.from({ length: 6 }, (_, at) => newClient(way, at > 0));
    const work = all.map(async (client, at) => {
      for (let run = 0; run < 5; run++) {
        const { rows } = await client.query(`select $1::int4 as n, ${run % 3}::int4 as run`, [at]);
        expect(rows).toEqual([{ n: at, run: run % 3 }]);
        await client.transaction(async (tx) => {
          await tx.exec("insert into ledger (n) values ($1)", [10 * at + run]);
          expect((await tx.query("select $1::int4 as n", [run])).rows).toEqual([{ n: run }]);
        });
        const both = [sql`select ${at}::int4 as n`, sql`select ${run}::int4 as n`];
        expect((await client.batch(both)).map(({ rows: [row] }) => row)).toEqual([{ n: at }, { n: run }]);
      }
    });
    const results = await Promise.allSettled(work);
    // 1.18 loses names, which shows inside a transaction.
    if (way.prepare !== "named" || version === "1.24") {
      expect(results.filter(({ status }) => status === "rejected")).toEqual([]);
      expect(server.ledger.length).toBe(30);
    } else
      for (const result of results)
        if (result.status === "rejected") expect(result.reason).toMatchObject({ code: /^(26000|42P05)$/ });
    expect(pooler.mostServerConnections).toBe(2);
  });

  it("shares names among clients, or does not", async () => {
    newPooler({ version, poolSize: 1 });
    const [a, b] = [newClient({ prepare: "named" }), newClient({ prepare: "named" }, true)];
    for (let run = 0; run < 3; run++)
      for (const client of [a, b]) expect((await client.query("select 7::int4 as n")).rows).toEqual([{ n: 7 }]);
    const names = server.backends.flatMap(({ preparedStatements }) => preparedStatements);
    expect(names.some((name) => name.startsWith("PGBOUNCER_"))).toBe(version === "1.24");
  });

  it("settings follow their client", async () => {
    newPooler({ version, poolSize: 1 });
    const [a, b] = [newClient({ startup: { TimeZone: "Asia/Tokyo" } }), newClient({ applicationName: "b" }, true)];
    for (let run = 0; run < 2; run++)
      for (const [client, zone, name] of [
        [a, "Asia/Tokyo", "pgz-edge"],
        [b, "UTC", "b"],
      ] as const)
        expect(
          (
            await client.query(
              "select current_setting('timezone') as zone, current_setting('application_name') as name",
            )
          ).rows,
        ).toEqual([{ zone, name }]);
  });

  it("passes COPY through", async () => {
    newPooler({ version, poolSize: 1 });
    const [a, b] = [newClient(), newClient({}, true)];
    await a.copyFrom("copy ledger from stdin", "1\n2\n");
    expect(await new Response(await b.copyTo("copy ledger to stdout")).text()).toBe("1\n2\n");
    await expect(a.copyFrom("copy ledger from stdin", "x\n")).rejects.toMatchObject({ code: "22P02" });
    expect((await b.query("select n from ledger")).rows).toEqual([{ n: 1 }, { n: 2 }]);
  });

  it("passes a cancel on for a running client, and drops it for a waiting one", async () => {
    newPooler({ version, poolSize: 1 });
    const [a, b] = [newClient(), newClient({}, true)];
    const stop = new AbortController();
    const sleeping = a.query("select pg_sleep(30)", [], { signal: stop.signal });
    const sleeps = () => server.backends.some(({ state, query }) => state === "active" && query.includes("pg_sleep"));
    void until(sleeps).then(() => stop.abort());
    await expect(sleeping).rejects.toThrow();
    expect((await a.query("select 1::int4 as n")).rows).toEqual([{ n: 1 }]);
    expect(server.cancelRequests).toMatchObject([{ isKnown: true, state: "active" }]);
    await b.query("select 1");
    await a.transaction(async (tx) => {
      await tx.query("select 1");
      await expect(b.query("select 2", { timeout: 50 })).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
    });
    expect(server.cancelRequests.length).toBe(1);
    expect((await a.query("select 1::int4 as n")).rows).toEqual([{ n: 1 }]);
  });

  it("ends the wait of a client after query_wait_timeout", async () => {
    newPooler({ version, poolSize: 1, queryWaitTimeout: 100 });
    const [a, b] = [newClient(), newClient({}, true)];
    await b.query("select 1");
    await a.transaction(async (tx) => {
      await tx.query("select 1");
      await expect(b.query("select 1")).rejects.toMatchObject({ code: "08P01", message: "query_wait_timeout" });
    });
  });

  it("ends a client whose server connection is lost", async () => {
    newPooler({ version, poolSize: 1 });
    const client = newClient();
    const lost = client.transaction(async (tx) => {
      await tx.query("select 1");
      server.terminate(server.backends[0]!.processId);
      await until(() => !pooler.serverConnections.length);
      await tx.query("select 2");
    });
    await expect(lost).rejects.toMatchObject({ code: "57P01" });
    expect((await client.query("select 1::int4 as n")).rows).toEqual([{ n: 1 }]);
  });

  it("lets one client wait for a server that is down, and fails those that come later", async () => {
    newPooler({ version, serverLoginRetry: 100 });
    const [first, second] = [newClient(), newClient({}, true)];
    for (const client of [first, second]) await client.query("select 1");
    server.restart(1_000);
    await until(() => pooler.serverConnections.length === 0);
    const waiting = first.query("select 7::int4 as n");
    await until(() => pooler.waiting === 1);
    const message =
      version === "1.18"
        ? "server login has been failing, try again later (server_login_retry)"
        : "server login has been failing, cached error: connect failed (server_login_retry)";
    await expect(second.query("select 1")).rejects.toMatchObject({ code: "08P01", message });
    expect((await waiting).rows).toEqual([{ n: 7 }]);
    expect((await second.query("select 1::int4 as n")).rows).toEqual([{ n: 1 }]);
  });

  it("restarts, reconnects, pauses and kills", async () => {
    newPooler({ version, poolSize: 2 });
    const pool = newPool({ max: 3 });
    const value = async () => (await pool.query<{ n: number }>("select 7::int4 as n")).rows[0]!.n;
    expect(await value()).toBe(7);
    pooler.reconnect();
    expect(await value()).toBe(7);
    pooler.pause();
    const waiting = value();
    await until(() => pooler.waiting === 1);
    pooler.resume();
    expect(await waiting).toBe(7);
    const running = pool.query("select pg_sleep(0.3)");
    await until(() => pooler.serverConnections.some(({ state }) => state !== "idle"));
    pooler.kill();
    await expect(running).rejects.toMatchObject({ message: "database removed" });
    expect(await value()).toBe(7);
    pooler.restart(50);
    await pause(300); // what was killed runs to its end on the server
    expect(await value()).toBe(7);
  });

  it("ends server connections that are idle or old", async () => {
    newPooler({ version, serverIdleTimeout: 100 });
    await newClient().query("select 1");
    expect(pooler.serverConnections.length).toBe(1);
    await until(() => !pooler.serverConnections.length && !server.backends.length);
    pooler.shutDown();
    newPooler({ version, serverLifetime: 50 });
    const client = newClient();
    await client.query("select 1");
    await pause(60);
    await client.query("select 1");
    await until(() => !pooler.serverConnections.length);
  });
});

describe("a server that deviates from PostgreSQL", () => {
  function newServer(quirks: Quirks): void {
    const common = { version: 18, authentication: "trust", maxConnections: 10, roles } as const;
    server = new Server(clock, newDice(), { ...common, quirks });
    pooler = new Pooler(clock, newDice(), server, { version: "1.24", authentication: "trust", roles });
    listen(server);
  }

  it.each<Quirks>([{}, { hasNoKeys: true }, { hasNoPreparedStatements: true }, { answersChecks: true }])(
    "answers with %o",
    async (quirks) => {
      newServer(quirks);
      const client = newClient();
      for (let run = 0; run < 3; run++) {
        expect((await client.query("select $1::int4 as n, 'a' as t", [run])).rows).toEqual([{ n: run, t: "a" }]);
        await client.exec("insert into ledger (n) values ($1)", [run]);
      }
      expect(server.ledger).toEqual([0, 1, 2]);
    },
  );

  it.each<Quirks>([{ hasNoKeys: true }, { ignoresCancels: true }, { cancelsAfter: 300 }])(
    "is left by a call in time with %o",
    async (quirks) => {
      newServer(quirks);
      const client = newClient();
      await client.query("select 1");
      await expect(client.query("select pg_sleep(1)", [], { timeout: 50 })).rejects.toMatchObject({
        code: "QUERY_TIMEOUT",
      });
      expect((await client.query("select 7::int4 as n")).rows).toEqual([{ n: 7 }]);
      await pause(1_000);
    },
  );
});
