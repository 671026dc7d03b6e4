// One conversation with the server on its connection: startup, describe or execute, from its flight to ReadyForQuery.
//
// Knows what the core has told about it so far, and to whom rows and notifications go. Must not know sockets, promises of users, or what a sink does with rows.
import type { PgzError } from "../util/errors.ts";
import type { Observation } from "../util/observer.ts";
import type { Column, Event, LimitName, Outcomes } from "../wasm/boundary.ts";
import { checkNames } from "../rows/form.ts";
import type { LearnedShape } from "../session/shapes.ts";

/** Where the rows of an operation go. */
export interface Sink {
  /** Rows are handed on as they come (the first at once, later ones by `flushInterval`), so they cannot be taken back. */
  readonly streams?: boolean;
  /** Rows wait for `flushBytes` or the end, whatever the time: the consumer holds them back anyway. */
  readonly unhurried?: boolean;
  /** Two columns of one name are an error. */
  readonly unique?: boolean;
  columns?(columns: readonly Column[]): void;
  /** Whole rows; a view that is valid until this returns. */
  rows?(view: Uint8Array): void;
  /** A command is complete, of several perhaps; its rows have been handed on before. */
  readonly complete?: ((command: string, rowCount: number | null) => void) | undefined;
  /** Data of ours travel while its answers come: the pump does not wait for writes. */
  readonly duplex?: boolean;
  /** Several transactions: one cancel stops but the one that runs. */
  readonly isolated?: boolean;
  /** Of a batch: what became of its items. */
  items?(outcomes: Outcomes): void;
  /** Of a batch: the rows that follow are of this statement, whose columns are known. */
  switched?(statement: number): void;
  /** An error is not the operation's but that of a part of it, which takes it. */
  failed?(error: PgzError): boolean;
  /** The server is ready for data of COPY, or begins to send them; without it COPY is refused. */
  copy?(direction: "in" | "out"): void;
  /** A promise while no more is wanted: nothing is read from the socket before it settles. */
  full?(): Promise<unknown> | undefined;
}

type NotificationEvent = Extract<Event, { kind: "notification" }>;

/** Who wants notifications: for them the connection is read while nothing is asked of it, too. */
export interface NotificationListener {
  notify(event: NotificationEvent): void;
  /** A promise while no more is wanted. */
  full(): Promise<void> | undefined;
}

/** Users see them, and all runs of the statement share them. */
export function freeze(columns: readonly Column[]): void {
  columns.forEach(Object.freeze);
  Object.freeze(columns);
}

/** Throws a UsageError when they are not what the sink is for. */
export function takeColumns(sink: Sink, columns: readonly Column[]): void {
  if (sink.unique) checkNames(columns);
  sink.columns?.(columns);
}

/** How a result was cut off by `onLimit: "truncate"`. */
export interface Truncation {
  /** Which limit was passed. */
  readonly limit: LimitName;
  /** The limit's value. */
  readonly value: number;
  /** The count that the first missing row would have made. */
  readonly observed: number;
}

export class Operation {
  /** Resolves at ReadyForQuery, also after an ErrorResponse (see `error`); rejects when the connection is lost. Always handled. */
  readonly done: Promise<void>;
  readonly sink: Sink;
  /** Tells the call at once of an error that ends it from our side: a cap, COPY, a consumer's own failure. */
  readonly interrupted: (error: PgzError) => void;
  ended = false;
  /** Nobody waits for it any more: its rows are dropped, and the server is told. */
  abandoned = false;
  /** Who is told of notices meanwhile. */
  observation: Observation | undefined;
  /** Something of the statement may have run. */
  bound = false;
  /** The server says that a cancel ended it. */
  canceled = false;
  /** Rows have gone downstream. */
  committed = false;
  /** A limit ended the result, which is no error. */
  truncated: Truncation | undefined;
  /** The first thing that went wrong. */
  error: PgzError | undefined;
  shape: LearnedShape | undefined;
  command = "";
  rowCount: number | null = null;
  /** Of output that went to the sink. */
  bytes = 0;
  /** Its portal has more rows, perhaps. */
  suspended = false;
  /** Settles when the connection is usable again (or gone) after `abandoned`. */
  cleanup: Promise<void> | undefined;
  /** Ends the wait for a full sink. */
  wake: () => void = () => {};
  #resolve!: () => void;
  #reject!: (error: PgzError) => void;

  constructor(sink: Sink = {}, interrupted: (error: PgzError) => void = () => {}) {
    this.sink = sink;
    this.interrupted = interrupted;
    this.done = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Of one statement that is over: its rows, where it counts any. */
  count(rows: number | null): void {
    if (rows !== null) this.rowCount = (this.rowCount ?? 0) + rows;
  }

  /** `lost`: the connection is gone. */
  end(lost?: PgzError): void {
    this.ended = true;
    this.wake();
    if (!lost) return this.#resolve();
    this.done.catch(() => {});
    this.#reject(lost);
  }
}
