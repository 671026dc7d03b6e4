// A clock that only a test moves: timers, `performance.now`, `Date.now`, and a `Math.random` that always returns 0.
// Resetting it ten thousand times is cheap, unlike with vitest's own.
//
// For logic without a socket. Over sockets in memory, `fakeTimers` of memory-session.ts advances only the timers.
import { afterEach, beforeEach, vi } from "vitest";

const { now } = Date;
const { random } = Math;

interface Timer {
  readonly at: number;
  readonly run: () => void;
}

export class FakeClock {
  now = 0;
  /** The timers by their ids. Timers with equal times run in the order in which they were set. */
  #timers = new Map<number, Timer>();
  #lastId = 0;

  /** Replaces the real clock. */
  install(): this {
    vi.stubGlobal("setTimeout", (run: () => void, delay = 0) => this.#set(run, delay));
    vi.stubGlobal("clearTimeout", (id: number) => this.#timers.delete(id));
    vi.stubGlobal("performance", { now: () => this.now });
    Date.now = () => this.now;
    Math.random = () => 0;
    return this;
  }

  uninstall(): void {
    vi.unstubAllGlobals();
    Object.assign(Date, { now });
    Object.assign(Math, { random });
  }

  /** Resets the clock, and removes all timers. */
  reset(): void {
    this.now = 1_000_000;
    this.#timers.clear();
  }

  /** Milliseconds until each timer, the next one first. */
  get timers(): number[] {
    return [...this.#timers.values()].map(({ at }) => at - this.now).sort((a, b) => a - b);
  }

  /** Lets time pass and calls the timers that are due. `settle` lets promises run between two of them. */
  async advance(milliseconds: number, settle: () => Promise<void>): Promise<void> {
    const end = this.now + milliseconds;
    for (let next, count = 0; (next = this.#next(end));) {
      if (++count > 1_000) throw new Error("a timer sets another without end");
      const [id, { at, run }] = next;
      this.#timers.delete(id);
      this.now = Math.max(this.now, at);
      run();
      await settle();
    }
    this.now = end;
  }

  #set(run: () => void, delay: number): number {
    this.#timers.set(++this.#lastId, { at: this.now + delay, run });
    return this.#lastId;
  }

  #next(end: number): [number, Timer] | undefined {
    const [first] = [...this.#timers].filter(([, { at }]) => at <= end).sort(([, a], [, b]) => a.at - b.at);
    return first;
  }
}

/** The clock of each test of a file. */
export function useFakeClock(): FakeClock {
  const clock = new FakeClock();
  beforeEach(() => clock.install().reset());
  afterEach(() => clock.uninstall());
  return clock;
}
