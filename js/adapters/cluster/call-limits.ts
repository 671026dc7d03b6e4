// The signals and the timeout of a call that may be tried on several servers. No connection has the call between two
// attempts, so they are observed here.
//
// Knows when the call is over for its caller. Must not know servers, or why the call waits.
import { AbortError, TimeoutError } from "../../index.ts";

interface LimitOptions {
  readonly signal?: AbortSignal | undefined;
  readonly timeout?: number | undefined;
}

export class CallLimits {
  readonly #signals: readonly (AbortSignal | undefined)[];
  /** Milliseconds; 0: no timeout. */
  readonly #timeout: number;
  readonly #began = performance.now();
  #attempts = 0;

  /** Does not validate the options: the first attempt does, before anything waits. */
  constructor(signals: readonly (AbortSignal | undefined)[], timeout = 0) {
    this.#signals = signals;
    this.#timeout = timeout;
  }

  /** Makes one attempt on a server, with what is left of the timeout. */
  attempt<Options extends LimitOptions, T>(options: Options, run: (options: Options) => Promise<T>): Promise<T> {
    return this.#timeout && this.#attempts++ > 0 ? this.#again(options, run) : run(options);
  }

  async #again<Options extends LimitOptions, T>(options: Options, run: (options: Options) => Promise<T>): Promise<T> {
    try {
      return await run({ ...options, timeout: Math.max(Math.ceil(this.#left), 1) });
    } catch (error) {
      if (error instanceof TimeoutError && error.code === "QUERY_TIMEOUT")
        Object.assign(error, { message: this.#tooLate.message });
      throw error;
    }
  }

  /** Waits. If the call ends earlier, rejects with the error that the call must reject with. */
  async pause(milliseconds: number): Promise<void> {
    const ends = this.#timeout ? Math.min(milliseconds, this.#left) : milliseconds;
    let stop = () => {};
    try {
      await new Promise<void>((resolve, reject) => {
        const timer = setTimeout(resolve, ends);
        const aborted = () => reject(new AbortError(this.#signals.find((one) => one?.aborted)?.reason, SAFE));
        for (const signal of this.#signals) {
          if (signal?.aborted) aborted();
          signal?.addEventListener("abort", aborted);
        }
        stop = () => {
          clearTimeout(timer);
          for (const signal of this.#signals) signal?.removeEventListener("abort", aborted);
        };
      });
    } finally {
      stop();
    }
    if (this.#timeout && this.#left <= 0) throw this.#tooLate;
  }

  get #left(): number {
    return this.#timeout - (performance.now() - this.#began);
  }

  get #tooLate(): TimeoutError {
    return new TimeoutError("QUERY_TIMEOUT", `The call took longer than ${this.#timeout} ms (timeout).`, SAFE);
  }
}

/** No part of the call is running, so a retry is safe. */
const SAFE = { retryable: true };
