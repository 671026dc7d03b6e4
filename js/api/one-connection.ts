// The calls of whoever has one connection for itself, a client or a lease of a pool.
//
// Knows whose turn it is between its own calls and its transactions. Must not know how the connection is made, or when
// it ends.
import type { Session } from "../session/session.ts";
import { UsageError, type Facts, type PgzError } from "../util/errors.ts";
import { traced } from "../util/trace.ts";
import { Transacting } from "./transacting.ts";
import {
  beginStatement,
  runTransaction,
  type Running,
  type Transaction,
  type TransactionOptions,
} from "./transaction.ts";

export abstract class OneConnection extends Transacting {
  /** Transactions that run or wait for their turn. */
  #transactions = 0;
  /** The one whose callback runs. */
  #running: Running | undefined;

  /** Why nothing can run any more, or not from here. @internal */
  protected abstract ended(): UsageError | undefined;

  /** @internal */
  protected override async begin<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions,
    sessionOf: (session: Session) => Session,
  ): Promise<T> {
    const begin = beginStatement(this.config, options);
    const refused = this.ended() ?? this.unfinished();
    if (refused) throw refused;
    this.#transactions++;
    const { config, counters, line } = this;
    const connect = async () => sessionOf(await this.connected());
    const before = line.end();
    const turn = line.take();
    const { result, released } = runTransaction(work, options, {
      config,
      counters,
      begin,
      turn: before,
      front: this.#running,
      connect,
      begins: (running) => void (this.#running = running),
      settled: () => {
        this.#transactions--;
        if (this.#running?.call.finished) this.#running = undefined;
      },
    });
    void released.then(() => line.pass(turn));
    return await traced(result);
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  /** @internal */
  protected get isInTransaction(): boolean {
    return this.#transactions > 0;
  }

  /** Ends all calls and the transaction that runs; those to come too. */
  protected override stop(error: (facts: Facts) => PgzError, exceptStreams?: boolean): void {
    super.stop(error, exceptStreams);
    this.#running?.call.interrupt(error);
  }

  protected override refused(): UsageError | undefined {
    const ended = this.ended();
    if (ended || !this.#transactions) return ended;
    return new UsageError(
      "TRANSACTION_OPEN",
      "A transaction of this client is open: use its methods, wait for its end, or use another client.",
    );
  }
}
