// COPY of rows: values are sent as binary rows, and read back as values.
import type { Cases } from "../context.ts";
import { pause, until } from "../../support/until.mjs";
import { newSchema, series, slowly } from "./helpers.ts";
import { newTarget, stored } from "./tables.ts";

export const copyRows: Cases = {
  "rows are stored in binary by their columns' types, or as text where a type has no binary form here": {
    differs: ["text", "engine"],
    async run(t) {
      const [client, schema] = await newSchema(t);
      const { sql } = t.pgz;
      await client.simple(`create type ${schema}.mood as enum ('sad', 'happy');
          create table ${schema}.wide (b bool, i2 int2, i4 int4, i8 int8, f float8, m numeric, s text, d date,
            ts timestamptz, u uuid, by bytea, j jsonb, a int4[], mood ${schema}.mood);
          create table ${schema}.other (n int4, r int4range, i interval, net inet, ta text[])`);
      const wide = sql.identifier(schema, "wide");
      const columns = ["b", "i2", "i4", "i8", "f", "m", "s", "d", "ts", "u", "by", "j", "a", "mood"];
      const row = [
        true,
        -2,
        70_000,
        2n ** 62n,
        0.1,
        "12345678901234567890.125",
        "tab\tline\nback\\ü€𝄞",
        "2024-02-29",
        new Date(86_400_123),
        "00000000-0000-0000-0000-00000000000a",
        Uint8Array.of(0, 255),
        { a: [1, null] },
        [
          [1, null],
          [3, 4],
        ],
        "happy",
      ];
      const nulls = row.map(() => null);
      t.assert.deepEqual(
        await client.copyFromRows(wide, columns, [
          row,
          nulls,
          Object.fromEntries(columns.map((name, at) => [name, row[at]])),
        ]),
        { command: "COPY", rowCount: 3 },
      );
      await client.exec(sql`insert into ${wide} ${sql.values([row])}`);
      const [distinct] = (
        await client.query<{ n: number; all: number }>(
          `select count(distinct w::text)::int4 as n, count(*)::int4 as "all" from ${schema}.wide w`,
        )
      ).rows;
      t.assert.deepEqual(distinct, { n: 2, all: 4 });
      const other = [
        { n: 1, r: "[1,5)", i: "1 day 02:00:00", net: "10.0.0.0/8", ta: ["a\tb", null, 'c\\n"d'] },
        { n: 2, r: null, i: null, net: null, ta: null },
      ];
      await client.copyFromRows(sql.identifier(schema, "other"), ["n", "r", "i", "net", "ta"], slowly(...other));
      await t.assert.rows(
        client.query(`select n, r::text, i::text, net::text, ta from ${schema}.other order by n`),
        other,
      );
      t.assert.equal((await client.copyFromRows(wide, ["s"], [])).rowCount, 0);
    },
  },
  async "a row that cannot be stored ends the COPY, is named in the error, and nothing is stored"(t) {
    const [client, table] = await newTarget(t);
    const into = t.pgz.sql.unsafe(table);
    const good = [1, "a"];
    const wrong: [rows: unknown[], error: Record<string, unknown>][] = [
      [[good, [2 ** 31, "b"]], { code: "PARAMETER_OUT_OF_RANGE", row: 1 }],
      [[good, ["x", "b"]], { code: "INVALID_PARAMETER", row: 1 }],
      [[[1, "a\0"]], { code: "INVALID_PARAMETER", row: 0 }],
      [[good, [2]], { code: "INVALID_PARAMETER" }],
      [[{ n: 1 }], { code: "INVALID_PARAMETER" }],
      [[[undefined, "a"]], { code: "INVALID_PARAMETER" }],
    ];
    for (const [rows, error] of wrong)
      await t.assert.rejects(client.copyFromRows(into, ["n", "t"], rows as never), error);
    await t.assert.code(client.copyFromRows(into, [], [[]]), "INVALID_QUERY");
    await t.assert.code(client.copyFromRows(into, ["nowhere"], [[1]]), "42703");
    await t.assert.code(client.copyFromRows("no table", ["n"], [[1]]), "42P01");
    t.assert.deepEqual(await stored(client, table), []);
    t.assert.equal(
      await client
        .copyFromRows(
          into,
          ["n", "t"],
          Array.from({ length: 20_000 }, (_, n) => [n, `row ${n}`]),
        )
        .then(({ rowCount }) => rowCount),
      20_000,
    );
  },
  async "copyToRows gives what rows gives, for every type that is read in binary"(t) {
    const client = await t.client();
    await client.simple("create type pg_temp.copied_mood as enum ('sad')");
    const query =
      "select n, n::int8 as big, n / 7.0 as m, 't' || n as t, " +
      "'sad'::pg_temp.copied_mood as e, array['sad'::pg_temp.copied_mood] as es, " +
      "now()::date - n as d, array[n, null] as a, jsonb_build_object('n', n) as j, row(n, 'x') as r " +
      "from generate_series(1, 3000) n -- all\n; -- done";
    const collect = async (rows: AsyncIterable<unknown>) => {
      const all = [];
      for await (const row of rows) all.push(row);
      return all;
    };
    const [copied, selected] = [await collect(client.copyToRows(query)), await collect(client.rows(query))];
    t.assert.equal(copied.length, 3_000);
    t.assert.deepEqual(copied, selected);
    const batches = await collect(
      client.copyToRows("select n from generate_series(1, 25) n", { rowMode: "array" }).batches(10),
    );
    t.assert.equal(batches.map((batch) => (batch as unknown[]).length).join(), "10,10,5");
    const capped = client.copyToRows("select n from generate_series(1, 25) n", { maxRows: 24 });
    await t.assert.code(collect(capped), "RESPONSE_TOO_LARGE");
    await t.assert.code(collect(client.copyToRows("select to_tsvector('a') as v")), "INVALID_QUERY");
    await t.assert.code(collect(client.copyToRows("select $1::int4")), "INVALID_QUERY");
    for await (const row of client.copyToRows(`select n from ${series(10_000_000, "n")}`)) {
      t.assert.deepEqual(row, { n: 1 });
      break;
    }
    await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
  },
  "the source is closed however its COPY ends: a bad row, a failing progress callback, a refused text, a missing table":
    {
      differs: ["streams"],
      async run(t) {
        const [client, table] = await newTarget(t);
        const into = t.pgz.sql.unsafe(table);
        let left = 0;
        const source = async function* <T>(...pieces: T[]) {
          try {
            for (const piece of pieces) {
              await pause(1);
              yield piece;
            }
            await new Promise(() => {});
          } finally {
            left++;
          }
        };
        await t.assert.rejects(client.copyFromRows(into, ["n", "t"], source([1, "a"], ["x", "b"])), {
          code: "INVALID_PARAMETER",
          row: 1,
        });
        await t.assert.rejects(client.copyFromRows(into, ["n", "t"], source([1, "a"], [2])), {
          code: "INVALID_PARAMETER",
          row: 1,
        });
        await t.assert.code(
          client.copyFrom(`copy ${table} from stdin`, source<unknown>("1\ta\n", 7) as never),
          "INVALID_PARAMETER",
        );
        const progress = async () => {
          await pause(1);
          throw new Error("no more");
        };
        await t.assert.code(
          client.copyFrom(`copy ${table} from stdin`, source("1\ta\n".repeat(20_000)), {
            onProgress: progress as never,
          }),
          "COPY_SOURCE_FAILED",
        );
        await until(() => left === 4);
        for (const text of ["copy nothing from stdin", `insert into ${table} values (1, 'x')`]) {
          let cancelled = 0;
          const stream = new ReadableStream<string>({ cancel: () => void cancelled++ });
          await t.assert.rejects(client.copyFrom(text, stream));
          await until(() => cancelled === 1);
        }
        // What was never read stays as it was: the next attempt finds its rows, and a request keeps its socket.
        const rows = (function* () {
          yield [1, "kept"];
        })();
        const stream = Object.assign(source("2\tkept\n"), { destroy: () => t.assert(false, "destroyed") });
        await t.assert.rejects(client.copyFromRows("nothing", ["n", "t"], rows));
        await t.assert.rejects(client.copyFrom("copy nothing from stdin", stream));
        t.assert.equal((await client.copyFromRows(into, ["n", "t"], rows)).rowCount, 1);
        await client.exec(`delete from ${table}`);
        await t.assert.rejects(
          client.copyFromRows(into, ["n", "t"], [Object.assign(new Array<unknown>(2), { 0: 1 })]),
          { code: "INVALID_PARAMETER", row: 0 },
        );
        t.assert.deepEqual(await stored(client, table), []);
      },
    },
};
