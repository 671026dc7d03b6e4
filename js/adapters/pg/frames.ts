// The server's bytes as whole messages, whichever chunks they come in.
//
// Knows type byte and length. Must not know what a message says.
import { Buffer } from "node:buffer";
import { HEADER } from "../../wasm/messages.ts";
import { MalformedMessage } from "./messages.ts";

/** Called for each message, whose body stands in `bytes` from `at` to `end`; they are valid until it returns. */
export type OnFrame = (type: number, bytes: Buffer, at: number, end: number) => void;

/** PostgreSQL's own limit. */
const LONGEST = 0x40000000;

export class Frames {
  /** A message that has not come whole, and how long it will be with its header; 0: not known yet. */
  #parts: Buffer[] = [];
  #length = 0;
  #wanted = 0;

  /** @throws MalformedMessage, behind which nothing can be read */
  push(chunk: Uint8Array, onFrame: OnFrame): void {
    const bytes = chunk instanceof Buffer ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    const { length } = bytes;
    let at = this.#length ? this.#complete(bytes, onFrame) : 0;
    while (length - at >= HEADER) {
      const end = at + sizeAt(bytes, at);
      if (end > length) break;
      onFrame(bytes[at]!, bytes, at + HEADER, end);
      at = end;
    }
    if (at < length) this.#keep(bytes.subarray(at));
  }

  /**
   * What is missing of the message that was cut, from the beginning of this chunk; how much that was. Only this message
   * is copied, not the chunk: its memory would be the collector's work.
   */
  #complete(bytes: Buffer, onFrame: OnFrame): number {
    let at = 0;
    while (at < bytes.length) {
      const missing = Math.max(0, (this.#wanted || HEADER) - this.#length);
      const part = bytes.subarray(at, at + missing);
      at += part.length;
      this.#keep(part);
      if (part.length < missing) break;
      const message = this.#parts.length > 1 ? Buffer.concat(this.#parts) : this.#parts[0]!;
      this.#parts = [message];
      this.#wanted ||= sizeAt(message, 0);
      if (this.#length < this.#wanted) continue;
      this.#parts = [];
      this.#length = this.#wanted = 0;
      onFrame(message[0]!, message, HEADER, message.length);
      break;
    }
    return at;
  }

  /** A copy: the socket fills its buffer again. */
  #keep(bytes: Buffer): void {
    this.#parts.push(Buffer.from(bytes));
    this.#length += bytes.length;
  }
}

/** Of the message there, with its type byte. */
function sizeAt(bytes: Buffer, at: number): number {
  const length = bytes.readUInt32BE(at + 1);
  if (length < 4 || length > LONGEST) throw new MalformedMessage(`a message of ${length} bytes`);
  return 1 + length;
}
