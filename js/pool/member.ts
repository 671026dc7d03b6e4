// One connection of a pool: its session, who has it, and since when.
//
// A record, and the few questions that it answers itself. Who changes it is slots.ts. Must not know waiters or options.
import { TurnQueue } from "../api/turn-queue.ts";
import type { Connection } from "../connection/connection.ts";
import type { Call } from "../session/call.ts";
import { Session } from "../session/session.ts";
import { SessionChanges } from "./session-changes.ts";

/**
 * Where a member is:
 *
 *   idle <──> lent        a call or a lease has it; several calls may, where they share
 *    │ ^       │
 *    v │       v
 *   busy       busy       being cleaned, or asked whether it lives: nobody has it, and nobody may
 *    └──> leaving <──┘    it counts until its connection is closed
 */
export type Place = "idle" | "lent" | "busy" | "leaving";

export class Member {
  readonly connection: Connection;
  readonly session: Session;
  readonly sessionChanges = new SessionChanges();
  /** Turns of the pool's calls on it. */
  readonly turns: TurnQueue;
  /** Of the pool, when it was made: `reset()` begins another. */
  readonly generation: number;
  readonly expiresAt: number;
  place: Place = "busy";
  /** Calls that share it, or one lease. */
  borrowers = 0;
  /** The call that has it, or the last one of those that share it. */
  call: Pick<Call<unknown>, "finished"> | undefined;
  /** What has it wants it for itself. */
  isAlone = false;
  /** What has it, when that outlives a close of the pool: a stream that its user reads. */
  stream: Pick<Call<unknown>, "finished"> | undefined;
  /** When it came to its place. */
  since: number;
  /** When it last gave a sign of life. */
  heard: number;
  /** The process was stopped meanwhile: its server may be gone, and nobody has told. */
  isSuspect = false;
  /** It is not given again, whatever its state. */
  isDoomed = false;
  /** Settles when it is closed and counts no more. */
  ending: Promise<void> | undefined;

  constructor(connection: Connection, sharing: number, generation: number, now: number, expiresAt: number) {
    this.connection = connection;
    this.session = new Session(connection);
    this.session.sessionChanges = this.sessionChanges;
    // The last call is on its way out when the next one comes: that one need not wait for it.
    this.turns = new TurnQueue(Math.max(2, sharing));
    this.generation = generation;
    this.expiresAt = expiresAt;
    this.since = this.heard = now;
  }

  /** Whether its socket keeps the process alive. It does when it is made. */
  #isHeld = true;

  hold(isHeld: boolean): void {
    if (this.#isHeld === isHeld) return;
    this.#isHeld = isHeld;
    this.connection.hold(isHeld);
  }

  /** The server has nothing more to say or to do: no answer is due, and no transaction is open. */
  get #isAtRest(): boolean {
    const { connection, session } = this;
    return !connection.closed && !connection.isBusy && !connection.stopping && session.transaction.isNone;
  }

  /**
   * Its only call is over: it comes back before anything else happens. Not where the call ended before the server had
   * said all: a cursor that a limit has ended rolls back first.
   */
  get isReturning(): boolean {
    if (this.place !== "lent" || this.borrowers > 1) return false;
    return this.call?.finished === true && this.#isAtRest;
  }

  /** Its server was to take writes, and has refused one. */
  get mayBeDemoted(): boolean {
    const { refusedWrite, config } = this.connection;
    return refusedWrite && /^(read-write|primary)$/.test(config.targetSessionAttrs);
  }

  /** Nothing of the last borrower is left that is known of. */
  get isClean(): boolean {
    return this.#isAtRest && !this.mayBeDemoted && this.sessionChanges.change === "none";
  }
}
