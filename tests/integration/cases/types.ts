// Values of all types must be byte for byte what the server's to_json gives in a session with the settings of
// docs/types.md, whatever the settings of our session: built-in types first, then those of a database.
import type { Client, PgzError } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { FaultHost } from "../../faults/control.ts";
import { pause, until } from "../../support/until.mjs";
import { newSchema, rowsOf, text, unique, unseen } from "./helpers.ts";

const CANONICAL = {
  TimeZone: "UTC",
  IntervalStyle: "iso_8601",
  DateStyle: "ISO",
  bytea_output: "hex",
  extra_float_digits: "1",
};
const ODD = {
  TimeZone: "America/St_Johns",
  IntervalStyle: "sql_standard",
  DateStyle: "German, DMY",
  bytea_output: "escape",
  extra_float_digits: "-15",
};

/** A text with everything that is hard to read. */
const TEXT_ODD = { ...ODD, IntervalStyle: "postgres", DateStyle: "ISO, DMY", extra_float_digits: "3" };

/** One expression for each type and each kind of edge case. */
const VALUES = (major: number) => [
  "true",
  "(-32768)::int2",
  "2147483647::int4",
  "9223372036854775807::int8",
  "0.1::float4",
  "'NaN'::float8",
  "1e21::float8",
  "-12345.6780::numeric",
  "'Infinity'::float8",
  "'é \"q\" \\ \n'::text",
  "'x'::varchar",
  "'x'::char(3)",
  "'n'::name",
  "'x'::\"char\"",
  "'\\x00ff'::bytea",
  "'550e8400-e29b-41d4-a716-446655440000'::uuid",
  "date '0044-03-15 BC'",
  "date '10000-01-01'",
  "date 'infinity'",
  "time '24:00:00'",
  "timetz '03:04:05.12-05:30'",
  "timestamp '2024-01-02 03:04:05.123456'",
  "timestamp '0044-03-15 12:00:00 BC'",
  "timestamptz '2024-01-02 03:04:05+02'",
  "timestamptz '10000-01-01 00:00+00'",
  "timestamptz '-infinity'",
  "interval '1 year 2 mons 3 days 04:05:06.789'",
  "interval '-1 day +00:00:01'",
  ...(major >= 17 ? ["interval 'infinity'"] : []),
  ...(major >= 19 ? ["'18446744073709551615'::oid8", "array['5'::oid8]", "'template1'::regdatabase"] : []),
  "'{\"a\": 1}'::json",
  "'{\"a\": 1}'::jsonb",
  "'1 3'::int2vector",
  "'1 2'::oidvector::text",
  "point '(1,-0.5)'",
  "line '{1,2,3}'",
  "lseg '[(1,2),(3,4)]'",
  "box '(1,2),(3,4)'",
  "path '[(1,2),(3,4)]'",
  "path '((1,2),(3,4))'",
  "polygon '((1,2),(3,0.1))'",
  "circle '<(1,2),0.3>'",
  "inet '10.1.2.3/8'",
  "inet '10.1.2.3'",
  "cidr '10.0.0.0/8'",
  "cidr '::1/128'",
  "inet '::ffff:1.2.3.4/96'",
  "macaddr '08:00:2b:01:02:03'",
  "macaddr8 '08:00:2b:01:02:03:04:05'",
  "B'1011'",
  "B'101'::varbit",
  "pg_lsn '16/B374D848'",
  "'4294967295'::xid",
  "'7'::cid",
  "'18446744073709551615'::xid8",
  "'(7,9)'::tid",
  "jsonpath '$.a[*] ? (@ > 1)'",
  "int4range(1,10)",
  "int8range(null,5)",
  "numrange(1.10,2.00,'[]')",
  "daterange('2024-01-01','infinity')",
  "'empty'::int4range",
  "tsrange('2024-01-01','2024-02-01 00:00:00.5')",
  "tstzrange('2024-01-01 00:00+02','2024-02-01 00:00+00','[]')",
  "'{[1,3),[5,9)}'::int4multirange",
  "'{[2024-01-01,2024-02-01)}'::datemultirange",
  "'{[2024-01-01 00:00+00,2024-02-01 00:00+00)}'::tstzmultirange",
  "array[[1,2],[3,4]]",
  "array[timestamptz '2024-01-02 03:04:05+02', null]",
  "array[1.50,'NaN']::numeric[]",
  "array['\\x00ff'::bytea]",
  "array[0.1::float4]",
  "array[interval '1 day']",
  "array[tstzrange('2024-01-01 00:00+00',null)]",
  "array['{[1,2)}'::int4multirange]",
  "array[inet '::1']",
  "array[point '(1,2)', null]",
  "array[box '(1,2),(3,4)', box '(1,2),(3,5)']",
  "array[B'10']",
  "array['{}'::json]",
  "'[0:1]={7,8}'::int4[]",
  "array['5'::xid8]",
  "array[path '((1,2))']",
  "row(1, 'x', null, timestamptz '2024-01-02 03:04:05+02', array[date '2024-01-02'], row(0.1::float8, '\\x01'::bytea))",
  "array[row(1,'a b'),row(2,null)]",
  "'a b c'::tsvector",
  "'a & b'::tsquery",
  "'pg_class'::regclass",
  "'int4'::regtype",
  "'<a>1</a>'::xml",
  "'1.50'::money",
  "pg_snapshot '10:20:10,14'",
  "array['a b'::tsvector, null, $$'it''s':1$$::tsvector]",
  "array['a & b'::tsquery]",
  "array['pg_class'::regclass, 'pg_type']",
  "array[array['int4'::regtype], array['numeric(10,2)'::regtype]]",
  "array['<a b=\"c,d\">{1}</a>'::xml]",
  "'[2:3]={1.50,1000}'::money[]",
  "array[pg_snapshot '10:20:10,14']",
  "'{}'::regclass[]",
  "null::point",
];

async function settings(client: Client, wanted: Record<string, string>): Promise<void> {
  await client.query(
    `select ${Object.entries(wanted)
      .map(([name, value]) => `set_config('${name}', '${value}', false)`)
      .join()}`,
  );
}

const lines = async (client: Client, sql: string) => text(await client.stream(sql));

/** Returns the server's own JSON of the row. */
async function expected(t: Context, sql: string): Promise<string> {
  const client = await t.client();
  await settings(client, CANONICAL);
  const { rows } = await client.query(`select to_json(result_row)::text as line from (${sql}) result_row`);
  return rows.map(({ line }) => `${line as string}\n`).join("");
}

export const types: Cases = {
  "a row of all types is the server's to_json under odd settings, on its first, second and third execution": {
    differs: ["text", "engine"],
    async run(t) {
      const sql = `select ${VALUES(t.server.major)
        .map((value, index) => `${value} as c${index}`)
        .join()}`;
      const wanted = await expected(t, sql);
      const client = await t.client();
      await settings(client, ODD);
      for (const which of ["first", "second", "third"]) t.assert.equal(await lines(client, sql), wanted, which);
    },
  },
  async "simple returns what query returns, for all types, whatever the settings"(t) {
    const client = await t.client();
    // The text of a record does not say its types.
    const values = VALUES(t.server.major).filter((value) => !value.includes("row("));
    const sql = `select ${values.map((value, index) => `${value} as c${index}`).join()}`;
    for (const some of [{}, { ...CANONICAL, TimeZone: "Asia/Kolkata" }, TEXT_ODD]) {
      if (Object.keys(some).length) await settings(client, some);
      for (const options of [{}, { int8: "bigint", numeric: "number", dates: "date", json: "text" }] as const) {
        const { rows } = await client.query(sql, options);
        t.assert.deepEqual((await client.simple(sql, options))[0]?.rows, rows);
      }
    }
    // Parsers get the same values too.
    const types = Object.fromEntries([16, 20, 701, 1007, 1700, 1184].map((oid) => [oid, (value: unknown) => [value]]));
    const parsed =
      "select true as b, 7::int8 as i, 'NaN'::float8 as f, array[1] as a, 1.5 as n, timestamptz '2024-01-01 00:00Z' as t";
    const { rows } = await client.query(parsed, { types });
    t.assert.deepEqual((await client.simple(parsed, { types }))[0]?.rows, rows);
  },
  async "a json value with line ends in it is one line, and an oid is a number"(t) {
    const client = await t.client();
    t.assert.equal(
      await lines(
        client,
        `select E'{"a":\\r\\n1}\\n'::json as j, array[E'[\\n]'::json] as a, row(E'\\n1'::json) as r,
              4294967295::oid as o`,
      ),
      '{"j":{"a":1},"a":[[]],"r":{"f1":1},"o":4294967295}\n',
    );
  },
  "enums, domains, composites, ranges and arrays of them are what the catalog says": {
    ownServer: true,
    async run(t) {
      const [client, s] = await newSchema(t);
      for (const ddl of [
        `create type ${s}.mood as enum ('sad', 'ok, "fine"')`,
        `create domain ${s}.id as int8 check (value > 0)`,
        `create domain ${s}.ids as ${s}.id[]`,
        `create type ${s}.part as (x ${s}.id, m ${s}.mood[], "odd "" name" text)`,
        `create type ${s}.whole as (p ${s}.part, gone int, ps ${s}.part[], at timestamptz, r tstzrange, i ${s}.ids)`,
        `alter type ${s}.whole drop attribute gone`,
        `create type ${s}.floats as range (subtype = float8)`,
        `create type ${s}.texts as range (subtype = text)`,
        `create table ${s}.rows (n int, w ${s}.whole)`,
      ])
        await client.exec(ddl);
      const part = `row(5, array['sad']::${s}.mood[], 'q"')::${s}.part`;
      const whole = `row(${part}, array[null, ${part}], timestamptz '2024-01-01 12:00+02',
          tstzrange('2024-01-01 00:00+00', null), array[1,2])::${s}.whole`;
      await client.exec(`insert into ${s}.rows values (1, ${whole}), (2, null)`);
      const anonymous = `row(1, 'sad'::${s}.mood, ${part}) as anonymous,`;
      const sql = `select 'sad'::${s}.mood as m, array['sad', 'ok, "fine"']::${s}.mood[] as ms, 1::${s}.id as d,
          array[1, null]::${s}.id[] as ds, ${whole} as w,
          array[${whole}] as ws, r as r, array_agg(r) over () as rs, ${anonymous}
          ${s}.floats(1.5, 'Infinity') as f, array[${s}.floats(1, 2)] as fs,
          ${s}.texts('a b', 'c"\\') as t, ${s}.floats_multi as fm, array[null, 'sad']::${s}.mood[] as n
          from ${s}.rows r, lateral (select array[${s}.floats(1, 2)]::text as floats_multi) as "${s}" order by r.n`;
      const query = sql.replace(`${s}.floats_multi`, `"${s}".floats_multi`);
      const wanted = await expected(t, query);
      await settings(client, ODD);
      for (const which of ["first", "second", "third"]) t.assert.equal(await lines(client, query), wanted, which);
      // Another connection of the same isolate needs the types as well, but need not query the catalog.
      const other = await t.client();
      t.assert.equal(await lines(other, query), wanted, "another connection");
      const small = `select array[1]::${s}.id[] as ds, ${part} as p`;
      const { rows } = await client.query(small);
      t.assert.deepEqual(rows, [{ ds: ["1"], p: { x: "5", m: ["sad"], 'odd " name': 'q"' } }]);
      // The simple protocol works too, once the catalog has been queried, and so does another connection of the
      // isolate.
      const named = query.replace(anonymous, "");
      await settings(other, TEXT_ODD);
      t.assert.deepEqual((await other.simple(small))[0]?.rows, rows);
      t.assert.deepEqual((await other.simple(named))[0]?.rows, (await other.query(named)).rows);
    },
  },
  "types of extensions are read by their name": {
    ownServer: true,
    async run(t) {
      for (const name of ["hstore", "citext", "ltree"])
        await t
          .side(`create extension if not exists ${name}`)
          .catch(() => t.side(`create extension if not exists ${name}`));
      const sql = `select 'a=>1,b=>NULL'::hstore as h, array['"q\\""=>"x y"', '']::hstore[] as hs,
        'CiTeXt'::citext as c, array['A']::citext[] as cs, 'a.b'::ltree as l,
        array['a.b']::ltree[] as ls, '*.a'::lquery as q, array['a & b']::ltxtquery[] as x`;
      const wanted = await expected(t, sql);
      t.assert.equal(await lines(await t.client(), sql), wanted);
    },
  },
  "a changed type fails one call, not the connection, and is looked up again": {
    ownServer: true,
    async run(t) {
      const [client, s] = await newSchema(t);
      await client.exec(`create type ${s}.pair as (a int, b text)`);
      await client.exec(`create table ${s}.pairs (p ${s}.pair)`);
      await client.exec(`insert into ${s}.pairs values (row(1, 'x'))`);
      const sql = `select p from ${s}.pairs`;
      const other = `select array_agg(p) as a from ${s}.pairs`;
      t.assert.equal(await lines(client, sql), '{"p":{"a":1,"b":"x"}}\n');
      t.assert.equal(await lines(client, other), '{"a":[{"a":1,"b":"x"}]}\n');
      await unseen(client, `alter type ${s}.pair add attribute c int cascade`);
      await t.assert.code(lines(client, sql), "SHAPE_CHANGED");
      t.assert.equal(await lines(client, sql), '{"p":{"a":1,"b":"x","c":null}}\n');
      // Other statements that return the type use the new definition.
      t.assert.equal(await lines(client, other), '{"a":[{"a":1,"b":"x","c":null}]}\n');
    },
  },
  // A statement is described, its type is looked up in the catalog, and then it runs: the type may be another one at
  // each step.
  "a type that is dropped and created again meanwhile gives its own values or an error, never text": {
    slow: true,
    only: "plain",
    async run(t) {
      const { host, port } = t.options;
      const proxy = await new FaultHost(t.faults).proxy({ host, port }, { delay: 12 });
      t.after(() => proxy.close());
      for (let after = 0; after < 110; after += 10) {
        const [side, s] = await newSchema(t);
        await side.exec(`create type ${s}.pair as (a int4, b int4)`);
        const options = { host: proxy.host, port: proxy.port, applicationName: s };
        const client = await t.client({ ...options, firstRun: "describe" });
        const pair = () => client.query(`select '(1,2)'::${s}.pair as p`);
        const meanwhile = Promise.allSettled([pair()]);
        await pause(after);
        await side.simple(`drop type ${s}.pair; create type ${s}.pair as (b int4, a int4)`);
        const got = JSON.stringify(rowsOf(await meanwhile)[0]);
        // XX000 is the server's own: cache lookup failed for type.
        const right = ['[{"p":{"a":1,"b":2}}]', '[{"p":{"b":1,"a":2}}]', '"SHAPE_CHANGED"', '"XX000"'];
        t.assert(right.includes(got), `after ${after} ms: ${got}`);
        // If the type was changed after the first call, the second call is the one that reports it.
        const next = await pair().catch((error: { code: string }) =>
          error.code === "SHAPE_CHANGED" ? pair() : undefined,
        );
        t.assert.deepEqual(next?.rows, [{ p: { b: 1, a: 2 } }]);
      }
    },
  },
  "a catalog query that timed out is repeated by the next call": {
    ownServer: true,
    async run(t) {
      const [client, s] = await newSchema(t);
      await client.simple(`create type ${s}.mood as enum ('sad'); set lock_timeout = 50`);
      const { superuserUrl } = t.server;
      const { username: user, password } = new URL(superuserUrl);
      const other = await t.client({ user, password });
      await other.transaction(async (tx) => {
        await tx.exec("lock table pg_catalog.pg_range in access exclusive mode");
        await t.assert.code(client.query(`select array['sad']::${s}.mood[] as ms`), "55P03");
      });
      await t.assert.rows(client.query(`select array['sad']::${s}.mood[] as ms`), [{ ms: ["sad"] }]);
    },
  },
  "dates and times of a server without integer_datetimes are received and sent as text": {
    only: "plain",
    async run(t) {
      const host = new FaultHost(t.faults);
      const { user, password } = await host.info();
      const scenarios = ["integer_datetimes off", "integer_datetimes not reported"];
      for (const { port } of await host.plans(scenarios.map((scenario) => ({ scenario })))) {
        const options = { host: "127.0.0.1", port, user, password, database: "app", sslmode: "disable" } as const;
        const client = await t.pgz.connect(options);
        const at = new Date("2024-05-06T07:08:09Z");
        const query = t.pgz.sql`select at, share, ${at}::timestamptz::text as given from scripted_times`;
        const row = { at: "2024-01-02T03:04:05.6+00:00", share: 0.1 + 0.2, given: "2024-05-06T07:08:09.000Z" };
        for (const run of ["described", "known"]) await t.assert.rows(client.query(query), [row], run);
        const items = await client.batch([query, query]);
        t.assert.deepEqual(rowsOf(items), [[row], [row]]);
        t.assert.equal(await text(await client.stream(query)), `${JSON.stringify(row)}\n`);
        await client.close();
      }
    },
  },
  "bytes of SQL_ASCII that are not UTF-8 are errors of the server, and such a notification counts as a loss": {
    ownServer: true,
    async run(t) {
      const database = unique("ascii");
      const { username: user, password } = new URL(t.server.superuserUrl);
      await t.side(`create database ${database} template template0 encoding 'SQL_ASCII' locale 'C'`);
      try {
        const client = await t.pgz.connect({ ...t.options, database, user, password });
        try {
          const lost: string[] = [];
          const onReconnect = (error: PgzError) => void lost.push(error.code);
          const channel = await client.listen("bytes", { onReconnect });
          const text = "E'a\\xffb\\xc3'";
          for (const _ of ["first", "second"]) await t.assert.code(client.query(`select ${text} as t`), "22021");
          // The server ends a session to which it cannot send a notification.
          await client.notify("bytes", "good");
          await client.exec(`select pg_notify('bytes', ${text})`);
          await until(() => lost.length === 1);
          await client.notify("bytes", "after");
          const seen: string[] = [];
          for await (const { payload } of channel) if (seen.push(payload) === 2) break;
          t.assert.deepEqual([seen, lost], [["good", "after"], ["22021"]]);
        } finally {
          await client.close();
        }
      } finally {
        await t.side(`drop database ${database} with (force)`);
      }
    },
  },
  "a type that the server cannot write in binary is requested as text from then on": {
    ownServer: true,
    async run(t) {
      // The type is known by its name and has lost its send function. It is in a database of its own.
      const database = unique("sendless");
      const { username: user, password } = new URL(t.server.superuserUrl);
      const options = { ...t.options, database, user, password };
      await t.side(`create database ${database}`);
      try {
        const client = await t.pgz.connect(options);
        try {
          await client.exec("create extension citext");
          await client.exec("alter type citext set (send = none)");
          await client.exec("create table notes (id int, note citext, at timestamptz, size float8)");
          await client.exec("insert into notes values (1, 'Hé \"', '2024-01-02 03:04:05.6+00', 0.1)");
          const row = { id: 1, note: 'Hé "', size: 0.1 };
          const all = "select id, note, size from notes";
          for (const run of ["first", "second", "third"]) await t.assert.rows(client.query(all), [row], run);
          const notes = "select array_agg(note) as notes from notes";
          await client.describe(notes);
          for (const run of ["described", "again"])
            await t.assert.rows(client.query(notes), [{ notes: [row.note] }], run);
          const wheres = [1, 2, 3].map((one) => `select note from notes where id <> -${one}`);
          for (const run of ["first", "second", "third"])
            t.assert.deepEqual(
              rowsOf(await client.batch(wheres)),
              wheres.map(() => [{ note: row.note }]),
              run,
            );
          // No call has been refused for this type yet: the transaction fails, and the next transaction knows it.
          await client.exec("create type pair as (id int, note citext)");
          const within = () => client.transaction((tx) => tx.query("select row(id, note)::pair as p from notes"));
          await t.assert.code(within(), "42883");
          await t.assert.rows(within(), [{ p: { id: row.id, note: row.note } }]);
        } finally {
          await client.close();
        }
      } finally {
        await t.side(`drop database ${database}`);
      }
    },
  },
  "a composite with a type without a binary form stays the server's text, and is refused inside a record": {
    ownServer: true,
    async run(t) {
      const [client, s] = await newSchema(t);
      await client.exec(`create type ${s}.priced as (a int, m money)`);
      for (const _ of "123")
        t.assert.equal(
          await lines(client, `select row(1, 2)::${s}.priced as p, array[row(1, 2)::${s}.priced] as ps`),
          '{"p":"(1,$2.00)","ps":"{\\"(1,$2.00)\\"}"}\n',
        );
      const aclitem = "select row(makeaclitem(10, 10, 'SELECT', false)) as r";
      await t.assert.rejects(client.query(aclitem), { code: "42883", routine: "getTypeBinaryOutputInfo" });
      // The refusal is not remembered: as text the result would be another one.
      await t.assert.rejects(client.query(aclitem), { code: "42883", routine: "getTypeBinaryOutputInfo" });
      const error = (await lines(client, "select row(1, 2::money) as r").catch((error: unknown) => error)) as Error;
      t.assert(/\(type 790\): cast it to text\. The statement may have run/.test(error.message), error.message);
      t.assert.equal(await lines(client, "select row(1, 2::money)::text as r"), '{"r":"(1,$2.00)"}\n');
    },
  },
  "arrays of a base type are split at the type's own delimiter": {
    ownServer: true,
    async run(t) {
      const [client, s] = await newSchema(t);
      await t.side(`create type ${s}.place;
        create function ${s}.place_in(cstring) returns ${s}.place language internal immutable strict as 'textin';
        create function ${s}.place_out(${s}.place) returns cstring language internal immutable strict as 'textout';
        create type ${s}.place (input = ${s}.place_in, output = ${s}.place_out, like = text, delimiter = ':');
        create domain ${s}.home as ${s}.place`);
      const values = `'{POINT(1 2),3:NULL:"a:b"}'::${s}.place[] as places, '{x:y}'::${s}.home[] as homes`;
      const row = { places: ["POINT(1 2),3", null, "a:b"], homes: ["x", "y"] };
      for (const _ of "123") await t.assert.rows(client.query(`select ${values}`), [row]);
      await t.assert.rows(
        client.simple(`select ${values}`).then(([only]) => only!),
        [row],
      );
    },
  },
  "a type that becomes known between two runs shifts no value to another column": {
    ownServer: true,
    async run(t) {
      const [client, s] = await newSchema(t);
      await client.simple(`create type ${s}.role as enum ('admin');
        create type ${s}.pair as (a int4, b int4);
        create table ${s}.users (roles ${s}.role[], pair ${s}.pair, id text);
        insert into ${s}.users values ('{admin}', '(1,2)', 'u1')`);
      const users = `select roles, pair, id from ${s}.users`;
      const row = { roles: ["admin"], pair: { a: 1, b: 2 }, id: "u1" };
      t.assert.deepEqual(rowsOf(await client.simple(users)), [[{ roles: "{admin}", pair: "(1,2)", id: "u1" }]]);
      await client.query(`select roles, pair from ${s}.users`);
      for (const run of [
        () => client.query(users),
        () => client.simple(users).then(([one]) => one!),
        () => client.batch([users]).then(([one]) => one!),
      ])
        await t.assert.rows(run(), [row]);
      // A composite with a type without a binary form is text.
      await client.simple(`create table ${s}.sums (a int4, b int4); insert into ${s}.sums values (1, 2)`);
      const sums = `select v, 'x'::text as other from ${s}.sums v`;
      await t.assert.rows(client.query(sums), [{ v: { a: 1, b: 2 }, other: "x" }]);
      await unseen(client, `alter table ${s}.sums alter b type money`);
      const sum = [{ v: "(1,$2.00)", other: "x" }];
      for (const text of [`${sums} -- new`, sums, `${sums} -- new`]) {
        const outcome = await client.query(text).catch((error: PgzError) => error);
        if ("rows" in outcome) t.assert.deepEqual(outcome.rows, sum);
        else t.assert.equal(outcome.code, "SHAPE_CHANGED");
        await t.assert.rows(client.query(text), sum);
      }
    },
  },
};
