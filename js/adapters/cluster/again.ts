// When a call of `reads` that has failed on a standby goes to another server. This is the cluster's part of the table of
// docs/architecture.md, "When SQL may be sent twice": a call may, where nothing of it can have had an effect.
//
// Knows errors. Must not know servers.
import { ConnectionError, PgzError, PostgresError, type RouteReason, type TransactionOptions } from "../../index.ts";
import { firstWord, hasSeveral } from "../../util/sql-reader.ts";

/**
 * Why it goes to another server; `undefined`: it fails. `wroteNothing`: a guard in front of it has made sure that its
 * transaction began on a standby, so that it could not write even if that was promoted in the middle.
 */
export function reasonToLeave(error: unknown, text: string, wroteNothing: boolean): RouteReason | undefined {
  if (!(error instanceof PgzError) || error.committed || error.completed?.length) return undefined;
  if (isGone(error)) return error.retryable || wroteNothing ? "unreachable" : undefined;
  // What CALL and DO have done may be committed in part, where the server has been promoted.
  if (!wroteNothing && mayCommit(text)) return undefined;
  if (error.code === "25006") return "write";
  return CONFLICTS.has(error.code) ? "conflict" : undefined;
}

/** Conflicts with what the standby replays: it rolls the statement back. 57P04: the database was dropped. */
const CONFLICTS: ReadonlySet<string> = new Set(["40001", "40P01", "57P04"]);
/** The driver's own codes. */
const GONE: ReadonlySet<string> = new Set(["POOL_CLOSED", "CONNECT_TIMEOUT", "ACQUIRE_TIMEOUT"]);
/** The server shuts down, has crashed, starts up; or has no connection left. */
const GONE_BY_SERVER: ReadonlySet<string> = new Set(["57P01", "57P02", "57P03", "53300"]);

/** It is the server that was of no use, not the call. */
export function isGone(error: PgzError): boolean {
  if (error instanceof PostgresError) return GONE_BY_SERVER.has(error.code);
  return error instanceof ConnectionError || GONE.has(error.code);
}

/** CALL and DO, and several statements, of which one may be COMMIT. */
function mayCommit(text: string): boolean {
  return ["call", "do"].includes(firstWord(text)) || hasSeveral(text);
}

/** No standby runs a serializable transaction, or one that is to write. */
export function needsPrimary(options: TransactionOptions | undefined): boolean {
  return options?.isolation === "serializable" || options?.readOnly === false;
}
