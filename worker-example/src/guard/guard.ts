// One client's session through the guard, with plain PostgreSQL on both sides. It handles one flight at a time: a
// Query, or the messages of the extended query protocol up to Sync.
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
// open: messages pass as they arrive, because a client may wait for an answer (Flush). After an error of the server or
// of the guard, messages are dropped up to Sync, as a server does.
//
// closing: the client's messages wait. Only one flight is on the wire, so that a cancel cannot hit another flight.
//
// The rollback undoes the settings that a function may have changed (`set_config`), so each flight begins in the same
// state as the first. The guard times each flight itself, because the client can switch off the server's timeout. The
// time runs from the first message to the end of the flight, and never pauses for a slow side. A session ends only in
// `guard`, whatever its state.
//
// Knows messages and the caps. Must not know sockets of a runtime, nor how tenants are told apart.
import type { Handover } from "pgz-edge";
import { Ended, errorResponse, joined, message, Messages, texts, type Message } from "./messages.ts";
import { mayPass } from "./reading.ts";

export interface Caps {
  /** Maximum rows of one flight, and bytes of its answer. */
  readonly rows: number;
  readonly bytes: number;
  /** Maximum bytes of one message of either side. The guard holds a whole message. */
  readonly message: number;
  /** Time limit of one flight, and of a login. */
  readonly milliseconds: number;
}

export interface Client {
  readonly messages: Messages;
  /** Resolves when the client has left, even while the guard is not reading. */
  readonly left: Promise<unknown>;
  /** Never rejects: a client whose connection broke counts as a client that has left. */
  write(bytes: Uint8Array): Promise<void>;
}

/** The client's messages and those that the guard adds around them, until the server is idle again. */
class Flight {
  /** Which of the three lines above the server is answering. */
  phase: "begin" | "client" | "rollback" = "begin";
  /** The client sent Query, so it does not expect the answers to Parse and Bind. */
  isQuery = false;
  /** The client has got an ErrorResponse. Of this flight it gets only ReadyForQuery after that. */
  hasFailed = false;
  /** The guard's error, sent after the answers to the client's earlier messages. The server has its Sync already. */
  refusal?: Uint8Array;
  rows = 0;
  bytes = 0;
  cancelling: Promise<void> = Promise.resolve();
  /** Called with the transaction status after a rollback. */
  rolledBack?: (status: string) => void;
}

/** An int16 of zero: no parameters, no formats. */
const NONE = new Uint8Array(2);
const EXECUTE = message("E", "", 0);
const BIND = message("B", "", "", NONE, NONE, NONE);
const BEGIN = joined([message("P", "", "begin read only", NONE), BIND, EXECUTE]);
const SYNC = message("S");
/** A rollback does not release the session's advisory locks, so they are released explicitly. */
const ROLLBACK = message("Q", "rollback; select pg_catalog.pg_advisory_unlock_all()");
const ONLY_READS = "the guard passes statements that only read: select, with, values, table, show, explain";
/** Parse, Bind, Describe, Execute, Close, Flush: what a flight may hold before its Sync. */
const EXTENDED = "PBDECH";

/** Passes flights until one side ends. Both sides have logged in, and the caller closes them. */
export async function guard(client: Client, server: Handover, caps: Caps): Promise<void> {
  const session = new Session(client, server, caps);
  try {
    await Promise.race([client.left, session.fromClient(), session.fromServer()]);
  } finally {
    session.isOver = true;
    if (session.isBusy) await server.cancel(); // no query continues for a client that has left
  }
}

/** @throws Ended when `work` takes longer than `milliseconds`. `work` then continues, and its result is ignored. */
export async function within<T>(milliseconds: number, work: Promise<T>): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  const late = new Promise<never>((_, reject) => {
    const words = `the guard gives one flight, or a login, ${milliseconds / 1000} s`;
    timer = setTimeout(() => reject(new Ended("25P04", words)), milliseconds);
  });
  return await Promise.race([work, late]).finally(() => clearTimeout(timer));
}

class Session {
  /** Set at the end of the session: the server's answer to the cancel is not for the client. */
  isOver = false;
  readonly #client: Client;
  readonly #server: Handover;
  readonly #caps: Caps;
  /** The flight in progress. */
  #flight: Flight | undefined;
  /** Messages for the server. They are sent before the guard waits for either side. */
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

  /** The client's next message, or `undefined` when the client leaves. */
  async #next(): Promise<Message | undefined> {
    const { messages } = this.#client;
    let next;
    while (!(next = messages.next())) {
      await this.#send();
      if (!(await messages.more())) return undefined;
    }
    return next.type === "X" ? undefined : next;
  }

  /** Runs a flight from its first message to its end. Returns `false` when the client leaves before Sync. */
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
      await flight.cancelling; // the cancel may have hit the rollback
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

  /** Refuses the flight at once, not at the client's Sync: the client may wait for the error before it sends Sync. */
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

  /** Returns the messages that the client gets for one message of the server. */
  #answered({ type, bytes }: Message): Uint8Array[] {
    const flight = this.#flight;
    if (!flight) return [bytes]; // the server ends an idle session
    if (type === "Z") return this.#ready(flight, bytes);
    if (flight.phase !== "client" && type === "S") return [bytes]; // a setting that the rollback restored
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
