// One client's session through the guard, plain PostgreSQL on both sides. It handles one flight at a time: a Query, or
// the messages of the extended protocol up to Sync.
//
//   client            guard                                       server
//   Query "select …"  ->  Parse Bind Execute "begin read only"    ->      if it fails, the server skips up to Sync
//                         Parse Bind Describe Execute Sync        ->      one statement: Query would take several
//                         Query "rollback; …"                     ->
//                     <-  what the second line is answered, cut at the caps, and the ReadyForQuery of the third
//
//              first message                Sync, or the end of the Query
//   idle ------------------------> open -----------------------------------> closing
//     ^                                                                         |
//     +---- the server is idle, and no cancel is under way; else rollback again +
//
// open: messages pass as they come, since a client may wait for an answer (Flush). Behind an error, of the server or
// of the guard, they are dropped up to Sync, as a server does.
// closing: what the client sends waits. Only one flight is on the wire, so that a cancel cannot meet another one.
//
// The rollback undoes what a function may have set (`set_config`), so each flight begins as the first. The clock of a
// flight is the guard's own: the client can switch off the server's. It runs from the first message to the end of the
// flight, and waits for nobody. `guard` is the one place where a session ends, in whatever state.
//
// Knows messages and the caps. Must not know sockets of a runtime, nor how tenants are told apart.
import type { Handover } from "pgz-edge";
import { Ended, errorResponse, joined, message, Messages, texts, type Message } from "./messages.ts";
import { mayPass } from "./reading.ts";

export interface Caps {
  /** Rows of one flight, and bytes of its answer. */
  readonly rows: number;
  readonly bytes: number;
  /** Bytes of one message of either side, which the guard holds. */
  readonly message: number;
  /** Of one flight, and of a login. */
  readonly milliseconds: number;
}

export interface Client {
  readonly messages: Messages;
  /** Resolves when it has left, also while nobody reads. */
  readonly left: Promise<unknown>;
  /** Never rejects: a client whose connection broke is one that has left. */
  write(bytes: Uint8Array): Promise<void>;
}

/** What the client sent and the guard put around it, until the server is idle again. */
class Flight {
  /** Which of the three lines above the server answers. */
  phase: "begin" | "client" | "rollback" = "begin";
  /** The client sent Query: it does not expect what Parse and Bind are answered. */
  isQuery = false;
  /** The client has an ErrorResponse, and gets no more of this flight but ReadyForQuery. */
  hasFailed = false;
  /** Said behind the answers to what came before it. The server has its Sync. */
  refusal?: Uint8Array;
  rows = 0;
  bytes = 0;
  cancelling: Promise<void> = Promise.resolve();
  /** Is told the transaction status behind a rollback. */
  rolledBack?: (status: string) => void;
}

/** An int16 of zero: no parameters, no formats. */
const NONE = new Uint8Array(2);
const EXECUTE = message("E", "", 0);
const BIND = message("B", "", "", NONE, NONE, NONE);
const BEGIN = joined([message("P", "", "begin read only", NONE), BIND, EXECUTE]);
const SYNC = message("S");
/** A rollback leaves advisory locks of the session. */
const ROLLBACK = message("Q", "rollback; select pg_catalog.pg_advisory_unlock_all()");
const ONLY_READS = "the guard passes statements that only read: select, with, values, table, show, explain";
/** Parse, Bind, Describe, Execute, Close, Flush: what a flight may hold before its Sync. */
const EXTENDED = "PBDECH";

/** Passes flights until one side ends. Both have logged in, and are the caller's to close. */
export async function guard(client: Client, server: Handover, caps: Caps): Promise<void> {
  const session = new Session(client, server, caps);
  try {
    await Promise.race([client.left, session.fromClient(), session.fromServer()]);
  } finally {
    session.isOver = true;
    if (session.isBusy) await server.cancel(); // nothing goes on for a client that has left
  }
}

/** @throws Ended when the work takes longer; it goes on, and nobody waits for it. */
export async function within<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => {
    const words = `the guard gives one flight, or a login, ${milliseconds / 1000} s`;
    timer = setTimeout(() => reject(new Ended("25P04", words)), milliseconds);
  });
  return await Promise.race([work, late]).finally(() => clearTimeout(timer));
}

class Session {
  /** What the server says to the cancel is not the client's. */
  isOver = false;
  readonly #client: Client;
  readonly #server: Handover;
  readonly #caps: Caps;
  /** The one that is not over. */
  #flight: Flight | undefined;
  /** For the server, until the guard waits for somebody. */
  #out: Uint8Array[] = [];

  constructor(client: Client, server: Handover, caps: Caps) {
    this.#client = client;
    this.#server = server;
    this.#caps = caps;
  }

  get isBusy(): boolean {
    return this.#flight !== undefined;
  }

  // -- what the client sends ------------------------------------------------------------------------------------------

  async fromClient(): Promise<void> {
    for (let first; (first = await this.#next());)
      if (!(await within(this.#caps.milliseconds, this.#fly(first)))) return;
  }

  /** The client's next message; `undefined` when it leaves. */
  async #next(): Promise<Message | undefined> {
    const { messages } = this.#client;
    let next;
    while (!(next = messages.next())) {
      await this.#send();
      if (!(await messages.more())) return undefined;
    }
    return next.type === "X" ? undefined : next;
  }

  /** A flight, from its first message to the end. `false`: the client has left in the middle. */
  async #fly(first: Message): Promise<boolean> {
    const flight = (this.#flight = new Flight());
    this.#out.push(BEGIN);
    if (first.type === "Q") this.#query(flight, texts(first.bytes, 5)[0] ?? "");
    else
      for (let next: Message | undefined = first; next?.type !== "S"; next = await this.#next()) {
        if (!next) return false;
        this.#extended(flight, next);
      }
    if (!flight.refusal) this.#out.push(SYNC);
    for (let status = ""; status !== "I";) {
      const answer = new Promise<string>((resolve) => (flight.rolledBack = resolve));
      this.#out.push(ROLLBACK);
      await this.#send();
      status = await answer;
      await flight.cancelling; // it may have met the rollback
    }
    this.#flight = undefined;
    return true;
  }

  #query(flight: Flight, text: string): void {
    flight.isQuery = true;
    if (mayPass(text)) this.#out.push(message("P", "", text, NONE), BIND, message("D", "P"), EXECUTE);
    else this.#refuse(flight);
  }

  #extended(flight: Flight, { type, bytes }: Message): void {
    if (flight.hasFailed || flight.refusal) return;
    if (!EXTENDED.includes(type)) throw new Ended("0A000", "the guard passes queries only, one behind the other");
    if (type !== "P" || mayPass(texts(bytes, 5)[1] ?? "")) this.#out.push(bytes);
    else this.#refuse(flight);
  }

  /** It is said at once, and not behind the client's Sync, which may wait for it. */
  #refuse(flight: Flight): void {
    flight.refusal = errorResponse("ERROR", "25006", ONLY_READS);
    this.#out.push(SYNC);
  }

  async #send(): Promise<void> {
    const out = this.#out.splice(0);
    if (out.length) await this.#server.socket.write(joined(out));
  }

  // -- what the server answers ----------------------------------------------------------------------------------------

  async fromServer(): Promise<void> {
    const messages = new Messages(this.#caps.message, () => this.#server.socket.read());
    while ((await messages.more()) && !this.isOver) {
      const out: Uint8Array[] = [];
      for (let next; (next = messages.next());) out.push(...this.#answered(next));
      if (out.length) await this.#client.write(joined(out));
    }
  }

  /** What the client gets of a message of the server's. */
  #answered({ type, bytes }: Message): Uint8Array[] {
    const flight = this.#flight;
    if (!flight) return [bytes]; // the end of an idle session
    if (type === "Z") return this.#ready(flight, bytes);
    if (flight.phase !== "client" && type === "S") return [bytes]; // ParameterStatus of a setting that is back
    if (flight.phase === "rollback" || flight.hasFailed) return [];
    if (type === "E") return this.#failed(flight, bytes);
    if (flight.phase === "client") return this.#counted(flight, type, bytes);
    if (type === "C") flight.phase = "client";
    return [];
  }

  #ready(flight: Flight, bytes: Uint8Array): Uint8Array[] {
    if (flight.phase === "rollback") {
      const status = String.fromCharCode(bytes[5]!);
      flight.rolledBack!(status);
      return status === "I" ? [bytes] : [];
    }
    flight.phase = "rollback";
    return flight.refusal && !flight.hasFailed ? [flight.refusal] : [];
  }

  #failed(flight: Flight, error: Uint8Array): Uint8Array[] {
    flight.hasFailed = true;
    return [error];
  }

  #counted(flight: Flight, type: string, bytes: Uint8Array): Uint8Array[] {
    if (flight.isQuery && "12n".includes(type)) return [];
    const { rows, bytes: most } = this.#caps;
    flight.bytes += bytes.length;
    if (type === "D") flight.rows++;
    if (flight.rows <= rows && flight.bytes <= most) return [bytes];
    flight.cancelling = this.#server.cancel();
    return this.#failed(flight, errorResponse("ERROR", "54000", `the guard passes ${rows} rows and ${most} bytes`));
  }
}
