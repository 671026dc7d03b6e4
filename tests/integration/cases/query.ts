// query, exec, sql: what they return for each input.
import type { Cases } from "../context.ts";
import { ended, newSchema, pidOf, text, unseen } from "./helpers.ts";

const codeOf = ({ code }: { code: string }) => code;

export const query: Cases = {
  "query returns rows as objects, with rowCount, command and fields": {
    differs: ["text"],
    async run(t) {
      const client = await t.client();
      const { sql } = t.pgz;
      const result = await client.query(sql`select ${7}::int4 as id, ${"é€😀"}::text as "ü", null::text as nothing`);
      t.assert.deepEqual(result.rows, [{ id: 7, ü: "é€😀", nothing: null }]);
      t.assert.deepEqual([result.rowCount, result.command], [1, "SELECT"]);
      const fields = result.fields.map(({ name, typeOid }) => `${name} ${typeOid}`);
      t.assert.deepEqual(fields, ["id 23", "ü 25", "nothing 25"]);
    },
  },
  async "first gives the first row, undefined if there is none, and rejects as query does"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    const user = await client.first<{ n: number }>(sql`select ${7}::int4 as n`);
    t.assert.equal(user?.n, 7);
    t.assert.deepEqual(await client.first`select n from generate_series(${3}::int4, 5) n`, { n: 3 });
    t.assert.deepEqual(await client.first("select $1::text as a", ["x"], { rowMode: "array" }), ["x"]);
    t.assert.equal(await client.first("select 1 where false"), undefined);
    t.assert.deepEqual(await client.transaction((tx) => tx.first("select 1 as a")), { a: 1 });
    await t.assert.code(client.first("select 1/0"), "22012");
    const cut = client.first("select repeat('x', 2000)", { maxFieldBytes: 1000, onLimit: "truncate" });
    await t.assert.rejects(cut, { code: "RESPONSE_TOO_LARGE", query: "select repeat('x', 2000)" });
    await t.assert.code(client.first(5 as never), "INVALID_QUERY");
  },
  async "cache: false appends its comment to the text of each call, and refuses a value that is not boolean"(t) {
    const client = await t.client();
    const [text, cache] = ["select current_query() as q -- the text", false];
    const sent = `${text}\n/* cache: false, by now() */`;
    const bytes = (value: unknown) => new Response(value as Uint8Array<ArrayBuffer>).json();
    const looped = [];
    for await (const { q } of client.rows<{ q: string }>(text, { cache })) looped.push(q);
    for await (const [row] of client.cursor<{ q: string }>(text, 5, { cache })) looped.push(row!.q);
    t.assert.deepEqual(looped, [sent, sent]);
    await t.assert.rows(client.query(text, { cache }), [{ q: sent }]);
    await t.assert.rows(client.query(`${text} $1`, [], { cache }), [{ q: sent.replace("t\n", "t $1\n") }]);
    t.assert.deepEqual(await bytes(await client.json(text, { cache })), [{ q: sent }]);
    t.assert.deepEqual(await bytes(await client.stream(text, { cache })), { q: sent });
    t.assert.deepEqual((await client.batch([text], { cache }))[0]!.rows, [{ q: sent }]);
    await client.transaction((tx) => t.assert.rows(tx.query(text, { cache }), [{ q: sent }]));
    await t.assert.rows(client.query(text, { cache: true }), [{ q: text }]);
    await t.assert.rows(client.query(text), [{ q: text }]);
    t.assert.equal(
      (await client.exec("insert into pg_temp.none values (1)", { cache }).catch(codeOf)) as string,
      "42P01",
    );
    await t.assert.code(client.query(text, { cache: "no" as never }), "INVALID_OPTION");
  },
  async "a scope over Hyperdrive keeps its statements out of the cache, which does not know the tenant"(t) {
    const client = await t.client({ host: "binding.hyperdrive.local", hostaddr: "127.0.0.1", sslmode: "disable" });
    const text = "select current_query() as q, current_setting('app.tenant', true) as tenant";
    const sent = `${text}\n/* cache: false, by now() */`;
    const scope = client.scope({ settings: { "app.tenant": "7" } });
    const bytes = (value: unknown) => new Response(value as Uint8Array<ArrayBuffer>).json();
    const row = { q: sent, tenant: "7" };
    for (let time = 0; time < 3; time++) await t.assert.rows(scope.query(text), [row]);
    for await (const each of scope.rows(text)) t.assert.deepEqual(each, row);
    for await (const each of scope.cursor(text, 5)) t.assert.deepEqual(each, [row]);
    t.assert.deepEqual(await bytes(await scope.json(text)), [row]);
    t.assert.deepEqual(await bytes(await scope.stream(text)), row);
    t.assert.deepEqual((await scope.batch([text, text]))[1]!.rows, [row]);
    await scope.transaction(async (tx) => {
      await t.assert.rows(tx.query(text), [row]);
      await tx.transaction((inner) => t.assert.rows(inner.query(text), [row]));
    });
    const { flights } = client.stats();
    const together = ["select 1 as a", "select 2 as b -- new", text].map((each) => scope.query(each));
    t.assert.deepEqual((await Promise.all(together)).at(-1)!.rows, [row]);
    // Before PostgreSQL 16 they are described first.
    if (t.server.major >= 16)
      t.assert.equal(client.stats().flights - flights, 1, "calls made together still share a round trip");
    const prepared = await scope.prepare<typeof row>(text);
    await t.assert.rows(prepared.query(), [row]);
    await t.assert.rows(scope.query(text, { cache: true }), [{ q: text, tenant: "7" }]);
    t.assert.equal((await client.query<typeof row>(text)).rows[0]!.q, text);
  },
  async "query works as a template tag and with rowMode array"(t) {
    const client = await t.client();
    await t.assert.rows(client.query`select ${1}::int4 as a, ${2}::int4 as b`, [{ a: 1, b: 2 }]);
    await t.assert.rows(client.query("select 1 as a, 2 as a", { rowMode: "array" }), [[1, 2]]);
  },
  "values of each type are returned as the type policy says": {
    differs: ["engine"],
    async run(t) {
      const client = await t.client();
      const { rows } =
        await client.query(`select true as b, 1::int2 as i2, 9007199254740993::int8 as i8, 4294967295::oid as o,
          1.5::float8 as f, 'NaN'::float8 as nan, '-Infinity'::float4 as inf, 12345678901234567890.10::numeric as n,
          '\\x00ff'::bytea as by, '{"a":[1,null]}'::jsonb as j,
          date '2024-02-29' as d, timestamptz '2024-01-02 03:04:05.123456+02' as ts, array[1,null,3] as ai,
          array[9007199254740993] as a8, uuid '550e8400-e29b-41d4-a716-446655440000' as u,
          interval '1 day -1 hour' as iv, int4range(1,5) as r, 'v'::varchar as v, 'c'::char(3) as c,
          time '01:02:03' as t, inet '10.0.0.1' as ip, '{{1,2},{3,4}}'::int4[] as m, '{}'::int4[] as e,
          'infinity'::timestamptz as far, null::varchar as z`);
      t.assert.deepEqual(rows, [
        {
          b: true,
          i2: 1,
          i8: "9007199254740993",
          o: 4294967295,
          f: 1.5,
          nan: NaN,
          inf: -Infinity,
          n: "12345678901234567890.10",
          by: new Uint8Array([0, 255]),
          j: { a: [1, null] },
          d: "2024-02-29",
          ts: "2024-01-02T01:04:05.123456+00:00",
          ai: [1, null, 3],
          a8: ["9007199254740993"],
          u: "550e8400-e29b-41d4-a716-446655440000",
          iv: "P1DT-1H",
          r: "[1,5)",
          v: "v",
          c: "c  ",
          t: "01:02:03",
          ip: "10.0.0.1",
          m: [
            [1, 2],
            [3, 4],
          ],
          e: [],
          far: "infinity",
          z: null,
        },
      ]);
    },
  },
  "parameters are encoded for their real types": {
    differs: ["engine"],
    async run(t) {
      const client = await t.client();
      const { sql } = t.pgz;
      const { rows } =
        await client.query(sql`select ${true}::bool as b, ${-32768}::int2 as i2, ${2147483647}::int4 as i4,
          ${9007199254740993n}::int8 as i8, ${"1.50"}::numeric as n,
          ${0.1}::float8 as f, ${new Uint8Array([1, 2])}::bytea as by, ${{ a: 1 }}::jsonb as j,
          ${new Date(0)}::timestamptz as ts, ${[1, null, 3]}::int4[] as ai, ${["a,b", 'q"', null]}::text[] as at,
          ${null}::text as nul`);
      t.assert.deepEqual(rows, [
        {
          b: true,
          i2: -32768,
          i4: 2147483647,
          i8: "9007199254740993",
          n: "1.50",
          f: 0.1,
          by: new Uint8Array([1, 2]),
          j: { a: 1 },
          ts: "1970-01-01T00:00:00+00:00",
          ai: [1, null, 3],
          at: ["a,b", 'q"', null],
          nul: null,
        },
      ]);
    },
  },
  async "exec gives the command and its row count"(t) {
    const client = await t.client();
    t.assert.deepEqual(await client.exec("create temp table things (id int4)"), {
      command: "CREATE TABLE",
      rowCount: null,
    });
    t.assert.deepEqual(await client.exec("insert into things select generate_series(1, 5)"), {
      command: "INSERT",
      rowCount: 5,
    });
    t.assert.deepEqual(await client.exec("select * from things"), { command: "SELECT", rowCount: 5 });
    await t.assert.rows(client.query("delete from things where id > 3 returning id"), [{ id: 4 }, { id: 5 }]);
  },
  async "empty queries, no columns and no rows are valid results"(t) {
    const client = await t.client();
    await t.assert.rows(client.query(""), []);
    t.assert.equal((await client.query("")).command, "");
    await t.assert.rows(client.query("select from generate_series(1, 2)"), [{}, {}]);
    await t.assert.rows(client.query("select 1 where false"), []);
  },
  "a client is disposed of by await using": {
    differs: ["engine"],
    async run(t) {
      const client = await t.pgz.connect({ ...t.options });
      const pid = await pidOf(client);
      // Written without `await using`, because Node 20 does not parse it and old engines lack the symbol.
      const symbol = (Symbol as { asyncDispose?: symbol }).asyncDispose ?? Symbol.for("Symbol.asyncDispose");
      await (client as unknown as Record<symbol, () => Promise<void>>)[symbol]!();
      await ended(t, pid);
    },
  },
  async "startup parameters and applicationName reach the session"(t) {
    const client = await t.client({
      applicationName: "cases",
      startup: { search_path: "pg_catalog", TimeZone: "Asia/Tokyo" },
    });
    const { rows } = await client.query(
      "select current_setting('application_name') as a, current_setting('search_path') as s, " +
        "current_setting('timezone') as z",
    );
    t.assert.deepEqual(rows, [{ a: "cases", s: "pg_catalog", z: "Asia/Tokyo" }]);
  },
  async "a statement is prepared again after its table changes"(t) {
    const client = await t.client();
    await client.exec("create temp table changing (a int4)");
    await client.exec("insert into changing values (1)");
    const select = t.pgz.sql`select * from changing`;
    for (let run = 0; run < 3; run++) await t.assert.rows(client.query(select), [{ a: 1 }]);
    await unseen(client, "alter table changing add column b text default 'x'");
    for (let run = 0; run < 3; run++) await t.assert.rows(client.query(select), [{ a: 1, b: "x" }], `run ${run}`);
    await unseen(client, "alter table changing alter column a type text using a::text");
    for (let run = 0; run < 3; run++)
      await t.assert.rows(client.query(select), [{ a: "1", b: "x" }], `typed run ${run}`);
  },
  async "a parameter whose type changes is described anew, and its value stays exact"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    const noon = new Date("2024-01-02T12:34:56Z");
    await client.exec("set timezone to 'UTC'");
    await client.exec("create temp table turning (d date, n int4, k int4)");
    const insert = (d: unknown, n: unknown, k: unknown) =>
      client.exec(sql`insert into turning values (${d}, ${n}, ${k})`);
    for (let run = 0; run < 3; run++) await insert(noon, run, run);
    await unseen(client, "alter table turning alter d type timestamptz, alter n type int8, alter k type text");
    await insert(noon, 2 ** 40, "text");
    const { rows } = await client.query("select d, n, k from turning where k = 'text'");
    t.assert.deepEqual(rows, [{ d: "2024-01-02T12:34:56+00:00", n: String(2 ** 40), k: "text" }]);
  },
  async "a statement that may have run is never run twice"(t) {
    const client = await t.client();
    await client.exec("create temp table once (n int4)");
    for (const code of ["26000", "42P05", "22012"]) {
      await t.assert.code(
        client.exec(
          `do $$ begin insert into once values (1); commit; raise exception using errcode = '${code}'; end $$`,
        ),
        code,
      );
    }
    await t.assert.rows(client.query("select count(*)::int4 as n from once"), [{ n: 3 }]);
  },
  async "columns that change to types without a decoder are described anew, or one call is refused"(t) {
    const client = await t.client();
    await client.exec("create temp table widening (a int4)");
    await client.exec("insert into widening values (1)");
    const select = "select * from widening";
    for (let run = 0; run < 3; run++) await client.query(select);
    await unseen(client, "alter table widening add column b inet default '10.0.0.1'");
    await t.assert.rows(client.query(select), [{ a: 1, b: "10.0.0.1" }]);
    await client.query(select);
    await unseen(client, "alter table widening alter a type inet using '10.0.0.2'");
    // The statement may be unnamed by now on this connection. Either the server or the driver notices the change,
    // and the call after that works.
    const outcome = await client.query(select).then(
      ({ rows }) => rows,
      (error: { code: string }) => error.code,
    );
    if (typeof outcome === "string") t.assert.equal(outcome, "SHAPE_CHANGED");
    await t.assert.rows(client.query(select), [{ a: "10.0.0.2", b: "10.0.0.1" }]);
  },
  async "a client_encoding other than UTF8 ends the connection before any text is corrupted"(t) {
    const client = await t.client();
    const error = await t.assert.code(client.exec("set client_encoding to 'LATIN1'"), "CLIENT_ENCODING_NOT_UTF8");
    t.assert(error instanceof t.pgz.ProtocolError, "a ProtocolError");
    await t.assert.rows(client.query("show client_encoding"), [{ client_encoding: "UTF8" }]);
  },
  async "a statement that was deallocated is prepared again"(t) {
    const client = await t.client();
    for (let run = 0; run < 3; run++) await client.query("select 1 as deallocated");
    await unseen(client, "deallocate all");
    await t.assert.rows(client.query("select 1 as deallocated"), [{ deallocated: 1 }]);
    await t.assert.rows(client.query("select 1 as deallocated"), [{ deallocated: 1 }]);
  },
  async "the helpers of sql insert, update and find rows"(t) {
    const [client, schema] = await newSchema(t);
    const { sql } = t.pgz;
    const table = sql.identifier(schema, "people");
    await client.exec(sql`create table ${table} (id int4, "na""me" text, meta jsonb, tags text[])`);
    const people = [
      { id: 1, 'na"me': "Ann", meta: sql.json("text"), tags: ["a", 'b"c'] },
      { id: 2, 'na"me': null, meta: { a: [1] }, tags: [] },
    ];
    t.assert.equal((await client.exec(sql`insert into ${table} ${sql.values(people)}`)).rowCount, 2);
    t.assert.equal(
      (
        await client.exec(
          sql`insert into ${table} (id, meta) ${sql.values([
            [3, sql.json(null)],
            [4, sql`default`],
          ])}`,
        )
      ).rowCount,
      2,
    );
    await client.exec(
      sql`update ${table} set ${sql.set({ 'na"me': "Bob", tags: sql`array['x']` })} where id in ${sql.in([2, 7])}`,
    );
    const wanted = [sql`id < ${4}`, sql`"na""me" is not null`];
    const { rows } = await client.query(
      sql`select * from ${table} where ${sql.join(wanted, sql` and `)} order by id ${[sql`limit ${10}`, sql` offset ${0}`]}`,
    );
    t.assert.deepEqual(rows, [
      { id: 1, 'na"me': "Ann", meta: "text", tags: ["a", 'b"c'] },
      { id: 2, 'na"me': "Bob", meta: { a: [1] }, tags: ["x"] },
    ]);
    await t.assert.rows(client.query(sql`select id, meta::text as meta from ${table} where id > 2 order by id`), [
      { id: 3, meta: "null" },
      { id: 4, meta: null },
    ]);
    await t.assert.rows(
      client.query(sql`select ${sql.json("é")}::json as j, ${[sql.json("a"), sql.json({ b: 1 })]}::jsonb[] as js`),
      [{ j: "é", js: ["a", { b: 1 }] }],
    );
  },
  "long parameters, long SQL and long rows, on a first and on a second connection": {
    differs: ["text"],
    async run(t) {
      for (const _ of ["first", "second"]) {
        const client = await t.client();
        const { sql } = t.pgz;
        for (const length of [4_095, 4_096, 5_000, 70_000, 1_000_000]) {
          const long = "x".repeat(length);
          t.assert(
            (await client.query<{ a: string }>(sql`select ${long}::text as a`)).rows[0]?.a === long,
            String(length),
          );
          t.assert.equal((await client.query<{ a: number }>(`select /* ${long} */ 7 as a`)).rows[0]?.a, 7);
        }
        // These are larger than any buffer of those drivers, in rows and in columns.
        t.assert.equal(
          (await text(await client.stream("select repeat('x', 100000) as a from generate_series(1, 20)"))).length,
          20 * (100_000 + '{"a":""}\n'.length),
        );
        const wide = Array.from({ length: 1_600 }, (_, index) => `${index} as c${index}`).join();
        t.assert.equal(
          Object.keys((await client.query<Record<string, unknown>>(`select ${wide}`)).rows[0]!).length,
          1_600,
        );
      }
    },
  },
};
