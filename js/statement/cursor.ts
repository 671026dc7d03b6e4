// A result in batches: a named portal from which each flight takes a number of rows, until the portal is empty or the
// consumer wants no more.
//
// Every flight ends with Sync, and outside a transaction a portal does not survive Sync. So a cursor that finds no
// transaction begins its own: BEGIN in the first flight, COMMIT when all rows have come or the loop is left, ROLLBACK
// when the call fails. (A loop that is left does not say whether by `break` or by an error, and without a cursor the
// statement would be a transaction of its own: so what it wrote stays.)
// Knows its call, the operations and their order. Must not know how batches reach the user, or what a row looks like.
import type { Operation } from "../connection/operation.ts";
import type { Collector } from "../rows/collect.ts";
import type { Form } from "../rows/form.ts";
import type { Call } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { simpleQuery } from "../session/transaction-block.ts";
import type { PgzError } from "../util/errors.ts";
import { LIMIT_BYTES, LIMIT_FIELD_BYTES, LIMIT_ROWS, limitsOf } from "../wasm/boundary.ts";
import { execute } from "./execute.ts";
import type { Query } from "./sql.ts";

export class Cursor<Row> {
  /** The first batch. */
  first: Row[] = [];
  /** There may be more rows. */
  more = true;
  /** True until the first batch has arrived or the call has failed. */
  #isStarting = true;
  /** Settles when the connection is free again. Never rejects. */
  readonly closed: Promise<void>;
  readonly #call: Call<Cursor<Row>>;
  readonly #session: Session;
  readonly #rows: Collector<Row>;
  /** The transaction is the cursor's own. */
  readonly #isOwn: boolean;
  #commit: Operation | undefined;
  /**
   * The last batch. It must end before the connection is cleaned up, because a rerun after a stale statement begins its
   * own transaction.
   */
  #working: Promise<unknown> | undefined;
  #closing: Promise<void> | undefined;
  #release!: () => void;
  #fail!: (error: PgzError) => void;
  /** Rejects when the driver ends the call or the connection is lost, also between two flights. Always handled. */
  readonly #failed: Promise<never>;
  readonly #stopListening: () => void;

  constructor(call: Call<Cursor<Row>>, session: Session, rows: Collector<Row>) {
    this.#call = call;
    this.#session = session;
    this.#rows = rows;
    this.#isOwn = session.transaction.isNone;
    this.closed = new Promise((resolve) => (this.#release = resolve));
    this.#failed = new Promise<never>((_, reject) => (this.#fail = reject));
    this.#failed.catch(() => {});
    const fail = (error: PgzError) => {
      this.#fail(error);
      void this.#end();
    };
    call.consumer = { fail };
    this.#stopListening = session.connection.onClosed((error) => this.#lost(error));
  }

  /**
   * Asks for the first batch, of `size` rows like all later ones. Rejects only if the session ended before that batch
   * arrived. Nothing of the cursor is then left, and the call has not failed yet, because another session may take it.
   */
  async start(query: Query, form: Form, size: number): Promise<void> {
    const { connection, transaction } = this.#session;
    if (this.#isOwn) transaction.begin("BEGIN");
    const { [LIMIT_ROWS]: rows, [LIMIT_BYTES]: bytes, [LIMIT_FIELD_BYTES]: fieldBytes } = form.limits;
    const limits = limitsOf({ rows, bytes, fieldBytes, fetch: size });
    const newSink = () => this.#rows;
    const executing = execute(this.#call, this.#session, { query, form: { ...form, limits }, newSink });
    const work = executing.then((operation) => this.#take(operation));
    this.#working = work.catch(() => {});
    try {
      this.first = await work;
    } catch (error) {
      if (error === connection.closed && !this.#commit) throw error;
      this.#call.fail(error);
    } finally {
      this.#isStarting = false;
    }
  }

  next(): Promise<Row[]> {
    if (this.#call.finished) return this.#failed;
    const work = this.#fetch();
    this.#working = work.catch((error: unknown) => this.#call.fail(error));
    return Promise.race([work, this.#failed]);
  }

  /**
   * Ends the cursor: no more rows are wanted. Its own transaction is committed, which closes the portal. If the call
   * has failed, also while the loop's body ran, this throws its error at once, and `closed` tells when the connection
   * is free. May be called again. On a silent server it takes as long as the call's deadline, if there is one.
   *
   * In the caller's transaction only the portal is closed, and nothing is thrown: what the statement has written stays
   * in it, and a loss is that transaction's to report.
   */
  close(): Promise<void> {
    // The failure comes first: a call that failed a while ago has ended by now, too.
    const ended = Promise.race([this.#failed, this.#end()]);
    return this.#isOwn ? ended : ended.catch(() => {});
  }

  async #fetch(): Promise<Row[]> {
    const operation = this.#call.operate(this.#session.connection, (handle) => handle.fetch(), {
      rows: this.#rows,
    });
    await operation.done;
    if (operation.error) throw operation.error;
    return await this.#take(operation);
  }

  /** The rows of a flight that is over; no rows if the call ended meanwhile. */
  async #take(operation: Operation | undefined): Promise<Row[]> {
    if (!operation) return [];
    const rows = this.#rows.take();
    this.more = operation.suspended;
    if (this.more) operation.rowCount = rows.length;
    else if (this.#isOwn && !this.#call.finished) await this.#commitOwn();
    if (rows.length > 0) this.#call.reaches("rows");
    return rows;
  }

  async #commitOwn(): Promise<void> {
    const { connection } = this.#session;
    const commit = (this.#commit = connection.operate(simpleQuery("COMMIT")));
    this.#call.whenOver(() => connection.abandon(commit));
    await commit.done;
    if (commit.error) throw commit.error;
  }

  #lost(error: PgzError): void {
    const { connection, transaction } = this.#session;
    // A transaction of its own needs no other report: `close` throws. One of the user's does.
    const outcome = transaction.outcomeOfLoss;
    if (this.#isOwn) connection.lossIsReported = true;
    else if (outcome) this.#call.lost = { transaction: outcome };
    if (this.#isStarting) return; // the start fails by itself
    // After an answered COMMIT the call has succeeded: some servers then end the session at once.
    if (!this.#commit || this.#session.transaction.status !== "I") this.#call.fail(error);
  }

  #end(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    const { transaction } = this.#session;
    const { operation } = this.#call;
    await operation?.done.catch(() => {});
    await operation?.cleanup;
    await this.#commit?.cleanup;
    await this.#working;
    if (this.#isOwn) await this.#endOwn();
    else if (operation?.suspended && transaction.status === "T") await this.#closePortal();
    this.#stopListening();
    this.#call.succeed(this);
    this.#release();
  }

  async #endOwn(): Promise<void> {
    const { transaction } = this.#session;
    const isLeft = !this.#commit && !this.#call.finished && transaction.status === "T";
    if (isLeft) await this.#commitOwn().catch((error: unknown) => this.#call.fail(error));
    await transaction.rollBack();
  }

  async #closePortal(): Promise<void> {
    const { connection } = this.#session;
    const closing = connection.operate((handle) => handle.close_portal(), {}, this.#call);
    // The time limit is that of an aborted operation's cleanup.
    connection.abandonWithoutCancel(closing);
    await closing.cleanup;
  }
}
