// One conversation with the server on its connection: startup, describe, execute, batch or COPY, from its flight to
// ReadyForQuery.
//
// Knows what the core has told about it so far, and to whom rows and events go. Must not know sockets, promises of
// users, or what becomes of rows.
import type { PgzError } from "../util/errors.ts";
import type { Observation, Truncation } from "../util/observer.ts";
import type { Column, EventOf, ItemOutcome } from "../wasm/boundary.ts";

/**
 * When rows are handed on.
 *
 * - `collected`: at the latest when the result is over. Nothing has gone downstream before, so a failure takes the rows
 *   back.
 * - `prompt`: as they come, the first at once, later ones after `flushInterval`. They cannot be taken back.
 * - `blocks`: the same in blocks of `flushBytes`, however long that takes: the consumer holds rows back anyway.
 */
export type Delivery = "collected" | "prompt" | "blocks";

/** Where the rows of an operation go. */
export interface RowSink {
  readonly delivery?: Delivery;
  /** Before the first row of a result. Throws a UsageError when the sink is not made for such columns. */
  columns?(columns: readonly Column[]): void;
  /** Whole rows; a view that is valid until this returns. */
  rows(view: Uint8Array): void;
  /** A promise while no more is wanted: nothing is read from the socket before it settles. */
  full?(): Promise<unknown> | undefined;
}

/** Who hears of an operation's events, by their kind. An event without a handler means what `Connection` says. */
export interface Handlers {
  /** The answer to Describe of a statement. */
  shape?(event: EventOf<"shape">): void;
  /** The columns of a result; the rows' sink is told next. */
  columns?(event: EventOf<"columns">): void;
  /** The rows of a first run that were held became too many. They are dropped, and so are those to come. */
  tooManyHeld?(): void;
  /** A first run was answered as no PostgreSQL does it, in front of the statement. */
  odd?(): void;
  /** A text of a first run is none of its type. Its rows are dropped, and it goes on. */
  unreadable?(event: EventOf<"unreadable">): void;
  /** The columns are not those that were learned. The operation fails for it. */
  shapeChanged?(event: EventOf<"shapeChanged">): void;
  /** One command is complete, of several perhaps. */
  complete?(command: string, rowCount: number | null): void;
  /** What became of items of a batch. */
  items?(outcomes: readonly ItemOutcome[]): void;
  /** The rows that follow are of this statement of the batch, whose columns are known. */
  switch?(event: EventOf<"switch">): void;
  /** The server is ready for data of COPY, or begins to send them. Without a handler COPY is refused. */
  copy?(event: EventOf<"copy">): void;
  /** `true`: the error is that of a part of the operation, which goes on. */
  error?(error: PgzError, reached: Reached): boolean;
}

/** How far a statement had come when something went wrong. */
export interface Reached {
  /** Something of it may have run. */
  readonly bound: boolean;
  /** What failed in front of it, so that nothing of it has run: for a prelude, knowing the statement is no help. */
  readonly before: "prelude" | "close" | "check" | undefined;
}

/** Why the operation gives less than was asked for: the first thing that went wrong. */
export interface Failure extends Reached {
  readonly is: "failed";
  readonly error: PgzError;
}

/** What it gives, as far as is known. */
export type Outcome =
  | { readonly is: "whole" }
  /** A limit ended the result, which is no error: the output is whole whatever happens now. */
  | { readonly is: "cut"; readonly by: Truncation }
  | Failure;

const WHOLE: Outcome = { is: "whole" };
/** Errors of statements of our own, in front of the caller's: no text of a caller's can be among them. */
export const ofPreludes = new WeakSet<PgzError>();

/** From our side: nobody asks how far it had come. */
const UNKNOWN: Reached = { bound: true, before: undefined };

/** What an operation is to its connection: where rows go, who hears of events, how it shares the wire. */
export interface Conversation {
  readonly rows?: RowSink | undefined;
  readonly on?: Handlers | undefined;
  /** It has several results: the rows of one are handed on before the next begins. */
  readonly severalResults?: boolean;
  /** Data of ours travel while its answers come: the pump does not wait for writes. */
  readonly duplex?: boolean;
  /** All operations before it are over. What it throws ends the operation. */
  readonly comesFirst?: () => void;
  /** Several transactions: one CancelRequest stops only the one that runs. */
  readonly isolated?: boolean;
}

/** The call that an operation is for. */
export interface Owner {
  /** Is told at once of an error that ends the operation from our side: a cap, COPY, a consumer's own failure. */
  fail(error: PgzError): void;
  /** Who is told of notices meanwhile. */
  readonly observation: Observation | undefined;
}

/** Who wants notifications: for them the connection is read while nothing is asked of it, too. */
export interface NotificationListener {
  notify(event: EventOf<"notification">): void;
  /** A promise while no more is wanted. */
  full(): Promise<void> | undefined;
}

export class Operation {
  readonly conversation: Conversation;
  readonly owner: Owner | undefined;
  /** The server says that a cancel ended it. */
  canceled = false;
  /** A CancelRequest for another operation of this connection may have hit it. */
  exposed = false;
  /** Rows have gone downstream. */
  committed = false;
  command = "";
  /** Of the transaction, as its ReadyForQuery tells it. */
  status = "";
  rowCount: number | null = null;
  /** Of output that went to the sink. */
  bytes = 0;
  /** Its portal has more rows, perhaps. */
  suspended = false;
  /** Ends the wait for a full sink. */
  wake: () => void = () => {};
  /** `stopping`: nobody waits for it any more, so its rows are dropped, and the server is told. */
  #life: "running" | "stopping" | "over" = "running";
  #outcome = WHOLE;
  #cleanup: Promise<void> | undefined;
  /** The connection went before ReadyForQuery. */
  #lost: PgzError | undefined;
  /** Who is told of the end, in the order in which they asked. */
  #listeners: ((lost: PgzError | undefined) => void)[] | undefined;
  #done: Promise<void> | undefined;

  constructor(conversation: Conversation, owner?: Owner) {
    this.conversation = conversation;
    this.owner = owner;
  }

  /**
   * Calls `listener` once, in a later microtask, when ReadyForQuery has come, also after an ErrorResponse (see `error`),
   * or when the connection is gone: `lost`. It costs no promise.
   */
  whenOver(listener: (lost: PgzError | undefined) => void): void {
    if (this.#life === "over") queueMicrotask(() => listener(this.#lost));
    else (this.#listeners ??= []).push(listener);
  }

  /** The same as a promise, which rejects when the connection is gone. Always handled. */
  get done(): Promise<void> {
    if (this.#done) return this.#done;
    this.#done = new Promise((resolve, reject) => this.whenOver((lost) => (lost ? reject(lost) : resolve())));
    this.#done.catch(() => {});
    return this.#done;
  }

  get ended(): boolean {
    return this.#life === "over";
  }

  get abandoned(): boolean {
    return this.#life === "stopping";
  }

  get outcome(): Outcome {
    return this.#outcome;
  }

  get error(): PgzError | undefined {
    return this.#outcome.is === "failed" ? this.#outcome.error : undefined;
  }

  get truncated(): Truncation | undefined {
    return this.#outcome.is === "cut" ? this.#outcome.by : undefined;
  }

  /** Settles when the connection is usable again (or gone) after `abandon`. */
  get cleanup(): Promise<void> | undefined {
    return this.#cleanup;
  }

  fail(error: PgzError, { bound, before } = UNKNOWN): void {
    if (this.#outcome.is === "whole") this.#outcome = { is: "failed", error, bound, before };
  }

  cut(by: Truncation): void {
    if (this.#outcome.is === "whole") this.#outcome = { is: "cut", by };
  }

  /** Nobody waits for it any more, and `cleanup` begins; where that was so already, nothing happens. */
  abandon(cleanup: () => Promise<void>): void {
    if (this.#life !== "running") return;
    this.#life = "stopping";
    this.#cleanup = cleanup();
    this.wake();
  }

  /** It has failed, perhaps by a CancelRequest that was for another operation. */
  get wasHitBesides(): boolean {
    return this.exposed && this.canceled;
  }

  /** Nobody wants rows of it any more. */
  get isUnwanted(): boolean {
    return this.#life === "stopping" || this.#outcome.is === "failed";
  }

  /** Of one statement that is over: its rows, where it counts any. */
  count(rows: number | null): void {
    if (rows !== null) this.rowCount = (this.rowCount ?? 0) + rows;
  }

  /** `lost`: the connection is gone. */
  end(lost?: PgzError): void {
    this.#life = "over";
    this.#lost = lost;
    this.wake();
    const listeners = this.#listeners;
    this.#listeners = undefined;
    // Later: what listens may ask for the next operation, and the events of this chunk are not all told yet.
    if (listeners) for (const listener of listeners) queueMicrotask(() => listener(lost));
  }
}
