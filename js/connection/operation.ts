// One conversation with the server on its connection: startup, describe, execute, batch or COPY, from its flight to
// ReadyForQuery.
//
// Knows what the core has reported about it so far, and where its rows and events go. Must not know sockets, promises
// of users, or what is done with rows.
import type { PgzError } from "../util/errors.ts";
import type { CallSubject, Observation, Truncation } from "../util/observer.ts";
import { inMicrotask } from "../util/microtask.ts";
import type { Column, EventOf, ItemOutcome } from "../wasm/boundary.ts";

/**
 * When rows are passed on.
 *
 * - `collected`: at the latest when the result is over. Nothing has gone downstream before, so a failure discards the
 *   rows.
 * - `prompt`: as they arrive, the first at once, later ones after `flushInterval`. They cannot be taken back.
 * - `blocks`: as they arrive too, but in blocks of `flushBytes`, however long a block takes: the consumer collects rows
 *   anyway.
 */
type Delivery = "collected" | "prompt" | "blocks";

/** Where the rows of an operation go. */
export interface RowSink {
  readonly delivery?: Delivery;
  /** Called before the first row of a result. Throws a UsageError if the sink cannot take such columns. */
  columns?(columns: readonly Column[]): void;
  /** Takes whole rows, as a view that is valid until this returns. */
  rows(view: Uint8Array): void;
  /**
   * A promise while the sink wants no more rows: nothing is read from the socket before it settles. Asked again after
   * that, so a promise that has settled may not be returned.
   */
  full?(): Promise<unknown> | undefined;
}

/** Handlers of an operation's events, by kind. `Connection` says what an event without a handler means. */
export interface Handlers {
  /** The answer to Describe of a statement. */
  shape?(event: EventOf<"shape">): void;
  /** The columns of a result. The row sink gets them next, unless this throws: the operation fails for that reason. */
  columns?(event: EventOf<"columns">): void;
  /** A text value in a first run's rows is not valid for its type. The rows are dropped, and the run continues. */
  unreadable?(event: EventOf<"unreadable">): void;
  /** The columns are not those that were learned. The operation fails for this reason. `texts`: those of its call. */
  shapeChanged?(event: EventOf<"shapeChanged">, texts: readonly string[]): void;
  /** One command is complete, perhaps one of several. */
  complete?(command: string, rowCount: number | null): void;
  /** The outcomes of items of a batch. */
  items?(outcomes: readonly ItemOutcome[]): void;
  /** The rows that follow belong to this statement of the batch, whose columns are known. */
  switch?(event: EventOf<"switch">): void;
  /** The server is ready to receive COPY data, or begins to send it. Without a handler COPY is refused. */
  copy?(event: EventOf<"copy">): void;
  /** `true`: only a part of the operation failed, and the operation continues. */
  error?(error: PgzError, reached: Reached): boolean;
}

/** How far a statement had got when something failed. */
export interface Reached {
  /**
   * Some of the statement may have run: the error came after BindComplete, or the protocol does not say when it came.
   */
  readonly hasBound: boolean;
  /**
   * The part in front of the statement that failed. The server has then skipped the statement, so nothing of it has
   * run. `undefined`: the statement itself failed. If a prelude failed, describing the statement would not help.
   */
  readonly failedPart: "prelude" | "check" | undefined;
}

/** Why the operation delivers less than was asked for: the first thing that went wrong. */
export interface Failure extends Reached {
  readonly is: "failed";
  readonly error: PgzError;
}

/** What the operation has delivered so far. */
type Outcome =
  | { readonly is: "whole" }
  /** A limit ended the result. That is no error: the output is complete whatever happens now. */
  | { readonly is: "cut"; readonly by: Truncation }
  | Failure;

const WHOLE: Outcome = { is: "whole" };
/** Errors of the driver's own statements in front of the caller's. They cannot contain text of a caller. @internal */
export const ofPreludes = new WeakSet<PgzError>();

/** Used for failures that the driver itself raises: no code asks how far the statement had got. */
const UNKNOWN: Reached = { hasBound: true, failedPart: undefined };

/** How an operation uses its connection: where rows go, which handlers get events, how it shares the wire. */
export interface Conversation {
  readonly rows?: RowSink | undefined;
  readonly on?: Handlers | undefined;
  /** The operation has several results: the rows of each are passed on before the next begins. */
  readonly severalResults?: boolean;
  /** The driver sends data while responses arrive, so the pump does not wait for writes. */
  readonly duplex?: boolean;
  /** Called when all earlier operations are over. If it throws, the operation is interrupted with that error. */
  readonly isNext?: () => void;
  /** The operation has several transactions, and one CancelRequest stops only the one that runs. */
  readonly isolated?: boolean;
}

/** The call that an operation belongs to. */
export interface Owner {
  /**
   * Called at once with an error that the driver itself ends the operation with: a cap, COPY, a consumer's own failure.
   */
  fail(error: PgzError): void;
  /** The observation that receives notices while the operation runs. */
  readonly observation: Observation | undefined;
  readonly subject: CallSubject | undefined;
}

/** A listener for notifications. For it the connection is read even while no operation is pending. */
export interface NotificationListener {
  notify(event: EventOf<"notification">): void;
  /** A promise while the listener wants no more notifications. */
  full(): Promise<void> | undefined;
}

const nothing = (): void => {};

export class Operation {
  readonly conversation: Conversation;
  readonly owner: Owner | undefined;
  /** The server reported that a cancel ended the operation. */
  canceled = false;
  /** A CancelRequest for another operation of this connection may have hit it. */
  mayBeHit = false;
  /** The driver's own BEGIN is in its flight. */
  carriesBegin = false;
  /** It is the driver's own COMMIT or ROLLBACK. */
  carriesEnd = false;
  /** Rows have gone downstream. */
  committed = false;
  command = "";
  /** The transaction status from the operation's ReadyForQuery. */
  status = "";
  /** The server warned that no transaction was open (25P01). */
  wasOutside = false;
  /** How many statements have completed. */
  statements = 0;
  /** How many had, when a caller's ROLLBACK or ROLLBACK TO SAVEPOINT did. */
  statementsToRollback: number | undefined;
  rowCount: number | null = null;
  /** Bytes of output that went to the sink. */
  bytes = 0;
  /** The operation's portal may have more rows. */
  suspended = false;
  /** Ends the wait for a full sink. */
  wake = nothing;
  /** `stopping`: the operation was abandoned, so its rows are dropped and the server is told to stop. */
  #life: "running" | "stopping" | "over" = "running";
  #outcome = WHOLE;
  #cleanup: Promise<void> | undefined;
  #lost: PgzError | undefined;
  /** Called at the end, in the order of `whenOver`. */
  #listeners: (() => void)[] | undefined;
  #done: Promise<void> | undefined;

  constructor(conversation: Conversation, owner?: Owner) {
    this.conversation = conversation;
    this.owner = owner;
  }

  /**
   * Calls `listener` once, in a later microtask, when ReadyForQuery has arrived, also after an ErrorResponse (see
   * `error`), or when the connection is gone (see `lost`). Creates no promise until then.
   */
  whenOver(listener: () => void): void {
    if (this.#life === "over") inMicrotask(listener);
    else if (this.#listeners) this.#listeners.push(listener);
    else this.#listeners = [listener]; // an array that grows begins with room for 17
  }

  /** The same as a promise, which rejects when the connection is gone. Its rejection is always handled. */
  get done(): Promise<void> {
    if (this.#done) return this.#done;
    this.#done = new Promise((resolve, reject) => this.whenOver(() => (this.#lost ? reject(this.#lost) : resolve())));
    this.#done.catch(() => {});
    return this.#done;
  }

  /** Why the connection was lost before ReadyForQuery, when the operation is over. */
  get lost(): PgzError | undefined {
    return this.#lost;
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

  /** After `abandon`: resolves when the connection is usable again (or gone). */
  get cleanup(): Promise<void> | undefined {
    return this.#cleanup;
  }

  fail(error: PgzError, { hasBound, failedPart } = UNKNOWN): void {
    if (this.#outcome.is === "whole") this.#outcome = { is: "failed", error, hasBound, failedPart };
  }

  cut(by: Truncation): void {
    if (this.#outcome.is === "whole") this.#outcome = { is: "cut", by };
  }

  /** Marks the operation as abandoned and starts `cleanup`. Does nothing if it is abandoned or over already. */
  abandon(cleanup: () => Promise<void>): void {
    if (this.#life !== "running") return;
    this.#life = "stopping";
    this.#cleanup = cleanup();
    this.wake();
  }

  /** The operation was canceled, perhaps by a CancelRequest for another operation. */
  get wasHitByOtherCancel(): boolean {
    return this.mayBeHit && this.canceled;
  }

  /** No consumer wants rows of the operation any more. */
  get isUnwanted(): boolean {
    return this.#life === "stopping" || this.#outcome.is === "failed";
  }

  /** A statement after a caller's ROLLBACK has completed or failed. Outside of a block it may have stored something. */
  get hasGoneOnAfterRollback(): boolean {
    const before = this.statementsToRollback;
    return before !== undefined && (this.statements > before || this.#outcome.is === "failed");
  }

  /** Adds the row count of one completed statement, if that has one. */
  count(rows: number | null): void {
    if (rows !== null) this.rowCount = (this.rowCount ?? 0) + rows;
  }

  /** Ends the operation. `lost`: why the connection is gone, if it is. */
  end(lost?: PgzError): void {
    this.#life = "over";
    this.#lost = lost;
    this.wake();
    const listeners = this.#listeners;
    this.#listeners = undefined;
    // In a later microtask, because a listener may start the next operation while events of this chunk are not all
    // handled.
    listeners?.forEach(inMicrotask);
  }
}
