// Passes encoded rows on: as the core writes them, or with a mark at the end. (standard-toon.ts has a third way.)
//
// Knows formats. Must not know calls or streams.
import { UsageError } from "../util/errors.ts";
import { checkNames, namesIn, type Form, type Output } from "./form.ts";

export function outputOf(form: Form): Output {
  if (form.toon) return form.toon.output(form);
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
