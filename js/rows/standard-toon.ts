// A document of the TOON specification, made of the core's TOON lines. It can only be written at the end: its first
// line has the number of rows.
//
// Apart from the forms that the core writes, so that a program that does not import it does not carry it. Knows
// options' forms and outputs. Must not know calls or streams.
import { ResponseTooLargeError } from "../util/errors.ts";
import { checkNames, namesIn, type Form, type Output, type ToonForm } from "./form.ts";
import { ToonDocument } from "./toon.ts";
import type { OwnBytes } from "../util/bytes.ts";

/**
 * The value of option `toon` for a document of the TOON specification (media type `text/toon`) in place of the dialect
 * of pgz. The whole result is held in memory, up to `maxBytes`.
 *
 * @example
 * const bytes = await client.json("select id, name from users", { format: "toon", toon: standardToon });
 */
export const standardToon: ToonForm = { contentType: "text/toon; charset=utf-8", output: toonOutput };

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
