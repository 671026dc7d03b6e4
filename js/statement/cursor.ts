// A result in batches: a named portal, from which each flight takes so many rows, until it is empty or nobody wants
// more.
//
// Every flight ends in Sync, and outside a transaction a portal does not survive that. So a cursor that finds none
// opens its own, with BEGIN in the first flight, COMMIT at the end, ROLLBACK when it is left or fails. Knows its call,
// the operations and their order. Must not know how batches reach the user, or what a row looks like.
import type { Operation } from "../connection/operation.ts";
import type { Collector } from "../rows/collect.ts";
import type { Form } from "../rows/form.ts";
import type { Call } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { plainly } from "../session/transaction-block.ts";
import type { PgzError } from "../util/errors.ts";
import { LIMIT_BYTES, LIMIT_FIELD_BYTES, LIMIT_ROWS, limitsOf } from "../wasm/boundary.ts";
import { execute } from "./execute.ts";
import type { Query } from "./sql.ts";

export class Cursor<Row> {
  /** The first batch. */
  first: Row[] = [];
  /** There may be more rows. */
  more = true;
  /** Until the first batch is there, or the call has failed. */
  #isStarting = true;
  /** Settles when the connection is free again. Never rejects. */
  readonly closed: Promise<void>;
  readonly #call: Call<Cursor<Row>>;
  readonly #session: Session;
  readonly #rows: Collector<Row>;
  /** The transaction is the cursor's own. */
  readonly #isOwn: boolean;
  #commit: Operation | undefined;
  /** The last batch: what it runs again behind a statement that was stale begins its own transaction. */
  #working: Promise<unknown> | undefined;
  #closing: Promise<void> | undefined;
  #release!: () => void;
  #fail!: (error: PgzError) => void;
  /** Rejects when the call ends from our side or the connection is gone, also between two flights. Always handled. */
  readonly #failed: Promise<never>;
  readonly #unhearLoss: () => void;

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
    call.attached = { fail };
    this.#unhearLoss = session.connection.onClosed((error) => this.#lost(error));
  }

  /**
   * Asks for the first batch, of `size` rows as all further ones. Rejects only where the session has ended before that
   * was there: nothing of the cursor is left, and the call has not failed yet, since another session may take it.
   */
  async start(query: Query, form: Form, size: number): Promise<void> {
    const { connection, transaction } = this.#session;
    if (this.#isOwn) transaction.begin("BEGIN");
    const { [LIMIT_ROWS]: rows, [LIMIT_BYTES]: bytes, [LIMIT_FIELD_BYTES]: fieldBytes } = form.limits;
    const limits = limitsOf({ rows, bytes, fieldBytes, fetch: size });
    const executing = execute(this.#call, this.#session, query, { ...form, limits }, () => this.#rows.sink);
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
   * Nobody wants more: closes the portal, or rolls the own transaction back with it. Resolves when that is done, or at
   * once when the call has failed: then `closed` tells. A server that is silent keeps neither the error nor a loop that
   * is left longer than the call's deadline. Never rejects, may be called again.
   */
  close(): Promise<void> {
    return Promise.race([this.#end(), this.#failed]).catch(() => {});
  }

  async #fetch(): Promise<Row[]> {
    const operation = this.#call.operate(this.#session.connection, (handle) => handle.fetch(), {
      rows: this.#rows.sink,
    });
    await operation.done;
    if (operation.error) throw operation.error;
    return await this.#take(operation);
  }

  /** The rows of a flight that is over; none where the call was over before. */
  async #take(operation: Operation | undefined): Promise<Row[]> {
    if (!operation) return [];
    const rows = this.#rows.take();
    this.more = operation.suspended;
    if (this.more) operation.rowCount = rows.length;
    else if (this.#isOwn) await this.#commitOwn();
    if (rows.length > 0) this.#call.reaches("rows");
    return rows;
  }

  async #commitOwn(): Promise<void> {
    const commit = (this.#commit = this.#session.connection.operate(plainly("COMMIT")));
    await commit.done;
    if (commit.error) throw commit.error;
  }

  #lost(error: PgzError): void {
    if (this.#isStarting) return; // that fails by itself
    // Behind an answered COMMIT, as a server that ends the session at once does it, all is well.
    if (!this.#commit || this.#session.transaction.status !== "I") this.#call.fail(error);
  }

  #end(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #close(): Promise<void> {
    const { connection, transaction } = this.#session;
    const { operation } = this.#call;
    await operation?.done.catch(() => {});
    await operation?.cleanup;
    const commit = this.#commit;
    if (commit) connection.abandon(commit);
    await commit?.cleanup;
    await this.#working;
    if (this.#isOwn) await transaction.rollBack();
    else if (operation?.suspended && transaction.status === "T") await this.#closePortal();
    this.#unhearLoss();
    this.#call.succeed(this);
    this.#release();
  }

  async #closePortal(): Promise<void> {
    const { connection } = this.#session;
    const closing = connection.operate((handle) => handle.close_portal());
    // Within the bound that holds behind an abort too.
    connection.abandon(closing, false);
    await closing.cleanup;
  }
}
