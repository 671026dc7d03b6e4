// The items of a batch in the form that the core takes (js/statement/batch-encoding.ts): their layout, their windows,
// and values that cannot be sent.
import { expect, test } from "vitest";
import type { Shape } from "../../js/server/shapes.ts";
import { encodeBatch } from "../../js/statement/batch-encoding.ts";
import type { Query } from "../../js/statement/sql.ts";
import { PIECE } from "../../js/util/limits.ts";
import { decode, show } from "./parameter-blocks.ts";

const TEXT = 25;
const INT4 = 23;
const shape = (sql: string, ...types: number[]) =>
  ({ sql, parameterTypes: Uint32Array.from(types) }) as unknown as Shape;
const shapes = new Map(
  [shape("none"), shape("text", TEXT), shape("number", INT4)].map((one) => [one.sql, one] as const),
);
const query = (text: string, ...values: unknown[]): Query => ({ text, values });
const all = (queries: readonly Query[]) => queries.map((_, index) => index);
const never = () => expect.unreachable();

/** Reads the items of a window: the number of each item's statement, and its values. */
function items(window: Uint8Array): [number, ...string[]][] {
  const found: [number, ...string[]][] = [];
  const view = new DataView(window.buffer, window.byteOffset, window.byteLength);
  for (let at = 0; at < window.length;) {
    const length = view.getUint32(at + 4);
    found.push([view.getUint32(at), ...decode(window.subarray(at + 8, at + 8 + length)).map(show)]);
    at += 8 + length;
    expect(at).toBeLessThanOrEqual(window.length);
  }
  return found;
}

test("each item has its statement's number and its values, and a repeated statement keeps its number", () => {
  const queries = [query("text", "a"), query("number", 7), query("none"), query("text", null), query("number", 8)];
  const encoded = encodeBatch(queries, all(queries), shapes, never);
  expect(encoded.order).toEqual([0, 1, 2, 3, 4]);
  expect(encoded.numbers).toEqual([0, 1, 2, 0, 1]);
  expect(encoded.statements).toEqual([shapes.get("text"), shapes.get("number"), shapes.get("none")]);
  expect(encoded.windows.map(items)).toEqual([
    [[0, "text:a"], [1, "binary:00000007"], [2], [0, "NULL"], [1, "binary:00000008"]],
  ]);
});

test("a window contains only the requested items, in the requested order", () => {
  const queries = [query("text", "a"), query("number", 7), query("text", "b")];
  const encoded = encodeBatch(queries, [2, 1], shapes, never);
  expect([encoded.order, encoded.numbers]).toEqual([
    [2, 1],
    [0, 1],
  ]);
  expect(encoded.windows.map(items)).toEqual([
    [
      [0, "text:b"],
      [1, "binary:00000007"],
    ],
  ]);
});

test("an item whose value cannot be sent is reported, and leaves no bytes in the window", () => {
  const queries = [query("text", "a"), query("number", "x".repeat(9)), query("text"), query("text", "b")];
  const told: [number, unknown][] = [];
  const encoded = encodeBatch(queries, all(queries), shapes, (...given) => void told.push(given));
  expect(told).toEqual([
    [1, expect.objectContaining({ code: "INVALID_PARAMETER" })],
    [2, expect.objectContaining({ code: "INVALID_QUERY" })],
  ]);
  expect(encoded.order).toEqual([0, 3]);
  expect(encoded.windows.map(items)).toEqual([
    [
      [0, "text:a"],
      [0, "text:b"],
    ],
  ]);
});

test("if no item may be left out, one value that cannot be sent prevents all encoding", () => {
  const refuse = (_: number, error: unknown): void => {
    throw error;
  };
  expect(() => encodeBatch([query("text", 1n), query("number", "x")], [0, 1], shapes, refuse)).toThrow(
    expect.objectContaining({ code: "INVALID_PARAMETER" }),
  );
});

test("a batch without items is one empty window", () => {
  for (const encoded of [
    encodeBatch([], [], shapes, never),
    encodeBatch([query("number", "x")], [0], shapes, () => {}),
  ]) {
    expect(encoded.order).toEqual([]);
    expect(encoded.windows.map((window) => window.length)).toEqual([0]);
  }
});

/** An item of exactly `bytes` bytes. */
const ofBytes = (bytes: number) => query("text", "x".repeat(bytes - 8 - 2 - 2 - 2 - 4));

test("a window ends after the item that fills it to the length of a piece", () => {
  const lengths = (...bytes: number[]) => {
    const queries = bytes.map(ofBytes);
    return encodeBatch(queries, all(queries), shapes, never).windows.map((window) => window.length);
  };
  expect(lengths(100, PIECE - 101)).toEqual([PIECE - 1]);
  expect(lengths(100, PIECE - 101, 50)).toEqual([PIECE + 49]);
  expect(lengths(100, PIECE - 100)).toEqual([PIECE]);
  expect(lengths(100, PIECE - 100, 50)).toEqual([PIECE, 50]);
  expect(lengths(2 * PIECE, 50, 3 * PIECE)).toEqual([2 * PIECE, 3 * PIECE + 50]);
});

test("an item that was left out ends no window, and statement numbers continue from one window to the next", () => {
  const queries = [ofBytes(PIECE), query("number", "x"), query("number", 1), query("text", "a")];
  const encoded = encodeBatch(queries, all(queries), shapes, () => {});
  expect(encoded.numbers).toEqual([0, 1, 0]);
  expect(encoded.windows.length).toBe(2);
  expect(items(encoded.windows[1]!)).toEqual([
    [1, "binary:00000001"],
    [0, "text:a"],
  ]);
});
