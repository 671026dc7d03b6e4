// A PostgreSQL server in memory: it accepts connections, and each gets a backend.
//
//   const server = new Server(clock, dice, { version: 18, authentication: "trust", maxConnections: 20, roles })
//   network.listen("db.example", 5432, server)
//
// Knows which clients may connect, cancel requests, restarts, and what a check reads of the whole server. Must not know
// conversations (backend.ts) or SQL (statements/). Nothing here or below uses real time, real randomness or a real
// socket.
import type { Accepted, Clock, Dice, Host, Wire } from "../contract.ts";
import { Backend, type BackendState } from "./backend.ts";
import * as errors from "./errors.ts";
import type { LockInfo } from "./locks.ts";
import type { Method } from "./login.ts";
import { sleep, type Doing } from "./process.ts";
import type { Value } from "./values.ts";
import { World, type Notification } from "./world.ts";

export interface Role {
  readonly password: string;
  /** Whether a cleartext password is right, where several passwords are, as with tokens. */
  readonly accepts?: (password: string) => boolean;
  readonly connectionLimit?: number;
}

/** What takes time. `text` is the statement, or the role that logs in. */
export type Thought = "login" | "parse" | "statement" | "commit";

/** How poolers, and servers that only speak the protocol, differ from PostgreSQL (docs/servers.md). */
export interface Quirks {
  /** Sends no BackendKeyData, so nothing can be cancelled. */
  readonly hasNoKeys?: boolean;
  /** A CancelRequest has no effect. */
  readonly ignoresCancels?: boolean;
  /** Milliseconds until a CancelRequest hits its backend, whatever the backend runs then. pgpool-II takes 300. */
  readonly cancelsAfter?: number;
  /** There is no `pg_prepared_statements`. */
  readonly hasNoPreparedStatements?: boolean;
}

export interface ServerOptions {
  readonly version: 15 | 18;
  readonly authentication: Method | ((user: string) => Method);
  readonly maxConnections: number;
  readonly roles: Readonly<Record<string, Role>>;
  /** Responds to SSLRequest with `S`. The bytes after it are unencrypted: the network takes the place of TLS. */
  readonly tls?: boolean;
  /** Without a list every database exists, except `nowhere`. All have the same content. */
  readonly databases?: readonly string[];
  readonly quirks?: Quirks;
  /** Milliseconds that a step takes. Without this function steps take no time. */
  readonly thinkTime?: (what: Thought, text: string) => number;
  /** Milliseconds that a synchronous standby takes: until then a commit is in the log, and not visible. */
  readonly visibleAfter?: () => number;
  /** Milliseconds until a commit is on disk, with `synchronous_commit = off`: a crash loses it before that. */
  readonly flushedAfter?: () => number;
}

export interface BackendInfo {
  readonly processId: number;
  readonly user: string;
  readonly database: string;
  readonly state: BackendState;
  readonly startedAt: number;
  /** As ReadyForQuery reports it. */
  readonly transactionStatus: "I" | "T" | "E";
  readonly query: string;
  readonly preparedStatements: readonly string[];
  readonly portals: readonly string[];
  readonly listening: readonly string[];
  readonly temporaryTables: readonly string[];
  /** Settings that differ from those at the session's start. */
  readonly settings: readonly string[];
  readonly role: string;
}

type Phase = "running" | "down" | "starting" | "recovering" | "stopping";

export class Server implements Host {
  readonly clock: Clock;
  readonly dice: Dice;
  readonly options: ServerOptions;
  world: World;
  readonly #backends = new Set<Backend>();
  readonly #notifications = new Map<Backend, Notification[]>();
  #phase: Phase = "running";
  /** The number of times the server was stopped. */
  #stops = 0;
  #processId = 1_000;
  #most = 0;
  readonly #mostOf = new Map<string, number>();
  /** The CancelRequests that arrived, and the backend that each hit. */
  readonly cancelRequests: { readonly processId: number; readonly isKnown: boolean; readonly state: string }[] = [];

  constructor(clock: Clock, dice: Dice, options: ServerOptions) {
    this.clock = clock;
    this.dice = dice;
    this.options = options;
    this.world = this.newWorld();
  }

  /** The state before anything was written. */
  newWorld(): World {
    const { clock, dice, options } = this;
    return new World({
      version: options.version,
      clock,
      dice,
      roles: Object.keys(options.roles),
      thinkTime: (what, text) => options.thinkTime?.(what as Thought, text) ?? 0,
      visibleAfter: () => options.visibleAfter?.() ?? 0,
      flushedAfter: () => options.flushedAfter?.() ?? 0,
      sessions: () => this.#clients.map((backend) => sessionInfo(backend)),
      transactions: () => this.#clients.flatMap(({ session }) => session?.transaction ?? []),
      notify: (notification) => this.#notify(notification),
      cancel: (processId) => this.cancel(processId),
      terminate: (processId) => this.terminate(processId),
    });
  }

  get versionText(): string {
    return this.options.version === 18 ? "18.4" : "15.18";
  }

  get versionNumber(): number {
    return this.options.version === 18 ? 180_004 : 150_018;
  }

  // -- accepting ------------------------------------------------------------------------------------------------------

  /** Whether the server accepts any connections. */
  get isListening(): boolean {
    return this.#phase !== "down";
  }

  accept(wire: Wire): Accepted {
    if (!this.isListening) {
      wire.reset();
      return { receive() {}, ended() {}, wasReset() {} };
    }
    const backend = new Backend(this, wire, this.#processId++);
    this.#backends.add(backend);
    backend.start();
    return backend;
  }

  /** Admits a backend that has received its StartupMessage. Throws the reason if it is refused. */
  admit(backend: Backend): void {
    if (this.#phase === "starting") throw errors.startingUp();
    if (this.#phase === "stopping") throw errors.shuttingDown();
    if (this.#phase === "recovering") throw errors.inRecovery();
    if (this.#clients.length >= this.options.maxConnections) throw errors.tooManyClients();
    backend.isClient = true;
    this.#most = Math.max(this.#most, this.#clients.length);
    const same = this.#clients.filter(({ user }) => user === backend.user).length;
    this.#mostOf.set(backend.user, Math.max(this.mostBackendsOf(backend.user), same));
  }

  methodOf(user: string): Method {
    const { authentication } = this.options;
    return typeof authentication === "function" ? authentication(user) : authentication;
  }

  checkRole({ user }: Backend, { connectionLimit = Infinity }: Role): void {
    const same = this.#clients.filter((other) => other.user === user).length;
    if (same > connectionLimit) throw errors.tooManyOfRole(user);
  }

  hasDatabase(name: string): boolean {
    const { databases } = this.options;
    return databases ? databases.includes(name) : name !== "nowhere";
  }

  left(backend: Backend): void {
    this.#backends.delete(backend);
    this.#notifications.delete(backend);
  }

  *pause(what: Thought, text: string): Doing<void> {
    yield* sleep(this.clock, this.options.thinkTime?.(what, text) ?? 0);
  }

  get #clients(): Backend[] {
    return [...this.#backends].filter(({ isClient }) => isClient);
  }

  // -- signals --------------------------------------------------------------------------------------------------------

  /** Handles a CancelRequest. With a wrong key nothing happens, and no error is reported. */
  cancelRequest(processId: number, key: Uint8Array): void {
    const backend = this.#find(processId);
    const isKnown =
      !!backend?.key.length && backend.key.length === key.length && backend.key.every((byte, at) => byte === key[at]);
    this.cancelRequests.push({ processId, isKnown, state: backend?.state ?? "" });
    const { ignoresCancels, cancelsAfter = 0 } = this.options.quirks ?? {};
    if (isKnown && !ignoresCancels) this.clock.after(cancelsAfter, () => backend.cancel());
  }

  /** Acts as `pg_cancel_backend`. Returns whether the backend exists. */
  cancel(processId: number): boolean {
    const backend = this.#find(processId);
    if (backend?.isRunning) backend.cancel();
    else if (backend) this.#soon(() => backend.cancel());
    return !!backend;
  }

  /** Acts as `pg_terminate_backend`. */
  terminate(processId: number): boolean {
    const backend = this.#find(processId);
    if (backend?.isRunning) backend.end(errors.terminated());
    else if (backend) this.#soon(() => backend.end(errors.terminated()));
    return !!backend;
  }

  /** Signals arrive in an event of their own, because the sender may be running. */
  #soon(event: () => void): void {
    this.clock.after(0, event);
  }

  #find(processId: number): Backend | undefined {
    return this.#clients.find((backend) => backend.processId === processId);
  }

  /**
   * Performs a fast shutdown and a start: all sessions end with 57P01. For half of `downFor` no process listens, then
   * the server responds that it is starting up.
   *
   * A walsender that streams ends when its client has confirmed all of the log. The real server waits for that. The
   * model kills the remaining walsenders before it accepts connections again.
   */
  restart(downFor: number): void {
    this.#phase = "stopping";
    const before = [...this.#backends];
    for (const backend of before) this.#soon(() => backend.shutDown());
    const stops = this.#stops;
    // If the server is stopped meanwhile, none of this happens.
    const later = (after: number, event: () => void) =>
      this.clock.after(after, () => void (stops === this.#stops && event()));
    later(0, () => (this.#phase = "down"));
    later(downFor / 2, () => (this.#phase = "starting"));
    later(downFor, () => {
      for (const backend of before) if (backend.isStopping) backend.kill();
      // Before 17 a confirmed position alone does not cause a write.
      this.world.slots.restart(this.options.version >= 17);
      this.#phase = "running";
    });
  }

  /** A process has crashed: all sessions end with 57P02, uncommitted changes are lost, and the server recovers. */
  crash(recoversFor: number): void {
    this.#phase = "recovering";
    this.world.loseUnflushed();
    for (const backend of [...this.#backends]) this.#soon(() => backend.kill(errors.crashed()));
    this.clock.after(recoversFor, () => {
      this.world.slots.restart(false);
      this.#phase = "running";
    });
  }

  /** Whether the server accepts connections. */
  get isRunning(): boolean {
    return this.#phase === "running";
  }

  /** Stops the server until `start`. `crash`: without any message. */
  stop(how: "shutdown" | "crash"): void {
    this.#phase = "down";
    this.#stops++;
    for (const backend of [...this.#backends])
      this.#soon(() => (how === "crash" ? backend.kill() : backend.end(errors.terminated())));
  }

  /** Starts the server with the content of `world`. */
  start(world = this.world): void {
    this.world = world;
    this.#phase = "running";
  }

  /** For a standby: its replay conflicts with one of its sessions. Returns whether there is such a session. */
  conflict(which: number, code: "40001" | "40P01" | "57P04"): boolean {
    const open = this.#clients.filter(({ session }) => session && (code === "57P04" || session.state !== "none"));
    const backend = open[which % Math.max(1, open.length)];
    if (!backend) return false;
    if (code !== "57P04" && backend.state === "active") backend.cancel(errors.recoveryConflict(code, false));
    else backend.end(errors.recoveryConflict(code, true));
    return true;
  }

  // -- NOTIFY ---------------------------------------------------------------------------------------------------------

  #notify(notification: Notification): void {
    for (const backend of this.#clients) {
      if (!backend.session?.listening.has(notification.channel)) continue;
      const waiting = this.#notifications.get(backend) ?? [];
      waiting.push(notification);
      this.#notifications.set(backend, waiting);
      this.#soon(() => backend.notify());
    }
  }

  takeNotifications(backend: Backend): Notification[] {
    const waiting = this.#notifications.get(backend) ?? [];
    this.#notifications.delete(backend);
    return waiting;
  }

  // -- what a check reads ---------------------------------------------------------------------------------------------

  /** The client backends, which have identified themselves. */
  get backends(): readonly BackendInfo[] {
    return this.#clients.map(backendInfo);
  }

  /** The number of open connections, including those of CancelRequests and of clients that have not sent anything. */
  get connections(): number {
    return this.#backends.size;
  }

  /** The largest number of client backends that existed at once. */
  get mostBackends(): number {
    return this.#most;
  }

  mostBackendsOf(user: string): number {
    return this.#mostOf.get(user) ?? 0;
  }

  get locks(): readonly LockInfo[] {
    return this.world.locks.all;
  }

  get openTransactions(): number {
    return this.#clients.filter(({ session }) => session && session.state !== "none").length;
  }

  /** The names of permanent replication slots. */
  get replicationSlots(): readonly string[] {
    return this.world.slots.all.filter(({ isTemporary }) => !isTemporary).map(({ name }) => name);
  }

  get temporaryTables(): readonly string[] {
    return this.world.tables.filter(({ owner }) => owner).map(({ name }) => name);
  }

  /** Texts that may be valid SQL, but that the model does not know. */
  get unknownStatements(): readonly string[] {
    return this.world.unknownStatements;
  }

  /** The committed rows of a table, in the order in which they were stored. */
  stored(table: string): readonly (readonly Value[])[] {
    const found = this.world.tables.find(({ name, owner }) => name === table && !owner);
    return found?.visible().map(({ values }) => values) ?? [];
  }

  /** The ledger's numbers. */
  get ledger(): number[] {
    return this.stored("ledger").map(([n]) => n as number);
  }
}

function sessionInfo({ processId, user, session, state, query }: Backend) {
  const { database = "", settings } = session ?? {};
  return { processId, user, database, applicationName: settings?.get("application_name") ?? "", state, query };
}

function backendInfo(backend: Backend): BackendInfo {
  const { session } = backend;
  return {
    ...sessionInfo(backend),
    state: backend.state,
    startedAt: backend.startedAt,
    transactionStatus: session?.status ?? "I",
    preparedStatements: [...(session?.prepared.keys() ?? [])],
    portals: [...(session?.portals.keys() ?? [])],
    listening: [...(session?.listening ?? [])],
    temporaryTables: session ? session.world.temporaryOf(session).map(({ name }) => name) : [],
    settings: session?.settings.leftovers ?? [],
    role: session?.role ?? "",
  };
}
