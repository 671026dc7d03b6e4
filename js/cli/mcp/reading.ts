// Reads one statement's rows as text within caps, and says how many rows there are and which cap has cut them.
//
// Knows the formats and where each has its mark of a cut. The caps apply on the wire (docs/queries.md): data beyond
// them are never stored, and the statement is cancelled on the server. Must not know MCP.
import { TimeoutError, type Column, type QueryEnd, type Transaction } from "../../index.ts";

export const FORMATS = ["ndjson", "csv", "columnar", "toon"] as const;
export type ReadingFormat = (typeof FORMATS)[number];

export interface Caps {
  readonly maxRows: number;
  readonly maxBytes: number;
  /** Milliseconds for the statement. */
  readonly timeout: number;
}

export interface Asked extends Caps {
  readonly sql: string;
  readonly values: readonly unknown[];
  readonly format: ReadingFormat;
}

/** Why rows are missing: there were more rows than the cap allows, or with `"time"` there may have been. */
export interface Cut {
  readonly by: "rows" | "bytes" | "time";
  /** Rows, bytes or milliseconds. */
  readonly limit: number;
}

export interface Reading {
  /** Whole rows in the format. After a cut its mark follows, if the format has a place for one. */
  readonly text: string;
  /** The same rows as values, if the format is JSON. */
  readonly rows?: readonly unknown[];
  readonly rowCount: number;
  /** Bytes of the text without the mark. */
  readonly bytes: number;
  readonly cut: Cut | undefined;
}

/** Reads until the end or a cap. Calls `onBytes` with the number of bytes so far. */
export async function read(transaction: Transaction, asked: Asked, onBytes: (bytes: number) => void): Promise<Reading> {
  const { sql, values, format, maxRows, maxBytes, timeout } = asked;
  let end: QueryEnd | undefined;
  const pieces: Uint8Array[] = [];
  let bytes = 0;
  let late = false;
  try {
    const stream = await transaction.stream(values.length ? { text: sql, values } : sql, {
      format,
      maxRows,
      maxBytes,
      timeout,
      onLimit: "truncate",
      duplicates: "rename",
      // A JavaScript number would lose digits.
      int8: "string",
      numeric: "string",
      observer: { onQueryEnd: (event) => void (end = event) },
    });
    for await (const piece of stream as unknown as AsyncIterable<Uint8Array>) {
      pieces.push(piece);
      onBytes((bytes += piece.length));
    }
  } catch (error) {
    // Rows that arrived before the deadline are valid.
    if (!(error instanceof TimeoutError) || !pieces.length) throw error;
    late = true;
  }
  const text = new TextDecoder("utf-8", { ignoreBOM: true }).decode(joined(pieces, bytes));
  if (late) return cutByTime(text, format, timeout);
  const { truncated } = end ?? {};
  if (!truncated) return whole(text, format);
  return cutByCap(text, format, { by: truncated.limit === "rows" ? "rows" : "bytes", limit: truncated.value });
}

function joined(pieces: readonly Uint8Array[], length: number): Uint8Array {
  const all = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

// -- the reading -----------------------------------------------------------------------------------------------------

function whole(text: string, format: ReadingFormat, cut?: Cut): Reading {
  const rows = rowsIn(text, format);
  const rowCount = typeof rows === "number" ? rows : rows.length;
  return { text, ...(typeof rows === "object" && { rows }), rowCount, bytes: Buffer.byteLength(text), cut };
}

/** The core's mark of a cut: in NDJSON the last line, in columnar form the last member. */
const MARKS: Partial<Record<ReadingFormat, RegExp>> = {
  ndjson: /\{"\$truncated":\{[^}]*\}\}\n$/,
  columnar: /,"\$truncated":\{[^}]*\}(?=\}$)/,
};

function cutByCap(text: string, format: ReadingFormat, cut: Cut): Reading {
  const mark = MARKS[format];
  return { ...whole(mark ? text.replace(mark, "") : text, format, cut), text };
}

/** The text has whole rows, without what would follow the last one. */
function cutByTime(text: string, format: ReadingFormat, timeout: number): Reading {
  const cut = { by: "time", limit: timeout } as const;
  const ended = format === "columnar" ? `${text}]}` : text;
  const reading = whole(ended, format, cut);
  const mark = `"$truncated":${JSON.stringify({ limit: "time", value: timeout, rows: reading.rowCount })}`;
  if (format === "ndjson") return { ...reading, text: `${text}{${mark}}\n` };
  return format === "columnar" ? { ...reading, text: `${text}],${mark}}` } : reading;
}

/** Returns the rows as values if the format is JSON, else their number. */
function rowsIn(text: string, format: ReadingFormat): readonly unknown[] | number {
  if (format === "ndjson") return linesOf(text).map((line) => JSON.parse(exactly(line)) as unknown);
  if (format === "columnar") return (JSON.parse(exactly(text)) as { rows: unknown[] }).rows;
  // The rows follow the line of names. A statement that returns no row still has this line.
  const lines = format === "toon" ? linesOf(text).length : csvLines(text);
  return Math.max(0, lines - 1);
}

/**
 * Puts numbers in quotes that JavaScript would round: json and jsonb have such numbers, int8 and numeric are strings
 * already.
 */
function exactly(json: string): string {
  return json.replace(/"(?:[^"\\]|\\.)*"|-?\d[-+.\deE]*/g, (token) =>
    token.startsWith('"') || digitsOf(token) === digitsOf(String(Number(token))) ? token : `"${token}"`,
  );
}

/** The significant digits of a number, in whatever notation it is written. */
const digitsOf = (number: string): string =>
  number
    .replace(/e.*/i, "")
    .replace(/[-.]/g, "")
    .replace(/^0+|0+$/g, "");

const linesOf = (text: string) => text.split("\n").slice(0, -1);

/** Counts the line ends that are not part of a cell: those after an even number of quotes (RFC 4180). */
function csvLines(text: string): number {
  let lines = 0;
  let isQuoted = false;
  for (const [found] of text.matchAll(/["\n]/g)) {
    if (found === '"') isQuoted = !isQuoted;
    else if (!isQuoted) lines++;
  }
  return lines;
}

/** Returns the names that these columns have in the rows: the second `id` is `id_2`, as option `duplicates` says. */
export function namesOf(columns: readonly Column[]): string[] {
  const used = new Set<string>();
  const numbers = new Map<string, number>();
  return columns.map(({ name }) => {
    let unique = name;
    for (let number = numbers.get(name) ?? 1; used.has(unique); numbers.set(name, number))
      unique = `${name}_${++number}`;
    used.add(unique);
    return unique;
  });
}
