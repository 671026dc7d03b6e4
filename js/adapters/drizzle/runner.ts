// Runs Drizzle's statements on an object of the driver: a client, a pool, a lease, a scope or a transaction.
//
// Knows the driver's calls and the values that Drizzle expects from them. Must not know how Drizzle builds its queries,
// nor which version of it calls.
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

/** The objects that can run Drizzle's statements. */
export type PgzClient = Client | Pool | Lease | Scope | Transaction;

/** The result of a raw statement: rows with node-postgres' values, and the counts. */
export type RawResult<Row = Record<string, unknown>> = QueryResult<Row>;

/** Rows as arrays, with the columns that decide how they are decoded. */
export interface ArrayResult {
  readonly rows: unknown[][];
  readonly fields: readonly Column[];
}

/** Options of a transaction: Drizzle's by its names, and those of pgz-edge by the driver's names. */
export interface TransactionConfig {
  readonly isolationLevel?: "read uncommitted" | "read committed" | "repeatable read" | "serializable" | undefined;
  readonly accessMode?: "read only" | "read write" | undefined;
  readonly deferrable?: boolean | undefined;
  /** Runs the callback again after a conflict (40001, 40P01): `true` allows three runs in total, a number that many. */
  readonly retry?: boolean | number | undefined;
  /** When it aborts, the running statement is cancelled and the transaction rolled back. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for the whole transaction. */
  readonly timeout?: number | undefined;
}

/** The forms of values from which the decoders start, whatever the client's own settings are. */
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

/** Resolves with rows as arrays, in the driver's forms. */
export function runArrays(client: PgzClient, text: string, values: readonly unknown[]): Promise<ArrayResult> {
  return client.query<unknown[]>(text, values, ARRAYS);
}

/**
 * Resolves with rows as objects, in node-postgres' forms. A text without values may have several statements, such as a
 * migration's file, and then gives a list of results.
 */
export async function runRaw(client: PgzClient, text: string, values: readonly unknown[]): Promise<unknown> {
  // A backslash may make it uncertain whether there are several statements; then they count as several. This matters
  // only for a scope: elsewhere `simple` gives the same result.
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

/** Returns the rows of a query for a loop, as the server sends them. Leaving the loop cancels the query. */
export function streamArrays(client: PgzClient, text: string, values: readonly unknown[]): Rows<unknown[]> {
  return client.rows<unknown[]>(text, values, ARRAYS);
}

/** Sends statements at once, as one transaction. */
export function runBatch(
  client: PgzClient,
  statements: readonly { readonly sql: string; readonly params: readonly unknown[] }[],
): Promise<QueryResult<unknown[]>[]> {
  return client.batch<unknown[]>(
    statements.map(({ sql, params }) => ({ text: sql, values: params })),
    ARRAYS,
  );
}

/** Returns the error of a batch, wrapped with the statement that failed. COMMIT comes after all of them. */
export function batchError(error: unknown, ofItem: (index: number) => Error, wrap: (text: string) => Error): unknown {
  const { batch } = error as PgzError;
  if (batch?.index !== undefined) return ofItem(batch.index);
  return batch && error instanceof PostgresError ? wrap("commit") : error;
}

/** Converts the result of a batch's item to the form of {@link runRaw}. */
export function rawOfArrays(result: QueryResult<unknown[]>): RawResult {
  const { rows, fields } = result;
  const objects = rows.map((row) => Object.fromEntries(fields.map(({ name }, index) => [name, row[index]])));
  return plain({ ...result, rows: objects });
}

/**
 * Runs `work` in a transaction, or in a savepoint of the open one.
 *
 * Drizzle wraps the driver's errors in its own (`wrap`). The driver gets back its own error, so that it recognises a
 * conflict and runs the callback again. The caller gets the error that the callback threw.
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

/**
 * The driver's own statements, by the stage in which they run. BEGIN is sent with a statement of the callback, which
 * gets its error.
 */
const STATEMENTS = {
  transaction: { begins: undefined, runs: undefined, ends: "commit" },
  savepoint: { begins: "savepoint", runs: undefined, ends: "release savepoint" },
} as const;

/** Only a transaction has `last`. */
const isTransaction = (client: PgzClient): boolean => "last" in client;

/** Returns the driver's error inside the errors of Drizzle, or of an application around it. */
function driverErrorIn(error: unknown): PgzError | undefined {
  let inner = error;
  for (let depth = 0; depth < 10 && inner; depth++) {
    if (inner instanceof PgzError) return inner;
    inner = (inner as { cause?: unknown }).cause;
  }
  return undefined;
}

/** Converts the options. Those that are not given stay undefined. */
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

/** The type of a query's rows. */
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
