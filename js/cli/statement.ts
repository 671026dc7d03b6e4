// What the words of a statement show, and what became of one that was cut off.
//
// Knows how SQL begins, and errors of the driver. Must not know SQL: a function that a SELECT calls may do anything.
import { PgzError, PostgresError, UsageError } from "../index.ts";
import { isRefusal } from "./connect.ts";
import { Misuse } from "./misuse.ts";

/** Of a regular expression: comments and blanks in front of the first word. */
export const BEGIN = String.raw`^(?:\s|--.*\n|\/\*[^]*?\*\/)*`;

const READS = new RegExp(`${BEGIN}\\(*\\s*(?:select|with|values|table|show|explain)\\b`, "i");
const CHANGES = /\b(?:insert|update|delete|merge|into)\b/i;

/** By its words. */
export function reads(text: string): boolean {
  return READS.test(text) && !CHANGES.test(text);
}

/** Their statement has run, in part or to its end. */
const HAS_RUN = /^(?:DUPLICATE_COLUMN|RECORD_NEEDS_DESCRIBE)$/;

/** Whether it is certain, by the error, that the statement has changed nothing. */
export function isWithoutEffect(error: unknown): boolean {
  if (error instanceof Misuse || error instanceof PostgresError || isRefusal(error)) return true;
  // To be retryable, nothing of it has left.
  return error instanceof PgzError && (error.retryable || (error instanceof UsageError && !HAS_RUN.test(error.code)));
}
