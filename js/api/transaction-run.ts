// One call of `transaction`: it gets a session, and runs its callback until COMMIT, again after a conflict.
//
//   made ── run: its turn, its session ──> BEGIN … callback … COMMIT ──> over
//                                                ^         │
//                                                └─────────┘ a conflict, and `retry`
//
// Knows attempts, and the end of the call. Must not know whose turn it is or how a connection is made
// (one-connection.ts, pool.ts), nor what happens between BEGIN and COMMIT (transaction.ts).
import type { Config } from "../config/options.ts";
import { nextAfter } from "../session/again.ts";
import { Call } from "../session/call.ts";
import { becomesIdle, type Earlier } from "../session/earlier.ts";
import type { Session } from "../session/session.ts";
import { attemptsOf, conflictIn, pauseAfter } from "../statement/attempts.ts";
import { UsageError } from "../util/errors.ts";
import { LONGEST_IDLE } from "../util/limits.ts";
import { ownError } from "../util/trace.ts";
import type { Counters } from "./ledger.ts";
import { Transaction } from "./transaction.ts";
import type { TransactionOptions } from "./transaction-options.ts";
import { stuckBehindCopy } from "./turn-queue.ts";

/** What is run: the user's callback, and the BEGIN that its options have made. */
interface Parts<T> {
  readonly work: (transaction: Transaction) => T | Promise<T>;
  readonly begin: string;
  readonly options: TransactionOptions;
}

export class TransactionRun<T> implements Earlier {
  readonly call: Call<T>;
  readonly #config: Config;
  readonly #counters: Counters;
  readonly #parts: Parts<T>;
  /** The attempt that runs. */
  #attempt: Transaction | undefined;

  constructor(config: Config, counters: Counters, parts: Parts<T>) {
    const { timeout = 0, signal } = parts.options;
    this.call = new Call<T>({ timeout });
    this.#config = config;
    this.#counters = counters;
    this.#parts = parts;
    this.call.abortOn(signal);
    this.call.abortOn(config.signal);
  }

  get idleMark(): number | undefined {
    const attempt = this.#attempt;
    return attempt?.isBusy ? attempt.sourceMark : this.#counters.queries;
  }

  /**
   * Runs the transaction on the session that `connect` gives, once it does; with `undefined` the call has ended
   * meanwhile. Resolves when the connection is free again, whatever became of the call.
   */
  async run(connect: () => Promise<Session | undefined>): Promise<void> {
    try {
      const session = await connect().catch((error: unknown) => {
        throw ownError(error); // several calls may have waited for the same connect
      });
      if (session) await this.#runOn(session);
    } catch (error) {
      this.call.fail(error);
    }
  }

  async #runOn(session: Session): Promise<void> {
    const { call } = this;
    const { connection } = session;
    const { work, begin, options } = this.#parts;
    if (session.transaction.status !== "I")
      throw new UsageError(
        "TRANSACTION_OPEN",
        "A transaction begun in SQL is open: end it first, or use transaction() instead of BEGIN.",
      );
    const most = attemptsOf(options.retry);
    for (let attempt = 1; !call.finished; attempt++) {
      const transaction = new Transaction(this.#config, this.#counters, session);
      this.#attempt = transaction;
      call.consumer = { fail: (error) => transaction.abort(error) };
      // Aborts it also while the callback waits for something else.
      const stopListening = connection.onClosed((error) => {
        connection.lossIsReported = true;
        const outcome = session.transaction.outcomeOfLoss;
        transaction.abort(Object.assign(ownError(error), outcome && { transaction: outcome }));
      });
      session.transaction.beginCallback(begin);
      call.reaches("calls");
      try {
        return call.succeed(await transaction.runToCommit(work));
      } catch (error) {
        const conflict = transaction.mayBeStored ? undefined : conflictIn(error);
        if (call.finished || connection.closed || !conflict) throw error;
        const failedAttempt = {
          effect: "undone",
          place: "alone",
          userHasRows: false,
          repeats: attempt - 1,
          most: most - 1,
        } as const;
        if (nextAfter("conflict", failedAttempt) === "fail") throw error;
        await pauseAfter(attempt, conflict, connection, call);
      } finally {
        stopListening();
        call.consumer = undefined; // the failing call would tell the outcome again, without the block's count
        session.transaction.endCallback();
      }
    }
  }

  /**
   * Fails the transaction, which waits for an earlier transaction or a COPY, once that has been idle for
   * `LONGEST_IDLE`: perhaps this one was made inside its callback, or its source.
   */
  async failIfIdle(earlier: Earlier): Promise<void> {
    const { call } = this;
    if (!(await becomesIdle(earlier, call))) return;
    call.fail(earlier instanceof TransactionRun ? stuckBehindTransaction() : stuckBehindCopy());
  }
}

function stuckBehindTransaction(): UsageError {
  return new UsageError(
    "TRANSACTION_OPEN",
    `An earlier transaction has run nothing for ${LONGEST_IDLE} ms: if it waits for this one, ` +
      "call tx.transaction() inside its callback; else let it end, or use another client.",
    { hasNoEffect: true },
  );
}
