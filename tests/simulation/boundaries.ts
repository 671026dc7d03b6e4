// Where the server's messages end in its bytes, and how many messages of each letter have ended.
//
//   letter (1 byte) | length of itself and the body (4 bytes) | body
//
// Must not know what a message means. The bytes begin with a message: no response to SSLRequest comes first.

const HEAD = 5;

export class Boundaries {
  readonly #counts = new Map<string, number>();
  /** The letter and length of the current message, as far as they have arrived. */
  #head: number[] = [];
  /** Bytes of the current message that have not arrived yet. */
  #left = 0;

  /** The number of complete messages with this letter. */
  count(letter: string): number {
    return this.#counts.get(letter) ?? 0;
  }

  /** Yields the same bytes in parts that each end where a message ends. */
  *cut(bytes: Uint8Array): Generator<Uint8Array> {
    let from = 0;
    for (let at = 0; at < bytes.length;) {
      at += this.#take(bytes, at);
      if (this.#head.length < HEAD || this.#left) continue;
      this.#end();
      yield bytes.subarray(from, at);
      from = at;
    }
    if (from < bytes.length) yield bytes.subarray(from);
  }

  /** The number of bytes from `at` on that belong to the same part of a message. */
  #take(bytes: Uint8Array, at: number): number {
    if (this.#head.length === HEAD) {
      const taken = Math.min(this.#left, bytes.length - at);
      this.#left -= taken;
      return taken;
    }
    this.#head.push(bytes[at]!);
    if (this.#head.length === HEAD) this.#left = new DataView(Uint8Array.from(this.#head).buffer).getInt32(1) - 4;
    return 1;
  }

  #end(): void {
    const letter = String.fromCharCode(this.#head[0]!);
    this.#counts.set(letter, this.count(letter) + 1);
    this.#head = [];
  }
}
