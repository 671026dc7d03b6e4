// Whether another connection may succeed after one has failed, and when it is tried.
//
// Knows errors and how many there were. Must not know connections.
import { ConnectionError, PostgresError, TimeoutError } from "../index.ts";

/** Milliseconds before the next connection attempt, doubled each time. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 10_000;

/**
 * Errors after which another connection may succeed: the server stops or starts, or another connection still has the
 * slot.
 */
const PASSING = /^(57P0[1235]|53300|55006|08...)$/;
/**
 * The same before anything has streamed: only errors of the server itself. An 08P01 is then a pooler's, which would
 * send it again each time.
 */
const PASSING_AT_FIRST = /^(57P0[1235]|53300)$/;
/**
 * The stream fails when this many connections in a row were lost before one has streamed. The pauses between them are
 * 13 to 25 s in total: a crashed server restarts in that time, and a proxy that ends each connection is reported.
 */
const LOST_AT_FIRST = 8;

/** How far the stream has come. */
interface Stage {
  /** A connection has logged in. */
  readonly hasConnected: boolean;
  /** Rows of a snapshot may have been yielded, and would be yielded again. */
  readonly hasSnapshot: boolean;
  /** A connection has streamed. */
  readonly hasStreamed: boolean;
  /** The slot ends with its connection, so the changes made meanwhile are lost. */
  readonly isTemporary: boolean;
}

export class Retries {
  #failures = 0;
  /** Number of connections in a row that were lost before the first one has streamed. */
  #lostAtFirst = 0;

  /** A connection streams. */
  succeeded(): void {
    this.#failures = 0;
  }

  /** Returns the milliseconds to wait before the next connection. */
  pause(): number {
    return Math.min(FIRST_PAUSE * 2 ** this.#failures++, LONGEST_PAUSE) * (1 + Math.random());
  }

  mayHelp(error: unknown, stage: Stage): boolean {
    if (!stage.hasStreamed) return this.#mayHelpAtFirst(error, stage);
    if (stage.isTemporary) return false;
    if (error instanceof PostgresError) return PASSING.test(error.code);
    const isOfNetwork = error instanceof TimeoutError || error instanceof ConnectionError;
    return isOfNetwork && error.code !== "CORE_TRAPPED";
  }

  /**
   * Whether another connection may succeed before the first one has streamed. A failed login is reported at once. After
   * a successful login, address and account are known to be right.
   */
  #mayHelpAtFirst(error: unknown, { hasConnected, hasSnapshot }: Stage): boolean {
    if (error instanceof PostgresError && error.code === "55006") {
      this.#lostAtFirst = 0;
      return true;
    }
    if (!hasConnected || hasSnapshot || ++this.#lostAtFirst >= LOST_AT_FIRST) return false;
    if (error instanceof PostgresError) return PASSING_AT_FIRST.test(error.code);
    return error instanceof ConnectionError && (error.hasNoEffect || error.code === "CONNECTION_LOST");
  }
}
