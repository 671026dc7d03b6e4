// A client: one connection that is opened once, and a queue of queries that run one after another.
//
// Knows the order of queries and which query a message belongs to. Must not know what a query sends, or how messages
// are laid out.
import { EventEmitter } from "node:events";
import { AuthenticationError, PostgresError, type LogInOptions, type PgzError } from "../../index.ts";
import { ConnectionParameters, driverOptions, hidden, type ClientConfig } from "./connection-parameters.ts";
import { Connection, nodeErrorOf, type ConnectionOwner, type RowTaker } from "./connection.ts";
import { databaseError, type DatabaseError } from "./database-error.ts";
import type { FieldDef, Message } from "./messages.ts";
import { Query, type QueryArrayConfig, type QueryCallback, type QueryConfig } from "./query.ts";
import type { Result } from "./result.ts";
import { TypeOverrides } from "./type-overrides.ts";
import type { TypeFormat, TypeParser } from "./types/index.ts";
import { escapeIdentifier, escapeLiteral } from "./values.ts";

/** An argument of `query` that talks to the connection by itself, such as a cursor. */
export interface Submittable {
  submit(connection: Connection): void | Error | null;
  callback?: QueryCallback | undefined;
  name?: string | undefined;
  text?: string | undefined;
  binary?: boolean | undefined;
  _result?: Result | undefined;
  handleRowDescription(message: { fields: FieldDef[] }): void;
  handleDataRow(message: { fields: (string | null)[] }): void;
  handlePortalSuspended(connection: Connection): void;
  handleCommandComplete(message: { text: string }, connection: Connection): void;
  handleEmptyQuery(connection: Connection): void;
  handleReadyForQuery(connection: Connection): void;
  handleError(error: Error, connection: Connection): void;
  handleCopyInResponse?(connection: Connection): void;
  handleCopyOutResponse?(connection: Connection): void;
  handleCopyBothResponse?(connection: Connection): void;
  handleCopyDone?(connection: Connection): void;
  handleCopyData?(message: Message, connection: Connection): void;
}

type Done = (error?: Error | null, client?: Client) => void;

export class Client extends EventEmitter implements ConnectionOwner {
  static {
    Object.defineProperty(this, "name", { value: "Client" });
  }

  static readonly Query = Query;

  readonly connectionParameters: ConnectionParameters;
  readonly user: string | undefined;
  readonly database: string | undefined;
  readonly port: number;
  readonly host: string | undefined;
  declare password: ClientConfig["password"];
  readonly replication: string | undefined;
  readonly ssl: ConnectionParameters["ssl"];
  readonly connection: Connection;
  binary: boolean;
  readonly pipeline: boolean;
  processID: number | null = null;
  secretKey: number | null = null;
  readyForQuery = false;
  hasExecuted = false;
  /** Set by a pool. */
  declare release: (error?: unknown) => void;
  declare _poolUseCount?: number;
  _ending = false;
  _ended = false;
  _connecting = false;
  _connected = false;
  _connectionError = false;
  _queryable = true;
  _activeQuery: Submittable | null = null;
  readonly _queryQueue: Submittable[] = [];
  /** Queries sent after the active one, with `pipeline`. */
  readonly _sentQueryQueue: Submittable[] = [];
  readonly _types: TypeOverrides;
  readonly _Promise: PromiseConstructor;
  #config: ClientConfig;
  #onConnect: Done | undefined;
  #transactionStatus: "I" | "T" | "E" | null = null;
  #timeout: ReturnType<typeof setTimeout> | undefined;
  /** The active query, while its rows can be read directly from the socket's bytes. */
  #taker: Query | undefined;

  constructor(input?: ClientConfig | string) {
    super();
    const config = typeof input === "string" ? {} : (input ?? {});
    const parameters = new ConnectionParameters(input);
    this.#config = config;
    this.connectionParameters = parameters;
    this.user = parameters.user;
    this.database = parameters.database;
    this.port = parameters.port;
    this.host = parameters.host;
    hidden(this, "password", parameters.password);
    this.replication = parameters.replication;
    this.ssl = parameters.ssl;
    this.binary = parameters.binary;
    this._types = new TypeOverrides(config.types);
    this._Promise = (config.Promise as PromiseConstructor | undefined) ?? Promise;
    this.pipeline = Boolean(config.pipeline);
    this.connection = new Connection(this);
    this.#listen(this.connection);
  }

  get activeQuery(): Submittable | null {
    return this._activeQuery;
  }

  get queryQueue(): Submittable[] {
    return this._queryQueue;
  }

  /** Connects. Can be called once. Without a callback it resolves with this client. */
  connect(): Promise<this>;
  connect(callback: (error: Error | null, client?: Client) => void): void;
  connect(callback?: (error: Error | null, client?: Client) => void): Promise<this> | void {
    if (callback) return this.#connect(callback as Done);
    const connected: Promise<this> = new this._Promise<this>((resolve, reject) =>
      this.#connect((error) => {
        if (!error) return resolve(this);
        // A caller that ends a client while it connects need not handle this rejection.
        if (this._ending) connected.catch(() => {});
        reject(error);
      }),
    );
    return connected;
  }

  /**
   * Runs a query after all earlier queries. Without a callback it resolves with the result, or with an array of results
   * if the text has several statements. An argument with `submit` is returned as it is.
   */
  query<T extends Submittable>(submittable: T): T;
  query<R extends unknown[] = AnyRow[]>(query: QueryArrayConfig, values?: unknown[]): Promise<QueryArrayResult<R>>;
  query<R = AnyRow>(query: string | QueryConfig, values?: unknown[]): Promise<QueryResult<R>>;
  query<R = AnyRow>(query: string | QueryConfig | Submittable, callback: ResultCallback<R>): void;
  query<R = AnyRow>(
    query: string | QueryConfig | Submittable,
    values: unknown[] | undefined,
    callback?: ResultCallback<R>,
  ): void;
  query(input: string | QueryConfig | Submittable, values?: unknown, given?: ResultCallback | QueryCallback): unknown {
    const callback = given as QueryCallback | undefined;
    if (input === null || input === undefined) throw new TypeError("Client was passed a null or undefined query");
    const isSubmittable = typeof (input as Submittable).submit === "function";
    const query = isSubmittable ? (input as Submittable) : new Query(input as QueryConfig, values, callback);
    let result: unknown = isSubmittable ? query : undefined;
    if (isSubmittable) query.callback ||= typeof values === "function" ? (values as QueryCallback) : callback;
    else if (!query.callback) result = this.#promised(query);
    else if (typeof query.callback !== "function") throw new TypeError("callback is not a function");
    const millis = (input as QueryConfig).query_timeout || this.connectionParameters.query_timeout;
    if (millis) this.#giveUpAfter(millis, query);
    if (this.binary && !query.binary) query.binary = true;
    if (query._result && !query._result._types) query._result._types = this._types;
    const refused = this.#refused(query);
    if (refused) {
      queueMicrotask(() => query.handleError(refused, this.connection));
      return result;
    }
    this._queryQueue.push(query);
    this._pulseQueryQueue();
    return result;
  }

  /** Ends the session: with Terminate when it is idle, at once while a query runs. */
  end(): Promise<void>;
  end(callback: () => void): void;
  end(callback?: () => void): Promise<void> | void {
    this._ending = true;
    if (!this.connection._connecting || this._ended) {
      this.#failAll(new Error("Connection terminated")); // queries of a client that was never connected
      return callback ? callback() : this._Promise.resolve();
    }
    const ended = new this._Promise<void>((resolve) => this.connection.once("end", () => resolve(callback?.())));
    if (this.pipeline && this._queryable && this.#isBusy) this.once("drain", () => this.connection.end());
    else if (!this._queryable || this._activeQuery) this.connection.stream.destroy();
    else this.connection.end();
    return callback ? undefined : ended;
  }

  /** Cancels `query` of `client`: with a CancelRequest if it runs, else by taking it out of the queue. */
  cancel(client: Client, query: Submittable): void {
    if (client._activeQuery === query) return void client.connection.cancel();
    const at = client._queryQueue.indexOf(query);
    if (at >= 0) client._queryQueue.splice(at, 1);
  }

  /** `I` outside a transaction, `T` inside one, `E` inside one that failed; `null` before the connection is made. */
  getTransactionStatus(): "I" | "T" | "E" | null {
    return this.#transactionStatus;
  }

  ref(): void {
    this.connection.ref();
  }

  unref(): void {
    this.connection.unref();
  }

  setTypeParser(oid: number, format: TypeFormat | TypeParser, parser?: TypeParser): void {
    this._types.setTypeParser(oid, format as TypeFormat, parser as TypeParser);
  }

  getTypeParser(oid: number, format?: TypeFormat): TypeParser {
    return this._types.getTypeParser(oid, format);
  }

  escapeIdentifier(name: string): string {
    return escapeIdentifier(name);
  }

  escapeLiteral(text: string): string {
    return escapeLiteral(text);
  }

  // -- for the connection ---------------------------------------------------------------------------------------------

  rowTaker(): RowTaker | undefined {
    return this.#taker?.reader && this.connection.listenerCount("message") === 0 ? this.#taker : undefined;
  }

  wantsToRead(): boolean {
    return !this.readyForQuery || this.listenerCount("notification") > 0;
  }

  // -- connecting -----------------------------------------------------------------------------------------------------

  #connect(done: Done): void {
    if (this._connecting || this._connected) {
      const error = new Error("Client has already been connected. You cannot reuse a client.");
      return queueMicrotask(() => done(error));
    }
    this._connecting = true;
    this.#onConnect = done;
    this.connection.once("end", () => this.#connectionEnded());
    const { connectionTimeoutMillis } = this.#config;
    if (connectionTimeoutMillis) {
      const expired = () => this.connection.stream.destroy(new Error("timeout expired"));
      this.#timeout = setTimeout(expired, connectionTimeoutMillis);
    }
    void this.#open();
  }

  async #open(): Promise<void> {
    try {
      await this.connection.open(this.#options());
    } catch (error) {
      if (!this._ended) this.connection.emit("error", loginErrorOf(error as PgzError));
      this.connection.stream.destroy();
    }
  }

  #options(): LogInOptions {
    const { password, connectionParameters } = this;
    const asked = async () => {
      const given = await (password as (of: ConnectionParameters) => unknown)(connectionParameters);
      if (given !== undefined && given !== null && typeof given !== "string")
        throw new TypeError("Password must be a string");
      const text = given ?? "";
      hidden(this, "password", text);
      hidden(connectionParameters, "password", text);
      return text;
    };
    const options = driverOptions(
      connectionParameters,
      this.#config,
      typeof password === "function" ? asked : (password ?? undefined),
    );
    return {
      ...options,
      observer: { onNotice: (notice) => void (this.#onConnect && this.emit("notice", { name: "notice", ...notice })) },
    };
  }

  #listen(connection: Connection): void {
    connection.on("backendKeyData", ({ processID, secretKey }: { processID: number; secretKey: number }) => {
      this.processID = processID;
      this.secretKey = secretKey;
    });
    connection.on("error", (error: Error) => this.#connectionFailed(error));
    connection.on("errorMessage", (error: DatabaseError) => this.#errorMessage(error));
    connection.on("readyForQuery", ({ status }: { status: "I" | "T" | "E" }) => this.#readyForQuery(status));
    connection.on("notice", (message: Message) => this.emit("notice", message));
    connection.on("notification", (message: Message) => this.emit("notification", message));
    const forwarded = {
      parseComplete: (query: Submittable) => this.#parseComplete(query),
      rowDescription: (query: Submittable, message: never) => query.handleRowDescription(message),
      dataRow: (query: Submittable, message: never) => query.handleDataRow(message),
      portalSuspended: (query: Submittable) => query.handlePortalSuspended(connection),
      emptyQuery: (query: Submittable) => query.handleEmptyQuery(connection),
      commandComplete: (query: Submittable, message: never) => query.handleCommandComplete(message, connection),
      copyInResponse: (query: Submittable) => query.handleCopyInResponse?.(connection),
      copyData: (query: Submittable, message: never) => query.handleCopyData?.(message, connection),
    };
    for (const [name, forward] of Object.entries(forwarded))
      connection.on(name, (message: Message) => this.#forward(name, forward, message));
    // Only the active query handles these, and pg does not forward them.
    connection.on("copyOutResponse", () => this._activeQuery?.handleCopyOutResponse?.(connection));
    connection.on("replicationStart", () => this._activeQuery?.handleCopyBothResponse?.(connection));
    connection.on("copyDone", () => this._activeQuery?.handleCopyDone?.(connection));
  }

  /** Passes a message to the active query. Without an active query nothing has requested the message. */
  #forward(name: string, forward: (query: Submittable, message: never) => void, message: Message): void {
    if (this._activeQuery) return forward(this._activeQuery, message as never);
    this.#connectionFailed(new Error(`Received unexpected ${name} message from backend.`));
  }

  #readyForQuery(status: "I" | "T" | "E"): void {
    const { cancelling } = this.connection;
    // A CancelRequest still under way could hit the next query.
    if (cancelling && !this.pipeline) return void cancelling.then(() => this._ended || this.#readyForQuery(status));
    const query = this._activeQuery;
    this._activeQuery = null;
    this.#taker = undefined;
    this.#transactionStatus = status;
    this.readyForQuery = true;
    if (this._connecting) this.#connectedNow();
    query?.handleReadyForQuery(this.connection);
    this._pulseQueryQueue();
  }

  #connectedNow(): void {
    this._connecting = false;
    this._connected = true;
    clearTimeout(this.#timeout);
    const done = this.#onConnect;
    this.#onConnect = undefined;
    done?.(null, this);
    this.emit("connect");
  }

  #parseComplete({ name, text }: Submittable): void {
    if (!name) return;
    this.connection.parsedStatements[name] = text ?? "";
    delete this.connection.submittedNamedStatements[name];
  }

  // -- failures -------------------------------------------------------------------------------------------------------

  #errorMessage(error: DatabaseError): void {
    const query = this._activeQuery;
    if (!query || this._connecting) return this.#connectionFailed(error);
    this._activeQuery = null;
    this.#taker = undefined;
    if (query.name) delete this.connection.submittedNamedStatements[query.name];
    query.handleError(error, this.connection);
  }

  #connectionFailed(error: Error): void {
    if (this._connecting) return this.#connectFailed(error);
    this._queryable = false;
    this.#failAll(error);
    this.emit("error", error);
  }

  /** Reports only the first error. */
  #connectFailed(error: Error): void {
    if (this._connectionError) return;
    this._connectionError = true;
    clearTimeout(this.#timeout);
    if (this.#onConnect) return this.#onConnect(error);
    this.emit("error", error);
  }

  #connectionEnded(): void {
    const error = new Error(this._ending ? "Connection terminated" : "Connection terminated unexpectedly");
    clearTimeout(this.#timeout);
    this.#failAll(error);
    this._ended = true;
    if (this._ending && this._connecting && !this._connectionError) this.#onConnect?.(error);
    if (!this._ending && !this._connectionError) {
      if (this._connecting) this.#connectFailed(error);
      else this.#connectionFailed(error);
    }
    queueMicrotask(() => this.emit("end"));
  }

  #failAll(error: Error): void {
    const failed = this._activeQuery ? [this._activeQuery] : [];
    failed.push(...this._sentQueryQueue.splice(0), ...this._queryQueue.splice(0));
    this._activeQuery = null;
    this.#taker = undefined;
    for (const query of failed) queueMicrotask(() => query.handleError(error, this.connection));
  }

  // -- queries --------------------------------------------------------------------------------------------------------

  #promised(query: Submittable): Promise<unknown> {
    const result = new this._Promise((resolve, reject) => {
      query.callback = settling(resolve, reject);
    });
    // An error from a socket has no useful stack. A stack captured here leads to the code that awaits.
    return result.catch((error: Error) => {
      (Error as { captureStackTrace?: (error: Error) => void }).captureStackTrace?.(error);
      throw error;
    });
  }

  /** Reports a timeout to the caller. The query continues, and later queries wait for its end. */
  #giveUpAfter(millis: number, query: Submittable): void {
    const callback = query.callback ?? (() => {});
    const timer = setTimeout(() => {
      const error = new Error("Query read timeout");
      queueMicrotask(() => query.handleError(error, this.connection));
      callback(error);
      query.callback = IGNORED;
      const at = this._queryQueue.indexOf(query);
      if (at >= 0) this._queryQueue.splice(at, 1);
      // With a pipeline, later queries would wait for its end.
      else if (this.pipeline) return void this.connection.stream.destroy();
      this._pulseQueryQueue();
    }, millis);
    const heard: Submittable["callback"] = (error, result) => {
      clearTimeout(timer);
      callback(error, result as never);
    };
    query.callback = heard;
  }

  #refused(query: Submittable): Error | undefined {
    // In a pipeline the rows of later queries would be taken for rows of an open portal.
    const isOwn = query instanceof Query;
    if (this.pipeline && !isOwn)
      return new Error("Custom query classes such as pg-cursor and pg-query-stream are not supported in pipeline mode");
    if (this.pipeline && (query as Query).rows) return new Error("The `rows` option is not supported in pipeline mode");
    if (!this._queryable) return new Error("Client has encountered a connection error and is not queryable");
    return this._ending ? new Error("Client was closed and is not queryable") : undefined;
  }

  get #isBusy(): boolean {
    return Boolean(this._activeQuery || this._sentQueryQueue.length || this._queryQueue.length);
  }

  /** Sends the queries that may be sent now. */
  _pulseQueryQueue(): void {
    if (this.pipeline) return this.#pulsePipeline();
    if (!this.readyForQuery) return;
    const query = this._queryQueue.shift();
    if (!query) return this.#drained();
    this.#activate(query);
    const error = this.#submit(query);
    if (!error) return;
    this._activeQuery = null;
    queueMicrotask(() => {
      query.handleError(error, this.connection);
      this.readyForQuery = true;
      this._pulseQueryQueue();
    });
  }

  /** Sends all waiting queries at once. A query becomes active when all earlier ones have been answered. */
  #pulsePipeline(): void {
    if (!this._connected || !this._queryable) return;
    for (const query of this._queryQueue.splice(0)) {
      const error = this.#submit(query);
      if (error) queueMicrotask(() => query.handleError(error, this.connection));
      else this._sentQueryQueue.push(query);
    }
    const next = this.readyForQuery && !this._activeQuery ? this._sentQueryQueue.shift() : undefined;
    if (next) this.#activate(next);
    if (!this.#isBusy) this.#drained();
  }

  #activate(query: Submittable): void {
    this._activeQuery = query;
    this.readyForQuery = false;
    this.#taker = query instanceof Query && query.handleDataRow === Query.prototype.handleDataRow ? query : undefined;
  }

  /** Returns what `submit` throws as the query's own error, so that later queries run. */
  #submit(query: Submittable): Error | null | void {
    this.hasExecuted = true;
    try {
      return query.submit(this.connection);
    } catch (error) {
      return error as Error;
    }
  }

  #drained(): void {
    if (this.hasExecuted) this.emit("drain");
  }
}

/** Rows and values are as the caller knows them, as in the declarations of `pg`. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- `unknown` would refuse most code for `pg`
export type AnyRow = any;

/** A result, for TypeScript. */
export interface QueryResult<R = AnyRow> {
  command: string;
  rowCount: number | null;
  oid: number;
  fields: FieldDef[];
  rows: R[];
}

/** The result of a query with `rowMode: "array"`. */
export type QueryArrayResult<R extends unknown[] = AnyRow[]> = QueryResult<R>;

/** A row whose columns the code does not name. */
export interface QueryResultRow {
  [column: string]: AnyRow;
}

/** As the declarations of `pg` have it: without an error its first argument is `undefined` or `null` all the same. */
export type ResultCallback<R = AnyRow> = (error: Error, result: QueryResult<R>) => void;

/** The argument of a listener for "notification". */
export interface Notification {
  processId: number;
  channel: string;
  payload?: string | undefined;
}

const IGNORED = () => {};

/**
 * Returns a callback that settles a promise. It is made in a function of its own, because V8 keeps a closure that is
 * assigned where it is written.
 */
function settling(resolve: (value: unknown) => void, reject: (error: unknown) => void): Submittable["callback"] {
  return (error, value) => (error ? reject(error) : resolve(value));
}

/** Converts a login error: a refusal by the server to a DatabaseError, a network failure to the runtime's error. */
function loginErrorOf(error: PgzError): Error {
  if (error.code === "NOT_POSTGRESQL") return new Error("received invalid response", { cause: error });
  if (error.code === "PASSWORD_FUNCTION_FAILED") return error.cause as Error;
  const cause = error instanceof AuthenticationError && error.cause instanceof PostgresError ? error.cause : error;
  if (!(cause instanceof PostgresError)) return nodeErrorOf(error);
  return databaseError(cause.message, 0, (_, name) => cause[name]);
}
