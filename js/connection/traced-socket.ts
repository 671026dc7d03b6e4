// Option `debug`: prints each flight as one line, with the names of its messages.
//
//   pgz-edge #3 > Bind Describe Execute Sync (78 bytes): select * from users where id = $1
//   pgz-edge #3 < BindComplete RowDescription 10 DataRow CommandComplete ReadyForQuery (512 bytes, 1.4 ms)
//
// Knows the header of a message, and where Parse, Bind and Query hold a statement's name and text. Must not show a
// value, a password or a key: of everything else it prints the name and the length.
import type { Socket } from "../runtime/contract.ts";
import { shownSql } from "../util/shown-sql.ts";
import { BACKEND, FRONTEND, HEADER } from "../wasm/messages.ts";

/** Names of messages that may come first from a client, by their code: such a message has no type byte. */
const FIRST: Readonly<Record<number, string>> = { 80877102: "CancelRequest" };

/** Maximum number of characters of SQL in a line. */
const LONGEST_SQL = 300;

/** Bytes of the header of a client's first message, which has no type: a length and a code. */
const FIRST_HEADER = 8;

/** Splits the bytes of one direction into messages, however the chunks are cut. */
class Messages {
  readonly #names: Readonly<Record<string, string>>;
  /** The next message has no type byte, only its length and a code. */
  #isFirst: boolean;
  /** The beginning of a header whose rest has not arrived. */
  #begun: readonly number[] = [];
  /** Bytes of the current body that have not arrived. */
  #left = 0;

  constructor(names: Readonly<Record<string, string>>, isClient: boolean) {
    this.#names = names;
    this.#isFirst = isClient;
  }

  /** Whether every message so far has ended. */
  get areWhole(): boolean {
    return !this.#left && !this.#begun.length;
  }

  /** Yields each message that begins in these bytes. `body` is the part of it that has arrived. */
  *in(bytes: Uint8Array): Generator<{ name: string; body: Uint8Array }> {
    let at = 0;
    while (at < bytes.length) {
      if (this.#left) {
        const skipped = Math.min(this.#left, bytes.length - at);
        this.#left -= skipped;
        at += skipped;
        continue;
      }
      const size = this.#isFirst ? FIRST_HEADER : HEADER;
      const header = [...this.#begun, ...bytes.subarray(at, at + size - this.#begun.length)];
      at += header.length - this.#begun.length;
      this.#begun = header.length < size ? header : [];
      if (this.#begun.length) return;
      const view = new DataView(Uint8Array.from(header).buffer);
      // The length includes itself, but not the type byte. The core refuses a server that lies about it.
      this.#left = Math.max(0, this.#isFirst ? view.getInt32(0) - FIRST_HEADER : view.getInt32(1) - 4);
      yield { name: this.#name(view), body: bytes.subarray(at, at + this.#left) };
      this.#isFirst = false;
    }
  }

  #name(header: DataView): string {
    if (this.#isFirst) return FIRST[header.getInt32(4)] ?? "StartupMessage";
    const type = String.fromCharCode(header.getUint8(0));
    return this.#names[type] ?? `message ${JSON.stringify(type)}`;
  }
}

let sockets = 0;

/** Wraps a socket and passes a line about each of its flights to `print`. */
export function tracedSocket(socket: Socket, print: (line: string) => void): Socket {
  const flights = new Flights(`pgz-edge #${++sockets}`, print);
  const { address, isEncrypted, certificate, readsWhileIdle } = socket;
  return {
    ...{ address, isEncrypted, certificate, readsWhileIdle },
    ref: () => socket.ref?.(),
    unref: () => socket.unref?.(),
    async read(take) {
      const bytes = await socket.read(
        take &&
          ((offered) => {
            flights.received(offered);
            return take(offered);
          }),
      );
      if (bytes) flights.received(bytes);
      else flights.ended("the server closed it");
      return bytes;
    },
    write(bytes) {
      flights.sent(bytes);
      return socket.write(bytes);
    },
    flushed: () => socket.flushed?.(),
    startTls: (servername) => socket.startTls(servername),
    close() {
      flights.ended("closed");
      return socket.close();
    },
  };
}

class Flights {
  readonly #label: string;
  readonly #print: (line: string) => void;
  readonly #said = new Messages(FRONTEND, true);
  readonly #answers = new Messages(BACKEND, false);
  /** The texts of statements by name. */
  readonly #statements = new Map<string, string>();
  /** What has arrived since the last line. Equal messages in a row are counted together. */
  #came: { name: string; count: number }[] = [];
  #bytes = 0;
  #since = 0;
  #isOver = false;

  constructor(label: string, print: (line: string) => void) {
    this.#label = label;
    this.#print = print;
  }

  sent(bytes: Uint8Array): void {
    this.#flush();
    const names: { name: string; count: number }[] = [];
    const texts = new Set<string>();
    for (const { name, body } of this.#said.in(bytes)) {
      count(names, name);
      const text = this.#text(name, body);
      if (text) texts.add(text);
    }
    const sql = texts.size ? `: ${[...texts].join("; ")}` : "";
    this.#line(`> ${shown(names)} (${bytes.length} bytes)${sql}`);
    this.#since = performance.now();
  }

  received(bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    for (const { name, body } of this.#answers.in(bytes))
      count(this.#came, name === "ErrorResponse" ? `${name} ${sqlstate(body)}`.trim() : name);
    if (this.#came.at(-1)?.name === "ReadyForQuery" && this.#answers.areWhole) this.#flush();
  }

  ended(how: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#flush();
    this.#line(how);
  }

  #flush(): void {
    if (!this.#bytes) return;
    const took = (performance.now() - this.#since).toFixed(1);
    this.#line(`< ${shown(this.#came)} (${this.#bytes} bytes, ${took} ms)`);
    this.#came = [];
    this.#bytes = 0;
  }

  /** The SQL that a message runs. */
  #text(name: string, body: Uint8Array): string | undefined {
    if (name === "Query") return sqlOf(strings(body, 1)[0]);
    if (name === "Parse") {
      const [statement = "", text] = strings(body, 2);
      this.#statements.set(statement, sqlOf(text));
      return sqlOf(text);
    }
    if (name !== "Bind") return undefined;
    const [, statement = ""] = strings(body, 2);
    return statement ? this.#statements.get(statement) : undefined;
  }

  #line(text: string): void {
    try {
      this.#print(`${this.#label} ${text}`);
    } catch {
      // An exception in `print` must not break the connection.
    }
  }
}

function count(names: { name: string; count: number }[], name: string): void {
  const last = names.at(-1);
  if (last?.name === name) last.count++;
  else names.push({ name, count: 1 });
}

function shown(names: readonly { name: string; count: number }[]): string {
  const words = names.map(({ name, count }) => (count === 1 ? name : `${count} ${name}`));
  return words.join(" ") || "more of it";
}

/** The first `most` of these strings, each of which ends with a NUL. */
function strings(body: Uint8Array, most: number): string[] {
  const found: string[] = [];
  for (let at = 0; found.length < most;) {
    const end = body.indexOf(0, at);
    found.push(new TextDecoder().decode(body.subarray(at, end < 0 ? undefined : end)));
    if (end < 0) break;
    at = end + 1;
  }
  return found;
}

function sqlOf(text = ""): string {
  const line = shownSql(text).replace(/\s+/g, " ");
  return line.length > LONGEST_SQL ? `${line.slice(0, LONGEST_SQL)}…` : line;
}

/** The SQLSTATE among the fields of an ErrorResponse, each of which is a letter and a string. */
function sqlstate(fields: Uint8Array): string {
  return (
    strings(fields, 20)
      .find((field) => field.startsWith("C"))
      ?.slice(1) ?? ""
  );
}
