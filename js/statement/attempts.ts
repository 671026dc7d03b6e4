// Why an attempt failed, as far as that decides whether it is made again: what was known of a statement was out of date,
// or the server rolled it back for a conflict.
//
// Knows the SQLSTATEs of both, and the pause between two attempts. Must not know what may be made again: session/again.ts
// says so.
import type { Call } from "../session/call.ts";
import type { Connection } from "../connection/connection.ts";
import type { Operation } from "../connection/operation.ts";
import { CONFLICT, PgzError, PostgresError } from "../util/errors.ts";
import { tellsOfNodes } from "../session/nodes.ts";
import { emit } from "../util/observer.ts";
import { firstWord } from "../util/sql-reader.ts";
import { withDeadline } from "../util/deadline.ts";

// -- knowledge that is out of date -----------------------------------------------------------------------------------

/** An attempt failed before anything ran, and what was known of its statements may be the cause. */
export class Outdated {
  readonly error: unknown;
  /** What had been sent; nothing where a value already did not fit. */
  readonly operation: Operation | undefined;

  constructor(error: unknown, operation?: Operation) {
    this.error = error;
    this.operation = operation;
  }
}

/** Whether what is known of a statement may be why it failed: its prepared statement, or its shape. */
export function mayBeOutdated(error: unknown, wasKnown: boolean): boolean {
  return isStale(error) || (wasKnown && mayBeTheShape(error));
}

/**
 * Names, types and values that the server refused, and what it could not look up. Not timeouts, locks or a server that
 * goes: again would only take longer.
 */
function mayBeTheShape(error: unknown): boolean {
  return error instanceof PostgresError && /^(22|42|XX)/.test(error.code);
}

/**
 * Whether the check of a first run may have failed for what it asks: not for a conflict, a cancel, a lack of memory.
 */
export function mayLackCheck(error: PgzError): boolean {
  return error instanceof PostgresError && !/^(40|53|55|57|58)/.test(error.code);
}

/** The server no longer has, or no longer accepts, what was prepared; or it has nodes, and wants other settings. */
export function isStale(error: unknown): boolean {
  if (!(error instanceof PostgresError)) return false;
  if (tellsOfNodes(error)) return true;
  const { code, routine } = error;
  // Other 0A000 and 08P01 are the user's own; these two are "cached plan must not change result type", and formats for
  // columns that are no more.
  if (code === "0A000") return routine === "RevalidateCachedQuery";
  if (code === "08P01") return routine === "PortalSetResultFormat";
  return code === "26000" || code === "42P05";
}

/**
 * The server cannot write something in binary that was asked for so: types without a send function, and servers that
 * only speak the protocol.
 */
export function refusesBinary(error: unknown): boolean {
  if (!(error instanceof PostgresError) || error.code.startsWith("P0")) return false;
  return error.routine === "getTypeBinaryOutputInfo" || /binary (output|format)/i.test(error.message);
}

// -- conflicts -------------------------------------------------------------------------------------------------------

/** Milliseconds between two attempts, and as much again at random. */
const LONGEST_PAUSE = 500;

/** Statements that may have committed a part of what they did before they failed. */
const COMMITS = new Set(["call", "do"]);

/** How often something is tried, the first time included. */
export function attemptsOf(retry: boolean | number | undefined): number {
  return retry === true ? 3 : retry || 1;
}

/** How deep a conflict is looked for in errors around it. */
const MOST_CAUSES = 10;

/** The server has rolled back all of it, so that trying again may help. */
export function isConflict(error: unknown): error is PgzError {
  return error instanceof PgzError && CONFLICT.test(error.code);
}

/** The conflict that `error` is, or has as its cause: libraries and applications wrap the driver's errors. */
export function conflictIn(error: unknown): PgzError | undefined {
  let inner = error;
  for (let depth = 0; depth < MOST_CAUSES && inner; depth++) {
    if (isConflict(inner)) return inner;
    inner = (inner as { cause?: unknown }).cause;
  }
  return undefined;
}

/** A part of what the statement did may be committed though it has failed. */
export function mayCommit(text: string): boolean {
  return COMMITS.has(firstWord(text));
}

/**
 * Tells of the next attempt and waits for its time, or until the call is over. Throws when the connection is gone then.
 */
export async function pauseAfter(
  attempt: number,
  error: PgzError,
  connection: Connection,
  call: Pick<Call<unknown>, "whenOver">,
): Promise<void> {
  const delayMs = Math.min(10 * 2 ** (attempt - 1), LONGEST_PAUSE) * (1 + Math.random());
  emit(connection.config.observer, "onRetry", { attempt, delayMs, error });
  await withDeadline(delayMs, new Promise<void>((resolve) => call.whenOver(resolve)));
  if (connection.closed) throw connection.closed;
}
