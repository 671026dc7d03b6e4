// Encoded rows on their way out: as the core writes them, or gathered into a document of standard TOON, which can only
// be written at the end.
//
// Knows formats. Must not know calls or streams.
import type { RowSink } from "../connection/operation.ts";
import { ResponseTooLargeError } from "../util/errors.ts";
import { checkNames, namesIn, type Form } from "./form.ts";
import { ToonDocument } from "./toon.ts";
import type { OwnBytes } from "../util/bytes.ts";

export interface Output {
  /** The sink of a run, in front of `next`, where the bytes go. */
  sink(next: RowSink): RowSink;
  /** What stands behind the rows, when all have come. */
  rest(): OwnBytes | undefined;
}

export function outputOf(form: Form): Output {
  return form.standardToon ? toonOutput(form) : { sink: (next) => checked(next, form), rest: () => undefined };
}

/** Columns as the form has them, else a UsageError. */
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

/** The core's cap has counted other bytes than these. */
function finished(document: ToonDocument, { limits: [, value] }: Form): OwnBytes {
  const bytes = document.finish();
  if (value && bytes.length > value) throw new ResponseTooLargeError({ limit: "bytes", value, observed: bytes.length });
  return bytes;
}
