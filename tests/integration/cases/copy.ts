// COPY both ways: every kind of source, back-pressure, ends that either side puts to it, values as binary rows, and
// limits.
import type { Client, CopySource } from "../../../js/index.ts";
import type { Case, Context } from "../context.ts";
import { eventually, newMark, pause, running, series, text, withClient, withSchema } from "./helpers.ts";

const encoder = new TextEncoder();

async function withTable(
  t: Context,
  work: (client: Client, table: string, schema: string) => Promise<void>,
): Promise<void> {
  await withSchema(t, async (client, schema) => {
    await client.exec(`create table ${schema}.target (n int4, t text)`);
    await work(client, `${schema}.target`, schema);
  });
}

const stored = async (client: Client, table: string) =>
  (await client.query<[number, string]>(`select n, t from ${table} order by n`, { rowMode: "array" })).rows;

async function* slowly<T>(...pieces: T[]) {
  for (const piece of pieces) {
    await pause(1);
    yield piece;
  }
}

export const copy: Case[] = [
  {
    name: "copyFrom takes text, bytes, blobs, streams and pieces of any size, in every format",
    run: (t) =>
      withTable(t, async (client, table) => {
        const data = "1\tone\n2\tü €𝄞\n3\t\\N\n";
        const bytes = encoder.encode(data);
        const sources: [string, CopySource][] = [
          ["text", data],
          ["bytes", bytes],
          ["a buffer", bytes.buffer],
          ["a view of a part", new DataView(encoder.encode(`xx${data}xx`).buffer, 2, bytes.length)],
          ["an array", [...data]],
          ["an array of bytes", [...bytes].map((byte) => Uint8Array.of(byte))],
          ["a set", new Set<string | Uint8Array>(["1\tone\n2\t", "ü €𝄞\n", encoder.encode("3\t\\N\n")])],
          ["a generator", slowly<string | Uint8Array>("1\tone\n2\t", encoder.encode("ü €𝄞\n3\t\\N"), "\n")],
          ["a blob", new Blob([data])],
          ["a stream", new Blob([data]).stream()],
          [
            "a stream of text",
            new ReadableStream<string>({
              start: (controller) => [...data].forEach((piece) => controller.enqueue(piece)) ?? controller.close(),
            }),
          ],
        ];
        for (const [name, source] of sources) {
          t.assert.deepEqual(
            await client.copyFrom(`copy ${table} from stdin`, source),
            { command: "COPY", rowCount: 3 },
            name,
          );
          t.assert.deepEqual(
            await stored(client, table),
            [
              [1, "one"],
              [2, "ü €𝄞"],
              [3, null],
            ] as never,
            name,
          );
          await client.exec(`delete from ${table}`);
        }
        await client.copyFrom(`copy ${table} from stdin (format csv, header)`, ['n,t\r\n1,"a\n', 'b"\r\n2,"c,"\r\n']);
        t.assert.deepEqual(await stored(client, table), [
          [1, "a\nb"],
          [2, "c,"],
        ]);
        const binary = new Uint8Array(
          await new Response(await client.copyTo(`copy ${table} to stdout (format binary)`)).arrayBuffer(),
        );
        await client.exec(`delete from ${table}`);
        t.assert.equal((await client.copyFrom(`copy ${table} from stdin (format binary)`, binary)).rowCount, 2);
        t.assert.deepEqual(await stored(client, table), [
          [1, "a\nb"],
          [2, "c,"],
        ]);
        t.assert.equal((await client.copyFrom(`copy ${table} from stdin`, [])).rowCount, 0);
        t.assert.equal((await client.copyFrom(`copy ${table} from stdin`, "")).rowCount, 0);
      }),
  },
  {
    name: "megabytes go both ways and are stored as they are, with progress told",
    run: (t) =>
      withTable(t, async (client, table) => {
        const lines = Array.from({ length: 40_000 }, (_, n) => `${n}\trow ${n} ${"é".repeat(n % 100)}\n`);
        const whole = encoder.encode(lines.join(""));
        const told: number[] = [];
        const { rowCount } = await client.copyFrom(`copy ${table} from stdin`, lines, {
          onProgress: ({ bytes }) => void told.push(bytes),
        });
        t.assert.equal(rowCount, lines.length);
        t.assert.equal(told.length > 10 && told.every((bytes, at) => !at || bytes >= told[at - 1]!), true);
        t.assert.equal(told.at(-1), whole.length);
        await client.copyFrom(`copy ${table} from stdin`, lines.join("").replaceAll("row", "again"));
        const [row] = (
          await client.query<{ n: number; sum: string }>(
            `select count(*)::int4 as n, md5(string_agg(t, '|' order by n, t)) as sum from ${table} where t like 'row%'`,
          )
        ).rows;
        const [expected] = (
          await client.query<{ sum: string }>(
            `select md5(string_agg('row ' || n || ' ' || repeat('é', n % 100), '|' order by n)) as sum from generate_series(0, 39999) n`,
          )
        ).rows;
        t.assert.deepEqual(row, { n: 40_000, sum: expected?.sum ?? "" });
        const out = await text(
          await client.copyTo(`copy (select n, t from ${table} where t like 'row%' order by n) to stdout`),
        );
        t.assert.equal(out === lines.join(""), true);
      }),
  },
  {
    name: "text that is cut within a character is refused, and nothing is stored",
    run: (t) =>
      withTable(t, async (client, table) => {
        for (const source of ["1\ta\ud83d\n", ["1\t\ud83d", "\ude00\n"], ["1\ta\n", "\udc00"]]) {
          await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, source), { code: "INVALID_PARAMETER" });
        }
        t.assert.deepEqual(await stored(client, table), []);
      }),
  },
  {
    name: "long texts of characters of any width go on wherever a piece ends",
    run: (t) =>
      withTable(t, async (client, table) => {
        for (const character of ["a", "é", "€", "😀"]) {
          for (const before of ["", "x", "xx", "xxx"]) {
            const line = `1\t${before}${character.repeat(40_000)}\n`;
            await client.copyFrom(`copy ${table} from stdin`, line + line);
          }
          const [row] = (
            await client.query<{ n: number }>(
              `select count(*)::int4 as n from ${table} where t ~ '^x{0,3}${character}+$' and length(ltrim(t, 'x')) = 40000`,
            )
          ).rows;
          t.assert.equal(row?.n, 8, character);
          await client.exec(`delete from ${table}`);
        }
      }),
  },
  {
    name: "a server's error while data are sent stops the source at once, names the line, and stores nothing",
    run: (t) =>
      withTable(t, async (client, table) => {
        let [given, left] = [0, false];
        const endless = async function* () {
          try {
            for (;;) yield given++ ? "1\tgood\n".repeat(1_000) : "x\tbad\n";
          } finally {
            left = true;
          }
        };
        await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, endless()), {
          name: "PostgresError",
          code: "22P02",
          where: 'COPY target, line 1, column n: "x"',
        });
        await pause(1);
        t.assert.equal(left, true);
        t.assert.equal(given < 20_000, true, `${given} pieces of 7 kB`);
        let cancelled = false;
        const waiting = new ReadableStream<string>({
          start: (controller) => controller.enqueue("x\tbad\n".repeat(20_000)),
          pull: () => new Promise(() => {}),
          cancel: () => void (cancelled = true),
        });
        await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, waiting), { code: "22P02" });
        await pause(1);
        t.assert.equal(cancelled, true);
        await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, "1\tone\n2\ttwo\tthree\n"), {
          code: "22P04",
          where: 'COPY target, line 2: "2\ttwo\tthree"',
        });
        t.assert.deepEqual(await stored(client, table), []);
      }),
  },
  {
    name: "a source that fails ends the COPY, and what it said stays here",
    run: (t) =>
      withTable(t, async (client, table) => {
        const broken = async function* () {
          yield "1\tone\n".repeat(30_000);
          await pause(1);
          throw new Error("the source's secret");
        };
        const error = await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, broken()), {
          code: "COPY_SOURCE_FAILED",
          name: "PgzError",
        });
        t.assert.equal((error.cause as Error).message, "the source's secret");
        t.assert.equal(/secret/.test(error.message), false);
        const errored = new ReadableStream<string>({ start: (controller) => controller.error(new Error("broken")) });
        await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, errored), { code: "COPY_SOURCE_FAILED" });
        await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, [1, 2] as never), {
          code: "INVALID_PARAMETER",
        });
        await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, 7 as never), { code: "INVALID_OPTION" });
        await t.assert.rejects(
          client.copyFrom(`copy ${table} from stdin`, "1\tone\n", {
            onProgress: () => {
              throw new Error("no more");
            },
          }),
          { code: "COPY_SOURCE_FAILED" },
        );
        t.assert.deepEqual(await stored(client, table), []);
      }),
  },
  {
    name: "an abort ends a COPY whose source gives nothing any more, and the server's session is free within a second",
    run: (t) =>
      withTable(t, async (client, table) => {
        const mark = newMark(t);
        const leaving = new AbortController();
        const silent = new ReadableStream<string>({
          start: (controller) => controller.enqueue("1\tone\n"),
          pull: () => new Promise(() => {}),
        });
        const rejected = t.assert.rejects(
          client.copyFrom(`copy ${table} from stdin /* ${mark} */`, silent, { signal: leaving.signal }),
          { code: "ABORTED" },
        );
        await eventually("it runs", 5_000, async () => (await running(t, mark)) > 0);
        leaving.abort();
        await rejected;
        await eventually("it is gone", 1_000, async () => (await running(t, mark)) === 0);
        t.assert.deepEqual(await stored(client, table), []);
        const out = await client.copyTo(`copy (select n from ${series(100_000_000, "n")} /* ${mark} */) to stdout`);
        const reader = out.getReader();
        await reader.read();
        await reader.cancel();
        await eventually("it is gone", 1_000, async () => (await running(t, mark)) === 0);
        t.assert.deepEqual((await client.query("select 1 as n")).rows, [{ n: 1 }]);
      }),
  },
  {
    name: "a text that is no such COPY is refused, and the connection is as it was",
    run: (t) =>
      withTable(t, async (client, table) => {
        const { sql } = t.pgz;
        const wrong = { code: "COPY_NEEDS_COPY_CALL" };
        for (const other of ["select 1", `copy ${table} to stdout`, "", "set application_name = 'x'"])
          await t.assert.rejects(client.copyFrom(other, "1\tone\n"), wrong);
        for (const other of ["select 1", `copy ${table} from stdin`, "", "select n from generate_series(1, 1000000) n"])
          await t.assert.rejects(client.copyTo(other), wrong);
        await t.assert.rejects(client.copyTo("copy nothing to stdout"), { code: "42P01" });
        await t.assert.rejects(client.copyFrom(sql`copy t from stdin where n = ${1}`, ""), { code: "INVALID_QUERY" });
        await t.assert.rejects(client.query(`copy ${table} from stdin`), wrong);
        t.assert.deepEqual((await client.query("select 1 as n")).rows, [{ n: 1 }]);
      }),
  },
  {
    name: "a text of several statements runs none of them, and a semicolon in quotes is no second one",
    run: (t) =>
      withTable(t, async (client, table) => {
        const several = [
          () => client.copyTo(`copy (select 1) to stdout; drop table ${table}`),
          () => client.copyFrom(`copy ${table} (n) from stdin; drop table ${table}`, "1\n"),
        ];
        for (const call of several) await t.assert.rejects(call(), { name: "PostgresError", code: "42601" });
        const others = [
          () => client.copyTo(`drop table ${table}; copy (select 1) to stdout`),
          () => client.copyFrom(`drop table ${table}; copy pg_class from stdin`, "1\n"),
        ];
        for (const call of others) await t.assert.rejects(call(), { code: "COPY_NEEDS_COPY_CALL" });
        t.assert.deepEqual((await client.query(`select n from ${table}`)).rows, []);
        const one = await client.copyTo("copy (select ';', 1 as \"a;b\") to stdout; -- the end");
        t.assert.equal(await new Response(one).text(), ";\t1\n");
        const copied = await client.copyFrom(`copy ${table} (n, t) from stdin (delimiter ';') ;`, "7;x\n");
        t.assert.equal(copied.rowCount, 1);
        const inTransaction = client.transaction((tx) => tx.copyTo("copy (select 1) to stdout; commit"));
        await t.assert.rejects(inTransaction, { code: "42601" });
      }),
  },
  {
    name: "copyTo keeps to its limits, and copies inside a transaction",
    run: (t) =>
      withTable(t, async (client, table) => {
        const series = "copy (select n from generate_series(1, 5) n) to stdout";
        t.assert.equal(await text(await client.copyTo(series, { maxRows: 5 })), "1\n2\n3\n4\n5\n");
        await t.assert.rejects(client.copyTo(series, { maxRows: 4 }), {
          code: "RESPONSE_TOO_LARGE",
          limit: "rows",
          value: 4,
          observed: 5,
        });
        await t.assert.rejects(client.copyTo(series, { maxBytes: 9 }), { code: "RESPONSE_TOO_LARGE", limit: "bytes" });
        await t.assert.rejects(
          client.transaction(async (tx) => {
            await tx.copyFrom(`copy ${table} from stdin`, "1\tone\n");
            t.assert.equal(await text(await tx.copyTo(`copy ${table} to stdout`)), "1\tone\n");
            await tx.copyFromRows(t.pgz.sql.unsafe(table), ["n"], [[2]]);
            throw new Error("no");
          }),
          { message: "no" },
        );
        t.assert.deepEqual(await stored(client, table), []);
        t.assert.equal(await text(await client.copyTo("copy (select where false) to stdout")), "");
      }),
  },
  {
    name: "rows of values are stored in binary by their columns' types, or as text where one has no binary form here",
    run: (t) =>
      withSchema(t, async (client, schema) => {
        const { sql } = t.pgz;
        await client.simple(`create type ${schema}.mood as enum ('sad', 'happy'); create table ${schema}.wide (b bool, i2 int2, i4 int4, i8 int8, f float8, m numeric, s text, d date, ts timestamptz, u uuid, by bytea, j jsonb, a int4[], mood ${schema}.mood);
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
        t.assert.deepEqual(
          (await client.query(`select n, r::text, i::text, net::text, ta from ${schema}.other order by n`)).rows,
          other,
        );
        t.assert.equal((await client.copyFromRows(wide, ["s"], [])).rowCount, 0);
      }),
  },
  {
    name: "a row that cannot be stored ends the COPY, says which it is, and stores nothing",
    run: (t) =>
      withTable(t, async (client, table) => {
        const into = t.pgz.sql.unsafe(table);
        await t.assert.rejects(
          client.copyFromRows(
            into,
            ["n", "t"],
            [
              [1, "a"],
              [2 ** 31, "b"],
            ],
          ),
          { code: "PARAMETER_OUT_OF_RANGE", row: 1 },
        );
        await t.assert.rejects(
          client.copyFromRows(
            into,
            ["n", "t"],
            [
              [1, "a"],
              ["x", "b"],
            ],
          ),
          { code: "INVALID_PARAMETER", row: 1 },
        );
        await t.assert.rejects(client.copyFromRows(into, ["n", "t"], [[1, "a\0"]]), {
          code: "INVALID_PARAMETER",
          row: 0,
        });
        await t.assert.rejects(client.copyFromRows(into, ["n", "t"], [[1, "a"], [2]]), { code: "INVALID_PARAMETER" });
        await t.assert.rejects(client.copyFromRows(into, ["n", "t"], [{ n: 1 }]), { code: "INVALID_PARAMETER" });
        await t.assert.rejects(client.copyFromRows(into, ["n", "t"], [[undefined, "a"]]), {
          code: "INVALID_PARAMETER",
        });
        await t.assert.rejects(client.copyFromRows(into, [], [[]]), { code: "INVALID_QUERY" });
        await t.assert.rejects(client.copyFromRows(into, ["nowhere"], [[1]]), { code: "42703" });
        await t.assert.rejects(client.copyFromRows("no table", ["n"], [[1]]), { code: "42P01" });
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
      }),
  },
  {
    name: "copyToRows gives what rows gives, for every type that is read in binary",
    run: (t) =>
      withClient(t, async (client) => {
        const query =
          "select n, n::int8 as big, n / 7.0 as m, 't' || n as t, now()::date - n as d, array[n, null] as a, jsonb_build_object('n', n) as j, row(n, 'x') as r from generate_series(1, 3000) n -- all\n; ";
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
        t.assert.deepEqual(
          batches.map((batch) => (batch as unknown[]).length),
          [10, 10, 5],
        );
        await t.assert.rejects(collect(client.copyToRows("select n from generate_series(1, 25) n", { maxRows: 24 })), {
          code: "RESPONSE_TOO_LARGE",
        });
        await t.assert.rejects(collect(client.copyToRows("select to_tsvector('a') as v")), { code: "INVALID_QUERY" });
        await t.assert.rejects(collect(client.copyToRows("select $1::int4")), { code: "INVALID_QUERY" });
        for await (const row of client.copyToRows(`select n from ${series(10_000_000, "n")}`)) {
          t.assert.deepEqual(row, { n: 1 });
          break;
        }
        t.assert.deepEqual((await client.query("select 1 as n")).rows, [{ n: 1 }]);
      }),
  },
  {
    name: "a source is left whatever ends its COPY: a bad row, a progress that throws later, a refused text, a table that is not there",
    run: (t) =>
      withTable(t, async (client, table) => {
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
        await t.assert.rejects(client.copyFrom(`copy ${table} from stdin`, source<unknown>("1\ta\n", 7) as never), {
          code: "INVALID_PARAMETER",
        });
        const progress = async () => {
          await pause(1);
          throw new Error("no more");
        };
        await t.assert.rejects(
          client.copyFrom(`copy ${table} from stdin`, source("1\ta\n".repeat(20_000)), {
            onProgress: progress as never,
          }),
          { code: "COPY_SOURCE_FAILED" },
        );
        await pause(1);
        t.assert.equal(left, 4);
        for (const text of ["copy nothing from stdin", `insert into ${table} values (1, 'x')`]) {
          let cancelled = 0;
          const stream = new ReadableStream<string>({ cancel: () => void cancelled++ });
          await t.assert.rejects(client.copyFrom(text, stream));
          await pause(1);
          t.assert.equal(cancelled, 1, text);
        }
        await t.assert.rejects(
          client.copyFromRows(into, ["n", "t"], [Object.assign(new Array<unknown>(2), { 0: 1 })]),
          { code: "INVALID_PARAMETER", row: 0 },
        );
        t.assert.deepEqual(await stored(client, table), []);
      }),
  },
  {
    name: "an abort in front of the server's answer to COPY costs no more than that call",
    run: (t) =>
      withTable(t, async (client, table) => {
        for (const ms of [0, 0, 1, 2, 5]) {
          const leaving = new AbortController();
          const call = t.assert.rejects(
            client.copyFrom(`copy ${table} from stdin`, new ReadableStream<string>(), { signal: leaving.signal }),
            { code: "ABORTED" },
          );
          if (ms) await pause(ms);
          leaving.abort();
          await call;
          t.assert.deepEqual((await client.query("select 1 as n")).rows, [{ n: 1 }]);
        }
      }),
  },
];
