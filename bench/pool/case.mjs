// CASE=pool: the throughput that a server's workers get from a pool. Seed 004's four cases (SELECT 1, mixed work in
// whole transactions, COPY in both directions), SELECT of a user's function, and the mixed work with transactions that
// an error cuts short. Each directly and through PgBouncer 1.18 in transaction mode, with 16 and 100 workers; ours
// against pg.Pool, postgres.js, Bun.sql and pgxpool. Then the cost of acquiring and releasing an idle connection, and
// the cost of each of ten thousand waiters.
//
// Every pool has 16 connections, as the seed's scaled run has: far fewer saturate one CPU of a server, and of 100
// workers 84 wait, so the queue is measured too. A trial lasts a fixed time, not a fixed number of tasks; each worker
// finishes the task that it has begun. Queries are counted as the server runs them: BEGIN, COMMIT and ROLLBACK count,
// and each COPY counts as one. Percentiles are of tasks: one SELECT, a window of about twenty queries, five COPYs.
// Tasks that fail or are cut short are not among them.
//
// The children check every row and byte, the case checks what COPY has stored. Errors are counted by SQLSTATE. If more
// than 0.1 % of the tasks fail, no speed is reported. The intended error of `mixed_dirty` does not count as one.
//
//   TRIALS, MS milliseconds of a trial, WARM rounds before, PAIRS       how much; TRIALS=1 MS=200 PAIRS=99 for a try
//   SHAPES RUNTIMES THROUGH=direct,pgbouncer WORKERS=16,100         which, separated by commas
import { logFile } from "../../tests/servers/index.mjs";
import { startPgBouncer } from "../../tests/servers/pgbouncer.mjs";
import { pgClient } from "../lib/connect.mjs";
import { goal, keyOf, plainUrl, wanted } from "../lib/harness.mjs";
import { perCallRows } from "../lib/per-call.mjs";
import { goProgram } from "../lib/runtimes.mjs";
import { pin, SERVER_CPU } from "../lib/worker.mjs";
import { COPIES, copied, COPY_IN, COPY_OUT, COPY_ROWS, INTENDED, SELECTS, shapes, texts, windows } from "./shapes.mjs";

const MAX = 16;
const WAITERS = 10_000;
const MICRO = ["acquire_release", `waiters_${WAITERS}`];
const MOST_FAILED = 0.001;
const OVER_NPM = 1.3;
const PAIR_US = 2;

export default {
  numbers: { TRIALS: 3, MS: 600, WARM: 2, PAIRS: 100_000 },
  shapes: [...Object.keys(shapes), ...MICRO],
  start: { native: (library, ...given) => [...goProgram("pool/native", "pool-native"), given[2], given[0], given[1]] },
  fillsServer: true,
  idle: 0,

  async fill({ server }) {
    const pooler = await startPgBouncer({ server, log: logFile("pgbouncer-bench"), poolSize: MAX });
    pin(pooler.descriptor.pid, SERVER_CPU);
    const table = await Table.create(plainUrl(server.appUrl));
    const close = async () => {
      await table.drop();
      await pooler.stop();
    };
    return { table, close, rest: [plainUrl(pooler.descriptor.appUrl), MAX] };
  },

  /** The work, for a program that cannot import shapes.mjs. */
  hello: ({ runtime }) =>
    runtime === "native"
      ? {
          work: {
            ...{ texts, copied, select_1: SELECTS.select_1, intended: INTENDED },
            windows: { mixed: windows(false), mixed_dirty: windows(true) },
            ...{ copies: COPIES, copy_out: COPY_OUT, copy_in: COPY_IN },
          },
        }
      : {},

  run(shape, { option, MS, PAIRS }) {
    if (MICRO.includes(shape)) {
      const isPair = shape === "acquire_release";
      const times = isPair ? PAIRS : WAITERS;
      return {
        ...(isPair ? pairs : waiters),
        config: { times, connections: MAX },
        request: { shape, through: "direct", times },
      };
    }
    return wanted(option, "THROUGH", ["direct", "pgbouncer"]).flatMap((through) =>
      wanted(option, "WORKERS", ["16", "100"]).map((crowd) => {
        const workers = Number(crowd);
        const known = { through, workers, connections: MAX, cpus: "client and server one each" };
        return {
          title: `${shape}, ${through}, ${workers} workers`,
          config(one, samples) {
            const { failed, codes } = failures(samples ?? []);
            return failed ? { ...known, errors: codes } : known;
          },
          request: { shape, through, workers, duration: MS },
        };
      }),
    );
  },

  ask: (one, request, scene, { table }) => table.checked(one, request),

  warm: (scene, { WARM }) => Array(Math.max(0, WARM - 1)).fill({}),

  check({ tasks, failed, cut }, { shape }) {
    if (shape === "mixed_dirty" && !cut) throw new Error("no transaction was cut short");
    if (!tasks || tasks === failed + cut) throw new Error("no task has come to its end");
  },

  metrics(one, samples, { shape }) {
    const { failed, tasks } = failures(samples);
    const { bytes } = shapes[shape];
    return {
      ...(failed / tasks <= MOST_FAILED && {
        queries_per_s: ["queries/s", ({ queries, wall }) => (queries * 1000) / wall],
        us_per_query: ["µs", ({ queries, wall }) => (wall * 1000) / queries],
        cpu_us_per_query: ["µs", ({ queries, cpu }) => (cpu * 1000) / queries],
        ...(bytes && { mib_per_s: ["MiB/s", ({ queries, wall }) => (queries * bytes * 1000) / wall / 2 ** 20] }),
        p50_ms: ["ms", ({ p50 }) => p50],
        p95_ms: ["ms", ({ p95 }) => p95],
        p99_ms: ["ms", ({ p99 }) => p99],
      }),
      failed_tasks: ["", (sample) => sample.failed],
    };
  },

  /** A library whose tasks fail must not win by speed. */
  goals({ shape, samples }) {
    const sound = (keys) => keys.filter((key) => samples.has(key) && !failures(samples.get(key)).failed);
    const over = (runtime, peers, wanted, by = "wall") => {
      const [ours] = sound([keyOf("pgz-edge", runtime)]);
      return goal(sound(peers), wanted, { ours, by: (sample) => sample[by] / sample.queries, what: by });
    };
    const npm = ["pg on node", "postgres.js on node"];
    return [
      over("node", npm, ["select_1", "mixed"].includes(shape) ? OVER_NPM : undefined),
      over("node", npm, undefined, "cpu"),
      over("node", ["pgxpool on native"]),
      over("bun", ["bun.sql on bun"]),
    ];
  },

  missed({ title, samples }) {
    return [...samples].flatMap(([name, found]) => {
      const { failed, tasks, codes } = failures(found);
      if (!failed) return [];
      const said = `${title}: ${name} has failed in ${failed} of ${tasks} tasks: ${JSON.stringify(codes)}`;
      console.log(said);
      return name.startsWith("pgz-edge") ? [said] : [];
    });
  },

  async more({ all, shapes: chosen, begin }) {
    const rows = [];
    for (const [library, runtime] of all.filter((one) => one[1] === "node" && chosen.includes("select_1"))) {
      const one = await begin(library, runtime);
      const config = { through: "direct", execution: "known" };
      rows.push(...perCallRows(one, "select_1", config, await one.ask({ counts: true })));
      await one.stop();
    }
    return rows;
  },
};

/** Sums the failures of all trials. */
function failures(samples) {
  const codes = {};
  let [failed, tasks] = [0, 0];
  for (const sample of samples) {
    failed += sample.failed;
    tasks += sample.tasks;
    for (const [code, count] of Object.entries(sample.errors)) codes[code] = (codes[code] ?? 0) + count;
  }
  return { failed, tasks, codes };
}

// -- one at a time, and ten thousand ---------------------------------------------------------------------------------

const pairs = {
  check: undefined,
  goals: undefined,
  metrics: { cpu_us_per_pair: ["µs", ({ cpu, config }) => (cpu * 1000) / config.times] },
  missed({ samples, config }) {
    const found = samples.get(keyOf("pgz-edge", "node")) ?? [];
    const slow = found.filter(({ cpu }) => (cpu * 1000) / config.times > PAIR_US);
    return slow.length > found.length / 2 ? [`acquire_release: a pair needs more than ${PAIR_US} µs of CPU`] : [];
  },
};

const waiters = {
  check: undefined,
  goals: undefined,
  metrics: {
    bytes_per_waiter: ["B", ({ bytes }) => bytes],
    bytes_left_per_waiter: ["B", ({ left }) => left],
    cpu_us_per_query: ["µs", ({ cpu, config }) => (cpu * 1000) / config.times],
  },
  /** A pool makes no connections for waiters. */
  missed: ({ samples }) =>
    [...samples].flatMap(([name, found]) => {
      const most = Math.max(...found.map(({ connections = 0 }) => connections));
      return most > MAX ? [`waiters: ${name} has made ${most} connections where ${MAX} may be`] : [];
    }),
};

// -- what COPY has stored --------------------------------------------------------------------------------------------

class Table {
  static async create(url) {
    const table = new Table();
    table.client = await pgClient(url);
    await table.client.query("drop table if exists bench_pool_in");
    await table.client.query("create or replace function bench_pool_one() returns int language sql as 'select 1'");
    await table.client.query("create unlogged table bench_pool_in (id int, name text, value int)");
    return table;
  }

  /** Sends the request, and checks that the table has the rows of each COPY. */
  async checked({ key, ask }, request) {
    const got = await ask(request);
    if (request.shape !== "copy_in") return got;
    const { rows } = await this.client.query(
      `select count(*)::int as rows, count(*) filter (where name = 'row_' || id and value = id * 10)::int as good,
              coalesce(sum(id), 0)::float8 as sum
       from bench_pool_in`,
    );
    await this.client.query("truncate bench_pool_in");
    const [{ rows: count, good, sum }] = rows;
    // A COPY that failed must have stored nothing.
    const wanted = got.queries * COPY_ROWS;
    if (count !== wanted || good !== wanted || sum !== (wanted * (COPY_ROWS + 1)) / 2)
      throw new Error(`${key}: ${count} rows are stored, ${good} of them right, instead of ${wanted}`);
    return got;
  }

  async drop() {
    await this.client.query("drop table if exists bench_pool_in");
    await this.client.query("drop function if exists bench_pool_one()");
    await this.client.end();
  }
}
