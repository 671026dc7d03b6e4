// Each library, used in its own idiom: `open(url)` -> `{ setup, count, rows, … }`. A read is `(times) => …` and returns
// the facts that the case compares. An insert is `(rows) => …`, where `rows` were made before. A shape that a library
// does not support is missing.
import { sha256 } from "../lib/child.mjs";
import { pgClient, postgresJs } from "../lib/connect.mjs";
import { textRows, typedRow } from "../lib/data.mjs";
import { connectPgz, runBatch, sqlTag } from "../lib/pgz-edge.mjs";
import { setup, simpleText } from "../query/shapes.mjs";
import { shapes } from "./shapes.mjs";

const limit = (index) => (index % 10) + 1;
const each = (times, one) => Array.from({ length: times }, (_, index) => one(index));

/** Reads every value. */
function facts(results) {
  const found = { rows: 0, sum: 0, letters: 0 };
  for (const rows of results) {
    for (const { id, name } of rows) {
      found.rows++;
      found.sum += id;
      found.letters += name.length;
    }
  }
  return found;
}

function* chunks(rows, size) {
  for (let from = 0; from < rows.length; from += size) yield rows.slice(from, from + size);
}

const COLUMNS = "$1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16";

const libraries = {
  async "pgz-edge"(url) {
    const client = await connectPgz(url);
    const sql = await sqlTag();
    const list = (times) => each(times, (index) => sql`SELECT id, name FROM harbors LIMIT ${limit(index)}`);
    const insert = ([id, name, score]) =>
      sql`INSERT INTO bench_write (id, name, score) VALUES (${id}, ${name}, ${score})`;
    const wide = (values) => ({ text: `INSERT INTO bench_wide VALUES (${COLUMNS})`, values });
    const one = async (rows) => {
      for (const row of rows) await client.exec(insert(row));
    };
    const pipelined = (size) => (rows) =>
      client.transaction(async (tx) => {
        for (const some of chunks(rows, size)) await runBatch(tx, some.map(wide), { atomic: true, form: "count" });
      });
    return {
      setup: (text) => client.simple(text),
      count: async (times) => ({
        rows: (await runBatch(client, list(times), { atomic: true, form: "count" })).reduce(
          (sum, { rowCount }) => sum + rowCount,
          0,
        ),
      }),
      rows: async (times) =>
        facts((await runBatch(client, list(times), { atomic: true, form: "rows" })).map(({ rows }) => rows)),
      ndjson: async (times, keep) => {
        const results = await runBatch(client, list(times), { atomic: true, form: "ndjson" });
        const found = { rows: 0, bytes: 0 };
        for (const { rowCount, bytes } of results) {
          found.rows += rowCount;
          found.bytes += bytes.length;
        }
        return keep ? { ...found, lines: results.map(({ bytes }) => Buffer.from(bytes).toString()).join("") } : found;
      },
      async simple(times) {
        const results = [];
        for (let index = 0; index < times; index++) results.push((await client.simple(simpleText))[0].rows);
        return facts(results);
      },
      inserts_batch_100: async (rows) => {
        for (const some of chunks(rows, 100)) await runBatch(client, some.map(insert), { atomic: true, form: "count" });
      },
      insert_exec: one,
      async insert_prepared(rows) {
        const statement = await client.prepare("INSERT INTO bench_write (id, name, score) VALUES ($1, $2, $3)");
        for (const row of rows) await statement.exec(row);
        statement.close();
      },
      insert_tx: (rows) =>
        client.transaction(async (tx) => {
          for (const row of rows) await tx.exec(insert(row));
        }),
      insert_serial: (rows) =>
        client.transaction(async (tx) => {
          for (const row of rows) await tx.exec(wide(row));
        }),
      insert_pipelined_100: pipelined(100),
      insert_pipelined_1000: pipelined(1_000),
    };
  },

  async "postgres.js"(url) {
    const pool = await postgresJs(url, { fetch_types: false, max_pipeline: 20_000, onnotice: () => {} });
    await pool`select 1`;
    const insert = (sql, [id, name, score]) =>
      sql`INSERT INTO bench_write (id, name, score) VALUES (${id}, ${name}, ${score})`;
    const wide = (sql, values) => sql.unsafe(`INSERT INTO bench_wide VALUES (${COLUMNS})`, values, { prepare: true });
    const one = async (rows) => {
      for (const row of rows) await insert(pool, row);
    };
    const pipelined = (size) => (rows) =>
      pool.begin(async (tx) => {
        for (const some of chunks(rows, size)) await Promise.all(some.map((row) => wide(tx, row)));
      });
    return {
      setup: (text) => pool.unsafe(text),
      rows: (times) =>
        pool.begin(async (tx) =>
          facts(await Promise.all(each(times, (index) => tx`SELECT id, name FROM harbors LIMIT ${limit(index)}`))),
        ),
      inserts_batch_100: async (rows) => {
        for (const some of chunks(rows, 100)) await pool.begin((tx) => Promise.all(some.map((row) => insert(tx, row))));
      },
      // postgres.js prepares every tagged query, so these two are the same.
      insert_exec: one,
      insert_prepared: one,
      insert_tx: (rows) =>
        pool.begin(async (tx) => {
          for (const row of rows) await insert(tx, row);
        }),
      insert_serial: (rows) =>
        pool.begin(async (tx) => {
          for (const row of rows) await wide(tx, row);
        }),
      insert_pipelined_100: pipelined(100),
      insert_pipelined_1000: pipelined(1_000),
    };
  },

  /** pg waits for each answer before it sends the next query, so its batches are serial. */
  async pg(url) {
    const client = await pgClient(url);
    const insert = (values, name) =>
      client.query({ name, text: "INSERT INTO bench_write (id, name, score) VALUES ($1, $2, $3)", values });
    const wide = (values) => client.query({ name: "wide", text: `INSERT INTO bench_wide VALUES (${COLUMNS})`, values });
    const within = async (rows, one) => {
      await client.query("begin");
      for (const row of rows) await one(row);
      await client.query("commit");
    };
    return {
      setup: (text) => client.query(text),
      async rows(times) {
        const results = [];
        for (let index = 0; index < times; index++) {
          results.push(
            (
              await client.query({
                name: "harbors",
                text: "SELECT id, name FROM harbors LIMIT $1",
                values: [limit(index)],
              })
            ).rows,
          );
        }
        return facts(results);
      },
      inserts_batch_100: async (rows) => {
        for (const some of chunks(rows, 100)) await within(some, (row) => insert(row, "insert"));
      },
      insert_exec: async (rows) => {
        for (const row of rows) await insert(row);
      },
      insert_prepared: async (rows) => {
        for (const row of rows) await insert(row, "insert");
      },
      insert_tx: (rows) => within(rows, (row) => insert(row, "insert")),
      insert_serial: (rows) => within(rows, wide),
    };
  },

  async "bun.sql"(url) {
    const pool = new globalThis.Bun.SQL(url, { max: 1, idleTimeout: 0, maxLifetime: 0 });
    const insert = (sql, [id, name, score]) =>
      sql`INSERT INTO bench_write (id, name, score) VALUES (${id}, ${name}, ${score})`;
    return {
      setup: (text) => pool.unsafe(text),
      rows: (times) =>
        pool.begin(async (tx) =>
          facts(await Promise.all(each(times, (index) => tx`SELECT id, name FROM harbors LIMIT ${limit(index)}`))),
        ),
      inserts_batch_100: async (rows) => {
        for (const some of chunks(rows, 100)) await pool.begin((tx) => Promise.all(some.map((row) => insert(tx, row))));
      },
      insert_tx: (rows) =>
        pool.begin(async (tx) => {
          for (const row of rows) await insert(tx, row);
        }),
    };
  },
};

export async function open(library, url) {
  const calls = await libraries[library](url);
  for (const text of setup) await calls.setup(text);
  let made = [];
  return {
    shapes: Object.keys(shapes).filter((name) => calls[name]),
    clean: false,
    /** Makes the rows of an insert. */
    prepare({ shape, times }) {
      const { table } = shapes[shape];
      const key = `${table} ${times}`;
      if (!table || made.key === key) return made;
      const rows = table === "bench_wide" ? textRows(times, 16, 32) : each(times, typedRow);
      return (made = Object.assign(rows, { key }));
    },
    run: async ({ shape, times }, rows) =>
      shapes[shape].table ? void (await calls[shape](rows)) : calls[shape](times),
    check: async ({ shape, times }) => ({ sha256: sha256((await calls[shape](times, true)).lines) }),
  };
}
