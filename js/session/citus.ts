// How a coordinator of Citus is recognised. Its tables are on other nodes, and the settings of a scope must reach those
// nodes too.
//
// A scope's statement contains a check for Citus. It costs nothing on PostgreSQL. On Citus it fails before anything has
// run, and the call is then sent again with the scope's other statement (statement/attempts.ts). Knows the
// check and its error. Must not know what a scope is, nor what is sent again.
import { ofPreludes } from "../connection/operation.ts";
import { PostgresError, type PgzError } from "../util/errors.ts";

/** A part of the value that the check's error quotes, in every language of the server. */
const MARK = "pgz_citus ";

const CITUS_VERSION = "pg_catalog.current_setting('citus.version',true)";

/**
 * A condition that is false on PostgreSQL, because textcat of a null is null. On Citus it fails, because the version
 * with a mark in front is not a number.
 */
export const CITUS_CHECK = `pg_catalog.textcat('${MARK}',${CITUS_VERSION})::int is not null`;

/**
 * Whether a scope's statement has failed because the server is Citus. The words alone do not show it: an error of the
 * caller's statement may quote a value of the caller's with the same words.
 */
export function isCitusError(error: unknown): boolean {
  return error instanceof PostgresError && ofPreludes.has(error) && hasCitusMark(error);
}

/** The same, for the error of a text that is the driver's own as a whole. */
export function hasCitusMark(error: PgzError | undefined): boolean {
  return error?.code === "22P02" && error.message.includes(MARK);
}
