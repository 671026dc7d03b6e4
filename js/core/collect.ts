// Rows of one result as JavaScript values, gathered until somebody takes them.
//
// Knows a form's names for columns. Must not know calls, or where one result ends and the next begins.
import { RENAME_DUPLICATES, type Column } from "./boundary.ts";
import { uniqueNames, type Form } from "./form.ts";
import { decodeRows } from "./objects.ts";
import type { Sink } from "./operation.ts";

/** bytea[], float4[], float8[]: as the server's text (`{1,2}`) they are not what decodeRows makes values from. */
const TEXT_ARRAYS = [1001, 1021, 1022];

export class Collector<Row> {
  fields: readonly Column[] = [];
  readonly sink: Sink;
  #rows: Row[] = [];

  constructor({ form, unique }: Form, mode: "object" | "array") {
    let columns: readonly Column[] = [];
    this.sink = {
      unique,
      columns: (given) => {
        this.fields = given;
        columns = given.map((column) => (column.formatCode === 0 && TEXT_ARRAYS.includes(column.typeOid) ? { ...column, typeOid: 25 } : column));
        if (!(form & RENAME_DUPLICATES)) return;
        const names = uniqueNames(given.map(({ name }) => name));
        columns = columns.map((column, index) => ({ ...column, name: names[index]! }));
      },
      rows: (view) => {
        for (const row of decodeRows(view, columns, mode) as Row[]) this.#rows.push(row);
      },
    };
  }

  /** What has come since the last time. */
  take(): Row[] {
    const rows = this.#rows;
    this.#rows = [];
    return rows;
  }
}
