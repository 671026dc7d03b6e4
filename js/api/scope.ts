// A client's calls in a context: settings and a role that hold for each call, and for nothing behind it. Made for
// row-level security, where a tenant's calls share connections with all others.
//
// Knows which calls can have such a context. Must not know how settings travel (session/), nor whose turn it is: its
// calls are its client's.
import type { Config } from "../config/options.ts";
import type { ScopeSettings } from "../session/scope-settings.ts";
import type { Session } from "../session/session.ts";
import type { Rows } from "../rows/rows.ts";
import type { RowInput } from "../statement/sql.ts";
import { isCopy } from "../statement/copy-statement.ts";
import { notInScope } from "../statement/scoped-statement.ts";
import { UsageError } from "../util/errors.ts";
import { Calls } from "./calls.ts";
import type { Counters } from "./ledger.ts";
import type { CallArguments } from "./queue.ts";
import { checkWork, type Transaction, type TransactionOptions } from "./transaction.ts";

/** What a scope needs of its client. */
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
 * The calls of a client with settings and a role of their own, which hold for one call each: `client.scope(…)` makes
 * it. They travel in front of the statement in its flight, so they cost no round trip, and end with it, also when it
 * fails.
 */
export class Scope extends Calls {
  readonly #client: ScopeHost;
  readonly #settings: ScopeSettings;
  /** Ours, beside each of the client's: a pool has several. */
  readonly #sessions = new WeakMap<Session, Session>();

  /** @internal Use `client.scope()`. */
  constructor(config: Config, counters: Counters, settings: ScopeSettings, client: ScopeHost) {
    super(config, counters);
    this.#settings = settings;
    this.#client = client;
  }

  /**
   * {@link ScopeHost.transaction} in the scope: BEGIN, the settings and the first statement leave together, and the
   * settings hold until its end.
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
   * COPY travels by a protocol in front of which nothing can stand.
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
    return { name: "Scope", ...this.place };
  }

  protected override get isScoped(): boolean {
    return true;
  }

  protected override readonly signal = undefined;

  /** The client's queue, with our session. */
  protected override run<T>(...[asked, options, body, way]: CallArguments<T>): Promise<T> {
    if (isCopy(asked.text)) throw copyNeedsTransaction();
    const scoped: typeof body = (call, session, ending) => body(call, this.#sessionOf(session), ending);
    return this.#client.run(asked, options, scoped, way);
  }

  /** Within a transaction the settings would hold to its end. */
  #sessionOf(session: Session): Session {
    if (session.transaction.status !== "I")
      throw new UsageError(
        "TRANSACTION_OPEN",
        "A transaction begun in SQL is open: end it first, or use scope.transaction() instead of BEGIN.",
      );
    const known = this.#sessions.get(session);
    if (known) return known;
    const scoped = session.scoped(this.#settings);
    this.#sessions.set(session, scoped);
    return scoped;
  }

  protected override close(): Promise<void> {
    return this.#client.close();
  }

  /** The client's to say. */
  protected override refused(): undefined {}

  /** The client's to give. */
  protected override connected(): never {
    throw new Error("a scope has no connection of its own");
  }
}

function copyNeedsTransaction(): UsageError {
  return notInScope("COPY needs a transaction in a scope: scope.transaction((tx) => tx.copyFrom(…)).");
}
