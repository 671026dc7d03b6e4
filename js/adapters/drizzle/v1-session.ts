// Drizzle's session over the driver, for drizzle-orm 1.0: prepared queries, transactions, batches and loops.
//
// Knows Drizzle's contract of a session. Must not know how statements run (runner.ts), nor how rows become its objects
// (v1-columns.ts).
import { DrizzleQueryError, entityKind, fillPlaceholders, NoopLogger, type Logger, type Query } from "drizzle-orm-v1";
import type { BatchItem, BatchResponse } from "drizzle-orm-v1/batch";
import { NoopCache, type Cache } from "drizzle-orm-v1/cache/core";
import type { QueryMetadata, WithCacheConfig } from "drizzle-orm-v1/cache/core/types";
import type { PgDialect, PgQueryResultHKT, PgTransactionConfig, PreparedQueryConfig } from "drizzle-orm-v1/pg-core";
import { PgAsyncPreparedQuery, PgAsyncSession, PgAsyncTransaction } from "drizzle-orm-v1/pg-core/async";
import type { AnyRelations } from "drizzle-orm-v1/relations";
import { sql } from "drizzle-orm-v1/sql";
import { UsageError, type Column, type QueryResult } from "../../index.ts";
import { convertArrays } from "./forms.ts";
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
import { RelationalSelection, Selection } from "./v1-columns.ts";

/** The result type of `db.execute`, in Drizzle's way to express it. */
export interface PgzQueryResultHKT extends PgQueryResultHKT {
  type: RawResult<this["row"] extends "unknown" ? Record<string, unknown> : this["row"]>;
}

/** Options that all sessions of a database share. */
export interface SessionOptions {
  readonly logger?: Logger | undefined;
  readonly cache?: Cache | undefined;
  readonly paramsInErrors?: boolean | undefined;
}

type Mode = "arrays" | "objects" | "raw";

/** A statement, the object that runs it, and the mapper of its rows to Drizzle's values. */
interface Statement {
  readonly client: PgzClient;
  readonly query: Query;
  readonly mode: Mode;
  readonly options: SessionOptions;
  readonly map: ((result: ArrayResult) => unknown) | undefined;
}

/** A statement that Drizzle has built. Its placeholders get their values when it runs. */
export class PgzPreparedQuery<T extends PreparedQueryConfig = PreparedQueryConfig> extends PgAsyncPreparedQuery<T> {
  static override readonly [entityKind]: string = "PgzPreparedQuery";
  readonly #statement: Statement;
  readonly #metadata: QueryMetadata | undefined;

  /** @internal */
  constructor(statement: Statement, metadata: QueryMetadata | undefined, cacheConfig: WithCacheConfig | undefined) {
    const { client, query, mode, options, map } = statement;
    const { logger = new NoopLogger(), cache = new NoopCache(), paramsInErrors } = options;
    const run = (params: unknown[] = []) =>
      map
        ? runArrays(client, query.sql, params)
        : runRaw(client, query.sql, params).then((result) => (mode === "raw" ? result : (result as RawResult).rows));
    // The cache stores the result of `run`, which is plain data.
    super(run, query, map as never, mode, logger, cache, metadata, cacheConfig, paramsInErrors);
    this.#statement = statement;
    this.#metadata = metadata;
  }

  /**
   * Yields its rows one by one, as the server sends them. At most one batch of rows is in memory. Leaving the loop
   * cancels the query.
   */
  async *iterator(values: Record<string, unknown> = {}): AsyncGenerator<unknown, void, undefined> {
    const { client, query, map } = this.#statement;
    const params = this.#values(values);
    const rows = streamArrays(client, query.sql, params);
    const source = rows[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await source.next().catch((error: unknown) => {
          throw this.wrapped(params, error);
        });
        if (next.done) return;
        if (!map) yield rawRow(next.value, rows.fields);
        else {
          const mapped = map({ rows: [next.value], fields: rows.fields });
          yield Array.isArray(mapped) ? (mapped[0] as unknown) : mapped;
        }
      }
    } finally {
      await source.return?.();
      // The write did not go through the cache, so the cache is told of it.
      const tables = [...this.writes];
      if (tables.length) await this.#statement.options.cache?.onMutate({ tables });
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
    const { map, mode } = this.#statement;
    if (map) return map(result);
    const raw = rawOfArrays(result);
    return mode === "raw" ? raw : raw.rows;
  }

  /** @internal */
  wrapped(params: readonly unknown[], error: unknown): DrizzleQueryError {
    const { options, query } = this.#statement;
    return new DrizzleQueryError(
      query.sql,
      options.paramsInErrors ? [...params] : (undefined as never),
      error as Error,
    );
  }

  /** The tables that the query writes. @internal */
  get writes(): readonly string[] {
    if (!this.#metadata || this.#metadata.type === "select") return [];
    const { tables } = this.#metadata as { tables: string[] | (() => string[]) };
    return typeof tables === "function" ? tables() : tables;
  }

  #values(values: Record<string, unknown>): unknown[] {
    const { options, query } = this.#statement;
    const filled = fillPlaceholders(query.params, values);
    options.logger?.logQuery(query.sql, filled);
    return filled;
  }
}

function rawRow(row: unknown[], fields: readonly Column[]): unknown {
  return rawOfArrays({ rows: [row], fields, rowCount: 1, command: "SELECT" }).rows[0];
}

/** Beside the class, because esbuild gives a class that names itself another name, which stacks show. */
const sessionIn = <TRelations extends AnyRelations>(
  ...given: ConstructorParameters<typeof PgzSession<TRelations>>
): PgzSession<TRelations> => new PgzSession(...given);

/** Drizzle's session over a client, a pool, a lease, a scope or a transaction of the driver. */
export class PgzSession<TRelations extends AnyRelations> extends PgAsyncSession<PgzQueryResultHKT, TRelations> {
  static override readonly [entityKind]: string = "PgzSession";
  readonly #client: PgzClient;
  readonly #relations: TRelations;
  readonly #options: SessionOptions;

  /** @internal */
  constructor(client: PgzClient, dialect: PgDialect, relations: TRelations, options: SessionOptions) {
    super(dialect);
    this.#client = client;
    this.#relations = relations;
    this.#options = options;
  }

  /** `selection` comes from the dialect of `drizzle()`: its description of the fields, if there is one. */
  override prepareQuery<T extends PreparedQueryConfig = PreparedQueryConfig>(
    query: Query,
    mode: Mode,
    _name: string | boolean,
    mapper?: (rows: unknown[]) => unknown,
    metadata?: QueryMetadata,
    cacheConfig?: WithCacheConfig,
    selection?: unknown,
  ): PgzPreparedQuery<T> {
    const statement = {
      client: this.#client,
      query,
      mode,
      options: this.#options,
      map: mapOf(mode, mapper, selection),
    };
    return new PgzPreparedQuery<T>(statement, metadata, cacheConfig);
  }

  /** @internal */
  prepared(item: unknown): PgzPreparedQuery {
    const { _prepare } = Object(item) as { _prepare?: () => unknown };
    const prepared = item instanceof PgzPreparedQuery ? item : _prepare?.call(item);
    if (prepared instanceof PgzPreparedQuery) return prepared;
    throw new UsageError("INVALID_QUERY", "batch and iterator take queries: db.select(…), db.execute(sql`…`).");
  }

  /** @internal */
  async batch(items: readonly unknown[]): Promise<unknown[]> {
    const all = items.map((item) => this.prepared(item));
    const statements = all.map((prepared) => prepared.toBatch());
    const tables = all.flatMap(({ writes }) => writes);
    const results = await runBatch(this.#client, statements).catch((error: unknown) => {
      const ofItem = (index: number) => all[index]!.wrapped(statements[index]!.params, error);
      throw batchError(error, ofItem, (text) => new DrizzleQueryError(text, [], error as Error));
    });
    if (tables.length) await this.#options.cache?.onMutate({ tables });
    return results.map((result, index) => all[index]!.mapBatchResult(result));
  }

  override transaction<T>(
    work: (tx: PgzTransaction<TRelations>) => Promise<T>,
    config?: TransactionConfig & PgTransactionConfig,
  ): Promise<T> {
    return this.nested(work, config, 0);
  }

  /** @internal */
  nested<T>(
    work: (tx: PgzTransaction<TRelations>) => Promise<T>,
    config: (TransactionConfig & PgTransactionConfig) | undefined,
    depth: number,
  ): Promise<T> {
    const { dialect } = this;
    const inside = async (client: PgzClient) => {
      const session = sessionIn<TRelations>(client, dialect, this.#relations, this.#options);
      const tx = new PgzTransaction<TRelations>(session, dialect, this.#relations, depth);
      if (config?.snapshot !== undefined)
        await tx.execute(sql`set transaction snapshot ${config.snapshot}`.inlineParams());
      return await work(tx);
    };
    const wrap = (text: string, error: Error) => new DrizzleQueryError(text, [], error);
    return inTransaction(this.#client, inside, config, wrap);
  }
}

function mapOf(mode: Mode, mapper: Mapper | undefined, selection: unknown): Statement["map"] {
  if (selection instanceof Selection) return ({ rows, fields }) => rows.map(selection.mapper(fields));
  if (selection instanceof RelationalSelection)
    return ({ rows, fields }) => (mapper ?? same)(selection.mapper(fields)(rows));
  if (mode !== "arrays") return undefined;
  return ({ rows, fields }) => (mapper ?? same)(convertArrays(rows, fields));
}

type Mapper = (rows: unknown[]) => unknown;
const same: Mapper = (rows) => rows;

/** The argument of a transaction's callback. */
export class PgzTransaction<TRelations extends AnyRelations> extends PgAsyncTransaction<PgzQueryResultHKT, TRelations> {
  static override readonly [entityKind]: string = "PgzTransaction";
  readonly #session: PgzSession<TRelations>;

  /** @internal */
  constructor(session: PgzSession<TRelations>, dialect: PgDialect, relations: TRelations, depth: number) {
    super(dialect, session, relations, depth, false);
    this.#session = session;
  }

  /** Runs `work` in a savepoint. Meanwhile calls of the outer transaction are refused. */
  override transaction<T>(work: (tx: PgzTransaction<TRelations>) => Promise<T>): Promise<T> {
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
