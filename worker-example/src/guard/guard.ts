// One client's session through the guard: plain PostgreSQL on both sides.
//
//   client            guard                                server
//   Query "select …"  ->  Query "begin read only"          ->
//                         Parse Bind Describe Execute Sync ->      one statement: Query would take several
//                         Query "rollback"                 ->
//                     <-  what the middle one is answered, cut at the caps, and one ReadyForQuery
//
// A flight of the extended protocol, Parse to Sync, is framed in the same way. The rollback undoes what a function may
// have set (`set_config`), so each flight begins as the first.
//
// Knows messages and the caps. Must not know sockets of a runtime, nor how tenants are told apart.
import type { Handover } from "pgz-edge";
import { errorResponse, joined, message, Messages, texts, type Message } from "./messages.ts";
import { mayPass } from "./reading.ts";

/** Bytes from the client and to it. `read` gives `null` at the end; none rejects. */
export interface Channel {
  read(): Promise<Uint8Array | null>;
  write(bytes: Uint8Array): Promise<void>;
  close(): Promise<void>;
}

export interface Caps {
  /** Rows of one statement, and bytes of its answer. */
  readonly rows: number;
  readonly bytes: number;
  /** Bytes of one message of either side, which the guard holds. */
  readonly message: number;
}

/** The answers up to one ReadyForQuery: of our BEGIN, of what the client sent, of our ROLLBACK. */
interface Part {
  readonly of: "begin" | "client" | "rollback";
  /** The client sent Query: it does not expect what Parse and Bind are answered. */
  readonly isQuery?: boolean;
  /** Said behind the answers of this part. */
  refusal?: Uint8Array;
}

const BEGIN = message("Q", "begin read only");
const ROLLBACK = message("Q", "rollback");
const SYNC = message("S");
/** An int16 of zero: no parameters, no formats. */
const NONE = new Uint8Array(2);
const ONLY_READS = "the guard passes statements that only read: select, with, values, table, show, explain";
/** Parse, Bind, Describe, Execute, Close, Flush: what a flight may hold before its Sync. */
const EXTENDED = "PBDECH";

/** Passes messages until one side ends. The login of both has been done, and both are the caller's to close. */
export async function guard(client: Channel, server: Handover, caps: Caps): Promise<void> {
  const session = new Session(client, server, caps);
  await Promise.race([session.fromClient(), session.fromServer()]);
}

class Session {
  readonly #client: Channel;
  readonly #server: Handover;
  readonly #caps: Caps;
  /** The answers that are under way, in order. */
  readonly #parts: Part[] = [];
  /** The flight whose Sync has not come. Once it has a refusal, the rest of it is dropped, as by a server. */
  #flight: Part | undefined;
  /** Of the client's part that is being answered. */
  #rows = 0;
  #bytes = 0;
  #isCut = false;
  #cancelling: Promise<void> = Promise.resolve();

  constructor(client: Channel, server: Handover, caps: Caps) {
    this.#client = client;
    this.#server = server;
    this.#caps = caps;
  }

  // -- what the client sends ------------------------------------------------------------------------------------------

  async fromClient(): Promise<void> {
    const messages = new Messages(this.#caps.message, false);
    for (let chunk; (chunk = await this.#client.read());) {
      messages.push(chunk);
      const out: Uint8Array[] = [];
      for (let next; (next = messages.next());) {
        if (next.type === "X") return;
        out.push(...this.#asked(next));
      }
      await this.#cancelling; // it must not meet the next flight
      if (out.length) await this.#server.socket.write(joined(out));
    }
  }

  /** What the server is sent for a message of the client's. */
  #asked({ type, bytes }: Message): Uint8Array[] {
    if (type === "Q") return [...this.#query(texts(bytes, 5)[0] ?? ""), ...this.#synced()];
    const begin = this.#begun({ of: "client" });
    if (type === "S") return [...begin, ...this.#synced()];
    if (!EXTENDED.includes(type)) return [...begin, ...this.#refused("0A000", "the guard passes queries only")];
    if (type === "P" && !mayPass(texts(bytes, 5)[1] ?? "")) return [...begin, ...this.#refused("25006", ONLY_READS)];
    return this.#flight?.refusal ? [] : [...begin, bytes];
  }

  #query(text: string): Uint8Array[] {
    const begin = this.#begun({ of: "client", isQuery: true });
    if (!mayPass(text)) return [...begin, ...this.#refused("25006", ONLY_READS)];
    const [parse, bind] = [message("P", "", text, NONE), message("B", "", "", NONE, NONE, NONE)];
    return [...begin, parse, bind, message("D", "P"), message("E", "", 0)];
  }

  #begun(part: Part): Uint8Array[] {
    if (this.#flight) return [];
    this.#flight = part;
    this.#parts.push({ of: "begin" }, part);
    return [BEGIN];
  }

  /** The refusal leaves behind what came before it, and does not wait for the client's Sync, which may wait for it. */
  #refused(code: string, words: string): Uint8Array[] {
    const flight = this.#flight!;
    if (flight.refusal) return [];
    flight.refusal = errorResponse("ERROR", code, words);
    return [SYNC];
  }

  #synced(): Uint8Array[] {
    const isSynced = this.#flight!.refusal !== undefined;
    this.#flight = undefined;
    this.#parts.push({ of: "rollback" });
    return isSynced ? [ROLLBACK] : [SYNC, ROLLBACK];
  }

  // -- what the server answers ----------------------------------------------------------------------------------------

  async fromServer(): Promise<void> {
    const messages = new Messages(this.#caps.message, false);
    for (let chunk; (chunk = await this.#server.socket.read());) {
      messages.push(chunk);
      const out: Uint8Array[] = [];
      for (let next; (next = messages.next());) out.push(...this.#answered(next));
      if (out.length) await this.#client.write(joined(out));
    }
  }

  /** What the client gets of a message of the server's. */
  #answered({ type, bytes }: Message): Uint8Array[] {
    const part = this.#parts[0];
    if (!part || type === "S") return [bytes]; // ParameterStatus, or the end of an idle session
    if (type === "Z") return this.#ready(bytes);
    if (part.of === "client")
      return this.#isCut || (part.isQuery && "12n".includes(type)) ? [] : this.#counted(type, bytes);
    if (type !== "E") return [];
    // Without our BEGIN nothing may run: the end of the connection ends the session.
    void this.#server.socket.close();
    return [bytes];
  }

  #ready(bytes: Uint8Array): Uint8Array[] {
    const { of, refusal } = this.#parts.shift()!;
    if (of === "begin") return [];
    if (of === "rollback") return [bytes];
    [this.#rows, this.#bytes, this.#isCut] = [0, 0, false];
    return refusal ? [refusal] : [];
  }

  #counted(type: string, bytes: Uint8Array): Uint8Array[] {
    const { rows, bytes: most } = this.#caps;
    this.#bytes += bytes.length;
    if (type === "D") this.#rows++;
    if (this.#rows <= rows && this.#bytes <= most) return [bytes];
    this.#isCut = true;
    this.#cancelling = this.#server.cancel();
    return [errorResponse("ERROR", "54000", `the guard passes ${rows} rows and ${most} bytes of an answer`)];
  }
}
