// Bytes on their way to the socket: one write at a time, in the order in which they were said, and all that is said in
// one turn of the event loop in one write.
//
// Knows a socket's `write`. Must not know what the bytes mean, or what a failed write means.

export class Outbox {
  readonly #write: (bytes: Uint8Array) => Promise<void>;
  readonly #failed: (cause: unknown) => void;
  /** Each gives its bytes when its turn to be written comes. */
  readonly #waiting: (() => Uint8Array)[] = [];
  #writing: Promise<void> | undefined;
  #closed = false;

  /** `failed` is told of a write that rejects, or of bytes that could not be had. */
  constructor(write: (bytes: Uint8Array) => Promise<void>, failed: (cause: unknown) => void) {
    this.#write = write;
    this.#failed = failed;
  }

  /** Resolves when all that was said has left; `undefined` when it has. Never rejects. */
  get writing(): Promise<void> | undefined {
    return this.#writing;
  }

  /** Behind what is being written; `bytes` says what then. */
  push(bytes: () => Uint8Array): void {
    this.#waiting.push(bytes);
    this.#writing ??= this.#send();
  }

  /** Nothing more is written. */
  close(): void {
    this.#closed = true;
  }

  async #send(): Promise<void> {
    try {
      // What else is said in this turn goes with it.
      await undefined;
      for (const bytes of this.#waiting) {
        if (this.#closed) break;
        const output = bytes();
        if (output.length) await this.#write(output);
      }
    } catch (cause) {
      this.#failed(cause);
    }
    this.#waiting.length = 0;
    this.#writing = undefined;
  }
}
