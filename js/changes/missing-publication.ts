// A publication that does not exist. Up to PostgreSQL 17 that is an error when the first change is decoded. From 18 on
// it is a warning, and the server passes over the changes. Here it is the same error on each version.
//
// Knows the error and the warning. Must not know connections.
import { PostgresError, type ErrorFields } from "../index.ts";

/** The error of a publication that a look at the catalog did not find. */
export function missingPublication(name: string): PostgresError {
  return new PostgresError({ severity: "ERROR", code: "42704", message: `publication "${name}" does not exist` });
}

/**
 * Returns the error for the server's warning, and any other error unchanged. The warning's words are translated, so its
 * code and the server's function tell it (src/replication/connection.rs looks at the same).
 */
export function ofWarning(error: unknown, publications: readonly string[]): unknown {
  const isWarning = error instanceof PostgresError && error.code === "55000" && error.routine === "LoadPublications";
  if (!isWarning) return error;
  const { message: detail, where } = error;
  const names = publications.map((name) => `"${name}"`).join(" or ");
  const fields: ErrorFields = {
    severity: "ERROR",
    code: "42704",
    message: `publication ${names} does not exist at this point in the log`,
    detail,
    ...(where !== undefined && { where }),
  };
  return new PostgresError(fields, { cause: error });
}
