// The calls of one client, pool, transaction or lease that wait or run, and the counters of all its calls.
//
// Knows that a call was made and how it ended. Must not know whose turn it is, or what it asks for.
import type { Call, Outcome, Maker, Settled } from "../session/call.ts";

/** The counters of a client. Calls of its transactions count too. */
export interface Counters {
  queries: number;
  errors: number;
  rows: number;
  bytes: number;
  /** Calls that wait or run. */
  running: number;
}

/** An open call, as the code that closes its client sees it. */
export type OpenCall = Pick<
  Call<never>,
  "finished" | "operation" | "receivedBytes" | "isUnread" | "isTimed" | "interrupt"
>;

type Entry = OpenCall & Settled;

export class Ledger implements Maker {
  readonly #counters: Counters;
  /** In no order. An array, because a Set that mostly holds one element would be resized on every call. */
  readonly #open: Entry[] = [];

  constructor(counters: Counters) {
    this.#counters = counters;
  }

  /** The calls that wait or run now. */
  get open(): OpenCall[] {
    return [...this.#open];
  }

  /** Whether another call than this one waits or runs. */
  hasOther(than: unknown): boolean {
    return this.#open.some((call) => call !== than);
  }

  add(call: Entry): void {
    this.#counters.queries++;
    this.#counters.running++;
    call.index = this.#open.push(call) - 1;
  }

  ended(call: Settled, outcome: Outcome): void {
    const counters = this.#counters;
    const last = this.#open.pop()!;
    if (last !== call) this.#open[(last.index = call.index)] = last;
    counters.running--;
    counters.rows += outcome.rows ?? 0;
    counters.bytes += outcome.bytes;
    if (outcome.error) counters.errors++;
    call.observation?.end(outcome);
  }
}
