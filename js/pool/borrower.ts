// What waits for a connection of the pool by a promise: leases, transactions, and calls that an observer watches or
// that `beforeAcquire` decides about. Other calls are waiters themselves (lender.ts).
//
// Knows whether a connection is still wanted. Must not know who is served first (slots.ts), or what the connection is
// for.
//
// Thousands may wait at once, and each garbage collection copies all that a waiting call holds: a chain of async
// functions here cost 100 callers on 16 connections a third of their CPU.
import { AbortError, PgzError } from "../util/errors.ts";
import { copyOf } from "../util/trace.ts";
import type { Member } from "./member.ts";
import type { Slots, Waiter, BorrowRequest } from "./slots.ts";

export class Borrower implements Waiter {
  readonly isAlone: boolean;
  readonly since: number;
  readonly isStream: boolean;
  queueIndex = -1;
  readonly #slots: Slots;
  #resolve: ((member: Member) => void) | undefined;
  #reject: ((error: unknown) => void) | undefined;
  /** Whether it was lent a connection. */
  isServed = false;
  /** Set when the caller has given up. */
  #left: AbortError | undefined;

  constructor(slots: Slots, { isAlone, since, isStream }: BorrowRequest) {
    this.#slots = slots;
    this.isAlone = isAlone;
    this.since = since;
    this.isStream = isStream;
  }

  /** Resolves with the lent connection. Rejects when connecting fails, or after `giveUp`. */
  wait(): Promise<Member> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      if (this.#left) reject(this.#left);
      else this.#slots.wait(this);
    });
  }

  take(member: Member): void {
    this.isServed = true;
    this.#resolve!(member);
  }

  /**
   * Rejects with a copy, because a connect's error belongs to its connection and goes to every waiter. An error of a
   * hook goes to this waiter only.
   */
  fail(error: unknown): void {
    this.#reject!(error instanceof PgzError ? copyOf(error) : error);
  }

  /** Rejects, unless a connection has been lent already: the borrower keeps that connection. */
  giveUp(reason: unknown): void {
    this.#left = new AbortError(reason, { hasNoEffect: true });
    this.#slots.leave(this);
    this.#reject?.(this.#left);
  }
}
