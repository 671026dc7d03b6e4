// The official TOON document, decoded by the specification's own decoder.
import { decode } from "@toon-format/toon";
import fc from "fast-check";
import { expect, test } from "vitest";
import { ToonDocument } from "../../js/rows/toon.ts";

const utf8 = new TextEncoder();

function document(names: string[], rows: unknown[][]): string {
  const toon = new ToonDocument();
  toon.columns(names);
  // In the core's format: its own header, then JSON values and commas.
  const lines = ["[?]{…}", ...rows.map((row) => row.map((value) => JSON.stringify(value)).join(","))];
  for (const line of lines) toon.add(utf8.encode(`${line}\n`));
  return new TextDecoder().decode(toon.finish());
}

test("rows, no rows, and rows without columns are written", () => {
  expect(
    document(
      ["id", "n m"],
      [
        [1, "n1"],
        [2, null],
      ],
    ),
  ).toBe('[2]{id,"n m"}:\n  1,n1\n  2,null');
  expect(document(["id"], [])).toBe("[0]:");
  expect(document([], [[], []])).toBe("[2]:\n  -\n  -");
  expect(decode(document([], [[], []]))).toEqual([{}, {}]);
});

test.each([
  ["", '""'],
  ["a", "a"],
  ["a b", "a b"],
  [" a", '" a"'],
  ["a\t", '"a\\t"'],
  ["true", '"true"'],
  ["-", '"-"'],
  ["#a", '"#a"'],
  ["05", '"05"'],
  ["1e5", '"1e5"'],
  ["+1", '"+1"'],
  ["a,b", '"a,b"'],
  ["a:b", '"a:b"'],
  ['"', '"\\""'],
  ["\\b", '"\\\\b"'],
  ["\b\f\u0001", '"\\u0008\\u000c\\u0001"'],
  ["ü€𝄞", "ü€𝄞"],
])("the text %j is written as %s", (text, expected) => {
  expect(document(["a"], [[text]])).toBe(`[1]{a}:\n  ${expected}`);
  expect(decode(document(["a"], [[text]]))).toEqual([{ a: text }]);
});

test.each([
  ["1.50", "1.5"],
  ["1.00", "1"],
  ["-0", "0"],
  ["0.00", "0"],
  ["1e+06", "1000000"],
  ["1.5e-06", "0.0000015"],
  ["1e-07", "1e-7"],
  ["-1.25e+21", "-1.25e+21"],
  ["1e+20", "100000000000000000000"],
  ["9007199254740993", "9007199254740993"],
  ["-123.4500", "-123.45"],
  ["0.1", "0.1"],
  ["120e-1", "12"],
])("the number %s is written as %s", (number, expected) => {
  const toon = new ToonDocument();
  toon.columns(["a"]);
  toon.add(utf8.encode(`[?]{a}\n${number}\n`));
  expect(new TextDecoder().decode(toon.finish())).toBe(`[1]{a}:\n  ${expected}`);
});

test.each([
  [' "a"', "a"],
  ['\t"a b" ', "a b"],
  [' {"k": [1, 2]} ', '{"k": [1, 2]}'],
  [" 1.50 ", 1.5],
  ["  true", true],
  [" null", null],
])("the JSON value %j with white space around it is read as %j", (json, expected) => {
  const toon = new ToonDocument();
  toon.columns(["a", "b"]);
  toon.add(utf8.encode(`[?]{a,b}\n${json},7\n`));
  expect(decode(new TextDecoder().decode(toon.finish()))).toEqual([{ a: expected, b: 7 }]);
});

test("a value that is not primitive is its JSON text", () => {
  const nested = { k: [1, 'x,"y'], z: null };
  expect(decode(document(["a", "b"], [[nested, [1, 2]]]))).toEqual([{ a: JSON.stringify(nested), b: "[1,2]" }]);
});

test("any names and values are read back", () => {
  const value = fc.oneof(
    fc.string({ unit: "binary" }),
    fc.string(),
    fc.integer(),
    fc.boolean(),
    fc.constant(null),
    fc.constantFrom("true", "-", "1e5", " x", "[", "a:b", "\r\n"),
  );
  const table = fc
    .uniqueArray(fc.oneof(fc.string({ minLength: 1 }), fc.constantFrom("id", "a.b", "__proto__x")), {
      minLength: 1,
      maxLength: 4,
    })
    .chain((names) =>
      fc.tuple(
        fc.constant(names),
        fc.array(fc.array(value, { minLength: names.length, maxLength: names.length }), { minLength: 1, maxLength: 5 }),
      ),
    );
  fc.assert(
    fc.property(table, ([names, rows]) => {
      const expected = rows.map((row) => Object.fromEntries(names.map((name, index) => [name, row[index]])));
      expect(decode(document(names, rows))).toEqual(JSON.parse(JSON.stringify(expected)));
    }),
    { numRuns: 2000 },
  );
});
