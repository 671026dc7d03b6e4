// Every refusal of a value comes before any byte is sent, says which parameter and what to pass, and repeats no value.
import { expect, test } from "vitest";
import { firstParameters } from "../../js/values/first-parameters.ts";
import { encodeParameters } from "../../js/values/parameters.ts";
import { one, refused, temporal, why } from "./parameter-blocks.ts";

const DATE = temporal("PlainDate", "2024-02-29");
const TIME = temporal("PlainTime", "12:00");
const DATE_TIME = temporal("PlainDateTime", "2024-02-29T12:00:00");
const INSTANT = temporal("Instant", "2024-02-29T12:00:00Z");
const ZONED = temporal("ZonedDateTime", "2024-02-29T12:00:00+01:00[Europe/Paris]");

test.each<[type: number, values: unknown[], expected: string]>([
  [1082, [DATE_TIME, INSTANT, TIME], "Temporal.PlainDate"],
  [1083, [new Date(), DATE_TIME, INSTANT, 5], "Temporal.PlainTime"],
  [1114, [INSTANT, ZONED, 5], "Temporal.PlainDateTime"],
  [1184, [DATE_TIME, DATE, { toString: () => "now" }], "Temporal.Instant"],
  [1186, [5, {}, new Date(), TIME], "Temporal.Duration"],
  [25, [DATE], "pass text"],
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

test("every number next to a bound is accepted or refused correctly", () => {
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
  expect(refused([{}], [25])).toContain("jsonb");
  expect(refused([{}], [99_999])).toContain("base type");
  expect(refused(["a", "b\0"], [25, 25])).toContain("Parameter $2 (text)");
});

test.each([
  [3904, {}, "(int4range) does not accept a value of type Object: pass { lower, upper }."],
  [3904, { lower: 1 }, "pass { lower, upper }: upper is missing, and null is no bound."],
  [
    3910,
    { upper: null },
    "(tstzrange) does not accept a value of type Object: pass { lower, upper }: lower is missing",
  ],
  [3904, { lower: 1, upper: 2, bounds: "[[" }, 'pass { lower, upper } with bounds "[)", "[]", "(]" or "()".'],
  [3904, { lower: "a", upper: null }, "(int4range) does not accept this text: pass a whole number"],
  [4451, [{ lower: 1 }], "(int4multirange) does not accept a value of type Object: pass { lower, upper }: upper is"],
  [3905, [5], "(int4range[]) does not accept a value of type Number: pass { lower, upper }."],
  [6150, [[{ lower: 1 }]], "(int4multirange[]) does not accept a value of type Object: pass { lower, upper }: upper"],
  [23, "12abc", "(int4) does not accept this text: pass a whole number, a bigint or digits."],
  [600, [1, 2], "(point) does not accept a value of type Array: pass text; for a list write = any($1)"],
  [1017, { x: 1 }, "(point[]) does not accept a value of type Object: pass an array."],
  [869, new Date(0), "(inet) does not accept a value of type Date"],
  [2206, {}, "(regtype) does not accept a value of type Object"],
  [99_999, {}, "(type OID 99999) does not accept a value of type Object"],
])("the reason for type %i names the type, and says what is wrong (%#)", (type, value, reason) => {
  expect(why(type, value)).toContain(`INVALID_PARAMETER: Parameter $1 `);
  expect(why(type, value)).toContain(reason);
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

test("a value that cannot be read is refused, in a first run too: bytes that were transferred, a revoked proxy", () => {
  const bytes = new Uint8Array([1, 2]);
  const { buffer } = bytes;
  structuredClone(buffer, { transfer: [buffer] });
  const { proxy, revoke } = Proxy.revocable({}, {});
  revoke();
  const throwing = { [Symbol.toPrimitive]: () => expect.unreachable(), toJSON: () => JSON.parse("{") as unknown };
  for (const value of [bytes, buffer, proxy, [proxy], throwing])
    for (const type of [17, 25, 114, 3802, 1009, 1001, 23, 1184, 99_999]) {
      expect(() => encodeParameters([1, value], [23, type])).toThrow(
        expect.objectContaining({ name: "UsageError", code: "INVALID_PARAMETER", parameter: 2 }),
      );
      expect(firstParameters([value])).toBeUndefined();
    }
});
