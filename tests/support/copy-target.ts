// A COPY target that accepts data and sends it nowhere, for tests of the code that feeds a COPY.
//
// Knows the contract of CopyTarget. Must not know formats.
import { HEADER } from "../../js/wasm/messages.ts";
import type { CopyTarget } from "../../js/statement/copy.ts";

export class FakeTarget implements CopyTarget {
  /** The bytes of each write. */
  readonly writes: Buffer[] = [];
  /** The number of writes after which the target wants no more. */
  mostWrites = Infinity;
  /** Resolves the pending write, if `holds`. */
  goOn = () => {};
  holds = false;
  #isOver = false;
  #waiting = new Set<() => void>();

  async write(buffer: Uint8Array, end: number): Promise<boolean> {
    this.writes.push(Buffer.from(buffer.slice(HEADER, end)));
    if (this.holds) await new Promise<void>((resolve) => (this.goOn = resolve));
    // The buffer may be overwritten from now on.
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

  /** Ends the target, as when the server refuses the data or the call is aborted. */
  end(): void {
    this.#isOver = true;
    for (const resolve of this.#waiting) resolve();
  }

  get sent(): Buffer {
    return Buffer.concat(this.writes);
  }
}
