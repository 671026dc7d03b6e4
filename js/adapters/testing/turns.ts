// Whose turn it is on the one connection of a test: a call, a transaction or a lease at a time, as on a pool that has
// one connection.
//
// Knows who waits and for how long. Must not know what a turn is used for.
import { UsageError } from "../../index.ts";

/**
 * Milliseconds after which a call that waits for a transaction or a lease gives up, when that one has run nothing in
 * all this time. Such a call is mostly made inside of it, and then each would wait for the other.
 */
const LONGEST_IDLE = 3_000;

/** Those of the process: a test may have replaced the timers of its globals. */
const { setTimeout, clearTimeout } = globalThis;

/** A turn that somebody has. */
export class Turn {
  /** Calls that were made in it, so that one that stands still can be told. */
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

  /** How many calls it has made, when none of them runs; else `undefined`. */
  get idleAfter(): number | undefined {
    return this.#running ? undefined : this.#made;
  }

  /** Passes the turn on. May be called again. */
  release(): void {
    this.#release();
  }
}

interface Waiter {
  readonly hand: (turn: Turn) => void;
  readonly fail: (error: unknown) => void;
}

/** One turn at a time, in the order in which they were asked for. */
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

  /** Whoever waits rejects, and whoever asks later. */
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
    `The transaction or lease in front has run nothing for ${LONGEST_IDLE} ms. A test has one connection, as a pool ` +
      "with max: 1: a call made inside of a transaction must be the transaction's own.",
    { retryable: true },
  );
}
