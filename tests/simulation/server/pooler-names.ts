// How PgBouncer 1.24 tracks prepared statements. Clients that name the same text share one name of the pooler's on a
// server connection. Each packet whose response is expected is kept until that response has arrived.
//
// This follows PgBouncer's prepare.c, and the queue of objects.c. Must not know sockets.
import { Message, utf8 } from "./messages.ts";

/** One text with its parameter types, whichever client prepares it. */
export interface Shared {
  readonly id: number;
  readonly name: string;
  /** Parse without the name. */
  readonly rest: Uint8Array;
  readonly key: string;
  /** The number of clients and server connections that hold the statement. */
  uses: number;
}

/** All statements of clients and server connections. */
export class SharedStatements {
  readonly #byKey = new Map<string, Shared>();
  #last = 0;

  get size(): number {
    return this.#byKey.size;
  }

  find(rest: Uint8Array): { readonly statement: Shared; readonly isNew: boolean } {
    const key = Buffer.from(rest).toString("latin1");
    const found = this.#byKey.get(key);
    if (found) return { statement: found, isNew: false };
    const id = ++this.#last;
    const statement = { id, name: `PGBOUNCER_${id}`, rest: rest.slice(), key, uses: 0 };
    this.#byKey.set(key, statement);
    return { statement, isNew: true };
  }

  drop(statement: Shared): void {
    if (--statement.uses === 0) this.#byKey.delete(statement.key);
  }
}

/**
 * A packet whose response is expected. `forward`: the client gets the response. `skip`: the pooler itself sent the
 * packet. `fake`: the server did not get the packet, and the pooler responds when it is the packet's turn.
 */
export interface Outstanding {
  readonly letter: string;
  readonly action: "forward" | "skip" | "fake";
  /** The statement that this Parse prepares. It does not exist if the Parse fails. */
  prepares?: Shared;
  /** The statement that this Close closes. It still exists if the Close does not run. */
  closes?: Shared;
}

/** The unanswered packets of one server connection, and the statements prepared on it. */
export class Tracked {
  readonly outstanding: Outstanding[] = [];
  /** The least recently used statement comes first. */
  readonly statements = new Map<number, Shared>();
  readonly #shared: SharedStatements;

  constructor(shared: SharedStatements) {
    this.#shared = shared;
  }

  /** Removes and returns the first expected packet if it is one of `letters`. Otherwise returns `undefined`. */
  pop(letters: string): Outstanding | undefined {
    const first = this.outstanding[0];
    if (!first || first.action === "fake" || !letters.includes(first.letter)) return undefined;
    this.outstanding.shift();
    if (first.closes) this.#shared.drop(first.closes);
    return first;
  }

  /** Removes the packets up to the first of these letters, because they get no response. */
  clearUntil(letters: string): void {
    for (let next; (next = this.outstanding.shift());) {
      if (next.prepares) this.remove(next.prepares);
      else if (next.closes) this.statements.set(next.closes.id, next.closes);
      if (letters.includes(next.letter)) return;
    }
  }

  add(statement: Shared): void {
    statement.uses++;
    this.statements.set(statement.id, statement);
  }

  remove(statement: Shared): void {
    if (this.statements.delete(statement.id)) this.#shared.drop(statement);
  }

  /** Marks the statement as just used. */
  touch(statement: Shared): void {
    this.statements.delete(statement.id);
    this.statements.set(statement.id, statement);
  }

  clear(): void {
    for (const statement of this.statements.values()) this.#shared.drop(statement);
    this.statements.clear();
  }

  /** The connection is closed. */
  end(): void {
    this.clear();
    for (const { closes } of this.outstanding.splice(0)) if (closes) this.#shared.drop(closes);
  }
}

export const parse = ({ name, rest }: Shared): Uint8Array => new Message("P").string(name).bytes(rest).done();
export const describeStatement = ({ name }: Shared): Uint8Array => new Message("D").byte(83).string(name).done();
export const closeStatement = ({ name }: Shared): Uint8Array => new Message("C").byte(83).string(name).done();

/** Returns the beginning of a Bind of `length` bytes, with another name. The bytes after `end` follow unchanged. */
export function bindHead(portal: string, { name }: Shared, length: number, end: number): Uint8Array {
  const head = new Message("B").string(portal).string(name).done();
  new DataView(head.buffer, head.byteOffset).setUint32(1, head.length - 1 + length - end);
  return head;
}

/** Returns the text from `at` to the next zero byte, or `undefined` if that byte has not arrived. */
export function textAt(bytes: Uint8Array, at: number): { readonly text: string; readonly end: number } | undefined {
  const end = bytes.indexOf(0, at);
  return end < 0 ? undefined : { text: Buffer.from(bytes.subarray(at, end)).toString("utf8"), end: end + 1 };
}

/** Returns the error that the pooler itself sends to a client before it closes the connection. It has three fields. */
export function poolerError(code: string, reason: string): Uint8Array {
  const text = utf8(reason).subarray(0, 127);
  const message = new Message("E").byte(83).string("FATAL").byte(67).string(code);
  return message.byte(77).bytes(text).byte(0).byte(0).done();
}
