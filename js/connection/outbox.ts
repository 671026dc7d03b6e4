// Queues bytes for the socket: one write at a time, in the order of `push`. Everything pushed in one turn of the event
// loop leaves in one write.
//
//   push ──> waits for the end of the turn ──> write ──> taken at once: the next one
//                                                   └──> a promise: the next one when it has resolved
//
// Knows a socket's `write`. Must not know what the bytes mean, or what a failed write means.
import { inMicrotask } from "../util/microtask.ts";

export class Outbox {
  readonly #write: (bytes: Uint8Array) => Promise<void> | undefined;
  readonly #failed: (cause: unknown) => void;
  /** Each function returns its bytes when their turn to be written comes. */
  readonly #waiting: (() => Uint8Array)[] = [];
  #isSending = false;
  #closed = false;
  /** For callers that wait until everything pushed has been written. */
  #left: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;

  /** `failed` is called when a write rejects, or when the bytes could not be made. */
  constructor(write: (bytes: Uint8Array) => Promise<void> | undefined, failed: (cause: unknown) => void) {
    this.#write = write;
    this.#failed = failed;
  }

  /** Resolves when everything pushed has been written; `undefined` if it already has. Never rejects. */
  get writing(): Promise<void> | undefined {
    if (!this.#isSending) return undefined;
    if (!this.#left) {
      let resolve!: () => void;
      const promise = new Promise<void>((settle) => (resolve = settle));
      this.#left = { promise, resolve };
    }
    return this.#left.promise;
  }

  /** Queues bytes after those already queued. `bytes` is called when their turn comes. */
  push(bytes: () => Uint8Array): void {
    this.#waiting.push(bytes);
    if (this.#isSending) return;
    this.#isSending = true;
    // Bytes pushed later in this turn leave with these.
    inMicrotask(this.#send);
  }

  /** Stops writing. */
  close(): void {
    this.#closed = true;
  }

  readonly #send = (): void => {
    try {
      for (let bytes; !this.#closed && (bytes = this.#waiting.shift());) {
        const output = bytes();
        const leaving = output.length ? this.#write(output) : undefined;
        if (leaving) return void leaving.then(this.#send, this.#fail);
      }
    } catch (cause) {
      return this.#fail(cause);
    }
    this.#end();
  };

  readonly #fail = (cause: unknown): void => {
    this.#failed(cause);
    this.#end();
  };

  #end(): void {
    // An array that was emptied by its length gets new memory with the next item.
    if (this.#waiting.length) this.#waiting.length = 0;
    this.#isSending = false;
    this.#left?.resolve();
    this.#left = undefined;
  }
}
