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
//   TRIALS, MS milliseconds of a trial, WARM rounds before              how much; TRIALS=1 MS=200 for a try
//   SHAPES RUNTIMES THROUGH=direct,pgbouncer WORKERS=16,100         which, separated by commas
import pg from "pg";
import { perCallRows } from "../lib/per-call.mjs";
import { command, goProgram, wantedRuntimes } from "../lib/runtimes.mjs";
import { compareSpeed, interleaved, resultRows } from "../lib/trials.mjs";
import { CLIENT_CPU, pin, SERVER_CPU, start } from "../lib/worker.mjs";
import { startPgBouncer } from "../../tests/servers/pgbouncer.mjs";
import { logFile } from "../../tests/servers/index.mjs";
import { COPIES, copied, COPY_IN, COPY_OUT, COPY_ROWS, INTENDED, SELECTS, shapes, texts, windows } from "./shapes.mjs";

const libraries = {
  node: ["pgz-edge", "pgz-edge pipelining", "pg", "postgres.js"],
  bun: ["pgz-edge", "bun.sql"],
  deno: ["pgz-edge"],
  native: ["pgxpool"],
};
const child = new URL("child.mjs", import.meta.url);
const key = (library, runtime) => `${library} on ${runtime}`;
const MAX = 16;
const PAIRS = 100_000;
const WAITERS = 10_000;
const MOST_FAILED = 0.001;
const OVER_NPM = 1.3;
const PAIR_US = 2;
const MICRO = ["acquire_release", "waiters_10000"];

export async function run({ server, option }) {
  if (!server.own)
    throw new Error("CASE=pool fills a table and wants a PgBouncer beside the server: run it without DATABASE_URL");
  const list = (name, all) => option(name)?.split(",") ?? all;
  const how = {
    trials: Number(option("TRIALS") ?? 3),
    duration: Number(option("MS") ?? 600),
    warm: Number(option("WARM") ?? 2),
  };
  const wanted = list("SHAPES", [...Object.keys(shapes), ...MICRO]);
  const throughs = list("THROUGH", ["direct", "pgbouncer"]);
  const crowds = list("WORKERS", ["16", "100"]).map(Number);
  const runtimes = wantedRuntimes(option, Object.keys(libraries));
  const native = runtimes.includes("native") ? goProgram("pool/native", "pool-native") : undefined;
  const pooler = await startPgBouncer({ server, log: logFile("pgbouncer-bench"), poolSize: MAX });
  pin(server.pid, SERVER_CPU); // backends inherit it
  pin(pooler.descriptor.pid, SERVER_CPU);
  const urls = [server, pooler.descriptor].map(({ appUrl }) => `${appUrl.split("?")[0]}?sslmode=disable`);
  const begin = (library, runtime) => {
    const words =
      runtime === "native" ? [...native, MAX, ...urls] : command(runtime, child, library, String(MAX), ...urls);
    return { key: key(library, runtime), library, runtime, ...start(key(library, runtime), words.map(String)) };
  };
  const contestants = runtimes.flatMap((runtime) => libraries[runtime].map((library) => begin(library, runtime)));
  const result = { rows: [], failures: [] };
  const table = await Table.create(urls[0]);
  try {
    for (const one of contestants) one.shapes = (await one.ask({ hello: true, ...given(one) })).shapes;
    for (const shape of wanted) {
      const able = contestants.filter((one) => one.shapes.includes(shape));
      const found = MICRO.includes(shape)
        ? await micro(able, shape, how)
        : await crossed(able, shape, throughs, crowds, table, how);
      result.rows.push(...found.rows);
      result.failures.push(...found.failures);
    }
    if (wanted.includes("select_1"))
      for (const one of contestants.filter(({ runtime }) => runtime === "node"))
        result.rows.push(
          ...perCallRows(one, "select_1", { through: "direct", execution: "known" }, await one.ask({ counts: true })),
        );
  } finally {
    await Promise.all(contestants.map((one) => one.stop()));
    await table.drop();
    await pooler.stop();
  }
  return result;
}

/** The work, for a program that cannot import shapes.mjs. */
function given({ runtime }) {
  if (runtime !== "native") return {};
  return {
    work: {
      texts,
      copied,
      select_1: SELECTS.select_1,
      intended: INTENDED,
      windows: { mixed: windows(false), mixed_dirty: windows(true) },
      copies: COPIES,
      copy_out: COPY_OUT,
      copy_in: COPY_IN,
    },
  };
}

// -- workers ---------------------------------------------------------------------------------------------------------

async function crossed(contestants, shape, throughs, crowds, table, how) {
  const all = { rows: [], failures: [] };
  for (const through of throughs) {
    for (const workers of crowds) {
      const samples = await measure(contestants, { shape, through, workers }, table, how);
      const config = { through, workers, connections: MAX, cpus: "client and server one each" };
      for (const one of contestants) all.rows.push(...figures(one, shape, config, samples.get(one.key)));
      all.failures.push(...targets(samples, shape, `${shape}, ${through}, ${workers} workers`));
    }
  }
  return all;
}

async function measure(contestants, request, table, { trials, duration, warm }) {
  const stored = contestants.map((one) => ({ ...one, ask: (asked) => table.checked(one, asked) }));
  for (let round = 1; round < warm; round++) for (const { ask } of stored) await ask({ ...request, duration });
  const verify = ({ key }, { tasks, failed, cut }) => {
    if (request.shape === "mixed_dirty" && !cut) throw new Error(`${key}: no transaction was cut short`);
    if (!tasks || tasks === failed + cut) throw new Error(`${key}, ${request.shape}: no task has come to its end`);
  };
  return interleaved(stored, { ...request, duration }, trials, verify, { idle: 0 });
}

function figures(contestant, shape, config, samples) {
  const { failed, tasks, codes } = failures(samples);
  const known = { ...config, ...(failed && { errors: codes }) };
  const { bytes } = shapes[shape];
  const metrics = {
    queries_per_s: ["queries/s", ({ queries, wall }) => (queries * 1000) / wall],
    us_per_query: ["µs", ({ queries, wall }) => (wall * 1000) / queries],
    cpu_us_per_query: ["µs", ({ queries, cpu }) => (cpu * 1000) / queries],
    ...(bytes && { mib_per_s: ["MiB/s", ({ queries, wall }) => (queries * bytes * 1000) / wall / 2 ** 20] }),
    p50_ms: ["ms", ({ p50 }) => p50],
    p95_ms: ["ms", ({ p95 }) => p95],
    p99_ms: ["ms", ({ p99 }) => p99],
  };
  return resultRows(contestant, shape, known, samples, {
    ...(failed / tasks <= MOST_FAILED && metrics),
    failed_tasks: ["", (sample) => sample.failed],
  });
}

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

function targets(samples, shape, title) {
  const missed = [];
  for (const [name, found] of samples) {
    const { failed, tasks, codes } = failures(found);
    if (!failed) continue;
    const said = `${title}: ${name} has failed in ${failed} of ${tasks} tasks: ${JSON.stringify(codes)}`;
    console.log(said);
    if (name.startsWith("pgz-edge")) missed.push(said);
  }
  // A library whose tasks fail must not win by speed.
  const sound = new Map([...samples].filter(([, found]) => !failures(found).failed));
  const npm = ["pg", "postgres.js"].map((name) => key(name, "node"));
  const ours = key("pgz-edge", "node");
  const bound = ["select_1", "mixed"].includes(shape) ? OVER_NPM : undefined;
  const wall = ({ wall: ms, queries }) => ms / queries;
  const cpu = ({ cpu: ms, queries }) => ms / queries;
  return [
    ...missed,
    ...compareSpeed(sound, title, ours, "the best npm peer", npm, wall, bound),
    ...compareSpeed(sound, `${title}, CPU`, ours, "the best npm peer", npm, cpu),
    ...compareSpeed(sound, title, ours, "pgxpool", [key("pgxpool", "native")], wall),
    ...compareSpeed(sound, title, key("pgz-edge", "bun"), "Bun.sql", [key("bun.sql", "bun")], wall),
  ];
}

// -- one at a time, and ten thousand ---------------------------------------------------------------------------------

async function micro(contestants, shape, { trials, warm }) {
  const isPair = shape === "acquire_release";
  const times = isPair ? PAIRS : WAITERS;
  const request = { shape, through: "direct", times };
  for (let round = 1; round < warm; round++) for (const { ask } of contestants) await ask(request);
  const samples = await interleaved(contestants, request, trials, () => {}, { idle: 0 });
  const metrics = isPair
    ? { cpu_us_per_pair: ["µs", ({ cpu }) => (cpu * 1000) / times] }
    : {
        bytes_per_waiter: ["B", ({ bytes }) => bytes],
        bytes_left_per_waiter: ["B", ({ left }) => left],
        cpu_us_per_query: ["µs", ({ cpu }) => (cpu * 1000) / times],
      };
  const rows = contestants.flatMap((one) =>
    resultRows(one, shape, { times, connections: MAX }, samples.get(one.key), metrics),
  );
  return { rows, failures: isPair ? slowPairs(rows) : stampedes(samples) };
}

function slowPairs(rows) {
  const { median } = rows.find(({ library, runtime }) => library === "pgz-edge" && runtime === "node") ?? {};
  if (median === undefined) return [];
  const said = `acquire_release: ${median.toFixed(2)} µs of CPU a pair, to reach ${PAIR_US}`;
  console.log(said);
  return median > PAIR_US ? [said] : [];
}

/** Checks that a pool makes no connections for waiters. */
function stampedes(samples) {
  return [...samples].flatMap(([name, found]) => {
    const most = Math.max(...found.map(({ connections = 0 }) => connections));
    return most > MAX ? [`waiters: ${name} has made ${most} connections where ${MAX} may be`] : [];
  });
}

// -- what COPY has stored --------------------------------------------------------------------------------------------

class Table {
  static async create(url) {
    const table = new Table();
    table.client = new pg.Client({ connectionString: url });
    await table.client.connect();
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
