// Which queries a call accepts (js/statement/sql.ts), in every form, and the errors for all others.
import { inspect } from "node:util";
import { expect, test } from "vitest";
import { plainText, sql, toCall, toQuery, type Query } from "../../js/statement/sql.ts";

/** The compiler refuses it. Programs without types have it. */
const NONE = undefined as never;

const said = (act: () => unknown) => {
  try {
    act();
  } catch (error) {
    return `${(error as { code: string }).code}: ${(error as Error).message}`;
  }
  return "accepted";
};

test("unsafe with values is a whole statement that cannot be changed", () => {
  const given = [1, null];
  const whole = sql.unsafe("select $1, $2", given);
  given.push(2);
  expect(whole).toMatchObject({ text: "select $1, $2", values: [1, null] });
  expect(toQuery(whole)).toBe(whole);
  expect(() => Object.assign(whole, { text: "x" })).toThrow(TypeError);
  expect(() => (whole.values as unknown[]).push(3)).toThrow(TypeError);
  expect(sql.unsafe("select 1", [])).toMatchObject({ text: "select 1", values: [] });
  for (const text of ["a\0", 5 as never]) expect(said(() => sql.unsafe(text, []))).toMatch(/^INVALID_QUERY: SQL must/);
  expect(said(() => sql.unsafe("select $1", "a" as never))).toMatch(/^INVALID_QUERY: The values of \$1, \$2/);
  expect(said(() => sql.unsafe("select $1", null as never))).toMatch(/^INVALID_QUERY: The values of/);
  expect(said(() => sql.unsafe("select $1, $2", [1, undefined]))).toMatch(/^INVALID_PARAMETER: The value of \$2 is/);
});

test("a whole statement cannot be part of another, because its numbers would mean other values", () => {
  const whole = sql.unsafe("select $1", [1]);
  for (const act of [() => sql`select ${whole}`, () => sql.join([whole]), () => sql.in([whole])])
    expect(said(act)).toMatch(/^INVALID_QUERY: A query of bind\(\), or of sql\.unsafe with values, is a whole/);
});

test("a fragment in a template without sql is refused, and does not become a text of its own", () => {
  for (const query of [sql`id = ${1}`, sql.unsafe("id = $1", [1])])
    for (const act of [
      () => `select * from users where ${query as never as string}`,
      () => "select * from users where " + (query as never as string),
      () => String(query),
      () => [query].join(" and "),
    ])
      expect(said(act)).toMatch(/^INVALID_QUERY: A query inside a text: put sql in front of the outer template/);
});

test.each([
  ["the words before it", () => sql`select ${NONE}`, 'Value 1 of the query, after "select", is'],
  [
    "the last five of them",
    () => sql`update  users set\n a = ${1} where one or  two and\n three = ${NONE}`,
    'Value 2 of the query, after "or two and three =", is',
  ],
  ["nothing in front", () => sql`${NONE} from t`, "Value 1 of the query is"],
  ["no word in front", () => sql`(${1}), (${NONE})`, "Value 2 of the query is"],
])("the error for an undefined value quotes %s", (_, act, message) => {
  expect(said(act)).toContain(`INVALID_PARAMETER: ${message} undefined`);
});

test("the error for an undefined value after a very long word quotes its end", () => {
  const strings = Object.assign([`select ${"x".repeat(100)}y`, ""], { raw: [] as string[] });
  expect(said(() => sql(strings, NONE))).toContain(`after "${"x".repeat(59)}y", is`);
});

test("input that the helpers cannot make SQL of is refused with an explanation", () => {
  const cases: [() => unknown, RegExp][] = [
    [() => sql.join("ab" as never), /^INVALID_QUERY: sql\.join needs an array/],
    [() => sql.join([1], " and " as never), /^INVALID_QUERY: The separator of sql\.join is a fragment/],
    [() => sql.values([[1, 2]], ...(["b", "a"] as never[])), /^INVALID_QUERY: Rows that are arrays have no columns/],
    [() => sql.join({ length: 1 } as never), /^INVALID_QUERY: sql\.join needs an array/],
    [() => sql.in({ length: 1 } as never), /^INVALID_QUERY: A list of values must be an array/],
    [() => sql.set(5 as never), /^INVALID_QUERY: sql\.set needs an object/],
    [() => sql.set(null as never), /^INVALID_QUERY: sql\.set needs an object/],
    [() => sql.set("ab" as never, "length"), /^INVALID_QUERY: sql\.set needs an object/],
    [() => sql.set({ a: 1 }, "b" as never), /^INVALID_PARAMETER: A row has no value for column "b"/],
    [() => sql.values(5 as never), /^INVALID_QUERY: A list of values must be an array/],
    [() => sql.values("ab" as never), /^INVALID_QUERY: A list of values must be an array/],
    [() => sql.values({}), /^INVALID_QUERY: sql\.values needs rows/],
    [() => sql.values(null as never), /^INVALID_QUERY: sql\.values needs rows/],
    [() => sql.values(["ab"] as never), /^INVALID_QUERY: sql\.values needs rows/],
    [() => sql.values([[1], []]), /^INVALID_QUERY: A list of values must be an array/],
    [() => sql.values([[1, 2], [1]]), /^INVALID_QUERY: A row has 1 values, but the first row has 2/],
    [() => sql.values([[1], { a: 1 }] as never), /^INVALID_QUERY: A list of values must be an array/],
    [
      () => sql.values([{ a: 1 }, { a: 2, b: 3 }] as object[]),
      /^INVALID_QUERY: A row has a value for "b", and the first row has/,
    ],
    [
      () => sql.values([{ a: 1 }, { a: 2, x: undefined, b: 3 }] as object[]),
      /^INVALID_QUERY: A row has a value for "b"/,
    ],
    [() => sql.identifier(["a"] as never), /^INVALID_QUERY: An identifier must be text/],
    [() => sql.values([{ a: 1 }], "b" as never), /^INVALID_PARAMETER: A row has no value for column "b"/],
    [() => sql.snakeCase(5 as never), /^INVALID_QUERY: sql\.snakeCase needs an object/],
    [() => sql.snakeCase(null as never), /^INVALID_QUERY: sql\.snakeCase needs an object/],
    [
      () => sql.snakeCase({ createdAt: 1, created_at: 2 } as never),
      /^INVALID_QUERY: sql\.snakeCase.*one column of two members/,
    ],
    [() => sql.snakeCase([{}, "ab"] as never), /^INVALID_QUERY: sql\.snakeCase needs an object/],
    [() => (sql as unknown as (given: string) => unknown)("select"), /^INVALID_QUERY: Write sql`…`, or use sql\.in/],
    [() => sql.identifier("a", ""), /^INVALID_QUERY: An identifier cannot be empty/],
    [() => sql.identifier("a", "é".repeat(32)), /^INVALID_QUERY: The identifier "é+…" must have at most 63 bytes/],
    [() => sql.set({ ["n".repeat(64)]: 1 }), /^INVALID_QUERY: The identifier "n+…" must have at most 63 bytes/],
    [() => sql.values({ ["n".repeat(64)]: 1 }), /^INVALID_QUERY: The identifier "n+…" must have at most 63 bytes/],
  ];
  for (const [act, message] of cases) expect(said(act), String(act)).toMatch(message);
});

test("values accepts one row without a list", () => {
  expect(sql.values({ id: 1, name: "a" })).toMatchObject({ text: '("id", "name") values ($1, $2)', values: [1, "a"] });
  expect(sql.values({ id: 1, name: "a" }, "name")).toMatchObject({ text: '("name") values ($1)', values: ["a"] });
  expect(sql.values([[1], [2]])).toMatchObject({ text: "values ($1), ($2)", values: [1, 2] });
});

test("values takes rows with more than the columns that are named, and with members that are undefined", () => {
  expect(sql.values([{ a: 1 }, { a: 2, b: 3 }] as { a: number }[], "a")).toMatchObject({ values: [1, 2] });
  expect(sql.values([{ a: 1 }, { a: 2, b: undefined }] as { a: number }[])).toMatchObject({ values: [1, 2] });
});

test("snakeCase puts an underscore before each capital except the first letter, and nowhere else", () => {
  const row = { id: 1, createdAt: 2, aURL: 3, Name: 4, is_Old: 5, x1Y: 6 };
  const named = { id: 1, created_at: 2, a_u_r_l: 3, Name: 4, is_Old: 5, x1_y: 6 };
  expect(sql.snakeCase(row)).toEqual(named);
  expect(sql.snakeCase([row, {}])).toEqual([named, {}]);
});

test("a query is printed with its text, and only the number of its values", () => {
  for (const query of [sql`select ${"secret"}`, sql.unsafe("select $1", ["secret"])])
    expect(inspect(query)).toBe("Query { text: 'select $1', values: '1 value' }");
  expect(inspect(sql`select ${"secret"}, ${2}`)).toBe("Query { text: 'select $1, $2', values: '2 values' }");
  expect(inspect(sql`select 1`)).toBe("Query { text: 'select 1', values: '0 values' }");
  expect(inspect(sql`create role r password 'x'`)).not.toContain("'x'");
});

test("a query object has text and values, and nothing that would be ignored", () => {
  const base = { text: "select $1", values: [1] };
  expect(said(() => toQuery({ ...base, name: "n" } as Query))).toMatch(
    /^INVALID_QUERY: .* no "name": the driver names prepared statements itself/,
  );
  expect(said(() => toQuery({ ...base, rowMode: "array" } as Query))).toMatch(
    /^INVALID_QUERY: .* no "rowMode": options are the next argument/,
  );
  const bare = Object.assign(Object.create(null) as object, base, { rowMode: "array" });
  expect(said(() => toQuery(bare as Query))).toMatch(/^INVALID_QUERY: .* no "rowMode"/);
  expect(toQuery({ ...base, name: undefined } as Query)).toEqual(base);
  expect(toQuery({ text: "select 1", values: null } as never)).toEqual({ text: "select 1", values: [] });
});

test("a query of another library's class may have more members", () => {
  class Built {
    readonly text = "select $1";
    readonly values = [1];
    readonly name = "n";
  }
  expect(toQuery(new Built())).toEqual({ text: "select $1", values: [1] });
});

test("the error for an invalid query says what a query is", () => {
  for (const input of [null, undefined, 5, { text: 5 }, { text: "select $1", values: "a" }])
    expect(said(() => toQuery(input as never))).toMatch(/^INVALID_QUERY: A query is sql`…`, text, or an object/);
});

// -- arguments before the options ------------------------------------------------------------------------------------

const template = (strings: TemplateStringsArray, ...values: unknown[]) => toCall(strings, values);
const shown = ([{ text, values }, options]: [Query, object]) => ({ text, values, options });

test("a call accepts a template, a query, a text, or a text with its values, and options after each", () => {
  expect(shown(template`select ${1}`)).toEqual({ text: "select $1", values: [1], options: {} });
  // An object as a template's value is not taken for options.
  expect(shown(template`select ${{ timeout: 1 }}`)).toMatchObject({ values: [{ timeout: 1 }], options: {} });
  const options = { timeout: 1 };
  for (const [input, given, text, values] of [
    ["select 1", [], "select 1", []],
    [sql`select ${1}`, [], "select $1", [1]],
    [{ text: "select $1", values: [2] }, [], "select $1", [2]],
    ["select $1", [[3]], "select $1", [3]],
    ["select 1", [[]], "select 1", []],
    ["select 1", [undefined], "select 1", []],
  ] as [Query | string, unknown[], string, unknown[]][]) {
    expect(shown(toCall(input, given))).toEqual({ text, values, options: {} });
    if (given[0] !== undefined || !given.length)
      expect(toCall(input, [...given, options, undefined])[1], text).toBe(options);
  }
});

test.each([
  ["values after a query that has its own", sql`select 1`, [[1]], /^INVALID_QUERY: Values belong in the query/],
  ["values after options", "select $1", [{}, [1]], /^INVALID_OPTION: Options must be an object/],
  ["two lists of values", "select $1", [[1], [2]], /^INVALID_QUERY: Values belong in the query/],
  ["a callback", "select 1", [() => 1], /^INVALID_OPTION: No call takes a callback/],
  ["a callback after values", "select $1", [[1], () => 1], /^INVALID_OPTION: No call takes a callback/],
  ["a callback after options", "select 1", [{}, () => 1], /^INVALID_OPTION: No call takes a callback/],
  ["a number", "select 1", [5], /^INVALID_OPTION: Options must be an object/],
  ["null for options", "select 1", [null], /^INVALID_OPTION: Options must be an object/],
  ["a text after options", "select 1", [{}, "x"], /^INVALID_OPTION: Options must be an object/],
  ["an undefined value", "select $1", [[undefined]], /^INVALID_PARAMETER: The value of \$1/],
])("a call refuses %s", (_, input, given, message) => {
  expect(said(() => toCall(input, given))).toMatch(message);
});

test("COPY takes text without values", () => {
  expect(plainText("copy t from stdin")).toBe("copy t from stdin");
  expect(plainText(sql`copy ${sql.identifier("t")} from stdin`)).toBe('copy "t" from stdin');
  expect(said(() => plainText(sql`copy t from ${1}`))).toMatch(/^INVALID_QUERY: COPY takes no parameters/);
});
