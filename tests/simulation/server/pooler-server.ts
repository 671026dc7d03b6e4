// A connection of the pooler to its server: its login, the responses for the client that borrows it, and its release.
//
// This follows PgBouncer's server.c. Knows what each backend message means for the pooler. Must not know how clients
// log in (pooler-client.ts), nor which client gets which connection (pooler-pool.ts).
import type { Accepted, Wire } from "../contract.ts";
import { Fields, Message, textOf } from "./messages.ts";
import type { PoolerClient } from "./pooler-client.ts";
import { ServerLogin } from "./pooler-login.ts";
import { Tracked, type Outstanding } from "./pooler-names.ts";
import type { Pool } from "./pooler-pool.ts";
import { PoolerSocket, type Packet, type Verdict } from "./pooler-socket.ts";
import { Variables } from "./pooler-variables.ts";

const TERMINATE = new Message("X").done();
const PARSE_COMPLETE = new Message("1").done();
const CLOSE_COMPLETE = new Message("3").done();
const CANCEL_REQUEST = 80877102;

export type ServerState = "login" | "idle" | "active" | "active cancel" | "being canceled";

export class ServerConnection extends PoolerSocket {
  state: ServerState = "login";
  /** Can be released: no transaction is open, and no client has sent anything since. */
  isReady = false;
  /** Runs the SET that comes before its client's first statement. */
  isSetting = false;
  /** Must be closed once it is released. */
  isObsolete = false;
  client: PoolerClient | undefined;
  /** Clients that want to cancel the statement that runs here. */
  readonly canceling = new Set<PoolerClient>();
  readonly connectedAt: number;
  /** When the server last sent something. */
  heardAt: number;
  /** The key of BackendKeyData, including the process id. */
  key = new Uint8Array(8);
  readonly variables: Variables;
  readonly tracked: Tracked;
  readonly #pool: Pool;
  readonly #login: ServerLogin;
  #remote: Accepted | undefined;
  #isCopying = false;
  #hasFailed = false;

  constructor(pool: Pool) {
    super();
    const { pooler } = pool;
    this.#pool = pool;
    this.connectedAt = this.heardAt = pooler.clock.now;
    this.variables = new Variables(pooler.version);
    this.tracked = new Tracked(pooler.statements);
    this.#login = new ServerLogin(pool, pooler.dice);
    pooler.later(() => this.#connect());
  }

  // -- the connection -------------------------------------------------------------------------------------------------

  #connect(): void {
    if (this.isClosed) return;
    const { pooler } = this.#pool;
    let isRefused = false;
    let isAccepting = true;
    const wire: Wire = {
      send: (bytes) => pooler.later(() => this.receive(bytes)),
      end: () => pooler.later(() => this.ended()),
      reset: () => {
        if (isAccepting) isRefused = true;
        else pooler.later(() => this.wasReset());
      },
    };
    this.#remote = pooler.server.accept(wire);
    isAccepting = false;
    if (isRefused) this.disconnect(false, "connect failed");
    else this.#connected();
    pooler.eventIsOver();
  }

  #connected(): void {
    this.heardAt = this.#pool.pooler.clock.now;
    if (this.#pool.cancels.length) return this.#forwardCancel();
    const { database, user } = this.#pool;
    const startup = new Message(" ")
      .int32(3 << 16)
      .string("database")
      .string(database)
      .string("user")
      .string(user);
    this.send(startup.byte(0).done().subarray(1));
  }

  #forwardCancel(): void {
    const request = this.#pool.cancels[0]!;
    const target = request.cancels;
    if (!target) {
      request.disconnect(false, "not sending cancel request for client that is now idle");
      // Only the cancel has failed, not the connect.
      this.isReady = true;
      return this.disconnect(false, "failed to send cancel req");
    }
    this.client = request;
    request.link = this;
    this.send(new Message(" ").int32(CANCEL_REQUEST).bytes(target.key).done().subarray(1));
    this.#pool.cancels.shift();
    request.state = "active cancel";
    this.state = "active cancel";
  }

  send(bytes: Uint8Array): void {
    const remote = this.#remote;
    this.#pool.pooler.later(() => remote?.receive(bytes));
  }

  /** Sends a statement of the pooler itself. */
  query(text: string): void {
    this.send(new Message("Q").string(text).done());
  }

  protected hangUp(isClean: boolean): void {
    const remote = this.#remote;
    this.#pool.pooler.later(() => (isClean ? remote?.ended() : remote?.wasReset()));
  }

  protected get other(): PoolerSocket | undefined {
    return this.client;
  }

  protected badHeader(): void {
    this.disconnect(true, "bad pkt header");
  }

  protected lost(): void {
    const isCancel = this.state === "active cancel";
    this.disconnect(false, isCancel ? "successfully sent cancel request" : "server conn crashed?");
  }

  protected eventIsOver(): void {
    this.#pool.pooler.eventIsOver();
  }

  /** Ends the connection, and informs its client. `terminates`: the server gets Terminate. */
  disconnect(terminates: boolean, reason: string): void {
    if (this.isClosed) return;
    this.#pool.pooler.note(`closes a server connection, ${this.state}: ${reason}`);
    this.#pool.left(this, reason);
    const isLoggingIn = this.state === "login";
    if (terminates && !(isLoggingIn && this.isReady)) this.send(TERMINATE);
    this.tracked.end();
    this.close();
  }

  // -- packets --------------------------------------------------------------------------------------------------------

  protected handle(packet: Packet): Verdict {
    this.heardAt = this.#pool.pooler.clock.now;
    return this.state === "login" ? this.#atLogin(packet) : this.#atWork(packet);
  }

  #atLogin(packet: Packet): Verdict {
    const { letter, bytes } = packet;
    if (!packet.isWhole) {
      this.disconnect(true, "partial pkt in login phase");
      return "wait";
    }
    const body = bytes.subarray(5);
    if (letter === "R") {
      const answer = this.#login.answer(body);
      if (answer) this.send(answer);
    } else if (letter === "S") this.#parameter(body, true);
    else if (letter === "K") this.key = body.slice(0, 8);
    else if (letter === "E") {
      this.#loginFailed(body);
      return "wait";
    } else if (letter === "Z") {
      this.isReady = true;
      this.#pool.isWelcomeReady = true;
      this.#pool.release(this);
      return this.isClosed ? "wait" : "skip";
    } else if (letter !== "N") this.disconnect(true, "unknown pkt from server");
    return "skip";
  }

  #loginFailed(body: Uint8Array): void {
    const { code, message } = errorIn(body);
    const reason = this.#pool.loginFailed(code, message);
    this.disconnect(true, reason);
  }

  #parameter(body: Uint8Array, isAtLogin: boolean): void {
    const fields = new Fields(body);
    const [name, value] = [fields.string(), fields.string()];
    this.variables.set(name, value);
    this.client?.variables.set(name, value);
    if (isAtLogin) this.#pool.addWelcome(name, value);
  }

  /** Handles a message of a connection that has logged in. */
  #atWork(packet: Packet): Verdict {
    const { letter, bytes, isWhole } = packet;
    const { client } = this;
    const isTracking = this.#pool.pooler.version === "1.24";
    let isReady = false;
    let answered: Outstanding | undefined;
    switch (letter) {
      case "Z":
        if (!isWhole) return "wait";
        isReady = bytes[5] === 73;
        if (isTracking) {
          answered = this.tracked.pop("SQF");
          if (!answered && this.#hasFailed) this.tracked.clearUntil("S");
          this.#hasFailed = false;
        } else if (client && !this.isSetting && client.expected) client.expected--;
        break;
      case "S":
        if (!isWhole) return "wait";
        this.#parameter(bytes.subarray(5), false);
        break;
      case "E":
        if (this.isSetting) {
          this.disconnect(true, "invalid server parameter");
          return "wait";
        }
        this.#copyEnded("cf");
        this.#hasFailed = true;
        break;
      case "C":
        if (isTracking && !this.#forgetsAll(packet)) return "wait";
        this.#copyEnded("c");
        if (isTracking) answered = this.tracked.pop("E");
        break;
      case "A":
        ({ isReady } = this);
        break;
      case "G":
      case "W":
      case "H":
        this.#isCopying ||= letter !== "H" || !isTracking;
        break;
      default:
        if (!KNOWN.has(letter)) {
          this.disconnect(true, "unknown pkt");
          return "wait";
        }
        if (isTracking && ANSWERS[letter]) answered = this.tracked.pop(ANSWERS[letter]);
    }
    this.isReady = isReady;
    if (this.isSetting || !client || client.isClosed) return "skip";
    if (answered?.action === "skip") return "skip";
    if (letter === "Z" && !client.expected && !this.tracked.outstanding.length) client.askedAt = undefined;
    if (isTracking) this.#fake(client);
    return "send";
  }

  /** ErrorResponse and CommandComplete end a COPY. */
  #copyEnded(letters: string): void {
    if (!this.#isCopying) return;
    this.#isCopying = false;
    if (this.#pool.pooler.version === "1.24") this.tracked.clearUntil(letters);
    // 1.18 does not know how many Syncs the COPY has swallowed.
    else if (this.client) this.client.expected = 0;
  }

  /**
   * After DISCARD ALL and DEALLOCATE ALL no statement is prepared. Returns whether enough of the message has arrived.
   */
  #forgetsAll({ bytes, length, isWhole }: Packet): boolean {
    if (length !== 20 && length !== 17) return true;
    if (!isWhole) return false;
    const tag = textOf(bytes.subarray(5, -1));
    if (tag === "DEALLOCATE ALL" || tag === "DISCARD ALL") {
      this.tracked.clear();
      this.client?.forgetStatements();
    }
    return true;
  }

  /** After this message the pooler sends its own responses whose turn has come. */
  #fake(client: PoolerClient): void {
    const { outstanding } = this.tracked;
    while (outstanding[0]?.action === "fake") this.answerFor(outstanding.shift()!.letter, client);
  }

  /** Sends the response to a Parse or Close that the server does not get. It leaves with the next message. */
  answerFor(letter: string, client: PoolerClient): void {
    this.inject(letter === "P" ? PARSE_COMPLETE : CLOSE_COMPLETE, client);
  }

  protected drained(): void {
    if (!this.isReady) return;
    const { client } = this;
    if (this.isSetting && client) {
      if (this.#pool.pooler.version === "1.24") client.variables.spellAs(this.variables);
      this.isSetting = false;
      return client.resume();
    }
    if (this.state !== "active") return;
    if (client && (client.expected || this.tracked.outstanding.length)) return;
    this.#pool.release(this);
  }
}

/** Messages that only need to be forwarded. */
const KNOWN = new Set([..."123cdfInsDtTVN"]);
/** The packet to which each message responds. */
const ANSWERS: Record<string, string> = { 1: "P", 2: "B", 3: "C", n: "D", T: "D", I: "E", s: "E" };

function errorIn(body: Uint8Array): { code: string; message: string } {
  const fields = new Map<string, string>();
  for (const field of Buffer.from(body).toString("utf8").split("\0")) fields.set(field[0] ?? "", field.slice(1));
  return { code: fields.get("C") ?? "", message: fields.get("M") ?? "" };
}

export const closeComplete = CLOSE_COMPLETE;
