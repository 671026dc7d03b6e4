// The sql tag: what becomes text, what becomes a value, and what is refused.
import { expect, test, vi } from "vitest";
import { sql, toCall, toQuery, type Query } from "../../js/statement/sql.ts";
import { PgzError } from "../../js/util/errors.ts";
import type { SqlValue } from "../../js/values/parameter-types.ts";
import { textOf } from "../../js/values/text-values.ts";

const refused = (act: () => unknown) => {
  try {
    act();
  } catch (error) {
    return (error as { code: string }).code;
  }
  return "accepted";
};

test("values become parameters in order", () => {
  const query = sql`select ${1}::int4, ${"a'; drop table x; --"}, ${null}`;
  expect(query.text).toBe("select $1::int4, $2, $3");
  expect(query.values).toEqual([1, "a'; drop table x; --", null]);
});

test("fragments nest, and parameters are renumbered through all of them", () => {
  const active = sql`active = ${true}`;
  const both = sql`(${active} and ${sql`age > ${18}`})`;
  const query = sql`select ${0} from users where ${both} or ${active} limit ${5}`;
  expect(query.text).toBe("select $1 from users where (active = $2 and age > $3) or active = $4 limit $5");
  expect(query.values).toEqual([0, true, 18, true, 5]);
  expect(active.text).toBe("active = $1");
});

test("a template compiles the right text again after values and fragments were swapped", () => {
  const of = (part: SqlValue) => sql`select ${part}, ${2}`;
  expect(of(1).text).toBe("select $1, $2");
  expect(of(sql`now()`).text).toBe("select now(), $1");
  expect(of(sql`${1} + ${1}`).text).toBe("select $1 + $2, $3");
  expect(of(7)).toMatchObject({ text: "select $1, $2", values: [7, 2] });
});

test("fragments may be nested deeper than functions can be", () => {
  let query = sql`0`;
  let listed = sql`0`;
  const depth = 20_000;
  for (let n = 0; n < depth; n++) [query, listed] = [sql`(${query} + ${1})`, sql`(${[listed]})`];
  expect(query.values.length).toBe(depth);
  expect(query.text.endsWith(` + $${depth - 1}) + $${depth})`)).toBe(true);
  expect(listed.text).toBe("(".repeat(depth) + "0" + ")".repeat(depth));
});

test("a digit after a value does not become part of its number", () => {
  expect(sql`select ${1}0`.text).toBe("select $1 0");
  expect(sql`select ${1}${sql``}0`.text).toBe("select $1 0");
  expect(sql`select ${1}${sql.unsafe("0")}`.text).toBe("select $1 0");
  expect(sql`select ${sql`${1}`}0`.text).toBe("select $1 0");
  expect(sql`select ${sql.unsafe("1")}0, ${1}::int`.text).toBe("select 10, $1::int");
  // A digit elsewhere is not moved either.
  expect(sql`1 + ${1} + a${sql.unsafe("1")}`.text).toBe("1 + $1 + a1");
});

test("a query's text and values cannot be replaced, and changing one query's values affects no other", () => {
  const values = [1, 2];
  const make = () => sql`select ${values}, ${1}`;
  const query = make();
  expect(() => Object.assign(query, { text: "x" })).toThrow(TypeError);
  expect(() => Object.assign(query, { values: [] })).toThrow(TypeError);
  const other = make();
  (other.values as unknown[]).push(2);
  expect([query.values, make().values]).toEqual([
    [[1, 2], 1],
    [[1, 2], 1],
  ]);
  expect(make().text).toBe("select $1, $2");
  expect(JSON.parse(JSON.stringify(query))).toEqual({ text: "select $1, $2", values: [[1, 2], 1] });
});

test("called as a function, as other drivers' tags may be, it makes no SQL of its arguments", () => {
  const called = sql as unknown as (...given: unknown[]) => unknown;
  for (const given of [["1); drop table users; --"], [[1, 2]], ["a", "b"], { id: 1 }, "users", undefined])
    expect(refused(() => called(given, 1))).toBe("INVALID_QUERY");
  expect(refused(() => called(Object.assign(["x"], { raw: "x" })))).toBe("INVALID_QUERY");
});

test("text is inserted by unsafe only, and identifiers are quoted", () => {
  expect(sql`select ${sql.unsafe("now()")}`).toMatchObject({ text: "select now()", values: [] });
  expect(sql`select * from ${sql.identifier("app", "users")}`.text).toBe('select * from "app"."users"');
  expect(sql.identifier('a"; drop table x; --').text).toBe('"a""; drop table x; --"');
  expect(sql.identifier("é😀").text).toBe('"é😀"');
});

test("text that cannot be an identifier or SQL is refused", () => {
  for (const names of [[], [""], ["a", ""], ["a\0b"], ["a\ud800"], [5 as never]])
    expect(refused(() => sql.identifier(...names))).toBe("INVALID_QUERY");
  for (const text of ["a\0b", "\udc00", 5 as never, undefined as never])
    expect(refused(() => sql.unsafe(text))).toBe("INVALID_QUERY");
  for (const text of ["select '\0'", "\ud83d"]) expect(refused(() => toQuery(text))).toBe("INVALID_QUERY");
  expect(refused(() => sql`select '\u0000'`.text)).toBe("INVALID_QUERY");
  expect(refused(() => sql`select '\u0000', ${sql`1`}`.text)).toBe("INVALID_QUERY");
});

test("undefined is refused at once, with its position", () => {
  expect(() => sql`select ${1}, ${undefined as never}`).toThrow(
    expect.objectContaining({ code: "INVALID_PARAMETER", message: expect.stringContaining("Value 2") }),
  );
  expect(() => toQuery({ text: "select $1", values: [undefined] })).toThrow(
    expect.objectContaining({ code: "INVALID_PARAMETER", message: expect.stringContaining("The value of $1 is") }),
  );
});

test("toQuery accepts every form of a query", () => {
  const query = sql`select ${1}`;
  expect(toQuery(query)).toBe(query);
  expect(toQuery("select 1")).toEqual({ text: "select 1", values: [] });
  expect(toQuery("")).toEqual({ text: "", values: [] });
  expect(toQuery({ text: "select $1", values: [1] })).toEqual({ text: "select $1", values: [1] });
  expect(toQuery({ text: "select 1" } as Query)).toEqual({ text: "select 1", values: [] });
  const tag = (template: TemplateStringsArray, ...values: unknown[]) => toCall(template, values)[0];
  expect(tag`select ${1}, ${sql`now()`}`).toMatchObject({ text: "select $1, now()", values: [1] });
});

test("a query object that is changed later does not change the query", () => {
  const values = [1];
  const query = toQuery({ text: "select $1", values });
  values[0] = 2;
  expect(query.values).toEqual([1]);
});

test("what is not a query is refused", () => {
  for (const input of [
    null,
    undefined,
    5,
    {},
    [],
    ["select 1"],
    { text: 5 },
    { text: "select $1", values: "a" },
    { text: "a\0" },
    () => 1,
  ]) {
    expect(
      refused(() => toQuery(input as never)),
      String(input),
    ).toBe("INVALID_QUERY");
  }
});

test("fragments of another copy of the package compose", async () => {
  vi.resetModules();
  const copy = await import("../../js/statement/sql.ts");
  expect(copy.sql).not.toBe(sql);
  expect(sql`select ${copy.sql`${1} + ${2}`}`).toMatchObject({ text: "select $1 + $2", values: [1, 2] });
  expect(sql.join([1, 2], copy.sql` and `)).toMatchObject({ text: "$1 and $2" });
  const foreign = copy.sql`select ${1}`;
  expect(toQuery(foreign)).toBe(foreign);
  expect(foreign).toMatchObject({ text: "select $1", values: [1] });
});

test("join puts a separator between, and an array of fragments is inserted without one", () => {
  const where = sql.join([sql`a = ${1}`, sql`b = ${2}`], sql` and `);
  expect(sql`select 1 where ${where}`).toMatchObject({ text: "select 1 where a = $1 and b = $2", values: [1, 2] });
  expect(sql`select ${sql.join([1, sql`now()`, "x"])}`).toMatchObject({
    text: "select $1, now(), $2",
    values: [1, "x"],
  });
  expect(sql`select 1 ${sql.join([])}`).toMatchObject({ text: "select 1 ", values: [] });
  expect(sql.join([1, 2, 3], sql` + ${0} + `)).toMatchObject({
    text: "$1 + $2 + $3 + $4 + $5",
    values: [1, 0, 2, 0, 3],
  });
  expect(sql`select 1 ${[sql`where a = ${1}`, sql` limit ${2}`]}`).toMatchObject({
    text: "select 1 where a = $1 limit $2",
    values: [1, 2],
  });
  // Any other list is a value.
  for (const value of [[], [1], [sql`a`, 1]])
    expect(sql`select ${value}`).toMatchObject({ text: "select $1", values: [value] });
});

test("in, set and values quote names, keep order, and accept fragments as values", () => {
  expect(sql`id in ${sql.in([1, null, sql`now()`])}`).toMatchObject({
    text: "id in ($1, $2, now())",
    values: [1, null],
  });
  expect(sql.set({ name: "x", 'a"b': null, at: sql`now()` })).toMatchObject({
    text: '"name" = $1, "a""b" = $2, "at" = now()',
    values: ["x", null],
  });
  expect(sql.set({ name: "x", id: 1 }, "id")).toMatchObject({ text: '"id" = $1', values: [1] });
  const rows = [
    { id: 1, name: "a" },
    { name: "b", id: 2 },
  ];
  expect(sql`insert into t ${sql.values(rows)} returning id`).toMatchObject({
    text: 'insert into t ("id", "name") values ($1, $2), ($3, $4) returning id',
    values: [1, "a", 2, "b"],
  });
  expect(sql.values(rows, "name")).toMatchObject({ text: '("name") values ($1), ($2)', values: ["a", "b"] });
  expect(
    sql.values([
      [1, "a"],
      [2, sql`default`],
    ]),
  ).toMatchObject({ text: "values ($1, $2), ($3, default)", values: [1, "a", 2] });
});

test("input that would give invalid or unintended SQL is refused at once", () => {
  for (const act of [
    () => sql.in([]),
    () => sql.values([]),
    () => sql.values([[]]),
    () => sql.values([{}]),
    () => sql.set({}),
    () => sql.values([[1], [1, 2]]),
    () => sql.in("ab" as never),
  ])
    expect(refused(act)).toBe("INVALID_QUERY");
  for (const act of [
    () => sql.values([{ a: 1 }, { b: 1 }] as object[]),
    () => sql.set({ a: undefined as never }),
    () => sql.set({}, "toString" as never),
    () => sql.in([undefined as never]),
    () => sql.join([undefined as never]),
  ])
    expect(refused(act)).toBe("INVALID_PARAMETER");
  expect(refused(() => sql.set({ "": 1 }))).toBe("INVALID_QUERY");
});

/** The text that is sent for a parameter of this type. */
function sentAs(type: number, value: unknown): string {
  return textOf({ index: 0, type }, type, value);
}

test("json is sent as JSON whatever the value", () => {
  expect(sql`select ${sql.json("a")}, ${sql.json([1, { b: null }])}`.text).toBe("select $1, $2");
  const values = [
    "a",
    '"',
    "1",
    1.5,
    true,
    null,
    [],
    {},
    [1, { b: null }],
    { toJSON: () => "made" },
    new Date(0),
    new String("s"),
  ];
  for (const value of values) {
    // The parameter's type does not matter: a text is not taken for JSON, and an array not for an SQL array.
    for (const type of [25, 114, 3802, 1009])
      expect(sentAs(type, sql`${sql.json(value)}`.values[0])).toBe(JSON.stringify(value));
  }
  const changing = { n: 1 };
  const early = sql.json(changing);
  changing.n = 2;
  expect(sentAs(114, early)).toBe('{"n":1}');
  expect(refused(() => sql.json(undefined))).toBe("INVALID_PARAMETER");
});

const QUERY = "a query (a fragment is no value of JSON: write jsonb_build_object in the SQL)";
const UNSEEN = "whose content JSON.stringify does not see";

test.each<[what: string, value: unknown, why: string]>([
  ["NaN", NaN, "it is NaN"],
  ["an infinite number", -Infinity, "it is -Infinity"],
  ["an invalid Date", new Date(NaN), "it is an invalid Date"],
  ["a Map", new Map([[1, 2]]), `it is of type Map, ${UNSEEN}`],
  ["an error", new RangeError("x"), `it is of type Error, ${UNSEEN}`],
  ["a parameter of a URL", new URLSearchParams("a=1"), `it is of type URLSearchParams, ${UNSEEN}`],
  ["an iterator", new Map().values(), `it is of type Map Iterator, ${UNSEEN}`],
  ["a boxed NaN", Object(NaN), "it is NaN"],
  ["a function", () => {}, "JSON has no function"],
  ["a bigint", 1n, "it is a bigint (pass its text)"],
  ["NaN further in", { a: [1, { b: NaN }] }, "its .a[1].b is NaN"],
  ["a Set further in", [null, {}, new Set()], `its [2] is of type Set, ${UNSEEN}`],
  ["what has a name that may be data", { "ada@example.com": NaN }, "its […] is NaN"],
  ["a promise further in", { a: null, b: Promise.resolve(1) }, "its .b is a promise (await it first)"],
  ["a bigint further in", { a: { b: 1n } }, "its .a.b is a bigint (pass its text)"],
  ["bytes further in", { a: new Uint8Array([1]) }, "its .a is bytes (JSON has none: pass them as base64 or hex text)"],
  ["other bytes", [new Float64Array(0)], "its [0] is bytes (JSON has none: pass them as base64 or hex text)"],
  ["a circle", circle(), "it contains itself"],
  ["a fragment further in", { updated: sql`now()` }, `its .updated is ${QUERY}`],
  ["a statement with values", [sql.unsafe("select $1", ["secret"])], `its [0] is ${QUERY}`],
  ["a fragment beside a bigint", { a: sql`now()`, b: 1n }, `its .a is ${QUERY}`],
])("%s is refused as JSON, because JSON.stringify would lose it", (_, value, why) => {
  for (const type of [114, 3802])
    if (typeof value !== "bigint")
      expect(() => sentAs(type, value)).toThrow(`a value that JSON can represent (${why})`);
  expect(() => sql.json(value)).toThrow(`sql.json needs a value that JSON can represent: ${why}.`);
});

test("a query is no value of any type, and the error says where it belongs", () => {
  for (const query of [sql`now()`, sql.unsafe("select $1", ["secret"])]) {
    for (const type of [23, 25, 114, 1184, 3802, 3904, 99_999])
      expect(() => sentAs(type, query)).toThrow(/does not accept .*: it is a query: write it in the SQL, sql`/);
    expect(() => sql.json(query)).toThrow(`sql.json needs a value that JSON can represent: it is ${QUERY}.`);
  }
});

test("an object that looks like a query, and an error of the driver's, are values of JSON", () => {
  const lookalike = { text: "select $1", values: [1] };
  expect(sentAs(3802, { lookalike })).toBe(JSON.stringify({ lookalike }));
  const error = new PgzError("ABORTED", "text");
  expect(sentAs(3802, { text: "x", error })).toBe(JSON.stringify({ text: "x", error }));
});

test("what JSON.stringify leaves out or converts is accepted, however deep", () => {
  const twice = { n: null };
  const own = Object.assign(new Map(), { toJSON: () => "a map of one's own" });
  class Tagged {
    readonly a = null;
    get [Symbol.toStringTag](): string {
      return "Error";
    }
  }
  const list: unknown[] = [null];
  Object.assign(list, { self: list, score: NaN }); // of an array only the items are written
  const value = {
    a: undefined,
    b: () => {},
    c: { toJSON: () => NaN },
    d: [twice, twice],
    own,
    tagged: new Tagged(),
    list,
  };
  expect(JSON.parse(sentAs(3802, value))).toEqual({
    ...{ c: null, d: [twice, twice], own: "a map of one's own", tagged: { a: null }, list: [null] },
  });
  let deep: unknown = null;
  for (let n = 0; n < 2_000; n++) deep = [deep];
  expect(sentAs(3802, deep)).toBe(JSON.stringify(deep));
});

test("code of the value's own that fails is the cause", () => {
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  const cause = new Error("mine");
  const throws = {
    get a() {
      throw cause;
    },
  };
  for (const value of [proxy, throws])
    expect(() => sql.json(value)).toThrow(expect.objectContaining({ code: "INVALID_PARAMETER" }));
  expect(() => sql.json(throws)).toThrow(expect.objectContaining({ cause }));
});

function circle(): object {
  const one: Record<string, unknown> = {};
  return Object.assign(one, { one });
}

test("a list is a copy of what was given, however long", () => {
  const ids = [1, 2];
  const query = sql`id in ${sql.in(ids)}`;
  ids.push(3);
  expect(query).toMatchObject({ text: "id in ($1, $2)", values: [1, 2] });
  for (const length of [63, 64, 65, 1_000]) {
    const values = Array.from({ length }, (_, index) => index);
    for (const _ of ["first", "again"])
      expect(sql`id in ${sql.in(values)} and ${true}`.text).toBe(
        `id in (${values.map((index) => `$${index + 1}`).join(", ")}) and $${length + 1}`,
      );
    for (const part of ["a", "b"])
      expect(sql`${sql.in(values)} ${sql.unsafe(part)}`.text.endsWith(`) ${part}`)).toBe(true);
  }
  for (const text of ["x".repeat(2_000), "y".repeat(2_000)])
    expect(sql`${sql.unsafe(text)} ${1}`.text).toBe(`${text} $1`);
});

test("json inside JSON is written as its value", () => {
  expect(JSON.stringify({ a: sql.json("x"), b: [sql.json({ c: 1 })] })).toBe('{"a":"x","b":[{"c":1}]}');
});

test("lists of fragments with different boundaries make different texts, also the second time", () => {
  const two = (one: Query[], other: Query[]) => toQuery(sql`select ${one} from t where ${other}`).text;
  const [a, b, c] = ["a", "b", "c"].map((text) => sql.unsafe(text)) as [Query, Query, Query];
  const texts = [two([a, b], [c]), two([a], [b, c]), two([a, b], [c])];
  expect(texts[0]).toBe(texts[2]);
  expect(texts[0]).not.toBe(texts[1]);
});

test.each([null, undefined, 5, "ab", {}, { n: undefined }, Object.create({ n: 1 })])(
  "a row without a value for a column of the first row is refused: %j",
  (row) => {
    const rows = [{ n: 1 }, row] as { n: number }[];
    const error = (() => {
      try {
        return toQuery(sql`insert into t ${sql.values(rows)}`);
      } catch (thrown) {
        return thrown;
      }
    })();
    expect(error).toMatchObject({ name: "UsageError", message: expect.stringContaining(`column "n"`) });
  },
);
