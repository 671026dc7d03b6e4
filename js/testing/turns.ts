// Orders the use of a test's one connection: a call, a transaction or a lease at a time, as on a pool with one
// connection.
//
// Knows the waiters and how long they wait. Must not know what a turn is used for.
import { UsageError } from "../index.ts";

/**
 * A waiter gives up when the transaction or lease that has the turn has run nothing for this many milliseconds. Usually
 * the waiting call was made inside that transaction, and each would wait for the other.
 */
const LONGEST_IDLE = 3_000;

/** The process's own timers, because a test may replace the global ones. */
const { setTimeout, clearTimeout } = globalThis;

/** A turn that has begun. */
export class Turn {
  /** Number of calls made in this turn. Shows whether the turn is idle. */
  #made = 0;
  #running = 0;
  readonly #release: () => void;

  constructor(release: () => void) {
    this.#release = release;
  }

  /** Counts a call while it runs. */
  async counts<T>(call: Promise<T>): Promise<T> {
    this.#made++;
    this.#running++;
    try {
      return await call;
    } finally {
      this.#running--;
    }
  }

  /** Number of calls made in this turn, if none of them is running; else `undefined`. */
  get idleAfter(): number | undefined {
    return this.#running ? undefined : this.#made;
  }

  /** Passes the turn on. May be called more than once. */
  release(): void {
    this.#release();
  }
}

interface Waiter {
  readonly hand: (turn: Turn) => void;
  readonly fail: (error: unknown) => void;
}

/** Gives one turn at a time, in the order of the requests. */
export class Turns {
  #current: Turn | undefined;
  #waiting: Waiter[] = [];
  #closed: (() => UsageError) | undefined;

  /** Resolves when it is the caller's turn. Rejects when the test ends first, or `signal` aborts. */
  take(signal?: AbortSignal): Promise<Turn> {
    if (this.#closed) return Promise.reject(this.#closed());
    if (!this.#current) return Promise.resolve(this.#begin());
    return new Promise((resolve, reject) => this.#wait(resolve, reject, signal));
  }

  /** Rejects all waiting and later requests. */
  close(error: () => UsageError): void {
    this.#closed = error;
    for (const { fail } of this.#waiting.splice(0)) fail(error());
  }

  #wait(resolve: (turn: Turn) => void, reject: (error: unknown) => void, signal: AbortSignal | undefined): void {
    const over = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", aborted);
      this.#waiting = this.#waiting.filter((other) => other !== waiter);
    };
    const waiter: Waiter = {
      hand: (turn) => (over(), resolve(turn)),
      fail: (error) => (over(), reject(error)),
    };
    const aborted = () => waiter.fail(signal!.reason);
    let timer: ReturnType<typeof setTimeout>;
    const look = () => {
      const { current, idle } = this.#seen();
      timer = setTimeout(() => {
        const now = this.#seen();
        if (idle !== undefined && now.current === current && now.idle === idle) waiter.fail(standsStill());
        else look();
      }, LONGEST_IDLE);
      (timer as { unref?: () => void }).unref?.();
    };
    signal?.addEventListener("abort", aborted);
    this.#waiting.push(waiter);
    look();
  }

  #seen() {
    return { current: this.#current, idle: this.#current?.idleAfter };
  }

  #begin(): Turn {
    const turn: Turn = new Turn(() => {
      if (this.#current !== turn) return;
      this.#current = undefined;
      this.#waiting[0]?.hand(this.#begin());
    });
    return (this.#current = turn);
  }
}

function standsStill(): UsageError {
  return new UsageError(
    "TRANSACTION_OPEN",
    `The transaction or lease ahead has run nothing for ${LONGEST_IDLE} ms. A test has one connection, like a pool ` +
      "with max: 1: a call inside a transaction must be made on the transaction itself.",
    { hasNoEffect: true },
  );
}
