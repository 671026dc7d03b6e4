// The bytes of values for the server: a buffer that grows. Bind and CopyData share the layout: an int32 length (-1 for
// NULL) before each value. Knows nothing of types.
import { UsageError } from "../util/errors.ts";
import { encoder } from "../util/bytes.ts";

/** PostgreSQL refuses messages longer than 0x3ffffffe. The rest of a Bind is far below 64 KiB. */
const MAX = 0x3fffffff - 0x10000;

/** `length` may be set back, to drop the last values or all of them. */
export class Block {
  bytes = new Uint8Array(512);
  view = new DataView(this.bytes.buffer);
  length = 0;

  /**
   * Returns where the next `size` bytes go. Read `view` and `bytes` only after that: both may have been replaced.
   *
   * @throws UsageError `PARAMETERS_TOO_LARGE`
   */
  reserve(size: number): number {
    const at = this.length;
    const end = at + size;
    // Checked before anything is allocated. Sums of JavaScript numbers do not wrap.
    if (end > MAX) throw new UsageError("PARAMETERS_TOO_LARGE", "The parameters exceed one message of 1 GiB.");
    if (end > this.bytes.length) {
      const { bytes } = this;
      this.bytes = new Uint8Array(Math.min(Math.max(end, 2 * bytes.length), MAX));
      this.bytes.set(bytes);
      this.view = new DataView(this.bytes.buffer);
    }
    this.length = end;
    return at;
  }

  null(): void {
    const at = this.reserve(4);
    this.view.setInt32(at, -1);
  }

  /** Returns the place of a value of `size` bytes, after writing its length. */
  value(size: number): number {
    const at = this.reserve(4 + size);
    this.view.setInt32(at, size);
    return at + 4;
  }

  /**
   * Writes a value of short ASCII text, checked in the same pass. Returns `false`, with nothing written, for other
   * text.
   */
  ascii(text: string): boolean {
    const { length } = text;
    if (length > 512) return false;
    const at = this.value(length);
    const { bytes } = this;
    // A loop costs 3 ns per character; a call of the encoder as much as 24 of them (measured).
    if (length > 24) {
      const { read, written } = encoder.encodeInto(text, bytes.subarray(at, at + length));
      if (read === length && written === length && !text.includes("\0")) return true;
      this.length = at - 4;
      return false;
    }
    for (let index = 0; index < length; index++) {
      const code = text.charCodeAt(index);
      if (code === 0 || code > 0x7f) {
        this.length = at - 4;
        return false;
      }
      bytes[at + index] = code;
    }
    return true;
  }

  /** Writes a value of well-formed text. */
  text(text: string): void {
    // No UTF-16 unit takes more than three bytes. A long text would waste much of that room; there a copy costs less.
    if (text.length < 1024) {
      const at = this.value(3 * text.length);
      const { written } = encoder.encodeInto(text, this.bytes.subarray(at));
      this.view.setInt32(at - 4, written);
      this.length = at + written;
    } else {
      const encoded = encoder.encode(text);
      const at = this.value(encoded.length);
      this.bytes.set(encoded, at);
    }
  }
}
