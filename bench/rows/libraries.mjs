// One library as source of JavaScript objects. Each request runs a query, counts its rows and sums one column; `check`
// converts every row to the form of to_json and hashes it.
//
// A source is `open(url)` -> `(sql, take) => …`. `take` gets arrays of rows, all at once or as they arrive, and keeps
// none.
import { pgClient, postgresJs } from "../lib/connect.mjs";
import { canonicalHash } from "../lib/content.mjs";
import { connectPgz } from "../lib/pgz-edge.mjs";

const BATCH = 10_000;

const sources = {
  async "pgz-edge query"(url) {
    const client = await connectPgz(url);
    return async (sql, take) => take((await client.query(sql)).rows);
  },
  async "pgz-edge rows"(url) {
    const client = await connectPgz(url);
    return async (sql, take) => {
      for await (const rows of client.rows(sql).batches(BATCH)) take(rows);
    };
  },
  async "postgres.js"(url) {
    const sql = await postgresJs(url);
    return async (text, take) => take(await sql.unsafe(text));
  },
  async "postgres.js cursor"(url) {
    const sql = await postgresJs(url);
    return (text, take) => sql.unsafe(text).cursor(BATCH, take);
  },
  async pg(url) {
    const client = await pgClient(url);
    return async (sql, take) => take((await client.query(sql)).rows);
  },
  async "bun.sql"(url) {
    const sql = new globalThis.Bun.SQL(url, { max: 1 });
    return async (text, take) => take(await sql.unsafe(text));
  },
};

/** Converts typed arrays to arrays. */
const plain = (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);

export async function open(library, url) {
  const source = await sources[library](url);
  const run = async ({ sql }, onRow = () => {}) => {
    const found = { rows: 0, sum: 0 };
    await source(sql, (batch) => {
      found.rows += batch.length;
      for (const row of batch) found.sum += row.id;
      onRow(batch);
    });
    return found;
  };
  const check = async (request) => {
    const lines = [];
    const found = await run(request, (batch) => {
      for (const row of batch) lines.push(JSON.stringify(row, plain));
    });
    return { ...found, canonical: canonicalHash(lines) };
  };
  return { run: (request) => run(request), check };
}
