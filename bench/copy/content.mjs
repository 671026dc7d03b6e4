// The data of CASE=copy: seed 003's rows of text and pgz's rows of (int4, text, float8), as JavaScript rows and as the
// bytes of COPY.
import { textRows, typedRow } from "../lib/data.mjs";

const letters = (count) => Array.from({ length: count }, (_, index) => `c${String.fromCharCode(97 + index)}`);
const text = (count, size) => ({
  columns: letters(count),
  types: Array(count).fill("text"),
  rows: (count_) => textRows(count_, count, size),
});

/** Table -> columns, their types, `rows(n)`, and `share`: its number of rows as a multiple of the first table's. */
export const tables = {
  "16x32": { ...text(16, 32), share: 1 },
  "3x8": { ...text(3, 8), share: 5 },
  "3col": {
    columns: ["id", "name", "score"],
    types: ["int4", "text", "float8"],
    rows: (count) => Array.from({ length: count }, (_, index) => typedRow(index)),
    share: 2,
  },
};

/**
 * Shape -> the table, the direction, and the data: `bytes` with COPY's `options` (COPY in reads them from a file before
 * the clock starts), or `rows`.
 */
export const shapes = {
  in_bytes_16x32: { table: "16x32", from: "bytes", options: "" },
  in_bytes_3x8: { table: "3x8", from: "bytes", options: "" },
  in_rows_16x32: { table: "16x32", from: "rows" },
  in_rows_3x8: { table: "3x8", from: "rows" },
  in_binary_3col: { table: "3col", from: "rows" },
  in_csv_3col: { table: "3col", from: "bytes", options: "(FORMAT csv)" },
  out_text: { table: "16x32", options: "" },
  out_binary: { table: "16x32", options: "(FORMAT binary)" },
  out_csv_3col: { table: "3col", options: "(FORMAT csv)" },
  out_binary_3col: { table: "3col", options: "(FORMAT binary)" },
};

/** The statement of a shape that moves bytes. */
export const statement = ({ table, from, options }) =>
  (from ? `COPY bench_${table} FROM STDIN ${options}` : `COPY bench_out_${table} TO STDOUT ${options}`).trim();

/** Rows as COPY's text or CSV. None of these cells needs an escape. */
export const asText = (rows, separator) => rows.map((row) => `${row.join(separator)}\n`).join("");

/** Bytes as a source yields them, in pieces of 64 KiB. */
export const pieces = (bytes) =>
  Array.from({ length: Math.ceil(bytes.length / 65536) }, (_, index) =>
    bytes.subarray(index * 65536, (index + 1) * 65536),
  );
