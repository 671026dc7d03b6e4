// Passes encoded rows on: as the core writes them, or collected into a document of standard TOON, which can only be
// written at the end.
//
// Knows formats. Must not know calls or streams.
import type { RowSink } from "../connection/operation.ts";
import { ResponseTooLargeError } from "../util/errors.ts";
import { checkNames, namesIn, type Form } from "./form.ts";
import { ToonDocument } from "./toon.ts";
import type { OwnBytes } from "../util/bytes.ts";

interface Output {
  /** Returns the sink of a run. It passes bytes on to `next`. */
  sink(next: RowSink): RowSink;
  /** Returns the bytes that follow the rows, when all rows have come. */
  rest(): OwnBytes | undefined;
}

export function outputOf(form: Form): Output {
  return form.standardToon ? toonOutput(form) : { sink: (next) => checked(next, form), rest: () => undefined };
}

/** Throws a UsageError if the form refuses the columns. */
function checked(next: RowSink, form: Form): RowSink {
  return { ...next, columns: (columns) => checkNames(form, columns) };
}

function toonOutput(form: Form): Output {
  const document = new ToonDocument();
  const sink: RowSink = {
    columns: (columns) => {
      checkNames(form, columns);
      document.columns(namesIn(form, columns));
    },
    rows: (view) => document.add(view),
  };
  return { sink: () => sink, rest: () => finished(document, form) };
}

/** Checks `maxBytes` again: the core's cap has counted the bytes of its lines, not those of the document. */
function finished(document: ToonDocument, { limits: [, value] }: Form): OwnBytes {
  const bytes = document.finish();
  if (value && bytes.length > value) throw new ResponseTooLargeError({ limit: "bytes", value, observed: bytes.length });
  return bytes;
}
