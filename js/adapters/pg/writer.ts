// Writes messages to the server into a buffer that grows, one after another.
//
// Knows how each message is laid out (PostgreSQL's "Message Formats"). Must not know when a message may be sent, or
// where its bytes go.
import { Buffer } from "node:buffer";
import { BIND, CLOSE, COPY_DATA, COPY_DONE, COPY_FAIL } from "../../wasm/messages.ts";
import { DESCRIBE, EXECUTE, FLUSH, PARSE, QUERY, SYNC, TERMINATE } from "../../wasm/messages.ts";

/** A value for Bind, in the form that `prepareValue` returns. */
export type Wire = string | Uint8Array | null;

/** The argument of `connection.bind`. */
export interface BindConfig {
  readonly portal?: string | undefined;
  readonly statement?: string | undefined;
  readonly values?: readonly unknown[] | null | undefined;
  /** Requests rows in binary format. */
  readonly binary?: boolean | undefined;
  readonly valueMapper?: ((value: unknown, index: number) => unknown) | undefined;
}

/** Longer buffers are not kept. */
const LARGE = 1 << 16;
const EMPTY = Buffer.alloc(0);

export class Writer {
  #bytes = Buffer.allocUnsafeSlow(1024);
  #length = 0;

  get isEmpty(): boolean {
    return this.#length === 0;
  }

  /** Returns the bytes written since the last call. They belong to the caller. */
  take(): Buffer {
    if (!this.#length) return EMPTY;
    const { buffer } = this.#bytes;
    const taken = Buffer.from(buffer, 0, this.#length);
    // Short messages are copied, so that the buffer, which has grown to the right size, is kept.
    const isShort = this.#length <= LARGE && this.#bytes.length <= LARGE;
    const bytes = isShort ? Buffer.from(taken) : taken;
    if (!isShort) this.#bytes = Buffer.allocUnsafeSlow(1024);
    this.#length = 0;
    return bytes;
  }

  parse(name: string, text: string, types: readonly number[]): void {
    const at = this.#begin(PARSE);
    this.#cString(name);
    this.#cString(text);
    this.#int16(types.length);
    for (const type of types) this.#int32(type);
    this.#end(at);
  }

  /** Writes Bind. If a value cannot be converted, nothing of the message stays. */
  bind({ portal = "", statement = "", values, binary = false, valueMapper }: BindConfig): void {
    const at = this.#begin(BIND);
    try {
      this.#cString(portal);
      this.#cString(statement);
      this.#values(values ?? [], valueMapper);
      this.#int16(1);
      this.#int16(binary ? 1 : 0);
    } catch (error) {
      this.#length = at - 1;
      throw error;
    }
    this.#end(at);
  }

  describe(type: string, name: string): void {
    this.#named(DESCRIBE, type, name);
  }

  close(type: string, name: string): void {
    this.#named(CLOSE, type, name);
  }

  execute(portal: string, rows: number): void {
    const at = this.#begin(EXECUTE);
    this.#cString(portal);
    this.#int32(rows);
    this.#end(at);
  }

  query(text: string): void {
    const at = this.#begin(QUERY);
    this.#cString(text);
    this.#end(at);
  }

  copyData(chunk: Uint8Array): void {
    const at = this.#begin(COPY_DATA);
    const from = this.#reserve(chunk.length);
    this.#bytes.set(chunk, from);
    this.#end(at);
  }

  copyFail(reason: string): void {
    const at = this.#begin(COPY_FAIL);
    this.#cString(reason);
    this.#end(at);
  }

  copyDone(): void {
    this.#end(this.#begin(COPY_DONE));
  }

  flush(): void {
    this.#end(this.#begin(FLUSH));
  }

  sync(): void {
    this.#end(this.#begin(SYNC));
  }

  terminate(): void {
    this.#end(this.#begin(TERMINATE));
  }

  // -- parts ----------------------------------------------------------------------------------------------------------

  #named(message: number, type: string, name: string): void {
    const at = this.#begin(message);
    this.#bytes[this.#reserve(1)] = type.charCodeAt(0);
    this.#cString(name);
    this.#end(at);
  }

  /** Writes the format codes, then each value after its length. */
  #values(values: readonly unknown[], valueMapper?: BindConfig["valueMapper"]): void {
    const count = values.length;
    this.#int16(count);
    const formats = this.#reserve(2 * count);
    this.#bytes.fill(0, formats, formats + 2 * count);
    this.#int16(count);
    for (let index = 0; index < count; index++) {
      const value = (valueMapper ? valueMapper(values[index], index) : values[index]) as Wire | undefined;
      if (value === null || value === undefined) this.#int32(-1);
      else if (value instanceof Uint8Array) {
        this.#bytes[formats + 2 * index + 1] = 1;
        this.#int32(value.length);
        const from = this.#reserve(value.length);
        this.#bytes.set(value, from);
      } else this.#text(String(value));
    }
  }

  /** Writes the length and the text. */
  #text(text: string): void {
    const at = this.#reserve(4 + 3 * text.length);
    const written = this.#utf8(text, at + 4);
    this.#bytes.writeInt32BE(written, at);
    this.#length = at + 4 + written;
  }

  #cString(text: string): void {
    const at = this.#reserve(3 * text.length + 1);
    const end = at + this.#utf8(text, at);
    this.#bytes[end] = 0;
    this.#length = end + 1;
  }

  /** Writes short texts byte by byte, which costs less than a call of the encoder while they are ASCII. */
  #utf8(text: string, at: number): number {
    const bytes = this.#bytes;
    const { length } = text;
    if (length > 32) return bytes.write(text, at);
    for (let index = 0; index < length; index++) {
      const code = text.charCodeAt(index);
      if (code > 127) return bytes.write(text, at);
      bytes[at + index] = code;
    }
    return length;
  }

  #int16(value: number): void {
    const at = this.#reserve(2);
    this.#bytes[at] = value >> 8;
    this.#bytes[at + 1] = value;
  }

  #int32(value: number): void {
    const at = this.#reserve(4);
    this.#bytes.writeInt32BE(value | 0, at);
  }

  /** Writes the type byte and leaves room for the length. Returns the position of the length. */
  #begin(type: number): number {
    const at = this.#reserve(5);
    this.#bytes[at] = type;
    return at + 1;
  }

  #end(at: number): void {
    this.#bytes.writeInt32BE(this.#length - at, at);
  }

  #reserve(size: number): number {
    const at = this.#length;
    const end = at + size;
    if (end > this.#bytes.length) {
      const bytes = Buffer.allocUnsafeSlow(Math.max(end, 2 * this.#bytes.length));
      this.#bytes.copy(bytes, 0, 0, at);
      this.#bytes = bytes;
    }
    this.#length = end;
    return at;
  }
}
