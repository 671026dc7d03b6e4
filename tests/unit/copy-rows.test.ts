// Rows of JavaScript values as the data of COPY (js/statement/copy-rows.ts): both formats byte by byte, which format is
// chosen, how many bytes are written together, and which error a row gives that cannot be written.
import { expect, test } from "vitest";
import { RowWriter, type CopyRow } from "../../js/statement/copy-rows.ts";
import type { CopyProgress } from "../../js/statement/copy.ts";
import { PIECE } from "../../js/util/limits.ts";
import { LAYOUT_VECTOR, TYPE_ARRAY, TYPE_SAME, type Column } from "../../js/wasm/boundary.ts";
import type { Definition } from "../../js/wasm/type-definitions.ts";
import type { Serializer } from "../../js/values/serialize.ts";
import { FakeTarget } from "../support/copy-target.ts";

const INT4 = 23;
const TEXT = 25;
const MONEY = 790;
const ENUM = 20_001;
const ARRAY_OF_ENUM = 20_002;
const VECTOR = 20_004;
const DEFINITIONS: Definition[] = [
  { oid: ENUM, code: TYPE_SAME, of: TEXT, parts: [], names: [] },
  { oid: VECTOR, code: TYPE_SAME, of: LAYOUT_VECTOR, parts: [], names: [] },
  { oid: ARRAY_OF_ENUM, code: TYPE_ARRAY, of: TEXT, parts: [], names: [] },
];

interface Settings {
  readonly types?: readonly number[];
  readonly isBinary?: boolean;
  readonly serialize?: Serializer;
}

function newWriter({ types = [INT4, TEXT], isBinary = true, serialize }: Settings = {}): RowWriter {
  const names = types.map((_, index) => "abcdef"[index]!);
  const columns = types.map((typeOid, index) => ({ name: `column ${index}`, typeOid }) as Column);
  return new RowWriter(columns, names, DEFINITIONS, isBinary, serialize);
}

/** Sends these rows, and returns what was written, one character for each byte. */
async function send(rows: Iterable<unknown> | AsyncIterable<unknown>, settings?: Settings): Promise<string> {
  const target = new FakeTarget();
  await newWriter(settings).send(target, rows as Iterable<CopyRow>);
  return target.sent.toString("latin1");
}

const SIGNATURE = Buffer.from("PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0", "latin1");
const TRAILER = Buffer.from([0xff, 0xff]);

/** A row in binary, as the PostgreSQL manual lays it out. */
function row(...values: (Buffer | string | number | null)[]): Buffer {
  const pieces = values.map((value) => {
    if (value === null) return Buffer.from([0xff, 0xff, 0xff, 0xff]);
    const bytes = typeof value === "string" ? Buffer.from(value) : typeof value === "number" ? int32(value) : value;
    return Buffer.concat([int32(bytes.length), bytes]);
  });
  return Buffer.concat([Buffer.from([values.length >> 8, values.length & 255]), ...pieces]);
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

const inBinary = (...rows: Buffer[]) => Buffer.concat([SIGNATURE, ...rows, TRAILER]).toString("latin1");

test("binary is chosen if all columns have a binary form and the server's timestamps are integers", () => {
  const formatOf = (types: number[], isBinary = true) => newWriter({ types, isBinary }).format;
  expect(formatOf([INT4, TEXT])).toBe("binary");
  expect(formatOf([INT4, TEXT], false)).toBe("text");
  expect(formatOf([INT4, MONEY])).toBe("text");
  // An enum's binary form is its label, and the server knows the elements of an array of enums.
  expect(formatOf([ENUM])).toBe("binary");
  expect(formatOf([ARRAY_OF_ENUM])).toBe("text");
  expect(formatOf([20_003])).toBe("text");
});

test("binary: a signature, rows from arrays or from objects by their names, and a trailer", async () => {
  const rows = [[1, "a"], { b: "é", a: -1, c: 3 }, [null, null], Object.assign([7, ""], { a: 8 })];
  expect(await send(rows)).toBe(inBinary(row(1, "a"), row(-1, "é"), row(null, null), row(7, "")));
  expect(await send([["label"]], { types: [ENUM] })).toBe(inBinary(row("label")));
  expect(await send([])).toBe(inBinary());
});

test("text: tabs between values, a row per line, and special characters escaped", async () => {
  const rows = [[1, "a"], { b: "tab\t, line\n, return\r, \\ and \\N", a: null }, ["2", ""]];
  expect(await send(rows, { isBinary: false })).toBe("1\ta\n\\N\ttab\\t, line\\n, return\\r, \\\\ and \\\\N\n2\t\n");
  expect(await send([[[1, null, 2]]], { types: [1007], isBinary: false })).toBe('{"1",NULL,"2"}\n');
  expect(await send([], { isBinary: false })).toBe("");
});

test("a vector comes from an array of numbers, or from its text, in both formats", async () => {
  const types = [VECTOR];
  const rows = [[Float32Array.of(1.5, -2)], [[1.5, -2]], [" [1.5, -2e0]"], [null]];
  const vector = "\0\0\0\x0c\0\x02\0\0\x3f\xc0\0\0\xc0\0\0\0";
  const binary = await send(rows, { types });
  expect(binary.slice(19, -2)).toBe(`${`\0\x01${vector}`.repeat(3)}\0\x01\xff\xff\xff\xff`);
  expect(await send(rows, { types, isBinary: false })).toBe("[1.5,-2]\n[1.5,-2]\n [1.5, -2e0]\n\\N\n");
});

const NO_VECTORS = ["[1,null]", "[1,,2]", '["1"]', "[[1]]", "{1,2}", "1", "", "[1,2", "[1 2]"];
const NO_LISTS = [[[1]], ["[1]"], [1, null], [1e39], 1, {}, []];

test.each([...NO_VECTORS, ...NO_LISTS].map((value) => [value]))("a vector does not come from %j", async (value) => {
  const advice = 'Row 0, column "a" (type OID 20004)';
  await expect(send([[value]], { types: [VECTOR] })).rejects.toThrow(advice);
  // In text the server reads it.
  const sent = send([[value]], { types: [VECTOR], isBinary: false });
  if (typeof value !== "string") await expect(sent).rejects.toThrow(advice);
  else expect(await sent).toBe(`${value}\n`);
});

test("rows of texts of any length are written correctly after any other row", async () => {
  const lengths = [0, 1, 20, 28, 31, 32, 100, 126, 127, 128, 200, 1_000];
  const plain = lengths.map((length) => "x".repeat(length));
  const odd = ["é".repeat(30), "x".repeat(40) + "😀", null, "\u007f".repeat(40), "é"];
  // Each value follows each other value, so that remembered state of the previous row would show. The two columns have
  // different lengths.
  const values = [...plain, ...odd];
  const rows = values.flatMap((one) => values.flatMap((other) => [[one, other]]));
  expect(await send(rows, { types: [TEXT, TEXT] })).toBe(inBinary(...rows.map((values) => row(...values))));
  const single = values.flatMap((one) => Array<unknown[]>(17).fill([one]));
  expect(await send(single, { types: [TEXT] })).toBe(inBinary(...single.map(([value]) => row(value as string | null))));
});

test("wide rows of texts have their number of columns in two bytes", async () => {
  const types = Array<number>(300).fill(TEXT);
  const values = types.map((_, index) => `a text that is thirty-two long ${index % 10}`);
  const columns = types.map((typeOid, index) => ({ name: `c${index}`, typeOid }) as Column);
  const target = new FakeTarget();
  const writer = new RowWriter(
    columns,
    columns.map(({ name }) => name),
    [],
    true,
  );
  await writer.send(target, [values, values]);
  expect(target.sent.toString("latin1")).toBe(inBinary(row(...values), row(...values)));
});

test("plain texts among columns of other types are written like those types", async () => {
  const digits = "1".repeat(9);
  expect(await send([[digits, "y".repeat(40)]])).toBe(inBinary(row(Number(digits), "y".repeat(40))));
});

test("option serialize converts the values of each row", async () => {
  const serialize = (value: { id?: number }) => (typeof value === "object" ? value.id : value);
  for (const given of [[{ id: 7 }, "a"], { a: { id: 7 }, b: "a" }])
    expect(await send([given], { serialize })).toBe(inBinary(row(7, "a")));
});

test("rows may come from an async iterable", async () => {
  async function* rows() {
    yield [1, "a"];
    await Promise.resolve();
    yield [2, "b"];
  }
  expect(await send(rows())).toBe(inBinary(row(1, "a"), row(2, "b")));
});

test("what a row's own code throws comes as it is, and has the row's number if it can", async () => {
  for (const thrown of [Object.freeze(new Error("frozen")), "text", null, new Error("plain")]) {
    const row = {
      get a(): number {
        throw thrown;
      },
      b: "",
    };
    const failed = await send([[1, "a"], row]).catch((error: unknown) => error);
    expect(failed).toBe(thrown);
  }
});

// -- pieces ----------------------------------------------------------------------------------------------------------

/** Sends rows of one text each, with these lengths. Returns what was written and the reported progress. */
async function pieces(isBinary: boolean, ...lengths: number[]) {
  const target = new FakeTarget();
  const told: CopyProgress[] = [];
  const rows = lengths.map((length) => ["x".repeat(length)]);
  await newWriter({ types: [TEXT], isBinary }).send(target, rows, (progress) => void told.push(progress));
  return { sizes: target.writes.map(({ length }) => length), told };
}

test("rows are written together up to a piece's length, and each piece and the end report progress", async () => {
  // A row in text is one character longer than its value, and five bytes of the piece are a message's header.
  const most = PIECE - 5;
  expect(await pieces(false, 9, most - 12, 4)).toEqual({
    sizes: [10 + most - 11 + 5],
    told: [
      { bytes: most + 4, rows: 3 },
      { bytes: most + 4, rows: 3 },
    ],
  });
  expect(await pieces(false, 9, most - 11, 4)).toEqual({
    sizes: [most, 5],
    told: [
      { bytes: most, rows: 2 },
      { bytes: most + 5, rows: 3 },
    ],
  });
  expect(await pieces(true, 1, 2)).toEqual({ sizes: [19 + 7 + 8 + 2], told: [{ bytes: 36, rows: 2 }] });
});

test("without rows the text format sends nothing, and onProgress reports no rows", async () => {
  expect(await pieces(false)).toEqual({ sizes: [], told: [{ bytes: 0, rows: 0 }] });
  expect(await pieces(true)).toEqual({ sizes: [21], told: [{ bytes: 21, rows: 0 }] });
});

test("the next row waits until the socket has taken a piece, and for a promise that onProgress returns", async () => {
  const target = new FakeTarget();
  target.holds = true;
  let asked = 0;
  function* rows() {
    for (; asked < 3; asked++) yield ["x".repeat(PIECE)];
  }
  let goOn = () => {};
  const progress = () => new Promise<void>((resolve) => (goOn = resolve)) as unknown as undefined;
  const sending = newWriter({ types: [TEXT], isBinary: false }).send(target, rows(), progress);
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  for (const count of [1, 2, 3]) {
    await settle();
    expect([target.writes.length, asked]).toEqual([count, count - 1]);
    target.goOn();
    await settle();
    expect([target.writes.length, asked]).toEqual([count, count - 1]);
    goOn();
  }
  await settle();
  goOn();
  await sending;
  expect(target.writes.length).toBe(3);
});

test("once no more is wanted, no row is requested and no trailer sent", async () => {
  const target = new FakeTarget();
  target.mostWrites = 1;
  let asked = 0;
  function* rows() {
    for (; asked < 3; asked++) yield ["x".repeat(PIECE)];
  }
  const told: CopyProgress[] = [];
  await newWriter({ types: [TEXT] }).send(target, rows(), (progress) => void told.push(progress));
  expect([target.writes.length, asked, told.length]).toEqual([1, 0, 1]);
  expect(target.sent.subarray(-1).toString()).toBe("x");
});

// -- rows that cannot be written -------------------------------------------------------------------------------------

test.each([
  ["too few values", [1], true, "INVALID_PARAMETER", "Row 1 has 1 values for 2 columns."],
  ["too many values", [1, "a", 2], false, "INVALID_PARAMETER", "Row 1 has 3 values for 2 columns."],
  ["no value for a column", { a: 1 }, true, "INVALID_PARAMETER", 'column "b"'],
  ["null in place of a row", null, true, "INVALID_PARAMETER", 'column "a"'],
  ["a value that the type does not accept", ["x", "a"], true, "INVALID_PARAMETER", 'Row 1, column "a"'],
  ["the same as text", [{}, 5n], false, "INVALID_PARAMETER", 'Row 1, column "a"'],
  ["a number that is too large", [2 ** 31, "a"], true, "PARAMETER_OUT_OF_RANGE", 'Row 1, column "a"'],
  ["text with NUL", [1, "\0"], true, "INVALID_PARAMETER", 'Row 1, column "b"'],
  ["an array with a hole", Object.assign(Array(2), { 0: 1 }), false, "INVALID_PARAMETER", 'Row 1, column "b"'],
])("%s: the error names the row, counted from 0, and has its number", async (_, bad, isBinary, code, message) => {
  const target = new FakeTarget();
  const sending = newWriter({ isBinary }).send(target, [[0, "well"], bad as CopyRow, [2, "never asked for"]]);
  await expect(sending).rejects.toMatchObject({ code, row: 1, message: expect.stringContaining(message) });
  expect(target.writes).toEqual([]);
});

test.each([["NUL in the middle".padEnd(60, "x") + "\0"], ["\ud800".padEnd(40, "x")]])(
  "a text of ordinary length that no database accepts is refused too: %j",
  async (text) => {
    for (const rows of [[[text]], [["y".repeat(40)], [text]]])
      await expect(send(rows, { types: [TEXT] })).rejects.toMatchObject({
        code: "INVALID_PARAMETER",
        row: rows.length - 1,
      });
  },
);

test("an error that the rows themselves throw is passed on unchanged", async () => {
  const failure = new Error("mine");
  // eslint-disable-next-line require-yield
  function* rows() {
    throw failure;
  }
  await expect(send(rows())).rejects.toBe(failure);
  expect(failure).not.toHaveProperty("row");
});
