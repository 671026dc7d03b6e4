// Passes rows to a user's loop: in batches of a given length, with back-pressure, and with the end of the rows distinct
// from the loop's leaving early.
//
// Knows iteration. Must not know the core or SQL: api/queries.ts starts a run of the query for each loop.
import type { RowSink } from "../connection/operation.ts";
import { UsageError, type PgzError } from "../util/errors.ts";
import type { Truncation } from "../util/observer.ts";
import { here } from "../util/trace.ts";
import type { RowDecoder, RowMode } from "../values/objects.ts";
import type { Column } from "../wasm/boundary.ts";
import { decoderOf, type ParserNames } from "./collect.ts";
import { checkNames, type ValueForm } from "./form.ts";

/**
 * A queue between the pump, which writes rows and waits while the loop has enough, and the loop, which takes them.
 * Holds a batch and a chunk, whatever the result's size.
 */
export class RowQueue<Row> {
  /** The loop has come to its end, met an error, or was left. */
  isOver = false;
  #ready: Row[][] = [];
  #gathering: Row[] = [];
  #ended = false;
  #error: PgzError | undefined;
  #more: Promise<void> | undefined;
  #wake: (() => void) | undefined;
  #full: Promise<void> | undefined;
  #wanted: (() => void) | undefined;
  readonly #size: number;

  /** `size` is the number of rows per batch. 0: batches as they come. */
  constructor(size: number) {
    this.#size = size;
  }

  write(rows: Row[]): void {
    if (!this.#size) {
      if (rows.length) this.#ready.push(rows);
    } else {
      for (const row of rows) {
        if (this.#gathering.push(row) < this.#size) continue;
        this.#ready.push(this.#gathering);
        this.#gathering = [];
      }
    }
    if (this.#ready.length) this.#wakeReader();
  }

  full(): Promise<void> | undefined {
    return this.#ready.length ? (this.#full ??= new Promise((resolve) => (this.#wanted = resolve))) : undefined;
  }

  end(): void {
    if (this.#gathering.length) this.#ready.push(this.#gathering);
    this.#ended = true;
    this.#wakeReader();
  }

  /** Drops the waiting rows: a loop that continued would take them before an error for the whole result. */
  fail(error: PgzError): void {
    this.#ready = this.#gathering = [];
    this.#error = error;
    this.#ended = true;
    this.#wakeReader();
  }

  #wakeReader(): void {
    this.#more = undefined;
    this.#wake?.();
  }

  /** Returns the next batch, or `undefined` at the end. */
  async take(): Promise<Row[] | undefined> {
    while (!this.#ready.length && !this.#ended)
      await (this.#more ??= new Promise<void>((resolve) => (this.#wake = resolve)));
    this.isOver ||= !this.#ready.length;
    if (this.#error) throw this.#error;
    const batch = this.#ready.shift();
    if (!this.#ready.length) {
      this.#full = undefined;
      this.#wanted?.();
    }
    return batch;
  }
}

/** A run of the query: the queue of its rows, and how the loop leaves it. */
interface Run<Row> {
  readonly queue: RowQueue<Row>;
  leave(): void;
}

/**
 * The rows of a query, for `for await`. The query runs when a loop starts. Leaving the loop cancels it on the server,
 * and a second loop runs it again. The members describe the latest loop.
 */
export class Rows<Row> implements AsyncIterable<Row> {
  /** The columns. Set from the first row on. */
  fields: readonly Column[] = [];
  /** The words of the command tag. Set at the end. */
  command = "";
  /** The server's count of rows. Set at the end. */
  rowCount: number | null = null;
  /** Set at the end with `onLimit: "truncate"`, if rows are missing. */
  truncated: Truncation | undefined;
  readonly #start: (rows: Rows<Row>, size: number) => Run<Row>;

  /** @internal */
  constructor(start: (rows: Rows<Row>, size: number) => Run<Row>) {
    this.#start = start;
  }

  /**
   * The rows in arrays of exactly `size`, the last one shorter. Memory holds one such array and one chunk of the
   * connection.
   *
   * @throws UsageError `INVALID_OPTION` unless `size` is a whole number of at least 1
   *
   * @example
   * for await (const rows of client.rows("select * from log").batches(1_000)) await send(rows);
   */
  batches(size: number): AsyncIterable<Row[]> {
    if (!(Number.isInteger(size) && size > 0))
      throw new UsageError("INVALID_OPTION", "batches(n) needs a whole number of at least 1.");
    return { [Symbol.asyncIterator]: () => this.#iterate(size) };
  }

  [Symbol.asyncIterator](): AsyncIterator<Row, undefined> {
    const batches = this.#iterate(0);
    let batch: Row[] = [];
    let at = 0;
    /** Calls of next() that were made before an earlier one settled wait here, in order. */
    const turns: (() => void)[] = [];
    let waiting = 0;
    let left = false;
    const more = async (isLater: boolean): Promise<IteratorResult<Row, undefined>> => {
      if (isLater) await new Promise<void>((resolve) => turns.push(resolve));
      try {
        if (at >= batch.length) {
          const { done, value } = await batches.next();
          if (done || left) return { done: true, value: undefined };
          [batch, at] = [value, 0];
        }
        return { done: false, value: batch[at++]! };
      } finally {
        waiting--;
        turns.shift()?.();
      }
    };
    return {
      next() {
        if (!waiting && at < batch.length) return Promise.resolve({ done: false, value: batch[at++]! });
        // The first call begins at once, so that the query takes its place among the calls that are made now. Only the
        // caller may await the returned promise: otherwise the engine's stack does not name the caller.
        return more(waiting++ > 0);
      },
      return() {
        left = true;
        batch = [];
        return batches.return!() as Promise<IteratorReturnResult<undefined>>;
      },
    };
  }

  #iterate(size: number): AsyncIterator<Row[], undefined> {
    let run: Run<Row> | undefined;
    let over = false;
    const next = async (): Promise<IteratorResult<Row[], undefined>> => {
      if (over) return { done: true, value: undefined };
      try {
        run ??= this.#start(this, size);
        const value = await run.queue.take();
        if (value) return { done: false, value };
      } catch (error) {
        if (over) return { done: true, value: undefined };
        over = true;
        throw here(error);
      }
      over = true;
      return { done: true, value: undefined };
    };
    return {
      next,
      // At once, though a next() may be pending.
      return: () => {
        over = true;
        run?.leave();
        return Promise.resolve({ done: true, value: undefined });
      },
    };
  }
}

/** The sink of one run of {@link Rows}: decodes rows as they come, and writes them to the queue. */
export function loopSink<Row>(
  rows: Rows<Row>,
  queue: RowQueue<Row>,
  form: ValueForm,
  mode: RowMode,
  catalog: ParserNames,
): RowSink {
  let decode: RowDecoder | undefined;
  return {
    delivery: "prompt",
    columns: (columns) => {
      checkNames(form, columns);
      rows.fields = columns;
      decode = decoderOf(columns, form, mode, catalog);
    },
    rows: (view) => queue.write(decode!(view) as Row[]),
    full: () => queue.full(),
  };
}
