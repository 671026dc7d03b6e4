// The check before a first run as SQL (js/session/first-run.ts): which statements may have one, what it looks at, what
// its failure means, and what is remembered of servers.
import { beforeEach, expect, test } from "vitest";
import { KnownServer, type KnownScope } from "../../js/server/known-server.ts";
import { failedByTypes, firstRunOf, noteCheck, type ReadColumns } from "../../js/session/first-run.ts";
import { isPipelinable } from "../../js/util/statement-words.ts";

let server: KnownServer;
let scope: KnownScope;
beforeEach(() => {
  server = new KnownServer();
  scope = server.unscoped;
});

const COLUMNS: ReadColumns = { known: [], anySize: false };
const checkOf = (values: readonly unknown[], columns?: ReadColumns, isVersionKnown = true) =>
  firstRunOf(scope, "select n", values, columns, isVersionKnown ? "18.0" : undefined)!.check;
const sqlOf = (...given: Parameters<typeof checkOf>) => checkOf(...given).sql;

// -- statements ------------------------------------------------------------------------------------------------------

test.each(["select", "INSERT", "update", "delete", "merge", "with", "values", "table"])("%s is plain", (word) => {
  expect(isPipelinable(`${word} x`)).toBe(true);
});

test.each([
  ...["begin", "commit", "create table t ()", "explain select 1", "set a to b", "", "(select 1)", "selection"],
  ...["vacuum t", "call p()"],
])("%j is not plain, and is described first", (text) => {
  expect([isPipelinable(text), firstRunOf(scope, text, [])]).toEqual([false, undefined]);
});

test.each([
  " -- c\n/* d */ SELECT 1",
  "select row(1), (a, b), x::record",
  "select 'set_config', $$pg_settings$$ -- set_config",
])("a statement that changes no settings may run first: %s", (text) => {
  expect(firstRunOf(scope, text, [])).toBeDefined();
});

test.each([
  'select "set_config"(a)',
  "select pg_catalog.Set_Config(a)",
  `select U&"set\\005fconfig"('DateStyle', 'German', false), now()`,
  "with s as (update pg_settings set setting = '-5' where name = 'extra_float_digits') select f from t",
  "table pg_settings",
])("a statement that changes settings is described first: %s", (text) => {
  expect(firstRunOf(scope, text, [])).toBeUndefined();
});

test("a statement is sent with its text, its values as text, and whether it has values", () => {
  const none = firstRunOf(scope, "select n", [])!;
  expect(none).toMatchObject({ text: "select n", hasValues: false });
  // No format codes and no values.
  expect([...none.parameters]).toEqual([0, 0, 0, 0]);
  const one = firstRunOf(scope, "select $1", ["é"])!;
  expect(one).toMatchObject({ text: "select $1", hasValues: true });
  expect([...one.parameters]).toEqual([0, 0, 0, 1, 0, 0, 0, 2, 0xc3, 0xa9]);
  for (const value of [Symbol("no text"), Infinity]) expect(firstRunOf(scope, "select $1", [value, 5])).toBeUndefined();
});

test("a statement with very many numbers, or with more values than the protocol can count, is described first", () => {
  const numbers = (count: number) => firstRunOf(scope, "select 1", Array(count).fill(7));
  expect(numbers(200)!.check.sql.length).toBeLessThan(2_000);
  expect(numbers(201)).toBeUndefined();
  expect(firstRunOf(scope, "select 1", Array(65_536).fill("text"))).toBeUndefined();
});

// -- what the check looks at -----------------------------------------------------------------------------------------

test("the check always looks at settings, and at the version only while it is unknown", () => {
  const looksAtVersion = (isVersionKnown: boolean) =>
    firstRunOf(scope, "select 1", [], undefined, isVersionKnown ? "18.0" : undefined)!.check.sql.includes(
      "server_version_num",
    );
  expect([looksAtVersion(false), looksAtVersion(true)]).toEqual([true, false]);
  for (const setting of ["extra_float_digits", "DateStyle", "IntervalStyle"])
    expect(sqlOf([])).toContain(`current_setting('${setting}')`);
  // A session has been told the version.
  noteCheck(server, "18.0");
  expect(looksAtVersion(false)).toBe(false);
  expect(firstRunOf(new KnownServer().unscoped, "select 1", [])!.check.sql).toContain("server_version_num");
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
    "(b operator(pg_catalog.>=)10000 or b operator(pg_catalog.=)any('{2249,2287}'))",
  );
  expect(
    [sqlOf([], COLUMNS), sqlOf([], { ...COLUMNS, anySize: true })].map((sql) =>
      sql.includes("typlen operator(pg_catalog.<)0"),
    ),
  ).toEqual([true, false]);
});

test("the check leaves out as many known types as fit", () => {
  const excepted = (known: number[]) =>
    / b operator\(pg_catalog\.<>\)all\('\{([^}]*)\}'/.exec(sqlOf([], { ...COLUMNS, known }))?.[1];
  expect(excepted([])).toBeUndefined();
  expect(excepted([20_001])).toBe("20001");
  // At most forty characters. After the first type that does not fit, no further one is tried.
  const known = [20_001, 20_002, 20_003, 20_004, 20_005, 20_006, 1_234_567, 1];
  expect(excepted(known)).toBe(known.slice(0, 6).join());
  expect(excepted([...known.slice(0, 6), 1_234])).toBe([...known.slice(0, 6), 1_234].join());
});

test("the check has at most 960 bytes, even if many types are known", () => {
  const known = Array.from({ length: 100 }, (_, at) => 4_000_000_000 + at);
  const lengthOf = (known: number[], isVersionKnown: boolean) =>
    sqlOf([], { ...COLUMNS, known }, isVersionKnown).length;
  for (const isVersionKnown of [false, true])
    for (const types of [[], known]) expect(lengthOf(types, isVersionKnown)).toBeLessThanOrEqual(960);
  expect(lengthOf(known, true)).toBeGreaterThan(lengthOf([], true));
  expect(sqlOf([]).length).toBeLessThan(352);
});

test("parameter types are looked at if a text would not do for each of them", () => {
  expect(sqlOf(["text"])).not.toContain("parameter_types");
  // One rule for both numbers, which some types refuse, and another for the date, which only some types accept.
  expect(sqlOf([7, 8, "text", new Date(0)])).toContain(
    "bool_or(array[p[1],p[2]]operator(pg_catalog.&&)'{16,17,1082,1083,1114,1184,1186}' or " +
      "p[1]is not null and not array[p[4]]operator(pg_catalog.<@)'{1082,1114,1184}')",
  );
});

test("values with different sets of possible types are looked at separately", () => {
  const numbersOf = (...values: unknown[]) =>
    [...sqlOf(values).matchAll(/array\[(p\[[^'{]*)\]operator/g)].map(([, list]) => list!.match(/\d+/g)!.join());
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

// -- versions ---------------------------------------------------------------------------------------------------------

test.each([
  [undefined, true, true],
  ["18beta1", true, true],
  ["16.0", true, true],
  ["15.18 (Debian 15.18-0)", false, true],
  ["12.0", false, true],
  ["11.22", false, false],
  ["9.3.duckdb", false, false],
  ["H2", false, false],
])("on version %s a statement with rows may run first: %s, one without: %s", (version, withRows, without) => {
  expect(firstRunOf(scope, "select n", [], COLUMNS, version) !== undefined).toBe(withRows);
  expect(firstRunOf(scope, "select n", [], undefined, version) !== undefined).toBe(without);
});

test("an early query knows the version that an earlier session was told", () => {
  const runs = (columns?: ReadColumns) => firstRunOf(scope, "select n", [], columns) !== undefined;
  noteCheck(server, "16.1");
  expect([runs(COLUMNS), runs()]).toEqual([true, true]);
  noteCheck(server, "15.2");
  expect([runs(COLUMNS), runs()]).toEqual([false, true]);
  noteCheck(server, undefined);
  expect(runs(COLUMNS)).toBe(false);
});

// -- what its failure means ------------------------------------------------------------------------------------------

test.each([
  ["22P02", 'invalid input syntax for type integer: "pgz-edge: types"', true],
  ["22P02", 'invalid input syntax for type integer: "pgz-edge: settings 0ISO, MDYpostgres"', false],
  ["42883", 'function pg_catalog.current_setting("types") does not exist', false],
  ["42703", 'column "result_types" does not exist', true],
])("%s %s says nothing of other statements: %s", (code, message, isOfItsTypes) => {
  expect(failedByTypes({ code, message })).toBe(isOfItsTypes);
});

test.each(["15.2", "13.0", "18.1", undefined])(
  "a server of version %s that has no types of columns is not asked for them again",
  (version) => {
    noteCheck(server, version, "42703");
    expect(firstRunOf(scope, "select n", [], COLUMNS)).toBeUndefined();
    expect(firstRunOf(scope, "select n", [])).toBeDefined();
    expect(firstRunOf(new KnownServer().unscoped, "select n", [], COLUMNS)).toBeDefined();
  },
);

// -- servers ---------------------------------------------------------------------------------------------------------

test("two failed sessions mark their scope, and no other scope of the server", () => {
  const runs = (one = scope) => firstRunOf(one, "select 1", []) !== undefined;
  scope.failedChecks = 1;
  expect(runs()).toBe(true);
  for (const failed of [2, 3]) {
    scope.failedChecks = failed;
    expect([runs(), runs(server.scope("other"))]).toEqual([false, true]);
  }
});
