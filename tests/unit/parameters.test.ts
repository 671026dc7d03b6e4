// The middle of a Bind message: each value in the form of its parameter's type, and every refusal before a byte is
// sent.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { appendParameters, binaryWriter, Block, encodeParameters } from "../../js/values/parameters.ts";
import { UsageError } from "../../js/util/errors.ts";

type Value = { format: number; bytes: Uint8Array | null };

/** Reads the block back by the protocol's layout. */
function decode(block: Uint8Array): Value[] {
  const view = new DataView(block.buffer, block.byteOffset, block.byteLength);
  const count = view.getUint16(0);
  const formats = Array.from({ length: count }, (_, index) => view.getUint16(2 + 2 * index));
  let at = 2 + 2 * count;
  expect(view.getUint16(at)).toBe(count);
  at += 2;
  const values = formats.map((format) => {
    const length = view.getInt32(at);
    at += 4;
    if (length === -1) return { format, bytes: null };
    const bytes = block.slice(at, at + length);
    expect(bytes.length).toBe(length);
    at += length;
    return { format, bytes };
  });
  expect(at).toBe(block.length);
  return values;
}

/** `text:…` or `binary:` and hexadecimal digits. */
const show = ({ format, bytes }: Value) =>
  bytes === null
    ? "NULL"
    : format === 1
      ? `binary:${Buffer.from(bytes).toString("hex")}`
      : `text:${Buffer.from(bytes).toString("utf8")}`;
const one = (type: number, value: unknown) => show(decode(encodeParameters([value], [type]))[0] as Value);

const refused = (values: unknown[], types: number[]) => {
  try {
    encodeParameters(values, types);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return `${(error as UsageError).code}: ${(error as UsageError).message}`;
  }
  return "accepted";
};
const why = (type: number, value: unknown) => refused([value], [type]);

test("the block's layout", () => {
  const block = encodeParameters([5, "é", null, true], [23, 25, 23, 16]);
  expect(Buffer.from(block).toString("hex")).toBe(
    [
      "0004",
      "0001",
      "0000",
      "0000",
      "0001",
      "0004",
      "00000004",
      "00000005",
      "00000002",
      "c3a9",
      "ffffffff",
      "00000001",
      "01",
    ].join(""),
  );
  expect(Buffer.from(encodeParameters([], [])).toString("hex")).toBe("00000000");
  expect(encodeParameters([1], Uint32Array.of(23)).slice()).toEqual(encodeParameters([1], [23]));
});

test("executions behind each other in one buffer are each what they are alone", () => {
  const block = new Block();
  const all: [unknown[], number[]][] = [
    [
      [5, "é", null],
      [23, 25, 16],
    ],
    [[], []],
    [
      ["x".repeat(600), true],
      [25, 16],
    ],
    [[null], [25]],
  ];
  // Used before: what is left of a longer one may not show through.
  appendParameters(block, new Array<boolean>(400).fill(true), new Array<number>(400).fill(16));
  block.length = 0;
  const ends = all.map(([values, types]) => {
    appendParameters(block, values, types);
    return block.length;
  });
  all.forEach(([values, types], index) => {
    const alone = Buffer.from(encodeParameters(values, types)).toString("hex");
    expect(Buffer.from(block.bytes.subarray(ends[index - 1] ?? 0, ends[index])).toString("hex")).toBe(alone);
  });
});

test("a writer names what it is told to, and NULL is NULL", () => {
  const block = new Block();
  const write = binaryWriter(23)!;
  write(block, { index: 0, type: 23 }, null);
  expect(Buffer.from(block.bytes.subarray(0, block.length)).toString("hex")).toBe("ffffffff");
  expect(() => write(block, { what: "Row 7, column ", index: 1, type: 23 }, 1.5)).toThrow(
    "Row 7, column 2 (int4) does not accept a value of type Number",
  );
  expect(block.length).toBe(4);
  expect(binaryWriter(600)).toBeUndefined();
});

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

/** Temporal as far as it is looked at; the real one gives the same texts (tests/integration/cases/parameters.ts). */
const temporal = (type: string, text: string, more = {}) => ({
  [Symbol.toStringTag]: `Temporal.${type}`,
  toString: () => text,
  ...more,
});

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
  ["an array of ranges", 3905, [{ lower: 1, upper: 5 }, null, "empty"], 'text:{"[\\"1\\",\\"5\\")",NULL,"empty"}'],
])("ranges: %s", (_, type, value, encoded) => expect(one(type, value)).toBe(encoded));

test.each<[type: number, values: unknown[], expected: string]>([
  [
    1082,
    [
      temporal("PlainDateTime", "2024-02-29T12:00:00"),
      temporal("Instant", "2024-02-29T12:00:00Z"),
      temporal("PlainTime", "12:00"),
    ],
    "Temporal.PlainDate",
  ],
  [
    1083,
    [new Date(), temporal("PlainDateTime", "2024-02-29T12:00:00"), temporal("Instant", "2024-02-29T12:00:00Z"), 5],
    "Temporal.PlainTime",
  ],
  [
    1114,
    [
      temporal("Instant", "2024-02-29T12:00:00Z"),
      temporal("ZonedDateTime", "2024-02-29T12:00:00+01:00[Europe/Paris]"),
      5,
    ],
    "Temporal.PlainDateTime",
  ],
  [
    1184,
    [temporal("PlainDateTime", "2024-02-29T12:00:00"), temporal("PlainDate", "2024-02-29"), { toString: () => "now" }],
    "Temporal.Instant",
  ],
  [1186, [5, {}, new Date(), temporal("PlainTime", "12:00")], "Temporal.Duration"],
  [25, [temporal("PlainDate", "2024-02-29")], "pass text"],
  [
    3904,
    [
      {},
      { lower: 1 },
      { lower: 1, uper: 2 },
      { lower: undefined, upper: 2 },
      { lower: 1, upper: 2, bounds: "[[" },
      { lower: 1, upper: 2, bounds: "" },
      5,
      [1, 2],
      { empty: 1 },
    ],
    "{ lower, upper }",
  ],
  [
    3904,
    [
      { lower: 1.5, upper: 2 },
      { lower: [], upper: 2 },
    ],
    "whole number",
  ],
  [3912, [{ lower: new Date(NaN), upper: null }], "valid Date"],
  [3908, [{ lower: "\0", upper: null }], "NUL"],
  [4451, [{ lower: 1, upper: 2 }, 5], "array of ranges"],
  [4451, [[null], [5], [[]]], "{ lower, upper }"],
])("type %i refuses with advice (%#)", (type, values, expected) => {
  for (const value of values) {
    expect(why(type, value)).toMatch(/^INVALID_PARAMETER/);
    if (value !== undefined) expect(why(type, value)).toContain(expected);
  }
});

test.each<[type: number, value: unknown]>([
  [1082, new Date("-004713-11-23T23:59:59Z")],
  [1184, new Date("-004713-11-23T23:59:59Z")],
  [1114, new Date(-8.64e15)],
  [1082, temporal("PlainDate", "-004713-11-23")],
  [1082, temporal("PlainDate", "-271821-04-19")],
  [1185, [new Date(-8.64e15)]],
  [3912, { lower: temporal("PlainDate", "-004714-12-31"), upper: null }],
  [3904, { lower: 2 ** 31, upper: null }],
])("PARAMETER_OUT_OF_RANGE before 4714-11-24 BC, and in a range (%#)", (type, value) =>
  expect(why(type, value)).toMatch(/^PARAMETER_OUT_OF_RANGE/),
);

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

  test("a literal says what was meant, whatever the elements hold", () => {
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
    ["a typed array", 1007, Int32Array.of(1), "INVALID_PARAMETER"],
  ])("%s is refused", (_, type, value, expected) => expect(why(type, value)).toContain(expected));

  test("an array that contains itself is refused", () => {
    const array: unknown[] = [];
    array.push(array);
    expect(why(1009, array)).toContain("INVALID_PARAMETER");
    expect(why(3807, array)).toContain("INVALID_PARAMETER");
  });
});

test.each([
  [21, 32768, "int2 holds -32768 to 32767"],
  [21, "-32769", "int2 holds"],
  [23, 2147483648, "int4 holds -2147483648 to 2147483647"],
  [23, -2147483649n, "int4 holds"],
  [23, "99999999999999999999", "int4 holds"],
  [26, -1, "oid holds 0 to 4294967295"],
  [26, 4294967296, "oid holds"],
  [20, 2n ** 63n, "int8 holds -9223372036854775808 to 9223372036854775807"],
  [20, "9223372036854775808", "int8 holds"],
  [20, "1".repeat(1_000_000), "int8 holds"],
  [20, 2 ** 53, "beyond 2^53"],
  [20, 1e300, "int8 holds"],
  [700, 1e39, "float4 holds"],
  [700, 1e-50, "float4 holds"],
])("PARAMETER_OUT_OF_RANGE: type %i", (type, value, text) => {
  expect(why(type, value)).toMatch(/^PARAMETER_OUT_OF_RANGE: Parameter \$1 \((int2|int4|oid|int8|float4)\)/);
  expect(why(type, value)).toContain(text);
});

test("every number next to a bound is decided right", () => {
  for (const [type, bits] of [
    [21, 16n],
    [23, 32n],
    [20, 64n],
  ] as const) {
    const max = 2n ** (bits - 1n) - 1n;
    for (const value of [max, -max - 1n])
      expect(one(type, value)).toBe(
        `binary:${BigInt.asUintN(Number(bits), value)
          .toString(16)
          .padStart(Number(bits) / 4, "0")}`,
      );
    for (const value of [max + 1n, -max - 2n]) {
      expect(why(type, value)).toContain("PARAMETER_OUT_OF_RANGE");
      expect(why(type, String(value))).toContain("PARAMETER_OUT_OF_RANGE");
    }
  }
});

test.each<[type: number, values: unknown[]]>([
  [16, [1, 0, new Date(), {}, Symbol("x")]],
  [23, [1.5, NaN, Infinity, "", " ", "abc", "1.0", "0x10", "1e3", "1_000", true, {}, [], new Date(), () => 1]],
  [20, ["12 3", "--1", 1.5, true]],
  [700, [{}, new Date(), new Uint8Array(1)]],
  [17, [5, true, {}, new Date(), [1, 2]]],
  [25, [{}, new Date(), new Uint8Array(1), new ArrayBuffer(1), Symbol("x"), () => 1, ["a"]]],
  [1082, [5, 0n, true, {}, new Date(NaN)]],
  [1184, [5, new Date(NaN), []]],
  [114, [new Uint8Array(1), Symbol("x"), () => 1, { a: 1n }]],
  [2950, [new Uint8Array(16), {}]],
  [99_999, [{}, new Date(), new Uint8Array(1), new Map()]],
])("INVALID_PARAMETER: type %i", (type, values) => {
  for (const value of [undefined, ...values])
    expect(why(type, value), String(value)).toMatch(/^INVALID_PARAMETER: Parameter \$1 /);
});

test("the reasons say which parameter, and what to pass", () => {
  expect(refused([1, undefined], [23, 23])).toContain(
    "Parameter $2 (int4) does not accept a value of type Undefined: pass null for NULL",
  );
  expect(refused([{}], [99_999])).toContain("jsonb");
  expect(refused(["a", "b\0"], [25, 25])).toContain("Parameter $2 (text)");
});

test("no reason repeats a value", () => {
  for (const type of [16, 17, 20, 23, 25, 114, 700, 1082, 99_999]) {
    for (const value of [
      "Zq7\0",
      "Zq7\ud800",
      {
        toString: () => "Zq7",
        toJSON: () => {
          throw new Error("boom");
        },
      },
    ])
      expect(why(type, value)).not.toContain("Zq7");
  }
});

test.each(["a\0b", "\ud800", "\udc00\ud800", "a\ud83d", "x".repeat(5_000) + "\udfff"])(
  "text with NUL or half a surrogate pair is refused (%#)",
  (text) => {
    for (const type of [25, 1043, 99_999, 114]) expect(why(type, text)).toMatch(/^INVALID_PARAMETER/);
  },
);

test("any well-formed text of any length arrives as its UTF-8", () => {
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

test("random values of random types are read back", () => {
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
        const actual =
          type === 23
            ? view.getInt32(0)
            : type === 20
              ? view.getBigInt64(0)
              : type === 701
                ? view.getFloat64(0)
                : type === 16
                  ? bytes[0] === 1
                  : bytes;
        expect(actual).toEqual(expected);
      });
    }),
    { numRuns: 500 },
  );
});

test("another number of values than parameters is an error that says both", () => {
  expect(refused([1], [])).toBe("INVALID_QUERY: The statement has 0 parameters, but 1 values were given.");
  expect(refused([], [23, 23])).toBe("INVALID_QUERY: The statement has 2 parameters, but 0 values were given.");
});

test("65,535 parameters go, one more does not", () => {
  const types = new Array<number>(65_535).fill(25);
  const values = decode(encodeParameters(new Array<string>(65_535).fill("x"), types));
  expect(values).toHaveLength(65_535);
  expect(values.every((value) => show(value) === "text:x")).toBe(true);
  expect(refused(new Array<string>(65_536).fill("x"), [...types, 25])).toMatch(/^TOO_MANY_PARAMETERS/);
});

test.each([2 ** 30, 2 ** 31, 2 ** 32, 2 ** 32 + 1])(
  "a value of %i bytes is refused before anything is allocated",
  (byteLength) => {
    const huge = Object.defineProperty(new Uint8Array(0), "byteLength", { value: byteLength });
    expect(refused([huge], [17])).toMatch(/^PARAMETERS_TOO_LARGE/);
    expect(refused(["ok", huge], [25, 17])).toMatch(/^PARAMETERS_TOO_LARGE/);
    expect(one(23, 5)).toBe("binary:00000005");
  },
);

test("the sum counts, not the single value", () => {
  const nearly = Object.defineProperty(new Uint8Array(0), "byteLength", { value: 0x3fffffff - 0x10000 - 100 });
  expect(refused([new Uint8Array(200), nearly], [17, 17])).toMatch(/^PARAMETERS_TOO_LARGE/);
});

test.each<[type: number, value: unknown, hex: string]>([
  [16, true, "0000000101"],
  [21, 1, "000000020001"],
  [23, 1, "0000000400000001"],
  [26, 1, "0000000400000001"],
  [20, 1n, "000000080000000000000001"],
  [700, 1, "000000043f800000"],
  [701, 1, "000000083ff0000000000000"],
  [17, Uint8Array.of(7), "0000000107"],
  [25, "é", "00000002c3a9"],
  [25, null, "ffffffff"],
])("a value of type %i is written where there is room, however full the buffer is", (type, value, hex) => {
  // Values of every size before it, so that each possible end of the buffer (a power of two) falls inside this one.
  for (let size = 4_040; size < 4_100; size++) {
    const block = encodeParameters(["x".repeat(70_000 + size), value, "y".repeat(size), value], [25, type, 25, type]);
    const fresh = encodeParameters(["x".repeat(size), value], [25, type]);
    for (const encoded of [block, fresh])
      expect(Buffer.from(encoded.subarray(-16)).toString("hex").endsWith(hex)).toBe(true);
  }
});

test("what a call returned stays as it is until the next, which a value's own code may make meanwhile", () => {
  const inner = { toJSON: () => Buffer.from(encodeParameters(["b".repeat(5_000)], [25])).length };
  const encoded = encodeParameters(["a".repeat(10), inner], [25, 114]);
  expect(decode(encoded).map(show)).toEqual([`text:${"a".repeat(10)}`, "text:5010"]);
});

test("a refused call leaves nothing behind for the next", () => {
  expect(refused(["secret", 1.5], [25, 23])).toContain("INVALID_PARAMETER");
  expect(Buffer.from(encodeParameters([null, "x"], [23, 25])).toString("hex")).toBe(
    "00020000000000" + "02ffffffff00000001" + "78",
  );
});

test("a toJSON that encodes parameters itself disturbs nothing", () => {
  const nested = { toJSON: () => Buffer.from(encodeParameters(["inner", 1], [25, 23])).toString("hex") };
  const values = decode(encodeParameters(["outer", nested, 7], [25, 114, 23])).map(show);
  expect(values).toEqual(["text:outer", `text:"${nested.toJSON()}"`, "binary:00000007"]);
});
