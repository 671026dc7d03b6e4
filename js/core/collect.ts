// Rows of one result as JavaScript values, gathered until somebody takes them.
//
// Knows a form's names for columns. Must not know calls, or where one result ends and the next begins.
import { RENAME_DUPLICATES, type Column } from "./boundary.ts";
import { uniqueNames, type ValueForm } from "./form.ts";
import { rowDecoder, type RowDecoder, type RowMode } from "./objects.ts";
import type { Sink } from "./operation.ts";

/** bytea[], float4[], float8[]: as the server's text (`{1,2}`) they are not what values are made from. */
const TEXT_ARRAYS = [1001, 1021, 1022];

export class Collector<Row> {
  fields: readonly Column[] = [];
  readonly sink: Sink;
  #rows: Row[] = [];

  constructor({ form, unique, policy }: ValueForm, mode: RowMode) {
    let decode: RowDecoder;
    this.sink = {
      unique,
      columns: (given) => {
        this.fields = given;
        const names = given.map(({ name }) => name);
        const used = form & RENAME_DUPLICATES ? uniqueNames(names) : names;
        const columns = given.map((column, index) => ({ ...column, name: used[index]!, ...(column.formatCode === 0 && TEXT_ARRAYS.includes(column.typeOid) && { typeOid: 25 }) }));
        decode = rowDecoder(columns, policy, mode);
      },
      rows: (view) => {
        for (const row of decode(view) as Row[]) this.#rows.push(row);
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
