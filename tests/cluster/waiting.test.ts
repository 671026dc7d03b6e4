// A call waits for a standby that is behind: on PostgreSQL 19 in the server, in the flight of the call, otherwise by
// asking. The standby replays nothing while it is paused, so each of these calls would wait for ever.
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { delayingProxy, type DelayingProxy } from "../../bench/lib/delaying-proxy.mjs";
import { positionOf, positionText } from "../../js/cluster/position.ts";
import type { RouteEvent } from "../../js/index.ts";
import type { ClusterNode, ClusterOfServers } from "../servers/standbys.mjs";
import { until } from "../support/until.mjs";
import { createCluster, driver, majors, start, type Options } from "./world.ts";

const { sql } = driver;
/** Longer than any of these tests waits. */
const LONG = 25_000;

describe.each(majors)("PostgreSQL %i", (major) => {
  const isInServer = major >= 19;
  let servers: ClusterOfServers;
  let standby: ClusterNode;
  let proxies: DelayingProxy[];
  let routes: RouteEvent[];
  let cluster: ReturnType<typeof createCluster>;

  beforeAll(async () => {
    servers = await start(`waiting-${major}`, { major, count: 1 });
    standby = servers.standbys[0]!;
    proxies = [await delayingProxy(servers.primary.url), await delayingProxy(standby.url)];
    await servers.primary.ask("create table counter as select 0 as n", "app");
    await servers.primary.ask("grant all on counter to app", "app");
  });
  afterAll(async () => {
    for (const proxy of proxies ?? []) proxy.close();
    await servers?.stop();
  });
  beforeEach(() => (routes = []));
  afterEach(async () => {
    await cluster?.close();
    if (await isStandby()) await standby.resume();
  });

  /** Creates a cluster that knows its servers, the statements of these tests, and whether its standby has WAIT. */
  async function ready(options: Options = {}): Promise<void> {
    const observer = { onRoute: (event: RouteEvent) => void routes.push(event) };
    cluster = createCluster(
      proxies.map(({ url }) => url),
      { sslmode: "disable", probeInterval: 1_000_000, maxLag: Infinity, wait: LONG, max: 4, observer, ...options },
    );
    await standby.catchUp(servers.primary);
    await cluster.probe();
    await cluster.query(question); // 15 describes the statement before its first run
    for (let times = 0; times < 3; times++) {
      const position = await write();
      await standby.catchUp(servers.primary);
      await read(position);
    }
  }

  const write = async () => (await cluster.exec("update counter set n = n + 1", { position: true })).position;
  const question = sql<{ n: number }>`select n from counter where n > ${-1}`;
  const read = async (position: string) => (await cluster.reads.after(position).query(question)).rows[0]!.n;
  const isStandby = async () => (await standby.ask("select pg_is_in_recovery() as it"))[0]!["it"] as boolean;
  const expected = async () => (await servers.primary.ask("select n from counter", "app"))[0]!["n"];
  /** Counts the sessions of the standby that wait in WAIT FOR LSN. */
  const waiters = async () =>
    (await standby.ask("select pid from pg_stat_activity where wait_event = 'WaitForWalReplay'")).length;
  /**
   * Resolves when so many calls wait: on 19 in the server; otherwise they ask the server, which acquires a connection
   * each time.
   */
  async function areWaiting(count: number): Promise<void> {
    if (isInServer) return until(async () => (await waiters()) === count);
    const asked = () => cluster.stats().servers[1]!.pool.acquires;
    const before = asked();
    await until(async () => asked() > before + 3 * count);
  }

  function flights(): [primary: number, standby: number] {
    const [primary, other] = proxies.map((proxy) => proxy.take().flights);
    return [primary!, other!];
  }

  test("a standby that replays again answers", async () => {
    await ready();
    await standby.pause();
    const position = await write();
    flights();
    const answer = read(position);
    await areWaiting(1);
    await standby.resume();
    expect(await answer).toBe(await expected());
    const [toPrimary, toStandby] = flights();
    expect(toPrimary).toBe(0);
    if (isInServer) expect(toStandby).toBe(1);
    else expect(toStandby).toBeGreaterThan(2);
    expect(routes.at(-1)).toMatchObject({ role: "standby", reason: "nearest" });
    // The standby is now known to have reached the position.
    expect(await read(position)).toBe(await expected());
    expect(flights()).toEqual([0, 1]);
  });

  test("a call waits for `wait` for a standby that does not replay, and then the primary answers", async () => {
    await ready({ wait: 300 });
    await standby.pause();
    const position = await write();
    flights();
    expect(await read(position)).toBe(await expected());
    const [toPrimary, toStandby] = flights();
    expect(toPrimary).toBe(1);
    if (isInServer) expect(toStandby).toBe(1);
    expect(routes.at(-1)).toMatchObject({ role: "primary", reason: "position" });
    expect(routes.at(-1)!.waitedMs).toBeGreaterThanOrEqual(299);
  });

  test("if the session's own statement_timeout is shorter, the primary answers too", async () => {
    await ready({ wait: 1_500, startup: { statement_timeout: "1000" } });
    await standby.pause();
    const position = await write();
    expect(await read(position)).toBe(await expected());
    expect(routes.at(-1)).toMatchObject({ role: "primary", reason: "position" });
  });

  test("without time to wait, no call waits", async () => {
    await ready({ wait: 0 });
    await standby.pause();
    const position = await write();
    flights();
    expect(await read(position)).toBe(await expected());
    expect(flights()).toEqual([1, 1]);
  });

  test("every call waits, and can be stopped while it waits", async () => {
    await ready();
    await standby.pause();
    const behind = cluster.reads.after(await write());
    const calls: Record<string, (options: { signal?: AbortSignal; timeout?: number }) => Promise<unknown>> = {
      query: (options) => behind.query(question, options),
      exec: (options) => behind.exec(question, options),
      stream: (options) => behind.stream(question, options),
      batch: (options) => behind.batch([question, question], options),
      "isolated batch": (options) => behind.batch([question, question], { ...options, atomic: false }),
      simple: (options) => behind.simple("select n from counter", options),
      copyTo: (options) => behind.copyTo("copy counter to stdout", options),
      scope: (options) => behind.scope({ settings: { "app.tenant": 7 } }).query(question, options),
      transaction: (options) => behind.transaction((tx) => tx.query(question), options),
      "repeatable read": (options) =>
        behind.transaction((tx) => tx.query(question), { ...options, isolation: "repeatable read" }),
    };
    for (const [name, call] of Object.entries(calls)) {
      const abort = new AbortController();
      const error = call({ signal: abort.signal }).then(
        () => "none",
        ({ code }: { code: string }) => code,
      );
      await areWaiting(1);
      abort.abort();
      expect([name, await error]).toEqual([name, "ABORTED"]);
      await until(async () => (await waiters()) === 0);
      await expect(call({ timeout: 100 }), name).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
      await until(async () => (await waiters()) === 0);
    }
    // The connections of the pool still work.
    await standby.resume();
    for (const call of Object.values(calls)) await call({});
    expect(routes.every(({ role }) => role === "standby")).toBe(true);
  });

  test("at most half of the connections wait, so that other reads find one", async () => {
    await ready();
    await standby.pause();
    const position = await write();
    const all = Promise.all(Array.from({ length: 12 }, () => read(position)));
    await areWaiting(2);
    for (let times = 0; times < 20; times++) {
      await cluster.reads.query(question);
      expect(await waiters()).toBeLessThanOrEqual(2);
    }
    await standby.resume();
    expect(new Set(await all)).toEqual(new Set([await expected()]));
  });

  test("a transaction waits for a standby in the flight of its guard", async () => {
    await ready();
    const work = () => cluster.reads.after(position).transaction((tx) => tx.query(question));
    let position = await cluster.position();
    await work();
    flights();
    await work();
    const [, without] = flights();
    await standby.pause();
    position = await write();
    const answer = work();
    await areWaiting(1);
    await standby.resume();
    expect((await answer).rows[0]!.n).toBe(await expected());
    if (isInServer) expect(flights()[1]).toBe(without);
  });

  test("a standby that is promoted while a call waits is no longer used as a standby", async () => {
    await ready();
    await standby.pause();
    const position = await write();
    const { lsn, ...rest } = positionOf(position);
    // One position that the standby will have when it is promoted, and one that it will never have.
    const answers = [position, positionText({ ...rest, lsn: lsn + 100_000_000n })].map(read);
    await areWaiting(2);
    await until(async () => (await standby.received()) >= lsn);
    const { length } = routes;
    await servers.primary.crash();
    await standby.promote();
    const [{ n }] = (await standby.ask("select n from counter", "app")) as [{ n: number }];
    expect(await Promise.all(answers)).toEqual([n, n]);
    expect(new Set(routes.slice(length).map(({ role }) => role))).toContain("primary");
    expect(await waiters()).toBe(0);
  });
});
