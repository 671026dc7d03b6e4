// What telemetry shows of a text: no literal of a text without parameters, and the same few words for equal operations.
import fc from "fast-check";
import { expect, test } from "vitest";
import { sqlText } from "../../js/adapters/sql-text.ts";

const SUMMARIES: [text: string, summary: string][] = [
  ["select 1", "SELECT"],
  ["select * from users", "SELECT users"],
  ['SELECT * FROM "App"."Users" AS u', "SELECT App.Users"],
  ["select a.x from a, b as c, d where a.id in (1, 2)", "SELECT a b d"],
  ["select * from only a left join lateral (select 1 from b) x on true, c", "SELECT a SELECT b c"],
  ["select extract(year from at), a is distinct from b from t", "SELECT t"],
  ["select * from generate_series(1, 3) n", "SELECT"],
  ["with x as (select * from a), y as (delete from b returning id) select * from x", "SELECT a DELETE b SELECT x"],
  [
    "insert into orders (id, name) select id, name from staging on conflict do update set n = 1",
    "INSERT orders SELECT staging",
  ],
  ["insert into a values (1), (2)", "INSERT a"],
  ["update only stock set n = n - 1 from other where true", "UPDATE stock other"],
  ["delete from a using b where a.id = b.id", "DELETE a b"],
  ["select * from a join b using (id) join (c cross join d) on true", "SELECT a b c d"],
  ["select * from (values (1)) v, a", "SELECT a"],
  ["create index on a using btree (id)", "CREATE INDEX"],
  ["create table b (id) as select id from a", "CREATE TABLE b SELECT a"],
  [
    "merge into a using b on a.id = b.id when matched then update set n = 1 when not matched then insert values (1)",
    "MERGE a b",
  ],
  ["select * from a for update of a", "SELECT a"],
  ["/* one */ -- two\n select /* from x */ 1 from y", "SELECT y"],
  ["select 'from x' from y", "SELECT y"],
  ["begin", "BEGIN"],
  ["SAVEPOINT pgz_1", "SAVEPOINT"],
  ["create unlogged table if not exists t (id int)", "CREATE TABLE t"],
  ["create or replace function f() returns int as $f$ select 1 from x $f$ language sql", "CREATE FUNCTION"],
  ["drop table a", "DROP TABLE a"],
  ["truncate table a, b", "TRUNCATE a"],
  ["copy users (id) from stdin", "COPY users"],
  ["copy (select * from a) to stdout", "COPY SELECT a"],
  ["explain analyze delete from a", "DELETE a"],
  ["create role ada password 'secret'", "CREATE ROLE"],
  ["insert into a values (1); select * from b;", "INSERT a; SELECT b"],
  ["", ""],
  ["  ;;  ", ""],
];

test.each(SUMMARIES)("summary of %j", (text, summary) => {
  expect(sqlText(text).summary).toBe(summary);
});

test("a summary has whole names and at most 255 characters", () => {
  const tables = Array.from({ length: 60 }, (_, n) => `a_rather_long_name_${n}`);
  const { summary } = sqlText(`select * from ${tables.join(", ")}`);
  expect(summary.length).toBeLessThanOrEqual(255);
  expect(tables).toContain(summary.split(" ").at(-1));
});

const SHOWN: [text: string, shown: string][] = [
  ["select 'a', 1, 2.5e-3, -4, .5, 0x1F from t1", "select ?, ?, ?, -?, ?, ? from t1"],
  ["select 'it''s', E'it\\'s', U&'d\\0061t', B'101', $$a$$, $x$ $$ '$x$, n'x'", "select ?, ?, ?, ?, ?, ?, ?"],
  ["create role ada password 'secret'", "create role ada password ?"],
  ["select \"it's\" /* 'secret' /* secret */ secret */ from t -- secret", 'select "it\'s"   from t'],
  ["select 'never closed", "select ?"],
  ["select $$never closed", "select ?"],
  ["select 1 /* never closed 'secret", "select ?"],
  ["select a1, t1.c2 from t1", "select a1, t1.c2 from t1"],
  ["select true, null", "select true, null"],
  ["select 'as it is', $1::int4", "select 'as it is', $1::int4"],
  ["do $x$ begin perform $1; end $x$", "do ?"],
];

test.each(SHOWN)("literals of %j", (text, shown) => {
  expect(sqlText(text).shown).toBe(shown);
});

test("no literal of a text without parameters is shown, in any order of pieces", () => {
  const secret = "Zq7secret";
  const piece = fc.constantFrom(
    ...["'", "''", "E'", "\\'", "$$", "$a$", '"', "--", "/*", "*/", "\n", " ", "(", ")", ",", ";", "select", "from a"],
  );
  const literal = fc.constantFrom(`'${secret}'`, `E'\\'${secret}'`, `$$${secret}$$`, `$a$'${secret}$a$`);
  fc.assert(
    fc.property(fc.array(piece), literal, fc.array(piece), (before, text, after) => {
      // The text before the literal is complete, so that the literal is a literal.
      const { shown } = sqlText(`select 1, ${text} ${after.join("")}`);
      expect(shown).not.toContain(secret);
      sqlText([...before, text, ...after].join(""));
    }),
  );
});

// Linear time takes a second of CPU. A step for each pair of characters would take a minute.
test("a long text does not block the process", () => {
  const before = process.cpuUsage();
  for (const text of ["'".repeat(2e5), "$".repeat(2e5), "(".repeat(2e5), `/*${"/*".repeat(2e5)}`, "a.".repeat(2e5)])
    sqlText(text);
  const { user, system } = process.cpuUsage(before);
  expect((user + system) / 1e6).toBeLessThan(15);
});
