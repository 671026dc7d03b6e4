// Each value in the form of its parameter's type: in binary if the driver writes that type in binary, else as text.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodeParameters } from "../../js/values/parameters.ts";
import type { Value } from "./parameter-blocks.ts";
import { decode, one, temporal, why } from "./parameter-blocks.ts";

test.each<[name: string, type: number, value: unknown, encoded: string]>([
  ["bool", 16, true, "binary:01"],
  ["bool", 16, false, "binary:00"],
  ["bool", 16, "yes", "text:yes"],
  ["int2", 21, -32768, "binary:8000"],
  ["int2", 21, "32767", "binary:7fff"],
  ["int4", 23, -1, "binary:ffffffff"],
  ["int4", 23, " +7 ", "binary:00000007"],
  ["int4", 23, 7n, "binary:00000007"],
  ["int4", 23, -0, "binary:00000000"],
  ["int8", 20, 1, "binary:0000000000000001"],
  ["int8", 20, "-9223372036854775808", "binary:8000000000000000"],
  ["int8", 20, 2n ** 63n - 1n, "binary:7fffffffffffffff"],
  ["int8", 20, Number.MAX_SAFE_INTEGER, "binary:001fffffffffffff"],
  ["int8", 20, "0000000000000000000000001", "binary:0000000000000001"],
  ["oid", 26, 4294967295, "binary:ffffffff"],
  ["oid", 26, "0", "binary:00000000"],
  ["float4", 700, 1.5, "binary:3fc00000"],
  ["float4", 700, 0.1, "binary:3dcccccd"],
  ["float4", 700, NaN, "binary:7fc00000"],
  ["float4", 700, "1e-3", "text:1e-3"],
  ["float8", 701, -0, "binary:8000000000000000"],
  ["float8", 701, -Infinity, "binary:fff0000000000000"],
  ["float8", 701, "0.1", "text:0.1"],
  ["float8", 701, 10n, "text:10"],
  ["numeric", 1700, 0.1, "text:0.1"],
  ["numeric", 1700, 1e21, "text:1e+21"],
  ["numeric", 1700, 10n ** 30n, `text:1${"0".repeat(30)}`],
  ["numeric", 1700, "1.10", "text:1.10"],
  ["text", 25, "a'b\\", "text:a'b\\"],
  ["text", 25, 5, "text:5"],
  ["text", 25, true, "text:true"],
  ["varchar", 1043, 5n, "text:5"],
  ["text", 25, "", "text:"],
  ["text", 25, "😀", "text:😀"],
  ["bytea", 17, Uint8Array.of(0, 255), "binary:00ff"],
  ["bytea", 17, new ArrayBuffer(2), "binary:0000"],
  ["bytea", 17, new Uint16Array([1]), "binary:0100"],
  ["bytea", 17, new Uint8Array([1, 2, 3]).subarray(1, 2), "binary:02"],
  ["bytea", 17, new DataView(new ArrayBuffer(4), 1, 2), "binary:0000"],
  ["bytea", 17, new Uint8Array(0), "binary:"],
  ["bytea", 17, "\\x00", "text:\\x00"],
  ["bytea", 17, Float32Array.of(1.5), "binary:0000c03f"],
  ["vector", 20_001, "[1.5,-2]", "text:[1.5,-2]"],
  ["json", 114, '{"a": 1}', 'text:{"a": 1}'],
  ["jsonb", 3802, { a: [1, null, "x"] }, 'text:{"a":[1,null,"x"]}'],
  ["jsonb", 3802, [1, [2]], "text:[1,[2]]"],
  ["jsonb", 3802, 5, "text:5"],
  ["jsonb", 3802, false, "text:false"],
  ["jsonb", 3802, 10n, "text:10"],
  ["json", 114, new Date(0), 'text:"1970-01-01T00:00:00.000Z"'],
  ["json", 114, { a: "\0\ud800" }, 'text:{"a":"\\u0000\\ud800"}'],
  ["timestamptz", 1184, new Date(Date.UTC(2024, 1, 29, 12, 0, 0, 7)), "text:2024-02-29T12:00:00.007Z"],
  ["timestamp", 1114, new Date(0), "text:1970-01-01T00:00:00.000Z"],
  ["date", 1082, new Date(Date.UTC(2024, 1, 29, 23)), "text:2024-02-29T23:00:00.000Z"],
  ["date", 1082, new Date("-000043-03-15T00:00:00Z"), "text:0044-03-15T00:00:00.000Z BC"],
  ["timestamptz", 1184, new Date("0000-01-01T00:00:00Z"), "text:0001-01-01T00:00:00.000Z BC"],
  ["timestamptz", 1184, new Date("+012345-01-01T00:00:00Z"), "text:12345-01-01T00:00:00.000Z"],
  ["timestamptz", 1184, "now", "text:now"],
  ["date", 1082, "infinity", "text:infinity"],
  ["uuid", 2950, "b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "text:b0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
  ["interval", 1186, "1 day", "text:1 day"],
  ["an unknown type", 99_999, "happy", "text:happy"],
  ["an unknown type", 99_999, 5, "text:5"],
  ["a range", 3904, "[1,5)", "text:[1,5)"],
])("%s (%i) from %o", (_, type, value, encoded) => expect(one(type, value)).toBe(encoded));

test.each<[name: string, type: number, value: unknown, encoded: string]>([
  ["PlainDate", 1082, temporal("PlainDate", "2024-02-29"), "text:2024-02-29"],
  ["a calendar", 1082, temporal("PlainDate", "2024-02-29[u-ca=hebrew]"), "text:2024-02-29"],
  ["PlainDate in timestamp", 1114, temporal("PlainDate", "2024-02-29"), "text:2024-02-29"],
  ["PlainTime", 1083, temporal("PlainTime", "12:30:00.123456789"), "text:12:30:00.123456789"],
  ["PlainDateTime", 1114, temporal("PlainDateTime", "2024-02-29T12:30:00"), "text:2024-02-29T12:30:00"],
  ["a long year", 1114, temporal("PlainDateTime", "+012345-02-28T12:30:00"), "text:12345-02-28T12:30:00"],
  ["before Christ", 1082, temporal("PlainDate", "-000043-03-15"), "text:0044-03-15 BC"],
  ["the first day", 1082, temporal("PlainDate", "-004713-11-24"), "text:4714-11-24 BC"],
  ["Instant", 1184, temporal("Instant", "2024-02-29T12:00:00.5Z"), "text:2024-02-29T12:00:00.5Z"],
  [
    "ZonedDateTime",
    1184,
    temporal("ZonedDateTime", "1900-01-01T00:00:00+00:09[Europe/Paris]", {
      toInstant: () => temporal("Instant", "1899-12-31T23:50:39Z"),
    }),
    "text:1899-12-31T23:50:39Z",
  ],
  [
    "ZonedDateTime without its instant",
    1184,
    temporal("ZonedDateTime", "2024-02-29T12:00:00+01:00[Europe/Paris]"),
    "text:2024-02-29T12:00:00+01:00",
  ],
  ["Duration", 1186, temporal("Duration", "P1Y2M3W4DT5H6M7.89S"), "text:P1Y2M3W4DT5H6M7.89S"],
  ["a negative Duration", 1186, temporal("Duration", "-P1Y2DT0.5S"), "text:P-1Y-2DT-0.5S"],
  ["Temporal in an array", 1182, [temporal("PlainDate", "2024-02-29"), null], 'text:{"2024-02-29",NULL}'],
  ["Temporal in json", 114, temporal("PlainDate", "", { toJSON: () => "2024-02-29" }), 'text:"2024-02-29"'],
])("Temporal: %s", (_, type, value, encoded) => expect(one(type, value)).toBe(encoded));

test.each<[name: string, type: number, value: unknown, encoded: string]>([
  ["a range", 3904, { lower: 1, upper: 5 }, 'text:["1","5")'],
  ["no lower bound", 3926, { lower: null, upper: 5n, bounds: "(]" }, 'text:(,"5"]'],
  ["no bounds", 3906, { lower: null, upper: null, bounds: "()" }, "text:(,)"],
  ["an empty one", 3904, { empty: true }, "text:empty"],
  ["of numeric", 3906, { lower: "1.50", upper: Infinity, bounds: "[]" }, 'text:["1.50","Infinity"]'],
  ["of Dates", 3910, { lower: new Date(0), upper: null }, 'text:["1970-01-01T00:00:00.000Z",)'],
  [
    "of Temporal",
    3912,
    { lower: temporal("PlainDate", "2024-02-29"), upper: "infinity" },
    'text:["2024-02-29","infinity")',
  ],
  ["quotes", 3908, { lower: 'a"\\,', upper: null }, 'text:["a\\"\\\\,",)'],
  ["a multirange", 4451, [{ lower: 1, upper: 2 }, "[5,6)", { empty: true }], 'text:{["1","2"),[5,6),empty}'],
  ["an empty multirange", 4532, [], "text:{}"],
  ["an array of multiranges", 6150, [[{ lower: 1, upper: 2 }], "{}", null], 'text:{"{[\\"1\\",\\"2\\")}","{}",NULL}'],
  ["an array of ranges", 3905, [{ lower: 1, upper: 5 }, null, "empty"], 'text:{"[\\"1\\",\\"5\\")",NULL,"empty"}'],
])("ranges: %s", (_, type, value, encoded) => expect(one(type, value)).toBe(encoded));

test.each<[name: string, type: number, value: unknown, advice: string]>([
  ["an object for text", 25, { a: 1 }, "pass text, or cast the parameter to jsonb"],
  ["a Date for text", 25, new Date(), "pass text, or cast the parameter to timestamptz"],
  [
    "an object for a type of the database",
    20_001,
    { a: 1 },
    "pass text, cast the parameter to the base type if this is a domain, or build a composite of its attributes",
  ],
  ["a Date for a type of the database", 20_001, new Date(), "to the base type if this is a domain"],
])("the advice for %s", (_, type, value, advice) => expect(why(type, value)).toContain(advice));

test("null is NULL for every type", () => {
  for (const type of [16, 17, 20, 21, 23, 25, 26, 114, 700, 701, 1007, 1082, 3802, 99_999])
    expect(one(type, null)).toBe("NULL");
});

describe("arrays", () => {
  test.each<[name: string, type: number, value: unknown, text: string]>([
    ["empty", 1007, [], "{}"],
    ["int4[]", 1007, [1, "2", 3n, null], '{"1","2","3",NULL}'],
    [
      "int4[][]",
      1007,
      [
        [1, 2],
        [3, null],
      ],
      '{{"1","2"},{"3",NULL}}',
    ],
    [
      "text[]",
      1009,
      ['a"b', "c\\d", "NULL", "", "x,y{}", " ", null],
      '{"a\\"b","c\\\\d","NULL",""," x"}'.replace('" x"', '"x,y{}"," ",NULL'),
    ],
    ["bool[]", 1000, [true, false, "t"], '{"true","false","t"}'],
    ["float8[]", 1022, [1.5, NaN, -Infinity], '{"1.5","NaN","-Infinity"}'],
    ["bytea[]", 1001, [Uint8Array.of(0, 255), "\\x01"], '{"\\\\x00ff","\\\\x01"}'],
    ["timestamptz[]", 1185, [new Date(0)], '{"1970-01-01T00:00:00.000Z"}'],
    ["jsonb[]", 3807, [{ a: '"' }, [1, [2]], "5", 6, null], '{"{\\"a\\":\\"\\\\\\"\\"}","[1,[2]]","5","6",NULL}'],
    ["box[] is separated by ;", 1020, ["(1,1),(0,0)", "(2,2),(1,1)"], '{"(1,1),(0,0)";"(2,2),(1,1)"}'],
    ["numeric[]", 1231, ["1.10", 2n], '{"1.10","2"}'],
    ["int4range[]", 3905, ["[1,5)", "empty"], '{"[1,5)","empty"}'],
    ["an enum's array", 99_999, ["sad", null], '{"sad",NULL}'],
    ["six dimensions", 1007, [[[[[[1]]]]]], '{{{{{{"1"}}}}}}'],
    ["a literal as text", 1007, "{1,2}", "{1,2}"],
  ])("%s", (_, type, value, text) => expect(one(type, value)).toBe(`text:${text}`));

  test("a literal is read back as its elements, whatever they contain", () => {
    const item = fc.oneof(fc.constant(null), fc.string({ unit: fc.constantFrom(..."a\"\\{},; \n\tNULL'é😀") }));
    fc.assert(
      fc.property(fc.array(item), (items) => {
        const [value] = decode(encodeParameters([items], [1009])) as [Value];
        expect(parseArray(Buffer.from(value.bytes ?? []).toString("utf8"))).toEqual(items);
      }),
    );
  });

  /** PostgreSQL's array_in for one dimension of quoted elements and NULL. */
  function parseArray(text: string): (string | null)[] {
    expect(text).toMatch(/^\{((NULL|"([^"\\]|\\.)*")(,(?!\})|(?=\})))*\}$/s);
    return [...text.slice(1, -1).matchAll(/NULL|"((?:[^"\\]|\\.)*)"/gs)].map((match) =>
      match[0] === "NULL" ? null : (match[1] ?? "").replace(/\\(.)/gs, "$1"),
    );
  }

  test.each<[name: string, type: number, value: unknown, expected: string]>([
    ["an element out of range", 1007, [1, 2 ** 31], "PARAMETER_OUT_OF_RANGE: Parameter $1 (int4[])"],
    ["undefined", 1007, [undefined], "INVALID_PARAMETER"],
    ["a hole", 1009, new Array(2), "INVALID_PARAMETER"],
    ["an object", 1009, [{}], "INVALID_PARAMETER"],
    ["NUL", 1009, ["\0"], "INVALID_PARAMETER"],
    ["half a pair", 1009, ["\ud800"], "INVALID_PARAMETER"],
    ["bytes in text[]", 1009, [new Uint8Array(1)], "INVALID_PARAMETER"],
    [
      "seven dimensions",
      1007,
      [[[[[[[1]]]]]]],
      "INVALID_PARAMETER: Parameter $1 (int4[]) does not accept a value of type Array: pass an array of at most 6",
    ],
    ["an array for int4", 23, [1], "INVALID_PARAMETER: Parameter $1 (int4)"],
    ["an array for text", 25, ["a"], "INVALID_PARAMETER: Parameter $1 (text)"],
    // An array literal is a valid value of these types, so it would be stored.
    ["an array for xml", 142, ["a"], "INVALID_PARAMETER: Parameter $1 (xml)"],
    ["an array for refcursor", 1790, ["a"], "INVALID_PARAMETER: Parameter $1 (refcursor)"],
    ["an array for tsquery", 3615, ["a"], "INVALID_PARAMETER: Parameter $1 (tsquery)"],
    ["an array for tsvector, as well", 3614, ["a"], "INVALID_PARAMETER: Parameter $1 (tsvector)"],
    ["a typed array", 1007, Int32Array.of(1), "INVALID_PARAMETER"],
  ])("%s is refused", (_, type, value, expected) => expect(why(type, value)).toContain(expected));

  test("the error has the number of the item, counted in the outermost array", () => {
    const rowOf = (type: number, value: unknown) => {
      try {
        encodeParameters([0, value], [23, type]);
      } catch (error) {
        return (error as { row?: number }).row;
      }
      return expect.unreachable();
    };
    expect(rowOf(1007, [1, 2, "x"])).toBe(2);
    expect(rowOf(1007, [[1], [2], [3.5]])).toBe(2);
    expect(rowOf(1007, {})).toBeUndefined();
    expect(rowOf(20_001, ["a", {}])).toBe(1);
  });

  test("an array that contains itself is refused", () => {
    const array: unknown[] = [];
    array.push(array);
    expect(why(1009, array)).toContain("INVALID_PARAMETER");
    expect(why(3807, array)).toContain("INVALID_PARAMETER");
  });
});

test("any well-formed text of any length is sent as its UTF-8", () => {
  const text = fc
    .array(fc.constantFrom("a", "é", "€", "😀", "abc ".repeat(300), "ü".repeat(700)), { maxLength: 40 })
    .map((parts) => parts.join(""));
  fc.assert(
    fc.property(fc.array(text, { maxLength: 5 }), (texts) => {
      const values = decode(
        encodeParameters(
          texts,
          texts.map(() => 25),
        ),
      );
      expect(values.map(({ bytes }) => Buffer.from(bytes ?? []).toString("utf8"))).toEqual(texts);
    }),
  );
});

test("random values of random types are decoded as they were", () => {
  const value = fc.oneof(
    fc.record({ type: fc.constant(23), value: fc.integer() }),
    fc.record({ type: fc.constant(20), value: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }) }),
    fc.record({ type: fc.constant(701), value: fc.double() }),
    fc.record({ type: fc.constant(17), value: fc.uint8Array({ maxLength: 6_000 }) }),
    fc.record({ type: fc.constant(16), value: fc.boolean() }),
    fc.record({ type: fc.constant(25), value: fc.constant(null) }),
  );
  fc.assert(
    fc.property(fc.array(value, { maxLength: 50 }), (items) => {
      const decoded = decode(
        encodeParameters(
          items.map((item) => item.value),
          items.map((item) => item.type),
        ),
      );
      items.forEach(({ type, value: expected }, index) => {
        const bytes = decoded[index]?.bytes;
        if (!bytes) return expect(expected).toBeNull();
        const view = new DataView(bytes.buffer, bytes.byteOffset);
        const read: Record<number, () => unknown> = {
          16: () => bytes[0] === 1,
          20: () => view.getBigInt64(0),
          23: () => view.getInt32(0),
          701: () => view.getFloat64(0),
        };
        const actual = read[type]?.() ?? bytes;
        expect(actual).toEqual(expected);
      });
    }),
    { numRuns: 500 },
  );
});
