// The calls of whoever can begin a transaction: besides those of calls.ts, transactions and scopes.
//
// Knows what both need. Must not know on which connection they run.
import { scopeSettings, type ScopeOptions } from "../session/scope-settings.ts";
import type { Session } from "../session/session.ts";
import { Calls } from "./calls.ts";
import { Scope } from "./scope.ts";
import { checkWork, type Transaction, type TransactionOptions } from "./transaction.ts";

/** The calls of a client, a pool, a lease and a cluster: what each of these has. */
export abstract class TransactionCalls extends Calls {
  /** `sessionOf`: the session to run it on, given the connection's. @internal */
  protected abstract begin<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions,
    sessionOf: (session: Session) => Session | Promise<Session>,
  ): Promise<T>;

  /**
   * Runs `work` inside one transaction (docs/transactions.md). BEGIN is sent with the first statement, COMMIT when
   * `work` has returned, ROLLBACK when it throws.
   *
   * Resolves with what `work` returned, once the server has committed. Rejects with what `work` threw, or with the
   * error of COMMIT.
   *
   * Transactions of one client or lease run one after the other, and meanwhile its own calls reject with
   * `TRANSACTION_OPEN`, because they would wait for themselves: use `work`'s argument. A transaction that is made
   * inside another's callback would wait for itself: it rejects with `TRANSACTION_OPEN` when that one has run nothing
   * for 3 s. Use `tx.transaction`.
   *
   * Transactions of a pool have a connection of their own each: they run beside each other, and a call of the pool
   * itself inside of `work` is outside of the transaction.
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
    checkWork(work);
    return await this.begin(work, options, (session) => session);
  }

  /**
   * These calls with settings and a role of their own, for row-level security and a schema per tenant (docs/scopes.md).
   * They hold for one call, also when it fails, and travel with it: a call still takes one round trip.
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
      transaction: (...transaction) => this.begin(...transaction),
      close: () => this.close(),
    });
  }
}
