// Shows rows to a person at a terminal: as a table with aligned columns, or, if the table would be wider than the
// terminal, each row as a record of lines.
//
// Knows the columnar format, as text that arrives in pieces, and how wide a character is. Must not know where rows come
// from. Numbers keep their digits, because no cell is read as a JavaScript number. A control character is shown as JSON
// writes it, so that no value moves the cursor.
import { printableWord } from "./printable.ts";

interface Cell {
  readonly text: string;
  readonly isNumber: boolean;
}
type Row = readonly Cell[];

/**
 * Yields the table of columnar output as it arrives. `columns` is the width of the terminal; `Infinity` without one.
 */
export async function* tableOf(data: AsyncIterable<Uint8Array>, columns: number): AsyncGenerator<string> {
  const reader = new ColumnarReader();
  const decoder = new TextDecoder();
  let table: Table | undefined;
  let count = 0;
  for await (const piece of data) {
    const rows = reader.read(decoder.decode(piece, { stream: true }));
    if (!rows.length) continue;
    table ??= new Table(reader.names, rows, columns);
    yield table.lines(rows, count);
    count += rows.length;
  }
  if (!reader.names.length) return;
  yield `${table ? "" : new Table(reader.names, [], columns).lines([], 0)}(${count} ${count === 1 ? "row" : "rows"})\n`;
}

/** A table whose column widths are those of the first rows, and grow with later rows. */
class Table {
  readonly #names: readonly string[];
  readonly #widths: number[];
  readonly #isRight: readonly boolean[];
  readonly #isRecords: boolean;

  constructor(names: readonly string[], first: readonly Row[], columns: number) {
    this.#names = names.map(printableWord);
    this.#widths = this.#names.map((name, at) =>
      Math.max(widthOf(name), ...first.map((row) => widthOf(row[at]!.text))),
    );
    this.#isRight = names.map((_, at) => first.some((row) => row[at]!.isNumber));
    this.#isRecords = this.#widths.reduce((sum, width) => sum + width + 3, -1) > columns;
  }

  /** Returns the lines of these rows. `count` is the number of earlier rows. */
  lines(rows: readonly Row[], count: number): string {
    const all = this.#isRecords
      ? rows.flatMap((row, at) => this.#record(row, count + at + 1))
      : [...(count ? [] : this.#head()), ...rows.map((row) => this.#line(row))];
    return all.map((line) => `${line.trimEnd()}\n`).join("");
  }

  #head(): string[] {
    const names = this.#names.map((name, at) => padded(name, this.#widths[at]!, this.#isRight[at]!));
    return [` ${names.join(" | ")} `, this.#widths.map((width) => "-".repeat(width + 2)).join("+")];
  }

  #line(row: Row): string {
    const cells = row.map(({ text }, at) => {
      this.#widths[at] = Math.max(this.#widths[at]!, widthOf(text));
      return padded(text, this.#widths[at], this.#isRight[at]!);
    });
    return ` ${cells.join(" | ")} `;
  }

  #record(row: Row, number: number): string[] {
    const width = Math.max(...this.#names.map(widthOf));
    const lines = row.map(({ text }, at) => `${padded(this.#names[at]!, width)} | ${text}`);
    return [`-[ RECORD ${number} ]${"-".repeat(Math.max(0, width - 8))}`, ...lines];
  }
}

/** Reads `{"columns":["a"],"rows":[[1],[2]]}` in pieces, which may be cut anywhere. Ignores what follows the rows. */
class ColumnarReader {
  names: readonly string[] = [];
  #text = "";
  #at = 0;
  /** Where the current cell, or name, begins. */
  #begin = 0;
  #depth = 0;
  #isQuoted = false;
  /** Number of arrays so far: the first has the names, the second the rows. It is 3 after the rows. */
  #arrays = 0;
  #cells: string[] = [];

  /** Adds a piece, and returns the rows that are complete. */
  read(piece: string): Row[] {
    const rows: Row[] = [];
    this.#text += piece;
    for (; this.#at < this.#text.length; this.#at++) this.#take(this.#text[this.#at]!, rows);
    this.#text = this.#text.slice(this.#begin);
    this.#at -= this.#begin;
    this.#begin = 0;
    return rows;
  }

  #take(character: string, rows: Row[]): void {
    if (this.#isQuoted) {
      if (character === "\\") this.#at++;
      else if (character === '"') this.#isQuoted = false;
    } else if (character === '"') this.#isQuoted = true;
    else if (character === "[" || character === "{") this.#open(character);
    else if (character === "]" || character === "}") this.#close(rows);
    else if (character === "," && this.#depth === this.#cellDepth) this.#endCell();
  }

  /** The nesting depth of names, and later of cells. */
  get #cellDepth(): number {
    return this.#arrays > 1 ? 3 : 2;
  }

  #open(character: string): void {
    this.#depth++;
    if (this.#depth === 2 && character === "[") this.#arrays++;
    if (this.#depth === this.#cellDepth) this.#begin = this.#at + 1;
  }

  #close(rows: Row[]): void {
    if (this.#depth === this.#cellDepth && this.#arrays < 3) {
      this.#endCell();
      const cells = this.#cells.splice(0);
      if (this.#arrays === 1) this.names = cells.map((text) => JSON.parse(text) as string);
      else if (this.#depth === 3) rows.push(cells.map(cellOf));
    }
    this.#depth--;
    // After the rows nothing is a cell.
    if (this.#depth === 1 && this.#arrays === 2) this.#arrays = 3;
  }

  #endCell(): void {
    const text = this.#text.slice(this.#begin, this.#at);
    if (text) this.#cells.push(text);
    this.#begin = this.#at + 1;
  }
}

function cellOf(json: string): Cell {
  if (json === "null") return { text: "", isNumber: false };
  if (json.startsWith('"')) return { text: printableWord(JSON.parse(json) as string), isNumber: false };
  return { text: printableWord(json), isNumber: /^-?\d/.test(json) };
}

function padded(text: string, width: number, isRight = false): string {
  const blanks = " ".repeat(Math.max(0, width - widthOf(text)));
  return isRight ? blanks + text : text + blanks;
}

// No library for the width: the best-known one is three packages, and a wrong width only shifts a column a little.
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}|[\u{20000}-\u{3fffd}]/u;
const NO_WIDTH = /\p{Mn}|\p{Me}|[\u200b-\u200d]/u;

/** Number of terminal cells that a text takes. */
function widthOf(text: string): number {
  if (/^[ -~]*$/.test(text)) return text.length;
  let width = 0;
  for (const one of text) width += NO_WIDTH.test(one) ? 0 : WIDE.test(one) ? 2 : 1;
  return width;
}
