// A client's calls in a context: settings and a role that apply to each call and to nothing after it. Made for
// row-level security, where a tenant's calls share connections with all others.
//
// Knows which calls can have such a context. Must not know how settings are sent (session/), nor whose turn it is: the
// client orders these calls with its own.
import type { Config } from "../config/options.ts";
import type { ScopeSettings } from "../session/scope-settings.ts";
import type { Session } from "../session/session.ts";
import type { Rows } from "../rows/rows.ts";
import type { RowInput } from "../statement/sql.ts";
import { notInScope } from "../statement/scoped-statement.ts";
import { UsageError } from "../util/errors.ts";
import { isClientCopy } from "../util/statement-words.ts";
import { Calls } from "./calls.ts";
import type { Counters } from "./ledger.ts";
import type { CallArguments } from "./call-runner.ts";
import type { Transaction } from "./transaction.ts";
import { checkWork, type TransactionOptions } from "./transaction-options.ts";

/** What a scope needs from its client. */
interface ScopeHost {
  readonly run: <T>(...call: CallArguments<T>) => Promise<T>;
  readonly transaction: <T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions,
    sessionOf: (session: Session) => Session | Promise<Session>,
  ) => Promise<T>;
  readonly close: () => Promise<void>;
}

/**
 * The calls of a client with their own settings and role, which apply to one call each. `client.scope(…)` makes it. The
 * settings are sent in front of the statement, in the same flight, so they cost no round trip. They end with the call,
 * also when it fails.
 */
export class Scope extends Calls {
  readonly #client: ScopeHost;
  /** @internal */
  readonly settings: ScopeSettings;
  /** Our session for each session of the client; a pool has several. */
  readonly #sessions = new WeakMap<Session, Session>();

  /** @internal Use `client.scope()`. */
  constructor(config: Config, counters: Counters, settings: ScopeSettings, client: ScopeHost) {
    super(config, counters);
    this.settings = settings;
    this.#client = client;
  }

  /**
   * Runs a transaction as the client's `transaction` does, in the scope: BEGIN, the settings and the first statement
   * leave together, and the settings apply until the transaction ends.
   *
   * @example
   * await client.scope({ settings: { "app.tenant": 7 } }).transaction(async (tx) => {
   *   await tx.exec(sql`update accounts set balance = balance - ${100} where id = ${1}`);
   *   await tx.last(sql`update accounts set balance = balance + ${100} where id = ${2}`);
   * });
   */
  async transaction<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions = {},
  ): Promise<T> {
    checkWork(work);
    return await this.#client.transaction(work, options, (session) => this.#sessionOf(session));
  }

  /**
   * Always throws `NOT_IN_SCOPE`, because no settings can be sent in front of a COPY. Inside a transaction of the scope
   * it works.
   *
   * @example
   * await scope.transaction(async (tx) => {
   *   for await (const row of tx.copyToRows("select * from log")) console.log(row);
   * });
   */
  override copyToRows<Row = Record<string, unknown>>(_query: RowInput<Row>): Rows<Row> {
    throw copyNeedsTransaction();
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  protected override get shown() {
    return { name: "Scope", ...this.address };
  }

  protected override get isScoped(): boolean {
    return true;
  }

  protected override readonly signal = undefined;

  /** Runs the call in the client's queue, with our session. */
  protected override run<T>(...[subject, options, body, use]: CallArguments<T>): Promise<T> {
    if (isClientCopy(subject.text)) throw copyNeedsTransaction();
    const scoped: typeof body = (call, session, ending) => body(call, this.#sessionOf(session), ending);
    // Calls that share a connection would find what the settings leave.
    const sharing = use === "shared" && this.settings.change !== "none" ? "alone" : use;
    return this.#client.run(subject, options, scoped, sharing);
  }

  /** Returns our session for this one. Throws inside a transaction, because the settings would last until its end. */
  #sessionOf(session: Session): Session {
    if (session.transaction.status !== "I")
      throw new UsageError(
        "TRANSACTION_OPEN",
        "A transaction begun in SQL is open: end it first, or use scope.transaction() instead of BEGIN.",
      );
    session.sessionChanges?.add(this.settings.change);
    const known = this.#sessions.get(session);
    if (known) return known;
    const scoped = session.scoped(this.settings);
    this.#sessions.set(session, scoped);
    return scoped;
  }

  protected override close(): Promise<void> {
    return this.#client.close();
  }

  /** The client refuses calls that may not be made now. */
  protected override refused(): undefined {}

  /** The client connects, so this is never called. */
  protected override connected(): never {
    throw new Error("a scope has no connection of its own");
  }
}

function copyNeedsTransaction(): UsageError {
  return notInScope("COPY in a scope needs a transaction: call it on tx in scope.transaction(async (tx) => { … }).");
}
