// The jobs of a driver while a server fails, and their outcomes: both as JSON, so that a Worker can run a job for a
// test outside.
//
// Must not know how a job runs (run-job.ts), or which outcome is right (suite.ts).

export interface Target {
  host: string;
  port: number;
  database: string;
  user: string;
  password: string;
  sslmode: "disable" | "prefer" | "require" | "verify-full";
  ca?: string;
}

/**
 * The work of a session until it is cut.
 *
 * - `described`: every statement is described first; calls together, then a batch.
 * - `text`: first runs, alone and together, one of which needs the catalog first; then the same, known.
 * - `early`: a first run that leaves with the login.
 * - `batch`: an atomic batch of new statements, then of known statements.
 * - `transaction`: BEGIN before a first run, COMMIT after the last statement.
 * - `scope`: settings before a first run, a known statement, batches and a transaction.
 * - `pool`: a pool's calls, alone and together, a transaction, and a lease. Its writes go into a ledger.
 */
export const SCRIPTS = ["described", "text", "early", "batch", "transaction", "scope", "pool"] as const;
export type Script = (typeof SCRIPTS)[number];

export interface CutJob {
  kind: "cut";
  target: Target;
  script: Script;
  /** Milliseconds for each call and each connect, when the server falls silent. */
  patience?: number;
  /** Calls that may share a connection of the pool. */
  pipelining?: number | undefined;
  /** Nothing follows the script: no next connection, no next call of the pool. */
  alone?: boolean;
}

/** The work of a kept pool in the next request, and its end. */
export interface NextJob {
  kind: "next";
  target: Target;
}

/** How a statement is asked: `together` between two others, `begin` and `last` in a transaction. */
export const WAYS = ["described", "text", "described stream", "stream", "together", "batch", "begin", "last"] as const;
export type Way = (typeof WAYS)[number];

export const STATEMENTS = {
  rows: "select n, label from scripted_rows where n > $1",
  stream: "select id, body from scripted_stream",
  pairs: "select pair from scripted_pairs",
};
export type Statement = keyof typeof STATEMENTS;

export interface BadServerJob {
  kind: "bad server";
  target: Target;
  options: Record<string, unknown>;
  way: Way;
  of: Statement;
  /** Milliseconds between connecting and the statement, for servers that misbehave while no call is in flight. */
  idle: number;
  /** Runs a second statement on the first client after the failure. */
  again: boolean;
}

export interface CancelJob {
  kind: "cancel";
  target: Target;
  options: Record<string, unknown>;
  by: "timeout" | "signal" | "close";
}

export type Job = CutJob | NextJob | BadServerJob | CancelJob;

/** The outcome of one promise. */
export interface Settled {
  /** The code that the script expects of an honest server. */
  wanted: string;
  /** "" for a value, else the error's code ("(empty)" when that is ""), or "pending", or "untyped". */
  code: string;
  /** The error's class. */
  name: string;
  text: string;
  ms: number;
  /** The longest delay, in milliseconds, of the timers that had fired when it settled. */
  timer: number;
  retryable?: boolean;
  hasNoEffect?: boolean;
  transaction?: string;
  /** The entries that it writes into the ledger: all or none. */
  writes?: string[];
}

export interface Outcome {
  /** A violation of the rules of every session; "" when there is none. */
  problem: string;
  /** One per step, in order; those after the end of the session are missing. */
  steps: Record<string, Settled>;
  /** The first step that failed in another way than the script expects; "" when there is none. */
  failed: string;
  /**
   * The longest delay, in milliseconds, of the timers that fired from the start to the last promise, without the next
   * connection.
   */
  timer: number;
  /** Milliseconds from the start to the end, with the next connection. */
  total: number;
  /** The client's own state after `idle` milliseconds. */
  state?: string;
  /** The text that a stream gave before its end. */
  streamed?: string;
}
