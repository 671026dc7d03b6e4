// Classifies the failures after which an attempt may be repeated: a cached description of a statement was out of date,
// or the server rolled back because of a conflict.
//
// Knows the SQLSTATEs of both, and the pause between two attempts. Must not know what may be repeated: session/again.ts
// decides that.
import type { Call } from "../session/call.ts";
import type { Connection } from "../connection/connection.ts";
import type { Operation } from "../connection/operation.ts";
import { CONFLICT, PgzError, PostgresError } from "../util/errors.ts";
import { isCitusError } from "../session/citus.ts";
import { emit } from "../util/observer.ts";
import { ownError } from "../util/trace.ts";
import { withDeadline } from "../util/deadline.ts";

// -- outdated descriptions -------------------------------------------------------------------------------------------

/**
 * An attempt of a batch that failed, perhaps because descriptions of its statements were missing or out of date.
 * Nothing remains of it, except the items that have settled.
 */
export class OutdatedAttempt {
  readonly error: unknown;
  /** The operation that may have carried a pending BEGIN. Undefined if none was sent: a value could not be encoded. */
  readonly operation: Operation | undefined;

  constructor(error: unknown, operation?: Operation) {
    this.error = error;
    this.operation = operation;
  }
}

/**
 * Whether the statement may have failed because its prepared statement or its cached shape is out of date. `wasKnown`:
 * whether its shape was cached.
 */
export function mayBeOutdated(error: unknown, wasKnown: boolean): boolean {
  return isStale(error) || (wasKnown && mayBeWrongShape(error));
}

/**
 * True for names, types and values that the server refused (classes 22 and 42), and for what it could not look up (XX,
 * such as "cache lookup failed"). Not for timeouts, locks or a server that shuts down: a repeat would only take longer.
 */
function mayBeWrongShape(error: unknown): boolean {
  return error instanceof PostgresError && /^(22|42|XX)/.test(error.code);
}

/**
 * Whether SQL of the driver's own (the check of a first run, SAVEPOINT) may have failed for a lasting reason: the
 * server does not support it, or the check refuses the statement. Not for a conflict, a cancel or a lack of memory.
 */
export function mayBeUnsupported(error: PgzError): boolean {
  return error instanceof PostgresError && !/^(40|53|55|57|58)/.test(error.code);
}

/**
 * Whether the server no longer has or accepts the prepared statement, or is Citus and needs the scope's other
 * statement.
 */
export function isStale(error: unknown): boolean {
  if (!(error instanceof PostgresError)) return false;
  if (isCitusError(error)) return true;
  const { code, routine } = error;
  // Any other 0A000 or 08P01 is the user's own. These two are "cached plan must not change result type", and formats
  // for columns that no longer exist.
  if (code === "0A000") return routine === "RevalidateCachedQuery";
  if (code === "08P01") return routine === "PortalSetResultFormat";
  return code === "26000" || code === "42P05";
}

/**
 * Whether the server cannot write a requested value in binary. That happens with types without a send function, and
 * with servers that only speak the protocol.
 */
export function refusesBinary(error: unknown): boolean {
  if (!(error instanceof PostgresError) || error.code.startsWith("P0")) return false;
  return error.routine === "getTypeBinaryOutputInfo" || /binary (output|format)/i.test(error.message);
}

// -- conflicts -------------------------------------------------------------------------------------------------------

/** Maximum milliseconds between two attempts; up to as much again is added at random. */
const LONGEST_RETRY_PAUSE = 500;

/** How often something is tried, including the first time. */
export function attemptsOf(retry: boolean | number | undefined): number {
  return retry === true ? 3 : retry || 1;
}

/** How many errors are searched for a conflict, each the `cause` of the one before. */
const MOST_CAUSES = 10;

/** Whether the server has rolled back everything because of a conflict, so that trying again may help. */
export function isConflict(error: unknown): error is PgzError {
  return error instanceof PgzError && CONFLICT.test(error.code);
}

/** Returns the conflict that `error` is, or has as its cause: libraries and applications wrap the driver's errors. */
export function conflictIn(error: unknown): PgzError | undefined {
  let inner = error;
  for (let depth = 0; depth < MOST_CAUSES && inner; depth++) {
    if (isConflict(inner)) return inner;
    inner = (inner as { cause?: unknown }).cause;
  }
  return undefined;
}

/** Reports the retry and pauses. The end of the call ends the pause. Throws if the connection was lost meanwhile. */
export async function pauseAfter(
  attempt: number,
  error: PgzError,
  connection: Connection,
  call: Pick<Call<unknown>, "whenOver">,
): Promise<void> {
  const delayMs = Math.min(10 * 2 ** (attempt - 1), LONGEST_RETRY_PAUSE) * (1 + Math.random());
  emit(connection.config.observer, "onRetry", { attempt, delayMs, error });
  await withDeadline(delayMs, new Promise<void>((resolve) => call.whenOver(resolve)));
  if (connection.closed) throw ownError(connection.closed);
}
