// The middle of a Bind message as a whole: its layout, its bounds, and a reused buffer. parameter-values.test.ts tests
// the encoding of values, and parameter-refusals.test.ts which are refused.
import { expect, test } from "vitest";
import { appendParameters, binaryWriter, Block, encodeParameters, goesInBinary } from "../../js/values/parameters.ts";
import { decode, one, refused, show, why } from "./parameter-blocks.ts";

test("the block has the protocol's layout", () => {
  const block = encodeParameters([5, "é", null, true], [23, 25, 23, 16]);
  expect(Buffer.from(block).toString("hex")).toBe(
    "0004 0001 0000 0000 0001 0004 00000004 00000005 00000002 c3a9 ffffffff 00000001 01".replaceAll(" ", ""),
  );
  expect(Buffer.from(encodeParameters([], [])).toString("hex")).toBe("00000000");
  expect(encodeParameters([1], Uint32Array.of(23)).slice()).toEqual(encodeParameters([1], [23]));
});

test("several executions in one buffer are encoded like each alone", () => {
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
  // A longer block was in the buffer before. Its rest must not show through.
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

test("the error of a writer uses the given name, and null is NULL", () => {
  const block = new Block();
  const write = binaryWriter(23)!;
  write(block, { index: 0, type: 23 }, null);
  expect(Buffer.from(block.bytes.subarray(0, block.length)).toString("hex")).toBe("ffffffff");
  expect(() => write(block, { name: () => 'Row 7, column "b"', index: 1, type: 23 }, 1.5)).toThrow(
    'Row 7, column "b" (int4) does not accept a number with a fraction',
  );
  expect(block.length).toBe(4);
  expect(binaryWriter(600)).toBeUndefined();
});

// Parse declares such a type, so that the server does not read the bytes as a value of another type.
test("a type is declared binary exactly if a value of it is written in binary", () => {
  const values = [true, 1, 1n, "1", Uint8Array.of(1), [1], new Date(0), null];
  for (const type of [16, 17, 20, 21, 23, 25, 26, 114, 700, 701, 1007, 1043, 1082, 1184, 1700, 2950, 3802, 99_999]) {
    const accepted = values.filter((value) => why(type, value) === "accepted");
    const binary = accepted.some((value) => one(type, value).startsWith("binary:"));
    expect(goesInBinary(type), String(type)).toBe(binary);
  }
});

test("a wrong number of values is an error that states both numbers", () => {
  expect(refused([1], [])).toBe("INVALID_QUERY: The statement has 0 parameters, but 1 values were given.");
  expect(refused([], [23, 23])).toBe("INVALID_QUERY: The statement has 2 parameters, but 0 values were given.");
});

test("65,535 parameters are accepted, and one more is refused", () => {
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

test("the total size counts, not only the single value", () => {
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
])("a value of type %i is written correctly, however full the buffer is", (type, value, hex) => {
  // Values of every size come first, so that each possible end of the buffer (a power of two) falls inside this one.
  for (let size = 4_040; size < 4_100; size++) {
    const block = encodeParameters(["x".repeat(70_000 + size), value, "y".repeat(size), value], [25, type, 25, type]);
    const fresh = encodeParameters(["x".repeat(size), value], [25, type]);
    for (const encoded of [block, fresh])
      expect(Buffer.from(encoded.subarray(-16)).toString("hex").endsWith(hex)).toBe(true);
  }
});

test("calls share memory, after a refused call too, and the memory of a large call is released", () => {
  const memory = () => encodeParameters([1], [23]).buffer;
  const shared = memory();
  expect(memory()).toBe(shared);
  expect(refused([1.5], [23])).toContain("INVALID_PARAMETER");
  expect(memory()).toBe(shared);
  expect(encodeParameters(["x".repeat(1 << 20)], [25]).buffer.byteLength).toBeGreaterThan(1 << 20);
  expect(memory().byteLength).toBeLessThan(1 << 16);
});

test("a call's result stays unchanged until the next call, even if a value's own code makes one meanwhile", () => {
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

test("a toJSON that encodes parameters itself does not disturb the outer call", () => {
  const nested = { toJSON: () => Buffer.from(encodeParameters(["inner", 1], [25, 23])).toString("hex") };
  const values = decode(encodeParameters(["outer", nested, 7], [25, 114, 23])).map(show);
  expect(values).toEqual(["text:outer", `text:"${nested.toJSON()}"`, "binary:00000007"]);
});
