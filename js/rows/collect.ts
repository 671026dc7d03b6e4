// Collects the rows of one result as JavaScript values until the caller takes them.
//
// Knows a form's names for columns. Must not know calls, or where one result ends and the next begins.
import type { Column } from "../wasm/boundary.ts";
import { checkNames, namesIn, type ValueForm } from "./form.ts";
import { rowDecoder, type RowDecoder, type RowMode } from "../values/objects.ts";
import type { RowSink } from "../connection/operation.ts";
import type { Parsers, ParsersByOid } from "../values/converters.ts";

/** What a server's catalog says about the names of the user's parsers. */
export interface ParserNames {
  parsersByOid(parsers: Parsers): ParsersByOid | undefined;
}

/** Returns the decoder for rows of these columns, with the column names of the form. */
export function decoderOf(
  columns: readonly Column[],
  form: ValueForm,
  mode: RowMode,
  catalog: ParserNames,
): RowDecoder {
  const { parsers } = form.policy;
  // Not kept: the names of parsers may mean other types by the next run.
  if (parsers) return newDecoder(columns, form, mode, catalog.parsersByOid(parsers));
  const last = decoders.get(columns);
  if (last?.form === form && last.mode === mode) return last.decode;
  const decode = newDecoder(columns, form, mode);
  decoders.set(columns, { form, mode, decode });
  return decode;
}

/**
 * The last decoder by columns. A statement that runs again has the same columns, and its decoder has the plan of its
 * rows already.
 */
const decoders = new WeakMap<
  readonly Column[],
  { readonly form: ValueForm; readonly mode: RowMode; readonly decode: RowDecoder }
>();

function newDecoder(columns: readonly Column[], form: ValueForm, mode: RowMode, parsers?: ParsersByOid): RowDecoder {
  const names = namesIn(form, columns);
  return rowDecoder(
    columns.map((column, index) => ({ ...column, name: names[index]! })),
    form.policy,
    mode,
    parsers,
  );
}

export class Collector<Row> implements RowSink {
  fields: readonly Column[] = [];
  readonly #form: ValueForm;
  readonly #mode: RowMode;
  readonly #catalog: ParserNames;
  #decode!: RowDecoder;
  #batches: Row[][] = [];

  constructor(form: ValueForm, mode: RowMode, catalog: ParserNames) {
    this.#form = form;
    this.#mode = mode;
    this.#catalog = catalog;
  }

  columns(columns: readonly Column[]): void {
    checkNames(this.#form, columns);
    this.fields = columns;
    this.#batches = []; // of an earlier run, if the statement is repeated
    this.#decode = decoderOf(columns, this.#form, this.#mode, this.#catalog);
  }

  rows(view: Uint8Array): void {
    this.#batches.push(this.#decode(view) as Row[]);
  }

  /** Returns the rows that have come since the last call. */
  take(): Row[] {
    const batches = this.#batches;
    this.#batches = [];
    return joinedRows(batches);
  }
}

/**
 * Concatenates the batches. Growing one array instead costs as much as decoding narrow rows does, and so does `flat`.
 */
export function joinedRows<Row>(batches: Row[][]): Row[] {
  while (batches.length > 1) {
    const longer: Row[][] = [];
    // Few enough for the arguments of one call.
    for (let at = 0; at < batches.length; at += 1000)
      longer.push(([] as Row[]).concat(...batches.slice(at, at + 1000)));
    batches = longer;
  }
  return batches[0] ?? [];
}
