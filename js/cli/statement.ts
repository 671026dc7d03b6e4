// Judges by the words of a statement whether it only reads, and by its error whether it may have had an effect.
//
// Knows SQL's words, and the driver's errors. Must not know more of SQL: a function that a SELECT calls may do
// anything.
import { PgzError, PostgresError, UsageError } from "../index.ts";
import { readings, type SqlReader } from "../util/sql-reader.ts";
import { isRefusal } from "./connect.ts";
import { Misuse } from "./misuse.ts";

const READING = new Set(["select", "with", "values", "table", "show", "explain", "("]);
/**
 * Words of statements that change something. CREATE and EXECUTE are here because EXPLAIN ANALYZE runs CREATE TABLE … AS
 * and EXECUTE too.
 */
const CHANGING = new Set(["insert", "update", "delete", "merge", "into", "create", "execute"]);

/** Whether all statements in the text only read, judged by their words. */
export function reads(text: string): boolean {
  return readings(text).every(isReading);
}

function isReading(reader: SqlReader): boolean {
  if (reader.next() === "end" || !READING.has(reader.name)) return false;
  while (reader.next() !== "end") if (reader.kind === "word" && CHANGING.has(reader.name)) return false;
  return true;
}

/** Whether the error makes it certain that the statement has changed nothing. */
export function isWithoutEffect(error: unknown): boolean {
  if (error instanceof Misuse || error instanceof PostgresError || isRefusal(error)) return true;
  // With this usage error the statement has run, in part or to its end.
  const hasRun = (code: string) => code === "DUPLICATE_COLUMN";
  return error instanceof PgzError && (error.hasNoEffect || (error instanceof UsageError && !hasRun(error.code)));
}
