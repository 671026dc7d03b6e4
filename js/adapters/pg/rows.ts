// Converts DataRow messages to rows, for `Query` alone: directly from the socket's bytes, without a string per value
// where none is needed.
//
// A chunk's bytes become one string, with a character per byte. A value that is ASCII is a part of this string, which
// costs a quarter of decoding each value by itself. An int4 is read from its digits. All other values go through their
// parser.
//
// Knows columns and parsers. Must not know any other message, or how a row is used.
import { Buffer } from "node:buffer";
import { MalformedMessage, type FieldDef } from "./messages.ts";
import { parseInteger, parseText } from "./types/scalars.ts";

type ParseValue = (value: never) => unknown;
export type Row = Record<string, unknown> | unknown[];

const [TEXT, INTEGER, PARSED, BINARY] = [0, 1, 2, 3];
/** Values up to this length are checked byte by byte. Longer ones are decoded by the runtime. */
const SHORT = 64;
/** Up to this number of rows a template costs more than it saves. */
const FEW = 8;

export class RowReader {
  readonly #names: readonly string[];
  readonly #kinds: Uint8Array;
  readonly #parsers: readonly ParseValue[];
  readonly #asArray: boolean;
  #template: Record<string, unknown> | undefined;
  #seen = 0;

  constructor(fields: readonly FieldDef[], parsers: readonly ParseValue[], asArray: boolean) {
    this.#names = fields.map(({ name }) => name);
    this.#kinds = Uint8Array.from(fields, ({ format }, index) => kindOf(format, parsers[index]!));
    this.#parsers = parsers;
    this.#asArray = asArray;
    // `row["__proto__"] = …` would set the prototype; the template makes it a property like any other.
    if (!asArray && this.#names.includes("__proto__")) this.#template = templateOf(this.#names);
  }

  /**
   * Returns the row of the message whose body is in `bytes` from `at` to `end`. `ascii` has these bytes as characters.
   *
   * @throws MalformedMessage, and what a parser throws
   */
  read(bytes: Buffer, ascii: string, at: number, end: number): Row {
    const names = this.#names;
    const width = names.length;
    const asArray = this.#asArray;
    if (!asArray && !this.#template && ++this.#seen > FEW) this.#template = templateOf(names);
    const row = (asArray ? new Array<unknown>(width) : { ...this.#template }) as Record<string | number, unknown>;
    if (((bytes[at]! << 8) | bytes[at + 1]!) !== width) throw new MalformedMessage("a row of another width");
    at += 2;
    for (let index = 0; index < width; index++) {
      const length = (bytes[at]! << 24) | (bytes[at + 1]! << 16) | (bytes[at + 2]! << 8) | bytes[at + 3]!;
      at += 4;
      const to = length < 0 ? at : at + length;
      if (to > end) throw new MalformedMessage("a row that is too short");
      row[asArray ? index : names[index]!] = length < 0 ? null : this.#value(bytes, ascii, at, to, index);
      at = to;
    }
    return row as Row;
  }

  #value(bytes: Buffer, ascii: string, at: number, to: number, index: number): unknown {
    const kind = this.#kinds[index];
    if (kind === INTEGER) {
      const number = digits(bytes, at, to);
      if (number !== undefined) return number;
    } else if (kind === BINARY) {
      return this.#parsers[index]!(Buffer.from(bytes.subarray(at, to)) as never);
    }
    const text = textOf(bytes, ascii, at, to);
    return kind === TEXT ? text : this.#parsers[index]!(text as never);
  }
}

function kindOf(format: FieldDef["format"], parser: ParseValue): number {
  if (format === "binary") return BINARY;
  if (parser === parseText) return TEXT;
  return parser === parseInteger ? INTEGER : PARSED;
}

function textOf(bytes: Buffer, ascii: string, at: number, to: number): string {
  if (to - at > SHORT) return bytes.toString("utf8", at, to);
  for (let index = at; index < to; index++) if (bytes[index]! > 127) return bytes.toString("utf8", at, to);
  return ascii.substring(at, to);
}

/** Returns the number, or `undefined` if the value is not just a few digits. */
function digits(bytes: Buffer, at: number, to: number): number | undefined {
  const isNegative = bytes[at] === 45;
  const from = isNegative ? at + 1 : at;
  if (to === from || to - from > 10) return undefined;
  let number = 0;
  for (let index = from; index < to; index++) {
    const digit = bytes[index]! - 48;
    if (digit < 0 || digit > 9) return undefined;
    number = number * 10 + digit;
  }
  return isNegative ? -number : number;
}

/**
 * Returns an object with all names as own properties. Copying it and storing over its values costs half of adding the
 * properties one by one.
 */
function templateOf(names: readonly string[]): Record<string, unknown> {
  return JSON.parse(`{${names.map((name) => `${JSON.stringify(name)}:null`).join()}}`) as Record<string, unknown>;
}
