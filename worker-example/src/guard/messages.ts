// Messages of PostgreSQL's protocol as bytes: taken out of a stream, and the few that the guard says itself.
//
// Knows framing (https://www.postgresql.org/docs/current/protocol-message-formats.html). Must not know what may pass.

/** A message as it stood on the wire. `type` is its first byte as a letter; `""` for those of a startup. */
export interface Message {
  readonly type: string;
  readonly bytes: Uint8Array;
}

/** Takes whole messages out of chunks. A message longer than `longest` bytes is refused before it is kept. */
export class Messages {
  readonly #longest: number;
  #rest: Uint8Array = new Uint8Array();
  /** The first messages of a client have no type byte. */
  isStarting: boolean;

  constructor(longest: number, isStarting: boolean) {
    this.#longest = longest;
    this.isStarting = isStarting;
  }

  /** The next whole message of what was pushed. */
  next(): Message | undefined {
    //  type (1 byte, not in a startup)   length (int32, counts itself)   body
    const head = this.isStarting ? 0 : 1;
    if (this.#rest.length < head + 4) return undefined;
    const length = head + int32(this.#rest, head);
    if (length < head + 4 || length > this.#longest) throw new TooLong(this.#longest);
    if (this.#rest.length < length) return undefined;
    const bytes = this.#rest.subarray(0, length);
    this.#rest = this.#rest.subarray(length);
    return { type: head ? String.fromCharCode(bytes[0]!) : "", bytes };
  }

  /** The chunk is copied, since a socket may read the next one into the same memory. */
  push(chunk: Uint8Array): void {
    this.#rest = joined([this.#rest, chunk]);
  }
}

export class TooLong extends Error {
  constructor(longest: number) {
    super(`the guard passes no message of more than ${longest} bytes`);
  }
}

/** A message: strings end with a zero byte, numbers are int32. */
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
