// How Drizzle's statements run on what the driver lends: a client, a pool, a lease, a scope or a transaction.
//
// Knows the driver's calls and which values Drizzle expects of them. Must not know how Drizzle builds its queries, nor
// which version of it asks.
import { PgzError, PostgresError } from "../../index.ts";
import type {
  Client,
  Column,
  Lease,
  Pool,
  QueryResult,
  Rows,
  Scope,
  SimpleOptions,
  Transaction,
  TransactionOptions,
} from "../../index.ts";
import { convertObjects } from "./forms.ts";

/** What runs Drizzle's statements. */
export type PgzClient = Client | Pool | Lease | Scope | Transaction;

/** What a raw statement gives: rows with node-postgres' values, and the counts. */
export type RawResult<Row = Record<string, unknown>> = QueryResult<Row>;

/** Rows as arrays, with the columns by which they are decoded. */
export interface ArrayResult {
  readonly rows: unknown[][];
  readonly fields: readonly Column[];
}

/** What Drizzle wants of a transaction, by its names; what pgz-edge can do besides by its own. */
export interface TransactionConfig {
  readonly isolationLevel?: "read uncommitted" | "read committed" | "repeatable read" | "serializable" | undefined;
  readonly accessMode?: "read only" | "read write" | undefined;
  readonly deferrable?: boolean | undefined;
  /** Runs the callback again after a conflict (40001, 40P01): `true` up to three runs in all, or that many. */
  readonly retry?: boolean | number | undefined;
  /** When it aborts, the running statement is cancelled and the transaction rolled back. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for the whole transaction. */
  readonly timeout?: number | undefined;
}

/** Whatever the client's own settings are: the decoders start from these forms. */
const VALUES: SimpleOptions = {
  int8: "string",
  numeric: "string",
  dates: "string",
  bytea: "uint8array",
  json: "parse",
  duplicates: "keep",
};
const OBJECTS: SimpleOptions = { ...VALUES, rowMode: "object" };
const ARRAYS = { ...VALUES, rowMode: "array" } as const;

/** Rows as arrays, in the driver's forms. */
export function runArrays(client: PgzClient, text: string, values: readonly unknown[]): Promise<ArrayResult> {
  return client.query<unknown[]>(text, values, ARRAYS);
}

/**
 * Rows as objects, in node-postgres' forms. A text without values may have several statements, as a migration's file
 * has, and then gives a list of results.
 */
export async function runRaw(client: PgzClient, text: string, values: readonly unknown[]): Promise<unknown> {
  if (!values.length && hasSeveral(text)) {
    const results = (await client.simple(text, VALUES)).map(plain);
    return results.length === 1 ? results[0] : results;
  }
  return plain(await client.query(text, values, OBJECTS));
}

/** At least if there is one: a semicolon within a literal is taken for one too, and does no harm. */
const hasSeveral = (text: string) => /;\s*\S/.test(text);

function plain(result: QueryResult<Record<string, unknown>>): RawResult {
  convertObjects(result.rows, result.fields);
  return result;
}

/** The rows of a query for a loop, as they come. Leaving the loop cancels the query. */
export function streamArrays(client: PgzClient, text: string, values: readonly unknown[]): Rows<unknown[]> {
  return client.rows<unknown[]>(text, values, ARRAYS);
}

/** Statements in one flight, which is one transaction. */
export function runBatch(
  client: PgzClient,
  statements: readonly { readonly sql: string; readonly params: readonly unknown[] }[],
): Promise<QueryResult<unknown[]>[]> {
  return client.batch<unknown[]>(
    statements.map(({ sql, params }) => ({ text: sql, values: params })),
    ARRAYS,
  );
}

/** The result of a batch's item as {@link runRaw} gives it. */
export function rawOfArrays(result: QueryResult<unknown[]>): RawResult {
  const { rows, fields } = result;
  const objects = rows.map((row) => Object.fromEntries(fields.map(({ name }, index) => [name, row[index]])));
  return plain({ ...result, rows: objects });
}

/**
 * Runs `work` in a transaction, or in a savepoint of the one that is open.
 *
 * Drizzle wraps the driver's errors in its own (`wrap`). So that a conflict can be recognised, and the callback run
 * again, the driver gets its own error, and the caller Drizzle's.
 */
export async function inTransaction<T>(
  client: PgzClient,
  work: (transaction: Transaction) => Promise<T>,
  config: TransactionConfig | undefined,
  wrap: (text: string, error: Error) => Error,
): Promise<T> {
  let thrown: unknown;
  let own: unknown;
  try {
    return await client.transaction<T>(async (transaction) => {
      try {
        return await work(transaction);
      } catch (error) {
        thrown = error;
        const cause = (error as { cause?: unknown } | null)?.cause;
        own = cause instanceof PgzError ? cause : error;
        throw own;
      }
    }, optionsOf(config));
  } catch (error) {
    if (error === own) throw thrown;
    // Not of a statement of the callback: what the server says to COMMIT.
    throw error instanceof PostgresError ? wrap("commit", error) : error;
  }
}

/** The driver takes no option that is not given. */
function optionsOf(config: TransactionConfig | undefined): TransactionOptions {
  if (!config) return {};
  const { isolationLevel: isolation, accessMode, deferrable, retry, signal, timeout } = config;
  const readOnly = accessMode && accessMode === "read only";
  return { isolation, readOnly, deferrable, retry, signal, timeout };
}

/** A query that Drizzle has built, or prepared. */
export type IterableQuery =
  | { readonly _: { readonly result: unknown } }
  | { execute(values?: Record<string, unknown>): Promise<unknown>; getQuery(): unknown };

/** The type of the rows that a query gives. */
export type RowOf<T> = T extends { readonly _: { readonly result: infer Result } }
  ? ElementOf<Result>
  : T extends { execute(values?: Record<string, unknown>): Promise<infer Result> }
    ? ElementOf<Result>
    : unknown;

type ElementOf<Result> = Result extends readonly (infer Row)[]
  ? Row
  : Result extends { readonly rows: readonly (infer Row)[] }
    ? Row
    : NonNullable<Result>;
