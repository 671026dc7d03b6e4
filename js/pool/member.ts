// One connection of a pool: its session, who has it, and since when.
//
// A record, and the few questions that it answers itself. slots.ts changes it. Must not know waiters or options.
import { TurnQueue } from "../api/turn-queue.ts";
import type { Connection } from "../connection/connection.ts";
import type { Call } from "../session/call.ts";
import { Session } from "../session/session.ts";
import { SessionChanges } from "./session-changes.ts";

/**
 * The states of a member:
 *
 *   idle <──> lent        a call or a lease has it; several calls may share it
 *    │ ^       │
 *    v │       v
 *   busy       busy       being cleaned or checked: neither lent nor available
 *    └──> leaving <──┘    it counts until its connection is closed
 */
type State = "idle" | "lent" | "busy" | "leaving";

export class Member {
  readonly connection: Connection;
  readonly session: Session;
  readonly sessionChanges: SessionChanges;
  /** Turns of the pool's calls on it. */
  readonly turns: TurnQueue;
  /** The pool's generation when the member was made. `reset()` begins a new generation. */
  readonly generation: number;
  readonly expiresAt: number;
  state: State = "busy";
  /** Number of calls that share it; 1 for a lease. */
  borrowers = 0;
  /** The call that has it, or the latest of the calls that share it. */
  call: Pick<Call<unknown>, "finished"> | undefined;
  /** Its borrower does not share it. */
  isAlone = false;
  /** Its borrower, if it outlives a close of the pool: a stream that its user reads. */
  stream: Pick<Call<unknown>, "finished"> | undefined;
  /** When it entered its state. */
  since: number;
  /** When its server last gave a sign of life. */
  heard: number;
  /** Its server may be gone unnoticed: the process was suspended meanwhile, or another connection has ended. */
  isSuspect = false;
  /** It is not lent again, whatever its state. */
  isDoomed = false;
  /** Settles when it is closed and counts no more. */
  ending: Promise<void> | undefined;

  constructor(connection: Connection, sharing: number, generation: number, now: number, expiresAt: number) {
    this.connection = connection;
    this.sessionChanges = new SessionChanges(connection);
    this.session = new Session(connection);
    this.session.sessionChanges = this.sessionChanges;
    // At least 2: the previous call may be about to leave when the next one comes, and the next one need not wait for
    // it.
    this.turns = new TurnQueue(Math.max(2, sharing));
    this.generation = generation;
    this.expiresAt = expiresAt;
    this.since = this.heard = now;
  }

  /** Whether its socket keeps the process alive, as a new socket does. */
  #keepsProcess = true;

  ref(): void {
    if (this.#keepsProcess) return;
    this.#keepsProcess = true;
    this.connection.ref();
  }

  unref(): void {
    if (!this.#keepsProcess) return;
    this.#keepsProcess = false;
    this.connection.unref();
  }

  /** Whether the server has nothing left to send or to do: no response is due, and no transaction is open. */
  get #isAtRest(): boolean {
    const { connection, session } = this;
    return !connection.closed && !connection.isBusy && !connection.stopping && session.transaction.isNone;
  }

  /**
   * Whether its only call has settled, so that it comes back before anything else happens. False if the call settled
   * before the server's response was complete: a cursor that a limit has ended rolls back first.
   */
  get isReturning(): boolean {
    if (this.state !== "lent" || this.borrowers > 1) return false;
    return this.call?.finished === true && this.#isAtRest;
  }

  /** Whether it was connected to a server that takes writes, and the server has refused one. */
  get mayBeDemoted(): boolean {
    const { refusedWrite, config } = this.connection;
    return refusedWrite && /^(read-write|primary)$/.test(config.targetSessionAttrs);
  }

  /** Whether the last borrower left no change that the driver knows of. */
  get isClean(): boolean {
    return this.#isAtRest && !this.mayBeDemoted && this.sessionChanges.change === "none";
  }
}
