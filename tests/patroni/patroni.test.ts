// Clusters that Patroni runs, with etcd: switchovers, servers that are killed and return by pg_rewind, a node that
// joins, a primary whose Patroni is gone, and an etcd that is silent. Lanes write and read all the time, and their
// answers are checked (tests/cluster/history.ts).
//
// Knows what Patroni does. How it is started is in tests/servers/patroni.mjs.
import { transform } from "esbuild";
import { afterEach, expect, test } from "vitest";
import type { Cluster } from "../../js/cluster.ts";
import { check } from "../cluster/history.ts";
import { endsOf, recorder, type Recorder } from "../cluster/recorder.ts";
import { createCluster, PORT, type Answered, type Options } from "../cluster/world.ts";
import { fencesOf } from "../packaging/fences.ts";
import { logFile } from "../servers/index.mjs";
import { startPatroni, type PatroniCluster, type PatroniNode } from "../servers/patroni.mjs";
import { pause, until } from "../support/until.mjs";

const FAILOVERS = Number(process.env["FAILOVERS"] ?? 5);
const LANES = 6;
const ACQUIRE = 60_000;
const seed = Number(process.env["PGZ_SEED"] ?? Math.floor(Math.random() * 1e6));

let servers: PatroniCluster | undefined;
afterEach(async () => {
  await servers?.stop();
  servers = undefined;
});

async function start(name: string, options: Partial<Parameters<typeof startPatroni>[0]> = {}) {
  servers = await startPatroni({ ...options, log: logFile(`patroni-${name}`) });
  await (await servers.leader()).ask("grant pg_read_all_stats to app");
  return servers;
}

/** Returns the cluster that the example of docs/cluster.md creates, over these servers. */
async function ofTheExample(of: PatroniCluster): Promise<Cluster> {
  const { code } = fencesOf("docs/cluster.md").find((fence) => fence.code.includes("Promise.any(patroni"))!;
  const apis = JSON.stringify(of.nodes.map(({ api }) => api));
  const own = code
    .replace(/^import .*$/m, "")
    .replace(/^const patroni = .*$/m, `const patroni = ${apis};`)
    .replace("app:secret@", "app:app-secret@");
  const { code: plain } = await transform(`async (createCluster) => { ${own}\nreturn cluster; }`, {
    loader: "ts",
    target: "es2022",
  });
  const make = (0, eval)(plain.replace(/;\s*$/, "")) as (create: typeof createCluster) => Promise<Cluster>;
  return await make((inputs, options) => createCluster(inputs, { ...options, ...QUICK }));
}

/** The servers have no TLS, and what is known about them must be recent. */
const QUICK: Options = { sslmode: "disable", connectTimeout: 2_000, probeInterval: 100, max: LANES + 2 };

function clusterOf(of: PatroniCluster, options: Options = {}): Cluster {
  const waits: Options = { acquireTimeout: ACQUIRE, maxLag: ACQUIRE, wait: 100 };
  return createCluster(
    of.nodes.map(({ url }) => url),
    { ...QUICK, ...waits, ...options },
  );
}

/** Runs `work` while lanes write and read. Then compares their answers with what `of` has. */
async function recorded(name: string, cluster: Cluster, of: PatroniCluster, work: (lanes: Recorder) => Promise<void>) {
  const lanes = await recorder(cluster, { seed, lanes: LANES, rest: () => pause(3) });
  let isOver = false;
  const running = lanes.run(() => isOver);
  try {
    await work(lanes);
  } finally {
    isOver = true;
  }
  await running;
  const leader = await of.leader();
  const last = await lanes.last((text) => leader.ask(text, "app"));
  const verdict = check(lanes.writes, lanes.reads, last, await endsOf(leader.ask));
  const { nearest, ...byPrimary } = cluster.stats().reads;
  const { writes, reads, codes, slowest } = lanes;
  console.log(
    `[patroni] ${name}, seed ${seed}: ${writes.length} writes, ${reads.length} reads after positions; ${nearest} reads ` +
      `went to standbys, to the primary ${JSON.stringify(byPrimary)}; errors ${JSON.stringify([...codes])}; the slowest ` +
      `call took ${Math.round(slowest)} ms; lost by PostgreSQL ${verdict.lostByServer}`,
  );
  // Only calls that were running when their connection was lost have failed. Calls that waited for a primary have found
  // it.
  for (const code of codes.keys()) expect(["CONNECTION_LOST", "57P01", "57P02"]).toContain(code);
  expect(slowest).toBeLessThan(ACQUIRE);
  return verdict;
}

const CLEAN = { stale: [], invented: [], lost: [], lostByServer: 0 };

const statsOf = (cluster: Cluster, node: PatroniNode) => cluster.stats().servers.find(({ port }) => port === node.port);

/** Resolves when reads of the cluster go to this standby. */
async function isReadFrom(cluster: Cluster, node: PatroniNode): Promise<void> {
  const before = statsOf(cluster, node)?.reads ?? 0;
  await until(async () => {
    await Promise.all([1, 2, 3, 4].map(() => cluster.reads.query(PORT)));
    return (statsOf(cluster, node)?.reads ?? 0) > before;
  }, `${node.name} is read from`);
  expect(statsOf(cluster, node)).toMatchObject({ role: "standby" });
}

async function portOf(calls: Cluster | Cluster["reads"]): Promise<Answered> {
  return (await (calls as Cluster).query<Answered>(PORT)).rows[0]!;
}

test("discover by Patroni's REST API: a switchover, and a node that joins", async () => {
  const of = await start("discover");
  await using cluster = await ofTheExample(of);
  const first = await of.leader();
  expect(await portOf(cluster)).toEqual({ port: first.port, standby: false });
  for (const node of of.nodes) if (node !== first) await isReadFrom(cluster, node);

  const verdict = await recorded("switchover", cluster, of, async () => {
    const second = await of.switchover();
    await until(async () => (await portOf(cluster)).port === second.port);
    await of.isWhole();
    await isReadFrom(cluster, first);
    const joined = await of.add();
    await of.isWhole();
    await isReadFrom(cluster, joined);
  });
  expect(verdict).toEqual(CLEAN);
  expect(cluster.stats().servers).toHaveLength(4);
});

/** Kills the leader. Another node takes its place, and the killed one returns as a standby. */
async function failover(of: PatroniCluster, cluster: Cluster, lanes: Recorder): Promise<void> {
  const { length } = lanes.writes;
  await until(() => lanes.writes.length > length + 100);
  // While Patroni changes the synchronous standby, no node may take the place of a leader that is lost.
  await of.isWhole();
  const killed = await of.leader();
  await killed.kill();
  const next = await of.leader();
  expect(next).not.toBe(killed);
  await until(async () => (await portOf(cluster)).port === next.port);
  killed.revive();
  await of.isWhole();
  await isReadFrom(cluster, killed);
}

const slotsOf = async (node: PatroniNode) =>
  (await node.ask("select slot_name as name from pg_replication_slots where slot_type = 'logical'")).map(
    ({ name }) => name,
  );

test("synchronous_mode: failovers lose nothing, and nothing is stale", async () => {
  const feed = { type: "logical", database: "app", plugin: "pgoutput" };
  const of = await start("synchronous", { dynamic: { slots: { feed } } });
  await using cluster = clusterOf(of);
  const verdict = await recorded(`${FAILOVERS} failovers, synchronous`, cluster, of, async (lanes) => {
    for (let failed = 0; failed < FAILOVERS; failed++) await failover(of, cluster, lanes);
    const leader = await of.leader();
    // A slot that Patroni knows survives failovers, for consumers of changes.
    await until(async () => (await slotsOf(leader)).join() === "feed");
  });
  expect(verdict).toEqual(CLEAN);
});

test("asynchronous: only PostgreSQL's own losses are lost, and nothing is stale", async () => {
  const of = await start("asynchronous", { dynamic: { synchronous_mode: false } });
  await using cluster = clusterOf(of);
  const verdict = await recorded("2 failovers, asynchronous", cluster, of, async (lanes) => {
    for (let failed = 0; failed < 2; failed++) await failover(of, cluster, lanes);
  });
  expect(verdict).toMatchObject({ stale: [], invented: [], lost: [] });
});

test("a primary whose Patroni has died keeps running, and calls leave it for the next one", async () => {
  const of = await start("orphan");
  await using cluster = clusterOf(of);
  const verdict = await recorded("an orphan", cluster, of, async () => {
    const orphan = await of.leader();
    await orphan.orphan();
    const next = await of.leader();
    expect(next).not.toBe(orphan);
    // The lanes may all be waiting for their COMMIT there. Only a look at the servers notices: calls of `reads` look.
    await until(async () => (await cluster.reads.query(PORT)) && (await portOf(cluster)).port === next.port);
    expect(await orphan.ask("select pg_is_in_recovery() as standby")).toEqual([{ standby: false }]);
    // No standby confirms writes there, so none is acknowledged: the deadline ends the wait.
    await using alone = createCluster([orphan.url], QUICK);
    const late = alone.exec("insert into registers values ('orphan', 1)", { timeout: 1_000 });
    await expect(late).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
    orphan.revive();
    await of.isWhole();
    await isReadFrom(cluster, orphan);
    expect(await orphan.ask("select n from registers where id = 'orphan'", "app")).toEqual([]);
  });
  // When Patroni 3.0.2 starts again, it releases the COMMITs that wait before it ends that primary: the server has
  // acknowledged those, and lost them.
  expect(verdict).toMatchObject({ stale: [], invented: [], lost: [] });
});

test("without etcd no server accepts writes and standbys answer; writes continue afterwards", async () => {
  const of = await start("etcd");
  await using cluster = clusterOf(of);
  const verdict = await recorded("a silent etcd", cluster, of, async (lanes) => {
    const [leader, position] = await Promise.all([of.leader(), cluster.position()]);
    process.kill(of.etcd.pid, "SIGSTOP");
    try {
      const isDemoted = async () => {
        const [said] = await leader.ask("select pg_is_in_recovery() as standby").catch(() => []);
        return said?.["standby"] === true;
      };
      await until(isDemoted);
      for (const calls of [cluster.reads, cluster.reads.after(position) as Cluster["reads"]])
        for (let reads = 0; reads < 20; reads++) expect(await portOf(calls)).toMatchObject({ standby: true });
    } finally {
      process.kill(of.etcd.pid, "SIGCONT");
    }
    const { length } = lanes.writes;
    await until(() => lanes.writes.length > length + 100);
    await of.isWhole();
  });
  expect(verdict).toEqual(CLEAN);
});
