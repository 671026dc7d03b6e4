// A server process as a coroutine: it runs at a moment of virtual time, and waits for bytes, locks and clocks.
//
//   function* (…): Doing<T> { yield wait; return result }
//
// Whoever interrupts it throws an error into the wait that it is in. Knows waiting. Must not know what is waited for.
import type { Clock } from "../contract.ts";

export interface Wait {
  /** What a CancelRequest does: nothing while it reads a command, and a COPY heeds it with the next data. */
  readonly kind: "command" | "copy" | "running" | "committing";
  /** Calls `wake` once what is waited for is there; at once if it is there already. Returns how to stop waiting. */
  begin(wake: () => void): () => void;
}

export type Doing<T> = Generator<Wait, T, void>;

/** The connection is over, and nothing more is to be said. */
export class Gone {}

export class Process {
  readonly #doing: Doing<void>;
  readonly #ended: (error: unknown) => void;
  #wait: Wait | undefined;
  #stopWaiting: (() => void) | undefined;
  #isRunning = false;
  #hasEnded = false;

  /** `ended`: with what it threw, if anything. */
  constructor(doing: Doing<void>, ended: (error: unknown) => void) {
    this.#doing = doing;
    this.#ended = ended;
  }

  start(): void {
    this.#run(() => this.#doing.next());
  }

  /** What it waits for; `undefined` while it runs, and when it has ended. */
  get wait(): Wait | undefined {
    return this.#wait;
  }

  get hasEnded(): boolean {
    return this.#hasEnded;
  }

  /** Throws into its wait. It must be waiting. */
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

  /** Whether what it waits for is there already. */
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

/** Time passes. Nothing is waited for where there is none. */
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
