// Guards the database against a model's SQL: each call is one read-only transaction, which is rolled back.
//
// Knows transactions, settings and deadlines. Must not know MCP, formats, or what the SQL means: the server parses it
// and says what it returns, and no code here reads a word of it (docs/decisions/0035).
import { PostgresError, type Description, type Pool, type Scope, type Transaction } from "../../index.ts";

interface GuardOptions {
  /** Milliseconds for one statement. */
  readonly timeout: number;
  /** Settings of each transaction, for row-level security. */
  readonly settings?: Readonly<Record<string, string>>;
}

/** Milliseconds by which the server's own deadline is later than ours. It takes effect if this process is gone. */
const LATER = 1_000;
/** Maximum number of milliseconds for which a transaction here may be idle. */
const LONGEST_IDLE = 30_000;

/** Codes besides SQLSTATEs and the driver's codes. Only answers of tools have them. */
type RefusalCode = "READ_ONLY" | "NO_TABLE";

/** The command itself refuses the call, not the server. */
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
    // The settings go in the flight of BEGIN, before the first statement. They take the transaction's snapshot, and
    // after that the server refuses to make the transaction writable (25001).
    this.#scope = pool.scope({
      settings: {
        ...settings,
        statement_timeout: String(timeout + LATER),
        idle_in_transaction_session_timeout: String(LONGEST_IDLE),
      },
    });
  }

  /** Runs `work` in a transaction that can only read, and rolls it back, whatever the outcome. */
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

/** Thrown by the callback, so that the transaction is rolled back and leaves nothing. */
const ROLLBACK = Symbol("rollback");

/**
 * Returns the server's description of the statement. The server parses the statement but does not run it, and refuses
 * text with two statements (42601).
 */
export async function described(transaction: Transaction, sql: string, timeout: number): Promise<Description> {
  return await transaction.describe(sql, { timeout });
}

export const TYPE_NAMES = `select pg_catalog.format_type(t.oid, t.modifier) as name
from rows from (pg_catalog.unnest($1::pg_catalog.oid[]), pg_catalog.unnest($2::int[]))
  with ordinality t (oid, modifier, place)
order by t.place`;

/** The names of these types, as the server writes them. */
export async function typeNames(
  transaction: Transaction,
  types: readonly { readonly oid: number; readonly modifier: number }[],
): Promise<string[]> {
  if (!types.length) return [];
  const { rows } = await transaction.query<{ name: string }>(TYPE_NAMES, [
    types.map(({ oid }) => oid),
    types.map(({ modifier }) => modifier),
  ]);
  return rows.map(({ name }) => name);
}

/** Whether the statement was cancelled on the server, by its own deadline or by another session. */
export function isCancelled(error: unknown): boolean {
  return error instanceof PostgresError && error.code === "57014";
}
