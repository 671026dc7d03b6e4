// How PgBouncer 1.24 follows prepared statements: clients that name the same text share one name of its own on a server
// connection, and each packet whose answer is expected is kept until that answer has come.
//
// This is PgBouncer's prepare.c, and the queue of objects.c. Must not know sockets.
import { Message, utf8 } from "./messages.ts";

/** One text with its parameter types, whoever prepares it. */
export interface Shared {
  readonly id: number;
  readonly name: string;
  /** Parse without the name. */
  readonly rest: Uint8Array;
  readonly key: string;
  /** By how many clients and server connections it is held. */
  uses: number;
}

/** All statements that clients or server connections have. */
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
 * A packet whose answer is expected. `forward`: the client gets the answer. `skip`: the pooler has asked by itself.
 * `fake`: the server was not asked, and the pooler answers when it is its turn.
 */
export interface Outstanding {
  readonly letter: string;
  readonly action: "forward" | "skip" | "fake";
  /** What this Parse has prepared: it is not there if the Parse fails. */
  prepares?: Shared;
  /** What this Close has closed: it is still there if the Close does not run. */
  closes?: Shared;
}

/** The packets of one server connection that have not been answered, and the statements that it has. */
export class Tracked {
  readonly outstanding: Outstanding[] = [];
  /** The one that was used least recently comes first. */
  readonly statements = new Map<number, Shared>();
  readonly #shared: SharedStatements;

  constructor(shared: SharedStatements) {
    this.#shared = shared;
  }

  /** If the next answer that is expected is to one of these packets, it has come. `undefined`: it is another one. */
  pop(letters: string): Outstanding | undefined {
    const first = this.outstanding[0];
    if (!first || first.action === "fake" || !letters.includes(first.letter)) return undefined;
    this.outstanding.shift();
    if (first.closes) this.#shared.drop(first.closes);
    return first;
  }

  /** No answers come to the packets up to one of these. */
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

  /** It was used just now. */
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

/** The beginning of a Bind that is `length` bytes long, with another name: what is behind `end` follows as it is. */
export function bindHead(portal: string, { name }: Shared, length: number, end: number): Uint8Array {
  const head = new Message("B").string(portal).string(name).done();
  new DataView(head.buffer, head.byteOffset).setUint32(1, head.length - 1 + length - end);
  return head;
}

/** The text that ends at a zero from `at` on; `undefined`: its end has not come. */
export function textAt(bytes: Uint8Array, at: number): { readonly text: string; readonly end: number } | undefined {
  const end = bytes.indexOf(0, at);
  return end < 0 ? undefined : { text: Buffer.from(bytes.subarray(at, end)).toString("utf8"), end: end + 1 };
}

/** What the pooler itself tells a client that it ends. It has three fields. */
export function poolerError(code: string, reason: string): Uint8Array {
  const text = utf8(reason).subarray(0, 127);
  const message = new Message("E").byte(83).string("FATAL").byte(67).string(code);
  return message.byte(77).bytes(text).byte(0).byte(0).done();
}
