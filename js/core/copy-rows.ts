// Rows of JavaScript values as the data of COPY: binary where all columns have a binary form here, else text.
//
//   binary: "PGCOPY\n\xff\r\n\0" · int32 flags · int32 length of an extension · rows · int16 -1     a row: int16 columns · values as in Bind
//   text:   values between tabs, a row per line; \N is NULL; \b \f \n \r \t \v \\ escaped
//
// Knows both formats. Must not know how data travel.
import { UsageError } from "../errors.ts";
import type { Column } from "./boundary.ts";
import { SAME, type Definition } from "./catalog.ts";
import { HEADER } from "./connection.ts";
import { each, type CopyProgress, type CopyTarget } from "./copy.ts";
import { binaryWriter, Block, literal, type BinaryWriter, type Where } from "./parameters.ts";

/** A row by position, or by the columns' names. */
export type CopyRow = readonly unknown[] | Readonly<Record<string, unknown>>;

const SIGNATURE = "PGCOPY\n\xff\r\n\0" + "\0".repeat(8);
/** Rows that leave together; with at most one more. */
const PIECE = 64 << 10;

/** How the rows of these columns are written. */
export class RowWriter {
  readonly format: "binary" | "text";
  readonly #columns: readonly Column[];
  readonly #names: readonly string[];
  readonly #writers: readonly (BinaryWriter | undefined)[];
  readonly #where: readonly Where[];
  readonly #block = new Block();
  #rows = 0;

  /** `names`: the columns' in rows that are objects. `types`: what the database's own are made of. */
  constructor(columns: readonly Column[], names: readonly string[], types: readonly Definition[]) {
    this.#columns = columns;
    this.#where = columns.map(({ typeOid }, index) => ({ index, type: typeOid, what: "Column " }));
    this.#names = names;
    // An enum's binary form is its label, as text's.
    const formOf = ({ typeOid }: Column) => types.find(({ oid, code }) => oid === typeOid && code === SAME)?.of ?? typeOid;
    this.#writers = columns.map((column) => binaryWriter(formOf(column)));
    this.format = this.#writers.every(Boolean) ? "binary" : "text";
  }

  async send(target: CopyTarget, rows: Iterable<CopyRow> | AsyncIterable<CopyRow>, progress?: (progress: CopyProgress) => void): Promise<void> {
    const block = this.#block;
    let sent = 0;
    block.reserve(HEADER);
    const flush = async () => {
      sent += block.length - HEADER;
      if (block.length > HEADER) await target.write(block.bytes, block.length);
      block.length = HEADER;
      await progress?.({ bytes: sent, rows: this.#rows });
    };
    if (this.format === "binary") this.#raw(SIGNATURE);
    await each(target, rows, (row) => {
      this.#row(row);
      return block.length < PIECE ? undefined : flush();
    });
    if (target.over) return;
    if (this.format === "binary") this.#raw("\xff\xff");
    await flush();
  }

  #row(row: CopyRow): void {
    try {
      const values = Array.isArray(row) ? (row as readonly unknown[]) : this.#names.map((name) => ownValue(row as Readonly<Record<string, unknown>>, name));
      const { length } = this.#columns;
      if (values.length !== length) throw new UsageError("INVALID_PARAMETER", `Row ${this.#rows} has ${values.length} values for ${length} columns.`);
      if (this.format === "binary") this.#binary(values);
      else this.#text(values);
    } catch (error) {
      throw Object.assign(error as Error, { row: this.#rows });
    }
    this.#rows++;
  }

  #binary(values: readonly unknown[]): void {
    const block = this.#block;
    const at = block.reserve(2);
    block.view.setInt16(at, values.length);
    for (let index = 0; index < values.length; index++) this.#writers[index]!(block, this.#where[index]!, values[index]);
  }

  #text(values: readonly unknown[]): void {
    // Not by map, which skips what an array lacks.
    const cells = Array.from(values, (value, index) => {
      if (value === null) return "\\N";
      return literal(this.#where[index]!, value).replace(/[\b\f\n\r\t\v\\]/g, (found) => ESCAPES[found]!);
    });
    this.#raw(`${cells.join("\t")}\n`, true);
  }

  /** Characters as bytes, or as UTF-8. */
  #raw(text: string, utf8 = false): void {
    const bytes = utf8 ? encoder.encode(text) : Uint8Array.from(text, (character) => character.charCodeAt(0));
    const at = this.#block.reserve(bytes.length);
    this.#block.bytes.set(bytes, at);
  }
}

const encoder = new TextEncoder();
const ESCAPES: Readonly<Record<string, string>> = { "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v", "\\": "\\\\" };

/** Nothing that is inherited. */
function ownValue(row: Readonly<Record<string, unknown>>, name: string): unknown {
  if (typeof row === "object" && row !== null && Object.hasOwn(row, name)) return row[name];
  throw new UsageError("INVALID_PARAMETER", `A row has no value for column "${name}": pass null for NULL.`);
}
