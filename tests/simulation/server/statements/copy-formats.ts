// The forms of COPY's data: text and binary, both ways.
//
// Knows lines and tuples. Must not know tables or messages.
import { PgError } from "../errors.ts";
import { Fields, Message, textOf, utf8 } from "../messages.ts";

export type CopyFormat = "text" | "binary";

/** A field as text, or as bytes in binary format; `null` for NULL. */
export type Field = string | Uint8Array | null;

export interface Row {
  readonly fields: Field[];
  /** The line's number, from 1. */
  readonly line: number;
  readonly text: string;
}

const badFormat = (message: string): PgError => new PgError("22P04", message);

/** Accepts data in any pieces, and returns the rows that are complete. */
export interface RowReader {
  push(data: Uint8Array): Row[];
  end(): Row[];
}

export function rowReader(format: CopyFormat): RowReader {
  return format === "binary" ? new BinaryReader() : new LineReader();
}

class LineReader implements RowReader {
  #rest = new Uint8Array();
  #line = 0;
  #isOver = false;

  push(data: Uint8Array): Row[] {
    this.#rest = Uint8Array.from([...this.#rest, ...data]);
    const rows: Row[] = [];
    for (let end = this.#rest.indexOf(10); end >= 0; end = this.#rest.indexOf(10)) {
      rows.push(...this.#row(this.#rest.subarray(0, end)));
      this.#rest = this.#rest.slice(end + 1);
    }
    return rows;
  }

  end(): Row[] {
    const last = this.#rest.length ? this.#row(this.#rest) : [];
    this.#rest = new Uint8Array();
    return last;
  }

  #row(bytes: Uint8Array): Row[] {
    const text = textOf(bytes).replace(/\r$/, "");
    this.#line++;
    this.#isOver ||= text === "\\.";
    if (this.#isOver) return [];
    const fields = text.split("\t").map((field) => (field === "\\N" ? null : unescaped(field)));
    return [{ fields, line: this.#line, text }];
  }
}

const ESCAPES: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" };

function unescaped(field: string): string {
  return field.replace(/\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|[^])/g, (_, escape: string) => {
    if (/^x./.test(escape)) return String.fromCharCode(parseInt(escape.slice(1), 16));
    if (/^[0-7]/.test(escape)) return String.fromCharCode(parseInt(escape, 8));
    return ESCAPES[escape] ?? escape;
  });
}

/** This error comes before the first row, so it names no row. */
export const NO_SIGNATURE = "COPY file signature not recognized";
const SIGNATURE = Uint8Array.from([80, 71, 67, 79, 80, 89, 10, 255, 13, 10, 0]);

class BinaryReader implements RowReader {
  #rest = new Uint8Array();
  #hasHeader = false;
  #isOver = false;
  #line = 0;

  push(data: Uint8Array): Row[] {
    this.#rest = Uint8Array.from([...this.#rest, ...data]);
    if (!this.#hasHeader && !this.#header()) return [];
    const rows: Row[] = [];
    for (let row = this.#tuple(); row; row = this.#tuple()) rows.push(row);
    return rows;
  }

  end(): Row[] {
    if (!this.#hasHeader) throw badFormat(NO_SIGNATURE);
    if (this.#rest.length) throw badFormat("unexpected EOF in COPY data");
    return [];
  }

  #header(): boolean {
    const length = Math.min(SIGNATURE.length, this.#rest.length);
    if (SIGNATURE.subarray(0, length).some((byte, at) => byte !== this.#rest[at])) throw badFormat(NO_SIGNATURE);
    if (this.#rest.length < 19) return false;
    const fields = new Fields(this.#rest.subarray(11));
    fields.int32();
    const more = fields.int32();
    if (this.#rest.length < 19 + more) return false;
    this.#rest = this.#rest.slice(19 + more);
    this.#hasHeader = true;
    return true;
  }

  #tuple(): Row | undefined {
    if (this.#rest.length < 2) return undefined;
    if (this.#isOver) throw badFormat("received copy data after EOF marker");
    const fields = new Fields(this.#rest);
    const count = (fields.int16() << 16) >> 16;
    let size = 2;
    if (count < 0) {
      this.#isOver = true;
      this.#rest = this.#rest.slice(2);
      return this.#tuple();
    }
    const values: Field[] = [];
    for (let at = 0; at < count; at++) {
      if (this.#rest.length < size + 4) return undefined;
      const length = fields.int32();
      size += 4 + Math.max(0, length);
      if (this.#rest.length < size) return undefined;
      values.push(length < 0 ? null : fields.take(length).slice());
    }
    this.#rest = this.#rest.slice(size);
    this.#line++;
    return { fields: values, line: this.#line, text: "" };
  }
}

// -- out --------------------------------------------------------------------------------------------------------------

export const binaryHeader = (): Uint8Array => Uint8Array.from([...SIGNATURE, 0, 0, 0, 0, 0, 0, 0, 0]);
export const binaryTrailer = (): Uint8Array => Uint8Array.of(255, 255);

export function binaryTuple(fields: readonly (Uint8Array | null)[]): Uint8Array {
  const message = new Message(" ").int16(fields.length);
  for (const field of fields) field === null ? message.int32(-1) : message.int32(field.length).bytes(field);
  return message.done().subarray(5);
}

const LETTERS: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries({ ...ESCAPES, "\\": "\\" }).map(([letter, character]) => [character, letter]),
);

export function textLine(fields: readonly (string | null)[]): Uint8Array {
  const written = fields.map((field) => field?.replace(/[\\\b\f\n\r\t\v]/g, (it) => `\\${LETTERS[it]}`) ?? "\\N");
  return utf8(`${written.join("\t")}\n`);
}
