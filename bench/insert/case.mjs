// CASE=insert: ways to store rows that JavaScript has, by this driver: `unnest`, `sql.values`, `batch` and
// `copyFromRows`, at 10 to 10,000 rows for each statement. The docs say by it from how many rows on each pays.
//
// Each trial stores ROWS rows of (int4, text, float8), in statements of as many rows as the shape has, each a
// transaction of its own. Then the table's whole content is compared. Tables are made, so a server that is not ours
// (DATABASE_URL) is refused and left unchanged.
//
//   ROWS of a trial, TRIALS, PIN=one|split     how much, where
//   SHAPES                                     which
import { pgClient } from "../lib/connect.mjs";

/** Shape -> rows of a statement. */
const sizes = { rows_10: 10, rows_100: 100, rows_1000: 1_000, rows_10000: 10_000 };

/** What the server says of a whole table. typedRow of lib/data.mjs makes its rows. */
const CONTENT = "select count(*)::int as rows, md5(string_agg(t::text, ',' order by id)) as md5 from";
const MADE = "(select n as id, 'name-' || n as name, n / 4.0::float8 as score from generate_series(0, $1 - 1) n) t";

export default {
  numbers: { ROWS: 20_000, TRIALS: 7 },
  shapes: Object.keys(sizes),
  fillsServer: true,

  async fill({ server, ROWS }) {
    const client = await pgClient(server.appUrl);
    await client.query("drop table if exists bench_insert");
    await client.query("create table bench_insert (id int4, name text, score float8)");
    const wanted = (await client.query(`${CONTENT} ${MADE}`, [ROWS])).rows[0];
    const close = async () => {
      await client.query("drop table bench_insert");
      await client.end();
    };
    return { client, wanted, close };
  },

  run: (shape, { ROWS, cpus }) => ({
    config: { rows: ROWS, rows_per_statement: sizes[shape], cpus },
    request: { shape, rows: ROWS, size: sizes[shape] },
  }),

  async ask({ key, ask }, request, { shape }, { client, wanted }) {
    await client.query("truncate bench_insert");
    const answer = await ask(request);
    const { rows, md5 } = (await client.query(`${CONTENT} bench_insert t`)).rows[0];
    if (rows !== wanted.rows || md5 !== wanted.md5)
      throw new Error(`${key}, ${shape}: the table has ${rows} rows with md5 ${md5}, instead of ${wanted.md5}`);
    return answer;
  },

  warm: () => [{}, {}],
  check() {}, // `ask` has compared the table

  metrics: {
    cpu_us_per_row: ["us", ({ cpu, config }) => (cpu * 1_000) / config.rows],
    wall_us_per_row: ["us", ({ wall, config }) => (wall * 1_000) / config.rows],
  },
};
