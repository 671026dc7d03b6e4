// A result in batches: a named portal, from which each flight takes so many rows, until it is empty or nobody wants more.
//
// Every flight ends in Sync, and outside a transaction a portal does not survive that. So a cursor that finds none opens its own, with
// BEGIN in the first flight, COMMIT at the end, ROLLBACK when it is left or fails. Knows its call, the operations and their order.
// Must not know how batches reach the user, or what a row looks like.
import type { Query } from "../sql.ts";
import { limitsOf } from "./boundary.ts";
import type { Call } from "./call.ts";
import type { Collector } from "./collect.ts";
import type { Connection } from "./connection.ts";
import type { Form } from "./form.ts";
import type { Operation } from "./operation.ts";
import { execute, plainly } from "./statement.ts";

export class Cursor<Row> {
  /** There may be more rows. */
  more = true;
  /** Settles when the connection is free again. Never rejects. */
  readonly closed: Promise<void>;
  readonly #call: Call<Cursor<Row>>;
  readonly #connection: Connection;
  readonly #rows: Collector<Row>;
  /** The transaction is the cursor's own. */
  readonly #own: boolean;
  #commit: Operation | undefined;
  #closing: Promise<void> | undefined;
  /** Rejects when the call ends from our side or the connection is gone, also between two flights. Always handled. */
  readonly #failed: Promise<never>;
  #release!: () => void;
  /** Who was told of the connection's end before: a transaction around it. */
  readonly #restore: () => void;

  constructor(call: Call<Cursor<Row>>, connection: Connection, rows: Collector<Row>) {
    this.#call = call;
    this.#connection = connection;
    this.#rows = rows;
    this.#own = connection.transactionStatus === "I" && connection.begin === undefined;
    this.closed = new Promise((resolve) => (this.#release = resolve));
    this.#failed = new Promise((_, reject) => {
      call.onFailure = (error) => {
        reject(error);
        void this.close();
      };
    });
    this.#failed.catch(() => {});
    const before = connection.onClosed;
    this.#restore = () => void (connection.onClosed = before);
    connection.onClosed = (error) => {
      before?.(error);
      call.fail(error);
    };
  }

  /** The first batch, of `fetch` rows as all further ones. */
  start(query: Query, { form, limits: [rows = 0, bytes = 0, fieldBytes = 0], policy }: Form, fetch: number): Promise<Row[]> {
    if (this.#own) this.#connection.begin = "BEGIN";
    return this.#batch(() => execute(this.#call, this.#connection, query, { form, limits: limitsOf(rows, bytes, fieldBytes, 0, fetch), policy }, () => this.#rows.sink));
  }

  next(): Promise<Row[]> {
    return this.#batch(async () => {
      const operation = this.#call.operate(this.#connection, (handle) => handle.fetch(), this.#rows.sink);
      await operation.done;
      if (operation.error) throw operation.error;
      return operation;
    });
  }

  /** Nobody wants more: closes the portal, or rolls the own transaction back with it. May be called again. */
  close(): Promise<void> {
    return (this.#closing ??= this.#close());
  }

  async #batch(run: () => Promise<Operation | undefined>): Promise<Row[]> {
    if (this.#call.finished) return this.#failed;
    const work = (async () => {
      const operation = await run();
      if (!operation) return [];
      const rows = this.#rows.take();
      this.more = operation.suspended;
      if (this.more) operation.rowCount = rows.length;
      else if (this.#own) {
        this.#commit = this.#simple("COMMIT");
        await this.#commit.done;
        if (this.#commit.error) throw this.#commit.error;
      }
      return rows;
    })();
    work.catch((error: unknown) => this.#call.fail(error));
    return Promise.race([work, this.#failed]);
  }

  async #close(): Promise<void> {
    const connection = this.#connection;
    const { operation } = this.#call;
    await operation?.done.catch(() => {});
    await operation?.cleanup;
    if (this.#commit) connection.abandon(this.#commit);
    await this.#commit?.cleanup;
    const { transactionStatus } = connection;
    let ending: Operation | undefined;
    if (this.#own && transactionStatus !== "I") ending = this.#simple("ROLLBACK");
    else if (operation?.suspended && transactionStatus === "T") ending = connection.operate((handle) => handle.close_portal());
    // Within the bound that holds behind an abort too.
    if (ending) connection.abandon(ending, false);
    await ending?.cleanup;
    this.#restore();
    if (this.#own) connection.begin = undefined;
    this.#call.succeed(this);
    this.#release();
  }

  #simple(text: string): Operation {
    return this.#connection.operate(plainly(text));
  }
}
