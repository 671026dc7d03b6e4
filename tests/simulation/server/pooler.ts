// PgBouncer in transaction mode, in memory: it accepts connections, and lends each client a server connection for one
// transaction at a time.
//
//   const server = new Server(clock, dice, …)
//   const pooler = new Pooler(clock, dice, server, { version: "1.18", authentication: "scram-sha-256", roles })
//   network.addHost("pooler.example", pooler)
//
// 1.18 knows nothing of prepared statements: a name exists on whichever server connection it reached. 1.24 tracks
// names. The parts follow PgBouncer's own sources, file by file:
//
//   pooler-socket.ts  sbuf.c      pooler-client.ts  client.c      pooler-names.ts      prepare.c
//   pooler-pool.ts    objects.c   pooler-server.ts  server.c      pooler-variables.ts  varcache.c
//
// Knows which clients may connect, cancel requests, the console's commands, and what a check reads. Nothing here or
// below uses real time, real randomness or a real socket.
import type { Accepted, Clock, Dice, Host, Timer, Wire } from "../contract.ts";
import type { Method } from "./login.ts";
import { PoolerClient, type ClientState } from "./pooler-client.ts";
import { SharedStatements } from "./pooler-names.ts";
import { Pool } from "./pooler-pool.ts";
import type { ServerState } from "./pooler-server.ts";

export type PoolerVersion = "1.18" | "1.24";

/** Times are in milliseconds; 0 means none. The defaults are PgBouncer's. */
export interface PoolerOptions {
  readonly version: PoolerVersion;
  readonly authentication: Method | ((user: string) => Method);
  /** The pooler logs in to the server with these passwords too. */
  readonly roles: Readonly<Record<string, { readonly password: string }>>;
  /** Without a list the server decides about each name, as with `* =` in PgBouncer's configuration. */
  readonly databases?: readonly string[];
  /** Responds to SSLRequest with `S`. The bytes after it are unencrypted. */
  readonly tls?: boolean;
  /** Maximum number of server connections for each user and database. */
  readonly poolSize?: number;
  readonly maxClientConnections?: number;
  /** Only in 1.24, for each server connection. 0: names are not tracked. */
  readonly maxPreparedStatements?: number;
  readonly ignoredStartupParameters?: readonly string[];
  readonly queryWaitTimeout?: number;
  readonly cancelWaitTimeout?: number;
  readonly clientLoginTimeout?: number;
  readonly serverLifetime?: number;
  readonly serverIdleTimeout?: number;
  readonly serverConnectTimeout?: number;
  readonly serverLoginRetry?: number;
  /** One-way delay between the pooler and the server. */
  readonly delay?: number;
}

const DEFAULTS = {
  poolSize: 20,
  maxClientConnections: 100,
  maxPreparedStatements: 200,
  ignoredStartupParameters: [] as readonly string[],
  queryWaitTimeout: 120_000,
  cancelWaitTimeout: 10_000,
  clientLoginTimeout: 60_000,
  serverLifetime: 3_600_000,
  serverIdleTimeout: 600_000,
  serverConnectTimeout: 15_000,
  serverLoginRetry: 15_000,
  delay: 0.1,
};

/** PgBouncer checks three times a second what is due. */
const PERIOD = 1_000 / 3;

export interface ClientInfo {
  readonly user: string;
  readonly state: ClientState;
  readonly hasServer: boolean;
}

export interface ServerConnectionInfo {
  readonly user: string;
  readonly database: string;
  readonly state: ServerState;
  /** As the server reports it, or 0 before that. */
  readonly processId: number;
}

export class Pooler implements Host {
  readonly clock: Clock;
  readonly dice: Dice;
  readonly server: Host;
  readonly options: PoolerOptions & typeof DEFAULTS;
  /** Only in 1.24: the statements of all clients and server connections. */
  statements = new SharedStatements();
  isPaused = false;
  readonly #clients = new Set<PoolerClient>();
  readonly #pools = new Map<string, Pool>();
  #isListening = true;
  #timer: Timer | undefined;
  #timerAt = Infinity;
  /** The largest number of server connections that one pool had at once, including those that carry CancelRequests. */
  mostServerConnections = 0;

  constructor(clock: Clock, dice: Dice, server: Host, options: PoolerOptions) {
    this.clock = clock;
    this.dice = dice;
    this.server = server;
    this.options = { ...DEFAULTS, ...options };
  }

  get version(): PoolerVersion {
    return this.options.version;
  }

  get tracksNames(): boolean {
    return this.version === "1.24" && this.options.maxPreparedStatements > 0;
  }

  note(text: string): void {
    this.clock.note("pooler", text);
  }

  /** Schedules an event at the other end of a connection to the server. */
  later(event: () => void): void {
    this.clock.after(this.options.delay, event);
  }

  // -- accepting ------------------------------------------------------------------------------------------------------

  accept(wire: Wire): Accepted {
    if (!this.#isListening) {
      wire.reset();
      return { receive() {}, ended() {}, wasReset() {} };
    }
    const client = new PoolerClient(this, wire);
    this.#clients.add(client);
    this.eventIsOver();
    return client;
  }

  left(client: PoolerClient): void {
    this.#clients.delete(client);
    const { pool } = client;
    if (!pool) return;
    pool.clients.delete(client);
    for (const list of [pool.waiting, pool.cancels]) {
      const at = list.indexOf(client);
      if (at >= 0) list.splice(at, 1);
    }
  }

  get clientCount(): number {
    return this.#clients.size;
  }

  poolOf(user: string, database: string): Pool {
    const key = `${user}\0${database}`;
    let pool = this.#pools.get(key);
    if (!pool) {
      pool = new Pool(this, user, this.options.roles[user]!.password, database);
      this.#pools.set(key, pool);
    }
    return pool;
  }

  /** Forwards a CancelRequest to the client's current server connection, over a connection of its own. */
  cancel(request: PoolerClient, key: Uint8Array): void {
    if (key.length !== 8) return request.disconnect(false, "bad cancel request");
    const client = [...this.#clients].find((it) => it.key.length && it.key.every((byte, at) => byte === key[at]));
    if (!client) return request.disconnect(false, "failed cancel request");
    const server = client.link;
    if (!server) return request.disconnect(false, "cancel request for idle client");
    if (this.version === "1.24" && server.isSetting)
      return request.disconnect(false, "ignoring cancel request for server that is setting vars");
    request.cancels = server;
    server.canceling.add(request);
    request.pool = client.pool;
    request.state = "waiting cancel";
    client.pool!.cancels.push(request);
    if (this.version === "1.24") request.pause();
    client.pool!.launch();
  }

  // -- events ---------------------------------------------------------------------------------------------------------

  /** Does what PgBouncer does at the end of each turn of its loop. */
  eventIsOver(): void {
    for (const pool of this.#pools.values()) {
      if (this.isPaused) pool.closeIdle();
      else pool.serveWaiting();
      this.mostServerConnections = Math.max(this.mostServerConnections, pool.servers.size);
    }
    this.#schedule();
  }

  #schedule(): void {
    const login = [...this.#clients].filter(({ state }) => state === "login").map((it) => this.#loginDueAt(it));
    const due = Math.min(...login, ...[...this.#pools.values()].map(({ dueAt }) => dueAt));
    if (due === Infinity || due >= this.#timerAt) return;
    this.#timer?.cancel();
    const at = Math.max(due, this.clock.now);
    this.#timerAt = (Math.floor(at / PERIOD) + 1) * PERIOD;
    this.#timer = this.clock.after(this.#timerAt - this.clock.now, () => {
      this.#timer = undefined;
      this.#timerAt = Infinity;
      this.#maintain();
    });
  }

  #loginDueAt({ connectedAt }: PoolerClient): number {
    return connectedAt + (this.options.clientLoginTimeout || Infinity);
  }

  #maintain(): void {
    for (const client of [...this.#clients])
      if (client.state === "login" && this.#loginDueAt(client) <= this.clock.now)
        client.disconnect(true, "client_login_timeout");
    for (const pool of this.#pools.values()) pool.maintain();
    this.eventIsOver();
  }

  // -- the console ----------------------------------------------------------------------------------------------------

  /** PAUSE: clients wait, and server connections are closed when they are released. */
  pause(): void {
    this.isPaused = true;
    for (const pool of this.#pools.values()) pool.closeIdle();
    this.eventIsOver();
  }

  resume(): void {
    this.isPaused = false;
    this.eventIsOver();
  }

  reconnect(): void {
    for (const pool of this.#pools.values()) pool.reconnect();
    this.eventIsOver();
  }

  /** KILL with RESUME: all clients are informed, and server connections are closed. */
  kill(): void {
    for (const pool of [...this.#pools.values()]) pool.kill();
    this.#pools.clear();
    this.eventIsOver();
  }

  /** SHUTDOWN: no client is informed. */
  shutDown(): void {
    this.#isListening = false;
    for (const client of [...this.#clients]) client.close();
    for (const pool of this.#pools.values()) for (const server of pool.servers) server.close();
    this.#clients.clear();
    this.#pools.clear();
    this.statements = new SharedStatements();
    this.isPaused = false;
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#timerAt = Infinity;
  }

  restart(downFor: number): void {
    this.shutDown();
    this.clock.after(downFor, () => (this.#isListening = true));
  }

  // -- what a check reads ---------------------------------------------------------------------------------------------

  get clients(): readonly ClientInfo[] {
    return [...this.#clients].map(({ user, state, link }) => ({ user, state, hasServer: !!link }));
  }

  get serverConnections(): readonly ServerConnectionInfo[] {
    return [...this.#pools.values()].flatMap(({ user, database, servers }) =>
      [...servers].map(({ state, key }) => ({
        user,
        database,
        state,
        processId: new DataView(key.buffer).getInt32(0),
      })),
    );
  }

  /** Whether clients (of `user`, or any) may have received responses to another client's statements, as 1.18 allows. */
  hasStaleAnswers(user?: string): boolean {
    const pools = [...this.#pools.values()].filter((pool) => user === undefined || pool.user === user);
    return pools.some((pool) => pool.hasStaleAnswers);
  }

  get hasCutPackets(): boolean {
    return [...this.#pools.values()].some((pool) => pool.hasCutPackets);
  }

  /** The number of clients that wait for a server connection, and of CancelRequests that wait to be forwarded. */
  get waiting(): number {
    return [...this.#pools.values()].reduce((sum, { waiting, cancels }) => sum + waiting.length + cancels.length, 0);
  }
}
