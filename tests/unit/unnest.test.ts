// unnest: one text for any number of rows, and what it refuses.
import { describe, expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import { unnest } from "../../js/statement/unnest.ts";
import { serialized } from "../../js/values/serialize.ts";

const message = (code: string, text: RegExp, more = {}): unknown =>
  expect.objectContaining({ code, message: expect.stringMatching(text), ...more });

const ID_AND_NAME = { id: "int4", name: "text" };
const rows = (count: number) => Array.from({ length: count }, (_, index) => ({ id: index, name: `n${index}` }));

test("each column is one parameter, in the order of the types, and the text is the same for any number of rows", () => {
  const query = sql`insert into t (id, name) ${unnest(rows(2), ID_AND_NAME)} returning ${1}::int4`;
  expect(query.text).toBe(
    'insert into t (id, name) (select pg_catalog.unnest($1::int4[]) as "id", ' +
      'pg_catalog.unnest($2::text[]) as "name") returning $3::int4',
  );
  expect(query.values).toEqual([[0, 1], ["n0", "n1"], 1]);
  for (const count of [0, 1, 100])
    expect(unnest(rows(count), ID_AND_NAME).text).toBe(unnest(rows(2), ID_AND_NAME).text);
});

test("other members of a row are left out, NULL stays, and a column's name is quoted", () => {
  const row = { 'a"b': null, rest: undefined };
  const { text, values } = unnest([row], { 'a"b': "int4" });
  expect(text).toContain(' as "a""b")');
  expect(values).toEqual([[null]]);
});

describe("types", () => {
  test("a word, with its schema too, or a fragment", () => {
    const types = { a: "app.mood", b: sql.identifier("My type"), c: sql`numeric(10,2)` };
    expect(unnest([{ a: "ok", b: "x", c: "1" }], types).text).toContain(
      '($1::app.mood[]) as "a", pg_catalog.unnest($2::"My type"[]) as "b", pg_catalog.unnest($3::numeric(10,2)[])',
    );
  });

  test("a type that would cut a longer value is refused, as a word and as a fragment", () => {
    const refused = message("INVALID_QUERY", /would cut longer values: write "text"/);
    const words = ["char", "CHARACTER", "nchar", "bit", "pg_catalog.char", "name"];
    const fragments = [
      sql`char`,
      sql` char`,
      sql`/**/char`,
      sql`char(3)`,
      sql`national character`,
      sql`"char"`,
      sql.identifier("char"),
      sql`varchar(20)`,
      sql`character varying (20)`,
      sql`pg_catalog.varchar(20)`,
      sql`bit varying(3)`,
    ];
    for (const type of [...words, ...fragments]) expect(() => unnest([{ a: "abc" }], { a: type })).toThrow(refused);
    for (const type of [
      "bpchar",
      "varchar",
      "varbit",
      sql`character varying`,
      sql`national character varying`,
      "app.name",
    ])
      unnest([{ a: "abc" }], { a: type });
  });

  test("an array type is refused, because unnest would make several rows of a value", () => {
    const refused = message("INVALID_PARAMETER", /Column "a" has arrays.*"jsonb"/);
    for (const type of [sql`int4[]`, "int4[]"]) expect(() => unnest([{ a: null }], { a: type })).toThrow(refused);
  });

  test.each([sql`numeric(${1})`, sql``, "int4)", "a b", "a--", "a.b.c", "", '"a"', "a;", "1a", "é", "a\n", 5, null])(
    "%j is refused, and names the column",
    (type) => {
      const refused = message("INVALID_QUERY", /type of column "a".*double precision/);
      expect(() => unnest([{ a: 1 }], { a: type as string })).toThrow(refused);
    },
  );
});

describe("cells", () => {
  test("an array is refused with the number of its row, unless the column has JSON or multiranges", () => {
    const refused = message("INVALID_PARAMETER", /Column "a" has arrays.*"jsonb"/, { row: 1 });
    expect(() => unnest([{ a: 1 }, { a: [1] }], { a: "int4" })).toThrow(refused);
    // PostgreSQL makes it of a range type of the database's own. Only the catalog knows how its ranges are written.
    expect(() => unnest([{ a: 1 }, { a: [1] }], { a: "timemultirange" })).toThrow(refused);
    for (const type of ["jsonb", "JSON", "pg_catalog.jsonb", "int4multirange"])
      expect(unnest([{ a: [1, [2]] }], { a: type }).values).toEqual([[[1, [2]]]]);
  });

  test("all columns are of the same rows, whatever a getter does to the list", () => {
    const list: { a: number; b: number }[] = [];
    const row = {
      get a(): number {
        list.push({ a: 2, b: 2 });
        return 1;
      },
      b: 1,
    };
    list.push(row);
    expect(unnest(list, { a: "int4", b: "int4" }).values).toEqual([[1], [1]]);
  });

  test("option serialize makes no array of a value", () => {
    const serialize = (value: unknown) => (value instanceof Set ? [...(value as Set<unknown>)] : value);
    const { values } = unnest([{ a: new Set([1, 2]) as never }], { a: "int4" });
    expect(() => serialized(values, serialize)).toThrow(
      message("INVALID_PARAMETER", /made an array of a value of unnest/),
    );
    const json = unnest([{ a: new Set([1, 2]) as never }], { a: "jsonb" });
    expect(serialized(json.values, serialize)).toEqual([[[1, 2]]]);
  });

  test("what a getter of a row throws comes as it is", () => {
    const thrown = Object.freeze(new Error("of the row"));
    const row = {
      get a(): number {
        throw thrown;
      },
    };
    expect(() => unnest([row], { a: "int4" })).toThrow(thrown);
  });

  test("a fragment is refused, because a list of fragments would become SQL", () => {
    const cell = sql`now()`;
    expect(() => unnest([{ a: cell }], { a: "timestamptz" })).toThrow(message("INVALID_PARAMETER", /no fragments/));
  });

  test("a row that lacks a column is refused with its number, and so are undefined and a hole", () => {
    const refused = message("INVALID_PARAMETER", /no value for column "a"/, { row: 1 });
    for (const more of [[{}], [{ a: undefined }], [Object.create({ a: 1 })], [null], Array(1)])
      expect(() => unnest([{ a: 1 }, ...more] as { a: 1 }[], { a: "int4" })).toThrow(refused);
  });
});

test("other arguments are refused", () => {
  for (const given of [undefined, null, {}, "ab", 5])
    expect(() => unnest(given as unknown as [], { a: "int4" })).toThrow(message("INVALID_QUERY", /array of objects/));
  for (const types of [undefined, null, {}, 5, "int4", ["int4"]])
    expect(() => unnest([], types as unknown as { a: string })).toThrow(
      message("INVALID_QUERY", /type of each column/),
    );
});
