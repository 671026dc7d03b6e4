// rows(): row by row and in batches, leaving early, back-pressure, and the policies of values.
import type { Client } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { until } from "../../support/until.mjs";
import { abortedAt, asleep, codeOf, gone, namesOf, newMark, newSchema, series, waitEvent } from "./helpers.ts";

type Id = { id: number };
const ids = (count: number, mark = "") =>
  `select g as id, repeat('x', 200) as filler /* ${mark} */ from ${series(count, "g")}`;

/** Checks that the connection serves other calls again, and that the server runs nothing for it. */
async function isFree(t: Context, client: Client, mark: string): Promise<void> {
  await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  await gone(t, mark);
}

export const rows: Cases = {
  async "rows come one by one, in order, each once"(t) {
    const client = await t.client();
    const result = client.rows<Id>(ids(10_000));
    let count = 0;
    for await (const { id } of result) t.assert.equal(id, ++count);
    t.assert.equal(count, 10_000);
    t.assert.deepEqual([result.command, result.rowCount, result.truncated], ["SELECT", 10_000, undefined]);
    t.assert.deepEqual(namesOf(result.fields), ["id", "filler"]);
    let seen: unknown;
    for await (const row of client.rows`select ${7}::int4 as a`) seen = row;
    t.assert.deepEqual(seen, { a: 7 });
    for await (const row of client.rows("select 1 where false")) t.assert(false, JSON.stringify(row));
  },
  async "a loop takes its place in the queue when it starts"(t) {
    const client = await t.client();
    const loop = client.rows("select 1 as a")[Symbol.asyncIterator]();
    const first = loop.next();
    await t.assert.code(client.query("select 2 as a"), "STREAM_OPEN");
    t.assert.deepEqual(
      [await first, await loop.next()],
      [
        { done: false, value: { a: 1 } },
        { done: true, value: undefined },
      ],
    );
    await t.assert.rows(client.query("select 2 as a"), [{ a: 2 }]);
  },
  async "in a loop's body its client is refused, however few rows there are, and after the loop it is free"(t) {
    const client = await t.client();
    for (const total of [1, 1, 3, 5_000])
      for (const leaves of [false, true]) {
        for await (const { id } of client.rows<Id>(ids(total))) {
          if (id === 1 || id === total) await t.assert.code(client.query("select 1 as a"), "STREAM_OPEN");
          if (leaves) break;
        }
        await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
      }
    const late = client.rows<Id>(ids(100_000), [], { timeout: 200 })[Symbol.asyncIterator]();
    await late.next().catch(() => {}); // on a slow machine it has failed already
    await until(async () => (await codeOf(client.query("select 1"))) === "no error");
    const inside = client.transaction(async (tx) => {
      for await (const { id } of tx.rows<Id>(ids(2))) await tx.query(`select ${id}`);
    });
    await t.assert.code(inside, "STREAM_OPEN");
    const pool = t.pool({ max: 2 });
    for await (const { id } of pool.rows<Id>(ids(3))) await t.assert.rows(pool.query(`select ${id} as id`), [{ id }]);
  },
  async "batches have exactly n rows, and the last has the rest"(t) {
    const client = await t.client();
    for (const [total, size] of [
      [10_000, 3_000],
      [6, 3],
      [5, 1],
      [0, 4],
      [3, 100],
    ] as const) {
      const lengths: number[] = [];
      let sum = 0;
      for await (const batch of client.rows<Id>(ids(total)).batches(size)) {
        lengths.push(batch.length);
        for (const { id } of batch) sum += id;
      }
      const expected = Array.from({ length: Math.ceil(total / size) }, (_, index) =>
        Math.min(size, total - index * size),
      );
      t.assert.deepEqual(lengths, expected);
      t.assert.equal(sum, (total * (total + 1)) / 2);
    }
    for (const size of [0, -1, 1.5])
      await t.assert.code((async () => client.rows("select 1").batches(size))(), "INVALID_OPTION");
  },
  "leaving the loop cancels on the server and frees the connection": {
    differs: ["sockets"],
    async run(t) {
      const client = await t.client();
      for (const how of ["break", "throw", "batches"]) {
        const mark = newMark();
        const result = client.rows<Id>(ids(5_000_000, mark));
        try {
          for await (const row of how === "batches" ? result.batches(10) : result) {
            t.assert(row, "a row");
            if (how === "throw") throw new Error("mine");
            break;
          }
          t.assert(how !== "throw", "thrown");
        } catch (error) {
          t.assert.equal((error as Error).message, "mine");
        }
        await isFree(t, client, mark);
      }
    },
  },
  "return() does not wait for slow rows": {
    differs: ["sockets"],
    async run(t) {
      const client = await t.client();
      const mark = newMark();
      const iterator = client.rows(`select pg_sleep(60) /* ${mark} */`)[Symbol.asyncIterator]();
      const waiting = iterator.next();
      await asleep(t, mark);
      await iterator.return!();
      t.assert.deepEqual(await waiting, { done: true, value: undefined });
      t.assert.deepEqual(await iterator.next(), { done: true, value: undefined });
      await isFree(t, client, mark);
    },
  },
  "a slow loop holds the server back and loses nothing": {
    differs: ["sockets"],
    async run(t) {
      const client = await t.client();
      const mark = newMark();
      let count = 0;
      for await (const { id } of client.rows<Id>(ids(150_000, mark))) {
        t.assert.equal(id, ++count);
        // More bytes follow than the sockets can buffer.
        if (count === 1 && t.server.name !== "pgbouncer")
          await until(async () => (await waitEvent(t, mark)) === "ClientWrite");
      }
      t.assert.equal(count, 150_000);
    },
  },
  async "errors of rows are typed, before the first row and after it"(t) {
    const client = await t.client();
    const all = async (sql: string, options = {}) => {
      let count = 0;
      for await (const batch of client.rows(sql, options).batches(10)) count += batch.length;
      return count;
    };
    await t.assert.code(all("select nothing"), "42703");
    await t.assert.rejects(all("select 1/(90000-i) from generate_series(1, 100000) i"), {
      code: "22012",
      committed: true,
    });
    await t.assert.code(all(ids(100_000), { maxRows: 5 }), "RESPONSE_TOO_LARGE");
    await t.assert.code(all("select pg_sleep(30)", { timeout: 100 }), "QUERY_TIMEOUT");
    const mark = newMark();
    const signal = abortedAt(t, mark);
    await t.assert.rejects(all(`select pg_sleep(60) /* ${mark} */`, { signal }), { name: "AbortError" });
    const cut = client.rows(ids(100_000), { maxRows: 25, onLimit: "truncate" });
    let count = 0;
    for await (const batch of cut.batches(10)) count += batch.length;
    t.assert.equal(count, 25);
    t.assert.deepEqual(cut.truncated, { limit: "rows", value: 25, observed: 26 });
    t.assert.equal(await all("select 1"), 1);
  },
  "values follow the policy of the query or of the connection": {
    differs: ["engine"],
    async run(t) {
      const client = await t.client({
        int8: "bigint",
        dates: "date",
        bytea: "base64",
        json: "text",
        types: { uuid: (text: string) => text.toUpperCase() },
      });
      const sql = `select 9007199254740993::int8 as i, array[1.5, 'NaN']::numeric[] as n,
            '2024-02-29 12:00+02'::timestamptz as z, '{infinity,2024-02-29}'::date[] as d,
            '\\x0041'::bytea as b, '{"a": 1.10}'::json as j, array['{"a": 2.20}']::jsonb[] as js,
            '550e8400-e29b-41d4-a716-446655440000'::uuid as u, null::uuid as none, 1.5::float4 as f,
            4294967295::oid as o`;
      const { rows: first } = await client.query(sql);
      const u = "550e8400-e29b-41d4-a716-446655440000".toUpperCase();
      const common = { u, none: null, f: 1.5, o: 4294967295 };
      t.assert.deepEqual(first, [
        {
          i: 9007199254740993n,
          n: ["1.5", "NaN"],
          z: new Date("2024-02-29T10:00Z"),
          d: ["infinity", new Date("2024-02-29")],
          b: "AEE=",
          j: '{"a": 1.10}',
          js: ['{"a": 2.20}'],
          ...common,
        },
      ]);
      const types = { bytea: (text: string) => text.length, "date[]": (dates: string[]) => dates.length };
      const { rows: second } = await client.query(sql, {
        int8: "string",
        numeric: "number",
        dates: "string",
        json: "parse",
        types,
      });
      t.assert.deepEqual(second, [
        {
          i: "9007199254740993",
          n: [1.5, NaN],
          z: "2024-02-29T10:00:00+00:00",
          d: 2,
          b: 6,
          j: { a: 1.1 },
          js: [{ a: 2.2 }],
          ...common,
        },
      ]);
      await t.assert.rejects(client.query("select 1", { types: { nosuch: String } }), {
        code: "INVALID_OPTION",
        message: `Option "types" names "nosuch", which is no type, or none on the search_path: create it first, or write its schema.`,
      });
      // The call's parsers win over the client's, whether they name the type by OID or by name.
      await t.assert.rows(client.query("select gen_random_uuid() as u", { types: { 2950: () => "mine" } }), [
        { u: "mine" },
      ]);
      const cause = new RangeError("not one of mine");
      const fails = () => {
        throw cause;
      };
      await t.assert.rejects(client.query("select gen_random_uuid() as u", { types: { uuid: fails } }), {
        code: "INVALID_VALUE",
        cause,
      });
      await t.assert.rows(client.query("select 1 as one"), [{ one: 1 }]);
    },
  },
  async "parsers found by the name of a user type work in every way to get objects"(t) {
    const [client, schema] = await newSchema(t);
    const sql = `select 'sad'::${schema}."Mood" as m, array['sad']::${schema}."Mood"[] as ms,
          (1, 'sad')::${schema}.pair as p`;
    await client.exec(`create type ${schema}."Mood" as enum ('sad', 'it''s $ok$ \\')`);
    await client.exec(`create type ${schema}.pair as (a int, b ${schema}."Mood")`);
    const types = {
      [`${schema}."Mood"`]: (text: string) => `:${text}`,
      [`${schema}."Mood"[]`]: (texts: string[]) => texts.length,
      [`${schema}.pair`]: ({ a, b }: { a: number; b: string }) => [a, b],
      "timestamp with time zone": (text: string) => text.length,
    };
    const expected = [{ m: ":sad", ms: 1, p: [1, "sad"] }];
    await t.assert.rows(client.query(sql, { types }), expected);
    await t.assert.rows(client.query("select timestamptz '2024-01-01 00:00Z' as z", { types }), [
      { z: "2024-01-01T00:00:00+00:00".length },
    ]);
    for await (const rows of client.rows(sql, { types }).batches(10)) t.assert.deepEqual(rows, expected);
    for await (const rows of client.cursor(sql, 10, { types })) t.assert.deepEqual(rows, expected);
    // The simple protocol has every value as text.
    t.assert.deepEqual((await client.simple(`select 'sad'::${schema}."Mood" as m`, { types }))[0]?.rows, [
      { m: ":sad" },
    ]);
    // No name becomes SQL.
    for (const name of ["it's $ok$", "$$", "\\", "x); drop schema public", "\u0000", "$$) select 1 --"]) {
      const code = await codeOf(client.query(sql, { types: { [name]: String } }));
      // A text that cannot be a name is the server's error.
      t.assert(/^(INVALID_OPTION|4260[12]|22P05)$/.test(code), `${name}: ${code}`);
    }
    // A type that is dropped and created again has the same name and another OID.
    await client.exec(`drop type ${schema}.pair; `);
    await client.exec(`create type ${schema}.pair as (a int, b ${schema}."Mood")`);
    await t.assert.rows(client.query(`${sql} -- again`, { types }), expected);
    await client.exec("begin");
    await t.assert.code(client.query(sql, { types: { nosuch: String } }), "INVALID_OPTION");
    await t.assert.rows(client.query("select 1 as one"), [{ one: 1 }]);
    await client.exec("rollback");
  },
};
