// Passes encoded rows on: as the core writes them, with a mark at the end, or collected into a document of standard
// TOON, which can only be written at the end.
//
// Knows formats. Must not know calls or streams.
import type { Operation, RowSink } from "../connection/operation.ts";
import { ResponseTooLargeError, UsageError } from "../util/errors.ts";
import { checkNames, namesIn, type Form } from "./form.ts";
import { ToonDocument } from "./toon.ts";
import type { OwnBytes } from "../util/bytes.ts";

/** What a form makes of the bytes of rows. */
export interface Output {
  /** Nothing is passed on before `rest`, so that the statement may still be repeated. */
  readonly comesAtEnd?: true;
  /** Called before the first row of each run of the statement. Throws if the form refuses the columns. */
  readonly columns: NonNullable<RowSink["columns"]>;
  /** Returns a function that takes whole rows, as `RowSink.rows` does, and gives `next` what can be passed on. */
  rows(next: RowSink["rows"]): RowSink["rows"];
  /** Returns the bytes that follow the rows, when all rows of this operation have come. */
  rest(operation: Operation): Uint8Array | undefined;
}

export function outputOf(form: Form): Output {
  if (form.standardToon) return toonOutput(form);
  if (form.endMark) return markedOutput(form);
  return { ...AS_IT_IS, columns: (columns) => checkNames(form, columns) };
}

/** Bytes that are passed on unchanged, whatever their columns are. */
export const AS_IT_IS: Output = { columns: () => {}, rows: (next) => next, rest: () => undefined };

const END = "$end";

function markedOutput(form: Form): Output {
  let lines = 0;
  return {
    columns(columns) {
      lines = 0; // of an earlier run
      checkNames(form, columns);
      if (namesIn(form, columns).includes(END))
        throw new UsageError(
          "DUPLICATE_COLUMN",
          `A column is called "${END}", like the mark at the end: rename it with AS, or leave out option "endMark".`,
        );
    },
    rows: (next) => (view) => {
      lines += linesIn(view);
      next(view);
    },
    // The line that says that rows are missing is no row.
    rest: ({ truncated }) => new TextEncoder().encode(`{"${END}":{"rows":${lines - (truncated ? 1 : 0)}}}\n`),
  };
}

/** There is no other line break in NDJSON. */
function linesIn(ndjson: Uint8Array): number {
  let lines = 0;
  for (let at = -1; (at = ndjson.indexOf(0x0a, at + 1)) >= 0;) lines++;
  return lines;
}

function toonOutput(form: Form): Output {
  const document = new ToonDocument();
  return {
    comesAtEnd: true,
    columns(columns) {
      checkNames(form, columns);
      document.columns(namesIn(form, columns));
    },
    rows: () => (view) => document.add(view),
    rest: () => finished(document, form),
  };
}

/** Checks `maxBytes` again: the core's cap has counted the bytes of its lines, not those of the document. */
function finished(document: ToonDocument, { limits: [, value] }: Form): OwnBytes {
  const bytes = document.finish();
  if (value && bytes.length > value) throw new ResponseTooLargeError({ limit: "bytes", value, observed: bytes.length });
  return bytes;
}
