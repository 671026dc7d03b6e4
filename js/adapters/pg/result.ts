// The result of a statement.
//
// Knows columns, parsers and command tags. Must not know queries. pg-cursor and others fill a result by `addFields` and
// `parseRow`; the facade's own query reads its rows from bytes (rows.ts).
import { Buffer } from "node:buffer";
import type { FieldDef } from "./messages.ts";
import { RowReader, type Row } from "./rows.ts";
import { types, type CustomTypes, type TypeParser } from "./types/index.ts";

/** `INSERT 0 5`, `SELECT 3`, `CREATE TABLE` */
const TAG = /^([A-Za-z]+)(?: (\d+))?(?: (\d+))?/;

export class Result {
  command: string | null = null;
  rowCount: number | null = null;
  oid: number | null = null;
  rows: Row[] = [];
  fields: FieldDef[] = [];
  _parsers: TypeParser[] | undefined = undefined;
  _types: CustomTypes | undefined;
  RowCtor: unknown = null;
  rowAsArray: boolean;

  constructor(rowMode?: string, userTypes?: CustomTypes) {
    this._types = userTypes;
    this.rowAsArray = rowMode === "array";
  }

  addCommandComplete({ text, command }: { text?: string; command?: string }): void {
    const [, word, first, second] = TAG.exec(text ?? command ?? "") ?? [];
    if (!word) return;
    this.command = word;
    if (second !== undefined) this.oid = Number(first);
    const count = second ?? first;
    if (count !== undefined) this.rowCount = Number(count);
  }

  addFields(fields: FieldDef[]): void {
    this.fields = fields;
    if (!fields.length) return;
    const source = this._types ?? types;
    this._parsers = fields.map(({ dataTypeID, format }) => source.getTypeParser(dataTypeID, format ?? "text"));
  }

  addRow(row: Row): void {
    this.rows.push(row);
  }

  /** Makes a row from the values of a `dataRow` message. */
  parseRow(values: readonly (string | null)[]): Row {
    const row: Record<string | number, unknown> = this.rowAsArray ? (new Array<unknown>(values.length) as never) : {};
    for (const [index, value] of values.entries()) {
      const { name, format } = this.fields[index]!;
      const raw = format === "binary" && value !== null ? Buffer.from(value) : value;
      const parsed = raw === null ? null : this._parsers![index]!(raw);
      if (this.rowAsArray || name !== "__proto__") row[this.rowAsArray ? index : name] = parsed;
      else Object.defineProperty(row, name, { value: parsed, enumerable: true, configurable: true, writable: true });
    }
    return row as Row;
  }
}

/** Returns a reader that reads rows of these columns from bytes. */
export function readerOf({ fields, _parsers, rowAsArray }: Result): RowReader {
  return new RowReader(fields, _parsers ?? [], rowAsArray);
}
