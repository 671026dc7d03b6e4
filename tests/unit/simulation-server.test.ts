// The simulator's models of PostgreSQL and of PgBouncer in front of it, as the real driver sees them, over sockets in
// memory and real time: what neither the comparison with real servers draws (tests/simulation/conform.mjs,
// conform-pooler.mjs) nor a simulated session.
import { afterEach, describe, expect, it } from "vitest";
import { createClient, type Client } from "../../js/api/client.ts";
import type { Options } from "../../js/config/options.ts";
import { createPool } from "../../js/pool/pool.ts";
import type { Clock } from "../simulation/contract.ts";
import { Pooler, type PoolerOptions } from "../simulation/server/pooler.ts";
import { Server, type Quirks, type ServerOptions } from "../simulation/server/server.ts";
import { clock, listen, newDice } from "../support/model-host.ts";
import { until } from "../support/until.mjs";

let server: Server;
let pooler: Pooler | undefined;
const clients: { close(): Promise<void> }[] = [];
const roles = { app: { password: "app-secret" }, other: { password: "other-secret" } };

function newServer(options: Partial<ServerOptions> = {}, time = clock): void {
  const common = { version: 18, authentication: "trust", maxConnections: 10, roles } as const;
  server = new Server(time, newDice(), { ...common, ...options });
  pooler = undefined;
  listen(server);
}

function newPooler(options: Pick<PoolerOptions, "version"> & Partial<PoolerOptions>, serverTime = clock): Pooler {
  newServer({ authentication: "scram-sha-256" }, serverTime);
  pooler = new Pooler(clock, newDice(), server, { authentication: "scram-sha-256", roles, ...options });
  listen(pooler);
  return pooler;
}

let databases = 0;

/** A new database, so that no client knows another's statements. `same`: the database of the previous client. */
const place = (same = false): Options => ({
  host: "memory",
  user: "app",
  password: "app-secret",
  database: `simulated${same ? databases : ++databases}`,
  sslmode: "disable",
});

function newClient(options: Options = {}, same = false): Client {
  const client = createClient({ ...place(same), ...options });
  clients.push(client);
  return client;
}

/** A clock whose delays of 50 ms and more end when the test says so, however slow the machine is. */
function heldClock() {
  const held: { milliseconds: number; event: () => void }[] = [];
  const after: Clock["after"] = (milliseconds, event) => {
    if (milliseconds < 50) return clock.after(milliseconds, event);
    const one = { milliseconds, event };
    held.push(one);
    return { cancel: () => void (held.includes(one) && held.splice(held.indexOf(one), 1)) };
  };
  const end = (milliseconds: number) => {
    const one = held.find((waiting) => waiting.milliseconds === milliseconds)!;
    held.splice(held.indexOf(one), 1);
    one.event();
  };
  return { now: 0, note: () => {}, after, end };
}

const pause = (milliseconds: number) => new Promise((resolve) => setTimeout(resolve, milliseconds));

afterEach(async () => {
  for (const client of clients.splice(0)) await client.close();
  if (pooler) await shutDown(pooler);
  expect(server.unknownStatements).toEqual([]);
});

/** A pooler without clients keeps no more than idle connections. */
async function shutDown(pooler: Pooler): Promise<void> {
  await until(() => !pooler.clients.length && !pooler.waiting && !server.openTransactions);
  await until(() => pooler.serverConnections.every(({ state }) => state === "idle"));
  await until(() => server.backends.length === pooler.serverConnections.length);
  pooler.shutDown();
  await until(() => !server.backends.length);
}

const WITH_PASSWORD = ["password", "md5", "scram-sha-256"] as const;
/** A client whose password is wrong. */
const stranger = () => newClient({ allowCleartextPassword: true, password: "wrong" });

describe.each([15, 18] as const)("PostgreSQL %d", (version) => {
  it.each(WITH_PASSWORD)("refuses a wrong password by %s", async (authentication) => {
    newServer({ version, authentication });
    await expect(stranger().query("select 1")).rejects.toMatchObject({ code: "28P01" });
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
    const time = heldClock();
    newServer({ version }, time);
    const client = newClient();
    await client.exec("insert into ledger values (1)");
    const lost = client.transaction(async (tx) => {
      await tx.exec("insert into ledger values (2)");
      server.restart(200);
      await tx.query("select pg_sleep(1)");
    });
    await expect(lost).rejects.toMatchObject({ code: "57P01" });
    expect(server.backends).toEqual([]);
    time.end(100);
    await expect(newClient().query("select 1")).rejects.toMatchObject({ code: "57P03" });
    time.end(200);
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
      await pause(30);
      order.push("first");
    });
    await waiting;
    expect([order, server.ledger]).toEqual([["first", "second"], [12]]);
  });
});

describe.each(["1.18", "1.24"] as const)("PgBouncer %s", (version) => {
  it.each(WITH_PASSWORD)("refuses a wrong password by %s", async (authentication) => {
    newPooler({ version, authentication });
    await expect(stranger().query("select 1")).rejects.toMatchObject({
      code: "08P01",
      message: `${authentication === "scram-sha-256" ? "SASL" : "password"} authentication failed`,
    });
  });

  it("reports what the server says at login", async () => {
    newPooler({ version });
    await expect(newClient({ database: "nowhere" }).query("select 1")).rejects.toMatchObject({
      code: version === "1.18" ? "08P01" : "3D000",
      message: 'database "nowhere" does not exist',
    });
  });

  it("lets one client wait for a server that is down, and fails those that come later", async () => {
    const time = heldClock();
    const pooler = newPooler({ version, serverLoginRetry: 100 }, time);
    const [first, second] = [newClient(), newClient({}, true)];
    for (const client of [first, second]) await client.query("select 1");
    server.restart(6_000);
    await until(() => pooler.serverConnections.length === 0);
    const waiting = first.query("select 7::int4 as n");
    await until(() => pooler.waiting === 1);
    const message =
      version === "1.18"
        ? "server login has been failing, try again later (server_login_retry)"
        : "server login has been failing, cached error: connect failed (server_login_retry)";
    await expect(second.query("select 1")).rejects.toMatchObject({ code: "08P01", message });
    time.end(3_000);
    time.end(6_000);
    expect((await waiting).rows).toEqual([{ n: 7 }]);
    expect((await second.query("select 1::int4 as n")).rows).toEqual([{ n: 1 }]);
  });

  it("restarts, reconnects, pauses and kills", async () => {
    const time = heldClock();
    const pooler = newPooler({ version, poolSize: 2 }, time);
    const pool = createPool(place(), { max: 3 });
    clients.push(pool);
    const value = async () => (await pool.query<{ n: number }>("select 7::int4 as n")).rows[0]!.n;
    expect(await value()).toBe(7);
    pooler.reconnect();
    expect(await value()).toBe(7);
    pooler.pause();
    const waiting = value();
    await until(() => pooler.waiting === 1);
    pooler.resume();
    expect(await waiting).toBe(7);
    const running = pool.query("select pg_sleep(60)");
    await until(() => pooler.serverConnections.some(({ state }) => state !== "idle"));
    pooler.kill();
    await expect(running).rejects.toMatchObject({ message: "database removed" });
    expect(await value()).toBe(7);
    time.end(60_000); // what was killed runs to its end on the server
    pooler.restart(50);
    await until(async () => (await value().catch(() => 0)) === 7);
  });

  it("ends server connections that are idle or old", async () => {
    const idle = newPooler({ version, serverIdleTimeout: 100 });
    await newClient().query("select 1");
    expect(idle.serverConnections.length).toBe(1);
    await until(() => !idle.serverConnections.length && !server.backends.length);
    idle.shutDown();
    const aging = newPooler({ version, serverLifetime: 50 });
    const client = newClient();
    await client.query("select 1");
    await pause(60);
    await client.query("select 1");
    await until(() => !aging.serverConnections.length);
  });
});

it.each<Quirks>([{ hasNoKeys: true }, { ignoresCancels: true }, { cancelsAfter: 300 }])(
  "a server that deviates from PostgreSQL is left by a call in time, with %o",
  async (quirks) => {
    newServer({ quirks });
    const client = newClient();
    await client.query("select 1");
    await expect(client.query("select pg_sleep(1)", [], { timeout: 50 })).rejects.toMatchObject({
      code: "QUERY_TIMEOUT",
    });
    expect((await client.query("select 7::int4 as n")).rows).toEqual([{ n: 7 }]);
    await pause(1_000);
  },
);
