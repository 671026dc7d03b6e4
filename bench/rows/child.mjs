// One library as source of JavaScript objects: `child.mjs <library> <url>`. Each request runs a query, counts its rows
// and sums one column; `check` converts every row to the form of to_json and hashes it.
//
// A source is `open(url)` -> `(sql, take) => …`. `take` gets arrays of rows, all at once or as they arrive, and keeps
// none.
import process from "node:process";
import { canonicalHash } from "../lib/content.mjs";
import { runtimeVersion, serve, timed } from "../lib/child.mjs";

const BATCH = 10_000;
const build = globalThis.Bun ? "bun" : globalThis.Deno ? "deno" : "node";

const sources = {
  async "pgz-edge query"(url) {
    const { connect } = await import(`../../dist/${build}.js`);
    const client = await connect(url);
    return async (sql, take) => take((await client.query(sql)).rows);
  },
  async "pgz-edge rows"(url) {
    const { connect } = await import(`../../dist/${build}.js`);
    const client = await connect(url);
    if (typeof client.rows !== "function") return undefined;
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
    const { default: pg } = await import("pg");
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    return async (sql, take) => take((await client.query(sql)).rows);
  },
  async "bun.sql"(url) {
    const sql = new globalThis.Bun.SQL(url, { max: 1 });
    return async (text, take) => take(await sql.unsafe(text));
  },
};

async function postgresJs(url) {
  const { default: postgres } = await import("postgres");
  return postgres(url, { max: 1, max_lifetime: null, idle_timeout: 0 });
}

const [library, url] = process.argv.slice(2);
const source = await sources[library](url);

serve(async ({ hello, sql, check }) => {
  if (hello) return { available: source !== undefined, version: runtimeVersion() };
  let rows = 0;
  let sum = 0;
  const lines = [];
  const take = (batch) => {
    rows += batch.length;
    for (const row of batch) sum += row.id;
    if (check) for (const row of batch) lines.push(JSON.stringify(row, plain));
  };
  if (!check) return { ...(await timed(() => source(sql, take))), rows, sum };
  await source(sql, take);
  return { rows, sum, canonical: canonicalHash(lines) };
});

/** Converts typed arrays to arrays. */
const plain = (_, value) => (ArrayBuffer.isView(value) ? Array.from(value) : value);
