// A transaction: a callback between BEGIN and COMMIT, with savepoints for transactions inside it.
//
// Knows when a transaction begins and ends, and what may be called meanwhile. Must not know how a call runs (calls.ts),
// or what runs the callback again (transaction-run.ts).
//
// BEGIN is sent in front of the first statement, in the same flight and before its Sync. If BEGIN fails, the server
// skips the statement too.
import { Calls } from "./calls.ts";
import { callOption } from "../config/config.ts";
import type { Config } from "../config/options.ts";
import { tookTooLong } from "../session/call.ts";
import type { Connection } from "../connection/connection.ts";
import type { Operation } from "../connection/operation.ts";
import type { Session } from "../session/session.ts";
import { commit, simpleQuery } from "../session/transaction-block.ts";
import { conflictIn } from "../statement/attempts.ts";
import type { RowInput } from "../statement/sql.ts";
import {
  AbortError,
  isFatal,
  leavesOutcomeOpen,
  MAY_HAVE_RUN,
  PgzError,
  PostgresError,
  rolledBack,
  UsageError,
} from "../util/errors.ts";
import type { QueryOptions, QueryResult } from "./options.ts";
import { wireUseOf } from "./queries.ts";
import { checkWork, refuseOptions, type TransactionOptions } from "./transaction-options.ts";
import type { Body } from "./turn-queue.ts";
import type { Counters } from "./ledger.ts";
import { ownError, traced } from "../util/trace.ts";
import { connectionLost } from "../runtime/contract.ts";

const COMMIT = "COMMIT";

/** Beside the class, because esbuild gives a class that names itself another name, which stacks show. */
const nestedIn = (config: Config, counters: Counters, session: Session) =>
  new Transaction(config, counters, session, true);

/** The argument of a transaction's callback: a client's calls inside the transaction, which run in their order. */
export class Transaction extends Calls {
  readonly #session: Session;
  /**
   * Why it was ended, from outside or by its callback. (An AbortController costs 4 us in Node, and keeps everything it
   * reaches alive until the next full collection.)
   */
  #end: { readonly reason: unknown } | undefined;
  /** Rejects with the reason when the transaction is ended. */
  readonly #aborted: Promise<never>;
  #rejectAborted!: (reason: unknown) => void;
  #finished = false;
  /** The callback has returned. It may still run after the transaction was ended from outside. */
  #hasReturned = false;
  /** A nested transaction is running. Only its methods may be called meanwhile. */
  #hasOpenNested = false;
  /** The nested transaction that was made last. It may be over. */
  #lastNested: Transaction | undefined;
  /** Resolves when the last nested transaction has ended, with everything that it had abandoned. */
  #lastNestedOver: Promise<void> | undefined;
  #savepoints = 0;
  /** Whether it is a savepoint of another transaction, and so cannot commit. */
  readonly #isNested: boolean;
  /** `last` has been called. */
  #hasLast = false;
  /** The COMMIT that was sent. */
  #commit: Operation | undefined;
  /** The query that `Session.onCommitSent` sent after COMMIT, in the same flight. */
  #afterCommit: Operation | undefined;

  /** @internal */
  constructor(config: Config, counters: Counters, session: Session, isNested = false) {
    super(config, counters);
    this.#session = session;
    this.#isNested = isNested;
    this.#aborted = new Promise((_, reject) => (this.#rejectAborted = reject));
    this.#aborted.catch(() => {});
  }

  /**
   * Runs the last statement, as {@link query} does. COMMIT leaves with it, so that both take one round trip. Resolves
   * with its rows; the transaction resolves when the server has committed. Afterwards no call can be made.
   *
   * If the statement fails, COMMIT rolls back. If the driver refuses its rows (a limit, an abort, a value that cannot
   * be decoded), COMMIT may already have run: the error's `transaction` says what the outcome is.
   *
   * @example
   * await client.transaction(async (tx) => {
   *   await tx.exec(sql`update accounts set balance = balance - ${100} where id = ${1}`);
   *   await tx.last(sql`update accounts set balance = balance + ${100} where id = ${2}`);
   * });
   */
  async last<Row = Record<string, unknown>>(
    input: RowInput<Row>,
    options: QueryOptions = {},
  ): Promise<QueryResult<Row>> {
    if (this.#isNested)
      throw new UsageError(
        "TRANSACTION_OPEN",
        "last() would commit the outer transaction: call query(), or its last().",
      );
    const query = this.asQuery(input, options);
    const result = this.run(query, options, this.#andCommit(this.collecting<Row>(query, options)), wireUseOf(query));
    this.#hasLast = true;
    return await result;
  }

  /** Sends COMMIT as soon as the call has sent its last message. The call ends when both are answered. */
  #andCommit<T>(body: Body<T>): Body<T> {
    return (call, session, ending) => {
      const { connection } = session;
      const end = () => {
        if (this.#commit) return;
        this.#commit = connection.operate(commit);
        this.#commit.carriesEnd = true;
        this.#afterCommit = session.onCommitSent?.();
      };
      // No other call follows this one.
      call.follower = { sent: end };
      // If BEGIN leaves with the statement, `sent` is not called, and COMMIT follows the statement's success.
      call.holder = { onSuccess: end };
      body(call, session, {
        over: () => void this.#answered(connection).then(() => ending.over()),
        failed: (error) => void this.#answered(connection).then(() => ending.failed(error)),
      });
    };
  }

  /** Resolves when the COMMIT after the last statement is over. It has its own deadline, as a COMMIT sent alone has. */
  async #answered(connection: Connection): Promise<void> {
    const sent = this.#commit;
    if (!sent || sent.ended) return;
    const timeout = callOption(this.config, {}, "timeout");
    const late = timeout ? setTimeout(() => connection.interrupt(sent, tookTooLong(timeout)), timeout) : undefined;
    await sent.done.catch(() => {});
    clearTimeout(late);
  }

  /**
   * Runs a nested transaction: a savepoint that is released when `work` has returned, and rolled back to when it
   * throws. Meanwhile calls of the outer transaction reject with `TRANSACTION_OPEN`. It has no options: an isolation
   * level or a deadline is the outer transaction's.
   *
   * @example
   * await client.transaction(async (tx) => {
   *   await tx.exec(sql`insert into orders values (${7})`);
   *   await tx.transaction((inner) => inner.exec("call risky()")).catch(report); // rolled back to a savepoint
   * });
   */
  transaction<T>(work: (transaction: Transaction) => T | Promise<T>): Promise<T>;
  // The compiler refuses options too, except where the object may also be a client.
  async transaction<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions = {},
  ): Promise<T> {
    const refused = this.refused() ?? this.unfinished();
    if (refused) throw refused;
    checkWork(work);
    refuseOptions(options);
    const run = this.#runNested(work);
    this.#lastNestedOver = run.then(
      () => {},
      () => {},
    );
    return await traced(run);
  }

  async #runNested<T>(work: (transaction: Transaction) => T | Promise<T>): Promise<T> {
    this.#hasOpenNested = true;
    const savepoint = `pgz_${++this.#savepoints}`;
    const nested = nestedIn(this.config, this.counters, this.#session);
    nested.#savepoints = this.#savepoints;
    this.#lastNested = nested;
    try {
      await this.#statement(`SAVEPOINT ${savepoint}`);
      try {
        const result = await nested.#callback(work);
        await this.#statement(`RELEASE SAVEPOINT ${savepoint}`);
        return result;
      } catch (error) {
        await nested.#untilIdle();
        // After a lost connection or an end from outside there is nothing to go back to. If this fails, the transaction
        // has failed too, and COMMIT reports it.
        if (!this.#end && !this.#session.connection.closed)
          await this.#statement(`ROLLBACK TO SAVEPOINT ${savepoint}; RELEASE SAVEPOINT ${savepoint}`).catch(() => {});
        throw error;
      }
    } finally {
      this.#hasOpenNested = false;
    }
  }

  /** Runs the callback and then COMMIT, or ROLLBACK if either fails. @internal */
  async runToCommit<T>(work: (transaction: Transaction) => T | Promise<T>): Promise<T> {
    try {
      const result = await this.#callback(work);
      await this.#commitOrThrow();
      return result;
    } catch (error) {
      await this.#untilIdle();
      await this.#session.transaction.rollBack();
      this.#reportOutcome(error);
      // A loop of the user's goes by `retryable`, perhaps of an error's cause.
      if (this.mayBeStored)
        for (const one of [error, conflictIn(error)]) if (one instanceof PgzError) Object.assign(one, MAY_HAVE_RUN);
      throw error;
    }
  }

  /** Gives an error that ends the transaction the outcome, as far as it is known now. */
  #reportOutcome(error: unknown): void {
    if (!(error instanceof PgzError)) return;
    const outcome = this.#commit ? outcomeOf(this.#commit) : error.transaction;
    const isPart = outcome !== "committed" && this.#session.transaction.wasEndedInSql;
    if (isPart || outcome) Object.assign(error, { transaction: isPart ? "unknown" : outcome });
  }

  /** Whether any call in it is queued or running, except an open stream or loop. @internal */
  override get isBusy(): boolean {
    return super.isBusy || this.#lastNested?.isBusy === true;
  }

  /** `idleMark` of the COPY in it that reads its source, if one does. @internal */
  get sourceMark(): number | undefined {
    return this.turns.lastCopy?.idleMark ?? this.#lastNested?.sourceMark;
  }

  /**
   * Whether something of it may be stored: COMMIT was sent and the server has not said that it rolled back, or SQL of
   * the callback has ended the transaction. @internal
   */
  get mayBeStored(): boolean {
    if (this.#session.transaction.wasEndedInSql) return true;
    return this.#commit !== undefined && outcomeOf(this.#commit) !== "rolled back";
  }

  /** Ends the transaction from outside. @internal */
  abort(reason: unknown): void {
    const end = (this.#end ??= { reason });
    this.#rejectAborted(end.reason);
    if (this.#hasOpenNested) this.#lastNested?.abort(end.reason);
    // Calls on a lost connection, COMMIT too, fail by themselves with the error that ended it.
    const { connection } = this.#session;
    if (!connection.closed) this.stop((facts) => new AbortError(end.reason, facts));
    this.#reportOutcome(reason);
    // The server's answer to COMMIT is still awaited, for as long as a stop may take.
    if (this.#commit) connection.abandonWithoutCancel(this.#commit);
  }

  /** Runs the callback and waits for all its calls, including those that it did not await. */
  async #callback<T>(work: (transaction: Transaction) => T | Promise<T>): Promise<T> {
    try {
      const result = await Promise.race([this.#run(work), this.#aborted]);
      const open = this.#refusalByNested() ?? this.unfinished();
      if (open) throw open;
      this.#finished = true;
      await this.turns.end();
      return result;
    } catch (error) {
      this.abort(error);
      throw error;
    } finally {
      this.#finished = true;
    }
  }

  async #run<T>(work: (transaction: Transaction) => T | Promise<T>): Promise<T> {
    try {
      return await work(this);
    } finally {
      this.#hasReturned = true;
    }
  }

  async #commitOrThrow(): Promise<void> {
    const sent = this.#commit;
    if (!(sent ? await hasCommitted(sent) : await this.#sendCommit())) throw rolledBack();
    if (sent?.wasOutside) throw ended();
    // The connection is free only after this query too.
    if (this.#afterCommit) await this.#afterCommit.done.catch(() => {});
  }

  /**
   * Sends COMMIT, unless BEGIN was never sent. Resolves with whether the server committed, or had nothing to commit.
   */
  async #sendCommit(): Promise<boolean> {
    const { transaction } = this.connected();
    const hasBegun = !transaction.isWaiting;
    transaction.withdraw();
    return hasBegun ? isCommit(await this.#statement(COMMIT)) : !transaction.beginFailed;
  }

  /** Resolves when nothing of the transaction runs any more, and no cancel is in flight. */
  async #untilIdle(): Promise<void> {
    await this.#lastNestedOver;
    await this.turns.end();
  }

  /** Runs a statement of the driver's own. Resolves with its command tag. */
  #statement(text: string): Promise<string> {
    return this.queue<string>({ text }, {}, (call, { connection, transaction, onCommitSent }, ending) => {
      const sent = call.operate(connection, simpleQuery([...transaction.preludes, text].join("; ")));
      const operation = transaction.carried(sent);
      if (text === COMMIT) {
        operation.carriesEnd = true;
        this.#commit = operation;
        this.#afterCommit = onCommitSent?.();
      }
      operation.whenOver(() => {
        const error = operation.lost ?? operation.error;
        if (error) return ending.failed(error);
        call.succeed(operation.command);
        ending.over();
      });
    });
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  protected override get shown() {
    const state = this.#finished ? "finished" : this.isBusy ? "busy" : "open";
    return { name: "Transaction", state, ...this.address };
  }

  protected override get isScoped(): boolean {
    return this.#session.isScoped;
  }

  /** No signal: `abort` ends the calls with `stop`. */
  protected override readonly signal = undefined;

  protected override refused(): UsageError | undefined {
    const open = this.#refusalByNested();
    if (open) return open;
    if (this.#hasReturned || this.#hasLast) return ended();
    // After a lost connection the call is not refused here: `connected` throws an error that has the cause.
    return this.#finished && !this.#session.connection.closed ? ended() : undefined;
  }

  #refusalByNested(): UsageError | undefined {
    if (!this.#hasOpenNested) return undefined;
    return new UsageError("TRANSACTION_OPEN", "A nested transaction is open: use its methods, or wait for its end.");
  }

  protected override connected(): Session {
    const { connection, transaction } = this.#session;
    if (connection.closed) throw lostWith(connection.closed, this.#end?.reason);
    // SQL has ended it, and nothing has run since then.
    if (transaction.isNone)
      throw Object.assign(ended(), { transaction: transaction.wasEndedInSql ? "unknown" : "rolled back" });
    return this.#session;
  }

  protected override async close(): Promise<void> {
    // A transaction ends with its callback.
  }
}

async function hasCommitted(ending: Operation): Promise<boolean> {
  await ending.done.catch((lost: unknown) => {
    throw ownError(ending.error ?? lost);
  });
  if (ending.error) throw ending.error;
  return isCommit(ending.command);
}

/** The command tag of a COMMIT is ROLLBACK if the transaction had failed. (H2 answers a COMMIT with UPDATE 0.) */
function isCommit(command: string): boolean {
  return command !== "ROLLBACK";
}

/** The outcome of a transaction, as far as the server has said. After FATAL, a pooler's too, COMMIT may have run. */
function outcomeOf({ command, ended, error, wasOutside }: Operation): PgzError["transaction"] {
  if (wasOutside) return "rolled back"; // SQL had ended it before: `wasEndedInSql` says whether that stored something
  if (ended && command) return isCommit(command) ? "committed" : "rolled back";
  const isRefused = error instanceof PostgresError && !isFatal(error) && !leavesOutcomeOpen(error);
  return ended && isRefused ? "rolled back" : "unknown";
}

/** The error of a call of a transaction that was lost before, and had ended with `reason`. */
function lostWith(cause: PgzError, reason: unknown): PgzError {
  const outcome = reason instanceof PgzError ? reason.transaction : undefined;
  const what = outcome === "rolled back" ? "the server rolls back this transaction" : "this transaction ended with it";
  return Object.assign(connectionLost(what, { cause }), outcome && { transaction: outcome });
}

function ended(): UsageError {
  return new UsageError(
    "TRANSACTION_FINISHED",
    "The transaction is over: its callback has returned, last() was called, or it was ended in SQL.",
  );
}
