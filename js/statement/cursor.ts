// A result in batches: a named portal, from which each flight takes so many rows, until it is empty or nobody wants more.
//
// Every flight ends in Sync, and outside a transaction a portal does not survive that. So a cursor that finds none opens its own, with
// BEGIN in the first flight, COMMIT at the end, ROLLBACK when it is left or fails. Knows its call, the operations and their order.
// Must not know how batches reach the user, or what a row looks like.
import type { Query } from "./sql.ts";
import { limitsOf } from "../wasm/boundary.ts";
import type { Call } from "../session/call.ts";
import type { Collector } from "../rows/collect.ts";
import type { Connection } from "../connection/connection.ts";
import type { Form } from "../rows/form.ts";
import type { Operation } from "../connection/operation.ts";
import { execute, plainly } from "./statement.ts";

export interface Cursor<Row> {
  /** There may be more rows. */
  more: boolean;
  /** Settles when the connection is free again. Never rejects. */
  readonly closed: Promise<void>;
  /** The first batch, of `fetch` rows as all further ones. */
  start(query: Query, form: Form, fetch: number): Promise<Row[]>;
  next(): Promise<Row[]>;
  /**
   * Nobody wants more: closes the portal, or rolls the own transaction back with it. Resolves when that is done, or at once when the call has
   * failed: then `closed` tells. Never rejects, may be called again.
   */
  close(): Promise<void>;
}

export function newCursor<Row>(call: Call<Cursor<Row>>, connection: Connection, rows: Collector<Row>): Cursor<Row> {
  /** The transaction is the cursor's own. */
  const own = connection.transactionStatus === "I" && connection.begin === undefined;
  let commit: Operation | undefined;
  /** The last batch: what it runs again behind a statement that was stale begins its own transaction. */
  let working: Promise<unknown> | undefined;
  let closing: Promise<void> | undefined;
  let release!: () => void;
  /** Rejects when the call ends from our side or the connection is gone, also between two flights. Always handled. */
  const failed = new Promise<never>((_, reject) => {
    call.onFailure = (error) => {
      reject(error);
      void end();
    };
  });
  failed.catch(() => {});
  /** Who was told of the connection's end before: a transaction around it. */
  const before = connection.onClosed;
  connection.onClosed = (error) => {
    before?.(error);
    // Behind an answered COMMIT, as a server that ends the session at once does it, all is well.
    if (!commit || connection.transactionStatus !== "I") call.fail(error);
  };
  const simple = (text: string) => connection.operate(plainly(text));

  async function batch(run: () => Promise<Operation | undefined>): Promise<Row[]> {
    if (call.finished) return failed;
    const work = (async () => {
      const operation = await run();
      if (!operation) return [];
      const taken = rows.take();
      cursor.more = operation.suspended;
      if (cursor.more) operation.rowCount = taken.length;
      else if (own) {
        commit = simple("COMMIT");
        await commit.done;
        if (commit.error) throw commit.error;
      }
      call.delivered ||= taken.length > 0;
      return taken;
    })();
    working = work.catch((error: unknown) => call.fail(error));
    return Promise.race([work, failed]);
  }

  function end(): Promise<void> {
    return (closing ??= close());
  }

  async function close(): Promise<void> {
    const { operation } = call;
    await operation?.done.catch(() => {});
    await operation?.cleanup;
    if (commit) connection.abandon(commit);
    await commit?.cleanup;
    await working;
    const { transactionStatus } = connection;
    let ending: Operation | undefined;
    if (own && transactionStatus !== "I") ending = simple("ROLLBACK");
    else if (operation?.suspended && transactionStatus === "T") ending = connection.operate((handle) => handle.close_portal());
    // Within the bound that holds behind an abort too.
    if (ending) connection.abandon(ending, false);
    await ending?.cleanup;
    connection.onClosed = before;
    if (own) connection.begin = undefined;
    call.succeed(cursor);
    release();
  }

  const cursor: Cursor<Row> = {
    more: true,
    closed: new Promise((resolve) => (release = resolve)),
    start(query, form, fetch) {
      if (own) connection.begin = "BEGIN";
      const [rowLimit = 0, bytes = 0, fieldBytes = 0] = form.limits;
      return batch(() => execute(call, connection, query, { ...form, limits: limitsOf(rowLimit, bytes, fieldBytes, 0, fetch) }, () => rows.sink));
    },
    next: () => batch(async () => {
      const operation = call.operate(connection, (handle) => handle.fetch(), rows.sink);
      await operation.done;
      if (operation.error) throw operation.error;
      return operation;
    }),
    // A server that is silent keeps neither the error nor a loop that is left longer than the call's deadline.
    close: () => Promise.race([end(), failed]).catch(() => {}),
  };
  return cursor;
}
