// A pool of clients, by node-postgres' rules and names: it decides which caller waits, which one is next, and which
// client is closed.
//
// Knows clients by their public members, because an application may bring its own `Client`. Must not know connections.
//
// Unlike node-postgres' pool, `query` keeps a client after an error of the server. It closes the client only if its
// connection is lost, or if a transaction was left open.
import { EventEmitter } from "node:events";
import {
  Client,
  type AnyRow,
  type QueryArrayResult,
  type QueryResult,
  type ResultCallback,
  type Submittable,
} from "./client.ts";
import { hidden, showWithout, type ClientConfig } from "./connection-parameters.ts";
import { DatabaseError } from "./database-error.ts";
import type { QueryArrayConfig, QueryCallback, QueryConfig } from "./query.ts";

/**
 * Milliseconds that a server has for ReadyForQuery after it has refused a query. After that its connection counts as
 * lost.
 */
const READY_DEADLINE = 2_000;

/** Options that may have a password within, but that code may copy with the others: they are only not shown. */
const NOT_SHOWN = ["connectionString", "pgz"] as const;

/** A client acquired from a pool. */
export type PoolClient = Client & { release(error?: unknown): void };

/** Options of a pool, and of its clients. */
export interface PoolConfig extends ClientConfig {
  /** Maximum number of clients. Default 10. */
  max?: number | undefined;
  /** Number of clients that stay open when idle. Default 0. */
  min?: number | undefined;
  /** Milliseconds until an idle client is closed; 0 means never. Default 10,000. */
  idleTimeoutMillis?: number | undefined;
  /** Number of uses after which a client is closed. */
  maxUses?: number | undefined;
  /** Seconds after which a client is closed, once it is idle. */
  maxLifetimeSeconds?: number | undefined;
  /** Whether the process may exit while clients are idle. */
  allowExitOnIdle?: boolean | undefined;
  /** The class of the clients. */
  Client?: (new (config?: ClientConfig) => Client) | undefined;
  log?: ((...messages: unknown[]) => void) | undefined;
  /** Checks each new client before it is lent. */
  verify?: ((client: Client, done: (error?: Error) => void) => void) | undefined;
  /** Like `verify`, but called before it, and with a promise. */
  onConnect?: ((client: Client) => void | Promise<void>) | undefined;
}

type Connected = (error: Error | undefined, client?: PoolClient, release?: (error?: unknown) => void) => void;

interface Waiting {
  readonly done: Connected;
  timedOut: boolean;
}

interface Idle {
  readonly client: PoolClient;
  readonly timer: ReturnType<typeof setTimeout> | undefined;
}

export class Pool extends EventEmitter {
  static {
    // Drizzle and others recognise a pool by this name.
    Object.defineProperty(this, "name", { value: "BoundPool" });
  }

  readonly options: PoolConfig & { max: number; min: number; maxUses: number; idleTimeoutMillis: number };
  readonly Client: new (config?: ClientConfig) => Client;
  readonly Promise: PromiseConstructor;
  readonly log: (...messages: unknown[]) => void;
  ending = false;
  ended = false;
  _clients: PoolClient[] = [];
  _idle: Idle[] = [];
  _pendingQueue: Waiting[] = [];
  readonly _expired = new WeakSet<Client>();
  readonly #listeners = new WeakMap<Client, (error: Error) => void>();
  /** Clients that are ending. */
  #leaving = 0;
  #whenEnded: (() => void) | undefined;

  constructor(given?: PoolConfig | null, ClientClass: PoolConfig["Client"] = Client) {
    super();
    const options = given ?? {};
    const { max, min, maxUses, idleTimeoutMillis, password, ssl } = options;
    this.options = {
      ...options,
      max: max || (options as { poolSize?: number }).poolSize || 10,
      min: min || 0,
      maxUses: maxUses || Infinity,
      allowExitOnIdle: options.allowExitOnIdle || false,
      maxLifetimeSeconds: options.maxLifetimeSeconds || 0,
      idleTimeoutMillis: idleTimeoutMillis === undefined ? 10_000 : idleTimeoutMillis,
    };
    if ("password" in options) hidden(this.options, "password", password);
    showWithout(this.options, NOT_SHOWN);
    if (typeof ssl === "object" && ssl?.key) hidden(ssl, "key", ssl.key);
    this.log = options.log ?? (() => {});
    this.Client = options.Client ?? ClientClass;
    this.Promise = (options.Promise as PromiseConstructor | undefined) ?? Promise;
  }

  get totalCount(): number {
    return this._clients.length;
  }

  get idleCount(): number {
    return this._idle.length;
  }

  get waitingCount(): number {
    return this._pendingQueue.length;
  }

  /** Number of clients that are closed when they are released. */
  get expiredCount(): number {
    return this._clients.filter((client) => this._expired.has(client)).length;
  }

  /** Lends a client, which `client.release()` returns to the pool. Without a callback it resolves with the client. */
  connect(): Promise<PoolClient>;
  connect(callback: (error: Error | undefined, client: PoolClient, release: (error?: unknown) => void) => void): void;
  connect(callback?: (error: Error | undefined, client: never, release: never) => void): Promise<PoolClient> | void {
    if (callback) return this.#connect(callback as Connected);
    const { done, result } = this.#promised<PoolClient>(undefined);
    this.#connect((error, client) => {
      if (client) ignoreErrorsForNow(client);
      done(error, client);
    });
    return result;
  }

  /** Runs one query on a client of the pool. */
  query<T extends Submittable>(submittable: T): T;
  query<R extends unknown[] = AnyRow[]>(query: QueryArrayConfig, values?: unknown[]): Promise<QueryArrayResult<R>>;
  query<R = AnyRow>(query: string | QueryConfig, values?: unknown[]): Promise<QueryResult<R>>;
  query<R = AnyRow>(query: string | QueryConfig, callback: ResultCallback<R>): void;
  query<R = AnyRow>(query: string | QueryConfig, values: unknown[] | undefined, callback?: ResultCallback<R>): void;
  query(query: unknown, values?: unknown, given?: ResultCallback | QueryCallback): unknown {
    let callback = given as QueryCallback | undefined;
    if (typeof query === "function") {
      const { done, result } = this.#promised(query as Connected);
      const error = new Error("Passing a function as the first parameter to pool.query is not supported");
      queueMicrotask(() => done(error));
      return result;
    }
    if (typeof values === "function") [callback, values] = [values as QueryCallback, undefined];
    const { done, result } = this.#promised<QueryResult>(callback as Connected | undefined);
    this.connect((error, client) => {
      if (error) return done(error);
      this.#runOnce(client, query as QueryConfig, values as unknown[], done as unknown as QueryCallback);
    });
    return result;
  }

  /** Closes each client when it is idle, and lends no more: callers that wait get an error. */
  end(): Promise<void>;
  end(callback: (error?: Error) => void): void;
  end(callback?: (error?: Error) => void): Promise<void> | void {
    const { done, result } = this.#promised<void>(callback as Connected | undefined);
    if (this.ending) {
      done(new Error("Called end on pool more than once"));
      return result;
    }
    this.ending = true;
    const ended = () => done(undefined);
    this.#whenEnded = ended;
    this.#refuseWaiting();
    this._pulseQueue();
    return result;
  }

  /** No client will be lent to them any more. In a microtask, since a callback may throw. */
  #refuseWaiting(): void {
    for (const waiting of this._pendingQueue.splice(0)) queueMicrotask(() => waiting.done(afterEnd()));
  }

  // -- lending --------------------------------------------------------------------------------------------------------

  #connect(done: Connected): void {
    if (this.ending) return done(afterEnd());
    this.#forgetStrangers();
    if (!this.#isFull() && !this._idle.length) this.#newClient({ done, timedOut: false });
    else this.#wait(done);
  }

  #isFull(): boolean {
    return this._clients.length >= this.options.max;
  }

  #isAboveMin(): boolean {
    return this._clients.length > this.options.min;
  }

  /**
   * On Workers a connection belongs to its request. Removes clients of other requests, which cannot be used any more.
   */
  #forgetStrangers(): void {
    for (const client of [...this._clients]) if (client.connection?.isHome === false) this._remove(client);
  }

  #wait(done: Connected): void {
    const waiting: Waiting = { done, timedOut: false };
    // Deferred, so that the caller has the promise before anything happens.
    if (this._idle.length) queueMicrotask(() => this._pulseQueue());
    const { connectionTimeoutMillis } = this.options;
    if (!connectionTimeoutMillis) return void this._pendingQueue.push(waiting);
    const timer = setTimeout(() => {
      this._pendingQueue = this._pendingQueue.filter((other) => other !== timed);
      waiting.timedOut = timed.timedOut = true;
      done(new Error("timeout exceeded when trying to connect"));
    }, connectionTimeoutMillis);
    const timed: Waiting = {
      timedOut: false,
      done: (...answer) => {
        clearTimeout(timer);
        done(...answer);
      },
    };
    this._pendingQueue.push(timed);
  }

  /** Gives the next waiter the client that was released last, or a new one. */
  _pulseQueue(): void {
    if (this.ended) return;
    if (this.ending) return this.#endIdle();
    if (!this._pendingQueue.length || (!this._idle.length && this.#isFull())) return;
    const waiting = this._pendingQueue.shift()!;
    const idle = this._idle.pop();
    if (!idle) return this.#newClient(waiting);
    clearTimeout(idle.timer);
    idle.client.ref?.();
    this.#lend(idle.client, waiting, false);
  }

  #endIdle(): void {
    for (const { client } of [...this._idle]) this._remove(client);
    if (this._clients.length || this.#leaving) return;
    this.ended = true;
    this.#whenEnded?.();
  }

  #newClient(waiting: Waiting): void {
    this.log("connecting new client");
    const client = new this.Client(this.options) as PoolClient;
    this._clients.push(client);
    const { connectionTimeoutMillis, onConnect } = this.options;
    let isLate = false;
    const expired = () => {
      isLate = true;
      if (client.connection) client.connection.stream.destroy();
      else void (client as Client).end();
    };
    const timer = connectionTimeoutMillis ? setTimeout(expired, connectionTimeoutMillis) : undefined;
    client.connect((error) => {
      clearTimeout(timer);
      const listener = (cause: Error) => this.#idleFailed(client, cause);
      this.#listeners.set(client, listener);
      client.on("error", listener);
      if (error) {
        const late = "Connection terminated due to connection timeout";
        return this.#notConnected(client, waiting, isLate ? new Error(late, { cause: error }) : error);
      }
      if (!onConnect) return this.#connected(client, waiting);
      const failed = (cause: Error) => client.end(() => this.#notConnected(client, waiting, cause));
      new this.Promise((resolve) => resolve(onConnect(client))).then(() => this.#connected(client, waiting), failed);
    });
  }

  #notConnected(client: PoolClient, waiting: Waiting, error: Error): void {
    this.log("client failed to connect", error);
    this._clients = this._clients.filter((other) => other !== client);
    this._pulseQueue();
    if (!waiting.timedOut) waiting.done(error, undefined, () => {});
  }

  #connected(client: PoolClient, waiting: Waiting): void {
    const { maxLifetimeSeconds } = this.options;
    if (maxLifetimeSeconds) {
      const timer = setTimeout(() => this.#expire(client), maxLifetimeSeconds * 1000);
      unref(timer);
      client.once("end", () => clearTimeout(timer));
    }
    this.#lend(client, waiting, true);
  }

  #expire(client: PoolClient): void {
    this._expired.add(client);
    if (this._idle.some((idle) => idle.client === client)) this._remove(client, () => this._pulseQueue());
  }

  #lend(client: PoolClient, waiting: Waiting, isNew: boolean): void {
    if (isNew) this.emit("connect", client);
    this.emit("acquire", client);
    client.release = this.#releaseOnce(client);
    client.removeListener("error", this.#listeners.get(client)!);
    const { verify } = this.options;
    const hand = () => (waiting.timedOut ? client.release() : waiting.done(undefined, client, client.release));
    if (!isNew || !verify) return hand();
    verify(client, (error) => {
      if (!error) return hand();
      client.release(error);
      if (!waiting.timedOut) waiting.done(error, undefined, () => {});
    });
  }

  // -- coming back ----------------------------------------------------------------------------------------------------

  #releaseOnce(client: PoolClient): (error?: unknown) => void {
    let isReleased = false;
    return (error) => {
      if (isReleased) throw new Error("Release called on client which has already been released to the pool.");
      isReleased = true;
      this.#release(client, error);
    };
  }

  #release(client: PoolClient, error: unknown): void {
    client.on("error", this.#listeners.get(client)!);
    client._poolUseCount = (client._poolUseCount ?? 0) + 1;
    this.emit("release", error, client);
    const isSpent = client._poolUseCount >= this.options.maxUses || this._expired.has(client);
    const isLost = !client._queryable || client._ending || isInTransaction(client);
    if (error || this.ending || isLost || isSpent) {
      this._expired.delete(client);
      this.log(isSpent ? "remove expended client" : "remove client");
      return this._remove(client, () => this._pulseQueue());
    }
    const { idleTimeoutMillis, allowExitOnIdle } = this.options;
    let timer: Idle["timer"];
    if (idleTimeoutMillis && this.#isAboveMin()) {
      const expired = () => this.#isAboveMin() && this._remove(client, () => this._pulseQueue());
      timer = setTimeout(expired, idleTimeoutMillis);
      if (allowExitOnIdle) unref(timer);
    }
    if (allowExitOnIdle) client.unref?.();
    this._idle.push({ client, timer });
    this._pulseQueue();
  }

  #idleFailed(client: PoolClient, error: Error): void {
    (error as Error & { client?: Client }).client = client;
    client.removeListener("error", this.#listeners.get(client)!);
    client.on("error", () => this.log("additional client error after disconnection due to error", error));
    this._remove(client);
    this.emit("error", error, client);
  }

  _remove(client: PoolClient, done?: () => void): void {
    for (const idle of this._idle) if (idle.client === client) clearTimeout(idle.timer);
    this._idle = this._idle.filter((idle) => idle.client !== client);
    this._clients = this._clients.filter((other) => other !== client);
    this.#leaving++;
    client.end(() => {
      this.#leaving--;
      this.emit("remove", client);
      done?.();
      if (this.ending) this._pulseQueue();
    });
  }

  // -- one query ------------------------------------------------------------------------------------------------------

  #runOnce(client: PoolClient, query: QueryConfig, values: unknown[], done: QueryCallback): void {
    let isSettled = false;
    const settle = (error: Error | null | undefined, result?: unknown) => {
      if (isSettled) return;
      isSettled = true;
      client.removeListener("error", settle);
      const isOpen = !error && isInTransaction(client);
      if (error instanceof DatabaseError && client.readyForQuery === false) this.#releaseWhenReady(client, error);
      else client.release(error ?? undefined);
      if (isOpen) done(leftOpen());
      else if (error) done(error);
      else done(undefined, result);
    };
    client.once("error", settle);
    try {
      client.query(query, values, settle);
    } catch (error) {
      settle(error as Error);
    }
  }

  /**
   * Releases the client at ReadyForQuery. A server sends that after it has refused a statement, unless it ends the
   * session.
   */
  #releaseWhenReady(client: PoolClient, error: Error): void {
    const ready = () => release();
    const lost = () => release(error);
    // The connection may fall silent between the two messages. Without the timer the client's place in the pool would
    // be lost.
    const late = setTimeout(lost, READY_DEADLINE);
    const release = (reason?: Error) => {
      clearTimeout(late);
      client.removeListener("drain", ready);
      client.removeListener("error", lost);
      client.release(reason);
    };
    client.once("drain", ready);
    client.once("error", lost);
  }

  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- what the callback gets is the caller's
  #promised<T>(callback: ((error: any, value: any, third?: any) => void) | undefined): {
    done: (error?: unknown, value?: unknown, third?: unknown) => void;
    result: Promise<T>;
  } {
    if (callback) return { done: callback, result: undefined as unknown as Promise<T> };
    let done: (error?: unknown, value?: unknown) => void;
    const settled = new this.Promise<T>((resolve, reject) => {
      done = (error, value) => (error ? reject(error) : resolve(value as T));
    });
    const result = settled.catch((error: Error) => {
      (Error as { captureStackTrace?: (error: Error) => void }).captureStackTrace?.(error);
      throw error;
    });
    return { done: done!, result };
  }
}

/**
 * The bytes that complete a login or a query may also end the session, before a caller who awaits the client can listen
 * to it. That error must not end the process: the client's next query rejects, too.
 */
function ignoreErrorsForNow(client: Client): void {
  if (client.listeners("error").includes(ignore)) return; // it was lent a moment ago
  client.on("error", ignore);
  setTimeout(() => client.removeListener("error", ignore));
}

function ignore(): void {}

/** Whether a transaction was left open. While a query runs, the client may be about to end the transaction. */
function isInTransaction(client: PoolClient): boolean {
  const status = client.readyForQuery ? client.getTransactionStatus?.() : undefined;
  return status === "T" || status === "E";
}

/**
 * pg would lend the client again, in its transaction, to any query. With `max: 1` that happens to be the next one of
 * the same transaction; with more it is not.
 */
function leftOpen(): Error {
  return new Error(
    "The query left a transaction open, which is rolled back: each query of a pool may have another client. " +
      "Use the queries of a client from pool.connect().",
  );
}

function afterEnd(): Error {
  return new Error("Cannot use a pool after calling end on the pool");
}

function unref(timer: ReturnType<typeof setTimeout>): void {
  (timer as { unref?: () => void }).unref?.();
}
