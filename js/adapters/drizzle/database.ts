// Makes a Drizzle database from a client of the driver, for drizzle-orm 0.45.
//
// Knows the arguments of `drizzle(…)`. Must not know how a statement runs.
import { DefaultLogger, entityKind, type DrizzleConfig, type Logger } from "drizzle-orm";
import type { BatchItem, BatchResponse } from "drizzle-orm/batch";
import { PgDatabase, PgDialect } from "drizzle-orm/pg-core";
import {
  createTableRelationsHelpers,
  extractTablesRelationalConfig,
  type ExtractTablesWithRelations,
  type RelationalSchemaConfig,
  type TablesRelationalConfig,
} from "drizzle-orm/relations";
import type { Pool } from "../../index.ts";
import { loggerOf, withClientAndCache } from "./assemble.ts";
import { clientAndConfig, type InputOf } from "./input.ts";
import type { IterableQuery, PgzClient, RowOf, TransactionConfig } from "./runner.ts";
import { PgzSession, type PgzQueryResultHKT, type PgzTransaction } from "./session.ts";

type Schema = Record<string, unknown>;

/** Drizzle's database, with batches and loops. */
export class PgzDatabase<TSchema extends Schema = Record<string, never>> extends PgDatabase<
  PgzQueryResultHKT,
  TSchema
> {
  static override readonly [entityKind]: string = "PgzDatabase";
  readonly #session: PgzSession<TSchema, ExtractTablesWithRelations<TSchema>>;

  /** @internal */
  constructor(
    dialect: PgDialect,
    session: PgzSession<TSchema, ExtractTablesWithRelations<TSchema>>,
    schema: RelationalSchemaConfig<ExtractTablesWithRelations<TSchema>> | undefined,
  ) {
    super(dialect, session, schema);
    this.#session = session;
  }

  /**
   * Runs `work` in a transaction. BEGIN travels with its first statement.
   *
   * @example
   * await db.transaction(async (tx) => {
   *   await tx.update(accounts).set({ balance: 0 }).where(eq(accounts.id, 1));
   * }, { isolationLevel: "serializable", retry: true });
   */
  override transaction<T>(
    work: (tx: PgzTransaction<TSchema, ExtractTablesWithRelations<TSchema>>) => Promise<T>,
    config?: TransactionConfig,
  ): Promise<T> {
    return this.#session.transaction(work, config);
  }

  /**
   * Sends several queries in one round trip (two if some are new to the isolate), as one transaction: all or none take
   * effect. Resolves with the results in order.
   *
   * @example
   * const [user, posts] = await db.batch([
   *   db.insert(users).values({ name: "Grace" }).returning(),
   *   db.select().from(posts),
   * ]);
   */
  batch<U extends BatchItem<"pg">, T extends Readonly<[U, ...U[]]>>(queries: T): Promise<BatchResponse<T>> {
    return this.#session.batch(queries) as Promise<BatchResponse<T>>;
  }

  /**
   * Yields the rows of a query one by one, as the server sends them. At most one batch of rows is in memory. Leaving
   * the loop cancels the query. `values` are the values for a prepared query's placeholders.
   *
   * @example
   * for await (const user of db.iterator(db.select().from(users))) console.log(user.name);
   */
  iterator<T extends IterableQuery>(query: T, values?: Record<string, unknown>): AsyncGenerator<RowOf<T>, void> {
    return this.#session.prepared(query).iterator(values) as AsyncGenerator<RowOf<T>, void>;
  }
}

/** The arguments of {@link drizzle}: a client, and Drizzle's options after it. */
export type DrizzleInput<TSchema extends Schema, TClient extends PgzClient> = InputOf<DrizzleConfig<TSchema>, TClient>;

/** The type of the database. Its `$client` is a pool if `drizzle` has made one. */
type Database<TSchema extends Schema, TClient extends PgzClient> = PgzDatabase<TSchema> & {
  readonly $client: PgzClient extends TClient ? Pool : TClient;
};

/**
 * Returns a Drizzle database over a client, a pool, a lease, a scope or a transaction of the driver. From a connection
 * string or a Hyperdrive binding it makes a pool.
 *
 * @example
 * const db = drizzle(createPool(url), { schema });
 * const rows = await db.select().from(users).where(eq(users.id, 7));
 */
export function drizzle<TSchema extends Schema = Record<string, never>, TClient extends PgzClient = Pool>(
  ...[first, second]: DrizzleInput<TSchema, TClient>
): Database<TSchema, TClient> {
  const [client, config] = clientAndConfig(first, second);
  return construct(client as TClient, config);
}

/**
 * Returns a database without a connection, to build SQL with.
 *
 * @example
 * const { sql, params } = drizzle.mock().select().from(users).toSQL();
 */
drizzle.mock = <TSchema extends Schema = Record<string, never>>(
  config?: DrizzleConfig<TSchema>,
): Database<TSchema, PgzClient> => construct({} as PgzClient, config);

function construct<TSchema extends Schema, TClient extends PgzClient>(
  client: TClient,
  config: DrizzleConfig<TSchema> = {},
): Database<TSchema, TClient> {
  const dialect = new PgDialect(config.casing ? { casing: config.casing } : {});
  const schema = config.schema && relationsOf(config.schema);
  const logger = loggerOf<Logger>(config.logger, () => new DefaultLogger());
  const options = { logger, cache: config.cache };
  const session = new PgzSession<TSchema, ExtractTablesWithRelations<TSchema>>(client, dialect, schema, options);
  const db = new PgzDatabase<TSchema>(dialect, session, schema);
  return withClientAndCache(db, client, config.cache) as unknown as Database<TSchema, TClient>;
}

function relationsOf<TSchema extends Schema>(
  schema: TSchema,
): RelationalSchemaConfig<ExtractTablesWithRelations<TSchema>> {
  const { tables, tableNamesMap } = extractTablesRelationalConfig<TablesRelationalConfig>(
    schema,
    createTableRelationsHelpers,
  );
  return { fullSchema: schema, schema: tables as ExtractTablesWithRelations<TSchema>, tableNamesMap };
}
