// Which texts are COPY statements whose data travel over this connection.
//
// Knows the words of such a statement. Must not know data, or how such a statement runs (copy.ts).
import { UsageError } from "../util/errors.ts";
import { firstWord, SqlReader } from "../util/sql-reader.ts";
import { plainText, type QueryInput } from "./sql.ts";

export function isCopy(text: string): boolean {
  if (firstWord(text) !== "copy") return false;
  const reader = new SqlReader(text);
  while (reader.next() !== "end")
    if (reader.kind === "word" && (reader.name === "stdin" || reader.name === "stdout")) return true;
  return false;
}

/** Throws for any other text, which would run before the driver could see that it is something else. */
export function copyText(input: QueryInput): string {
  const text = plainText(input);
  if (isCopy(text)) return text;
  throw new UsageError(
    "COPY_NEEDS_COPY_CALL",
    "This call needs the text of a COPY … FROM STDIN or COPY … TO STDOUT statement.",
  );
}
