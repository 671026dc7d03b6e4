// A history of calls over failovers: registers and lists are written on the primary and read after positions of any
// lane's writes. A release makes a million calls over five failovers (tests/run/suites.mjs).
import { afterEach, expect, test } from "vitest";
import type { ClusterNode, ClusterOfServers } from "../servers/standbys.mjs";
import { HOURS, isRelease } from "../support/release.ts";
import { pause } from "../support/until.mjs";
import { check } from "./history.ts";
import { endsOf, recorder } from "./recorder.ts";
import { clusterOf, start } from "./world.ts";

const FAILOVERS = isRelease ? 5 : 1;
const CALLS = Number(process.env["CALLS"] ?? (isRelease ? 1_000_000 : 4_000));
const LANES = 12;
const seed = Number(process.env["PGZ_SEED"] ?? Math.floor(Math.random() * 1e6));

let servers: ClusterOfServers | undefined;
afterEach(async () => {
  await servers?.stop();
  servers = undefined;
});

async function history(name: string, isSynchronous: boolean) {
  const settings = isSynchronous ? { synchronous_commit: "remote_apply" } : {};
  servers = await start(`history-${name}`, { count: FAILOVERS + 1, isSynchronous, settings });
  const nodes = [servers.primary, ...servers.standbys];
  for (const node of nodes.slice(0, 1)) await node.ask("grant pg_read_all_stats to app");
  await using cluster = clusterOf(servers, { max: LANES, wait: 100, probeInterval: 100, maxLag: 2_000 });
  const recorded = await recorder(cluster, { seed, lanes: LANES });
  const { writes, reads, codes } = recorded;
  for (const standby of servers.standbys) await standby.catchUp(servers.primary);

  const failovers = async () => {
    let primary = nodes[0]!;
    let left: ClusterNode[] = nodes.slice(1);
    for (let timeline = 1; timeline <= FAILOVERS; timeline++) {
      while (recorded.calls < (CALLS * timeline) / (FAILOVERS + 1)) await pause(20);
      // The primary is cut off from its standbys for a moment, so that there is something to lose.
      if (!isSynchronous) {
        await Promise.all(left.map((node) => node.set("primary_conninfo = ''")));
        const { length } = writes;
        while (writes.length < length + LANES * 4) await pause(5);
      }
      await primary.crash();
      const far = await Promise.all(left.map(async (node) => ({ node, at: await node.received() })));
      primary = far.sort((one, other) => Number(other.at - one.at))[0]!.node;
      left = left.filter((node) => node !== primary);
      await primary.promote();
      for (const node of left) await node.follow(primary);
    }
    return primary;
  };

  const [primary] = await Promise.all([failovers(), recorded.run(() => recorded.calls >= CALLS)]);
  const ask = (text: string) => primary.ask(text, "app");
  const verdict = check(writes, reads, await recorded.last(ask), await endsOf(primary.ask));
  const { nearest, ...byPrimary } = cluster.stats().reads;
  console.log(
    `[cluster] ${name}, seed ${seed}: ${writes.length} writes, ${reads.length} reads after positions, ${FAILOVERS} ` +
      `failovers; ${nearest} reads went to standbys, to the primary ${JSON.stringify(byPrimary)}; errors ` +
      `${JSON.stringify([...codes])}; lost by PostgreSQL ${verdict.lostByServer}`,
  );
  expect(reads.length).toBeGreaterThan(CALLS / 4);
  expect(nearest).toBeGreaterThan(CALLS / 10);
  return verdict;
}

test("synchronous replication: nothing is stale, nothing is lost", { timeout: HOURS }, async () => {
  expect(await history("remote_apply", true)).toEqual({ stale: [], invented: [], lost: [], lostByServer: 0 });
});

test(
  "asynchronous replication: nothing is stale, and only PostgreSQL's own losses are lost",
  { timeout: HOURS },
  async () => {
    const verdict = await history("asynchronous", false);
    expect(verdict).toMatchObject({ stale: [], invented: [], lost: [] });
    expect(verdict.lostByServer).toBeGreaterThan(0);
  },
);
