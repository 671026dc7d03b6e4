// Batches in the core's format (src/encode/columns.rs) become JavaScript rows.
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import type { Column } from "../../js/wasm/boundary.ts";
import type { Parser, ParsersByOid, ValuePolicy } from "../../js/values/converters.ts";
import { namesIn, type Form } from "../../js/rows/form.ts";
import { CAMEL_CASE, RENAME_DUPLICATES } from "../../js/wasm/boundary.ts";
import { rowDecoder, type RowMode } from "../../js/values/objects.ts";
import { batchOf, BOOL, FLOAT, INT, JSON_, TEXT } from "../support/batch.ts";

const plain: ValuePolicy = {
  int8: "string",
  numeric: "string",
  dates: "string",
  bytea: "uint8array",
  parsers: undefined,
};
const columns = (...list: [name: string, typeOid: number][]) =>
  list.map(([name, typeOid]) => ({ name, typeOid, formatCode: 1 }) as Column);
const decodeRows = (
  bytes: Uint8Array,
  list: Column[],
  mode: RowMode,
  policy: Partial<ValuePolicy> = {},
  parsers?: ParsersByOid,
) => rowDecoder(list, { ...plain, ...policy }, mode, parsers)(bytes);
/** Rows of JSON values. */
const bytes = (...rows: unknown[][]) =>
  batchOf(
    (rows[0] ?? []).map(() => JSON_),
    rows,
  );
const one = (typeOid: number, value: unknown, policy: Partial<ValuePolicy> = {}) =>
  (decodeRows(bytes([value]), columns(["v", typeOid]), "object", policy) as [{ v: unknown }])[0].v;
afterEach(() => vi.unstubAllGlobals());

test("rows become plain objects with the columns in order", () => {
  const rows = decodeRows(
    bytes([1, "a", null], [2, "b", true]),
    columns(["id", 23], ["name", 25], ["active", 16]),
    "object",
  );
  expect(rows).toStrictEqual([
    { id: 1, name: "a", active: null },
    { id: 2, name: "b", active: true },
  ]);
  expect(Object.keys(rows[0] as object)).toEqual(["id", "name", "active"]);
  expect(Object.getPrototypeOf(rows[0])).toBe(Object.prototype);
});

test("a later result of the same columns may have values of another kind", () => {
  const decode = rowDecoder(columns(["roles", 60_000], ["id", 25]), plain, "object");
  const asText = batchOf([TEXT, TEXT], [["{admin}", "u1"]]);
  const asJson = batchOf([JSON_, TEXT], [[["admin"], "u1"]]);
  for (const [batch, roles] of [
    [asText, "{admin}"],
    [asJson, ["admin"]],
    [asText, "{admin}"],
  ] as const)
    expect(decode(batch)).toEqual([{ roles, id: "u1" }]);
});

test("array mode keeps every column, even with duplicate names", () => {
  expect(decodeRows(bytes([1, 2]), columns(["a", 23], ["a", 23]), "array")).toEqual([[1, 2]]);
});

test("of two columns with one name the last wins", () => {
  expect(decodeRows(bytes([1, 2]), columns(["a", 23], ["a", 23]), "object")).toEqual([{ a: 2 }]);
  expect(decodeRows(bytes([1, 2]), columns(["__proto__", 23], ["__proto__", 23]), "array")).toEqual([[1, 2]]);
});

test("rows without columns are empty objects", () => {
  expect(decodeRows(bytes([], []), [], "object")).toEqual([{}, {}]);
  expect(decodeRows(bytes([], []), [], "array")).toEqual([[], []]);
});

test("a column named __proto__ is an own property and touches no prototype", () => {
  const [row] = decodeRows(bytes([{ isAdmin: true }, 1]), columns(["__proto__", 114], ["b", 23]), "object") as [
    Record<string, unknown>,
  ];
  expect(Object.keys(row)).toEqual(["__proto__", "b"]);
  expect(Object.getPrototypeOf(row)).toBe(Object.prototype);
  expect(row.isAdmin).toBeUndefined();
  expect(({} as { isAdmin?: unknown }).isAdmin).toBeUndefined();
  expect(JSON.stringify(row)).toBe('{"__proto__":{"isAdmin":true},"b":1}');
});

test("any column name becomes an own property", () => {
  const name = fc.oneof(
    fc.constantFrom("__proto__", "constructor", "toString", "", "\u2028", "`", "');process.exit(1);//", "0"),
    fc.string({ unit: fc.integer({ min: 0, max: 0xd7ff }).map((code) => String.fromCodePoint(code)) }),
  );
  fc.assert(
    fc.property(fc.uniqueArray(name), (names) => {
      const [row] = decodeRows(
        bytes(names.map((_, index) => index)),
        columns(...names.map((name): [string, number] => [name, 23])),
        "object",
      ) as [object];
      expect(new Map(Object.entries(row))).toEqual(new Map(names.map((name, index) => [name, index])));
    }),
  );
});

test.each([700, 701, 1021, 1022])("floats without a number in JSON become JavaScript numbers (%i)", (type) => {
  // An array that arrives as text is one that the simple query protocol could not decode.
  const scalar = type < 1000;
  expect(one(type, "NaN")).toEqual(scalar ? NaN : "NaN");
  expect(one(type, "Infinity")).toBe(scalar ? Infinity : "Infinity");
  expect(one(type, "-Infinity")).toBe(scalar ? -Infinity : "-Infinity");
  expect(one(type, 1.5)).toBe(1.5);
  expect(one(type, null)).toBeNull();
  expect(
    one(type, [
      ["NaN", 1],
      [null, "-Infinity"],
    ]),
  ).toEqual([
    [NaN, 1],
    [null, -Infinity],
  ]);
});

test("bytea becomes bytes, in arrays of any dimension too", () => {
  expect(one(17, "\\x")).toEqual(new Uint8Array(0));
  expect(one(17, "\\x000aA9fF")).toEqual(Uint8Array.of(0, 10, 0xa9, 0xff));
  expect(one(17, null)).toBeNull();
  expect(one(1001, [["\\x01"], [null]])).toEqual([[Uint8Array.of(1)], [null]]);
});

test("bytea of any content becomes the same bytes", () => {
  fc.assert(
    fc.property(fc.uint8Array(), (value) => {
      expect(one(17, `\\x${Buffer.from(value).toString("hex")}`)).toEqual(value);
    }),
  );
});

test("other values stay as in JSON", () => {
  expect(one(20, "9223372036854775807")).toBe("9223372036854775807");
  expect(one(1700, "NaN")).toBe("NaN");
  expect(one(25, "NaN")).toBe("NaN");
  expect(one(25, "\\x00")).toBe("\\x00");
  expect(one(114, { __proto__: null, a: ["NaN", "\\x00"] })).toEqual({ a: ["NaN", "\\x00"] });
  expect(one(114, "text, line\nend, ],[ and \u2028")).toBe("text, line\nend, ],[ and \u2028");
  expect(one(1184, "2024-02-29T12:00:00.123456+00:00")).toBe("2024-02-29T12:00:00.123456+00:00");
});

test("memory behind a batch may be reused as soon as the call returns", () => {
  const memory = new Uint8Array(128);
  const chunk = batchOf([JSON_, TEXT], [["\\x0102", "abc"]]);
  memory.set(chunk, 10);
  const rows = decodeRows(memory.subarray(10, 10 + chunk.length), columns(["b", 17], ["t", 25]), "array");
  memory.fill(0);
  expect(rows).toEqual([[Uint8Array.of(1, 2), "abc"]]);
});

test("each kind of slot is decoded, and its NULL", () => {
  const kinds = [INT, BOOL, FLOAT, TEXT, JSON_];
  const list = columns(["i", 23], ["b", 16], ["f", 701], ["t", 25], ["j", 3802]);
  const rows = [
    [-(2 ** 31), true, -0, "", { a: [1] }],
    [null, null, null, null, null],
    [2 ** 31 - 1, false, NaN, "ä😀x", "s"],
    [0, true, Infinity, "\ufeffbom", [[]]],
  ];
  expect(decodeRows(batchOf(kinds, rows), list, "array")).toEqual(rows);
  expect(decodeRows(batchOf(kinds, rows), list, "object")).toEqual(rows.map(([i, b, f, t, j]) => ({ i, b, f, t, j })));
});

test("rows of any kinds are decoded, in several batches", () => {
  const text = fc.oneof(
    fc.string({ unit: "grapheme" }),
    fc.string({ unit: fc.constantFrom("a", "é", "€", "😀", "\u0000", "\ufeff", "\n") }),
  );
  const value = [
    fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
    fc.boolean(),
    fc.double(),
    text,
    fc.jsonValue({ maxDepth: 2 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown),
  ];
  const table = fc
    .array(fc.constantFrom(INT, BOOL, FLOAT, TEXT, JSON_), { minLength: 1, maxLength: 40 })
    .chain((kinds) =>
      fc.record({
        kinds: fc.constant(kinds),
        batches: fc.array(
          fc.array(fc.tuple(...kinds.map((kind) => fc.option(value[kind]!))), { minLength: 1, maxLength: 20 }),
          { minLength: 1, maxLength: 3 },
        ),
      }),
    );
  fc.assert(
    fc.property(table, fc.boolean(), ({ kinds, batches }, asArrays) => {
      const list = columns(...kinds.map((_, index): [string, number] => [`c${index}`, 0]));
      const decode = rowDecoder(list, plain, asArrays ? "array" : "object");
      for (const rows of batches) {
        const expected = JSON.parse(JSON.stringify(rows, odd)) as unknown[][];
        const decoded = JSON.parse(JSON.stringify(decode(batchOf(kinds, rows)), odd)) as (unknown[] | object)[];
        expect(decoded.map((row) => Object.values(row))).toEqual(expected);
      }
    }),
  );
});

/** Distinguishes numbers that JSON writes alike. */
const odd = (_: string, value: unknown) =>
  typeof value === "number" && !(Number.isFinite(value) && !Object.is(value, -0)) ? `${1 / value} ${value}` : value;

test("text that is not UTF-8 does not shift other values", () => {
  const batch = batchOf(
    [TEXT, TEXT],
    [
      [Uint8Array.of(0xc3), "ä"],
      ["b", Uint8Array.of(0x61, 0xff, 0xfe)],
      [null, ""],
    ],
  );
  expect(decodeRows(batch, columns(["a", 25], ["b", 25]), "array")).toEqual([
    ["\ufffd", "ä"],
    ["b", "a\ufffd\ufffd"],
    [null, ""],
  ]);
});

test("int8 and numeric follow the policy", () => {
  expect(one(20, "9223372036854775807", { int8: "bigint" })).toBe(9223372036854775807n);
  expect(one(1016, [["1"], [null]], { int8: "bigint" })).toEqual([[1n], [null]]);
  expect(one(20, 42, { int8: "number" })).toBe(42);
  expect(one(1700, 1.5, { numeric: "number" })).toBe(1.5);
  expect(one(1700, "NaN", { numeric: "number" })).toBeNaN();
  expect(one(1231, ["-Infinity", 1], { numeric: "number" })).toEqual([-Infinity, 1]);
});

test("bytea follows the policy", () => {
  expect(one(17, "\\x00ff41", { bytea: "hex" })).toBe("\\x00ff41");
  expect(one(17, "\\x00ff41", { bytea: "base64" })).toBe("AP9B");
  expect(one(1001, ["\\x", null], { bytea: "base64" })).toEqual(["", null]);
});

test.each([
  [1082, "2024-02-29", "2024-02-29T00:00:00.000Z"],
  [1114, "2024-02-29T12:34:56.123456", "2024-02-29T12:34:56.123Z"],
  [1114, "2024-02-29T12:34:56", "2024-02-29T12:34:56.000Z"],
  [1184, "2024-02-29T12:34:56.9+00:00", "2024-02-29T12:34:56.900Z"],
  [1082, "0044-03-15 BC", "-000043-03-15T00:00:00.000Z"],
  [1114, "0001-12-31T00:00:00 BC", "+000000-12-31T00:00:00.000Z"],
  [1082, "12345-06-07", "+012345-06-07T00:00:00.000Z"],
])("type %i becomes a Date for the text %s", (typeOid, text, iso) => {
  const date = one(typeOid, text, { dates: "date" });
  expect(date).toBeInstanceOf(Date);
  expect((date as Date).getTime()).toBe(new Date(iso.replace("+000000", "0000")).getTime());
});

test("a value that a Date cannot hold stays text, and times always do", () => {
  for (const text of ["infinity", "-infinity", "294276-12-31"]) expect(one(1082, text, { dates: "date" })).toBe(text);
  expect(one(1083, "12:00:00", { dates: "date" })).toBe("12:00:00");
  expect(one(1182, [["2024-01-01"], ["infinity"]], { dates: "date" })).toEqual([
    [new Date("2024-01-01")],
    ["infinity"],
  ]);
});

test("dates become Temporal objects if the runtime has Temporal", () => {
  const type = (name: string) => ({
    from(text: string) {
      if (!/^[-+]?P?\d/.test(text)) throw new RangeError(text);
      return `${name} ${text}`;
    },
  });
  vi.stubGlobal(
    "Temporal",
    Object.fromEntries(
      ["PlainDate", "PlainTime", "PlainDateTime", "Instant", "Duration"].map((name) => [name, type(name)]),
    ),
  );
  const of = (typeOid: number, text: unknown) => one(typeOid, text, { dates: "temporal" });
  expect(of(1082, "2024-02-29")).toBe("PlainDate 2024-02-29");
  expect(of(1083, "12:00:00.000001")).toBe("PlainTime 12:00:00.000001");
  expect(of(1114, "2024-02-29T12:00:00")).toBe("PlainDateTime 2024-02-29T12:00:00");
  expect(of(1184, "10000-02-29T12:00:00+00:00")).toBe("Instant +010000-02-29T12:00:00+00:00");
  expect(of(1186, "P1Y2M3DT4H5M6.789S")).toBe("Duration P1Y2M3DT4H5M6.789S");
  expect(of(1186, "P-1Y-2MT-0.5S")).toBe("Duration -P1Y2MT0.5S");
  expect(of(1186, "P-1Y2M")).toBe("P-1Y2M");
  expect(of(1185, ["infinity", null])).toEqual(["infinity", null]);
});

test("a parser gets values other than NULL in their plain form, and the column", () => {
  const seen: unknown[] = [];
  const byOid = new Map<number, Parser>([
    [23, (value: unknown, column: Column) => (seen.push(value, column.name), "mine")],
    [17, (value: unknown) => value],
  ]);
  expect(
    decodeRows(
      batchOf(
        [INT, JSON_, TEXT],
        [
          [1, "\\x01", "t"],
          [null, null, null],
        ],
      ),
      columns(["a", 23], ["b", 17], ["c", 25]),
      "array",
      {},
      byOid,
    ),
  ).toEqual([
    ["mine", "\\x01", "t"],
    [null, null, null],
  ]);
  expect(seen).toEqual([1, "a"]);
});

const namesOf = (names: string[], code: number) =>
  namesIn(
    { code } as Form,
    names.map((name) => ({ name })),
  );

test("underscores become capitals, as in the core (src/encode/header.rs)", () => {
  for (const [name, camel] of [
    ["id", "id"],
    ["created_at", "createdAt"],
    ["a_b_c", "aBC"],
    ["_id", "_id"],
    ["id_", "id_"],
    ["a__b", "a__b"],
    ["line_2", "line_2"],
    ["line2_b", "line2B"],
    ["A_b", "AB"],
    ["a_B", "a_B"],
    ["é_a", "é_a"],
    ["", ""],
  ] as const)
    expect(namesOf([name], CAMEL_CASE)).toEqual([camel]);
  expect(namesOf(["a_b", "aB", "aB_2"], CAMEL_CASE | RENAME_DUPLICATES)).toEqual(["aB", "aB_2", "aB_2_2"]);
});

test("many columns with one name are renamed in a few steps each", () => {
  const uniqueNames = (names: string[]) => namesOf(names, RENAME_DUPLICATES);
  expect(uniqueNames(["a", "a_2", "a", "a", "a_2"])).toEqual(["a", "a_2", "a_3", "a_4", "a_2_2"]);
  // Searching the first free number from 2 on each time would take 1.4 million look-ups.
  const looks = vi.spyOn(Map.prototype, "has");
  const names = uniqueNames(Array<string>(1_664).fill("a"));
  const count = looks.mock.calls.length;
  looks.mockRestore();
  expect(names.at(-1)).toBe("a_1664");
  expect(count).toBeGreaterThan(1_664);
  expect(count).toBeLessThan(4 * 1_664);
});
