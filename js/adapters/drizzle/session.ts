// Drizzle's session over the driver, for drizzle-orm 0.45: prepared queries, transactions, batches and loops.
//
// Knows Drizzle's contract of a session. Must not know how statements run (runner.ts), nor how rows become its objects
// (columns.ts).
import { DrizzleQueryError, entityKind, fillPlaceholders, type Logger, type Query, type SQL } from "drizzle-orm";
import type { BatchItem, BatchResponse } from "drizzle-orm/batch";
import type { Cache } from "drizzle-orm/cache/core";
import type { WithCacheConfig } from "drizzle-orm/cache/core/types";
import {
  PgPreparedQuery,
  PgSession,
  PgTransaction,
  type PgDialect,
  type PgQueryResultHKT,
  type PreparedQueryConfig,
} from "drizzle-orm/pg-core";
import type { RelationalSchemaConfig, TablesRelationalConfig } from "drizzle-orm/relations";
import { UsageError, type Column, type QueryResult } from "../../index.ts";
import { selectionMapper, type SelectedField } from "./columns.ts";
import { convertArrays } from "./forms.ts";
import type { RowMapper } from "./rows.ts";
import {
  batchError,
  inTransaction,
  rawOfArrays,
  runArrays,
  runBatch,
  runRaw,
  streamArrays,
  type ArrayResult,
  type IterableQuery,
  type PgzClient,
  type RawResult,
  type RowOf,
  type TransactionConfig,
} from "./runner.ts";

/** The result type of `db.execute`, in Drizzle's way to express it. */
export interface PgzQueryResultHKT extends PgQueryResultHKT {
  type: RawResult<this["row"]>;
}

/** Options that all sessions of a database share. */
export interface SessionOptions {
  readonly logger?: Logger | undefined;
  readonly cache?: Cache | undefined;
}

interface Metadata {
  type: "select" | "update" | "delete" | "insert";
  tables: string[];
}

/** The mapper of a relational query. It takes all rows at once. The JSON of nested relations must already be parsed. */
type ResultMapper = (rows: unknown[][]) => unknown;

type Run<R> = (client: PgzClient, text: string, values: readonly unknown[]) => Promise<R>;

/** What a prepared query runs with, and how its rows are mapped. */
interface Statement {
  readonly client: PgzClient;
  readonly query: Query;
  readonly fields: readonly SelectedField[] | undefined;
  readonly mapper: ResultMapper | undefined;
  readonly metadata: Metadata | undefined;
  readonly isArrayMode: boolean;
}

/** Members that drizzle-orm has but does not declare. */
interface Undeclared {
  readonly joinsNotNullableMap?: Readonly<Record<string, boolean>>;
  queryWithCache<T>(text: string, params: unknown[], run: () => Promise<T>): Promise<T>;
}

const wrapped = (text: string, params: readonly unknown[], error: unknown): DrizzleQueryError =>
  new DrizzleQueryError(text, params as unknown[], error as Error);

/** A statement that Drizzle has built. Its placeholders get their values when it runs. */
export class PgzPreparedQuery<T extends PreparedQueryConfig = PreparedQueryConfig> extends PgPreparedQuery<T> {
  static override readonly [entityKind]: string = "PgzPreparedQuery";
  readonly #statement: Statement;
  readonly #options: SessionOptions;
  #columns: readonly Column[] | undefined;
  #mapRow: RowMapper | undefined;

  /** @internal */
  constructor(statement: Statement, options: SessionOptions, cacheConfig: WithCacheConfig | undefined) {
    super(statement.query, options.cache, statement.metadata, cacheConfig);
    this.#statement = statement;
    this.#options = options;
  }

  /** Runs the query with these values for its placeholders. */
  async execute(values: Record<string, unknown> = {}): Promise<T["execute"]> {
    const params = this.#values(values);
    if (this.#isRaw) return await this.#run(runRaw, params);
    return this.#mapped(await this.#run(runArrays, params));
  }

  /** Resolves with its rows as objects, by the columns' names in SQL. */
  async all(values: Record<string, unknown> = {}): Promise<T["all"]> {
    return ((await this.#run(runRaw, this.#values(values))) as RawResult).rows;
  }

  /**
   * Yields its rows one by one, as the server sends them. At most one batch of rows is in memory. Leaving the loop
   * cancels the query.
   */
  async *iterator(values: Record<string, unknown> = {}): AsyncGenerator<unknown, void, undefined> {
    const { client, query } = this.#statement;
    const params = this.#values(values);
    const rows = streamArrays(client, query.sql, params);
    const map = this.#isRaw ? rawRow : (row: unknown[], fields: readonly Column[]) => this.#mappedRow(row, fields);
    const wrap = (error: unknown) => wrapped(query.sql, params, error);
    const source = rows[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await source.next().catch((error: unknown) => {
          throw wrap(error);
        });
        if (next.done) return;
        yield map(next.value, rows.fields);
      }
    } finally {
      await source.return?.();
      await this.#invalidateCache();
    }
  }

  /**
   * Returns the query as an item of a batch. Throws if the query has a placeholder, because a batch gives no values.
   *
   * @internal
   */
  toBatch(): { readonly sql: string; readonly params: unknown[] } {
    return { sql: this.#statement.query.sql, params: this.#values({}) };
  }

  /** Converts the result of this query's item to the value that the batch resolves with. @internal */
  mapBatchResult(result: QueryResult<unknown[]>): unknown {
    return this.#isRaw ? rawOfArrays(result) : this.#mapped(result);
  }

  /** The tables that the query writes. @internal */
  get writes(): readonly string[] {
    const { metadata } = this.#statement;
    return metadata && metadata.type !== "select" ? metadata.tables : [];
  }

  /** @internal */
  isResponseInArrayMode(): boolean {
    return this.#statement.isArrayMode;
  }

  get #isRaw(): boolean {
    return !this.#statement.fields && !this.#statement.mapper;
  }

  #values(values: Record<string, unknown>): unknown[] {
    const { sql, params } = this.#statement.query;
    const filled = fillPlaceholders(params, values);
    this.#options.logger?.logQuery(sql, filled);
    return filled;
  }

  /** Tells the cache of a write that did not go through it. */
  async #invalidateCache(): Promise<void> {
    const tables = [...this.writes];
    if (tables.length) await this.#options.cache?.onMutate({ tables });
  }

  /** Runs the query through Drizzle's cache, if there is one, and wraps the driver's errors in Drizzle's. */
  async #run<R>(run: Run<R>, params: unknown[]): Promise<R> {
    const { client, query } = this.#statement;
    if (this.#options.cache) return await this.#throughCache(() => run(client, query.sql, params), params);
    try {
      return await run(client, query.sql, params);
    } catch (error) {
      throw wrapped(query.sql, params, error);
    }
  }

  #throughCache<R>(run: () => Promise<R>, params: unknown[]): Promise<R> {
    return (this as unknown as Undeclared).queryWithCache(this.#statement.query.sql, params, run);
  }

  #mapped({ rows, fields }: ArrayResult): unknown {
    const { mapper } = this.#statement;
    if (mapper) return mapper(convertArrays(rows, fields));
    const mapRow = this.#rowMapper(fields);
    return rows.map(mapRow);
  }

  #mappedRow(row: unknown[], fields: readonly Column[]): unknown {
    const { mapper } = this.#statement;
    if (!mapper) return this.#rowMapper(fields)(row);
    const mapped = mapper(convertArrays([row], fields));
    return Array.isArray(mapped) ? (mapped[0] as unknown) : mapped;
  }

  /** Cached, because a loop needs it for each row. */
  #rowMapper(columns: readonly Column[]): RowMapper {
    if (this.#mapRow && this.#columns === columns) return this.#mapRow;
    const { joinsNotNullableMap } = this as unknown as Undeclared;
    this.#columns = columns;
    return (this.#mapRow = selectionMapper(this.#statement.fields!, columns, joinsNotNullableMap));
  }
}

function rawRow(row: unknown[], fields: readonly Column[]): unknown {
  return rawOfArrays({ rows: [row], fields, rowCount: 1, command: "SELECT" }).rows[0];
}

/** The items of a loop or a batch: queries that Drizzle has built, or has prepared. */
interface Preparable {
  _prepare?(): unknown;
  getQuery?(): Query;
}

/** Beside the class, because esbuild gives a class that names itself another name, which stacks show. */
const sessionIn = <TFullSchema extends Record<string, unknown>, TSchema extends TablesRelationalConfig>(
  ...given: ConstructorParameters<typeof PgzSession<TFullSchema, TSchema>>
): PgzSession<TFullSchema, TSchema> => new PgzSession(...given);

/** Drizzle's session over a client, a pool, a lease, a scope or a transaction of the driver. */
export class PgzSession<
  TFullSchema extends Record<string, unknown>,
  TSchema extends TablesRelationalConfig,
> extends PgSession<PgzQueryResultHKT, TFullSchema, TSchema> {
  static override readonly [entityKind]: string = "PgzSession";
  readonly #client: PgzClient;
  readonly #schema: RelationalSchemaConfig<TSchema> | undefined;
  readonly #options: SessionOptions;

  /** @internal */
  constructor(
    client: PgzClient,
    dialect: PgDialect,
    schema: RelationalSchemaConfig<TSchema> | undefined,
    options: SessionOptions,
  ) {
    super(dialect);
    this.#client = client;
    this.#schema = schema;
    this.#options = options;
  }

  prepareQuery<T extends PreparedQueryConfig = PreparedQueryConfig>(
    query: Query,
    fields: readonly SelectedField[] | undefined,
    _name: string | undefined,
    isArrayMode: boolean,
    mapper?: ResultMapper,
    metadata?: Metadata,
    cacheConfig?: WithCacheConfig,
  ): PgzPreparedQuery<T> {
    const statement = { client: this.#client, query, fields, mapper, metadata, isArrayMode };
    return new PgzPreparedQuery<T>(statement, this.#options, cacheConfig);
  }

  /** @internal */
  prepared(item: unknown): PgzPreparedQuery {
    const { _prepare, getQuery } = Object(item) as Preparable;
    const prepared = item instanceof PgzPreparedQuery ? item : _prepare?.call(item);
    if (prepared instanceof PgzPreparedQuery) return prepared;
    // `_prepare()` of what `db.execute` returns gives that object itself, so its query is prepared here.
    if (getQuery) return this.prepareQuery(getQuery.call(item), undefined, undefined, false);
    throw new UsageError("INVALID_QUERY", "batch and iterator take queries: db.select(…), db.execute(sql`…`).");
  }

  /** @internal */
  async batch(items: readonly unknown[]): Promise<unknown[]> {
    const all = items.map((item) => this.prepared(item));
    const statements = all.map((prepared) => prepared.toBatch());
    const tables = all.flatMap(({ writes }) => writes);
    const results = await runBatch(this.#client, statements).catch((error: unknown) => {
      const ofItem = (index: number) => wrapped(statements[index]!.sql, statements[index]!.params, error);
      throw batchError(error, ofItem, (text) => wrapped(text, [], error));
    });
    if (tables.length) await this.#options.cache?.onMutate({ tables });
    return results.map((result, index) => all[index]!.mapBatchResult(result));
  }

  override transaction<T>(
    work: (tx: PgzTransaction<TFullSchema, TSchema>) => Promise<T>,
    config?: TransactionConfig,
  ): Promise<T> {
    return this.nested(work, config, 0);
  }

  /** @internal */
  nested<T>(
    work: (tx: PgzTransaction<TFullSchema, TSchema>) => Promise<T>,
    config: TransactionConfig | undefined,
    depth: number,
  ): Promise<T> {
    const { dialect } = this;
    const inside = async (client: PgzClient) => {
      const session = sessionIn<TFullSchema, TSchema>(client, dialect, this.#schema, this.#options);
      return await work(new PgzTransaction<TFullSchema, TSchema>(session, dialect, this.#schema, depth));
    };
    return inTransaction(this.#client, inside, config, (text, error) => wrapped(text, [], error));
  }

  override async count(query: SQL): Promise<number> {
    const { rows } = await this.execute<RawResult<{ count: string }>>(query);
    return Number(rows[0]!.count);
  }
}

/** The argument of a transaction's callback. */
export class PgzTransaction<
  TFullSchema extends Record<string, unknown>,
  TSchema extends TablesRelationalConfig,
> extends PgTransaction<PgzQueryResultHKT, TFullSchema, TSchema> {
  static override readonly [entityKind]: string = "PgzTransaction";
  readonly #session: PgzSession<TFullSchema, TSchema>;

  /** @internal */
  constructor(
    session: PgzSession<TFullSchema, TSchema>,
    dialect: PgDialect,
    schema: RelationalSchemaConfig<TSchema> | undefined,
    depth: number,
  ) {
    super(dialect, session, schema, depth);
    this.#session = session;
  }

  /** Runs `work` in a savepoint. Meanwhile calls of the outer transaction are refused. */
  override transaction<T>(work: (tx: PgzTransaction<TFullSchema, TSchema>) => Promise<T>): Promise<T> {
    return this.#session.nested(work, undefined, this.nestedIndex + 1);
  }

  /** Sends several queries at once, inside the transaction. */
  batch<U extends BatchItem<"pg">, T extends Readonly<[U, ...U[]]>>(queries: T): Promise<BatchResponse<T>> {
    return this.#session.batch(queries) as Promise<BatchResponse<T>>;
  }

  /** Yields the rows of a query one by one, as the server sends them. */
  iterator<T extends IterableQuery>(query: T, values?: Record<string, unknown>): AsyncGenerator<RowOf<T>, void> {
    return this.#session.prepared(query).iterator(values) as AsyncGenerator<RowOf<T>, void>;
  }
}
