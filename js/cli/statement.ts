// What the words of a statement show, and what became of one that was cut off.
//
// Knows SQL's words, and errors of the driver. Must not know more of SQL: a function that a SELECT calls may do
// anything.
import { PgzError, PostgresError, UsageError } from "../index.ts";
import { readings, type SqlReader } from "../util/sql-reader.ts";
import { isRefusal } from "./connect.ts";
import { Misuse } from "./misuse.ts";

const READING = new Set(["select", "with", "values", "table", "show", "explain", "("]);
/** EXPLAIN ANALYZE runs CREATE TABLE … AS and EXECUTE too. */
const CHANGING = new Set(["insert", "update", "delete", "merge", "into", "create", "execute"]);

/** By its words. */
export function reads(text: string): boolean {
  return readings(text).every(isReading);
}

function isReading(reader: SqlReader): boolean {
  if (reader.next() === "end" || !READING.has(reader.name)) return false;
  while (reader.next() !== "end") if (reader.kind === "word" && CHANGING.has(reader.name)) return false;
  return true;
}

/** Their statement has run, in part or to its end. */
const HAS_RUN = /^(?:DUPLICATE_COLUMN|RECORD_NEEDS_DESCRIBE|TYPES_NEED_DESCRIBE)$/;

/** Whether it is certain, by the error, that the statement has changed nothing. */
export function isWithoutEffect(error: unknown): boolean {
  if (error instanceof Misuse || error instanceof PostgresError || isRefusal(error)) return true;
  // To be retryable, nothing of it has left.
  return error instanceof PgzError && (error.retryable || (error instanceof UsageError && !HAS_RUN.test(error.code)));
}
