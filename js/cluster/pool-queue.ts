// The part of a pool that a cluster uses besides its public calls: its queue. A cluster has every call of a pool
// because it is a queue too. It hands each call to the queue of the pool that it has chosen (docs/decisions/0047).
//
// Types, and the one cast. Must not know servers.
import type { Pool, Transaction, TransactionOptions } from "../index.ts";
import type { Counters } from "../api/ledger.ts";
import type { CallArguments } from "../api/call-runner.ts";
import type { Config } from "../config/options.ts";
import type { Session } from "../session/session.ts";

export type { Body } from "../api/turn-queue.ts";
export type { CallArguments } from "../api/call-runner.ts";
export type { Config } from "../config/options.ts";
export type { Operation } from "../connection/operation.ts";
export type { Call } from "../session/call.ts";
export type { Session } from "../session/session.ts";
export type { RowInput } from "../statement/sql.ts";

export type Work<T> = (transaction: Transaction) => T | Promise<T>;
export type SessionOf = (session: Session) => Session | Promise<Session>;

/** A queue of calls and transactions. */
export interface PoolQueue {
  readonly config: Config;
  readonly counters: Counters;
  run<T>(...call: CallArguments<T>): Promise<T>;
  runTransaction<T>(work: Work<T>, options: TransactionOptions, sessionOf: SessionOf): Promise<T>;
}

export function queueOf(pool: Pool): PoolQueue {
  return pool as unknown as PoolQueue;
}
