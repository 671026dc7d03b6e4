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
import { pgClient } from "../lib/connect.mjs";
import { delayingProxy } from "../lib/delaying-proxy.mjs";
import { textRows, typedRow } from "../lib/data.mjs";
import { goal } from "../lib/harness.mjs";
import { peakOf } from "../lib/memory.mjs";
import { goProgram } from "../lib/runtimes.mjs";
import { resultRows } from "../lib/trials.mjs";
import { ndjson, shapes } from "./shapes.mjs";

const OVER_POSTGRES_JS = 4;
const OVER_SERIAL = 5;
const OVER_SIMPLE = 2;
/** Runs before the warm-up round: V8 optimises the code of many small calls only after thousands of them. */
const WARM = 3;

const executions = (shape, times) => Math.ceil(times * (shapes[shape].share ?? 1));

export default {
  numbers: { ROWS: 10_000, TRIALS: 5 },
  shapes: Object.keys(shapes),
  start: { native: (library, url) => [...goProgram("batch/native", "native"), library, url] },
  fillsServer: true,
  idle: 0,

  async fill({ server }) {
    const truth = await Tables.create(server);
    return { truth, close: () => truth.drop() };
  },

  run(shape, { ROWS, cpus }) {
    const count = executions(shape, ROWS);
    return { config: { executions: count, cpus }, request: { shape, times: count } };
  },

  ask({ key, ask }, request, { shape }, { truth }) {
    const { table } = shapes[shape];
    return table ? truth.filled({ key, ask }, table, request.times, request) : ask(request);
  },

  async before(contestants, { shape, request }) {
    if (shape !== "ndjson") return;
    const wanted = createHash("sha256").update(ndjson(request.times)).digest("hex");
    for (const { key, ask } of contestants)
      if ((await ask({ ...request, check: true })).sha256 !== wanted)
        throw new Error(`${key}, ndjson: other lines than the table's`);
  },

  warm: () => Array(WARM).fill({}),

  check(got, { shape, request }) {
    const { facts } = shapes[shape];
    for (const [name, value] of Object.entries(facts?.(request.times) ?? {})) {
      if (got[name] !== undefined && Math.abs(got[name] - value) > 1e-6)
        throw new Error(`${name} ${got[name]} instead of ${value}`);
    }
    if (facts && got.rows === undefined) throw new Error("says nothing of its rows");
  },

  metrics: (one, samples, { shape }) => ({
    wall_ms: ["ms", ({ wall }) => wall],
    cpu_ms: ["ms", ({ cpu }) => cpu],
    [shapes[shape].table ? "rows_per_s" : "queries_per_s"]: [
      shapes[shape].table ? "rows/s" : "queries/s",
      ({ wall, config }) => (config.executions * 1000) / wall,
    ],
  }),

  goals({ shape }) {
    // Scales the time, because the two may not have run equally many executions.
    const by = ({ wall, config }) => wall / config.executions;
    const over = (peer, wanted, among, more) => goal(peer, wanted, { by, what: "wall time", among, ...more });
    if (shapes[shape].table)
      return [
        ...["pgx on native", "postgres.js on node", "pg on node"].map((peer) => over(peer)),
        ...(shape.startsWith("insert_pipelined") ? [over("pgz-edge on node", OVER_SERIAL, "insert_serial")] : []),
      ];
    if (shape === "simple") return [];
    return [
      over("postgres.js on node", OVER_POSTGRES_JS, "rows"),
      over("pg on node", undefined, "rows"),
      over("pgx on native", 1, shape === "count" ? "count" : "rows"),
      over("pgz-edge on node", OVER_SIMPLE, "simple"),
      ...(shape === "rows" ? [over("bun.sql on bun", undefined, "rows", { ours: "pgz-edge on bun" })] : []),
    ];
  },

  /**
   * Measures memory and wire of the reads and the first batch of inserts, each in a fresh process: the first run of the
   * process, then one through the proxy.
   */
  async more(context) {
    const rows = [];
    const apart = ["count", "rows", "ndjson", "inserts_batch_100"].filter((name) => context.shapes.includes(name));
    for (const [library, runtime] of context.all)
      for (const shape of apart) rows.push(...(await memoryAndWire(library, runtime, shape, context)));
    return rows;
  },
};

async function memoryAndWire(library, runtime, shape, { begin, url, truth, ROWS }) {
  const count = executions(shape, ROWS);
  const one = await begin(library, runtime);
  const proxy = await delayingProxy(url);
  const counted = await begin(library, runtime, proxy.url);
  const rows = [];
  const add = (config, sample, metrics) =>
    rows.push(...resultRows(one, shape, { executions: count, ...config }, [sample], metrics));
  try {
    if (!one.shapes.includes(shape)) return [];
    const { table } = shapes[shape];
    const request = { shape, times: count };
    const ask = (contestant) => (table ? truth.filled(contestant, table, count, request) : contestant.ask(request));
    const { idle, peak } = await peakOf(one.pid, () => ask(one));
    add({ idle_rss_mib: Math.round(idle) }, peak, { peak_rss_mib: ["MiB", (mib) => mib] });
    for (const execution of ["first", "known"]) {
      proxy.take();
      await ask(counted);
      const taken = proxy.take();
      const { sent, wire_bytes } = taken;
      add({ execution, sent, received: wire_bytes - sent }, wire_bytes, { wire_bytes: ["B", (bytes) => bytes] });
      add({ execution }, taken, { writes: ["", ({ writes }) => writes], round_trips: ["", ({ flights }) => flights] });
    }
    return rows;
  } finally {
    await Promise.all([one.stop(), counted.stop()]);
    proxy.close();
  }
}

/** The tables that inserts fill, and their expected content. */
class Tables {
  static async create(server) {
    const tables = new Tables();
    tables.client = await pgClient(server.appUrl);
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
