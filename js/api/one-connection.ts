// The calls of whoever has one connection for itself, a client or a lease of a pool: besides those of calls.ts its
// transactions, and scopes.
//
// Knows whose turn it is between its own calls and its transactions. Must not know how the connection is made, or when
// it ends.
import { scopeSettings, type ScopeOptions } from "../session/scope-settings.ts";
import type { Session } from "../session/session.ts";
import { UsageError, type Facts, type PgzError } from "../util/errors.ts";
import { Calls } from "./calls.ts";
import { Scope } from "./scope.ts";
import {
  beginStatement,
  runTransaction,
  type Running,
  type Transaction,
  type TransactionOptions,
} from "./transaction.ts";

export abstract class OneConnection extends Calls {
  /** Transactions that run or wait for their turn. */
  #transactions = 0;
  /** The one whose callback runs. */
  #running: Running | undefined;

  /** Why nothing can run any more, or not from here. @internal */
  protected abstract ended(): UsageError | undefined;

  /**
   * Runs `work` inside one transaction (docs/transactions.md). BEGIN is sent with the first statement, COMMIT when
   * `work` has returned, ROLLBACK when it throws.
   *
   * Resolves with what `work` returned, once the server has committed. Rejects with what `work` threw, or with the
   * error of COMMIT. Meanwhile the client's own calls reject with `TRANSACTION_OPEN`, because they would wait for
   * themselves: use `work`'s argument.
   *
   * Transactions of one client run one after the other. One that is made inside another's callback would wait for
   * itself: it rejects with `TRANSACTION_OPEN` when that one has run nothing for 3 s. Use `tx.transaction`.
   *
   * @example
   * const balance = await client.transaction(async (tx) => {
   *   await tx.exec(sql`update accounts set balance = balance - ${100} where id = ${1}`);
   *   const { rows } = await tx.query<{ balance: string }>(sql`select balance from accounts where id = ${1}`);
   *   return rows[0]?.balance;
   * }, { isolation: "serializable", retry: true });
   */
  async transaction<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions = {},
  ): Promise<T> {
    return this.#begin(work, options, (session) => session);
  }

  /**
   * The client's calls with settings and a role of their own, for row-level security and a schema per tenant
   * (docs/scopes.md). They hold for one call, also when it fails, and travel with it: a call still takes one round trip.
   *
   * Making a scope costs nothing: make one per request. Its transactions, streams and batches are as the client's.
   * `simple`, COPY outside a transaction, and statements that end a transaction or outlive it reject with
   * `NOT_IN_SCOPE`.
   *
   * @example
   * const tenant = db.scope({ settings: { "app.tenant": 7 }, role: "app_user" });
   * const { rows } = await tenant.query(sql`select * from orders where state = ${"open"}`);
   */
  scope(options: ScopeOptions): Scope {
    return new Scope(this.config, this.counters, scopeSettings(options), {
      run: (...call) => this.run(...call),
      transaction: (...transaction) => this.#begin(...transaction),
      close: () => this.close(),
    });
  }

  /** `sessionOf`: the one to run it on, given the client's. */
  async #begin<T>(
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
    return result;
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  /** @internal */
  protected get isInTransaction(): boolean {
    return this.#transactions > 0;
  }

  /** Ends all calls and the transaction that runs; those to come too. */
  protected override stop(error: (facts: Facts) => PgzError): void {
    super.stop(error);
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
