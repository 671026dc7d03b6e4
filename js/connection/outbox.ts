// Bytes on their way to the socket: one write at a time, in the order in which they were said, and all that is said in
// one turn of the event loop in one write.
//
//   push ──> waits for the end of the turn ──> write ──> taken at once: the next one
//                                                   └──> a promise: the next one when it has resolved
//
// Knows a socket's `write`. Must not know what the bytes mean, or what a failed write means.

export class Outbox {
  readonly #write: (bytes: Uint8Array) => Promise<void> | undefined;
  readonly #failed: (cause: unknown) => void;
  /** Each gives its bytes when its turn to be written comes. */
  readonly #waiting: (() => Uint8Array)[] = [];
  #isSending = false;
  #closed = false;
  /** For who waits until all that was said has left. */
  #left: { readonly promise: Promise<void>; readonly resolve: () => void } | undefined;

  /** `failed` is told of a write that rejects, or of bytes that could not be had. */
  constructor(write: (bytes: Uint8Array) => Promise<void> | undefined, failed: (cause: unknown) => void) {
    this.#write = write;
    this.#failed = failed;
  }

  /** Resolves when all that was said has left; `undefined` when it has. Never rejects. */
  get writing(): Promise<void> | undefined {
    if (!this.#isSending) return undefined;
    if (!this.#left) {
      let resolve!: () => void;
      const promise = new Promise<void>((settle) => (resolve = settle));
      this.#left = { promise, resolve };
    }
    return this.#left.promise;
  }

  /** After what is being written; `bytes` says what then. */
  push(bytes: () => Uint8Array): void {
    this.#waiting.push(bytes);
    if (this.#isSending) return;
    this.#isSending = true;
    // What else is said in this turn goes with it.
    queueMicrotask(this.#send);
  }

  /** Nothing more is written. */
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
    this.#waiting.length = 0;
    this.#isSending = false;
    this.#left?.resolve();
    this.#left = undefined;
  }
}
