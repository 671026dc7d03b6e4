// The calls of everything that can begin a transaction: those of calls.ts, and transactions and scopes.
//
// Knows what transactions and scopes need. Must not know on which connection they run.
import { scopeSettings, type ScopeOptions } from "../session/scope-settings.ts";
import type { Session } from "../session/session.ts";
import { UsageError } from "../util/errors.ts";
import { Calls } from "./calls.ts";
import { Scope } from "./scope.ts";
import type { Transaction } from "./transaction.ts";
import { checkWork, type TransactionOptions } from "./transaction-options.ts";

/** The calls that a client, a pool, a lease and a cluster share. @internal */
export abstract class TransactionCalls extends Calls {
  /** `sessionOf`: given the connection's session, the session to run it on. @internal */
  protected abstract runTransaction<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions,
    sessionOf: (session: Session) => Session | Promise<Session>,
  ): Promise<T>;

  /** postgres.js' name, for those who come from it without a compiler. @internal */
  protected async begin(): Promise<never> {
    throw new UsageError("INVALID_QUERY", "There is no begin(): write transaction(async (tx) => { … }).");
  }

  /**
   * Runs `work` inside one transaction (docs/transactions.md). BEGIN is sent with the first statement, COMMIT when
   * `work` has returned, ROLLBACK when it throws.
   *
   * Resolves with what `work` returned, once the server has committed. Rejects with what `work` threw, or with the
   * error of COMMIT.
   *
   * Transactions of one client or lease run one after the other. Meanwhile its own calls reject with
   * `TRANSACTION_OPEN`, because a callback that awaits one would wait forever: call the methods of `work`'s argument
   * instead. A transaction that is made inside another's callback would wait forever too. It rejects with
   * `TRANSACTION_OPEN` when the outer one has run nothing for 3 s: use `tx.transaction`.
   *
   * Each transaction of a pool has its own connection. They run beside each other, and a call of the pool itself inside
   * `work` is outside the transaction.
   *
   * @example
   * const balance = await client.transaction(async (tx) => {
   *   await tx.exec(sql`update accounts set balance = balance - ${100} where id = ${1}`);
   *   const account = await tx.first<{ balance: string }>(sql`select balance from accounts where id = ${1}`);
   *   return account?.balance;
   * }, { isolation: "serializable", retry: true });
   */
  async transaction<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions = {},
  ): Promise<T> {
    checkWork(work);
    return await this.runTransaction(work, options, (session) => session);
  }

  /**
   * These calls with their own settings and role, for row-level security and a schema per tenant (docs/scopes.md). The
   * settings apply to one call, also when it fails, and are sent with it: a call still takes one round trip.
   *
   * Making a scope costs nothing: make one per request. Its transactions, streams and batches work as the client's do.
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
      transaction: (...transaction) => this.runTransaction(...transaction),
      close: () => this.close(),
    });
  }
}
