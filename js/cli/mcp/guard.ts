// What stands between a model's SQL and the database: one read-only transaction for each call, which is rolled back.
//
// Knows transactions, settings and deadlines. Must not know MCP, formats, or what the SQL means: the server parses it
// and says what it returns, and nothing here reads a word of it (docs/decisions/0035).
import { PostgresError, type Description, type Pool, type Scope, type Transaction } from "../../index.ts";

export interface GuardOptions {
  /** Milliseconds for one statement. */
  readonly timeout: number;
  /** Settings of each transaction, for row-level security. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** Milliseconds by which the server's own deadline is later than ours: it is for when we are gone. */
const LATER = 1_000;
/** Milliseconds for which a transaction of ours may run nothing. */
const LONGEST_IDLE = 30_000;

/** Beside SQLSTATEs and the driver's codes; only answers of tools have them. */
type RefusalCode = "READ_ONLY" | "NO_TABLE";

/** We say no, not the server. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  constructor(
    readonly code: RefusalCode,
    message: string,
  ) {
    super(message);
  }
}

export class Guard {
  readonly timeout: number;
  readonly #scope: Scope;

  constructor(pool: Pool, { timeout, settings = {} }: GuardOptions) {
    this.timeout = timeout;
    // In front of each transaction's first statement, in its flight. Behind it the transaction has a snapshot, and the
    // server refuses to make it writable (25001).
    this.#scope = pool.scope({
      settings: {
        ...settings,
        statement_timeout: String(timeout + LATER),
        idle_in_transaction_session_timeout: String(LONGEST_IDLE),
      },
    });
  }

  /** Runs `work` in a transaction that can only read, and rolls it back whatever came of it. */
  async run<T>(work: (transaction: Transaction) => Promise<T>, signal: AbortSignal): Promise<T> {
    let done: { readonly value: T } | undefined;
    try {
      await this.#scope.transaction(
        async (transaction) => {
          done = { value: await work(transaction) };
          throw ROLLBACK;
        },
        { readOnly: true, signal },
      );
    } catch (error) {
      if (error !== ROLLBACK) throw error;
    }
    return done!.value;
  }
}

/** Thrown by the callback: what a transaction leaves behind it then is nothing. */
const ROLLBACK = Symbol("rollback");

/** What the server says the statement is. It is parsed and not run, and text with two statements is refused (42601). */
export async function described(transaction: Transaction, sql: string, timeout: number): Promise<Description> {
  return await transaction.describe(sql, { timeout });
}

/** The names of these types, as the server writes them. */
export async function typeNames(
  transaction: Transaction,
  types: readonly { readonly oid: number; readonly modifier: number }[],
): Promise<string[]> {
  if (!types.length) return [];
  const { rows } = await transaction.query<{ name: string }>(
    `select pg_catalog.format_type(t.oid, t.modifier) as name
     from rows from (pg_catalog.unnest($1::pg_catalog.oid[]), pg_catalog.unnest($2::pg_catalog.int4[]))
       with ordinality t (oid, modifier, place)
     order by t.place`,
    [types.map(({ oid }) => oid), types.map(({ modifier }) => modifier)],
  );
  return rows.map(({ name }) => name);
}

/** The server's own deadline, or somebody there, has ended the statement. */
export function isCancelled(error: unknown): boolean {
  return error instanceof PostgresError && error.code === "57014";
}
