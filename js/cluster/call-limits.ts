// The signals and the timeout of a call that may be tried on several servers. No connection has the call between two
// attempts, so they are observed here.
//
// Knows when the call is over for its caller. Must not know servers, or why the call waits.
import { AbortError, TimeoutError } from "../index.ts";
import { onAbort } from "../util/abort.ts";

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
      // Not spread: options may be inherited.
      const value = Math.max(Math.ceil(this.#left), 1);
      return await run(Object.create(options, { timeout: { value, enumerable: true } }) as Options);
    } catch (error) {
      if (error instanceof TimeoutError && error.code === "QUERY_TIMEOUT")
        Object.assign(error, { message: this.#tooLate.message });
      throw error;
    }
  }

  /** Waits for this long, or until the call ends, as `wait` does. */
  async pause(milliseconds: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const pause = new Promise<void>((resolve) => (timer = setTimeout(resolve, milliseconds)));
    await this.wait(pause).finally(() => clearTimeout(timer));
  }

  /** Waits for `work`. If the call ends earlier, rejects with the error that the call must reject with. */
  async wait<T>(work: Promise<T>): Promise<T> {
    const stops: (() => void)[] = [];
    try {
      return await new Promise<T>((resolve, reject) => {
        work.then(resolve, reject);
        if (this.#timeout) {
          const timer = setTimeout(() => reject(this.#tooLate), this.#left);
          stops.push(() => clearTimeout(timer));
        }
        for (const signal of this.#signals)
          stops.push(onAbort(signal, () => reject(new AbortError(signal?.reason, SAFE))));
      });
    } finally {
      for (const stop of stops) stop();
    }
  }

  get #left(): number {
    return this.#timeout - (performance.now() - this.#began);
  }

  get #tooLate(): TimeoutError {
    return new TimeoutError("QUERY_TIMEOUT", `The call took longer than ${this.#timeout} ms (timeout).`, SAFE);
  }
}

/** No part of the call is running, so a retry is safe. */
const SAFE = { hasNoEffect: true };
