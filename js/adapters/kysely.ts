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
  UsageError,
  type Client,
  type Lease,
  type Pool,
  type QueryOptions,
  type Transaction,
  type TransactionOptions,
} from "../index.ts";

/** Options of every query: what becomes of values, caps, `timeout` and more ({@link QueryOptions}). */
export type PgzQueryOptions = Omit<QueryOptions, "signal" | "rowMode" | "onLimit">;

interface Shared {
  /** Options of every query. Default `{ dates: "date" }`, as Kysely's users of `pg` expect it. */
  readonly query?: PgzQueryOptions | undefined;
  /**
   * A query whose `signal` aborts is cancelled on the server, whatever its `inflightQueryAbortStrategy`. Default false:
   * as Kysely says, `"ignore query"` lets it run to its end.
   */
  readonly cancelOnAbort?: boolean | undefined;
}

interface OverPool extends Shared {
  /** A pool, or what makes it when the first query comes. `db.destroy()` closes it. */
  readonly pool: PoolSource | (() => PoolSource | Promise<PoolSource>);
  readonly client?: undefined;
}

interface OverClient extends Shared {
  /** One connection, or what makes it when the first query comes: queries wait for each other. */
  readonly client: ClientSource | (() => ClientSource | Promise<ClientSource>);
  readonly pool?: undefined;
}

/** The calls of a client and of a lease that a connection of Kysely's needs. */
type Calls = Pick<Client, "query" | "rows" | "simple" | "transaction">;
type PoolSource = Pick<Pool, "acquire" | "close">;
type ClientSource = Calls & Pick<Client, "close">;

/** What {@link PgzDialect} takes. */
export type PgzDialectConfig = OverPool | OverClient;

const OPTIONS: ReadonlySet<string> = new Set(["pool", "client", "query", "cancelOnAbort"]);

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
    for (const name of Object.keys(config))
      if (!OPTIONS.has(name))
        throw new UsageError(
          "UNKNOWN_OPTION",
          `PgzDialect has no option "${name}": it has ${[...OPTIONS].join(", ")}.`,
        );
    if (!config.pool === !config.client)
      throw new UsageError("INVALID_OPTION", "PgzDialect needs a pool or a client, and not both.");
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

/** Kysely lets one query after the other have the connection, or a transaction. */
class OneConnectionAdapter extends PostgresAdapter {
  override get supportsMultipleConnections(): boolean {
    return false;
  }
}

/** Of a query or an acquisition. Kysely before 0.29 passes none. */
interface Abortable {
  readonly signal?: AbortSignal | undefined;
}

class PgzDriver implements Driver {
  readonly #config: PgzDialectConfig;
  readonly #settings: ConnectionSettings;
  #source: PoolSource | ClientSource | undefined;

  constructor(config: PgzDialectConfig) {
    this.#config = config;
    const { query, cancelOnAbort = false } = config;
    this.#settings = { options: { dates: "date", ...query }, cancelOnAbort };
  }

  async init(): Promise<void> {
    const { pool, client } = this.#config;
    const source = pool ?? client;
    this.#source = typeof source === "function" ? await source() : source;
  }

  async acquireConnection({ signal }: Abortable = {}): Promise<PgzConnection> {
    const source = this.#source!;
    if ("acquire" in source) return new LeasedConnection(await source.acquire({ signal }), this.#settings);
    return new PgzConnection(source, this.#settings);
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
    await own(connection).release();
  }

  async destroy(): Promise<void> {
    await this.#source?.close();
  }
}

/** Kysely gives back what `acquireConnection` gave. */
const own = (connection: DatabaseConnection) => connection as PgzConnection;

const quoted = (name: string) => `"${name.replaceAll('"', '""')}"`;

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
  /** Settles when the server has ended it. */
  readonly ended: Promise<unknown>;
}

/** A query of Kysely's that is none of the server's: BEGIN, COMMIT and ROLLBACK are the driver's own. */
const WORK = Symbol("work");
interface Work extends CompiledQuery {
  readonly [WORK]?: (connection: PgzConnection) => Promise<void>;
}

class PgzConnection implements DatabaseConnection {
  readonly #source: Calls;
  readonly #settings: ConnectionSettings;
  #open: OpenTransaction | undefined;
  /** Cancels the query that runs with a signal. */
  #cancel: AbortController | undefined;

  constructor(source: Calls, settings: ConnectionSettings) {
    this.#source = source;
    this.#settings = settings;
  }

  async executeQuery<Row>(query: CompiledQuery, { signal }: Abortable = {}): Promise<QueryResult<Row>> {
    const work = (query as Work)[WORK];
    if (work) {
      await work(this);
      return { rows: [] };
    }
    const { command, rowCount, rows } = await this.#run<Row>(query, this.#optionsOf(signal));
    return CHANGES.has(command) ? { numAffectedRows: BigInt(rowCount ?? 0), rows } : { rows };
  }

  async *streamQuery<Row>(
    { sql: text, parameters }: CompiledQuery,
    chunkSize: number,
    { signal }: Abortable = {},
  ): AsyncGenerator<QueryResult<Row>> {
    const options = { ...this.#settings.options, signal };
    const query = { text, values: parameters as unknown[] };
    // A loop that is left cancels its statement, and that would fail the transaction: a cursor only closes its portal.
    const batches = this.#open
      ? this.#open.calls.cursor<Row>(query, chunkSize, options)
      : this.#source.rows<Row>(query, options).batches(chunkSize);
    for await (const rows of batches) yield { rows };
  }

  /** Kysely calls it when the signal of the query that runs has aborted. */
  async cancelQuery(): Promise<void> {
    this.#cancel?.abort();
  }

  /** Runs `work` as a query of that text, which Kysely's log shows. */
  async does(text: string, work: (connection: PgzConnection) => Promise<void>): Promise<void> {
    await this.executeQuery({ ...CompiledQuery.raw(text), [WORK]: work } as Work);
  }

  /** Nothing is sent yet: BEGIN travels in front of the first statement. */
  begin({ isolationLevel: isolation, accessMode }: TransactionSettings): Promise<void> {
    // A level that is not PostgreSQL's ("snapshot") is refused by `transaction`.
    const options = { isolation, readOnly: accessMode && accessMode === "read only" } as TransactionOptions;
    return new Promise((begun, failed) => {
      const ended: Promise<unknown> = this.#source.transaction(
        (calls) =>
          new Promise<void>((commit, rollback) => {
            this.#open = { calls, commit, rollback, ended };
            begun();
          }),
        options,
      );
      // Once it has begun, who ends it is told.
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

  async release(): Promise<void> {}

  #end(): OpenTransaction | undefined {
    const open = this.#open;
    this.#open = undefined;
    return open;
  }

  #run<Row>({ sql, parameters }: CompiledQuery, options: QueryOptions) {
    const calls: Pick<Client, "query" | "simple"> = this.#open?.calls ?? this.#source;
    // As over pg, which sends what has no parameters by the simple protocol.
    return !parameters.length && SEVERAL.test(sql)
      ? runAll<Row>(calls, sql, options)
      : calls.query<Row>(sql, parameters, options);
  }

  #optionsOf(signal: AbortSignal | undefined): QueryOptions {
    const { options, cancelOnAbort } = this.#settings;
    if (!signal) return options;
    return { ...options, signal: cancelOnAbort ? signal : (this.#cancel = new AbortController()).signal };
  }
}

class LeasedConnection extends PgzConnection {
  readonly #lease: Lease;

  constructor(lease: Lease, settings: ConnectionSettings) {
    super(lease, settings);
    this.#lease = lease;
  }

  /** Cancels what runs and ends the session. */
  killSession(): Promise<void> {
    return this.#lease.release({ destroy: true });
  }

  override release(): Promise<void> {
    return this.#lease.release();
  }
}

/** Commands whose count Kysely wants. */
const CHANGES: ReadonlySet<string> = new Set(["INSERT", "UPDATE", "DELETE", "MERGE"]);

/** Several statements in one text, as migrations have them; or a semicolon in a literal, which does no harm. */
const SEVERAL = /;\s*\S/;

/** Several statements have no one result. */
async function runAll<Row>(calls: Pick<Client, "simple">, text: string, options: QueryOptions) {
  const results = await calls.simple<Row>(text, options);
  return results.length === 1 ? results[0]! : { command: "", rowCount: null, rows: [] as Row[] };
}

function beginText({ isolationLevel, accessMode }: TransactionSettings): string {
  if (!isolationLevel && !accessMode) return "begin";
  return `start transaction${isolationLevel ? ` isolation level ${isolationLevel}` : ""}${accessMode ? ` ${accessMode}` : ""}`;
}

// -- a commit that the server has rolled back -----------------------------------------------------------------------

function isRolledBack(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === "TRANSACTION_ROLLED_BACK";
}

/** Kysely's own error. Not every version that this runs with has it: there it is the driver's. */
function aborted(cause: unknown): unknown {
  const Aborted = kysely.AbortedTransactionError as typeof kysely.AbortedTransactionError | undefined;
  return Aborted ? new Aborted({ cause }) : cause;
}
