// A cluster whose primary dies, and whose standbys die, are promoted, or cancel calls that conflict with replay.
import { afterEach, describe, expect, test } from "vitest";
import { positionOf } from "../../js/cluster/position.ts";
import type { RouteEvent } from "../../js/index.ts";
import type { ClusterNode, ClusterOfServers } from "../servers/standbys.mjs";
import { pause, until } from "../support/until.mjs";
import { Gate } from "../replication/gate.ts";
import { changes } from "../replication/replication.ts";
import { clusterOf, driver, majors, PORT, start, type Answered, type Options } from "./world.ts";

const { sql } = driver;
let servers: ClusterOfServers | undefined;
afterEach(async () => {
  await servers?.stop();
  servers = undefined;
});

function watched(of: ClusterOfServers, options: Options = {}) {
  const routes: RouteEvent[] = [];
  const observer = { onRoute: (event: RouteEvent) => void routes.push(event) };
  return { cluster: clusterOf(of, { observer, probeInterval: 100, ...options }), routes };
}

describe.each(majors)("PostgreSQL %i", (major) => {
  test("after a standby is promoted, writes, reads, positions and listeners use it", async () => {
    servers = await start(`promotion-${major}`, { major });
    const { primary, standbys } = servers;
    const [first, second] = standbys as [(typeof standbys)[0], (typeof standbys)[0]];
    const { cluster, routes } = watched(servers, { wait: 200 });
    await using _ = cluster;
    await cluster.exec("create table ledger (id int primary key)");
    const { position: before } = await cluster.exec("insert into ledger values (1)", { position: true });
    await using listener = await cluster.listen("news");
    for (const standby of standbys) await standby.catchUp(primary);
    expect((await cluster.reads.after(before).query("select id from ledger")).rows).toEqual([{ id: 1 }]);
    expect(routes.at(-1)).toMatchObject({ role: "standby" });

    await primary.crash();
    const waiting = cluster.exec("insert into ledger values (2)", { position: true });
    await pause(200);
    await first.promote();
    await second.follow(first);
    const { position } = await waiting;
    expect(positionOf(position)).toMatchObject({ system: positionOf(before).system, timeline: 2 });
    expect((await cluster.query<Answered>(PORT)).rows).toEqual([{ port: first.descriptor.port, standby: false }]);

    // No answer is older than the new position. The primary answers as long as the standby's timeline is unknown.
    const ids = async (at: string) => (await cluster.reads.after(at).query("select id from ledger order by id")).rows;
    expect(await ids(position)).toEqual([{ id: 1 }, { id: 2 }]);
    await second.catchUp(first);
    const { length } = routes;
    await ids(position);
    expect(["unknown", "nearest", "lag"]).toContain(routes[length]!.reason);
    // A role that may read statistics sees the timeline at once.
    await first.ask("grant pg_read_all_stats to app");
    await second.catchUp(first);
    await until(async () => {
      expect(await ids(position)).toEqual([{ id: 1 }, { id: 2 }]);
      return routes.at(-1)!.role === "standby";
    });
    expect(routes.at(-1)).toMatchObject({ port: second.descriptor.port });
    // A position of the old timeline cannot be compared.
    expect(await ids(before)).toEqual([{ id: 1 }, { id: 2 }]);
    expect(routes.at(-1)).toMatchObject({ role: "primary", reason: "unknown" });

    const heard = listener[Symbol.asyncIterator]().next();
    await until(async () => {
      await cluster.notify("news", "of the new primary");
      return Promise.race([heard.then(() => true), pause(200).then(() => false)]);
    });
    await until(async () => {
      await cluster.probe();
      const roles = cluster.stats().servers.map(({ role }) => role);
      return roles.join() === "unreachable,primary,standby";
    });
  });

  test("the older of two primaries answers no read after the newer's position", async () => {
    servers = await start(`split-${major}`, { major });
    const { primary, standbys } = servers;
    const [first, second] = standbys as [(typeof standbys)[0], (typeof standbys)[0]];
    const { cluster, routes } = watched(servers, { wait: 100 });
    await using _ = cluster;
    await cluster.exec("create table ledger (id int primary key)");
    await cluster.probe();
    for (const standby of standbys) await standby.catchUp(primary);
    await using follower = await Follower.start(primary);
    // The old primary stays alive and continues to write, and the second standby follows it.
    await first.promote();
    await using promoted = clusterOf({ primary: first, standbys: [] });
    const { position } = await promoted.exec("insert into ledger values (2)", { position: true });
    for (let id = 100; id < 200; id++) await cluster.exec(sql`insert into ledger values (${id})`);
    await second.catchUp(primary);
    const { rows } = await cluster.reads.after(position).query("select id from ledger");
    expect(rows).toEqual([{ id: 2 }]);
    expect(routes.at(-1)).toMatchObject({ role: "primary" });
    // From now on the newer server is the primary of this cluster too.
    expect((await cluster.query<Answered>(PORT)).rows).toMatchObject([{ port: first.descriptor.port }]);

    // The reader of changes has all rows of the old primary. The new one lacks them, and has a row of its own below the
    // acknowledged position: the reader must not pass over it in silence.
    await until(async () => follower.ids.at(-1) === 199, "all changes come");
    await follower.moveTo(first);
    await promoted.exec("insert into ledger values (3)");
    await until(async () => follower.error !== undefined, "the stream ends");
    const lost = follower.error;
    expect(lost).toMatchObject({ code: "CHANGES_LOST", retryable: false });
    expect((lost as Error).message).toMatch(/timeline 1 .*timeline 2/);
    expect(follower.ids.at(-1)).toBe(199);
    // Its slot was not acknowledged up to a position that the new server does not have.
    const [bounds] = await first.ask(
      "select bool_and(confirmed_flush_lsn <= pg_current_wal_lsn()) as sound from pg_replication_slots",
    );
    expect(bounds).toEqual({ sound: true });
  });

  // Older standbys do not decode.
  if (major < 16) return;
  test("a stream of a standby that is promoted does not take the old primary's log", async () => {
    servers = await start(`read-${major}`, { major });
    const { primary, standbys } = servers;
    const standby = standbys[0]!;
    await primary.ask("create table ledger (id int primary key)", "app");
    await standby.catchUp(primary);
    await using follower = await Follower.start(standby, primary);
    await primary.ask("insert into ledger values (1)", "app");
    await until(async () => follower.ids.length === 1, "the change of the primary comes");
    await standby.promote();
    // It connects again by itself, to learn the timeline.
    await until(async () => follower.connections === 2 && follower.isStreaming, "the stream has noticed");
    await standby.ask("insert into ledger values (2)", "app");
    await until(async () => follower.ids.length === 2, "the change of the new primary comes");
    await primary.ask("insert into ledger select generate_series(100, 300)", "app");
    await follower.moveTo(primary);
    await until(async () => follower.error !== undefined, "the stream ends");
    expect(follower.error).toMatchObject({ code: "CHANGES_LOST" });
    expect((follower.error as Error).message).toMatch(/timeline 2 .*timeline 1/);
    expect(follower.ids).toEqual([1, 2]);
  });
});

/** Reads and acknowledges changes of the ledger through a gate, which can lead to another server. */
class Follower {
  readonly ids: number[] = [];
  /** The error that has ended the stream. */
  error: unknown;
  readonly #over: Promise<void>;
  readonly #leaving = new AbortController();
  readonly #gate: Gate;
  readonly #db: InstanceType<typeof driver.Pool>;
  readonly #feed: ReturnType<typeof changes<{ id: number }>>;

  private constructor(gate: Gate, port: number, url: string) {
    this.#gate = gate;
    const there = new URL(url);
    there.port = String(port);
    there.hostname = "127.0.0.1";
    this.#db = driver.createPool(there.href, { sslmode: "disable", max: 1 });
    const { signal } = this.#leaving;
    const options = { slot: "follower", publication: "ledger", createSlot: "permanent", statusInterval: 200 } as const;
    this.#feed = changes<{ id: number }>(this.#db, { ...options, signal });
    this.#over = this.#read();
  }

  /** `primary`: of `node`, if that is a standby. */
  static async start(node: ClusterNode, primary = node): Promise<Follower> {
    await primary.ask("create publication ledger for table ledger", "app");
    if (node !== primary) await node.catchUp(primary);
    const gate = new Gate();
    gate.port = node.descriptor.port;
    const follower = new Follower(gate, await gate.open(), node.descriptor.superuserUrl!);
    await until(async () => {
      // A standby begins a slot at the next report of the primary's transactions.
      if (node !== primary) await primary.ask("select pg_log_standby_snapshot()");
      return follower.isStreaming;
    }, "it streams");
    return follower;
  }

  get isStreaming(): boolean {
    return this.#feed.stats().state === "streaming";
  }

  get connections(): number {
    return this.#feed.stats().connections;
  }

  async #read(): Promise<void> {
    try {
      for await (const change of this.#feed) {
        if (change.kind === "insert") this.ids.push(change.new.id);
        if (change.kind === "commit") await change.acknowledge();
      }
    } catch (error) {
      this.error = error;
    }
  }

  /** Makes the slot there, and leads the next connection there. */
  async moveTo(node: ClusterNode): Promise<void> {
    await node.ask("select pg_create_logical_replication_slot('follower', 'pgoutput')", "app");
    this.#gate.port = node.descriptor.port;
    this.#gate.cut();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#leaving.abort();
    await this.#over;
    await this.#db.close();
    this.#gate.close();
  }
}

test("when standbys die, other standbys answer, then the primary, and no call after a position fails", async () => {
  servers = await start("dying", { major: majors[0]! });
  const { primary, standbys } = servers;
  const { cluster, routes } = watched(servers);
  await using _ = cluster;
  const { position } = await cluster.exec("create table ledger (id int)", { position: true });
  for (const standby of standbys) await standby.catchUp(primary);
  await cluster.probe();
  let isOver = false;
  let answers = 0;
  const codes = new Set<string>();
  const lane = async (isBehind: boolean) => {
    const calls = isBehind ? cluster.reads.after(position) : cluster.reads;
    while (!isOver) {
      try {
        await calls.query("select count(*), pg_sleep(0.01) from ledger");
        answers++;
      } catch (error) {
        if (isBehind) throw error;
        codes.add((error as { code: string }).code);
      }
    }
  };
  const lanes = Promise.all([true, true, true, false, false].map(lane));
  lanes.catch(() => {}); // until it is awaited
  try {
    await until(async () => answers > 50);
    await standbys[0]!.crash();
    await until(async () => {
      await cluster.probe();
      const roles = cluster.stats().servers.map(({ role }) => role);
      return roles.join() === "primary,unreachable,standby";
    });
    await until(async () => routes.at(-1)!.port === standbys[1]!.descriptor.port);
    await standbys[1]!.crash();
    await until(async () => routes.at(-1)!.role === "primary" && routes.at(-1)!.reason === "unreachable");
  } finally {
    // A lane that continued on a closed cluster would leave no turn of the event loop to other code.
    isOver = true;
  }
  await lanes;
  // Only calls without a guard that were running: it is unknown whether such a call had an effect.
  for (const code of codes) expect(["CONNECTION_LOST", "57P02", "57P01"]).toContain(code);
});

test("another server answers a call that a standby cancels because of replay", async () => {
  servers = await start("conflicts", {
    major: majors[0]!,
    count: 1,
    settings: { max_standby_streaming_delay: "0", autovacuum: "off" },
  });
  const { primary, standbys } = servers;
  const { cluster, routes } = watched(servers);
  await using _ = cluster;
  await cluster.exec("create table many as select generate_series(1, 10000) as id");
  for (const standby of standbys) await standby.catchUp(primary);
  await cluster.probe();
  const calls = [cluster.reads, cluster.reads.after(await cluster.position())];
  for (const reads of calls) {
    await standbys[0]!.catchUp(primary);
    const counted = reads.query<{ count: string }>(
      "select count(*) from many where id % 10 <> 3 and (id <> 1 or pg_sleep(1.5) is not null)",
    );
    await pause(300);
    await cluster.exec("delete from many where id % 10 = 3");
    await primary.ask("vacuum many", "app");
    expect((await counted).rows).toEqual([{ count: "9000" }]);
    expect(routes.slice(-2)).toMatchObject([
      { role: "standby", reason: "nearest" },
      { role: "primary", reason: "conflict" },
    ]);
    await cluster.exec("insert into many select 3 from generate_series(1, 1000)");
  }
});
