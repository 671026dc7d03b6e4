// How Drizzle's statements run on what the driver lends: a client, a pool, a lease, a scope or a transaction.
//
// Knows the driver's calls and which values Drizzle expects of them. Must not know how Drizzle builds its queries, nor
// which version of it asks.
import { PgzError, PostgresError, UsageError } from "../../index.ts";
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
import { hasSeveral } from "../../util/sql-reader.ts";
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
  columnNames: "keep",
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
  // Where a backslash leaves a doubt it has several: only a scope minds, elsewhere `simple` gives the same.
  if (!values.length && hasSeveral(text)) {
    const results = (await client.simple(text, VALUES)).map(plain);
    return results.length === 1 ? results[0] : results;
  }
  return plain(await client.query(text, values, OBJECTS));
}

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

/** The error of a batch, wrapped with the statement that failed; COMMIT comes behind all of them. */
export function batchError(error: unknown, ofItem: (index: number) => Error, wrap: (text: string) => Error): unknown {
  const { batch } = error as PgzError;
  if (batch?.index !== undefined) return ofItem(batch.index);
  return batch && error instanceof PostgresError ? wrap("commit") : error;
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
 * again, the driver gets its own error, and the caller what the callback threw.
 */
export async function inTransaction<T>(
  client: PgzClient,
  work: (transaction: Transaction) => Promise<T>,
  config: TransactionConfig | undefined,
  wrap: (text: string, error: Error) => Error,
): Promise<T> {
  const isInner = isTransaction(client);
  const options = optionsOf(config);
  if (isInner && Object.values(options).some((value) => value !== undefined))
    throw new UsageError("INVALID_OPTION", "A transaction in a transaction is a savepoint, which takes no options.");
  let stage = "begins" as "begins" | "runs" | "ends";
  let thrown: unknown;
  let own: unknown;
  try {
    return await client.transaction<T>(async (transaction) => {
      stage = "runs";
      try {
        const result = await work(transaction);
        stage = "ends";
        return result;
      } catch (error) {
        thrown = error;
        own = driverErrorIn(error) ?? error;
        throw own;
      }
    }, options);
  } catch (error) {
    if (stage === "runs" && error === own) throw thrown;
    const statement = STATEMENTS[isInner ? "savepoint" : "transaction"][stage];
    throw statement && error instanceof PostgresError ? wrap(statement, error) : error;
  }
}

/** The driver's own statements, by when they run. BEGIN leaves with a statement of the callback, whose error it has. */
const STATEMENTS = {
  transaction: { begins: undefined, runs: undefined, ends: "commit" },
  savepoint: { begins: "savepoint", runs: undefined, ends: "release savepoint" },
} as const;

/** Nothing else has `last`. */
const isTransaction = (client: PgzClient): boolean => "last" in client;

/** What Drizzle, or an application around it, has wrapped. */
function driverErrorIn(error: unknown): PgzError | undefined {
  let inner = error;
  for (let depth = 0; depth < 10 && inner; depth++) {
    if (inner instanceof PgzError) return inner;
    inner = (inner as { cause?: unknown }).cause;
  }
  return undefined;
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
