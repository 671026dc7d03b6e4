// The bytes of values on their way to the server: a buffer that grows, and the form that Bind and CopyData share, an
// int32 length (-1 for NULL) before each value. Knows nothing of types.
import { UsageError } from "../util/errors.ts";
import { encoder } from "../util/bytes.ts";

/** PostgreSQL refuses longer messages than 0x3ffffffe; what Bind holds besides is far below 64 KiB. */
const MAX = 0x3fffffff - 0x10000;

/** `length` may be set back, to drop what was written last, or all. */
export class Block {
  bytes = new Uint8Array(512);
  view = new DataView(this.bytes.buffer);
  length = 0;

  /**
   * Where the next `size` bytes go. Only then ask for `view` and `bytes`: both may have moved.
   *
   * @throws UsageError `PARAMETERS_TOO_LARGE`
   */
  reserve(size: number): number {
    const at = this.length;
    const end = at + size;
    // Before anything is allocated; sums of JavaScript numbers do not wrap.
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

  /** The place of a value of `size` bytes, its length written. */
  value(size: number): number {
    const at = this.reserve(4 + size);
    this.view.setInt32(at, size);
    return at + 4;
  }

  /** A value of short plain text, looked at and written in one go; `false`, and nothing written, when it is none. */
  ascii(text: string): boolean {
    const { length } = text;
    if (length > 512) return false;
    const at = this.value(length);
    const { bytes } = this;
    // One by one costs 3 ns each; a call of the encoder as much as 24 of them (measured).
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

  /** A value of well-formed text. */
  text(text: string): void {
    // No UTF-16 unit takes more than three bytes. A long text would waste much of that; there a copy costs less.
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
