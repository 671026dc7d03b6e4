// A history of calls over failovers: registers and lists are written on the primary and read behind the positions of
// anybody's writes. In a release a million calls over five failovers (tests/run/suites.mjs).
import { afterEach, expect, test } from "vitest";
import { lsnOf } from "../../js/adapters/cluster/position.ts";
import type { ClusterNode, ClusterOfServers } from "../servers/standbys.mjs";
import { generator } from "../support/random.ts";
import { isRelease } from "../support/release.ts";
import { pause } from "../support/until.ts";
import { check, isList, type Ends, type Read, type Write } from "./history.ts";
import { clusterOf, driver, start } from "./world.ts";

const { sql } = driver;
const FAILOVERS = isRelease ? 5 : 1;
const CALLS = Number(process.env["CALLS"] ?? (isRelease ? 1_000_000 : 4_000));
const LANES = 12;
/** Values of a list, so that reading one does not take ever longer. */
const LONGEST_LIST = 200;
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
  await using cluster = clusterOf(servers, { max: LANES, wait: 100, lookInterval: 100, maxLag: 2_000 });
  await cluster.simple("create table registers (id text primary key, n int); create table lists (id text, n int)");
  for (const standby of servers.standbys) await standby.catchUp(servers.primary);
  const writes: Write[] = [];
  const reads: Read[] = [];
  const codes = new Map<string, number>();
  const positions: string[] = [await cluster.position()];
  let calls = 0;

  const attempt = async (work: () => Promise<void>) => {
    calls++;
    try {
      await work();
    } catch (error) {
      const { code } = error as { code: string };
      codes.set(code, (codes.get(code) ?? 0) + 1);
    }
  };

  async function written(object: string, value: number, work: () => Promise<{ readonly position: string }>) {
    const at = writes.push({ object, value, position: undefined }) - 1;
    await attempt(async () => {
      const { position } = await work();
      writes[at] = { object, value, position };
      positions[value % LANES] = position;
    });
  }

  async function read(object: string, writer: number) {
    const behind = positions[writer] ?? positions[0]!;
    const table = sql.identifier(isList(object) ? "lists" : "registers");
    await attempt(async () => {
      const { rows } = await cluster.reads
        .after(behind)
        .query<{ n: number }>(sql`select n from ${table} where id = ${object}`);
      reads.push({ object, behind, values: rows.map(({ n }) => n) });
    });
  }

  const lane = async (id: number) => {
    const dice = generator(seed + id);
    const register = `register${id}`;
    let value = 0;
    while (calls < CALLS) {
      const list = `list${id}-${Math.floor(value / LONGEST_LIST)}`;
      const die = dice(100);
      if (die < 30) {
        const n = ++value;
        const put = sql`insert into registers values (${register}, ${n}) on conflict (id) do update set n = ${n}`;
        await written(register, n, () => cluster.exec(put, { position: true }));
      } else if (die < 50) {
        const n = ++value;
        const append = sql`insert into lists values (${list}, ${n})`;
        await written(list, n, () => cluster.transaction((tx) => tx.exec(append), { position: true }));
      } else await read(die < 75 ? `register${dice(LANES)}` : list, dice(LANES));
    }
  };

  const ends = new Map<number, bigint>();
  const failovers = async () => {
    let primary = nodes[0]!;
    let left: ClusterNode[] = nodes.slice(1);
    for (let timeline = 1; timeline <= FAILOVERS; timeline++) {
      while (calls < (CALLS * timeline) / (FAILOVERS + 1)) await pause(20);
      // Cut off from its standbys for a moment, so that there is something to lose.
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
      ends.set(timeline, await endOf(primary, timeline));
    }
    return primary;
  };

  const [primary] = await Promise.all([failovers(), ...Array.from({ length: LANES }, (_, id) => lane(id))]);
  const behind = await cluster.position();
  const last = await Promise.all(
    [...new Set(writes.map(({ object }) => object))].map(async (object): Promise<Read> => {
      const table = isList(object) ? "lists" : "registers";
      const rows = (await primary.ask(`select n from ${table} where id = '${object}'`, "app")) as { n: number }[];
      return { object, behind, values: rows.map(({ n }) => n) };
    }),
  );
  const verdict = check(writes, reads, last, ends as Ends);
  const { nearest, ...byPrimary } = cluster.stats().reads;
  console.log(
    `[cluster] ${name}, seed ${seed}: ${writes.length} writes, ${reads.length} reads behind positions, ${FAILOVERS} ` +
      `failovers; ${nearest} reads went to standbys, to the primary ${JSON.stringify(byPrimary)}; errors ` +
      `${JSON.stringify([...codes])}; lost by PostgreSQL ${verdict.lostByServer}`,
  );
  expect(reads.length).toBeGreaterThan(CALLS / 4);
  expect(nearest).toBeGreaterThan(CALLS / 10);
  return verdict;
}

/** Where a timeline ended, as the next primary's history of timelines says. */
async function endOf(primary: ClusterNode, timeline: number): Promise<bigint> {
  const file = `pg_wal/${(timeline + 1).toString(16).toUpperCase().padStart(8, "0")}.history`;
  const [{ text }] = (await primary.ask(`select pg_read_file('${file}') as text`)) as [{ text: string }];
  const line = text.split("\n").find((one) => one.startsWith(`${timeline}\t`))!;
  return lsnOf(line.split("\t")[1]!);
}

const timeout = isRelease ? 1_500_000 : 120_000;

test("synchronous replication: nothing is stale, nothing is lost", { timeout }, async () => {
  expect(await history("remote_apply", true)).toEqual({ stale: [], invented: [], lost: [], lostByServer: 0 });
});

test("asynchronous replication: nothing is stale, and lost is what PostgreSQL has lost", { timeout }, async () => {
  const verdict = await history("asynchronous", false);
  expect(verdict).toMatchObject({ stale: [], invented: [], lost: [] });
  expect(verdict.lostByServer).toBeGreaterThan(0);
});
