// Decides whether a call of `reads` that failed on a standby goes to another server. This is the cluster's part of the
// table of docs/architecture.md, "When SQL may be sent twice": a call may run again if nothing of it can have had an
// effect.
//
// Knows errors, and whether a transaction's callback has begun. Must not know servers.
import { ConnectionError, PgzError, PostgresError, type RouteReason, type TransactionOptions } from "../index.ts";
import { hasSeveral } from "../util/sql-reader.ts";
import { mayCommitApart } from "../util/statement-words.ts";
import type { Work } from "./pool-queue.ts";

/** Returns why the call goes to another server, or `undefined` if it fails. */
export function reasonToLeave(error: unknown, text: string): RouteReason | undefined {
  const reason = reasonToLeaveGuarded(error);
  if (reason === "unreachable") return (error as PgzError).hasNoEffect ? reason : undefined;
  // On a standby that was promoted meanwhile, CALL, DO, or a text with COMMIT may have committed a part of its effects.
  return reason && mayCommit(text) ? undefined : reason;
}

/**
 * The same for a call after a guard, which has made sure that the call's transaction began on a standby. So the call
 * wrote nothing, even if that standby was promoted during the transaction.
 */
export function reasonToLeaveGuarded(error: unknown): RouteReason | undefined {
  if (!(error instanceof PgzError) || error.committed || error.completed?.length) return undefined;
  if (isGone(error)) return "unreachable";
  if (error.code === "25006") return "write";
  return CONFLICTS.has(error.code) ? "conflict" : undefined;
}

/** Conflicts with replay on the standby, for which it rolls the statement back. 57P04: the database was dropped. */
const CONFLICTS: ReadonlySet<string> = new Set(["40001", "40P01", "57P04"]);
/** The driver's own codes for a server that is gone or has no free connection. */
const GONE: ReadonlySet<string> = new Set(["POOL_CLOSED", "CONNECT_TIMEOUT", "ACQUIRE_TIMEOUT"]);
/** The server is shutting down, has crashed or is starting up, or it has no free connection. */
const GONE_BY_SERVER: ReadonlySet<string> = new Set(["57P01", "57P02", "57P03", "53300"]);

/** Returns whether the server cannot be reached, or has no free connection. */
function isGone(error: PgzError): boolean {
  if (error instanceof PostgresError) return GONE_BY_SERVER.has(error.code);
  return error instanceof ConnectionError || GONE.has(error.code);
}

/** Returns whether the text can commit in the middle: CALL and DO can, and several statements can include COMMIT. */
function mayCommit(text: string): boolean {
  return mayCommitApart([text]) || hasSeveral(text);
}

/**
 * Returns whether only the primary can run the transaction: no standby runs one that is serializable, or one that is
 * meant to write.
 */
export function needsPrimary(options: TransactionOptions | undefined): boolean {
  return options?.isolation === "serializable" || options?.readOnly === false;
}

/**
 * Wraps a transaction's callback, to know whether it has begun. The callback is the user's code and must not run twice,
 * so a transaction that has begun does not go to another server.
 */
export function trackBegin<T>(work: Work<T>): { readonly tracked: Work<T>; readonly hasBegun: () => boolean } {
  let hasBegun = false;
  const tracked: Work<T> = (transaction) => {
    hasBegun = true;
    return work(transaction);
  };
  return { tracked, hasBegun: () => hasBegun };
}
