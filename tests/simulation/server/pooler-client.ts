// A client's connection to the pooler: its login, the route of its packets to a server connection, and its end.
//
// This follows PgBouncer's client.c. Knows what each frontend message means for the pooler. Must not know what a server
// responds (pooler-server.ts), nor which client gets which server connection (pooler-pool.ts).
import type { Wire } from "../contract.ts";
import { PgError } from "./errors.ts";
import { authenticate } from "./login.ts";
import { authenticationOk, Fields, Message, parameterStatus, readStartup, readyForQuery } from "./messages.ts";
import type { Pool } from "./pooler-pool.ts";
import type { Pooler } from "./pooler.ts";
import {
  bindHead,
  describeStatement,
  closeStatement,
  parse,
  poolerError,
  textAt,
  type Outstanding,
  type Shared,
} from "./pooler-names.ts";
import { closeComplete, type ServerConnection } from "./pooler-server.ts";
import { PoolerSocket, type Packet, type Verdict } from "./pooler-socket.ts";
import { Variables } from "./pooler-variables.ts";
import { Process, type Doing } from "./process.ts";

const SSL_REQUEST = 80877103;
const GSSENC_REQUEST = 80877104;
const CANCEL_REQUEST = 80877102;

export type ClientState = "login" | "active" | "waiting" | "waiting cancel" | "active cancel";

export class PoolerClient extends PoolerSocket {
  state: ClientState = "login";
  link: ServerConnection | undefined;
  pool: Pool | undefined;
  user = "";
  /** The client has authenticated, and the pooler does not know the server's parameters yet. */
  waitsForWelcome = false;
  /** The number of ReadyForQuery that 1.18 still expects for this client. */
  expected = 0;
  /** When the client's first unanswered statement arrived. */
  askedAt: number | undefined;
  /** When the client last sent something. */
  heardAt: number;
  readonly connectedAt: number;
  readonly variables: Variables;
  /** The key of BackendKeyData, including the process id, which is random too. */
  key = new Uint8Array();
  /** For a CancelRequest: the server connection whose statement must be cancelled. */
  cancels: ServerConnection | undefined;
  readonly #pooler: Pooler;
  readonly #wire: Wire;
  readonly #statements = new Map<string, Shared>();
  #database = "";
  #login: Process | undefined;
  #password: ((body: Uint8Array) => void) | undefined;
  /** Whether the login is over. */
  #isKnown = false;

  constructor(pooler: Pooler, wire: Wire) {
    super();
    this.#pooler = pooler;
    this.#wire = wire;
    this.connectedAt = this.heardAt = pooler.clock.now;
    this.variables = new Variables(pooler.version);
  }

  // -- the connection -------------------------------------------------------------------------------------------------

  send(bytes: Uint8Array): void {
    if (!this.isClosed) this.#wire.send(bytes);
  }

  protected hangUp(isClean: boolean): void {
    if (isClean) this.#wire.end();
    else this.#wire.reset();
  }

  protected get other(): PoolerSocket | undefined {
    return this.link;
  }

  protected badHeader(bytes: Uint8Array): void {
    const shown = Buffer.from(bytes.subarray(0, 8)).toString("hex");
    this.disconnect(true, `bad packet header: '${shown}'`);
  }

  protected drained(): void {}

  protected lost(): void {
    this.disconnect(false, "client unexpected eof");
  }

  protected eventIsOver(): void {
    this.#pooler.eventIsOver();
  }

  /** Ends the connection. `tells`: the client gets the reason. */
  disconnect(tells: boolean, reason: string, code = "08P01"): void {
    if (this.isClosed) return;
    this.#pooler.note(`closes a client, ${this.state}: ${reason}`);
    const { link: server, state, cancels } = this;
    this.link = undefined;
    if (server && (state === "active" || state === "login")) this.#leave(server);
    else if (server && this.#pooler.version === "1.24") {
      server.client = undefined;
      server.disconnect(false, "client gave up on cancel request");
    }
    this.cancels = undefined;
    if (cancels?.canceling.delete(this) && cancels.state === "being canceled" && !cancels.canceling.size)
      this.pool?.release(cancels);
    if (tells && state !== "waiting cancel") this.send(poolerError(code, reason));
    this.forgetStatements();
    this.#pooler.left(this);
    this.close();
  }

  /**
   * Leaves a server connection. The connection can be released only if nothing is open on it and nothing is in flight.
   * 1.18 assumes that after each ReadyForQuery, though it may expect more of them.
   */
  #leave(server: ServerConnection): void {
    server.client = undefined;
    if (this.isWithinPacket) this.pool!.hasCutPackets = true;
    if (!server.isReady) server.disconnect(true, "client disconnect while server was not ready");
    else if (server.tracked.outstanding.length) server.disconnect(true, "client disconnected with query in progress");
    else {
      this.pool!.release(server);
      if (this.expected && !server.isClosed) this.pool!.hasStaleAnswers = true;
    }
  }

  forgetStatements(): void {
    for (const statement of this.#statements.values()) this.#pooler.statements.drop(statement);
    this.#statements.clear();
  }

  protected handle(packet: Packet): Verdict {
    this.heardAt = this.#pooler.clock.now;
    return this.#isKnown ? this.#atWork(packet) : this.#atLogin(packet);
  }

  // -- login ----------------------------------------------------------------------------------------------------------

  #atLogin(packet: Packet): Verdict {
    if (!packet.isWhole) {
      if (this.#pooler.version === "1.18") this.disconnect(true, "client sent partial pkt in startup phase");
      return "wait";
    }
    if (this.waitsForWelcome) return this.#finish() ? "skip" : "wait";
    if (packet.letter === "startup") return this.#atStartup(packet);
    if (packet.letter !== "p") this.disconnect(false, "bad packet");
    else if (!this.#password) this.disconnect(true, "client password pkt before startup packet");
    else {
      const answer = this.#password;
      this.#password = undefined;
      answer(packet.bytes.subarray(5));
    }
    return this.isClosed || this.waitsForWelcome ? "wait" : "skip";
  }

  #atStartup({ bytes, hasMore }: Packet): Verdict {
    const fields = new Fields(bytes.subarray(4));
    const code = fields.int32();
    if (code === SSL_REQUEST || code === GSSENC_REQUEST) {
      const isSsl = code === SSL_REQUEST;
      if (hasMore) {
        this.disconnect(true, `received unencrypted data after ${isSsl ? "SSL" : "GSSAPI encryption"} request`);
        return "wait";
      }
      this.send(Uint8Array.of(isSsl && this.#pooler.options.tls ? 83 : 78));
      return "skip";
    }
    if (code === CANCEL_REQUEST) {
      if (this.state !== "login") return "wait";
      this.#pooler.cancel(this, fields.rest());
      return "wait";
    }
    const [major, minor] = [code >>> 16, code & 0xffff];
    if (code === 2 << 16) {
      this.disconnect(true, "old V2 protocol not supported");
      return "wait";
    }
    if (major !== 3 || (this.#pooler.version === "1.18" && minor > 1)) {
      this.badHeader(bytes);
      return "wait";
    }
    if (this.#login || this.pool) {
      this.disconnect(true, "client re-sent startup pkt");
      return "wait";
    }
    this.#start(readStartup(fields), minor > 0);
    return this.isClosed || this.waitsForWelcome ? "wait" : "skip";
  }

  #start(parameters: ReadonlyMap<string, string>, isNewer: boolean): void {
    const { version, options } = this.#pooler;
    const extensions: string[] = [];
    for (const [name, value] of parameters) {
      if (name === "user" || name === "database") continue;
      if (version === "1.24" && name === "options") this.#startupOptions(value);
      else if (version === "1.24" && name.startsWith("_pq_.")) extensions.push(name);
      else if (name !== "application_name" || !this.variables.set(name, value)) this.#startupParameter(name, value);
      if (this.isClosed) return;
    }
    this.user = parameters.get("user") ?? "";
    this.#database = parameters.get("database") || this.user;
    if (!this.user) return this.disconnect(true, "no username supplied");
    if (this.#pooler.clientCount > options.maxClientConnections)
      return this.disconnect(true, "no more connections allowed (max_client_conn)");
    if (version === "1.24" && (isNewer || extensions.length)) {
      const message = new Message("v").int32(3 << 16).int32(extensions.length);
      for (const name of extensions) message.string(name);
      this.send(message.done());
    }
    this.#authenticate();
  }

  #startupParameter(name: string, value: string): void {
    if (this.#pooler.version === "1.24" && name === "replication") return;
    if (this.variables.set(name, value) || this.#pooler.options.ignoredStartupParameters.includes(name)) return;
    this.disconnect(true, `unsupported startup parameter: ${name}`);
  }

  /** 1.24 reads `-c name=value` and `--name=value`. */
  #startupOptions(text: string): void {
    const { ignoredStartupParameters: ignored } = this.#pooler.options;
    for (let rest = text.trim(); rest;) {
      const found = /^(?:-c\s*|--)((?:\\[^]|[^\s\\])*)\s*/.exec(rest);
      const [name, ...value] = (found?.[1] ?? "").replace(/\\([^])/g, "$1").split("=");
      if (!found || !value.length)
        return this.disconnect(
          true,
          "unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed",
        );
      rest = rest.slice(found[0].length);
      if (this.variables.set(name!, value.join("=")) || ignored.includes(name!) || ignored.includes("options"))
        continue;
      return this.disconnect(true, `unsupported startup parameter in options: ${name}`);
    }
  }

  #authenticate(): void {
    const { options } = this.#pooler;
    const { user } = this;
    const method = typeof options.authentication === "function" ? options.authentication(user) : options.authentication;
    const password = options.roles[user]?.password;
    if (method === "trust") {
      if (password === undefined) this.disconnect(true, '"trust" authentication failed');
      else this.#finish();
      return;
    }
    const talk = {
      // AuthenticationOk is part of the welcome.
      send: (message: Uint8Array) => void (isOk(message) || this.send(message)),
      flush: () => {},
      password: () => this.#nextPassword(),
    };
    this.#login = new Process(authenticate(method, { user, password }, talk, this.#pooler.dice), (error) => {
      if (error === undefined) return void this.#finish();
      if (!(error instanceof PgError)) throw error;
      const words = method === "scram-sha-256" ? "SASL authentication failed" : "password authentication failed";
      const { message } = error;
      const isOwn = /^(empty password|client selected an invalid SASL)/.test(message);
      this.disconnect(true, isOwn ? message : words);
    });
    this.#login.start();
  }

  *#nextPassword(): Doing<Uint8Array> {
    let body: Uint8Array | undefined;
    yield {
      kind: "command",
      begin: (wake) => {
        this.#password = (given) => {
          body = given;
          wake();
        };
        return () => {};
      },
    };
    return body!;
  }

  /**
   * The client has authenticated. Returns false if it waits for the pool's first login to the server, or was closed.
   */
  #finish(): boolean {
    const { options } = this.#pooler;
    if (options.databases && !options.databases.includes(this.#database)) {
      this.disconnect(true, `no such database: ${this.#database}`);
      return false;
    }
    this.pool ??= this.#pooler.poolOf(this.user, this.#database);
    this.pool.clients.add(this);
    this.state = "active";
    if (!this.pool.isWelcomeReady) {
      this.waitsForWelcome = true;
      this.pool.wait(this);
      if (!this.#pooler.isPaused) this.pool.launch();
      return false;
    }
    this.waitsForWelcome = false;
    this.#isKnown = true;
    this.#welcome(this.pool);
    return true;
  }

  #welcome(pool: Pool): void {
    this.variables.fillFrom(pool.variables);
    this.key = Uint8Array.from({ length: 8 }, () => this.#pooler.dice.below(256));
    if (this.#pooler.version === "1.24") this.key[0]! &= 0x7f;
    const parameters = [...pool.welcome, ...this.variables.all];
    this.send(
      Buffer.concat([
        authenticationOk(),
        ...parameters.map(([name, value]) => parameterStatus(name, value)),
        new Message("K").bytes(this.key).done(),
        readyForQuery("I"),
      ]),
    );
  }

  // -- packets --------------------------------------------------------------------------------------------------------

  #atWork(packet: Packet): Verdict {
    const { letter } = packet;
    if (letter === "X") {
      this.disconnect(false, "client close request");
      return "wait";
    }
    if (!FORWARDED.has(letter)) {
      this.disconnect(true, "unknown pkt");
      return "wait";
    }
    const name = this.#pooler.tracksNames ? this.#statementOf(packet) : "";
    if (name === undefined) return "wait";
    if (name !== "" && letter === "C") return this.#close(name);
    this.askedAt ??= this.#pooler.clock.now;
    if (!this.pool!.find(this)) return "wait";
    const server = this.link!;
    server.isReady = false;
    if (name !== "") return this.#named(packet, name, server);
    if (this.#pooler.version === "1.18") this.expected += "QFS".includes(letter) ? 1 : 0;
    else if (TRACKED.has(letter)) this.#expect({ letter, action: "forward" });
    return "send";
  }

  /** Returns the statement name in this packet, or `undefined` if too little of the packet has arrived. */
  #statementOf({ letter, bytes, isWhole }: Packet): string | undefined {
    let found;
    if (letter === "P") found = textAt(bytes, 5);
    else if (letter === "B") {
      const portal = textAt(bytes, 5);
      found = portal && textAt(bytes, portal.end);
    } else if (letter === "D" || letter === "C") {
      if (bytes.length < 6) return undefined;
      if (bytes[5] !== 83) return "";
      found = textAt(bytes, 6);
    } else return "";
    if (!found && isWhole) this.disconnect(true, "failed to parse packet");
    if (letter === "P" && found?.text && !isWhole) return undefined;
    return found?.text;
  }

  #expect(outstanding: Outstanding): void {
    const server = this.link!;
    if (outstanding.action === "fake" && !server.tracked.outstanding.length)
      return server.answerFor(outstanding.letter, this);
    server.tracked.outstanding.push(outstanding);
  }

  /** Handles a packet with a statement name, for which the server has another name. */
  #named(packet: Packet, name: string, server: ServerConnection): Verdict {
    this.flush();
    if (packet.letter === "P") return this.#parse(packet, name, server);
    const statement = this.#statements.get(name);
    if (!statement) {
      this.disconnect(true, "prepared statement did not exist");
      return "wait";
    }
    if (server.tracked.statements.has(statement.id)) server.tracked.touch(statement);
    else this.#prepare(statement, server, "skip");
    this.#expect({ letter: packet.letter, action: "forward" });
    if (packet.letter === "D") {
      server.send(describeStatement(statement));
      return "skip";
    }
    const portal = textAt(packet.bytes, 5)!;
    const { end } = textAt(packet.bytes, portal.end)!;
    server.send(bindHead(portal.text, statement, packet.length, end));
    return { skips: end };
  }

  #parse({ bytes }: Packet, name: string, server: ServerConnection): Verdict {
    if (this.#statements.has(name)) {
      this.disconnect(true, "prepared statement name is already in use");
      return "wait";
    }
    const { statement, isNew } = this.#pooler.statements.find(bytes.subarray(textAt(bytes, 5)!.end));
    statement.uses++;
    this.#statements.set(name, statement);
    if (!isNew && server.tracked.statements.has(statement.id)) this.#expect({ letter: "P", action: "fake" });
    else this.#prepare(statement, server, "forward");
    return "skip";
  }

  /** Prepares the statement on this connection. The least recently used statements make room for it. */
  #prepare(statement: Shared, server: ServerConnection, action: "forward" | "skip"): void {
    const { tracked } = server;
    server.send(parse(statement));
    tracked.outstanding.push({ letter: "P", action, prepares: statement });
    tracked.add(statement);
    for (const old of [...tracked.statements.values()]) {
      if (tracked.statements.size <= this.#pooler.options.maxPreparedStatements) return;
      server.send(closeStatement(old));
      tracked.outstanding.push({ letter: "C", action: "skip", closes: old });
      tracked.statements.delete(old.id);
    }
  }

  /** Handles Close of a statement. The server keeps the statement. */
  #close(name: string): Verdict {
    const statement = this.#statements.get(name);
    this.#statements.delete(name);
    if (statement) this.#pooler.statements.drop(statement);
    if (this.link?.tracked.outstanding.length) this.#expect({ letter: "C", action: "fake" });
    else this.send(closeComplete);
    return "skip";
  }
}

const FORWARDED = new Set([..."QFSHcfPECBDd"]);
/** Packets to which 1.24 expects a response, and packets that end skipping. */
const TRACKED = new Set([..."QFScfPECBD"]);

const isOk = (message: Uint8Array): boolean => message[0] === 82 && message[8] === 0 && message.length === 9;
