// The check before a first run as SQL (js/session/first-run.ts): which statements may have one, what it looks at, what
// its failure means, and what is remembered of servers and statements.
import { expect, test, vi } from "vitest";
import {
  columnTypes,
  describeFirst,
  firstRunOf,
  isOfColumns,
  isOfTypes,
  isOld,
  isPipelinable,
  type ReadColumns,
} from "../../js/session/first-run.ts";
import { MOST_SERVERS } from "../../js/util/limits.ts";

/** The memory of an isolate that has seen no server. */
async function newIsolate() {
  vi.resetModules();
  return import("../../js/session/first-run.ts");
}

const COLUMNS: ReadColumns = { known: [], askedTypes: [], anySize: false };
const checkOf = (values: readonly unknown[], columns?: ReadColumns, isVersionKnown = true) =>
  firstRunOf("server", "select n", values, columns, isVersionKnown ? "18.0" : undefined)!.check;
const sqlOf = (...given: Parameters<typeof checkOf>) => checkOf(...given).sql;

// -- statements ------------------------------------------------------------------------------------------------------

test.each(["select", "INSERT", "update", "delete", "merge", "with", "values", "table"])("%s is plain", (word) => {
  expect(isPipelinable(`${word} x`)).toBe(true);
});

test.each([
  ...["begin", "commit", "create table t ()", "explain select 1", "set a to b", "", "(select 1)", "selection"],
  ...["vacuum t", "call p()"],
])("%j is not plain, and is described first", (text) => {
  expect([isPipelinable(text), firstRunOf("server", text, [])]).toEqual([false, undefined]);
});

test.each([
  " -- c\n/* d */ SELECT 1",
  "select ((1)), 2",
  "select (select 1, 2), count(*) from t",
  "select (f(a, b)) from t",
  "select (a) from (select 1, 2) s",
  "select (values (1, 2))",
  "select (with x as (select 1, 2) select 3)",
  "select (table t), 2",
  "select ')', (a), 2",
  "select a) , b",
  "select row from t, u",
  "insert into t (a, b) values (1, 2), (3, 4) returning a, (b)",
  "select 'set_config', $$pg_settings$$ -- set_config",
  `select "record", 'row(1)' from t`,
  "select f((a), b), arrow(1, 2)",
])("a statement that returns no record may run first: %s", (text) => {
  expect(firstRunOf("server", text, [])).toBeDefined();
});

test.each([
  "select ((1), 2)",
  "select (f(a), b)",
  "select (a, (select 1))",
  "select ((select 1), a)",
  "select (a table, b)",
  "select f(1), row (a)",
  "SELECT ROW(1)",
  "select (1), row(2)",
  "select x::record",
  "insert into t values (1) returning (b, c)",
  "select (select 1), x, y from t returning (a, b)",
  'select "set_config"(a)',
  "select pg_catalog.Set_Config(a)",
  `select U&"set\\005fconfig"('DateStyle', 'German', false), now()`,
  "with s as (update pg_settings set setting = '-5' where name = 'extra_float_digits') select f from t",
  "table pg_settings",
])("a statement that may return a record, or changes settings, is described first: %s", (text) => {
  expect(firstRunOf("server", text, [])).toBeUndefined();
});

test("a statement is sent with its text, its values as text, and whether it has values", () => {
  const none = firstRunOf("server", "select n", [])!;
  expect(none).toMatchObject({ text: "select n", hasValues: false });
  // No format codes and no values.
  expect([...none.parameters]).toEqual([0, 0, 0, 0]);
  const one = firstRunOf("server", "select $1", ["é"])!;
  expect(one).toMatchObject({ text: "select $1", hasValues: true });
  expect([...one.parameters]).toEqual([0, 0, 0, 1, 0, 0, 0, 2, 0xc3, 0xa9]);
  for (const value of [Symbol("no text"), Infinity])
    expect(firstRunOf("server", "select $1", [value, 5])).toBeUndefined();
});

test("a long statement is described first only if its parameters' types must be found", () => {
  const long = (length: number) => "select ".padEnd(length, "x");
  expect(firstRunOf("server", long(16 << 10), [7])).toBeDefined();
  expect(firstRunOf("server", long((16 << 10) + 1), [7])).toBeUndefined();
  for (const values of [[], ["seven"]]) expect(firstRunOf("server", long((16 << 10) + 1), values)).toBeDefined();
});

test("a statement with very many numbers, or with more values than the protocol can count, is described first", () => {
  const numbers = (count: number) => firstRunOf("server", "select 1", Array(count).fill(7));
  expect(numbers(200)!.check.sql.length).toBeLessThan(2_000);
  expect(numbers(201)).toBeUndefined();
  expect(firstRunOf("server", "select 1", Array(65_536).fill("text"))).toBeUndefined();
});

test("a statement marked to be described first is so on its server only, and no other statement is", () => {
  describeFirst("server", "select record_like");
  expect(firstRunOf("server", "select record_like", [])).toBeUndefined();
  expect(firstRunOf("other", "select record_like", [])).toBeDefined();
  expect(firstRunOf("server", "select record_likes", [])).toBeDefined();
});

// -- records before PostgreSQL 16 -------------------------------------------------------------------------------------

test.each([
  "select a, (b) from t join u using (id) where a in (1, 2) and exists (select from t)",
  "select count(*), coalesce(sum(a), 0)::numeric(10, 2), cast(b as varchar(3)) from t as x (a, b) group by (c)",
  "with a as (select 1) select * from a",
  "select rank() over (order by a), sum(b) filter (where (c)) over (partition by (d)) from t left join (select 1) u on (true)",
  "with a as materialized (select 1) select b[1:2] from a",
  "insert into t (a, b) values (f(1), 2)",
  "insert into t (a, b) select f(x) from u returning id, *",
  "update t set a = f(b) where (c)",
  "delete from t using (select 1) u",
  "merge into t using u on (t.a = u.a) when matched then delete",
  "select 'insert', \"update\" -- delete\n from t",
])("on 15 this may run first, because it writes nothing or returns no record: %s", (text) => {
  const run = firstRunOf("server", text, [], COLUMNS, undefined)!;
  expect(run.check.sql).not.toContain("160000");
  expect(firstRunOf("server", text, [], COLUMNS, "15.2")).toBeDefined();
});

test.each([
  "with i as (insert into t values (1) returning a) select i from i",
  "update t set a = 1 from (select 1) s returning s",
  "delete from t using u returning u",
  "insert into t values (1) returning (select s from (select 1) s)",
  "insert into t values (1) returning id, f(id)",
  "insert into t with d as (delete from u returning (a)) select * from d",
  "select f(1)",
  "select schema.count(1)",
  "select pg_catalog.lo_from_bytea(0, $1)",
  "select été(1)",
  "select 登録(1)",
  "select by(1), 2",
  "select filter(1)",
  "select over(1)",
  "select materialized(1)",
  "select join(1)",
  "select constructor(1)",
  "select a[1:f(2)] from t",
  "select '\\'', f('a\\'b')",
  "insert into t values (1) returning t.info",
  "insert into t values (1) returning f(1) as returning",
  "insert into t values (1) returning f(1) as x, a as returning",
  'select "f"(1)',
  "select * from g(1) as x",
  "values (f(1))",
])("on 15 this is described first, and 16 or later runs it first: %s", (text) => {
  expect(firstRunOf("server", text, [], COLUMNS, "15.2")).toBeUndefined();
  // An early query does not know the version, so the check looks at it.
  expect(firstRunOf("server", text, [], COLUMNS, undefined)!.check.sql).toContain(
    "current_setting('server_version_num')::pg_catalog.int4 operator(pg_catalog.<)160000",
  );
  expect(firstRunOf("server", text, [], COLUMNS, "16.0")!.check.sql).not.toContain("160000");
  // Where no row is read, a record does not matter.
  expect(firstRunOf("server", text, [], undefined, "15.2")!.check.sql).not.toContain("160000");
});

// -- what the check looks at -----------------------------------------------------------------------------------------

test("the check always looks at settings, and at the version only while it is unknown", async () => {
  const isolate = await newIsolate();
  const looksAtVersion = (isVersionKnown: boolean) =>
    isolate
      .firstRunOf("s", "select 1", [], undefined, isVersionKnown ? "18.0" : undefined)!
      .check.sql.includes("server_version_num");
  expect([looksAtVersion(false), looksAtVersion(true)]).toEqual([true, false]);
  for (const setting of ["extra_float_digits", "DateStyle", "IntervalStyle"])
    expect(sqlOf([])).toContain(`current_setting('${setting}')`);
  // A server on which a check has passed is new enough.
  isolate.checkPassed("s");
  expect(looksAtVersion(false)).toBe(false);
  expect(isolate.firstRunOf("t", "select 1", [])!.check.sql).toContain("server_version_num");
});

/** The settings that the check accepts, as the server joins them: digits, DateStyle, IntervalStyle. */
test.each([
  ["1ISO, MDYpostgres", true],
  ["3ISO, DMYiso_8601", true],
  ["0ISO, MDYpostgres", false],
  ["-1ISO, MDYpostgres", false],
  ["1German, DMYpostgres", false],
  ["1ISO, MDYsql_standard", false],
  ["1ISO, MDYpostgres_verbose", false],
])("settings that read %s pass: %s", (joined, passes) => {
  const [, pattern] = /why operator\(pg_catalog\.!~\)'([^']*)'/.exec(sqlOf([]))!;
  expect(new RegExp(pattern!).test(`settings ${joined}`)).toBe(passes);
});

test.each([
  ["110022", false],
  ["120000", true],
  ["150018", true],
  ["190000", true],
  ["90624", false],
])("version %s passes: %s", (version, passes) => {
  const [, pattern] = /why operator\(pg_catalog\.!~\)'([^']*)'/.exec(sqlOf([], undefined, false))!;
  expect(new RegExp(pattern!).test(`settings ${version}1ISO, MDYpostgres`)).toBe(passes);
});

test("types of the database's columns are looked at, and without a parser only those without a fixed size", () => {
  expect(sqlOf([])).not.toContain("result_types");
  expect(sqlOf([], COLUMNS)).toContain("result_types");
  // Records are among them, because their text does not say what they hold.
  expect(sqlOf([], COLUMNS)).toContain(
    "else oid end operator(pg_catalog.>=)10000 or oid operator(pg_catalog.=)any('{2249,2287}'))",
  );
  expect(
    [sqlOf([], COLUMNS), sqlOf([], { ...COLUMNS, anySize: true })].map((sql) =>
      sql.includes("typlen operator(pg_catalog.<)0"),
    ),
  ).toEqual([true, false]);
});

test("the check leaves out types that were looked up, and as many cached types as fit", () => {
  const excepted = (columns: Partial<ReadColumns>, isVersionKnown = true) =>
    /oid operator\(pg_catalog\.<>\)all\('\{([^}]*)\}'/.exec(sqlOf([], { ...COLUMNS, ...columns }, isVersionKnown))?.[1];
  expect(excepted({})).toBeUndefined();
  expect(excepted({ known: [20_001] })).toBe("20001");
  expect(excepted({ known: [20_001], askedTypes: [20_002, 20_003] })).toBe("20002,20003,20001");
  const askedTypes = Array.from({ length: 20 }, (_, at) => 20_000 + at);
  expect(excepted({ askedTypes, known: [30_000] })).toBe(askedTypes.join());
  // At most forty characters. After the first type that does not fit, no further one is tried.
  const known = [20_001, 20_002, 20_003, 20_004, 20_005, 20_006, 1_234_567, 1];
  expect(excepted({ known })).toBe(known.slice(0, 6).join());
  expect(excepted({ known: [...known.slice(0, 6), 1_234] })).toBe([...known.slice(0, 6), 1_234].join());
  // Together with the version there is no room for cached types.
  expect(excepted({ known: [20_001], askedTypes: [20_002] }, false)).toBe("20002");
});

test("the check grows by at most 497 bytes for the types of columns, even if many are known", () => {
  // The size of the check that looks at settings alone.
  const settings = 352;
  const known = Array.from({ length: 100 }, (_, at) => 4_000_000_000 + at);
  const lengthOf = (known: number[], isVersionKnown: boolean) =>
    sqlOf([], { ...COLUMNS, known }, isVersionKnown).length;
  for (const isVersionKnown of [false, true])
    for (const types of [[], known]) expect(lengthOf(types, isVersionKnown)).toBeLessThanOrEqual(settings + 497);
  expect(lengthOf(known, true)).toBeGreaterThan(lengthOf([], true));
  expect(sqlOf([]).length).toBeLessThan(settings);
});

test("parameter types are looked at if a text would not do for each of them", () => {
  expect(checkOf(["text"]).looksAtTypes).toBe(false);
  expect(sqlOf(["text"])).not.toContain("parameter_types");
  const { sql, looksAtTypes } = checkOf([7, 8, "text", new Date(0)]);
  expect(looksAtTypes).toBe(true);
  // One rule for both numbers, which some types refuse, and another for the date, which only some types accept.
  expect([...sql.matchAll(/unnest\(array\[([0-9,]*)\]\)/g)].map(([, numbers]) => numbers)).toEqual(["1,2", "4"]);
  const rules = [...sql.matchAll(/oid operator\(pg_catalog\.(?:=|<>)\)(any|all)\('\{([0-9,]+)\}'/g)].map(
    ([, how, types]) => [how, types!.split(",")],
  );
  expect(rules).toEqual([
    ["all", expect.arrayContaining(["16", "1184"])],
    ["any", ["1082", "1114", "1184"]],
  ]);
});

test("values with different sets of possible types are looked at separately", () => {
  const numbersOf = (...values: unknown[]) =>
    [...sqlOf(values).matchAll(/unnest\(array\[([0-9,]*)\]\)/g)].map(([, numbers]) => numbers);
  expect(numbersOf(7, "a", 8)).toEqual(["1,3"]);
  expect(numbersOf(7, true, 8, false)).toEqual(["1,3", "2,4"]);
});

test("the check has one id per text, by which a connection recognizes it", () => {
  const [plain, again, other] = [checkOf([]), checkOf([]), checkOf([7])];
  expect(again.id).toBe(plain.id);
  expect(other.id).not.toBe(plain.id);
  // Above 0, because 0 names no statement.
  expect(Math.min(plain.id, other.id)).toBeGreaterThan(0);
});

// -- what its failure means ------------------------------------------------------------------------------------------

test.each([
  ['invalid input syntax for type integer: "pgz-edge: types"', true, undefined],
  ['invalid input syntax for type integer: "pgz-edge: columns {23,20001,10000,9999}"', true, [20_001, 10_000]],
  ['invalid input syntax for type integer: "pgz-edge: columns {23}"', true, undefined],
  // Then the statement is described, and its description asks for all types.
  ['invalid input syntax for type integer: "pgz-edge: columns {20001,2249}"', true, undefined],
  ['invalid input syntax for type integer: "pgz-edge: columns {2287}"', true, undefined],
  ['invalid input syntax for type integer: "pgz-edge: settings 0ISO, MDYpostgres"', false, undefined],
  ['invalid input syntax for type integer: "pgz-edge: columns"', false, undefined],
  ['function pg_catalog.current_setting("types") does not exist', false, undefined],
])("%s", (message, isOfItsTypes, types) => {
  expect([isOfTypes(message), columnTypes(message)]).toEqual([isOfItsTypes, types]);
});

test("a check that fails for columns has passed for settings", () => {
  expect(['"pgz-edge: columns {23}"', '"pgz-edge: types"', '"pgz-edge: columns"'].map(isOfColumns)).toEqual([
    true,
    false,
    false,
  ]);
});

test.each([
  [undefined, true],
  ["16.0", true],
  ["18beta1", true],
  ["15.18 (Debian 15.18-0)", false],
  ["9.6", false],
  ["H2", false],
])("a server that reports version %s is asked for the types of columns: %s", (version, isAsked) => {
  const { check } = firstRunOf("server", "select n", [], COLUMNS, version)!;
  expect(check.sql.includes("result_types")).toBe(isAsked);
});

test.each([
  ...["12.0", "12.1", "15.18 (Debian 15.18-0)", "18beta1", undefined].map((version) => [version, false] as const),
  ...["11.22", "9.3.duckdb", "H2"].map((version) => [version, true] as const),
])("a server that reports version %s is too old: %s", (version, isTooOld) => {
  expect(isOld(version)).toBe(isTooOld);
});

// -- servers ---------------------------------------------------------------------------------------------------------

test("two failed sessions, or three at once, mark their server until a check passes", async () => {
  const isolate = await newIsolate();
  const runs = () => isolate.firstRunOf("s", "select 1", []) !== undefined;
  isolate.checkFailed("s");
  isolate.checkPassed("s");
  isolate.checkFailed("s");
  expect(runs()).toBe(true);
  for (const _ of "12") {
    isolate.checkFailed("s");
    expect(runs()).toBe(false);
  }
  isolate.checkPassed("s");
  expect(runs()).toBe(true);
});

test("failed checks are remembered for a bounded number of servers, and the oldest is dropped", async () => {
  const isolate = await newIsolate();
  const runs = (server: string) => isolate.firstRunOf(server, "select 1", []) !== undefined;
  const fail = (server: string) => isolate.checkFailed(server);
  // Two sessions each. The last server has its first one only.
  for (let server = 1; server < MOST_SERVERS; server++) for (const _ of "12") fail(`${server}`);
  fail("last");
  expect(["1", "2", `${MOST_SERVERS - 1}`, "last"].map(runs)).toEqual([false, false, false, true]);
  fail("more");
  expect(["1", "2", `${MOST_SERVERS - 1}`].map(runs)).toEqual([true, false, false]);
});

test("passed checks are remembered for a bounded number of servers", async () => {
  const isolate = await newIsolate();
  const isNew = (server: string) =>
    isolate.firstRunOf(server, "select 1", [])!.check.sql.includes("server_version_num");
  for (let server = 1; server <= MOST_SERVERS; server++) isolate.checkPassed(`${server}`);
  expect(["1", `${MOST_SERVERS}`].map(isNew)).toEqual([false, false]);
  isolate.checkPassed("more");
  expect(["1", "2", `${MOST_SERVERS}`, "more"].map(isNew)).toEqual([true, false, false, false]);
});
