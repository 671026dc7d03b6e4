// The text of a COPY statement whose data travel over this connection.
//
// Knows the error for any other text. Must not know data, or how such a statement runs (copy.ts).
import { UsageError } from "../util/errors.ts";
import { isClientCopy } from "../util/statement-words.ts";
import { plainText, type QueryInput } from "./sql.ts";

/** Throws for any other text, which would run before the driver could see that it is something else. */
export function copyText(input: QueryInput): string {
  const text = plainText(input);
  if (isClientCopy(text)) return text;
  throw new UsageError(
    "COPY_NEEDS_COPY_CALL",
    "This call needs the text of a COPY … FROM STDIN or COPY … TO STDOUT statement.",
  );
}
