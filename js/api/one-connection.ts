// The calls of a client, or of a pool's lease: both have a connection to themselves.
//
// Knows whose turn it is among its own calls and its transactions. Must not know how the connection is made, or when it
// ends.
import type { Earlier } from "../session/earlier.ts";
import type { Session } from "../session/session.ts";
import { UsageError, type Facts, type PgzError } from "../util/errors.ts";
import { traced } from "../util/trace.ts";
import { TransactionCalls } from "./transaction-calls.ts";
import type { Call } from "../session/call.ts";
import type { Transaction } from "./transaction.ts";
import { beginStatement, type TransactionOptions } from "./transaction-options.ts";
import { TransactionRun } from "./transaction-run.ts";

export abstract class OneConnection extends TransactionCalls {
  /** The transactions that run or wait for their turn. */
  readonly #transactions = new Set<Pick<Call<unknown>, "interrupt">>();
  /** The transaction whose callback runs. */
  #running: Earlier | undefined;

  /** Why no call can run any more, or none from this request; `undefined` if calls can run. @internal */
  protected abstract ended(): UsageError | undefined;

  /** @internal */
  protected override async runTransaction<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions,
    sessionOf: (session: Session) => Session | Promise<Session>,
  ): Promise<T> {
    const begin = beginStatement(this.config, options);
    const refused = this.ended() ?? this.unfinished();
    if (refused) throw refused;
    const { turns } = this;
    const { lastCopy } = turns;
    const before = turns.end();
    const turn = turns.take();
    const run = new TransactionRun<T>(this.config, this.counters, { work, begin, options });
    const { call } = run;
    this.#transactions.add(call);
    call.whenOver(() => {
      this.#transactions.delete(call);
      if (this.#running?.call.finished) this.#running = undefined;
    });
    const released = run.run(async () => {
      const earlier = this.#running ?? lastCopy;
      if (earlier) void run.failIfIdle(earlier);
      await before;
      if (call.finished) return undefined;
      this.#running = run;
      return sessionOf(await this.connected());
    });
    void released.then(() => turns.pass(turn));
    return await traced(call.promise);
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
