// Splits the server's bytes into whole messages, however they are cut into chunks.
//
// Knows the type byte and the length. Must not know what a message contains.
import { Buffer } from "node:buffer";
import { HEADER } from "../../wasm/messages.ts";
import { MalformedMessage } from "./messages.ts";

/** Called for each message. Its body is in `bytes` from `at` to `end`, which are valid until the call returns. */
type OnFrame = (type: number, bytes: Buffer, at: number, end: number) => void;

/** PostgreSQL's own limit of a message's length. */
const LONGEST = 0x40000000;

export class Frames {
  /** An incomplete message, and its full length with the header; 0 if the length is not known yet. */
  #parts: Buffer[] = [];
  #length = 0;
  #wanted = 0;

  /** @throws MalformedMessage, after which nothing more can be read */
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
   * Completes an incomplete message from the beginning of this chunk. Returns how many bytes that took. Only this
   * message is copied and not the whole chunk, whose memory would be work for the garbage collector.
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

  /** Stores a copy, because the socket reuses its buffer. */
  #keep(bytes: Buffer): void {
    this.#parts.push(Buffer.from(bytes));
    this.#length += bytes.length;
  }
}

/** Returns the size of the message at `at`, with its type byte. */
function sizeAt(bytes: Buffer, at: number): number {
  const length = bytes.readUInt32BE(at + 1);
  if (length < 4 || length > LONGEST) throw new MalformedMessage(`a message of ${length} bytes`);
  return 1 + length;
}
