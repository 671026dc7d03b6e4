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
import pg from "pg";
import { command, goProgram } from "../lib/runtimes.mjs";
import { compareCpu, compareSpeed, interleaved, resultRows } from "../lib/trials.mjs";
import { CLIENT_CPU, pin, SERVER_CPU, start } from "../lib/worker.mjs";
import { asText, shapes, tables } from "./content.mjs";
import { startPsql } from "./psql.mjs";

const libraries = [
  ["pgz-edge", "node"],
  ["pg-copy-streams", "node"],
  ["postgres.js", "node"],
  ["bare", "node"],
  ["pgx", "native"],
  ["lib-pq", "native"],
];
const child = new URL("child.mjs", import.meta.url);
const key = (library, runtime) => `${library} on ${runtime}`;
const OF_PSQL = 0.95;
const WALL_RATIO = 1.1;

export async function run({ server, option }) {
  if (!server.own)
    throw new Error("CASE=copy fills tables, and DATABASE_URL is a server that is left as it is: run it without");
  const size = Number(option("ROWS") ?? 50_000);
  const trials = Number(option("TRIALS") ?? 5);
  const wanted = option("SHAPES")?.split(",") ?? Object.keys(shapes);
  const split = option("PIN") !== "one";
  const native = goProgram("batch/native", "native");
  const url = `${server.appUrl.split("?")[0]}?sslmode=disable`;
  pin(server.pid, split ? SERVER_CPU : CLIENT_CPU); // backends inherit it
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-bench-"));
  const store = await Store.open(server, folder, size);
  const running = [];
  const result = { rows: [], failures: [] };
  try {
    for (const [library, runtime] of libraries) {
      const words = runtime === "native" ? [...native, library, url] : command(runtime, child, library, url);
      running.push({ key: key(library, runtime), library, runtime, ...start(key(library, runtime), words) });
    }
    running.push(await startPsql(url));
    for (const one of running) one.shapes = (await one.ask({ hello: true })).shapes;
    for (const shape of wanted) {
      const able = running.filter((one) => one.shapes.includes(shape));
      if (!able.some(({ library }) => library === "pgz-edge")) console.log(`${shape}: pgz-edge has not got it yet`);
      const { samples, bytes } = await (shapes[shape].from ? into : out)(able, shape, store, trials);
      const config = {
        rows: store.rows(shapes[shape].table),
        cpus: split ? "client and server one each" : "client and server on one",
      };
      for (const one of able)
        result.rows.push(...figures(one, shape, { ...config, ...(bytes && { bytes }) }, samples.get(one.key)));
      result.failures.push(...targets(samples, shape));
    }
    return result;
  } finally {
    await Promise.all(running.map((one) => one.stop()));
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function into(contestants, shape, store, trials) {
  const { table } = shapes[shape];
  const request = { shape, times: store.rows(table), file: store.file(shape) };
  const stored = contestants.map((one) => ({
    ...one,
    ask: (asked) => (asked.idle ? one.ask(asked) : store.filled(one, table, asked)),
  }));
  const verify = ({ key }, { rows }) => {
    if (rows !== undefined && rows !== request.times)
      throw new Error(`${key}, ${shape}: ${rows} rows reported instead of ${request.times}`);
  };
  return { samples: await interleaved(stored, request, trials, verify), bytes: store.bytes(table) };
}

async function out(contestants, shape, store, trials) {
  const request = { shape, times: store.rows(shapes[shape].table) };
  const hashes = new Set();
  for (const { library, runtime, ask } of contestants)
    if (runtime === "node" && library !== "bare") hashes.add((await ask({ ...request, check: true })).sha256);
  if (hashes.size > 1) throw new Error(`${shape}: not the same bytes from all libraries`);
  let expected;
  const samples = await interleaved(contestants, request, trials, ({ key, library }, { bytes, rows }) => {
    if (rows !== undefined && rows !== request.times)
      throw new Error(`${key}, ${shape}: ${rows} rows instead of ${request.times}`);
    if (bytes === undefined || library === "bare") return; // bare throws on its own
    expected ??= bytes;
    if (bytes !== expected) throw new Error(`${key}, ${shape}: ${bytes} bytes where others have ${expected}`);
  });
  return { samples, bytes: expected };
}

/** The tables with their expected content, and the files. */
class Store {
  static async open(server, folder, size) {
    const store = new Store();
    store.folder = folder;
    store.size = size;
    store.client = new pg.Client({ connectionString: server.appUrl });
    store.superuser = new pg.Client({ connectionString: server.superuserUrl });
    await store.client.connect();
    await store.superuser.connect();
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

function figures(contestant, shape, config, samples) {
  return resultRows(contestant, shape, config, samples, {
    wall_ms: ["ms", ({ wall }) => wall],
    cpu_ms: ["ms", ({ cpu }) => cpu],
    rows_per_s: ["rows/s", ({ wall }) => (config.rows * 1000) / wall],
    ...(config.bytes && { mb_per_s: ["MB/s", ({ wall }) => config.bytes / 1000 / wall] }),
  });
}

function targets(samples, shape) {
  const ours = key("pgz-edge", "node");
  const { from, table } = shapes[shape];
  const compare = (library, runtime, wanted) =>
    compareSpeed(samples, shape, ours, library, [key(library, runtime)], ({ wall }) => wall, wanted);
  const failures = [
    ...compare("psql", "native", from === "bytes" && table !== "3col" ? OF_PSQL : undefined),
    ...compare("pgx", "native", from === "rows" ? 1 : undefined),
    ...compare("lib-pq", "native"),
    ...compare("pg-copy-streams", "node"),
    ...compare("postgres.js", "node"),
  ];
  if (from) return failures;
  return [
    ...failures,
    ...compare("bare", "node", 1 / WALL_RATIO),
    ...compareCpu(samples, shape, ours, "pg-copy-streams", [key("pg-copy-streams", "node")], 1),
  ];
}
