// From rows as the core writes them for objects (row format 2: one JSON array and a newline per row) to JavaScript values.
//
// Knows: what JSON cannot say: float's NaN and infinities, bytea. Everything else is as JSON.parse gives it: int8 and numeric text,
// dates and times ISO 8601 text, json as parsed. Must not know: queries, connections. No code is generated: Workers forbid it.

import type { Column } from "./boundary.ts";

/**
 * The rows of one chunk of whole rows. `bytes` may be a view of wasm memory; nothing of it is kept.
 *
 * Objects are plain, with one own property per column name; of two columns with one name the last wins. In mode `"array"` a
 * row has all columns in order.
 */
export function decodeRows(bytes: Uint8Array, columns: readonly Pick<Column, "name" | "typeOid">[], mode: "object" | "array"): unknown[] {
  // The core never writes a newline inside a row, so each one separates two.
  const text = decoder.decode(bytes.subarray(0, bytes.length - 1));
  const rows = JSON.parse(`[${text.replaceAll("\n", ",")}]`) as unknown[][];
  columns.forEach(({ typeOid }, index) => {
    const convert = converters[typeOid];
    if (convert) for (const row of rows) row[index] = each(row[index], convert);
  });
  if (mode === "array") return rows;
  const names = columns.map(({ name }) => name);
  const build = names.includes("__proto__") ? toSafeObject : toObject;
  const objects: unknown[] = rows;
  for (let index = 0; index < rows.length; index++) objects[index] = build(names, rows[index] as unknown[]);
  return objects;
}

const decoder = new TextDecoder();

function toObject(names: readonly string[], row: readonly unknown[]): object {
  const object: Record<string, unknown> = {};
  for (let index = 0; index < names.length; index++) object[names[index] as string] = row[index];
  return object;
}

/** For a column named `__proto__`, which an assignment would take for the prototype. */
function toSafeObject(names: readonly string[], row: readonly unknown[]): object {
  return Object.fromEntries(names.map((name, index) => [name, row[index]]));
}

type Convert = (value: string) => unknown;

// Number() reads NaN, Infinity and -Infinity, the only floats that come as text.
const converters: Record<number, Convert> = { 700: Number, 701: Number, 1021: Number, 1022: Number, 17: bytesOf, 1001: bytesOf };

/** Converts the texts among a value, or an array of any dimension. */
function each(value: unknown, convert: Convert): unknown {
  if (typeof value === "string") return convert(value);
  return Array.isArray(value) ? value.map((item) => each(item, convert)) : value;
}

/** From bytea's hex form, `\x` and two digits a byte. */
function bytesOf(text: string): Uint8Array {
  const bytes = new Uint8Array((text.length - 2) / 2);
  for (let index = 0; index < bytes.length; index++) {
    bytes[index] = (digit(text.charCodeAt(2 * index + 2)) << 4) | digit(text.charCodeAt(2 * index + 3));
  }
  return bytes;
}

/** 0-9 are 48-57; a-f are 97-102, A-F 65-70: their low four bits are 1-6. */
function digit(code: number): number {
  return code < 58 ? code - 48 : (code & 15) + 9;
}
