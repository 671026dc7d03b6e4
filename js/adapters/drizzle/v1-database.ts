// Makes a Drizzle database from a client of the driver, for drizzle-orm 1.0.
//
// Knows the arguments of `drizzle(…)`. Must not know how a statement runs.
import { DefaultLogger, entityKind, type Logger } from "drizzle-orm-v1";
import type { BatchItem, BatchResponse } from "drizzle-orm-v1/batch";
import {
  PgDialect,
  type DrizzlePgConfig,
  type PgTransactionConfig,
  type PreparedQuerySelection,
} from "drizzle-orm-v1/pg-core";
import { PgAsyncDatabase } from "drizzle-orm-v1/pg-core/async";
import type { AnyRelations, EmptyRelations } from "drizzle-orm-v1/relations";
import * as utils from "drizzle-orm-v1/utils";
import type { Pool } from "../../index.ts";
import { loggerOf, withClientAndCache } from "./assemble.ts";
import { clientAndConfig, type InputOf } from "./input.ts";
import type { IterableQuery, PgzClient, RowOf, TransactionConfig } from "./runner.ts";
import { pgzCodecs } from "./v1-codecs.ts";
import { RelationalSelection, Selection, type RelationalItem, type SelectedField } from "./v1-columns.ts";
import { PgzSession, type PgzQueryResultHKT, type PgzTransaction } from "./v1-session.ts";

/** Drizzle's database, with batches and loops. */
export class PgzDatabase<TRelations extends AnyRelations = EmptyRelations> extends PgAsyncDatabase<
  PgzQueryResultHKT,
  TRelations
> {
  static override readonly [entityKind]: string = "PgzDatabase";
  readonly #session: PgzSession<TRelations>;

  /** @internal */
  constructor(dialect: PgDialect, session: PgzSession<TRelations>, relations: TRelations) {
    super(dialect, session, relations);
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
    work: (tx: PgzTransaction<TRelations>) => Promise<T>,
    config?: TransactionConfig & PgTransactionConfig,
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
export type DrizzleInput<TRelations extends AnyRelations, TClient extends PgzClient> = InputOf<
  DrizzlePgConfig<TRelations>,
  TClient
>;

/**
 * Returns whether Drizzle should generate code: whether it is wanted and this runtime allows it. drizzle-orm has this
 * function but does not declare it.
 */
const { jitCompatCheck } = utils as unknown as { jitCompatCheck(wanted: boolean | undefined): boolean };

type Database<TRelations extends AnyRelations, TClient> = PgzDatabase<TRelations> & { readonly $client: TClient };

/**
 * Returns a Drizzle database over a client, a pool, a lease, a scope or a transaction of the driver. From a connection
 * string or a Hyperdrive binding it makes a pool.
 *
 * @example
 * const db = drizzle(createPool(url), { relations });
 * const rows = await db.select().from(users).where(eq(users.id, 7));
 */
export function drizzle<TRelations extends AnyRelations = EmptyRelations, TClient extends PgzClient = Pool>(
  ...[first, second]: DrizzleInput<TRelations, TClient>
): Database<TRelations, TClient> {
  const [client, config] = clientAndConfig(first, second);
  return construct(client as TClient, config);
}

/**
 * Returns a database without a connection, to build SQL with.
 *
 * @example
 * const { sql, params } = drizzle.mock().select().from(users).toSQL();
 */
drizzle.mock = <TRelations extends AnyRelations = EmptyRelations>(
  config?: DrizzlePgConfig<TRelations>,
): Database<TRelations, PgzClient> => construct({} as PgzClient, config);

function construct<TRelations extends AnyRelations, TClient extends PgzClient>(
  client: TClient,
  config: DrizzlePgConfig<TRelations> = {} as DrizzlePgConfig<TRelations>,
): Database<TRelations, TClient> {
  const { cache, codecs = pgzCodecs, paramsInErrors, relations = {} as TRelations } = config;
  const logger = loggerOf<Logger>(config.logger, () => new DefaultLogger());
  const useJitMappers = jitCompatCheck(config.jit);
  // Drizzle itself applies the user's own codecs.
  const shapeGenerator = selectionOf(() => dialect.mapperGenerators);
  const dialect = new PgDialect({ codecs, useJitMappers, ...(codecs === pgzCodecs && { shapeGenerator }) });
  const options = { logger, cache, paramsInErrors };
  const session = new PgzSession<TRelations>(client, dialect, relations, options);
  const db = new PgzDatabase<TRelations>(dialect, session, relations);
  return withClientAndCache(db, client, cache) as Database<TRelations, TClient>;
}

/** Describes a query's selection. Drizzle passes the result to the session instead of a mapper of its own. */
const selectionOf =
  (generators: () => PgDialect["mapperGenerators"]) =>
  ({ type, fields }: PreparedQuerySelection, nullable: string[] | undefined): Selection | RelationalSelection =>
    type === "plain"
      ? new Selection(fields as readonly SelectedField[], nullable)
      : new RelationalSelection(fields as readonly RelationalItem[], (items) =>
          generators().relationalRows({ ...RELATIONAL, selection: items as typeof fields })!,
        );

/** Rows are arrays, and their JSON comes parsed. */
const RELATIONAL = {
  isFirst: false,
  parseJson: false,
  parseJsonIfString: false,
  rootJsonMappers: false,
  arrayModeRoot: true,
};
