// Which timers fire while a session runs, by their delays. That a call waited for none is then known without a clock. A
// timer that only stands guard may fire on a machine that stands still for so long: sessions choose its delay, or allow
// it.
//
// Replaces functions of the global object, so only one session at a time may ask for the delays. Knows nothing of
// the driver.

/**
 * Timers of Node's own fetch, by which the test's requests keep their connections alive for some seconds: on a busy
 * machine one fired in a session that took longer.
 */
const OF_FETCH = /node:internal\/deps\/undici\//;

export class Timers {
  readonly #setTimeout = globalThis.setTimeout;
  readonly #timeout = AbortSignal.timeout;
  #longest = 0;

  constructor() {
    const started = (run: (...values: unknown[]) => void, delay = 0, ...values: unknown[]) => {
      const counts = !OF_FETCH.test(String(new Error().stack));
      return this.start(() => {
        if (counts) this.#fired(delay);
        run(...values);
      }, delay);
    };
    globalThis.setTimeout = started as typeof setTimeout;
    AbortSignal.timeout = (delay) => {
      const signal = this.#timeout.call(AbortSignal, delay);
      signal.addEventListener("abort", () => this.#fired(delay));
      return signal;
    };
  }

  /** The longest delay, in milliseconds, of those that were started since then and have fired. */
  get longest(): number {
    return this.#longest;
  }

  /** Starts a timer that does not count. */
  start(run: () => void, delay: number): ReturnType<typeof setTimeout> {
    return this.#setTimeout.call(globalThis, run, delay); // workerd looks at `this`
  }

  /** Puts the global functions back. */
  stop(): void {
    globalThis.setTimeout = this.#setTimeout;
    AbortSignal.timeout = this.#timeout;
  }

  #fired(delay: number): void {
    this.#longest = Math.max(this.#longest, delay);
  }
}
