// `pgz-edge/cluster` over the simulator's model of a primary and a standby, in real time: servers that fall silent, die
// or are promoted at the one moment that matters. Sessions of the simulator have found each of these.
import { getEventListeners } from "node:events";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createCluster } from "../../js/cluster.ts";
import { memoryListener } from "../../js/runtime/memory.ts";
import type { ConnectOptions } from "../../js/runtime/contract.ts";
import type { Accepted, Host } from "../simulation/contract.ts";
import { Replicas } from "../simulation/server/cluster/replicas.ts";
import { clock, listen, newDice } from "../support/model-host.ts";
import { until } from "../support/until.mjs";

const INSERT = "insert into ledger values (1)";
const WHO = "select current_setting('cluster_name') as server";
const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

let replicas: Replicas;
let number = 0;
/** When this returns true for sent bytes, those and all later bytes are lost. */
let isLost: (sent: string) => boolean;
let isMute: boolean;
let connect: (options: ConnectOptions) => ReturnType<ReturnType<typeof memoryListener>["connect"]>;
let clusters: { close(): Promise<void> }[];

beforeEach(() => {
  number++;
  isLost = () => false;
  isMute = false;
  clusters = [];
  const lag = { receives: [0, 0], replays: [0, 0] } as const;
  replicas = new Replicas(clock, newDice(), {
    ...{ version: 18, authentication: "trust", maxConnections: 20, roles: { app: { password: "" } } },
    ...{ names: ["one", "two"], lags: [lag, lag], isSynchronous: false, showsReceiver: true, fillsPages: 0, turns: 1 },
  });
  const connects = new Map(replicas.nodes.map(({ name, server }) => [`${name}.c${number}.test`, listenerOf(server)]));
  connect = (options) => connects.get(options.host)!(options);
  listen(replicas.primary.server);
});
afterEach(async () => {
  await Promise.all(clusters.map((cluster) => cluster.close()));
});

/** Returns `connect` for sockets in memory that lead to this server. */
function listenerOf(host: Host) {
  const { connect: connects, accepted } = memoryListener();
  void (async () => {
    for (;;) {
      const peer = await accepted();
      const client: Accepted = host.accept({
        send: (bytes) => {
          isMute ||= isLost(text(bytes));
          if (!isMute) peer.send(bytes.slice());
        },
        end: () => peer.end(),
        reset: () => peer.reset(),
      });
      void (async () => {
        for (let bytes; (bytes = await peer.received());) client.receive(bytes);
        client.ended();
      })();
    }
  })();
  return connects;
}

/** `isOneAccount`: the servers differ in their hosts only. */
function clusterOf({ isOneAccount = true, ...options }: Record<string, unknown> & { isOneAccount?: boolean } = {}) {
  const own = (name: string) => (isOneAccount ? "" : `&application_name=${name}`);
  const urls = ["one", "two"].map((name) => `postgres://app@${name}.c${number}.test/db?sslmode=disable${own(name)}`);
  const cluster = createCluster(urls, { connect, probeInterval: 1_000_000, maxLag: 1_000_000, ...options } as never);
  clusters.push(cluster);
  return cluster;
}

/** Crashes a server, and waits until the cluster has noticed. */
async function crash(cluster: ReturnType<typeof clusterOf>, which: number): Promise<void> {
  replicas.nodes[which]!.server.stop("crash");
  await until(() => cluster.stats().servers[which]!.pool.total === 0, "the loss is noticed");
}

test("a position that is not answered in time is unknown, and the call still succeeds", async () => {
  const cluster = clusterOf({ timeout: 100 });
  isLost = (sent) => sent.includes("pg_walfile_name");
  expect(await cluster.exec(INSERT, { position: true })).toMatchObject({ command: "INSERT", position: "0-0-0" });
  isMute = false;
  isLost = () => false;
  expect((await cluster.query(WHO)).rows).toEqual([{ server: "one" }]);
});

test("a position after COMMIT that is not answered in time is unknown", async () => {
  const cluster = clusterOf({ timeout: 100 });
  isLost = (sent) => sent.includes("pg_walfile_name");
  const { value, position } = await cluster.transaction((tx) => tx.exec(INSERT), { position: true });
  expect([value.command, position]).toEqual(["INSERT", "0-0-0"]);
});

test("a transaction that follows another one on its session still has its position in its own flight", async () => {
  const cluster = clusterOf({ max: 1 });
  const write = () => cluster.transaction((tx) => tx.exec(INSERT), { position: true });
  const queries = () => cluster.stats().primary!.queries;
  await write();
  const before = queries();
  await write();
  const each = queries() - before;
  await Promise.all([write(), write(), write()]);
  // A question of its own would be a query more.
  expect(queries() - before).toBe(4 * each);
});

test.each(["transaction", "simple"] as const)(
  "a guard of %s that is not answered in time ends the call",
  async (kind) => {
    const cluster = clusterOf({ timeout: 100 });
    const { position } = await cluster.exec(INSERT, { position: true });
    await cluster.probe();
    // A guard has no rows and no columns.
    isLost = (sent) => sent.includes("SELECT 0");
    const after = cluster.reads.after(position);
    const call = kind === "simple" ? after.simple(WHO) : after.transaction((tx) => tx.query(WHO));
    await expect(call).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
  },
);

test.each(["exec", "transaction", "reads"] as const)(
  "%s that waits for a server goes to the next primary when that server is given up",
  async (kind) => {
    const cluster = clusterOf({ isOneAccount: false });
    await cluster.probe();
    expect((await cluster.query(WHO)).rows).toEqual([{ server: "one" }]);
    await crash(cluster, 0);
    const waiting = () => cluster.stats().servers[0]!.pool.waiting;
    const calls = {
      exec: () => cluster.query(WHO),
      transaction: () => cluster.transaction((tx) => tx.query(WHO)),
      reads: () => cluster.reads.transaction((tx) => tx.query(WHO), { readOnly: false }),
    };
    const call = calls[kind]();
    await until(() => waiting() > 0, "the call waits");
    await cluster.probe();
    replicas.nodes[1]!.promote();
    expect((await call).rows).toEqual([{ server: "two" }]);
  },
);

test("a primary whose connections are all in use is still the primary", async () => {
  const cluster = clusterOf({ isOneAccount: false, max: 1, acquireTimeout: 200 });
  await cluster.probe();
  const lease = await cluster.acquire();
  // A standby that is gone makes all roles suspect. The question to the primary waits for a connection, in vain.
  await crash(cluster, 1);
  await expect(cluster.reads.query(WHO)).rejects.toMatchObject({ code: "ACQUIRE_TIMEOUT" });
  await cluster.probe();
  expect(cluster.stats().servers[0]).toMatchObject({ role: "primary", failure: undefined });
  const call = cluster.query(WHO);
  lease.release();
  expect((await call).rows).toEqual([{ server: "one" }]);
});

test("if no primary appears, the call fails when its time is over", async () => {
  const cluster = clusterOf({ isOneAccount: false, acquireTimeout: 100 });
  await cluster.probe();
  await crash(cluster, 0);
  await cluster.probe();
  await expect(cluster.exec(INSERT)).rejects.toMatchObject({ code: "CONNECT_FAILED", retryable: true });
});

test("if no primary appears, a call ends when its signal or the cluster's aborts", async () => {
  const [own, all] = [new AbortController(), new AbortController()];
  const cluster = clusterOf({ isOneAccount: false, signal: all.signal });
  await cluster.probe();
  await crash(cluster, 0);
  await cluster.probe();
  const calls = [cluster.exec(INSERT, { signal: own.signal }), cluster.exec(INSERT)] as const;
  own.abort("its own");
  await expect(calls[0]).rejects.toMatchObject({ code: "ABORTED", cause: "its own" });
  all.abort("of all");
  await expect(calls[1]).rejects.toMatchObject({ code: "ABORTED", cause: "of all" });
  expect(getEventListeners(own.signal, "abort")).toEqual([]);
});

test("a read that waits for the first answers of silent servers ends when its limits end", async () => {
  const [own, all] = [new AbortController(), new AbortController()];
  const cluster = clusterOf({ signal: all.signal });
  isMute = true;
  const late = { code: "QUERY_TIMEOUT", message: expect.stringContaining("50 ms (timeout)") };
  const after = cluster.reads.after("1-1-1");
  for (const reads of [cluster.reads, after])
    await expect(reads.query(WHO, { timeout: 50 })).rejects.toMatchObject(late);
  const calls = [cluster.reads.query(WHO, { signal: own.signal }), cluster.reads.query(WHO), after.query(WHO)] as const;
  own.abort("its own");
  await expect(calls[0]).rejects.toMatchObject({ code: "ABORTED", cause: "its own" });
  // The look has not ended: a call that waits for it is still pending.
  expect(cluster.stats().servers.map(({ role }) => role)).toEqual(["unknown", "unknown"]);
  const wrong = cluster.reads.query(WHO, { timeout: "soon" as never });
  await expect(wrong).rejects.toMatchObject({ code: "INVALID_OPTION" });
  all.abort("of all");
  for (const call of calls.slice(1)) await expect(call).rejects.toMatchObject({ code: "ABORTED", cause: "of all" });
  expect(getEventListeners(own.signal, "abort")).toEqual([]);
});

test("a transaction whose callback has begun is not run again if its guard fails", async () => {
  // No standby has a lag that is small enough.
  const cluster = clusterOf({ maxLag: 0 });
  const { position } = await cluster.exec(INSERT, { position: true });
  let times = 0;
  const running = cluster.reads.after(position).transaction(async (tx) => {
    times++;
    replicas.primary.server.world.standing.isStandby = true;
    return await tx.query(WHO);
  });
  await expect(running).rejects.toMatchObject({ code: "22P02" });
  expect(times).toBe(1);
});
