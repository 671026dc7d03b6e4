// Known holes of PostgreSQL clients and poolers, one case for each, named by its CVE or by the bug. Each was seen in
// another driver, and none may be in this driver.
//
// Each case is short and says one thing; the thorough tests of the same subjects are elsewhere (tests/properties for
// what bytes do). The holes that a false server needs are comments beside its scenarios in tests/faults/bad-servers.
import type { Client } from "../../../js/index.ts";
import type { Cases } from "../context.ts";
import { newSchema, text } from "./helpers.ts";

/** Column names that other drivers have run as code, or that broke their JSON or a prototype. */
const NAMES = [
  "');process.exit(1);//",
  "__proto__",
  "constructor",
  "toString",
  "a\u2028b",
  "`${1}`",
  "'];throw 1;['",
  "a'b",
  'a"b',
  "a\\",
  "a\nb\t\u0001",
  "é".repeat(31),
];
const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

export const security: Cases = {
  async "CVE-2024-27304, RUSTSEC-2024-0363 and -0365: a value whose length wraps is refused, and none of it is sent"(
    t,
  ) {
    const client = await t.client();
    const query = (value: unknown) => client.query({ text: "select length($1::bytea) as a", values: [value] });
    await t.assert.rows(query(new Uint8Array(3)), [{ a: 3 }]);
    for (const byteLength of [2 ** 30, 2 ** 31, 2 ** 32, 2 ** 32 + 1]) {
      const huge = Object.defineProperty(new Uint8Array(0), "byteLength", { value: byteLength });
      const { writes } = client.stats();
      await t.assert.code(query(huge), "PARAMETERS_TOO_LARGE");
      // The types are described once more, because they might have changed.
      t.assert(client.stats().writes <= writes + 1, "writes");
    }
    await t.assert.rows(query(new Uint8Array(4)), [{ a: 4 }]);
  },
  async "pg's int16: 65,536 parameters are refused before a byte is sent, and 65,535 are not"(t) {
    const client = await t.client();
    const many = (count: number) => ({
      text: `select 1 as a where '1' in (${Array.from({ length: count }, (_, at) => `$${at + 1}`).join()})`,
      values: new Array<string>(count).fill("1"),
    });
    const { writes } = client.stats();
    await t.assert.code(client.query(many(65_536)), "TOO_MANY_PARAMETERS");
    t.assert.equal(client.stats().writes, writes);
    await t.assert.rows(client.query(many(65_535)), [{ a: 1 }]);
  },
  async "CVE-2017-16082 and postgres.js's __proto__: a column's name is only a name, in objects and in JSON"(t) {
    const client = await t.client();
    const sql = `select ${NAMES.map((name, at) => `${at} as ${quoted(name)}`).join()}, '{"polluted":true}'::json as "__proto__"`;
    const first = `select ${NAMES.map((name, at) => `${at} as ${quoted(name)}`).join()}`;
    for (let run = 0; run < 3; run++) {
      const { rows } = await client.query(first);
      t.assert.deepEqual(Object.keys(rows[0]!), NAMES);
      t.assert.deepEqual(Object.values(rows[0]!), [...NAMES.keys()]);
      const [parsed] = JSON.parse(new TextDecoder().decode(await client.json(first))) as object[];
      t.assert.deepEqual(Object.keys(parsed!), NAMES);
      const [row] = (await client.query(sql)).rows as { polluted?: unknown }[];
      t.assert.equal(row!.polluted, undefined);
      t.assert.equal(({} as { polluted?: unknown }).polluted, undefined);
    }
  },
  async "names that end a frame: each line of NDJSON is one row, whatever its columns are called"(t) {
    const client = await t.client();
    const sql = `select ${NAMES.map((name, at) => `${at} as ${quoted(name)}`).join()} from generate_series(1, 5)`;
    for (let run = 0; run < 2; run++) {
      const lines = (await text(await client.stream(sql))).split("\n");
      t.assert.equal(lines.length, 6);
      for (const line of lines.slice(0, 5)) t.assert.deepEqual(Object.keys(JSON.parse(line) as object), NAMES);
    }
  },
  async "json with newlines stays on one line, as the server sends it"(t) {
    const client = await t.client();
    const sql = String.raw`select '{"a":${"\n"} 1,${"\r\n"}"a": 2, "big": 1e9999, "nul": "\u0000", "lone": "\ud800"}'::json as j
          from generate_series(1, 3)`;
    for (let run = 0; run < 3; run++) {
      const lines = (await text(await client.stream(sql))).split("\n");
      t.assert.equal(lines.length, 4);
      for (const line of lines.slice(0, 3)) JSON.parse(line);
    }
  },
  async "CVE-2024-1597: a value is never part of the SQL"(t) {
    const client = await t.client();
    const { sql } = t.pgz;
    for (let run = 0; run < 3; run++) {
      await t.assert.rows(client.query(sql`select 5 -${-3}::int4 as a`), [{ a: 8 }]);
      const value = "'; drop table x; --";
      await t.assert.rows(client.query(sql`select ${value}::text as a`), [{ a: value }]);
      await t.assert.rows(client.query("select $tag$ $1 $tag$ as a"), [{ a: " $1 " }]);
    }
    const seen = await client.query<{ query: string }>(
      sql`select query from pg_stat_activity where pid = pg_backend_pid() and ${"secret-value"} <> ''`,
    );
    t.assert.equal(seen.rows[0]!.query.includes("secret-value"), false);
  },
  async "CVE-2022-31197 and RUSTSEC-2026-0136: names in the driver's own SQL are quoted"(t) {
    const [client, schema] = await newSchema(t);
    const column = `a"; drop table ${schema}.t; --`;
    const table = `t' null '' --`;
    await client.exec(`create table ${schema}.t (n int4); create table x (n int4)`).catch(() => {});
    await client.exec(`create table ${schema}.${quoted(table)} (${quoted(column)} text)`);
    await client.exec(`create table if not exists ${schema}.t (n int4)`);
    const into = t.pgz.sql.identifier(schema, table);
    await client.copyFromRows(into, [column], [["x"], [null]]);
    const { rows } = await client.query(`select * from ${schema}.${quoted(table)}`);
    t.assert.deepEqual(rows, [{ [column]: "x" }, { [column]: null }]);
    await t.assert.rows(client.query(`select * from ${schema}.t`), []);
  },
  "CVE-2025-1094: a name that is invalid Unicode or has NUL is refused and not quoted": {
    differs: ["text"],
    async run(t) {
      for (const name of ["\ud800", "a\udc00", "a\0b"])
        await t.assert.rejects((async () => t.pgz.sql.identifier(name))(), { name: "UsageError" });
    },
  },
  async "CVE-2006-2313 and -2314: backslashes mean nothing, even with standard_conforming_strings off"(t) {
    const asked = { options: "-c standard_conforming_strings=off -c escape_string_warning=off" };
    const use = async (client: Client) => {
      const value = "\\'; select 1; --\\\\";
      for (let run = 0; run < 3; run++)
        await t.assert.rows(client.query(t.pgz.sql`select ${value}::text as a`), [{ a: value }]);
      await client.notify("security", value);
    };
    const version = await (await t.client()).query("select current_setting('server_version_num')::int4 as version");
    if (Number(version.rows[0]!["version"]) < 190000) return use(await t.client(asked));
    // PostgreSQL 19 has only standard-conforming strings.
    await t.assert.code(t.client(asked).then(use), "0A000");
  },
  async "NUL smuggles in no parameter: not in StartupMessage, SQL, a name or a value"(t) {
    const { pgz, options, assert } = t;
    for (const bad of [
      { user: "x\0user\0admin" },
      { database: "x\0y" },
      { applicationName: "x\0user\0admin" },
      { startup: { work_mem: "1\0user\0admin" } },
      { startup: { "work\0mem": "1" } },
    ])
      await assert.code((async () => pgz.createClient({ ...options, ...bad }))(), "INVALID_OPTION");
    const client = await t.client();
    await assert.code(client.query("select 1\0; select 2"), "INVALID_QUERY");
    await assert.code(client.query({ text: "select $1::text as a", values: ["a\0b"] }), "INVALID_PARAMETER");
    await assert.rejects(client.listen("a\0b"), { name: "UsageError" });
    await assert.code(client.query(String.raw`select '"\u0000"'::jsonb`), "22P05");
  },
  async "Bun #35116: a statement that raises 0A000 itself does not run again"(t) {
    const [client, schema] = await newSchema(t);
    await client.simple(`create sequence ${schema}.runs;
          create function ${schema}.fails() returns int4 language plpgsql as
          $$begin perform nextval('${schema}.runs'); raise sqlstate '0A000' using message = 'cached plan must not change result type'; end$$`);
    const failing = () => client.query(`select ${schema}.fails() as n`);
    for (let run = 1; run <= 3; run++) {
      await t.assert.code(failing(), "0A000");
      const { rows } = await client.query(`select last_value::int4 as n from ${schema}.runs`);
      t.assert.deepEqual(rows, [{ n: run }]);
    }
  },
};
