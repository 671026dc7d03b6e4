// A server process as a coroutine: it runs at a moment of virtual time, and waits for bytes, locks and clocks.
//
//   function* (…): Doing<T> { yield wait; return result }
//
// An interrupt throws an error into the current wait. Knows waiting. Must not know what the process waits for.
import type { Clock } from "../contract.ts";

export interface Wait {
  /**
   * Decides the effect of a CancelRequest: none while the process reads a command, and a COPY handles it at the next
   * data.
   */
  readonly kind: "command" | "copy" | "running" | "committing";
  /**
   * Calls `wake` when the awaited event happens, or at once if it has happened. Returns a function that stops waiting.
   */
  begin(wake: () => void): () => void;
}

export type Doing<T> = Generator<Wait, T, void>;

/** The connection is over, and no more messages are sent. */
export class Gone {}

export class Process {
  readonly #doing: Doing<void>;
  readonly #ended: (error: unknown) => void;
  #wait: Wait | undefined;
  #stopWaiting: (() => void) | undefined;
  #isRunning = false;
  #hasEnded = false;

  /** `ended` receives the error that the process threw, if any. */
  constructor(doing: Doing<void>, ended: (error: unknown) => void) {
    this.#doing = doing;
    this.#ended = ended;
  }

  start(): void {
    this.#run(() => this.#doing.next());
  }

  /** The current wait, or `undefined` while the process runs and after it has ended. */
  get wait(): Wait | undefined {
    return this.#wait;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Throws into the current wait. The process must be waiting. */
  interrupt(error: object): void {
    this.#stopWaiting?.();
    this.#run(() => this.#doing.throw(error));
  }

  #run(go: () => IteratorResult<Wait, void>): void {
    if (this.#isRunning || this.#hasEnded) throw new Error("the model's process runs already, or has ended");
    this.#isRunning = true;
    this.#wait = this.#stopWaiting = undefined;
    try {
      for (;;) {
        const { done, value } = go();
        if (done) return this.#end(undefined);
        if (!this.#begin(value as Wait)) return;
        go = () => this.#doing.next();
      }
    } catch (error) {
      this.#end(error);
    } finally {
      this.#isRunning = false;
    }
  }

  /** Returns whether the awaited event has already happened. */
  #begin(wait: Wait): boolean {
    let isHere = false;
    let isOver = false;
    const stop = wait.begin(() => {
      if (isOver) return;
      if (this.#wait !== wait) return void (isHere = true);
      isOver = true;
      this.#run(() => this.#doing.next());
    });
    if (isHere) return true;
    this.#wait = wait;
    this.#stopWaiting = () => {
      isOver = true;
      stop();
    };
    return false;
  }

  #end(error: unknown): void {
    this.#hasEnded = true;
    this.#ended(error);
  }
}

/** Lets time pass. Without a positive time there is no wait. */
export function* sleep(clock: Clock, milliseconds: number, kind: Wait["kind"] = "running"): Doing<void> {
  if (!(milliseconds > 0)) return;
  yield {
    kind,
    begin: (wake) => {
      const timer = clock.after(milliseconds, wake);
      return () => timer.cancel();
    },
  };
}
