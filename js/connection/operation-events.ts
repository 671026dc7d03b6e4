// Applies an event to its operation (columns, counts, caps, COPY) and passes it to the operation's handlers.
//
// Knows the events that belong to the operation in front. Must not know those of the connection itself, the pump or
// sockets.
import { ProtocolError, ResponseTooLargeError, UsageError, type PgzError } from "../util/errors.ts";
import { textsOf } from "../util/observer.ts";
import { outcomesOf, type EventOf, type ItemOutcome } from "../wasm/boundary.ts";
import type { Operation } from "./operation.ts";
import type { RowDelivery } from "./row-delivery.ts";

/** Events that belong to the operation in front. */
type OperationEvent = EventOf<
  "shape" | "columns" | "complete" | "suspended" | "items" | "switch" | "unreadable" | "limit" | "copy" | "shapeChanged"
>;

/** The part of the connection that this file needs. */
interface EventHost {
  readonly onCommand: ((command: string) => void) | undefined;
  readonly transactionStatus: string;
  blockChanges: number;
  abandon(operation: Operation): void;
  interrupt(operation: Operation, error: PgzError): void;
  refuseCopy(operation: Operation, direction: "in" | "out", error: PgzError): void;
}

/** Commands that begin a transaction, or end one and keep what it did. */
const CHANGES_BLOCK = /^(?:BEGIN|START TRANSACTION|COMMIT|PREPARE TRANSACTION)$/;

const BEGINS = /^(?:BEGIN|START TRANSACTION)$/;

export class OperationEvents {
  readonly #connection: EventHost;
  readonly #delivery: RowDelivery;

  constructor(connection: EventHost, delivery: RowDelivery) {
    this.#connection = connection;
    this.#delivery = delivery;
  }

  /** Applies the event, then calls its handler. */
  handle(operation: Operation, event: OperationEvent): void {
    const { on } = operation.conversation;
    switch (event.kind) {
      case "shape":
        freeze(event.columns);
        return on?.shape?.(event);
      case "columns":
        return this.#columns(operation, event);
      case "complete":
        return this.#complete(operation, event);
      case "suspended":
        operation.suspended = true;
        return;
      case "items":
        return this.#items(operation, outcomesOf(event));
      case "switch":
        if (operation.abandoned) return;
        this.#delivery.deliver(operation);
        return on?.switch?.(event);
      case "unreadable":
        return on?.unreadable?.(event);
      case "limit":
        return this.#limit(operation, event);
      case "copy":
        return on?.copy ? on.copy(event) : this.#refuseCopy(operation, event);
      case "shapeChanged":
        on?.shapeChanged?.(event, operation.owner?.subject ? textsOf(operation.owner.subject) : []);
        return this.#connection.interrupt(operation, shapeChanged(event));
    }
  }

  #columns(operation: Operation, event: EventOf<"columns">): void {
    const { rows, on, severalResults } = operation.conversation;
    freeze(event.columns);
    try {
      on?.columns?.(event);
      if (operation.abandoned) return;
      if (severalResults) this.#delivery.deliver(operation);
      rows?.columns?.(event.columns);
    } catch (cause) {
      this.#connection.interrupt(operation, cause as PgzError);
    }
  }

  #complete(operation: Operation, { command, rowCount }: EventOf<"complete">): void {
    operation.command = command;
    operation.count(rowCount);
    this.#report(operation, command);
    const { on, severalResults } = operation.conversation;
    if (!on?.complete || operation.isUnwanted) return;
    if (severalResults) this.#delivery.deliver(operation);
    on.complete(command, rowCount);
  }

  #items(operation: Operation, outcomes: readonly ItemOutcome[]): void {
    for (const { command, rowCount } of outcomes) {
      operation.count(rowCount);
      this.#report(operation, command);
    }
    operation.conversation.on?.items?.(outcomes);
  }

  /** `null`: an item of a batch that failed. */
  #report(operation: Operation, command: string | null): void {
    operation.statements++;
    if (command === null) return;
    // In front of an extended query BEGIN is not reported, in a Query it is.
    const isOwn = operation.carriesEnd || (operation.carriesBegin && operation.statements === 1 && command === "BEGIN");
    const isInside = this.#connection.transactionStatus !== "I" || operation.carriesBegin;
    // Inside a transaction BEGIN changes nothing, and the server only warns.
    const changesNothing = BEGINS.test(command) && isInside && operation.statementsToRollback === undefined;
    if (CHANGES_BLOCK.test(command) && !isOwn && !changesNothing) this.#connection.blockChanges++;
    if (command === "ROLLBACK" && !isOwn) operation.statementsToRollback ??= operation.statements;
    this.#connection.onCommand?.(command);
  }

  #limit(operation: Operation, { limit, value, observed, truncated }: EventOf<"limit">): void {
    if (!truncated)
      return this.#connection.interrupt(
        operation,
        new ResponseTooLargeError({ limit, value, observed, committed: operation.committed }),
      );
    operation.cut({ limit, value, observed });
    this.#delivery.deliver(operation);
    this.#connection.abandon(operation);
  }

  #refuseCopy(operation: Operation, { direction }: EventOf<"copy">): void {
    const error = new UsageError(
      "COPY_NEEDS_COPY_CALL",
      "COPY data cannot be returned as rows: use copyFrom or copyTo.",
    );
    this.#connection.refuseCopy(operation, direction, error);
  }
}

/** Frozen because users see the columns, and all runs of the statement share them. */
function freeze(columns: readonly object[]): void {
  columns.forEach(Object.freeze);
  Object.freeze(columns);
}

export function shapeChanged({ typeOid }: Pick<EventOf<"shapeChanged">, "typeOid">): ProtocolError {
  return new ProtocolError(
    "SHAPE_CHANGED",
    "The rows cannot be read. Their columns or types have changed: the next call learns them anew. Or an anonymous " +
      `record holds a type that has no binary form (type ${typeOid}): cast it to text. The statement may have run.`,
  );
}
