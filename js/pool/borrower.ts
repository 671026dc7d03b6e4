// Who wants a connection of the pool, as a promise of it: leases, transactions, and calls that somebody observes or
// `beforeAcquire` decides about. Other calls wait themselves (lender.ts).
//
// Knows whether one is still wanted. Must not know who comes first (slots.ts), or what the connection is for.
//
// Thousands may wait at once, and all that a waiting call holds is copied by each collection: a chain of async
// functions here cost 100 callers on 16 connections a third of their CPU.
import { AbortError, PgzError } from "../util/errors.ts";
import { copyOf } from "../util/trace.ts";
import type { Member } from "./member.ts";
import type { Slots, Waiter, Wish } from "./slots.ts";

export class Borrower implements Waiter {
  readonly isAlone: boolean;
  readonly since: number;
  readonly isStream: boolean;
  readonly #slots: Slots;
  #resolve: ((member: Member) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;
  /** Why none is wanted any more. */
  #left: AbortError | undefined;

  constructor(slots: Slots, { isAlone, since, isStream }: Wish) {
    this.#slots = slots;
    this.isAlone = isAlone;
    this.since = since;
    this.isStream = isStream;
  }

  /** Resolves when it is lent one. Rejects with why there is none, or behind `giveUp`. */
  wait(): Promise<Member> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      if (this.#left) reject(this.#left);
      else this.#slots.wait(this);
    });
  }

  take(member: Member): void {
    this.#resolve!(member);
  }

  /** With an error of its own: that of a connect is its connection's, and of all who waited. A hook's is only this. */
  fail(error: unknown): void {
    this.#reject!(error instanceof PgzError ? copyOf(error) : error);
  }

  /** A connection that it has been lent already stays its own. */
  giveUp(reason: unknown): void {
    this.#left = new AbortError(reason, { retryable: true });
    this.#slots.leave(this);
    this.#reject?.(this.#left);
  }
}
