// Statements other than a plain SELECT, several statements in one text, and what describe returns.
import type { Client, PgzError, Transaction } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { abortedAt, namesOf, newMark, newSchema, rowsOf } from "./helpers.ts";

export const statements: Cases = {
  async "EXPLAIN, SHOW, VALUES, TABLE and WITH return rows"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    await client.exec("create temp table listed (a int4, b text)");
    await client.exec("insert into listed values (1, 'x'), (2, null)");
    const explained = await client.query("explain (costs off) select * from listed");
    t.assert.equal(explained.command, "EXPLAIN");
    t.assert.deepEqual(explained.rows, [{ "QUERY PLAN": "Seq Scan on listed" }]);
    const analyzed = await client.query(sql`explain (analyze, format json) select * from listed where a = ${1}`);
    t.assert(Array.isArray((analyzed.rows[0] as Record<string, unknown>)["QUERY PLAN"]));
    await client.exec("set time zone 'UTC'");
    const shown = await client.query("show time zone");
    t.assert.deepEqual([shown.rows, shown.command, shown.rowCount], [[{ TimeZone: "UTC" }], "SHOW", null]);
    await t.assert.rows(client.query(sql`values (${1}::int4, 'a'), (2, 'b')`), [
      { column1: 1, column2: "a" },
      { column1: 2, column2: "b" },
    ]);
    await t.assert.rows(client.query("table listed"), [
      { a: 1, b: "x" },
      { a: 2, b: null },
    ]);
    await t.assert.rows(
      client.query("with recursive n(i) as (select 1 union all select i + 1 from n where i < 3) select i from n"),
      [{ i: 1 }, { i: 2 }, { i: 3 }],
    );
    const moved = await client.query(
      "with gone as (delete from listed where b is null returning a) " +
        "insert into listed select a + 10, 'moved' from gone returning a, b",
    );
    t.assert.deepEqual([moved.rows, moved.command, moved.rowCount], [[{ a: 12, b: "moved" }], "INSERT", 1]);
  },
  async "a call refuses an option that it does not have, and values beside a query that has its own"(t) {
    const client = await t.client();
    const rows = (options: object) => client.rows("select 1", options)[Symbol.asyncIterator]().next();
    const nearest = (name: string) => `The nearest known name is "${name}".`;
    const wrong: [call: (options: never) => Promise<unknown>, options: object, advice: string][] = [
      [(options) => client.query("select 1", options), { maxRow: 1 }, nearest("maxRows")],
      [(options) => client.exec("select 1", options), { prepare: "named" }, "Values belong in the query: "],
      [(options) => client.stream("select 1", options), { statusCode: 200 }, nearest("status")],
      [(options) => client.transaction(() => 1, options), { isolationLevel: "serializable" }, nearest("isolation")],
      [(options) => client.listen("c", options), { reconnect: 1 }, nearest("onReconnect")],
      [(options) => client.listen("c", options), { again: 1 }, "Known names: signal, onReconnect, sessionPooling."],
      [rows, { timeOut: 1 }, nearest("timeout")],
    ];
    for (const [call, options, advice] of wrong) {
      const { message } = await t.assert.code(call(options as never), "UNKNOWN_OPTION");
      const [name] = Object.keys(options);
      t.assert(message.startsWith(`Unknown option "${name}". ${advice}`), message);
    }
    const valued = { text: "select $1::int4 as n", values: [1] };
    for (const call of [client.json("select $1", [1] as never), client.query(valued, [1] as never)])
      t.assert.match((await t.assert.code(call, "INVALID_QUERY")).message, /Values belong in the query/);
    await t.assert.rows(client.query("select 1 as n", { maxRow: undefined } as never), [{ n: 1 }]);
    await t.assert.rows(client.query(valued), [{ n: 1 }]);
  },
  async "CALL returns the procedure's INOUT arguments, and may commit"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    await client.exec("create temp table steps (n int4)");
    await client.exec(`create procedure pg_temp.doubled(inout n int4, inout t text) language plpgsql as
          $$ begin insert into steps values (n); commit; n := n * 2; t := t || t; end $$`);
    const called = await client.query(sql`call pg_temp.doubled(${21}, ${"ab"})`);
    t.assert.deepEqual([called.rows, called.command, called.rowCount], [[{ n: 42, t: "abab" }], "CALL", null]);
    await t.assert.rows(client.query("table steps"), [{ n: 21 }]);
  },
  async "an empty query and a query of only a comment are results without rows, in every call"(t) {
    const client = await t.client();
    for (const text of ["", " ", ";", "-- only a comment", "/* only a comment */", "/* one */ ; -- two"]) {
      t.assert.deepEqual(await client.query(text), { rows: [], rowCount: null, command: "", fields: [] }, text);
      t.assert.deepEqual(await client.exec(text), { command: "", rowCount: null }, text);
      t.assert.deepEqual(await client.describe(text), { parameterTypes: [], fields: [] }, text);
      t.assert.deepEqual(await client.simple(text), [{ rows: [], rowCount: null, command: "", fields: [] }], text);
    }
  },
  async "simple returns one result for each statement"(t) {
    const client = await t.client();
    const results = await client.simple(`create temp table several (a int4, b text);
          insert into several values (1, 'x'), (2, 'y');;
          select * from several order by a; select 'é' as t; /* nothing */; select 1 as x where false;
          update several set a = 3 where a = 2 returning *`);
    t.assert.deepEqual(
      results.map(({ command, rowCount, rows, fields }) => [command, rowCount, rows, namesOf(fields)]),
      [
        ["CREATE TABLE", null, [], []],
        ["INSERT", 2, [], []],
        ["SELECT", 2, ["x", "y"].map((b, at) => ({ a: at + 1, b })), ["a", "b"]],
        ["SELECT", 1, [{ t: "é" }], ["t"]],
        ["SELECT", 0, [], ["x"]],
        ["UPDATE", 1, [{ a: 3, b: "y" }], ["a", "b"]],
      ],
    );
    t.assert.deepEqual(
      rowsOf(await client.simple("select 1 as a, 2 as a; select 3", { rowMode: "array", duplicates: "keep" })),
      [[[1, 2]], [[3]]],
    );
    t.assert.deepEqual((await client.simple("select 1 as a, 2 as a", { duplicates: "rename" }))[0]?.rows, [
      { a: 1, a_2: 2 },
    ]);
    const big = await client.simple(
      "select generate_series(1, 100000) as n; select repeat('x', 100000) as t from generate_series(1, 5)",
    );
    t.assert.equal(big.map(({ rows }) => rows.length).join(), "100000,5");
    t.assert.deepEqual(big[0]?.rows.at(-1), { n: 100_000 });
    t.assert(client.stats().rows > 100_000);
  },
  async "simple keeps the server's text when a setting changes its form, and never parses it into a wrong value"(t) {
    const client = await t.client();
    const dates =
      "select date '2024-02-01' as d, timestamp '2024-02-01 03:04:05' as t, array[date '2024-02-01'] as ds, daterange('2024-02-01', null) as r";
    for (const [style, d, time] of [
      ["SQL, DMY", "01/02/2024", "01/02/2024 03:04:05"],
      ["German", "01.02.2024", "01.02.2024 03:04:05"],
      ["Postgres, MDY", "02-01-2024", "Thu Feb 01 03:04:05 2024"],
    ] as const) {
      await client.exec(`set datestyle to ${style}`);
      t.assert.deepEqual((await client.simple(dates, { dates: "date" }))[0]?.rows, [
        { d, t: time, ds: `{${d}}`, r: `[${d},)` },
      ]);
    }
    await client.exec("set datestyle to ISO");
    t.assert.deepEqual((await client.simple(dates, { dates: "date" }))[0]?.rows, [
      {
        d: new Date("2024-02-01"),
        t: new Date("2024-02-01T03:04:05Z"),
        ds: [new Date("2024-02-01")],
        r: "[2024-02-01,)",
      },
    ]);
    const interval = "select interval '1 day -02:00' as i, array[interval '1 day'] as n";
    for (const [style, i, n] of [
      ["sql_standard", "+0-0 +1 -2:00:00", '{"1 0:00:00"}'],
      ["postgres_verbose", "@ 1 day -2 hours", '{"@ 1 day"}'],
      ["iso_8601", "P1DT-2H", ["P1D"]],
      ["postgres", "P1DT-2H", ["P1D"]],
    ] as const) {
      await client.exec(`set intervalstyle to ${style}`);
      t.assert.deepEqual((await client.simple(interval))[0]?.rows, [{ i, n }]);
    }
    await client.exec("set bytea_output to escape");
    const bytes = "select '\\x5c7861ff'::bytea as b, ''::bytea as e, array['\\x00'::bytea] as a";
    for (const bytea of ["uint8array", "hex", "base64"] as const) {
      const { rows } = await client.query(bytes, { bytea });
      t.assert.deepEqual((await client.simple(bytes, { bytea }))[0]?.rows, rows);
    }
  },
  async "simple names the statements completed before an error, and the server has rolled them back"(t) {
    const client = await t.client();
    await client.simple("create temp table kept (n int4)");
    const error = await t.assert.rejects(
      client.simple("insert into kept values (1); select 1 as a; select 1/0; select 2"),
      { code: "22012", completed: ["INSERT", "SELECT"] },
    );
    t.assert(error instanceof t.pgz.PostgresError, "a PostgresError");
    await t.assert.rows(client.query("table kept"), []);
    await t.assert.rejects(client.simple("begin; insert into kept values (2); commit; selec"), {
      code: "42601",
      completed: [],
    });
    await t.assert.rejects(client.simple("begin; insert into kept values (2); commit; select 1/0"), {
      code: "22012",
      completed: ["BEGIN", "INSERT", "COMMIT"],
    });
    await t.assert.rows(client.query("table kept"), [{ n: 2 }]);
  },
  async "limits, deadlines, signals and COPY hold for simple"(t) {
    const client = await t.client();
    const twice = "select generate_series(1, 6) as n; select generate_series(1, 6) as n";
    t.assert.equal((await client.simple(twice, { maxRows: 12 })).length, 2);
    await t.assert.rejects(client.simple(twice, { maxRows: 11 }), {
      code: "RESPONSE_TOO_LARGE",
      limit: "rows",
      observed: 12,
      completed: ["SELECT"],
    });
    await t.assert.rejects(client.simple(twice, { maxBytes: 20 }), {
      code: "RESPONSE_TOO_LARGE",
      limit: "bytes",
      completed: ["SELECT"],
    });
    await t.assert.code(client.simple("select 1; select pg_sleep(30)", { timeout: 200 }), "QUERY_TIMEOUT");
    const mark = newMark();
    const signal = abortedAt(t, mark);
    await t.assert.code(client.simple(`select 1; select pg_sleep(60) /* ${mark} */`, { signal }), "ABORTED");
    await client.simple("create temp table copied (n int4)");
    await t.assert.rejects(client.simple("select 1; copy copied from stdin; select 2"), {
      code: "COPY_NEEDS_COPY_CALL",
      completed: ["SELECT"],
    });
    await t.assert.code(
      client.simple("copy (select generate_series(1, 100000)) to stdout; select 2"),
      "COPY_NEEDS_COPY_CALL",
    );
    await t.assert.code(client.simple("select '\0'"), "INVALID_QUERY");
    await t.assert.code(client.simple(t.pgz.sql`select ${1}`), "INVALID_QUERY");
    t.assert.deepEqual(rowsOf(await client.simple("select 1 as a")), [[{ a: 1 }]]);
  },
  async "describe returns parameter types and columns without running the statement"(t) {
    const client = await t.client();
    await client.exec("create temp table described (id int8 primary key, name text)");
    const insert = "insert into described values ($1, $2) returning id, upper(name) as up";
    const { parameterTypes, fields } = await client.describe(insert);
    t.assert.deepEqual(parameterTypes, [20, 25]);
    t.assert.equal(fields.map(({ name, typeOid }) => `${name} ${typeOid}`).join(), "id 20,up 25");
    await t.assert.rows(client.query("table described"), []);
    const before = client.stats().receivedBytes;
    t.assert.deepEqual((await client.describe(insert)).parameterTypes, [20, 25]);
    t.assert.equal(client.stats().receivedBytes, before, "what is known is not asked again");
    await t.assert.rows(client.query({ text: insert, values: [1, "x"] }), [{ id: "1", up: "X" }]);
    t.assert.deepEqual(await client.describe("create temp table never (a int4)"), {
      parameterTypes: [],
      fields: [],
    });
    await t.assert.code(client.describe("select * from no_such_table"), "42P01");
    await t.assert.rows(client.query("select 1 as a"), [{ a: 1 }]);
  },
  async "statements described together share a round trip, even with queries between them"(t) {
    const [client, schema] = await newSchema(t);
    await client.simple(`create type ${schema}.pair as (a int4, b text); create table ${schema}.t (p ${schema}.pair)`);
    const names = async (texts: string[], on: Pick<typeof client, "describe"> = client) => {
      const settled = await Promise.allSettled(texts.map((text) => on.describe(text)));
      return settled.map((each) =>
        each.status === "rejected" ? (each.reason as { code: string }).code : namesOf(each.value.fields).join(),
      );
    };
    const flights = async (work: () => Promise<unknown>) => {
      const before = client.stats().flights;
      await work();
      return client.stats().flights - before;
    };
    const texts = (of: string) => Array.from({ length: 30 }, (_, n) => `select ${n} as ${of}${n}`);
    const wide = texts("wide").map((text) => `${text}, '${"x".repeat(10_000)}' as filler`);
    t.assert.equal(await flights(() => names(texts("a"))), 1);
    t.assert.deepEqual(
      await names([...texts("a"), ...wide]),
      [...texts("a"), ...wide].map((text) => /as (\w+)/.exec(text)![1]! + (text.includes("filler") ? ",filler" : "")),
    );
    // Its types are looked up after the others.
    const mixed = [`select p from ${schema}.t`, "create table never (a int4)", `select p as q from ${schema}.t`];
    const [described, { rows }, last] = await Promise.all([
      names(mixed),
      client.query<{ n: number }>("select 7 as n"),
      names(["select 1 as last"]),
    ]);
    t.assert.deepEqual([described, rows, last], [["p", "", "q"], [{ n: 7 }], ["last"]]);
    t.assert.deepEqual(await names(["select 1 as ok", "select wrong", "select 2 as fine"]), ["ok", "42703", "fine"]);
    await client.transaction(async (tx) => {
      await tx.exec("savepoint before");
      const found = await names(["select 1 as early", "select wrong", "select 2 as late"], tx);
      t.assert.deepEqual(found, ["early", "42703", "25P02"]);
      await tx.exec("rollback to savepoint before");
      t.assert.deepEqual(await names(["select 2 as late", "select 3 as later"], tx), ["late", "later"]);
    });
    const controller = new AbortController();
    const calls = [
      client.describe("select 1 as gone", { signal: controller.signal }),
      client.describe("select 1 as here"),
    ];
    controller.abort();
    await t.assert.code(calls[0]!, "ABORTED");
    t.assert.equal((await calls[1]!).fields[0]!.name, "here");
  },
  async "own DDL does not end the transaction that has used the table"(t) {
    const [client, schema] = await newSchema(t);
    const all = `select * from ${schema}.t`;
    const columns = async (of: Pick<typeof client, "query">, text = all) => {
      const { fields } = await of.query(text);
      return namesOf(fields).join();
    };
    const alter = (what: string) => `alter table ${schema}.t ${what}`;
    await client.simple(`create table ${schema}.t (a int4); insert into ${schema}.t values (1)`);
    for (let n = 0; n < 3; n++) t.assert.equal(await columns(client), "a");
    await client.transaction(async (tx) => {
      t.assert.equal(await columns(tx), "a");
      await tx.exec(alter("add column b text"));
      t.assert.equal(await columns(tx), "a,b");
      const inner = tx.transaction(async (nested) => {
        await nested.exec(alter("add column c text"));
        t.assert.equal(await columns(nested), "a,b,c");
        throw new Error("mine");
      });
      await t.assert.rejects(inner, { message: "mine" });
      t.assert.equal(await columns(tx), "a,b");
      const [, batched] = await tx.batch([alter("drop column b"), "select 1"]);
      t.assert.equal(batched?.rowCount, 1);
      t.assert.equal(await columns(tx), "a");
      await tx.exec(alter("add column d int8"));
    });
    // No other statement has described the table meanwhile.
    await client.transaction(async (tx) => t.assert.equal(await columns(tx), "a,d"));
    const undone = client.transaction(async (tx) => {
      await tx.exec(alter("alter column d type text"));
      t.assert.equal(await columns(tx), "a,d");
      throw new Error("mine");
    });
    await t.assert.rejects(undone, { message: "mine" });
    await client.transaction(async (tx) => t.assert.equal(await columns(tx), "a,d"));
    await client.exec(alter("drop column d"));
    // Another client of the isolate knows the change too.
    const other = await t.client();
    await other.transaction(async (tx) => {
      await tx.query("select 1");
      t.assert.equal(await columns(tx), "a");
    });
    await client.exec(`do $$begin alter table ${schema}.t add column e int4; end$$`);
    await client.transaction(async (tx) => {
      await tx.query("select 1");
      t.assert.equal(await columns(tx), "a,e");
    });
  },
  async "another session's DDL is noticed only inside a transaction, by a retryable error that has run nothing"(t) {
    const [owner, schema] = await newSchema(t);
    const table = `${schema}.t`;
    const text = `select * from ${table}`;
    let columns = 1;
    await owner.exec(`create table ${table} (c1 int4)`);
    for (const prepare of ["auto", "unnamed"] as const) {
      const client = await t.client({ prepare });
      const alter = () => t.side(`alter table ${table} add column c${++columns} text`);
      const seen = async (of: Pick<Client, "query">) => (await of.query(text)).fields.length;
      const batched = async (tx: Transaction) => (await tx.batch([text, "select 1"]))[0]!.fields.length;
      for (const calls of [client, client.scope({ settings: { "app.tenant": 1 } })])
        for (const inside of [seen, batched]) {
          for (let round = 0; round < 3; round++) await seen(calls);
          await alter();
          t.assert.equal(await seen(calls), columns, "alone");
          await alter();
          t.assert.equal(await calls.transaction(seen), columns, "first in a transaction");
          await alter();
          const work = async (tx: Transaction) => {
            await tx.query("select 1");
            return await inside(tx);
          };
          const error = await calls.transaction(work).then(
            () => undefined,
            (thrown: PgzError) => thrown,
          );
          t.assert(/^(0A000|08P01)$/.test(error?.code ?? ""), `${error}`);
          t.assert.equal(error?.retryable, true, `${prepare} ${inside.name}`);
          t.assert.equal(await calls.transaction(work), columns, "again");
        }
    }
  },
  async "own DDL that drops and creates a type again gives the new type"(t) {
    const [client, schema] = await newSchema(t);
    const query = t.pgz.sql`select ${"x"}::${t.pgz.sql.identifier(schema, "mood")} as mood`;
    await client.exec(`create type ${schema}.mood as enum ('x')`);
    for (let n = 0; n < 3; n++) await t.assert.rows(client.query(query), [{ mood: "x" }]);
    await client.transaction(async (tx) => {
      await t.assert.rows(tx.query(query), [{ mood: "x" }]);
      await tx.exec(`drop type ${schema}.mood`);
      await tx.exec(`create type ${schema}.mood as enum ('y', 'x')`);
      for (let n = 0; n < 3; n++) await t.assert.rows(tx.query(query), [{ mood: "x" }]);
    });
    await t.assert.rows(client.query(query), [{ mood: "x" }]);
  },
  async "DEALLOCATE ALL and DISCARD do not end a transaction that runs them"(t) {
    const client = await t.client({ prepare: "named" });
    const one = (of: Pick<typeof client, "query">) => of.query(t.pgz.sql`select ${1}::int4 as n`);
    for (let n = 0; n < 3; n++) await one(client);
    await client.transaction(async (tx) => {
      await one(tx);
      for (const text of ["deallocate all", "discard plans", "deallocate prepare all"]) {
        await tx.exec(text);
        await t.assert.rows(one(tx), [{ n: 1 }]);
      }
      const prepared = await tx.prepare<{ m: number }>("select $1::int4 as m");
      await tx.exec("deallocate all");
      await t.assert.rows(prepared.query([2]), [{ m: 2 }]);
    });
    await client.exec("discard all");
    await client.transaction(async (tx) => {
      await tx.query("select 1");
      await t.assert.rows(one(tx), [{ n: 1 }]);
    });
  },
  async "statements with new texts do not pile up on the server"(t) {
    const client = await t.client({ statementCacheSize: 4 });
    for (let index = 0; index < 40; index++)
      for (const _ of ["once", "twice"]) await client.query(`select ${index} as a`);
    const { rows } = await client.query<{ n: number }>("select count(*)::int4 as n from pg_prepared_statements");
    t.assert(rows[0]!.n <= 5, String(rows[0]!.n));
  },
};
