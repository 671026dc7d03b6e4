// Messages of PostgreSQL's protocol as bytes: reads them from a stream, and builds the few that the guard sends itself.
//
// Knows framing (https://www.postgresql.org/docs/current/protocol-message-formats.html). Must not know what may pass.

/** A message as it was on the wire. `type` is its first byte as a letter, or `""` for the messages of a startup. */
export interface Message {
  readonly type: string;
  readonly bytes: Uint8Array;
}

/** Ends a session. The client is told the reason. */
export class Ended extends Error {
  readonly code: string;

  constructor(code: string, words: string) {
    super(words);
    this.code = code;
  }
}

/** Reads whole messages from what one side sends. A message that is too long is refused before it is buffered. */
export class Messages {
  /** Maximum bytes of one message. */
  longest: number;
  readonly #read: () => Promise<Uint8Array | null>;
  #rest: Uint8Array = new Uint8Array();

  constructor(longest: number, read: () => Promise<Uint8Array | null>) {
    this.longest = longest;
    this.#read = read;
  }

  /**
   * Returns the next whole message of the bytes read so far. A startup message has no type, but a code after its
   * length.
   */
  next(isStarting = false): Message | undefined {
    //  type (1 byte, not in a startup)   length (int32, counts itself)   body
    const head = isStarting ? 0 : 1;
    if (this.#rest.length < head + 4) return undefined;
    const length = head + int32(this.#rest, head);
    if (length < (isStarting ? 8 : 5)) throw new Ended("08P01", "a message's length is shorter than its header");
    if (length > this.longest)
      throw new Ended("54000", `the guard passes no message of more than ${this.longest} bytes`);
    if (this.#rest.length < length) return undefined;
    const bytes = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return { type: isStarting ? "" : String.fromCharCode(bytes[0]!), bytes };
  }

  /**
   * Waits for more bytes. Returns `false` at the end. Bytes are copied, because a socket may read the next ones into
   * the same memory.
   */
  async more(): Promise<boolean> {
    const chunk = await this.#read();
    if (chunk) this.#rest = joined([this.#rest, chunk]);
    return chunk !== null;
  }
}

/** Builds a message: strings end with a zero byte, numbers are int32. */
export function message(type: string, ...parts: readonly (string | number | Uint8Array)[]): Uint8Array {
  const body = joined(
    parts.map((part) => (typeof part === "object" ? part : typeof part === "string" ? text(part) : number(part))),
  );
  return joined([new TextEncoder().encode(type), number(body.length + 4), body]);
}

export function errorResponse(severity: "ERROR" | "FATAL", code: string, words: string): Uint8Array {
  return message("E", `S${severity}`, `V${severity}`, `C${code}`, `M${words}`, new Uint8Array(1));
}

export const int32 = (bytes: Uint8Array, at: number): number =>
  new DataView(bytes.buffer, bytes.byteOffset).getInt32(at);

/** The zero-terminated texts of a body, from `at` on. */
export function texts(bytes: Uint8Array, at: number): string[] {
  return new TextDecoder().decode(bytes.subarray(at)).split("\0").slice(0, -1);
}

export function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    all.set(piece, at);
    at += piece.length;
  }
  return all;
}

const text = (value: string): Uint8Array => new TextEncoder().encode(`${value}\0`);

function number(value: number): Uint8Array {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setInt32(0, value);
  return bytes;
}
