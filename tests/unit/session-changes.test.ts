// What the pool does after which statements. The table of docs/pool.md is generated from these rows.
//
//   DOCS=write npx vitest run tests/unit/session-changes.test.ts     writes it
import { readFileSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
import { changeOf, SessionChanges } from "../../js/pool/session-changes.ts";
import { scopeSettings } from "../../js/session/scope-settings.ts";
import type { Change } from "../../js/session/setting-changes.ts";

/** A row of the table, with statements as examples. */
interface Row {
  readonly statements: string;
  readonly change: Change;
  readonly because?: string;
  readonly samples: readonly string[];
}

const ROWS: readonly Row[] = [
  {
    statements: "SELECT, INSERT, UPDATE, DELETE, MERGE, WITH, VALUES, TABLE, COPY",
    change: "none",
    because: "functions, views and operators that are not PostgreSQL's own are trusted, and so are triggers",
    samples: [
      "select 1",
      "(select 1) union (select 2)",
      "select my_function(), pg_advisory_xact_lock(1), nextval('s')",
      "select '…; load the truck', 'set_config', $$prepare x$$",
      "select /* set_config */ 1 -- pg_advisory_lock",
      "select 'a\\b', '; set role x' from t",
      "insert into pg_temp.x select * from y",
      "with a as (insert into b values (1) returning *) merge into c using a on true when matched then delete",
      "with a as (select 1) insert into b select * from a",
      "explain analyze insert into pg_temp.x select 1",
      "update t set setting = 1",
      "select * from pg_settings",
      "copy t from stdin",
      "values (1)",
      "table t",
      'select "SET_CONFIG"(1)',
    ],
  },
  {
    statements: "… that names `set_config`, `pg_advisory_lock` and its like, `query_to_xml`, `ts_stat` or `ts_rewrite`",
    change: "resets",
    because: "they set, lock, or run SQL that is a string",
    samples: [
      "select set_config('a.b', '1', false)",
      "select pg_catalog.\"set_config\" ('a.b', '1', false)",
      "select U&\"set\\005fconfig\"('a.b', '1', false)",
      "select U&\"set!005fconfig\"/**/UESCAPE '!'('a.b', '1', false)",
      "select U&\"set!005fconfig\" uescape E'\\x21' ('a.b', '1', false)",
      "insert into t select pg_try_advisory_lock_shared(1)",
      "copy (select pg_advisory_lock(1)) to stdout",
      "create table t as select set_config('a.b', '1', false)",
      "select query_to_xml('select set_config(''a.b'', ''1'', false)', true, true, '')",
      "select '\\', set_config('a.b', '1', false), '\\'",
    ],
  },
  {
    statements: "… that names `setseed` or `dblink_connect`, creates a replication slot, or starts a backup",
    change: "ends",
    because: "no reset undoes it",
    samples: ["select setseed(0.5)", "select dblink_connect('c', '')", "select pg_backup_start('x')"],
  },
  {
    statements: "SELECT … INTO, UPDATE of `pg_settings`",
    change: "resets",
    because: "the new table may be a temporary one; an UPDATE of the view changes settings",
    samples: [
      "select 1 as n into temp x",
      "select 1 as n into/**/temp x",
      "select 1 as n into pg_temp.x",
      "select f() into x",
      "select 1into temporary x",
      "with a as (select 1 as n) select * into local temp x from a",
      "select 1 insert into temp x",
      "select 1 as merge into pg_temp.x",
      "select f() insert into local temporary x",
      "with a as (select 1) select (1) merge into table pg_temp.x from a",
      "update pg_settings set setting = 'a' where name = 'a.b'",
      "with a as (update pg_catalog.pg_settings set setting = 'a' returning 1) select * from a",
    ],
  },
  {
    statements: "CREATE, ALTER, DROP and other DDL, GRANT, COMMENT, VACUUM, ANALYZE, TRUNCATE, LOCK, NOTIFY",
    change: "none",
    because: "what they change is the database's, not the session's",
    samples: [
      "create table t (id int)",
      "create or replace function f() returns int begin atomic select 1; select 2; end",
      "alter role x set search_path = pg_temp",
      "drop table pg_temp.x",
      "truncate t",
      "notify a",
      "vacuum",
    ],
  },
  {
    statements: "CREATE TEMP …, CREATE … `pg_temp`.…",
    change: "resets",
    because: "a temporary object is the session's",
    samples: [
      "create temp table t (id int)",
      "create global temporary table t (id int)",
      "create table pg_temp.t (id int)",
      "create table pg_temp_3.t (id int)",
      'create or replace temp view v as select 1; select "x"',
      'create function "pg_temp".f() returns int language sql as $$select 1$$',
    ],
  },
  {
    statements: "BEGIN, COMMIT, ROLLBACK, SAVEPOINT and the like, SHOW, FETCH, MOVE, CLOSE, PREPARE TRANSACTION",
    change: "none",
    because: "a transaction that is open is rolled back",
    samples: ["begin", "start transaction", "commit", "prepare transaction 'a'", "show all", "fetch all from c", ""],
  },
  {
    statements: "SET LOCAL, SET TRANSACTION, SET CONSTRAINTS",
    change: "none",
    because: "they end with the transaction",
    samples: [
      "set local search_path = tenant_7, 'public'",
      "SET LOCAL ROLE tenant",
      "set transaction read only",
      "set constraints all deferred",
    ],
  },
  {
    statements: "SET LOCAL whose value contains `pg_temp` or has escapes",
    change: "resets",
    because: "a later CREATE TABLE may make a temporary table",
    samples: [
      "set local search_path = pg_temp",
      "set local search_path = 'PG_TEMP'",
      "set local search_path = 'pg_'\n'temp'",
      "set local search_path = E'pg\\137temp'",
      "set local search_path = U&'pg\\005ftemp'",
      'set local search_path = "pg_temp"',
    ],
  },
  {
    statements: "SET, RESET, LISTEN, UNLISTEN, DO, CALL, EXECUTE, and any statement that is not in this table",
    change: "resets",
    because: "their words do not show that they leave nothing",
    samples: [
      "set role tenant_b",
      "/* report; for ops */ set role tenant_b",
      "-- a; b\nset app.tenant = 'a'",
      "--\rset app.tenant = 'a'",
      "/*;*/listen a",
      "/* /* */ select */ listen a",
      "; ;set a.b = 1",
      "select 1; set a.b = 1",
      "set local.tenant = 'a'",
      "set transaction . tenant to 'a'",
      'set "constraints".tenant = 1',
      "reset all",
      "set session characteristics as transaction read only",
      "do $$ begin end $$",
      "call p()",
      "execute x",
      "something new",
      "'set'",
    ],
  },
  {
    statements: "DECLARE",
    change: "none",
    because: "the cursor ends with the transaction",
    samples: [
      "declare c cursor for select 1",
      "declare c cursor without hold for select 1",
      "declare c cursor for with a as (select 1 as n) select n from a",
    ],
  },
  {
    statements: "DECLARE … WITH HOLD",
    change: "resets",
    because: "the cursor does not",
    samples: ["declare c cursor with hold for select 1", "declare c cursor with/**/hold for select 1"],
  },
  {
    statements: "EXPLAIN",
    change: "none",
    because: "it counts as the statement that it explains",
    samples: [
      "explain select 1",
      "explain (analyze, format 'json') (select 1)",
      "explain analyze verbose select 1",
      "explain (analyze", // an error, and the text is read to its end
    ],
  },
  {
    statements: "EXPLAIN of a statement after which the session is reset",
    change: "resets",
    because: "with ANALYZE it runs",
    samples: [
      "explain analyze create temp table t as select 1",
      "explain (analyze) execute x",
      "explain analyze verbose select set_config('a.b', '1', false)",
      "explain (analyze) with a as (select 1 as n) select * into temp x from a",
    ],
  },
  {
    statements: "PREPARE, DEALLOCATE, DISCARD, LOAD, SET of `seed`",
    change: "ends",
    because: "a reset does not undo them, or would cost the driver its own prepared statements",
    samples: [
      "prepare x as select 1",
      "prepare transaction as select 1",
      "prepare transaction (int) as select $1",
      "deallocate all",
      "discard all",
      "load 'x'",
      "set seed = 0.5",
      "set local seed to 0.5",
      "select 1; load 'x'; select 2",
    ],
  },
];

test.each(ROWS.flatMap(({ change, samples }) => samples.map((sample) => [sample, change] as const)))(
  "after %j: %s",
  (text, change) => {
    expect(changeOf(text)).toBe(change);
    // The second answer comes from the cache.
    expect(changeOf(text)).toBe(change);
  },
);

test("the worst of several statements counts, in any order", () => {
  const [none, resets, ends] = ["select 1", "set a.b = 1", "load 'x'"] as const;
  expect(changeOf([none, resets].join(";"))).toBe("resets");
  expect(changeOf([ends, resets, none].join(";"))).toBe("ends");
  const leftovers = changesOf();
  const seen = [none, resets, none, ends, resets, none].map((text) => {
    leftovers.note(text);
    return leftovers.change;
  });
  expect(seen).toEqual(["none", "resets", "resets", "ends", "ends", "ends"]);
});

/** The changes of a session whose borrowers find these settings. */
const changesOf = ({ options, startup = [], reported = [] }: Found = {}) =>
  new SessionChanges({ config: { options, startup }, parameters: new Map(reported) });

interface Found {
  readonly options?: string;
  readonly startup?: readonly (readonly [string, string])[];
  readonly reported?: readonly (readonly [string, string])[];
}

test.each<[change: Change, name: string, value: string]>([
  ["resets", "search_path", "pg_temp"],
  ["resets", "Search_Path", 'tenant_7, "pg_temp"'],
  ["resets", "search_path", "PG_TEMP_3"],
  ["none", "search_path", "tenant_7"],
  ["none", "app.search_path", "pg_temp"],
  ["none", "temp_tablespaces", "pg_temp"],
  ["none", "app.seed", "0.5"],
])("a scope leaves %s after %s = %s", (change, name, value) => {
  expect(scopeSettings({ settings: { "app.a": 1, [name]: value }, role: "pg_temp" }).change).toBe(change);
});

test.each<[string, Found, before: string | undefined, Change]>([
  ["nothing", {}, undefined, "none"],
  ["a startup with pg_temp", { startup: [["search_path", "a, PG_TEMP"]] }, undefined, "resets"],
  ["options with pg_temp", { options: "-c search\\_path=pg\\_temp" }, undefined, "resets"],
  ["a role with pg_temp, in PostgreSQL 18", { reported: [["search_path", "pg_temp"]] }, undefined, "resets"],
  ["a hook with pg_temp", {}, "set search_path to pg_temp", "resets"],
  ["a hook with escapes", {}, "select set_config('search_path', E'pg\\137temp', false)", "resets"],
  ["a hook with another setting", {}, "set timezone = 'UTC'", "none"],
])("where borrowers find %s, a statement leaves what it may", (_, found, before, change) => {
  const changes = changesOf(found);
  changes.preparing(true);
  if (before) changes.note(before);
  changes.preparing(false);
  expect(changes.change).toBe("none"); // nothing ran, so there is nothing to reset
  for (let round = 0; round < 2; round++) {
    changes.note("create table t ()");
    expect([changes.change, changes.makesTemporary]).toEqual([change, change !== "none"]);
    changes.change = "none";
    expect(changes.change).toBe("none");
  }
});

test("a text may have any number of statements", () => {
  expect(changeOf(`${"select 1;".repeat(200_000)} set a.b = 1`)).toBe("resets");
});

const MEANING: Readonly<Record<Change, string>> = { none: "stays clean", resets: "is reset", ends: "ends" };

test("docs/pool.md has the same table", () => {
  const file = new URL("../../docs/pool.md", import.meta.url);
  const page = readFileSync(file, "utf8");
  const lines = ROWS.map(
    ({ statements, change, because = "" }) => `| ${statements} | ${MEANING[change]} | ${because} |`,
  );
  const table = ["| statement | the session | why |", "|---|---|---|", ...lines].join("\n");
  const [begin, end] = ["<!-- leftovers -->\n", "\n<!-- /leftovers -->"];
  const [from, to] = [page.indexOf(begin) + begin.length, page.indexOf(end)];
  if (process.env["DOCS"] === "write") writeFileSync(file, page.slice(0, from) + table + page.slice(to));
  else expect(page.slice(from, to)).toBe(table);
});
