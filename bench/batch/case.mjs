// CASE=batch: seed 002's ten thousand prepared executions with one Sync, as counts, rows and NDJSON, against
// postgres.js (pipelined in a transaction), pg (one by one), Bun.sql and pgx SendBatch (with Exec, and with Query and
// Scan). Then pgz's writes (batches of 100 INSERTs; a thousand single ones, prepared ones, and in one transaction) and
// seed 003's prepared INSERT, one by one and pipelined.
//
// Each run's facts are compared: rows, sums and letters of reads, the server's content after inserts, a hash of the
// NDJSON. Peak memory and bytes on the wire come from separate runs, in fresh processes that are not timed. Inserts
// need tables, so a server that is not ours (DATABASE_URL) is refused and left unchanged.
//
//   ROWS executions per trial, TRIALS, PIN=one|split          how much, where
//   SHAPES RUNTIMES                                       which, separated by commas
import { createHash } from "node:crypto";
import pg from "pg";
import { countingProxy } from "../lib/counting-proxy.mjs";
import { textRows, typedRow } from "../lib/data.mjs";
import { peakOf } from "../lib/memory.mjs";
import { command, goProgram, wantedRuntimes } from "../lib/runtimes.mjs";
import { compareSpeed, interleaved, resultRows } from "../lib/trials.mjs";
import { CLIENT_CPU, pin, SERVER_CPU, start } from "../lib/worker.mjs";
import { ndjson, shapes } from "./shapes.mjs";

const libraries = { node: ["pgz-edge", "postgres.js", "pg"], native: ["pgx"], bun: ["pgz-edge", "bun.sql"] };
const child = new URL("child.mjs", import.meta.url);
const key = (library, runtime) => `${library} on ${runtime}`;
const OVER_POSTGRES_JS = 4;
const OVER_SERIAL = 5;
const OVER_SIMPLE = 2;
/** Runs before the warm-up round: V8 optimises the code of many small calls only after thousands of them. */
const WARM = 3;

export async function run({ server, option }) {
  if (!server.own)
    throw new Error("CASE=batch fills tables, and DATABASE_URL is a server that is left as it is: run it without");
  const times = Number(option("ROWS") ?? 10_000);
  const trials = Number(option("TRIALS") ?? 5);
  const wanted = option("SHAPES")?.split(",") ?? Object.keys(shapes);
  const split = option("PIN") !== "one";
  const runtimes = wantedRuntimes(option, Object.keys(libraries));
  const native = runtimes.includes("native") ? goProgram("batch/native", "native") : undefined;
  const url = `${server.appUrl.split("?")[0]}?sslmode=disable`;
  const begin = (library, runtime, url) => {
    const words = runtime === "native" ? [...native, library, url] : command(runtime, child, library, url);
    return { key: key(library, runtime), library, runtime, ...start(key(library, runtime), words) };
  };

  pin(server.pid, split ? SERVER_CPU : CLIENT_CPU); // backends inherit it
  const truth = await Tables.create(server);
  const all = runtimes.flatMap((runtime) => libraries[runtime].map((library) => [library, runtime]));
  const contestants = all.map(([library, runtime]) => begin(library, runtime, url));
  const result = { rows: [], failures: [] };
  const samples = new Map(); // the samples of all shapes, by "shape, key"
  try {
    for (const one of contestants) one.shapes = (await one.ask({ hello: true })).shapes;
    for (const shape of wanted) {
      const able = contestants.filter((one) => one.shapes.includes(shape));
      const found = await measure(able, shape, truth, { times, trials });
      const config = {
        executions: executions(shape, times),
        cpus: split ? "client and server one each" : "client and server on one",
      };
      for (const one of able) {
        samples.set(`${shape}, ${one.key}`, found.get(one.key));
        result.rows.push(...figures(one, shape, config, found.get(one.key)));
      }
    }
    result.failures.push(...targets(samples));
  } finally {
    await Promise.all(contestants.map((one) => one.stop()));
  }
  try {
    for (const [library, runtime] of all)
      result.rows.push(...(await apart(library, runtime, url, begin, wanted, truth, times)));
  } finally {
    await truth.drop();
  }
  return result;
}

const executions = (shape, times) => Math.ceil(times * (shapes[shape].share ?? 1));

async function measure(contestants, shape, truth, { times, trials }) {
  const { table, facts } = shapes[shape];
  const count = executions(shape, times);
  if (shape === "ndjson") {
    const wanted = createHash("sha256").update(ndjson(count)).digest("hex");
    for (const { key, ask } of contestants)
      if ((await ask({ shape, times: count, check: true })).sha256 !== wanted)
        throw new Error(`${key}, ndjson: other lines than the table's`);
  }
  const verify = ({ key }, got) => {
    for (const [name, value] of Object.entries(facts?.(count) ?? {})) {
      if (got[name] !== undefined && Math.abs(got[name] - value) > 1e-6)
        throw new Error(`${key}, ${shape}: ${name} ${got[name]} instead of ${value}`);
    }
    if (facts && got.rows === undefined) throw new Error(`${key}, ${shape}: says nothing of its rows`);
  };
  const filled = (one) => (request) => (request.idle ? one.ask(request) : truth.filled(one, table, count, request));
  const able = table ? contestants.map((one) => ({ ...one, ask: filled(one) })) : contestants;
  for (let time = 0; time < WARM; time++) for (const { ask } of able) await ask({ shape, times: count });
  return interleaved(able, { shape, times: count }, trials, verify, { idle: 0 });
}

/** The tables that inserts fill, and their expected content. */
class Tables {
  static async create(server) {
    const tables = new Tables();
    tables.client = new pg.Client({ connectionString: server.appUrl });
    await tables.client.connect();
    await tables.drop(false);
    await tables.client.query("create table bench_write (id int4, name text, score float8)");
    await tables.client.query(
      `create table bench_wide (${Array.from({ length: 16 }, (_, index) => `c${index} text`).join(", ")})`,
    );
    return tables;
  }

  /** Runs an insert into an empty table and compares the table's whole content. */
  async filled({ key, ask }, table, count, request) {
    await this.client.query(`truncate ${table}`);
    const got = await ask(request);
    const { rows } = await this.client.query(
      `select count(*)::int as rows, md5(string_agg(t::text, E'\\n' order by t::text collate "C")) as md5
       from ${table} t`,
    );
    const wanted = this.#wanted(table, count);
    if (rows[0].rows !== count || rows[0].md5 !== wanted)
      throw new Error(
        `${key}, ${request.shape}: the table has ${rows[0].rows} rows with md5 ${rows[0].md5}, ` +
          `instead of ${count} with ${wanted}`,
      );
    return got;
  }

  #known = new Map();
  #wanted(table, count) {
    const name = `${table} ${count}`;
    if (!this.#known.has(name)) {
      const rows =
        table === "bench_wide" ? textRows(count, 16, 32) : Array.from({ length: count }, (_, index) => typedRow(index));
      const lines = rows.map((row) => `(${row.join(",")})`).sort();
      this.#known.set(name, createHash("md5").update(lines.join("\n")).digest("hex"));
    }
    return this.#known.get(name);
  }

  async drop(end = true) {
    await this.client.query("drop table if exists bench_write, bench_wide");
    if (end) await this.client.end();
  }
}

function figures(contestant, shape, config, samples) {
  const perSecond = shapes[shape].table ? "rows_per_s" : "queries_per_s";
  return resultRows(contestant, shape, config, samples, {
    wall_ms: ["ms", ({ wall }) => wall],
    cpu_ms: ["ms", ({ cpu }) => cpu],
    [perSecond]: [shapes[shape].table ? "rows/s" : "queries/s", ({ wall }) => (config.executions * 1000) / wall],
  });
}

function targets(samples) {
  const ours = (shape, runtime = "node") => `${shape}, ${key("pgz-edge", runtime)}`;
  // scales the time, because the two may not have run equally many executions
  const wall = (shape) => (executionsOf) => executionsOf.wall / (shapes[shape].share ?? 1);
  const compare = (shape, peerShape, peer, runtime, wanted, from = "node") => {
    const peerKey = `${peerShape}, ${key(peer, runtime)}`;
    const normal = new Map([
      [ours(shape, from), samples.get(ours(shape, from))?.map((one) => ({ value: wall(shape)(one) }))],
      [peerKey, samples.get(peerKey)?.map((one) => ({ value: wall(peerShape)(one) }))],
    ]);
    return compareSpeed(normal, shape, ours(shape, from), peerKey, [peerKey], ({ value }) => value, wanted);
  };
  return [
    ...["count", "rows", "ndjson"].flatMap((shape) => [
      ...compare(shape, "rows", "postgres.js", "node", OVER_POSTGRES_JS),
      ...compare(shape, "rows", "pg", "node"),
      ...compare(shape, shape === "count" ? "count" : "rows", "pgx", "native", 1),
      ...compare(shape, "simple", "pgz-edge", "node", OVER_SIMPLE),
    ]),
    ...compare("rows", "rows", "bun.sql", "bun", undefined, "bun"),
    ...[
      "inserts_batch_100",
      "insert_exec",
      "insert_prepared",
      "insert_tx",
      "insert_serial",
      "insert_pipelined_100",
      "insert_pipelined_1000",
    ].flatMap((shape) => [
      ...compare(shape, shape, "pgx", "native"),
      ...compare(shape, shape, "postgres.js", "node"),
      ...compare(shape, shape, "pg", "node"),
    ]),
    ...["insert_pipelined_100", "insert_pipelined_1000"].flatMap((shape) =>
      compare(shape, "insert_serial", "pgz-edge", "node", OVER_SERIAL),
    ),
  ];
}

/**
 * Measures memory and wire of the reads and the first batch of inserts, each in a fresh process: the first run of the
 * process, then one through the proxy.
 */
async function apart(library, runtime, url, begin, wanted, truth, times) {
  const rows = [];
  for (const shape of wanted.filter((name) => ["count", "rows", "ndjson", "inserts_batch_100"].includes(name))) {
    const count = executions(shape, times);
    const single = (metric, unit, value, config) => ({
      shape,
      library,
      runtime,
      config: { executions: count, ...config },
      metric,
      unit,
      median: value,
      min: value,
      max: value,
      stddev: 0,
      trials: 1,
    });
    const one = begin(library, runtime, url);
    const proxy = await countingProxy(url);
    const counted = begin(library, runtime, proxy.url);
    try {
      if (!(await one.ask({ hello: true })).shapes.includes(shape)) continue;
      const ask = (contestant) =>
        shapes[shape].table
          ? truth.filled(contestant, shapes[shape].table, count, { shape, times: count })
          : contestant.ask({ shape, times: count });
      const { idle, peak } = await peakOf(one.pid, () => ask(one));
      rows.push(single("peak_rss_mib", "MiB", peak, { idle_rss_mib: Math.round(idle) }));
      await counted.ask({ hello: true });
      for (const execution of ["first", "known"]) {
        proxy.take();
        await ask(counted);
        const { writes, round_trips, sent, received } = proxy.take();
        rows.push(
          single("wire_bytes", "B", sent + received, { execution, sent, received }),
          single("writes", "", writes, { execution }),
          single("round_trips", "", round_trips, { execution }),
        );
      }
    } finally {
      await Promise.all([one.stop(), counted.stop()]);
      proxy.close();
    }
  }
  return rows;
}
