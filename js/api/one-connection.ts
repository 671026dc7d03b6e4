// The calls of a client, or of a pool's lease: both have a connection to themselves.
//
// Knows whose turn it is among its own calls and its transactions. Must not know how the connection is made, or when it
// ends.
import type { Session } from "../session/session.ts";
import { UsageError, type Facts, type PgzError } from "../util/errors.ts";
import { traced } from "../util/trace.ts";
import { TransactionCalls } from "./transaction-calls.ts";
import {
  beginStatement,
  runTransaction,
  type Running,
  type Transaction,
  type TransactionOptions,
  type WaitingTransaction,
} from "./transaction.ts";

export abstract class OneConnection extends TransactionCalls {
  /** The transactions that run or wait for their turn. */
  readonly #transactions = new Set<WaitingTransaction>();
  /** The transaction whose callback runs. */
  #running: Running | undefined;

  /** Why nothing can run any more, or not from here, if so. @internal */
  protected abstract ended(): UsageError | undefined;

  /** @internal */
  protected override async begin<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions,
    sessionOf: (session: Session) => Session | Promise<Session>,
  ): Promise<T> {
    const begin = beginStatement(this.config, options);
    const refused = this.ended() ?? this.unfinished();
    if (refused) throw refused;
    const { config, counters, turns } = this;
    const connect = async () => sessionOf(await this.connected());
    const before = turns.end();
    const turn = turns.take();
    const { result, released } = runTransaction(work, options, {
      config,
      counters,
      begin,
      turn: before,
      earlier: this.#running,
      connect,
      made: (call) => void this.#transactions.add(call),
      begins: (running) => void (this.#running = running),
      settled: (call) => {
        this.#transactions.delete(call);
        if (this.#running?.call.finished) this.#running = undefined;
      },
    });
    void released.then(() => turns.pass(turn));
    return await traced(result);
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  /** @internal */
  protected get isInTransaction(): boolean {
    return this.#transactions.size > 0;
  }

  /** Ends all calls and transactions, including those that wait and those made later. */
  protected override stop(error: (facts: Facts) => PgzError): void {
    super.stop(error);
    this.#stopTransactions(error);
  }

  protected override stopAllButStreams(error: (facts: Facts) => PgzError): void {
    super.stopAllButStreams(error);
    this.#stopTransactions(error);
  }

  #stopTransactions(error: (facts: Facts) => PgzError): void {
    for (const call of this.#transactions) call.interrupt(error);
  }

  protected override refused(): UsageError | undefined {
    const ended = this.ended();
    if (ended || !this.#transactions.size) return ended;
    return new UsageError(
      "TRANSACTION_OPEN",
      "A transaction of this client is open: use its methods, wait for its end, or use another client.",
    );
  }
}
