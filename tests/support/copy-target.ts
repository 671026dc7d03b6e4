// A COPY that takes data and sends them nowhere, for tests of what feeds one.
//
// Knows the contract of CopyTarget. Must not know formats.
import { HEADER } from "../../js/wasm/messages.ts";
import type { CopyTarget } from "../../js/statement/copy.ts";

export class FakeTarget implements CopyTarget {
  /** What each write has sent. */
  readonly writes: Buffer[] = [];
  /** Nothing is wanted any more behind so many writes. */
  mostWrites = Infinity;
  /** Resolves the write that waits, where `holds`. */
  goOn = () => {};
  holds = false;
  #isOver = false;
  #waiting = new Set<() => void>();

  async write(buffer: Uint8Array, end: number): Promise<boolean> {
    this.writes.push(Buffer.from(buffer.slice(HEADER, end)));
    if (this.holds) await new Promise<void>((resolve) => (this.goOn = resolve));
    // It may be overwritten from now on.
    if (this.writes.length >= this.mostWrites) this.end();
    return !this.over;
  }

  get over(): boolean {
    return this.#isOver;
  }

  orOver<T>(promise: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      this.#waiting.add(() => resolve(undefined));
      promise.then(resolve, reject);
    });
  }

  /** As where the server refuses the data, or the call is aborted. */
  end(): void {
    this.#isOver = true;
    for (const resolve of this.#waiting) resolve();
  }

  get sent(): Buffer {
    return Buffer.concat(this.writes);
  }
}
