// The server connections of one user and database, and the clients that wait for a connection.
//
// This follows the middle of PgBouncer's objects.c, and the part of janitor.c that a pool needs. Knows which client
// gets which connection, and when a connection is opened, released and closed. Must not know messages.
import type { Pooler } from "./pooler.ts";
import type { PoolerClient } from "./pooler-client.ts";
import { ServerConnection } from "./pooler-server.ts";
import { Variables } from "./pooler-variables.ts";

export class Pool {
  readonly pooler: Pooler;
  readonly user: string;
  readonly password: string;
  readonly database: string;
  readonly servers = new Set<ServerConnection>();
  /** The connection that was released last comes first, and is the next to be lent. */
  readonly idle: ServerConnection[] = [];
  readonly clients = new Set<PoolerClient>();
  readonly waiting: PoolerClient[] = [];
  /** CancelRequests that wait for a connection over which they can be forwarded. */
  readonly cancels: PoolerClient[] = [];
  /** The ParameterStatus messages of the first login, for clients. */
  readonly welcome: [string, string][] = [];
  readonly variables: Variables;
  isWelcomeReady = false;
  /**
   * Only in 1.18: a client has gone between the responses to its batch. The next client has received the rest of them,
   * or may yet.
   */
  hasStaleAnswers = false;
  /**
   * A client has gone in the middle of a packet, and the server may have read the Terminate as the rest of that packet.
   */
  hasCutPackets = false;
  #hasLoginFailed = false;
  #hasConnectFailed = false;
  #lastConnectAt = -Infinity;
  #lastFailure = "";
  #lastRetiredAt = -Infinity;

  constructor(pooler: Pooler, user: string, password: string, database: string) {
    this.pooler = pooler;
    this.user = user;
    this.password = password;
    this.database = database;
    this.variables = new Variables(pooler.version);
  }

  addWelcome(name: string, value: string): void {
    if (this.isWelcomeReady) return;
    if (!this.variables.set(name, value)) this.welcome.push([name, value]);
  }

  // -- clients --------------------------------------------------------------------------------------------------------

  /**
   * Lends `client` a connection. Returns false if the client waits for one or for its settings on it, or was closed.
   */
  find(client: PoolerClient): boolean {
    if (client.link) return true;
    const server = this.pooler.isPaused ? undefined : this.#firstIdle();
    if (!server) {
      if (!this.pooler.isPaused && !this.#checkFastFail(client)) return false;
      this.wait(client);
      return false;
    }
    const changes = client.variables.changesOf(server.variables);
    this.idle.splice(this.idle.indexOf(server), 1);
    client.link = server;
    server.client = client;
    server.state = "active";
    if (!changes) return true;
    this.pooler.note(`sends ${changes}`);
    server.isSetting = true;
    server.isReady = false;
    server.query(changes);
    client.pause();
    return false;
  }

  #firstIdle(): ServerConnection | undefined {
    for (let server; (server = this.idle[0]);) {
      if (server.isObsolete) server.disconnect(true, "obsolete connection");
      else if (!server.isReady) server.disconnect(true, "idle server got dirty");
      else return server;
    }
    return undefined;
  }

  /** Rejects a client if the last login to the server failed and no connection is left. Else returns true. */
  #checkFastFail(client: PoolerClient): boolean {
    if (!this.#hasLoginFailed || [...this.servers].some(({ state }) => state !== "login")) return true;
    const why = this.pooler.version === "1.24" ? `cached error: ${this.#lastFailure} (` : "try again later (";
    client.disconnect(true, `server login has been failing, ${why}server_login_retry)`);
    this.launch();
    return false;
  }

  wait(client: PoolerClient): void {
    client.state = "waiting";
    this.waiting.push(client);
    client.pause();
  }

  #activate(client: PoolerClient): void {
    this.waiting.splice(this.waiting.indexOf(client), 1);
    client.state = "active";
    client.resume();
  }

  /** Gets connections for waiting clients and cancels. */
  serveWaiting(): void {
    if (this.cancels.length) return this.launch();
    for (const client of [...this.waiting]) {
      if (client.isClosed || client.state !== "waiting") continue;
      if (!this.idle.length) return this.launch();
      if (client.waitsForWelcome && !this.isWelcomeReady) this.launch();
      else this.#activate(client);
    }
  }

  // -- server connections ---------------------------------------------------------------------------------------------

  /** Opens a connection if the limit allows it. Only one connection logs in at a time. */
  launch(): void {
    const { options, clock } = this.pooler;
    if ([...this.servers].some(({ state }) => state === "login")) return;
    if (this.#hasConnectFailed && clock.now - this.#lastConnectAt < options.serverLoginRetry) return;
    const count = this.servers.size;
    const isForCancel = this.cancels.length && count < 2 * options.poolSize;
    if (!isForCancel && count >= options.poolSize && this.isWelcomeReady) return;
    this.#lastConnectAt = clock.now;
    this.servers.add(new ServerConnection(this));
  }

  /** Takes back a connection that has logged in, or that its client no longer needs. */
  release(server: ServerConnection): void {
    const { clock } = this.pooler;
    const wasLogin = server.state === "login";
    if (wasLogin) this.#hasLoginFailed = this.#hasConnectFailed = false;
    else if (server.client) {
      server.client.link = undefined;
      server.client = undefined;
    }
    for (const request of server.canceling)
      if (request.state === "waiting cancel") {
        request.cancels = undefined;
        server.canceling.delete(request);
      }
    if (!wasLogin && this.#isTooOld(server)) {
      server.disconnect(true, "server lifetime over");
      this.#lastRetiredAt = clock.now;
      return;
    }
    if (server.tracked.outstanding.length) server.disconnect(true, "client disconnected with queries in progress");
    else if (server.isObsolete) server.disconnect(true, "close_needed");
    else if (server.canceling.size) server.state = "being canceled";
    else {
      server.state = "idle";
      this.idle.unshift(server);
      const [next] = this.waiting;
      if (next) this.#activate(next);
    }
  }

  /** Lifetimes end one after the other, not all at once. */
  #isTooOld(server: ServerConnection): boolean {
    return this.pooler.clock.now >= this.#retiresAt(server);
  }

  #retiresAt({ connectedAt }: ServerConnection): number {
    const { serverLifetime, poolSize } = this.pooler.options;
    return Math.max(connectedAt + serverLifetime, this.#lastRetiredAt + serverLifetime / poolSize);
  }

  /** A connection is being closed: informs the clients that use it or cancel on it. */
  left(server: ServerConnection, reason: string): void {
    this.servers.delete(server);
    const at = this.idle.indexOf(server);
    if (at >= 0) this.idle.splice(at, 1);
    const { client, state } = server;
    if (state === "login") {
      this.#hasConnectFailed = !server.isReady;
      if (!server.isReady) {
        this.#hasLoginFailed = true;
        this.#lastFailure = reason.slice(0, 127);
      }
    }
    server.client = undefined;
    if (client) {
      client.link = undefined;
      client.disconnect(state !== "active cancel", reason);
    }
    for (const request of server.canceling) request.cancels = undefined;
    server.canceling.clear();
  }

  /** The server has refused a login. Returns the remembered reason. */
  loginFailed(code: string, message: string): string {
    const isOld = this.pooler.version === "1.18";
    if (isOld) {
      if (!this.isWelcomeReady)
        for (const client of this.waiting.filter(({ waitsForWelcome }) => waitsForWelcome))
          client.disconnect(true, message);
      return "login failed";
    }
    const isUsable = this.isWelcomeReady && [...this.servers].some(({ state }) => CONNECTED.has(state));
    // "The database system is starting up" is temporary.
    if (code !== "57P03" && !isUsable) for (const client of [...this.waiting]) client.disconnect(true, message, code);
    return message;
  }

  // -- time -----------------------------------------------------------------------------------------------------------

  /** The next time at which something is due by the clock alone. */
  get dueAt(): number {
    const { options, clock } = this.pooler;
    const retry = this.#lastConnectAt + options.serverLoginRetry;
    const needs = this.waiting.length + this.cancels.length;
    return Math.min(
      ...[...this.clients].map((client) => this.#clientDueAt(client)),
      ...[...this.cancels].map((request) => this.#cancelDueAt(request)),
      ...[...this.servers].map((server) => this.#serverDueAt(server)),
      needs && this.#hasConnectFailed && retry > clock.now ? retry : Infinity,
    );
  }

  #clientDueAt(client: PoolerClient): number {
    const { queryWaitTimeout, clientLoginTimeout } = this.pooler.options;
    if (client.state !== "waiting") return Infinity;
    const login = client.waitsForWelcome && !this.isWelcomeReady ? client.connectedAt + clientLoginTimeout : Infinity;
    return Math.min(login, (client.askedAt ?? client.heardAt) + (queryWaitTimeout || Infinity));
  }

  #cancelDueAt({ heardAt }: PoolerClient): number {
    const { queryWaitTimeout, cancelWaitTimeout } = this.pooler.options;
    return heardAt + ((this.pooler.version === "1.18" ? queryWaitTimeout : cancelWaitTimeout) || Infinity);
  }

  #serverDueAt(server: ServerConnection): number {
    const { serverConnectTimeout, serverIdleTimeout } = this.pooler.options;
    if (server.state === "login") return server.connectedAt + (serverConnectTimeout || Infinity);
    if (server.state !== "idle") return Infinity;
    if (server.isObsolete || !server.isReady) return server.heardAt;
    return Math.min(server.heardAt + (serverIdleTimeout || Infinity), this.#retiresAt(server));
  }

  /** Ends what has waited, or lived, for too long. */
  maintain(): void {
    const { now } = this.pooler.clock;
    for (const client of [...this.clients]) {
      if (client.isClosed || this.#clientDueAt(client) > now) continue;
      const isQuery = (client.askedAt ?? client.heardAt) + this.pooler.options.queryWaitTimeout <= now;
      client.disconnect(true, isQuery ? "query_wait_timeout" : "client_login_timeout (server down)");
    }
    for (const request of [...this.cancels])
      if (this.#cancelDueAt(request) <= now) request.disconnect(false, "cancel_wait_timeout");
    for (const server of [...this.servers]) {
      if (server.isClosed) continue;
      if (server.state === "idle" && server.isObsolete) server.disconnect(true, "database configuration changed");
      else if (server.state === "idle" && !server.isReady) server.disconnect(true, "SV_IDLE server got dirty");
      else if (this.#serverDueAt(server) <= now) this.#expire(server, now);
    }
  }

  #expire(server: ServerConnection, now: number): void {
    if (server.state === "login") return server.disconnect(true, "connect timeout");
    const isIdle = server.heardAt + this.pooler.options.serverIdleTimeout <= now;
    server.disconnect(true, isIdle ? "server idle timeout" : "server lifetime over");
    if (!isIdle) this.#lastRetiredAt = now;
  }

  // -- the console ----------------------------------------------------------------------------------------------------

  /** RECONNECT: each connection is closed when it is released, and the server's parameters are read again. */
  reconnect(): void {
    this.isWelcomeReady = false;
    this.welcome.length = 0;
    for (const server of [...this.servers])
      if (server.state === "login") server.disconnect(true, "connect string changed");
      else server.isObsolete = true;
  }

  /** PAUSE closes unused connections. */
  closeIdle(): void {
    for (const server of [...this.servers])
      if (server.state === "idle" || server.state === "login") server.disconnect(true, "pause mode");
  }

  /** KILL. */
  kill(): void {
    const reason = "database removed";
    for (const client of [...this.clients, ...this.cancels]) client.disconnect(true, reason);
    for (const server of [...this.servers]) server.disconnect(true, reason);
  }
}

const CONNECTED = new Set(["active", "being canceled", "idle"]);
