// Which texts are COPY statements whose data travel by this connection.
//
// Knows how such a statement begins. Must not know data, or how one runs (copy.ts).
import { UsageError } from "../util/errors.ts";
import { plainText, type QueryInput } from "./sql.ts";

const COPIES = /^(?:\s|--.*\n|\/\*[^]*?\*\/)*copy\b[^]*\b(stdin|stdout)\b/i;

export function isCopy(text: string): boolean {
  return COPIES.test(text);
}

/** Anything else would run before it turned out to be something else. */
export function copyText(input: QueryInput): string {
  const text = plainText(input);
  if (isCopy(text)) return text;
  throw new UsageError(
    "COPY_NEEDS_COPY_CALL",
    "This call needs the text of a COPY … FROM STDIN or COPY … TO STDOUT statement.",
  );
}
