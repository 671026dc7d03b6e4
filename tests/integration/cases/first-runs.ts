// Statements that have not been described: they run in one flight, as text, and their results do not differ from later
// runs. Before PostgreSQL 16 those whose rows are read are described first, which takes one flight more.
import type { Client, PgzError, StreamOptions } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { abortedAt, asleep, codeOf, namesOf, newMark, newSchema, terminateRunning, text, unseen } from "./helpers.ts";

/** Returns how many flights `work` took. */
async function flights(client: Client, work: () => Promise<unknown>): Promise<number> {
  const { flights } = client.stats();
  await work();
  return client.stats().flights - flights;
}

/** A value of each kind of type, in a column with a name that says which. */
const VALUES = `true as bool, 7::int2 as int2, -1 as int4, 9007199254740993 as int8, 4000000000::oid as oid, 1.10 as numeric,
  'NaN'::numeric as nan, 0.1::float4 as float4, 1e21::float8 as float8, '-Infinity'::float8 as infinite, e'é"\\n\\\\'::text as text,
  'x'::"char" as char, '\\x00ff5c'::bytea as bytea, 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid as uuid,
  '{"b": [1, 2.50]}'::jsonb as jsonb, e'{"a":\\n 1}'::json as json, '0044-03-15 BC'::date as date, '24:00'::time as time,
  '03:04:05.6-05:30'::timetz as timetz, '2024-01-02 03:04:05.678'::timestamp as timestamp, 'infinity'::timestamp as never,
  '2024-06-02 03:04:05+02'::timestamptz as timestamptz, '1 year 2 mons -3 days 04:05:06.7'::interval as interval,
  '-00:00:01'::interval as backwards, '(1,2.5)'::point as point, '10.0.0.0/8'::cidr as cidr, b'101'::varbit as varbit,
  '{{1,NULL},{3,4}}'::int4[] as ints, array['a"b\\c', 'NULL', '', null, '{,}'] as texts, '[2:3]={5,6}'::int8[] as bigs,
  array['2024-01-02 03:04+00'::timestamptz] as moments, array['\\x01'::bytea] as bytes, '{}'::text[] as none,
  '[1,5)'::int4range as range, '[2024-01-02 03:04+02,)'::tstzrange as span, '{[1,2),[5,)}'::int8multirange as ranges,
  '1 2'::int2vector as vector, array['{"a": "x,y"}'::jsonb] as jsons, '$1.50'::money as money, 'pg_class'::regclass as class,
  'a & b'::tsquery as search, null::int4 as nothing, '(0,1)'::tid as tid, 'a=>1'::text as plain`;

/** Returns the rows as one text, including bytes and bigints. */
const shown = (value: unknown) =>
  JSON.stringify(value, (_, each: unknown) =>
    typeof each === "bigint" ? `${each}n` : each instanceof Uint8Array ? [...each] : each,
  );

/** Creates a table whose rows have 100 characters and a number. */
const fill = (client: Client, schema: string, name: string, count: number) =>
  client.simple(`create table ${schema}.${name} (id int4, name text);
    insert into ${schema}.${name} select n, repeat('x', 100) from generate_series(1, ${count}) n`);

/** The number of flights of a statement with rows that has not been described, if all its types are known. */
const once = (t: Context) => (t.server.major < 16 ? 2 : 1);

/** Returns how many characters the numbers from 1 to `count` have. */
const digits = (count: number) => Array.from({ length: count }, (_, at) => String(at + 1)).join("").length;

/** Returns the same statement as one that has never run: a comment makes it another text. */
const fresh = (query: string) => `${query} /* ${newMark()} */`;

export const firstRuns: Cases = {
  async "an unknown statement takes one flight, and gives the same result as when it is known"(t) {
    const client = await t.client();
    const query = fresh(`select ${VALUES}`);
    const results: string[] = [];
    const run = async () => void results.push(shown((await client.query(query)).rows));
    for (const wanted of [once(t), 1, 1]) t.assert.equal(await flights(client, run), wanted, `run ${results.length}`);
    t.assert.equal(results[0], results[1]);
    t.assert.equal(results[1], results[2]);
    for (const options of [
      { dates: "date", int8: "bigint" },
      { bytea: "base64", numeric: "number" },
    ] as const) {
      const query = fresh(`select ${VALUES}`);
      const first = await client.query(query, options);
      t.assert.equal(shown(first.rows), shown((await client.query(query, options)).rows));
    }
  },
  "the guard statement is prepared once on a connection, and losing it costs flights but does not fail the session": {
    ownServer: true,
    async run(t) {
      const client = await t.client();
      // No row is read, so that it runs first on all versions.
      const one = (n: number) => client.exec(fresh(`select n from generate_series(1, ${n}) n`));
      const prepared = async () => {
        const counted = await client.simple(
          "select count(*) as n from pg_prepared_statements where statement ~ 'pgz-edge: '",
        );
        return Number(counted[0]!.rows[0]!["n"]);
      };
      const together = async () => {
        const answers = await Promise.all([2, 3, 4, 5, 6].map((n) => one(n)));
        t.assert.equal(answers.map(({ rowCount }) => rowCount).join(), "2,3,4,5,6");
      };
      t.assert.equal((await one(1)).rowCount, 1);
      t.assert.equal(await prepared(), 0);
      await one(1);
      t.assert.equal(await prepared(), 1);
      t.assert.equal(await flights(client, together), 1);
      t.assert.equal(await prepared(), 1);
      await client.exec("deallocate all");
      t.assert.equal(await flights(client, together), 1);
      t.assert.equal(await prepared(), 1);
      // The driver does not see this DEALLOCATE.
      await client.exec("do $$ begin execute 'deallocate all'; end $$");
      t.assert.equal(await flights(client, () => one(7)), 2);
      // From now on no statement has a name on this connection, as with a pooler.
      t.assert.equal(await flights(client, together), 1);
      t.assert.equal(await prepared(), 0);
    },
  },
  async "first and later runs give the same bytes in every format, as a stream, a Response and one piece"(t) {
    const client = await t.client();
    for (const format of ["ndjson", "json", "columnar", "toon", "csv"] as const)
      for (const more of [{}, { int8: "string", numeric: "string" }] as StreamOptions[]) {
        const options = { format, ...more };
        const query = fresh(
          `select ${VALUES} union all select ${VALUES}`.replaceAll("'{\"b\": [1, 2.50]}'::jsonb", "null"),
        );
        const piece = async () => new TextDecoder().decode(await client.json(query, options));
        const first = await piece();
        const known = await piece();
        t.assert.equal(first, known, format);
        t.assert.equal(await text(await client.stream(fresh(query), options)), known, format);
        t.assert.equal(await (await client.respond(fresh(query), options)).text(), known, format);
      }
    const rows: unknown[] = [];
    for await (const row of client.rows(fresh(`select ${VALUES}`))) rows.push(row);
    t.assert.equal(shown(rows), shown((await client.query(`select ${VALUES}`)).rows));
  },
  async "settings of the session change no value: text that depends on them is not requested"(t) {
    const client = await t.client();
    const wanted = shown((await client.query(fresh(`select ${VALUES}`), { timeout: 9_000 })).rows);
    // The text of these settings can be read in any form, so one flight is enough. The settings below make the
    // driver describe.
    for (const [set, count] of [
      ["set timezone to 'America/St_Johns'", once(t)],
      ["set bytea_output to escape", once(t)],
      ["set intervalstyle to iso_8601", once(t)],
    ] as const) {
      const other = await t.client();
      await other.simple(set);
      const query = fresh(`select ${VALUES}`);
      const run = async () => t.assert.equal(shown((await other.query(query)).rows), wanted, set);
      t.assert.equal(await flights(other, run), count, set);
    }
    for (const set of [
      "set datestyle to german",
      "set datestyle to sql, dmy",
      "set intervalstyle to sql_standard",
      "set extra_float_digits to 0",
    ])
    // A separate application name makes this a separate server for the cache, so that other connections are not
    // told to describe.
    {
      const other = await t.client({ applicationName: newMark().slice(0, 60) });
      await other.simple(set);
      for (const _ of "12") {
        const query = fresh(`select ${VALUES}`);
        const run = async () => t.assert.equal(shown((await other.query(query)).rows), wanted, set);
        t.assert.equal(await flights(other, run), 2, set);
      }
    }
  },
  async "an enum needs no catalog query in its first run, and other user types need one before it"(t) {
    const [client, s] = await newSchema(t);
    await client.simple(`create type ${s}.mood as enum ('sad', 'ok'); create domain ${s}.whole as int4;
          create type ${s}.pair as (a ${s}.whole, "b c" ${s}.mood); create table ${s}.pairs (id int4, p ${s}.pair, m ${s}.mood);
          insert into ${s}.pairs values (1, row(5, 'ok'), 'sad'), (2, null, null)`);
    const takes = async (query: string, count: number, wanted: unknown[]) => {
      const run = () => t.assert.rows(client.query(query), wanted);
      t.assert.equal(await flights(client, run), count, query);
    };
    // A description asks the catalog for enums too, because their binary form is then known.
    await takes(`select m, 5::${s}.whole as w from ${s}.pairs`, t.server.major < 16 ? 3 : 1, [
      { m: "sad", w: 5 },
      { m: null, w: 5 },
    ]);
    const pair = { a: 5, "b c": "ok" };
    await takes(`select p from ${s}.pairs order by id`, 3, [{ p: pair }, { p: null }]);
    await takes(`select p from ${s}.pairs order by id`, 1, [{ p: pair }, { p: null }]);
    await takes(`select array_agg(p order by id) as ps from ${s}.pairs`, 3, [{ ps: [pair, null] }]);
    await takes(`select pairs from ${s}.pairs where id = 1`, 3, [{ pairs: { id: 1, p: pair, m: "sad" } }]);
    await takes(`select p from ${s}.pairs where false`, 3, []);
    // A composite may have other attributes by now: the catalog is asked for each new statement.
    const value = `select '(5,ok)'::${s}.changing as c`;
    await client.simple(`create type ${s}.changing as (a ${s}.whole, b text)`);
    await takes(value, 3, [{ c: { a: 5, b: "ok" } }]);
    await unseen(client, `alter type ${s}.changing alter attribute a type text`);
    await takes(`${value} -- again`, 3, [{ c: { a: "5", b: "ok" } }]);
  },
  async "many rows of user types arrive as they come, in the first run"(t) {
    const [client, s] = await newSchema(t);
    await fill(client, s, "wide", 20_000);
    const length = 20_000 * (`{"wide":{"id":,"name":""}}\n`.length + 100) + digits(20_000);
    t.assert.equal((await text(await client.stream(`select wide from ${s}.wide`))).length, length);
    await fill(client, s, "wider", 200_000);
    let count = 0;
    for await (const batch of client
      .rows<{ w: { id: number } }>(`select wider as w from ${s}.wider order by id`)
      .batches(1_000)) {
      t.assert.equal(batch[0]?.w.id, count + 1);
      count += batch.length;
      if (count > 50_000) break;
    }
    await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
  },
  async "rows of user types stay within the caller's caps"(t) {
    const [client, s] = await newSchema(t);
    await fill(client, s, "wide", 100_000);
    const wide = () => fresh(`select wide from ${s}.wide order by id`);
    await t.assert.rejects(client.query(wide(), { maxRows: 10 }), { limit: "rows", observed: 11 });
    const { rows, truncated } = await client.query(wide(), { maxRows: 3, onLimit: "truncate" });
    t.assert.equal(rows.map((row) => (row as { wide: { id: number } }).wide.id).join(), "1,2,3");
    t.assert.deepEqual(truncated, { limit: "rows", value: 3, observed: 4 });
    await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
  },
  async "user types learned once are known to other statements, which take one flight again"(t) {
    const [client, s] = await newSchema(t);
    await client.simple(`create type ${s}.mood as enum ('sad', 'ok'); create domain ${s}.moods as ${s}.mood[];
          create domain ${s}.whole as int4; create domain ${s}.line as text`);
    const moods = async (query: string, wanted: unknown) => {
      const run = async () => t.assert.deepEqual((await client.query(fresh(query))).rows[0], wanted);
      return flights(client, run);
    };
    t.assert.equal(await moods(`select '{sad}'::${s}.mood[] as m`, { m: ["sad"] }), 3);
    t.assert.equal(await moods(`select '{ok}'::${s}.mood[] as m`, { m: ["ok"] }), once(t));
    t.assert.equal(await moods(`select '{ok}'::${s}.moods as m`, { m: ["ok"] }), once(t));
    t.assert.equal(await moods(`select 1::${s}.whole as w, 'x'::${s}.line as l`, { w: 1, l: "x" }), once(t));
    // Rows that are not read need no types.
    const unread = () => client.exec(fresh(`select array['sad'::${s}.mood], null::${s}.moods[]`));
    t.assert.equal(await flights(client, unread), 1);
  },
  async "a statement runs once, whatever the driver has to look up for it"(t) {
    const [client, s] = await newSchema(t);
    await client.simple(
      `create type ${s}.pair as (a int4, b text); create sequence ${s}.runs; create table ${s}.log (n int8)`,
    );
    const insert = (rest: string) => `insert into ${s}.log values (nextval('${s}.runs')) returning ${rest}`;
    await client.query(insert(`row(n, 'x')::${s}.pair as p`));
    const record = await client.query(insert("(select r from (select n, 'x' as b) as r) as anonymous"));
    t.assert.deepEqual(record.rows, [{ anonymous: { f1: "2", f2: "x" } }]);
    await t.assert.code(client.query({ text: insert("$1::uuid"), values: ["no"] }), "22P02");
    await t.assert.code(client.query({ text: insert("$1::date"), values: [20_240_101] }), "INVALID_PARAMETER");
    for (const values of [[], [1, 2]])
      await t.assert.rejects(client.query({ text: insert("$1::int4"), values }), {
        name: "UsageError",
        code: "INVALID_QUERY",
      });
    await t.assert.code(client.query(insert("1 / (n - n)")), "22012");
    await t.assert.rows(client.query(`select n from ${s}.log`), [{ n: "1" }, { n: "2" }]);
    await t.assert.rows(client.query(`select last_value from ${s}.runs`), [{ last_value: "3" }]);
  },
  async "an anonymous record is never read from its text"(t) {
    const client = await t.client();
    await t.assert.rows(client.query(fresh("select row(1, 'x') as r")), [{ r: { f1: 1, f2: "x" } }]);
    await t.assert.rows(client.query(fresh("select (1, 'x') as r")), [{ r: { f1: 1, f2: "x" } }]);
    const hidden = fresh("select r from (select 1 as a, 'x' as b) as r");
    await t.assert.rows(client.query(hidden), [{ r: { f1: 1, f2: "x" } }]);
    const several = fresh("select array_agg(r) as all from (select 1 as a) as r");
    await t.assert.rows(client.query(several), [{ all: [{ f1: 1 }] }]);
    // No row is read, so nothing need be refused.
    await client.exec(fresh("select r from (select 1 as a, 'x' as b) as r"));
    const other = await t.client({ firstRun: "describe" });
    const query = fresh("select r from (select 1 as a, 'x' as b) as r");
    await t.assert.rows(other.query(query), [{ r: { f1: 1, f2: "x" } }]);
  },
  async "a statement that writes and returns a record which its SQL does not show runs once, and resolves"(t) {
    const [client, s] = await newSchema(t);
    await client.simple(`create table ${s}.log (n int4);
          create function ${s}.add(n int4, out a int4, out b text) language sql as
            $$ insert into ${s}.log values (n) returning n, 'x' $$`);
    const writing = (n: number) =>
      fresh(`with i as (insert into ${s}.log values (${n}) returning n as a, 'x' as b) select i as r from i`);
    const calling = (n: number) => fresh(`select ${s}.add(${n}) as r`);
    let n = 0;
    for (const write of [writing, calling]) {
      n++;
      await t.assert.rows(client.query(write(n)), [{ r: { f1: n, f2: "x" } }]);
      // The first call of a connection is sent before the server's version is known.
      n++;
      const early = await t.client();
      await t.assert.rows(early.query(write(n)), [{ r: { f1: n, f2: "x" } }]);
      n++;
      const [first] = await client.batch([write(n), fresh("select 1 as one")]);
      t.assert.deepEqual(first?.rows, [{ r: { f1: n, f2: "x" } }]);
    }
    await t.assert.rows(
      client.query(`select n from ${s}.log order by n`),
      [1, 2, 3, 4, 5, 6].map((n) => ({ n })),
    );
  },
  async "a statement that changes a setting its own text depends on gives the same result as when it is known"(t) {
    const client = await t.client();
    const values = "0.1::float8 + 0.2 as f, date '2024-01-02' as d, interval '1 day 2 hours' as i";
    for (const [name, value] of [
      ["extra_float_digits", "-5"],
      ["DateStyle", "German"],
      ["IntervalStyle", "sql_standard"],
    ] as const) {
      const query = fresh(`select pg_catalog.set_config('${name}', '${value}', false) as s, ${values}`);
      const expected = [{ s: value === "German" ? "German, DMY" : value, f: 0.1 + 0.2, d: "2024-01-02", i: "P1DT2H" }];
      await t.assert.rows(client.query(query), expected);
      await client.simple(`reset ${name}`);
    }
  },
  async "when a function changes such a setting, the error says that the statement has run, and the connection survives"(
    t,
  ) {
    const [client, s] = await newSchema(t);
    await client.simple(`create table ${s}.log (n int4);
          create function ${s}.german() returns text language sql volatile as
            $$ select pg_catalog.set_config('DateStyle', 'German, DMY', false) $$`);
    const session = async () => (await client.query("select pg_backend_pid() as pid")).rows;
    const before = await session();
    const insert = fresh(`insert into ${s}.log values (1) returning ${s}.german() as s, date '2024-01-02' as d`);
    // Before 16 it is described first.
    if (t.server.major < 16) return t.assert.rows(client.query(insert), [{ s: "German, DMY", d: "2024-01-02" }]);
    const error = (await client.query(insert).catch((error: unknown) => error)) as Error;
    t.assert(error.message.includes("The statement has run"), error.message);
    t.assert.equal((error as { code?: string }).code, "INVALID_VALUE");
    t.assert.equal((error as { retryable?: boolean }).retryable, false);
    await t.assert.rows(client.query(insert), [{ s: "German, DMY", d: "2024-01-02" }]);
    await t.assert.rows(client.query(`select count(*)::int4 as n from ${s}.log`), [{ n: 2 }]);
    t.assert.deepEqual(await session(), before);
  },
  async "the first statement of a transaction runs with BEGIN, and later ones see the transaction's changes"(t) {
    const [client, s] = await newSchema(t);
    for (const isolation of ["read committed", "serializable"] as const)
      await client.transaction(
        async (tx) => {
          const first = () => t.assert.rows(tx.query(fresh("select 1 as n")), [{ n: 1 }]);
          t.assert.equal(await flights(client, first), once(t));
          await t.assert.rows(tx.query("show transaction_isolation"), [{ transaction_isolation: isolation }]);
          const made = `${s}.made_${isolation.length}`;
          await tx.exec(`create type ${made} as (a int4)`);
          await t.assert.rows(tx.query(`select row(1)::${made} as m`), [{ m: { a: 1 } }]);
        },
        { isolation },
      );
    t.assert.equal(await codeOf(client.transaction((tx) => tx.query(fresh("select nothing")))), "42703");
    t.assert.equal(
      await codeOf(client.transaction((tx) => tx.query({ text: fresh("select $1::int2"), values: [70_000] }))),
      "PARAMETER_OUT_OF_RANGE",
    );
    await t.assert.rows(client.query("select 1 as n"), [{ n: 1 }]);
  },
  async "several new statements begin a transaction once, and what is out of date among them begins it again"(t) {
    const [client, s] = await newSchema(t);
    const notices: string[] = [];
    const observer = { onNotice: ({ message }: { message: string }) => void notices.push(message) };
    const noting = await t.client({ observer });
    const fixed = { isolation: "serializable", readOnly: true, deferrable: true } as const;
    const two = () => [fresh("select 1 as n"), fresh("select 2 as n")] as const;
    const found = await noting.transaction((tx) => tx.batch(two()), fixed);
    t.assert.deepEqual(found.map(({ rows }) => rows).flat(), [{ n: 1 }, { n: 2 }]);
    const [one, other] = two();
    await noting.transaction((tx) => Promise.all([tx.describe(one), tx.query(other)]), fixed);
    t.assert.deepEqual(notices, []);
    await client.simple(`create table ${s}.st (a int4); insert into ${s}.st values (1)`);
    const known = `select * from ${s}.st`;
    for (const _ of "123") await t.assert.rows(client.query(known), [{ a: 1 }]);
    await unseen(client, `alter table ${s}.st add column b text`);
    const [first] = await client.transaction((tx) => tx.batch([known, fresh("select 1")]));
    t.assert.deepEqual(first?.rows, [{ a: 1, b: null }]);
  },
  async "a new statement whose record holds a composite is read with the composite as it is now"(t) {
    const [client, s] = await newSchema(t);
    await client.simple(`create type ${s}.c as (a int4, b int4)`);
    const record = () => fresh(`select row(row(1, 2)::${s}.c) as r`);
    await t.assert.rows(client.query(record()), [{ r: { f1: { a: 1, b: 2 } } }]);
    await unseen(client, `alter type ${s}.c rename attribute a to x`);
    await t.assert.rows(client.query(record()), [{ r: { f1: { x: 1, b: 2 } } }]);
  },
  async "a statement with an enum is known after its first run, and one whose composite is not read after its second"(
    t,
  ) {
    const [client, s] = await newSchema(t);
    await client.simple(`create type ${s}.mood as enum ('sad', 'ok'); create type ${s}.pair as (a int4)`);
    const five = async (work: () => Promise<unknown>) => {
      for (const _ of "12345") await work();
    };
    const mood = `select 'ok'::${s}.mood as m`;
    await five(() => t.assert.rows(client.query(mood), [{ m: "ok" }]));
    const pair = `select row(1)::${s}.pair as p`;
    await five(() => client.exec(pair));
    const prepared = await client.simple(
      `select statement as s from pg_prepared_statements where statement ~ '${s}' and name <> 'pgz_first_run' order by 1`,
    );
    t.assert.deepEqual(prepared[0]!.rows, [{ s: mood }, { s: pair }]);
  },
  async "an atomic batch of unknown statements describes them in one flight, and ends as a known batch does"(t) {
    const [client, s] = await newSchema(t);
    await client.simple(`create table ${s}.b (n int4 primary key deferrable initially deferred, check (n < 100));
          create type ${s}.pair as (a int4)`);
    const add = (value: unknown) => ({
      text: fresh(`insert into ${s}.b values ($1) returning n`),
      values: [value],
    });
    const stored = async () =>
      (await client.query(`select n from ${s}.b order by n`, { rowMode: "array" })).rows.flat();
    const five = [1, 2, 3, 4, 5].map((n) => fresh(`select ${n} as n`));
    for (const wanted of [2, 1]) {
      const run = async () => {
        const results = await client.batch(five);
        t.assert.deepEqual(
          results.map(({ rows, rowCount, command }) => [rows, rowCount, command]),
          [1, 2, 3, 4, 5].map((n) => [[{ n }], 1, "SELECT"]),
        );
      };
      t.assert.equal(await flights(client, run), wanted);
    }
    // Known statements may be among them, and the rows may be unwanted.
    const mixed = async () => {
      const [known, , added] = await client.batch([five[0]!, add(1), add(2)]);
      t.assert.deepEqual([known?.rows, added?.rows], [[{ n: 1 }], [{ n: 2 }]]);
    };
    t.assert.equal(await flights(client, mixed), 2);
    const counted = async () =>
      t.assert.deepEqual(await client.batch([add(3), add(4)], { results: "count" }), [
        { command: "INSERT", rowCount: 1 },
        { command: "INSERT", rowCount: 1 },
      ]);
    t.assert.equal(await flights(client, counted), 2);
    const pair = fresh(`select '(7)'::${s}.pair as p`);
    const inLines = async () => {
      const lines = await client.batch([fresh("select 'ä' as t from generate_series(1, 2)"), pair, five[0]!], {
        results: "ndjson",
      });
      const texts = lines.map(({ bytes }) => new TextDecoder().decode(bytes));
      t.assert.deepEqual(texts, ['{"t":"ä"}\n{"t":"ä"}\n', '{"p":{"a":7}}\n', '{"n":1}\n']);
      t.assert.deepEqual(
        lines.map(({ fields }) => namesOf(fields)),
        [["t"], ["p"], ["n"]],
      );
    };
    t.assert.equal(await flights(client, inLines), 3, "the second asks the catalog");
    const rejects = async (queries: Parameters<Client["batch"]>[0], facts: Record<string, unknown>) => {
      const before = await stored();
      await t.assert.rejects(client.batch(queries), facts);
      t.assert.deepEqual(await stored(), before);
      t.assert.equal(client.stats().transactionStatus, "I");
    };
    const second = { index: 1, rolledBack: [0], skipped: [2] };
    await rejects([add(5), fresh("select 1 / 0"), add(6)], { code: "22012", batch: second });
    await rejects([add(5), add(500), add(6)], { code: "23514", batch: second });
    await rejects([add(5), "select from where", add(6)], {
      code: "42601",
      batch: { index: 1, rolledBack: [], skipped: [0, 2] },
    });
    const atEnd = { index: undefined, rolledBack: [0, 1], skipped: [] };
    await rejects([add(5), add(1)], { code: "23505", batch: atEnd });
    await rejects([add(5), add("x")], { code: "INVALID_PARAMETER" });
    await rejects([add(5), { text: fresh("select $1::int2"), values: [70_000] }], {
      code: "PARAMETER_OUT_OF_RANGE",
    });
    const [, own] = await client.batch([add(5), `select '(1)'::${s}.pair as p`]);
    t.assert.deepEqual(own?.rows, [{ p: { a: 1 } }]);
    const mark = newMark();
    const signal = abortedAt(t, mark);
    const slow = client.batch([add(6), fresh(`select pg_sleep(60) /* ${mark} */`), add(7)], { signal });
    await t.assert.rejects(slow, { code: "ABORTED", hasNoEffect: false });
    t.assert.deepEqual(await stored(), [1, 2, 3, 4, 5]);
    const record = fresh("select r from (select 1 as a) as r");
    t.assert.deepEqual((await client.batch([add(8), record]))[1]?.rows, [{ r: { f1: 1 } }]);
    t.assert.deepEqual(await stored(), [1, 2, 3, 4, 5, 8]);
  },

  // A refused first run is sent again, behind what has followed it on the wire.
  async "a first run that is refused keeps its place among calls that write"(t) {
    const [client, s] = await newSchema(t);
    await client.simple(`create type ${s}.own as (a int4);
      create table ${s}.places (id int4, v text, o ${s}.own); insert into ${s}.places values (1, 'start')`);
    const [known, read] = [
      `update ${s}.places set v = 'second' where id = 1`,
      `select v from ${s}.places where id = 1`,
    ];
    for (let run = 0; run < 3; run++) await client.exec(known);
    const first = (rest = "") => fresh(`update ${s}.places set v = 'first' where id = $1 ${rest}`);
    for (const calls of [
      () => [client.exec(first(), ["+1"]), client.exec(known)],
      () => [client.query(first("returning o"), [1]), client.exec(known)],
      () => [client.exec(fresh("select nope")), client.exec(first(), [1]), client.exec(known)],
      () => [client.exec(first(), ["+1"]), client.exec(fresh(known))],
    ]) {
      await Promise.allSettled(calls());
      t.assert.deepEqual((await client.query(read)).rows, [{ v: "second" }]);
    }
    const [inserted, updated] = await Promise.all([
      client.query(fresh(`insert into ${s}.places values (2, 'x') returning o`)),
      client.exec(`update ${s}.places set v = 'y' where id = 2`),
    ]);
    t.assert.deepEqual([inserted.rows, updated.rowCount], [[{ o: null }], 1]);
    const [, seen] = await Promise.all([client.exec(first(), ["+1"]), client.query(read)]);
    t.assert.deepEqual(seen.rows, [{ v: "first" }]);
    // A read that is refused is answered before a write behind it runs.
    await client.exec(known);
    const reads = () => client.query<{ v: string }>(fresh(`select v, o from ${s}.places where id = $1`), ["+1"]);
    const [found, last] = await Promise.all([reads(), client.exec(first(), [1]), reads()]);
    t.assert.deepEqual([found.rows[0]?.v, last.rowCount], ["second", 1]);
  },

  async "writes that wait for a first run are sent on another connection if theirs is lost, in order"(t) {
    const [client, s] = await newSchema(t);
    await client.exec(`create table ${s}.kept (at int4 generated always as identity, n int4)`);
    const insert = `insert into ${s}.kept (n) values ($1)`;
    await client.exec(insert, [0]);
    const mark = newMark();
    const [read, ...writes] = [
      // No row is read, so that it runs first on all versions.
      client.exec(`select pg_sleep(60) /* ${mark} */`).catch((error: PgzError) => error.code),
      client.exec(insert, [1]),
      client.exec(insert, [2]),
    ];
    await asleep(t, mark);
    await terminateRunning(t, mark);
    t.assert.equal(await read, "57P01");
    await Promise.all(writes);
    await t.assert.rows(client.query(`select n from ${s}.kept order by at`), [{ n: 0 }, { n: 1 }, { n: 2 }]);
  },

  async "a batch in a transaction names the item that cannot be described, whatever types the others have"(t) {
    const [client, s] = await newSchema(t);
    await client.simple(`create type ${s}.own as (a int4)`);
    const queries = () => [fresh(`select row(1)::${s}.own as v`), fresh(`select * from ${s}.missing`)];
    const whole = client.transaction((tx) => tx.batch(queries()));
    await t.assert.rejects(whole, { code: "42P01", batch: { index: 1, rolledBack: [], skipped: [0] } });
    await client
      .transaction(async (tx) => {
        const settled = await tx.batch(queries(), { atomic: false });
        t.assert.deepEqual(
          settled.map((one) => (one.status === "rejected" ? (one.reason as PgzError).code : one.status)),
          ["25P02", "42P01"],
        );
      })
      .catch(() => {});
    await t.assert.rows(client.query(`select row(1)::${s}.own as v`), [{ v: { a: 1 } }]);
  },
};
