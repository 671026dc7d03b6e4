// CASE=copy: COPY in both directions. In: seed 003's two shapes (16 columns of 32 letters, 3 of 8, cells are strings)
// from bytes and from rows, and pgz's 100,000 rows of (int4, text, float8) in binary and CSV. Out: the same shapes.
// Against psql's \copy, pg-copy-streams, postgres.js, pgx, lib/pq and, for COPY out, a bare socket that drops the same
// messages. lib/pq has no CSV: its figure there is that of its rows as text.
//
// A reference table is filled once and compared with the expected content, cell by cell by an md5. After each COPY in,
// count and hash of the server's whole table must equal the reference's. COPY out must give the same number of bytes
// each time, and the same hash in all libraries. Tables are made, so a server that is not ours (DATABASE_URL) is
// refused and left unchanged.
//
//   ROWS of 16 columns (five times as many of 3, twice as many typed ones), TRIALS, PIN=one|split     how much, where
//   SHAPES                                                                                            which
import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pgClient } from "../lib/connect.mjs";
import { goal } from "../lib/harness.mjs";
import { goProgram } from "../lib/runtimes.mjs";
import { asText, shapes, tables } from "./content.mjs";
import { startPsql } from "./psql.mjs";

const OF_PSQL = 0.95;
const WALL_RATIO = 1.1;

export default {
  numbers: { ROWS: 50_000, TRIALS: 5 },
  shapes: Object.keys(shapes),
  start: {
    native: (library, url) =>
      library === "psql" ? startPsql(url) : [...goProgram("batch/native", "native"), library, url],
  },
  fillsServer: true,

  async fill({ server, ROWS }) {
    const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-bench-"));
    const store = await Store.open(server, folder, ROWS);
    const close = async () => {
      await store.close();
      rmSync(folder, { recursive: true, force: true });
    };
    return { store, close };
  },

  run(shape, { store, cpus }) {
    const { table, from } = shapes[shape];
    const rows = store.rows(table);
    return {
      config: { rows, cpus, bytes: from ? store.bytes(table) : undefined },
      request: { shape, times: rows, file: store.file(shape) },
    };
  },

  ask({ key, ask }, request, { shape }, { store }) {
    const { from, table } = shapes[shape];
    return from ? store.filled({ key, ask }, table, request) : ask(request);
  },

  /** All libraries must get the same bytes of a COPY out. */
  async before(contestants, { shape, request }) {
    if (shapes[shape].from) return;
    const hashes = new Set();
    for (const { library, runtime, ask } of contestants)
      if (runtime === "node" && library !== "bare") hashes.add((await ask({ ...request, check: true })).sha256);
    if (hashes.size > 1) throw new Error(`${shape}: not the same bytes from all libraries`);
  },

  check({ rows, bytes }, { shape, config }, { library }) {
    if (rows !== undefined && rows !== config.rows) throw new Error(`${rows} rows instead of ${config.rows}`);
    if (shapes[shape].from || bytes === undefined || library === "bare") return; // bare throws on its own
    config.bytes ??= bytes;
    if (bytes !== config.bytes) throw new Error(`${bytes} bytes where others have ${config.bytes}`);
  },

  metrics: {
    wall_ms: ["ms", ({ wall }) => wall],
    cpu_ms: ["ms", ({ cpu }) => cpu],
    rows_per_s: ["rows/s", ({ wall, config }) => (config.rows * 1000) / wall],
    mb_per_s: ["MB/s", ({ wall, config }) => config.bytes / 1000 / wall],
  },

  goals({ shape }) {
    const { from, table } = shapes[shape];
    return [
      goal("psql on native", from === "bytes" && table !== "3col" ? OF_PSQL : undefined),
      goal("pgx on native", from === "rows" ? 1 : undefined),
      ...["lib-pq on native", "pg-copy-streams on node", "postgres.js on node"].map((peer) => goal(peer)),
      ...(from ? [] : [goal("bare on node", 1 / WALL_RATIO), goal("pg-copy-streams on node", 1, { by: "cpu" })]),
    ];
  },
};

/** The tables with their expected content, and the files. */
class Store {
  static async open(server, folder, size) {
    const store = new Store();
    store.folder = folder;
    store.size = size;
    store.client = await pgClient(server.appUrl);
    store.superuser = await pgClient(server.superuserUrl);
    await store.#drop();
    store.truth = {};
    for (const [name, { columns, types, rows }] of Object.entries(tables))
      await store.#fill(name, columns, types, rows(store.rows(name)));
    return store;
  }

  rows = (table) => Math.ceil(this.size * tables[table].share);
  file = (shape) => (shapes[shape].from === "bytes" ? path.join(this.folder, shapes[shape].table) : undefined);
  bytes = (table) => this.truth[table].bytes;

  async #fill(name, columns, types, rows) {
    const separator = name === "3col" ? "," : "\t";
    const text = asText(rows, separator);
    writeFileSync(path.join(this.folder, name), text);
    const definition = columns.map((column, index) => `${column} ${types[index]}`).join(", ");
    await this.client.query(`create table bench_${name} (${definition})`);
    await this.client.query(`create table bench_out_${name} (place serial, ${definition})`);
    const columnsOf = (from) => rows.slice(from, from + 5_000);
    for (let from = 0; from < rows.length; from += 5_000) {
      const some = columnsOf(from);
      const arrays = columns.map((_, index) => some.map((row) => row[index]));
      const lists = types.map((type, index) => `$${index + 1}::${type}[]`);
      await this.client.query(`insert into bench_out_${name} (${columns}) select * from unnest(${lists})`, arrays);
    }
    const {
      rows: [{ md5 }],
    } = await this.client.query(
      `select md5(string_agg(concat_ws('${separator}', ${columns}) || E'\\n', '' order by place)) as md5
       from bench_out_${name}`,
    );
    if (md5 !== createHash("md5").update(text).digest("hex"))
      throw new Error(`bench_out_${name} is not what it should be`);
    await this.client.query(`alter table bench_out_${name} drop column place`);
    await this.client.query(`vacuum full bench_out_${name}`);
    await this.client.query(`analyze bench_out_${name}`);
    this.truth[name] = { ...(await this.#summary(`bench_out_${name}`)), bytes: Buffer.byteLength(text) };
  }

  async #summary(table) {
    const { rows } = await this.client.query(
      `select count(*)::int as rows, sum(hashtextextended(t::text, 0)::numeric)::text as hash from ${table} t`,
    );
    return rows[0];
  }

  /** Runs a COPY into an empty table and compares the table's whole content. */
  async filled({ key, ask }, table, request) {
    await this.client.query(`truncate bench_${table}`);
    await this.superuser.query("checkpoint");
    const got = await ask(request);
    const { rows, hash } = await this.#summary(`bench_${table}`);
    const truth = this.truth[table];
    if (rows !== truth.rows || hash !== truth.hash)
      throw new Error(
        `${key}, ${request.shape}: the table has ${rows} rows with hash ${hash} ` +
          `instead of ${truth.rows} with ${truth.hash}`,
      );
    return got;
  }

  async #drop() {
    await this.client.query(
      `drop table if exists ${Object.keys(tables)
        .flatMap((name) => [`bench_${name}`, `bench_out_${name}`])
        .join(", ")}`,
    );
  }

  async close() {
    await this.#drop();
    await Promise.all([this.client.end(), this.superuser.end()]);
  }
}
