// Kysely: a dialect over the driver's pool, or over one client (docs/kysely.md, docs/decisions/0026).
//
// Knows what Kysely asks of a driver, and which call of ours answers it. The SQL, the introspector and the lock of
// migrations are Kysely's own for PostgreSQL. Must not know how a call runs, or how values are read.
import * as kysely from "kysely";
import {
  CompiledQuery,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type DatabaseConnection,
  type DatabaseIntrospector,
  type Dialect,
  type DialectAdapter,
  type Driver,
  type Kysely,
  type QueryCompiler,
  type QueryResult,
  type TransactionSettings,
} from "kysely";
import {
  sql,
  UsageError,
  type Client,
  type Lease,
  type Pool,
  type QueryOptions,
  type Transaction,
  type TransactionOptions,
} from "../index.ts";
import { hasSeveral } from "../util/sql-reader.ts";

/** Options of every query: the forms of values, caps, `timeout` and more ({@link QueryOptions}). */
export type PgzQueryOptions = Omit<QueryOptions, "signal" | "rowMode" | "onLimit">;

interface Shared {
  /** Options of every query. Default `{ dates: "date" }`, as Kysely's users of `pg` expect it. */
  readonly query?: PgzQueryOptions | undefined;
  /**
   * Cancels a query on the server when its `signal` aborts, whatever its `inflightQueryAbortStrategy`. Default false:
   * as Kysely documents, `"ignore query"` lets the query run to its end.
   */
  readonly cancelOnAbort?: boolean | undefined;
}

interface OverPool extends Shared {
  /** A pool, or a function that makes one at the first query. `db.destroy()` closes the pool. */
  readonly pool: PoolSource | (() => PoolSource | Promise<PoolSource>);
  readonly client?: undefined;
}

interface OverClient extends Shared {
  /** One connection, or a function that makes it at the first query. Queries wait for each other. */
  readonly client: ClientSource | (() => ClientSource | Promise<ClientSource>);
  readonly pool?: undefined;
}

/** The calls that run a query. A pool has them too. */
type Runs = Pick<Client, "query" | "simple">;
/** The calls of a client or a lease that a connection of Kysely's needs. */
type Calls = Runs & Pick<Client, "rows" | "transaction">;
type PoolSource = Pick<Pool, keyof Runs | "acquire" | "close">;
type ClientSource = Calls & Pick<Client, "close">;

/** The configuration of {@link PgzDialect}. */
export type PgzDialectConfig = OverPool | OverClient;

const OPTIONS: ReadonlySet<string> = new Set(["pool", "client", "query", "cancelOnAbort"]);

/** Options of Kysely's PostgresDialect, and what to use instead of each. */
const THEIRS: Readonly<Record<string, string>> = {
  cursor: "streams need none",
  controlClient: "an abort needs no connection",
  onCreateConnection: "give the pool afterConnect",
  onReserveConnection: "give the pool beforeAcquire",
};

/**
 * Kysely's dialect for PostgreSQL over this driver.
 *
 * @example
 * const db = new Kysely<Database>({ dialect: new PgzDialect({ pool: createPool(url) }) });
 */
export class PgzDialect implements Dialect {
  readonly #config: PgzDialectConfig;

  /** @throws UsageError `UNKNOWN_OPTION`, `INVALID_OPTION` */
  constructor(config: PgzDialectConfig) {
    for (const name of Object.keys(config)) {
      if (OPTIONS.has(name)) continue;
      const instead = THEIRS[name] ?? `it has ${[...OPTIONS].join(", ")}`;
      throw new UsageError("UNKNOWN_OPTION", `PgzDialect has no option "${name}": ${instead}.`);
    }
    const { pool, client } = config;
    if (!pool === !client) throw new UsageError("INVALID_OPTION", "PgzDialect needs a pool or a client, and not both.");
    if (typeof (pool ?? client) !== "function") checkSource(config, pool ?? client);
    this.#config = config;
  }

  createDriver(): Driver {
    return new PgzDriver(this.#config);
  }

  createQueryCompiler(): QueryCompiler {
    return new PostgresQueryCompiler();
  }

  createAdapter(): DialectAdapter {
    return this.#config.client ? new OneConnectionAdapter() : new PostgresAdapter();
  }

  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- as Kysely declares it
  createIntrospector(db: Kysely<any>): DatabaseIntrospector {
    return new PostgresIntrospector(db);
  }
}

/**
 * Without this check a pool of `pg` would pass for a client of pgz-edge. A client would pass for a pool, and be lent to
 * several callers at once.
 */
function checkSource({ pool }: PgzDialectConfig, source: unknown): void {
  const has = (name: string) => typeof (source as Record<string, unknown> | null)?.[name] === "function";
  if (has("query") && has("close") && has("transaction") && has("acquire") === Boolean(pool)) return;
  throw new UsageError(
    "INVALID_OPTION",
    pool
      ? 'Option "pool" must be what createPool of pgz-edge gives; a pool of pg goes with PostgresDialect.'
      : 'Option "client" must be what createClient of pgz-edge gives.',
  );
}

/** Makes Kysely give the connection to one query or one transaction at a time. */
class OneConnectionAdapter extends PostgresAdapter {
  override get supportsMultipleConnections(): boolean {
    return false;
  }
}

/** The options of a query or an acquisition. Kysely before 0.29 passes none. */
interface Abortable {
  readonly signal?: AbortSignal | undefined;
}

class PgzDriver implements Driver {
  readonly #config: PgzDialectConfig;
  readonly #settings: ConnectionSettings;
  #pool: PoolSource | undefined;
  #client: PgzConnection | undefined;
  #close = async () => {};
  /** Whether Kysely logs queries. It times each query, and that time must not include the wait for a connection. */
  #isLogged = false;

  constructor(config: PgzDialectConfig) {
    this.#config = config;
    const { query, cancelOnAbort = false } = config;
    this.#settings = { options: { dates: "date", ...query }, cancelOnAbort };
  }

  async init(): Promise<void> {
    const { pool, client } = this.#config;
    const given = pool ?? client;
    const source = typeof given === "function" ? await given() : given;
    checkSource(this.#config, source);
    this.#close = () => source.close();
    if ("acquire" in source) this.#pool = source;
    else this.#client = new ClientConnection(source, this.#settings);
  }

  /**
   * Kysely passes `options` when several queries may follow each other (`db.connection()`), and when there is a signal.
   * Without `options` it runs one query, one stream or one transaction (docs/decisions/0026).
   */
  async acquireConnection(options?: Abortable): Promise<PgzConnection> {
    if (this.#client) return this.#client;
    const connection = new PoolConnection(this.#pool!, this.#settings, !options);
    if (options || this.#isLogged) await connection.take(options?.signal);
    return connection;
  }

  beginTransaction(connection: DatabaseConnection, settings: TransactionSettings): Promise<void> {
    return own(connection).does(beginText(settings), (it) => it.begin(settings));
  }

  commitTransaction(connection: DatabaseConnection): Promise<void> {
    return own(connection).does("commit", (it) => it.commit());
  }

  rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    return own(connection).does("rollback", (it) => it.rollback());
  }

  async savepoint(connection: DatabaseConnection, name: string): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw(`savepoint ${quoted(name)}`));
  }

  async rollbackToSavepoint(connection: DatabaseConnection, name: string): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw(`rollback to ${quoted(name)}`));
  }

  async releaseSavepoint(connection: DatabaseConnection, name: string): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw(`release ${quoted(name)}`));
  }

  async releaseConnection(connection: DatabaseConnection): Promise<void> {
    this.#isLogged ||= Object.hasOwn(connection, "executeQuery");
    await own(connection).release();
  }

  destroy(): Promise<void> {
    return this.#close();
  }
}

/** Kysely passes back the connection that `acquireConnection` returned. */
const own = (connection: DatabaseConnection) => connection as PgzConnection;

/** Refuses a name that the server would cut: two long names may become one savepoint. */
const quoted = (name: string) => sql.identifier(name).text;

// -- a connection ----------------------------------------------------------------------------------------------------

interface ConnectionSettings {
  readonly options: PgzQueryOptions;
  readonly cancelOnAbort: boolean;
}

/** A transaction whose callback waits for Kysely to end it. */
interface OpenTransaction {
  readonly calls: Transaction;
  readonly commit: (value: void) => void;
  readonly rollback: () => void;
  /** Settles when the server has ended the transaction. */
  readonly ended: Promise<unknown>;
}

/** Marks a query of Kysely's that is not sent as SQL: BEGIN, COMMIT and ROLLBACK are calls of the driver. */
const WORK = Symbol("work");
interface Work extends CompiledQuery {
  readonly [WORK]?: (connection: PgzConnection) => Promise<void>;
}

abstract class PgzConnection implements DatabaseConnection {
  readonly #settings: ConnectionSettings;
  #open: OpenTransaction | undefined;
  /** Cancels the running query, if it has a signal. */
  #cancel: AbortController | undefined;

  constructor(settings: ConnectionSettings) {
    this.#settings = settings;
  }

  /** Returns the session for calls outside a transaction. */
  protected abstract session(): Calls | Promise<Calls>;

  /** Returns the session or the pool that runs a query outside a transaction. */
  protected abstract runner(query: CompiledQuery, signal: AbortSignal | undefined): Runs | Promise<Runs>;

  /** Called when a query has succeeded. May refuse its command. */
  protected answered(_command: string): void {}

  abstract release(): Promise<void> | undefined;

  async executeQuery<Row>(query: CompiledQuery, { signal }: Abortable = {}): Promise<QueryResult<Row>> {
    const work = (query as Work)[WORK];
    if (work) {
      await work(this);
      return { rows: [] };
    }
    const runner = this.#open?.calls ?? this.runner(query, signal);
    const calls = runner instanceof Promise ? await runner : runner;
    const { command, rowCount, rows } = await run<Row>(calls, query, this.#optionsOf(signal));
    this.answered(command);
    if (CHANGES.has(command)) return { numAffectedRows: BigInt(rowCount ?? 0), rows };
    // A caller that ends a transaction by its own SQL sees whether it was committed, as over pg.
    return ENDS.has(command) ? { rows: [{ command } as Row] } : { rows };
  }

  async *streamQuery<Row>(
    { sql: text, parameters }: CompiledQuery,
    chunkSize: number,
    { signal }: Abortable = {},
  ): AsyncGenerator<QueryResult<Row>> {
    const options = { ...this.#settings.options, signal };
    const query = { text, values: parameters as unknown[] };
    // Leaving a loop cancels its statement, which would fail the transaction. A cursor only closes its portal.
    const batches = this.#open
      ? this.#open.calls.cursor<Row>(query, chunkSize, options)
      : (await this.session()).rows<Row>(query, options).batches(chunkSize);
    for await (const rows of batches) yield { rows };
  }

  /** Kysely calls this when the signal of the running query aborts. */
  async cancelQuery(): Promise<void> {
    this.#cancel?.abort();
  }

  /** Runs `work` as a query with this text, so that Kysely's log shows it. */
  async does(text: string, work: (connection: PgzConnection) => Promise<void>): Promise<void> {
    await this.executeQuery({ ...CompiledQuery.raw(text), [WORK]: work } as Work);
  }

  /** Sends nothing yet: BEGIN travels with the first statement. */
  async begin({ isolationLevel: isolation, accessMode }: TransactionSettings): Promise<void> {
    // A level that is not PostgreSQL's ("snapshot") is refused by `transaction`.
    const options = { isolation, readOnly: accessMode && accessMode === "read only" } as TransactionOptions;
    const session = await this.session();
    return await new Promise((begun, failed) => {
      const ended: Promise<unknown> = session.transaction(
        (calls) =>
          new Promise<void>((commit, rollback) => {
            this.#open = { calls, commit, rollback, ended };
            begun();
          }),
        options,
      );
      // Has no effect once the transaction has begun: then `commit` throws the error.
      ended.catch(failed);
    });
  }

  async commit(): Promise<void> {
    const open = this.#end();
    open?.commit();
    try {
      await open?.ended;
    } catch (error) {
      throw isRolledBack(error) ? aborted(error) : error;
    }
  }

  /** Never rejects: a connection that cannot roll back ends, and with it the transaction. */
  async rollback(): Promise<void> {
    const open = this.#end();
    open?.rollback();
    await open?.ended.catch(() => {});
  }

  #end(): OpenTransaction | undefined {
    const open = this.#open;
    this.#open = undefined;
    return open;
  }

  #optionsOf(signal: AbortSignal | undefined): QueryOptions {
    const { options, cancelOnAbort } = this.#settings;
    if (!signal) return options;
    return { ...options, signal: cancelOnAbort ? signal : (this.#cancel = new AbortController()).signal };
  }
}

/** The connection of a client. Kysely makes its users wait for each other. */
class ClientConnection extends PgzConnection {
  readonly #client: Calls;

  constructor(client: Calls, settings: ConnectionSettings) {
    super(settings);
    this.#client = client;
  }

  protected override session(): Calls {
    return this.#client;
  }

  protected override runner(): Runs {
    return this.#client;
  }

  override release(): undefined {}
}

/** A connection of a pool. It acquires a lease only when several calls need the same session. */
class PoolConnection extends PgzConnection {
  readonly #pool: PoolSource;
  #lease: Promise<Lease> | undefined;
  /** Whether a query has run on it. */
  #isUsed = false;
  /** Whether Kysely may have wanted it for one query only, and has run no second one. */
  #isForOneQuery: boolean;
  /** Whether that query has succeeded. */
  #isAnswered = false;

  /** `isForOne`: for one query, one stream or one transaction. */
  constructor(pool: PoolSource, settings: ConnectionSettings, isForOne: boolean) {
    super(settings);
    this.#pool = pool;
    this.#isForOneQuery = isForOne;
  }

  /** Makes this one session from now on, until it is released. */
  take(signal?: AbortSignal): Promise<Lease> {
    return (this.#lease ??= this.#pool.acquire({ signal }));
  }

  protected override session(): Promise<Calls> {
    this.#isForOneQuery = false;
    return this.take();
  }

  protected override runner({ query }: CompiledQuery, signal: AbortSignal | undefined): Runs | Promise<Runs> {
    const isAlone = !this.#isUsed && !this.#lease && !signal && ALONE.has(query.kind);
    if (this.#isUsed) this.#isForOneQuery = false;
    this.#isUsed = true;
    return isAlone ? this.#pool : this.take();
  }

  /** Refuses, as the pool does, a COMMIT or ROLLBACK that comes first on its session: there was no transaction. */
  protected override answered(command: string): void {
    if (!this.#isForOneQuery) return;
    if (ENDS.has(command)) throw endedNone(command);
    this.#isAnswered = true;
  }

  /** Cancels the running statement and ends the session. */
  async killSession(): Promise<void> {
    await (await this.#lease)?.release({ destroy: true });
  }

  override release(): Promise<void> | undefined {
    return this.#lease?.then(
      (lease) => this.#giveBack(lease),
      () => {},
    );
  }

  /**
   * Rejects if its only query left a transaction open, as the pool's own call does. Only now is it known that no other
   * query follows. Kysely throws this in place of the query's result.
   */
  async #giveBack(lease: Lease): Promise<void> {
    const isLeftOpen = this.#isForOneQuery && this.#isAnswered && lease.hasOpenTransaction;
    await lease.release();
    if (isLeftOpen) throw leftOpen();
  }
}

/**
 * Queries of Kysely's builders. Any session can run them: unlike a raw text of the user's, they are not run for their
 * effect on the session.
 */
const ALONE: ReadonlySet<string> = new Set([
  "SelectQueryNode",
  "InsertQueryNode",
  "UpdateQueryNode",
  "DeleteQueryNode",
  "MergeQueryNode",
]);

/** Commands whose row count Kysely wants. */
const CHANGES: ReadonlySet<string> = new Set(["INSERT", "UPDATE", "DELETE", "MERGE"]);

/** Command tags that end a transaction. */
const ENDS: ReadonlySet<string> = new Set(["COMMIT", "ROLLBACK"]);

function run<Row>(calls: Runs, { sql, parameters }: CompiledQuery, options: QueryOptions) {
  // A migration may have several statements in one text, which the extended query protocol refuses.
  return !parameters.length && hasSeveral(sql)
    ? runAll<Row>(calls, sql, options)
    : calls.query<Row>(sql, parameters, options);
}

/** Returns an empty result for several statements, because they have no single result. */
async function runAll<Row>(calls: Runs, text: string, options: QueryOptions) {
  const results = await calls.simple<Row>(text, options);
  return results.length === 1 ? results[0]! : { command: "", rowCount: null, rows: [] as Row[] };
}

function beginText({ isolationLevel, accessMode }: TransactionSettings): string {
  if (!isolationLevel && !accessMode) return "begin";
  return `start transaction${isolationLevel ? ` isolation level ${isolationLevel}` : ""}${accessMode ? ` ${accessMode}` : ""}`;
}

// -- a transaction that one query begins or ends -----------------------------------------------------------------

const QUERIES = "Each query may have another connection: use db.transaction(), or db.connection() to keep one.";

function leftOpen(): UsageError {
  return new UsageError("TRANSACTION_OPEN", `The query left a transaction open, which was rolled back. ${QUERIES}`);
}

function endedNone(command: string): UsageError {
  return new UsageError("TRANSACTION_FINISHED", `There was no transaction for this ${command}. ${QUERIES}`);
}

// -- a commit that the server has rolled back -----------------------------------------------------------------------

function isRolledBack(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "TRANSACTION_ROLLED_BACK";
}

/** Returns Kysely's own error, or the driver's where the installed version of Kysely does not have one. */
function aborted(cause: unknown): unknown {
  const Aborted = kysely.AbortedTransactionError as typeof kysely.AbortedTransactionError | undefined;
  return Aborted ? new Aborted({ cause }) : cause;
}
