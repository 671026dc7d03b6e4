// Which values the binary writers refuse, and values that are not text. tests/integration/binary-values.test.ts shows
// that the writers produce the server's own bytes.
import { expect, test } from "vitest";
import { binaryWriter, Block } from "../../js/values/parameters.ts";
import { UsageError } from "../../js/util/errors.ts";

function written(type: number, value: unknown): string {
  const block = new Block();
  try {
    binaryWriter(type)!(block, { index: 0, type }, value);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return `${(error as UsageError).code}: ${(error as UsageError).message}`;
  }
  return Buffer.from(block.bytes.subarray(0, block.length)).toString("hex");
}

test.each<[type: number, value: unknown, hex: string]>([
  [16, true, "0000000101"],
  [16, "f", "0000000100"],
  [21, 1n, "000000020001"],
  [23, "-1", "00000004ffffffff"],
  [26, 4294967295, "00000004ffffffff"],
  [20, 1, "000000080000000000000001"],
  [700, 1.5, "000000043fc00000"],
  [701, 10n, "000000084024000000000000"],
  [17, Uint8Array.of(7), "0000000107"],
  [17, "\\x0aFF", "000000020aff"],
  [25, "é", "00000002c3a9"],
  [25, 5, "0000000135"],
  [705, "x", "0000000178"],
  [114, { a: 1 }, "000000077b2261223a317d"],
  [3802, "[]", "00000003015b5d"],
  [1700, 1.5, "0000000c00020000000000010001" + "1388"],
  [1700, 10n ** 8n, "0000000e000300020000000000010000" + "0000"],
  [2950, "{550e8400-e29b-41d4-a716-446655440000}", "00000010550e8400e29b41d4a716446655440000"],
  [1082, new Date(946_684_800_000), "0000000400000000"],
  [1082, new Date(946_684_799_999), "00000004ffffffff"],
  [1114, new Date(946_684_800_001), "0000000800000000000003e8"],
  [1184, "2000-01-01 01:00+01", "000000080000000000000000"],
  [1083, "00:00:00.000001", "000000080000000000000001"],
  [1007, [], "0000001400000001" + "00000001" + "00000017" + "00000000" + "00000001"],
  [
    1007,
    [[1], [null]],
    "00000028" +
      "00000002" +
      "00000001" +
      "00000017" +
      "00000002" +
      "00000001" +
      "00000001" +
      "00000001" +
      "0000000400000001" +
      "ffffffff",
  ],
  [
    3807,
    [[1, [2]]],
    "0000002000000001" + "00000001" + "00000eda" + "00000001" + "00000001" + "00000008" + "015b312c5b325d5d",
  ],
  [1009, null, "ffffffff"],
  [
    1184,
    { [Symbol.toStringTag]: "Temporal.Instant", toString: () => "2000-01-01T00:00:00.000001Z" },
    "000000080000000000000001",
  ],
  [1082, { [Symbol.toStringTag]: "Temporal.PlainDate", toString: () => "+010000-01-01" }, "00000004002c95d4"],
])("type %i, %o", (type, value, hex) => expect(written(type, value)).toBe(hex));

test.each<[type: number, values: unknown[], expected: string]>([
  [16, ["", "maybe", 1, "o"], "a boolean"],
  [700, ["1.00000005960464477540"], "a number"],
  [700, ["", "abc", "0x10", "1_000", true, "1 2", "e5", "."], "a number"],
  [1700, ["", "1,5", "1e", "--1", ".e1", true], "a number"],
  [17, ["abc", "\\x0", "\\xzz", "\\001", 5], "a Uint8Array"],
  [
    2950,
    [
      "",
      "550e8400",
      "550e8400-e29b-41d4-a716-44665544000g",
      "{550e8400-e29b-41d4-a716-446655440000",
      "5-50e8400e29b41d4a716446655440000",
      5,
    ],
    "",
  ],
  [1082, ["", "now", "today", "29.02.2024", "2024-2-9", "20240229", "0000-01-01", "epoch"], "ISO 8601"],
  [1083, ["", "2024-02-29 12:00", "1pm", "12", "infinity"], "ISO 8601"],
  [
    1184,
    [
      "2024-02-29",
      "2024-02-29 12:00:00",
      "2024-02-29T12:00",
      "2024-02-29 12:00:00 Europe/Paris",
      "2024-02-29 12:00+16",
    ],
    "with its time zone",
  ],
  [1114, ["tomorrow", "2024-02-29 12:00 PM"], "ISO 8601"],
  [
    1007,
    ["{1}", {}, 5, [[1], 2], [[1], [2, 3]], [1, [2]], [[], [1]], [[[[[[[1]]]]]]], [undefined], new Array(1), [1.5]],
    "",
  ],
  [1009, [["\0"], ["\ud800"], [{}], [["a"], null]], ""],
  [25, ["\0", "\ud800", {}, undefined], ""],
  [114, [() => 1, Symbol("x"), new Uint8Array(1)], ""],
])("INVALID_PARAMETER: type %i (%#)", (type, values, expected) => {
  for (const value of values) {
    expect(written(type, value), String(value)).toMatch(/^INVALID_PARAMETER/);
    expect(written(type, value)).toContain(expected);
  }
});

test.each<[type: number, values: unknown[]]>([
  [21, [70_000, "-32769"]],
  [20, [2n ** 63n, 2 ** 60]],
  [700, [1e39, "1e39", "1e-50"]],
  [701, ["1e400", "+.8e400", "-1e400", "1e-400", `${"9".repeat(400)}`]],
  [1700, ["1e131072", "1e-16384", "1e999999999999999999999", "1e-999999999999999999999", `1e${"9".repeat(400)}`]],
  [
    1082,
    [
      "2024-02-30",
      "2023-02-29",
      "2024-13-01",
      "2024-00-01",
      "2024-01-00",
      "5874899-01-01",
      "9999999-01-01",
      "4714-11-23 BC",
      "5000-01-01 BC",
      new Date(-8.64e15),
    ],
  ],
  [1083, ["24:01", "25:00", "12:60", "12:00:61"]],
  [1114, ["294277-01-01", "2024-01-01 25:00", "4714-11-23 23:59:59 BC"]],
  [1184, ["294277-01-02 00:00Z", new Date(-8.64e15)]],
])("PARAMETER_OUT_OF_RANGE: type %i", (type, values) => {
  for (const value of values) expect(written(type, value), String(value)).toMatch(/^PARAMETER_OUT_OF_RANGE/);
});

test("an array that contains itself is refused", () => {
  const array: unknown[] = [];
  array.push(array);
  expect(written(1007, array)).toMatch(/^INVALID_PARAMETER/);
});

test("types without a binary writer have no array writer either", () => {
  for (const type of [18, 600, 603, 1020, 1186, 1187, 1266, 3904, 3905, 4451, 99_999])
    expect(binaryWriter(type), String(type)).toBeUndefined();
});
