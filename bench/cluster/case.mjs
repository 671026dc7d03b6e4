// CASE=cluster: what a cluster saves and what it costs.
//
// - `read_after_write`: the primary is 50 ms away and the standby 1 ms, through delaying proxies. Wall time of a read
//   after the position of a write that the standby already has, of a read right after the write, of the same read on
//   the primary, and of the write with and without its position.
// - `cpu`: CPU of a pool's call, and of the same call of a cluster without a position, of `reads`, and of `reads` after
//   a position. All in one process, in random order. A call without a position must cost no more than a pool's.
//
//   TRIALS   how many          CALLS   of a trial of CPU
import { createCluster } from "../../dist/cluster.js";
import { createPool, sql } from "../../dist/node.js";
import { logFile } from "../../tests/servers/index.mjs";
import { startStandbys } from "../../tests/servers/standbys.mjs";
import { delayingProxy } from "../lib/delaying-proxy.mjs";
import { shuffled, summary } from "../lib/statistics.mjs";
import { resultRows } from "../lib/trials.mjs";

export default { needsServer: false, measure };

/** Round trips in milliseconds. */
const PRIMARY = 50,
  STANDBY = 1;
/** Milliseconds that a read may take beyond its round trip, and the share of a pool call's CPU that a call may need. */
const LONGEST_READ = 5,
  MOST_CPU = 1.05;

async function measure({ option }) {
  const trials = Number(option("TRIALS") ?? 15);
  const calls = Number(option("CALLS") ?? 4_000);
  const servers = await startStandbys({ count: 1, log: logFile("bench-cluster") });
  try {
    const near = await distances(servers, trials);
    const cpu = await cpus(servers, trials, calls);
    return { rows: [...near.rows, ...cpu.rows], failures: [...near.failures, ...cpu.failures] };
  } finally {
    await servers.stop();
  }
}

const rowOf = (shape, part, metric, unit, values) => {
  const ours = { library: "pgz-edge", runtime: "node" };
  return resultRows(ours, shape, { part }, values, { [metric]: [unit, (value) => value] })[0];
};

async function distances({ primary, standbys }, trials) {
  const far = await delayingProxy(primary.url);
  const close = await delayingProxy(standbys[0].url);
  const cluster = createCluster([far.url, close.url], { sslmode: "disable", probeInterval: 600_000, maxLag: Infinity });
  try {
    await cluster.exec("create table visits (id int)");
    await standbys[0].catchUp(primary);
    await cluster.probe();
    const insert = sql`insert into visits values (${1})`;
    const count = sql`select count(*)::int4 as n from visits`;
    const given = { position: true };
    const warm = (await cluster.exec(insert, given)).position;
    await cluster.exec(insert);
    await cluster.query(count);
    await cluster.reads.after(warm).query(count);
    far.delay(PRIMARY);
    close.delay(STANDBY);
    const times = { write: [], "write with position": [], "read there": [], "read at once": [], "read of primary": [] };
    const timed = async (name, work) => {
      const began = performance.now();
      const result = await work();
      times[name].push(performance.now() - began);
      return result;
    };
    for (let trial = 0; trial < trials; trial++) {
      await timed("write", () => cluster.exec(insert));
      const { position } = await timed("write with position", () => cluster.exec(insert, given));
      await timed("read at once", () => cluster.reads.after(position).query(count));
      await standbys[0].catchUp(primary);
      await timed("read there", () => cluster.reads.after(position).query(count));
      await timed("read of primary", () => cluster.query(count));
    }
    const rows = Object.entries(times).map(([name, values]) =>
      rowOf("read_after_write", name, "ms_per_call", "ms", values),
    );
    const there = rows.find(({ config }) => config.part === "read there").median;
    const failures = there > STANDBY + LONGEST_READ ? [`a read of the standby takes ${there.toFixed(1)} ms`] : [];
    return { rows, failures };
  } finally {
    await cluster.close();
    far.close();
    close.close();
  }
}

async function cpus({ primary, standbys }, trials, calls) {
  const urls = [primary.url, standbys[0].url];
  const options = { sslmode: "disable", probeInterval: 600_000, maxLag: Infinity };
  const cluster = createCluster(urls, options);
  const pool = createPool(urls[0], { sslmode: "disable" });
  const position = await cluster.position(); // publishes a position
  await standbys[0].catchUp(primary);
  await cluster.probe();
  const behind = cluster.reads.after(position);
  const one = sql`select ${1}::int4 as n`;
  const ways = {
    pool: () => pool.query(one),
    cluster: () => cluster.query(one),
    reads: () => cluster.reads.query(one),
    "reads.after": () => behind.query(one),
    "with position": () => cluster.query(one, { position: true }),
  };
  const used = Object.fromEntries(Object.keys(ways).map((name) => [name, []]));
  try {
    // The first round warms up.
    for (let trial = 0; trial <= trials; trial++)
      for (const name of shuffled(Object.keys(ways))) {
        globalThis.gc?.();
        const before = process.cpuUsage();
        for (let call = 0; call < calls; call++) await ways[name]();
        const { user, system } = process.cpuUsage(before);
        if (trial) used[name].push((user + system) / calls);
      }
    const rows = Object.entries(used).map(([name, values]) => rowOf("cpu", name, "cpu_us_per_call", "us", values));
    const { median: ours } = summary(used.cluster.map((value, trial) => value / used.pool[trial]));
    const failures = ours > MOST_CPU ? [`a call of a cluster takes ${ours.toFixed(3)} of a pool's CPU`] : [];
    return { rows, failures };
  } finally {
    await cluster.close();
    await pool.close();
  }
}
