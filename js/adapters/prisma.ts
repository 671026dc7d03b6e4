// `pgz-edge/prisma`: a driver adapter for Prisma 7 over a pool (docs/prisma.md, docs/decisions/0028).
//
// Knows Prisma's contract and the pool's public calls. Must not know values (prisma-values.ts) or errors
// (prisma-errors.ts). Imports nothing of Prisma's.
import { createPool, UsageError, type Isolation, type Pool, type PoolInput, type Transaction } from "../index.ts";
import type {
  ConnectionInfo,
  IsolationLevel,
  SqlDriverAdapter,
  SqlQuery,
  SqlQueryable,
  SqlResultSet,
  SqlTransaction,
} from "./prisma-contract.ts";
import { hasSeveral } from "../util/sql-reader.ts";
import { DriverAdapterError, prismaError, ROLLED_BACK } from "./prisma-errors.ts";
import { isOfDatabase, parametersOf, resultSet, VALUES } from "./prisma-values.ts";

/** Options of {@link PrismaPgz}. */
export interface PrismaPgzOptions {
  /** The schema of the tables in the queries that Prisma makes. Default: Prisma's, `public`. */
  readonly schema?: string | undefined;
  /**
   * Whether `$disconnect()` closes a pool that you have passed. Default false. A pool that the adapter has made is
   * always closed.
   */
  readonly disposeExternalPool?: boolean | undefined;
  /**
   * Called for each value of a type that the database itself defines (an enum, a composite, a type of an extension).
   * Returns the text that replaces the value in the row. A composite is passed as an object, an array of such a type as
   * an array. The function may query the database.
   */
  readonly userDefinedTypeParser?: ((typeOid: number, value: unknown, adapter: SqlQueryable) => unknown) | undefined;
}

const OPTIONS: readonly string[] = ["schema", "disposeExternalPool", "userDefinedTypeParser"];
const NAME = "pgz-edge/prisma";

/**
 * Lets Prisma's client use this driver, by its option `adapter`.
 *
 * @example
 * const prisma = new PrismaClient({ adapter: new PrismaPgz(process.env.DATABASE_URL) });
 */
export class PrismaPgz {
  readonly provider = "postgres";
  readonly adapterName = NAME;
  readonly #target: PoolInput | Pool;
  readonly #options: PrismaPgzOptions;

  /**
   * `target` is what `createPool` takes, such as a connection string or a Hyperdrive binding, or a pool of yours. Your
   * pool must not have parsers of its own (option `types`).
   *
   * @throws UsageError `UNKNOWN_OPTION`
   */
  constructor(target: PoolInput | Pool, options: PrismaPgzOptions = {}) {
    for (const name of Object.keys(options))
      if (!OPTIONS.includes(name))
        throw new UsageError("UNKNOWN_OPTION", `PrismaPgz has no option "${name}", only ${OPTIONS.join(", ")}.`);
    this.#target = target;
    this.#options = options;
  }

  /** The client calls this when it connects, and again after `$disconnect()`. Sends nothing yet. */
  async connect(): Promise<SqlDriverAdapter> {
    const target = this.#target;
    // The forms that Prisma wants are the pool's defaults, so they need not be worked out for each call.
    if (!isPool(target)) return new Adapter(createPool(target, VALUES), this.#options, true);
    return new Adapter(target, this.#options, this.#options.disposeExternalPool === true);
  }
}

/** Recognises a pool of another copy of the package, too. */
function isPool(target: PoolInput | Pool): target is Pool {
  // Without a target, createPool reports what is missing.
  return typeof (target as Partial<Pool> | undefined)?.acquire === "function";
}

const ROWS = { ...VALUES, rowMode: "array" } as const;

/** Runs statements on a pool or in a transaction. */
abstract class Queryable implements SqlQueryable {
  readonly provider = "postgres";
  readonly adapterName = NAME;
  readonly #calls: Pick<Pool, "query" | "exec" | "simple">;
  readonly #parse: PrismaPgzOptions["userDefinedTypeParser"];

  constructor(calls: Pick<Pool, "query" | "exec" | "simple">, { userDefinedTypeParser }: PrismaPgzOptions) {
    this.#calls = calls;
    this.#parse = userDefinedTypeParser;
  }

  async queryRaw(query: SqlQuery): Promise<SqlResultSet> {
    try {
      const { fields, rows } = await this.#calls.query<unknown[]>(query.sql, parametersOf(query), ROWS);
      const result = resultSet(fields, rows, this.#parse !== undefined);
      if (!this.#parse) return result;
      for (const [index, column] of fields.entries())
        if (isOfDatabase(column))
          for (const row of rows) row[index] = await this.#parse(column.typeOid, row[index], this);
      return result;
    } catch (error) {
      throw prismaError(error);
    }
  }

  async executeRaw(query: SqlQuery): Promise<number> {
    try {
      // The extended query protocol takes one statement.
      if (!query.args.length && hasSeveral(query.sql)) {
        const results = await this.#calls.simple(query.sql);
        return results.reduce((sum, { rowCount }) => sum + (rowCount ?? 0), 0);
      }
      return (await this.#calls.exec(query.sql, parametersOf(query))).rowCount ?? 0;
    } catch (error) {
      throw prismaError(error);
    }
  }
}

class Adapter extends Queryable implements SqlDriverAdapter {
  readonly #pool: Pool;
  readonly #options: PrismaPgzOptions;
  readonly #closes: boolean;

  constructor(pool: Pool, options: PrismaPgzOptions, closes: boolean) {
    super(pool, options);
    this.#pool = pool;
    this.#options = options;
    this.#closes = closes;
  }

  /**
   * Uses the simple query protocol: the whole text is one round trip, and one transaction unless the text says
   * otherwise.
   */
  async executeScript(script: string): Promise<void> {
    try {
      await this.#pool.simple(script);
    } catch (error) {
      throw prismaError(error);
    }
  }

  /** Resolves when there is a connection. BEGIN and its isolation level are sent with the first statement. */
  async startTransaction(level?: IsolationLevel): Promise<SqlTransaction> {
    const isolation = level && isolationOf(level);
    return await new Promise((resolve, reject) => {
      const over = this.#pool.transaction<void>(
        (transaction) =>
          new Promise((commit, rollBack) =>
            resolve(new PrismaTransaction(transaction, this.#options, { commit, rollBack, over: () => over })),
          ),
        isolation && { isolation },
      );
      // Only an error before there is a connection rejects here. A later error is reported by the next statement, or at
      // the end.
      over.catch((error: unknown) => reject(prismaError(error)));
    });
  }

  getConnectionInfo(): ConnectionInfo {
    const { schema } = this.#options;
    return { ...(schema !== undefined && { schemaName: schema }), supportsRelationJoins: true };
  }

  async dispose(): Promise<void> {
    if (this.#closes) await this.#pool.close();
  }
}

const ISOLATIONS: readonly Isolation[] = ["read uncommitted", "read committed", "repeatable read", "serializable"];

function isolationOf(level: IsolationLevel): Isolation {
  const found = ISOLATIONS.find((name) => name === level.toLowerCase());
  if (!found) throw new DriverAdapterError({ kind: "InvalidIsolationLevel", level });
  return found;
}

/** The two ways to end the transaction's callback, and the promise of its result. */
interface Ends {
  readonly commit: () => void;
  readonly rollBack: (reason: unknown) => void;
  readonly over: () => Promise<void>;
}

class PrismaTransaction extends Queryable implements SqlTransaction {
  /** Prisma calls `commit` and `rollback` and sends neither as SQL itself, so a COMMIT that rolled back is noticed. */
  readonly options = { usePhantomQuery: true };
  readonly #ends: Ends;

  constructor(transaction: Transaction, options: PrismaPgzOptions, ends: Ends) {
    super(transaction, options);
    this.#ends = ends;
  }

  async commit(): Promise<void> {
    const { commit, over } = this.#ends;
    commit();
    try {
      await over();
    } catch (error) {
      throw prismaError(error);
    }
  }

  /** Cancels a running statement. Never rejects: if the connection is lost, the server rolls back. */
  async rollback(): Promise<void> {
    const { rollBack, over } = this.#ends;
    rollBack(ROLLED_BACK);
    await over().catch(() => {});
  }

  async createSavepoint(name: string): Promise<void> {
    await this.#run(`SAVEPOINT ${name}`);
  }

  async rollbackToSavepoint(name: string): Promise<void> {
    await this.#run(`ROLLBACK TO SAVEPOINT ${name}`);
  }

  async releaseSavepoint(name: string): Promise<void> {
    await this.#run(`RELEASE SAVEPOINT ${name}`);
  }

  async #run(sql: string): Promise<void> {
    await this.executeRaw({ sql, args: [], argTypes: [] });
  }
}

export type {
  ArgType,
  ColumnType,
  ConnectionInfo,
  IsolationLevel,
  MappedError,
  SqlDriverAdapter,
  SqlQuery,
  SqlQueryable,
  SqlResultSet,
  SqlTransaction,
} from "./prisma-contract.ts";
export { DriverAdapterError } from "./prisma-errors.ts";
