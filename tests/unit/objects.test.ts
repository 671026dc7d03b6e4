// Rows as the core writes them (JSON arrays, one per line) become JavaScript values.
import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeRows } from "../../js/core/objects.ts";

const bytes = (...rows: unknown[][]) => new TextEncoder().encode(rows.map((row) => `${JSON.stringify(row)}\n`).join(""));
const columns = (...list: [name: string, typeOid: number][]) => list.map(([name, typeOid]) => ({ name, typeOid }));
const one = (typeOid: number, value: unknown) => (decodeRows(bytes([value]), columns(["v", typeOid]), "object") as [{ v: unknown }])[0].v;

test("rows become plain objects with the columns in order", () => {
  const rows = decodeRows(bytes([1, "a", null], [2, "b", true]), columns(["id", 23], ["name", 25], ["active", 16]), "object");
  expect(rows).toStrictEqual([{ id: 1, name: "a", active: null }, { id: 2, name: "b", active: true }]);
  expect(Object.keys(rows[0] as object)).toEqual(["id", "name", "active"]);
  expect(Object.getPrototypeOf(rows[0])).toBe(Object.prototype);
});

test("array mode keeps every column, also of one name", () => {
  expect(decodeRows(bytes([1, 2]), columns(["a", 23], ["a", 23]), "array")).toEqual([[1, 2]]);
});

test("of two columns with one name the last wins", () => {
  expect(decodeRows(bytes([1, 2]), columns(["a", 23], ["a", 23]), "object")).toEqual([{ a: 2 }]);
  expect(decodeRows(bytes([1, 2]), columns(["__proto__", 23], ["__proto__", 23]), "array")).toEqual([[1, 2]]);
});

test("no rows, and rows without columns", () => {
  expect(decodeRows(new Uint8Array(0), columns(["a", 23]), "object")).toEqual([]);
  expect(decodeRows(bytes([], []), [], "object")).toEqual([{}, {}]);
  expect(decodeRows(bytes([], []), [], "array")).toEqual([[], []]);
});

test("a column named __proto__ is an own property and touches no prototype", () => {
  const [row] = decodeRows(bytes([{ isAdmin: true }, 1]), columns(["__proto__", 114], ["b", 23]), "object") as [Record<string, unknown>];
  expect(Object.keys(row)).toEqual(["__proto__", "b"]);
  expect(Object.getPrototypeOf(row)).toBe(Object.prototype);
  expect(row.isAdmin).toBeUndefined();
  expect(({} as { isAdmin?: unknown }).isAdmin).toBeUndefined();
  expect(JSON.stringify(row)).toBe('{"__proto__":{"isAdmin":true},"b":1}');
});

test("any column name is an own property", () => {
  const name = fc.oneof(fc.constantFrom("__proto__", "constructor", "toString", "", "\u2028", "`", "');process.exit(1);//", "0"), fc.string({ unit: fc.integer({ min: 0, max: 0xd7ff }).map((code) => String.fromCodePoint(code)) }));
  fc.assert(
    fc.property(fc.uniqueArray(name), (names) => {
      const [row] = decodeRows(bytes(names.map((_, index) => index)), names.map((name) => ({ name, typeOid: 23 })), "object") as [object];
      expect(new Map(Object.entries(row))).toEqual(new Map(names.map((name, index) => [name, index])));
    }),
  );
});

test.each([700, 701, 1021, 1022])("floats that JSON has no number for (%i)", (type) => {
  expect(one(type, "NaN")).toBeNaN();
  expect(one(type, "Infinity")).toBe(Infinity);
  expect(one(type, "-Infinity")).toBe(-Infinity);
  expect(one(type, 1.5)).toBe(1.5);
  expect(one(type, null)).toBeNull();
  expect(one(type, [["NaN", 1], [null, "-Infinity"]])).toEqual([[NaN, 1], [null, -Infinity]]);
});

test("bytea becomes bytes, in arrays of any dimension too", () => {
  expect(one(17, "\\x")).toEqual(new Uint8Array(0));
  expect(one(17, "\\x000aA9fF")).toEqual(Uint8Array.of(0, 10, 0xa9, 0xff));
  expect(one(17, null)).toBeNull();
  expect(one(1001, [["\\x01"], [null]])).toEqual([[Uint8Array.of(1)], [null]]);
});

test("bytea of any content", () => {
  fc.assert(
    fc.property(fc.uint8Array(), (value) => {
      expect(one(17, `\\x${Buffer.from(value).toString("hex")}`)).toEqual(value);
    }),
  );
});

test("everything else is as JSON has it", () => {
  expect(one(20, "9223372036854775807")).toBe("9223372036854775807");
  expect(one(1700, "NaN")).toBe("NaN");
  expect(one(25, "NaN")).toBe("NaN");
  expect(one(25, "\\x00")).toBe("\\x00");
  expect(one(114, { __proto__: null, a: ["NaN", "\\x00"] })).toEqual({ a: ["NaN", "\\x00"] });
  expect(one(114, "text, line\nend, ],[ and \u2028")).toBe("text, line\nend, ],[ and \u2028");
  expect(one(1184, "2024-02-29T12:00:00.123456+00:00")).toBe("2024-02-29T12:00:00.123456+00:00");
});

test("a view of changing memory may be reused as soon as the call returns", () => {
  const memory = new Uint8Array(64);
  const chunk = bytes(["\\x0102", "abc"]);
  memory.set(chunk, 10);
  const rows = decodeRows(memory.subarray(10, 10 + chunk.length), columns(["b", 17], ["t", 25]), "array");
  memory.fill(0);
  expect(rows).toEqual([[Uint8Array.of(1, 2), "abc"]]);
});
