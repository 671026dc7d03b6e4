// The options of `transaction`, and the BEGIN that they make.
//
// Knows PostgreSQL's words for them. Must not know how a transaction runs.
import { callOption } from "../config/config.ts";
import type { Config } from "../config/options.ts";
import { attempts, checkOptions, namesOf, oneOf } from "../config/rules.ts";
import { UsageError } from "../util/errors.ts";

/** The isolation levels by PostgreSQL's names. */
export type Isolation = "read uncommitted" | "read committed" | "repeatable read" | "serializable";

/** Options of `transaction`. */
export interface TransactionOptions {
  /** The isolation level. Default: the session's (`default_transaction_isolation`). */
  readonly isolation?: Isolation | undefined;
  /** Whether the transaction may only read. Default: the session's. */
  readonly readOnly?: boolean | undefined;
  /**
   * A serializable read-only transaction waits until it can neither fail nor make others fail. Default: the session's.
   */
  readonly deferrable?: boolean | undefined;
  /**
   * Runs the whole callback again after a conflict (40001, 40P01), which the server has rolled back. An error whose
   * `cause` is a conflict counts too. `true`: up to three runs in all; a number: that many. The pause is 10 ms, 20 ms …
   * 500 ms plus up to as much again at random. What the callback does outside the database is also repeated. Default
   * false.
   */
  readonly retry?: boolean | number | undefined;
  /** When it aborts, the running statement is cancelled and the transaction rolled back. */
  readonly signal?: AbortSignal | undefined;
  /** Milliseconds for the whole transaction, including waiting and retries. 0: no deadline. Default 0. */
  readonly timeout?: number | undefined;
}

const OPTION_NAMES = namesOf<TransactionOptions>({
  isolation: true,
  readOnly: true,
  deferrable: true,
  retry: true,
  signal: true,
  timeout: true,
});

/** Returns the statement that begins it. Throws if an option is invalid. */
export function beginStatement(config: Config, options: TransactionOptions): string {
  checkOptions(options, OPTION_NAMES);
  const { isolation, readOnly, deferrable, retry = false } = options;
  attempts(retry, "retry");
  callOption(config, options, "timeout");
  callOption(config, options, "signal");
  const words = ["BEGIN"];
  const flag = oneOf(true, false);
  if (isolation !== undefined)
    words.push(
      "ISOLATION LEVEL",
      oneOf(
        "read uncommitted",
        "read committed",
        "repeatable read",
        "serializable",
      )(isolation, "isolation").toUpperCase(),
    );
  if (readOnly !== undefined) words.push("READ", flag(readOnly, "readOnly") ? "ONLY" : "WRITE");
  if (deferrable !== undefined) words.push(flag(deferrable, "deferrable") ? "DEFERRABLE" : "NOT DEFERRABLE");
  return words.join(" ");
}

/** Throws unless it is a function. Lists of statements, as Prisma takes them, are batches here. */
export function checkWork(work: unknown): void {
  if (typeof work === "function") return;
  throw new UsageError(
    "INVALID_OPTION",
    "transaction needs a function: transaction(async (tx) => …). For a list of statements use batch.",
  );
}

/** Throws if a nested transaction is given options. */
export function refuseOptions(options: TransactionOptions): void {
  checkOptions(options, OPTION_NAMES);
  if (OPTION_NAMES.some((name) => options[name as keyof TransactionOptions] !== undefined))
    throw new UsageError("INVALID_OPTION", "A nested transaction has no options: give them to the outer one.");
}
