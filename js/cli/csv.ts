// Reads what the command line needs from CSV: the names in its first line, and the number of rows.
//
// Knows bytes, and CSV as PostgreSQL writes and reads it by default: commas, quotes, and doubled quotes within quotes.
// Must not know COPY.
import { Misuse } from "./misuse.ts";
import { utf8 } from "./utf8.ts";

const NEWLINE = 10;
const RETURN = 13;
const QUOTE = 34;

/** Counts the ends of rows in pieces of any size. A newline within quotes does not end a row. */
export class RowCount {
  rows = 0;
  #isQuoted = false;
  readonly #hasQuotes: boolean;

  /** COPY's text format has no quotes, and each newline in it ends a row. */
  constructor({ hasQuotes }: { readonly hasQuotes: boolean }) {
    this.#hasQuotes = hasQuotes;
  }

  add(piece: Uint8Array): void {
    if (this.#hasQuotes && (this.#isQuoted || piece.includes(QUOTE))) return this.#addQuoted(piece);
    for (let at = piece.indexOf(NEWLINE); at >= 0; at = piece.indexOf(NEWLINE, at + 1)) this.rows++;
  }

  #addQuoted(piece: Uint8Array): void {
    for (const byte of piece) {
      if (byte === QUOTE) this.#isQuoted = !this.#isQuoted;
      else if (byte === NEWLINE && !this.#isQuoted) this.rows++;
    }
  }
}

/** Bytes after which the search for the end of the first line stops: more than any list of columns. */
const LONGEST_HEADER = 1 << 20;

/** Data whose first line was read before they are sent. */
interface Headed {
  readonly names: readonly string[];
  /** All data, including the first line. */
  readonly data: AsyncIterable<Uint8Array>;
}

export async function readHeader(data: AsyncIterable<Uint8Array>): Promise<Headed> {
  const rest = data[Symbol.asyncIterator]();
  let begin = Buffer.alloc(0);
  while (endOfFirst(begin) === undefined && begin.length < LONGEST_HEADER) {
    const { done, value } = await rest.next();
    if (done) break;
    begin = Buffer.concat([begin, value]);
  }
  const line = utf8(begin.subarray(0, endOfFirst(begin)), "The first line");
  return { names: namesIn(line), data: again(begin, rest) };
}

/** Returns the index after the first line. PostgreSQL also takes lines that end with a carriage return alone. */
function endOfFirst(bytes: Uint8Array): number | undefined {
  let isQuoted = false;
  for (const [at, byte] of bytes.entries()) {
    if (byte === QUOTE) isQuoted = !isQuoted;
    else if (!isQuoted && (byte === NEWLINE || byte === RETURN)) return at + 1;
  }
  return undefined;
}

async function* again(begin: Uint8Array, rest: AsyncIterator<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (begin.length) yield begin;
  yield* { [Symbol.asyncIterator]: () => rest };
}

/** Returns the names in the first line. The decoder has already removed a spreadsheet's byte order mark. */
function namesIn(text: string): readonly string[] {
  const names: string[] = [];
  const field = /(?:"((?:[^"]|"")*)"|([^,"\r\n]*))(,|[\r\n]|$)/y;
  for (;;) {
    const found = field.exec(text);
    if (!found) throw new Misuse("The first line is not that of a csv file: pass --no-header if the data have none.");
    const [, quoted, plain = "", end] = found;
    names.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end !== ",") break;
  }
  if (names.every((name) => name === ""))
    throw new Misuse("The data are empty: the first line of a csv file names its columns.");
  return names;
}
