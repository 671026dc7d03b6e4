// What a driver is to do while a server fails, and what became of it: both as JSON, so that a Worker can run it for a
// test that lives outside.
//
// Must not know how it runs (run-job.ts), or what to make of an outcome (suite.ts).

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
 * What a session does until it is cut.
 *
 * - `described`: every statement is described first; calls together, then a batch.
 * - `text`: first runs, alone and together, one whose rows wait for the catalog; then the same known.
 * - `early`: a first run that leaves with the login.
 * - `batch`: an atomic one of new statements, then of known ones.
 * - `transaction`: BEGIN in front of a first run, COMMIT behind the last statement.
 * - `scope`: settings in front of a first run, of a known statement, of batches and a transaction.
 * - `pool`: a pool's calls, alone and together, a transaction, and a lease. Its writes go into a ledger.
 */
export const SCRIPTS = ["described", "text", "early", "batch", "transaction", "scope", "pool"] as const;
export type Script = (typeof SCRIPTS)[number];

export interface CutJob {
  kind: "cut";
  target: Target;
  script: Script;
  /** For a server that says nothing any more: milliseconds for each call, and for a connect. */
  patience?: number;
  /** Calls that may share a connection of the pool. */
  pipelining?: number | undefined;
  /** Nothing comes behind the script: no next connection, no next call of the pool. */
  alone?: boolean;
}

/** What a pool that is kept does in the next request, and its end. */
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
  "many pairs": "select pair from scripted_many_pairs",
};
export type Statement = keyof typeof STATEMENTS;

export interface BadServerJob {
  kind: "bad server";
  target: Target;
  options: Record<string, unknown>;
  way: Way;
  of: Statement;
  /** Milliseconds between connecting and the statement, for servers that misbehave while nobody asks. */
  idle: number;
  /** Run on the first client after the failure. */
  again: boolean;
}

export interface CancelJob {
  kind: "cancel";
  target: Target;
  options: Record<string, unknown>;
  by: "timeout" | "signal" | "close";
}

export type Job = CutJob | NextJob | BadServerJob | CancelJob;

/** What became of one promise. */
export interface Settled {
  /** The code that the script expects of an honest server. */
  wanted: string;
  /** "" for a value, else the error's code ("(empty)" when that is ""), or "pending", or "untyped". */
  code: string;
  /** The error's class. */
  name: string;
  text: string;
  ms: number;
  retryable?: boolean;
  transaction?: string;
  /** What it writes into the ledger: all of it or nothing. */
  writes?: string[];
}

export interface Outcome {
  /** What no session may do; "" when all is well. */
  problem: string;
  /** One per step, in order; those after the end of the session are missing. */
  steps: Record<string, Settled>;
  /** The first step that failed otherwise than the script wants it; "" when none did. */
  failed: string;
  /** Start to the last promise, without the next connection. */
  ms: number;
  /** Start to end, the next connection with it. */
  total: number;
  /** What the client says of itself after `idle` milliseconds. */
  state?: string;
  /** What a stream gave before its end. */
  streamed?: string;
}
