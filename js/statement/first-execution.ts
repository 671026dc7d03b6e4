// The first run of a statement that the isolate does not know: what the responses of its one flight describe, and rows
// that come as text.
//
// Knows how the flight is sent and which of its failures leave nothing behind. Must not know which statements may run
// this way (first-run.ts), nor what a failure leads to (execution-state.ts).
import type { Operation, RowSink } from "../connection/operation.ts";
import { newShapeId, type LearnedShape } from "../server/shapes.ts";
import type { AnyCall } from "../session/call.ts";
import type { FirstRun } from "../session/first-run.ts";
import { isCitusError } from "../session/citus.ts";
import type { Session } from "../session/session.ts";
import { madeUnique } from "../session/sql-comment.ts";
import type { RowRequest } from "../session/statements.ts";
import { putInFront } from "../session/transaction-block.ts";
import { fromFailure, type PgzError } from "../util/errors.ts";
import type { CoreConnection, EventOf } from "../wasm/boundary.ts";
import type { Definition } from "../wasm/type-definitions.ts";
import { isStale, mayBeOutdated, mayBeUnsupported } from "./attempts.ts";

export class FirstExecution {
  readonly #session: Session;
  readonly #run: FirstRun;
  readonly #id = newShapeId();
  /**
   * The definitions of the types that the check takes for known: the catalog may forget them meanwhile, and beside a
   * type that it does not know the statement has no shape.
   */
  readonly #types: readonly Definition[];
  readonly #operation: Operation;
  #learned: LearnedShape | undefined;
  /** The text of a row that cannot be read. The statement still runs to its end, so that the error rightly says so. */
  #unreadable: EventOf<"unreadable"> | undefined;

  /** Puts it on the wire, after a pending BEGIN and after settings. */
  constructor(call: AnyCall, session: Session, run: FirstRun, request: RowRequest, sink: RowSink) {
    this.#session = session;
    this.#run = run;
    this.#types = session.catalog.definitions(run.known.map((typeOid) => ({ typeOid })));
    this.#operation = session.transaction.carried(this.#operate(call, request, sink));
  }

  /** What the server has described, even if the statement then did not run. */
  get learned(): LearnedShape | undefined {
    return this.#learned;
  }

  /** Whether nothing of it ran, and it may succeed if it runs as described. */
  get mayBeDescribed(): boolean {
    const { outcome } = this.#operation;
    if (outcome.is !== "failed") return false;
    const { error, hasBound, failedPart } = outcome;
    if (failedPart === "prelude") return isCitusError(error);
    if (failedPart) return mayBeUnsupported(error);
    if (hasBound) return false;
    // Also if the server has not described it yet: a pooler may have substituted a statement of the same text that
    // another client prepared.
    if (isStale(error)) return true;
    if (this.#learned === undefined) return false;
    // The text may not suit a parameter, or the number of values is wrong (08P01): then the encoder says what is wrong.
    const mayRefuseText = this.#run.hasValues && mayBeOutdated(error, true);
    return mayRefuseText || error.code === "08P01";
  }

  /** The operation that was sent. */
  get operation(): Operation {
    return this.#operation;
  }

  /** Resolves when the operation is over. Rejects when the connection is lost, or if a row could not be read. */
  async over(): Promise<void> {
    const operation = this.#operation;
    await operation.done.catch((lost: unknown) => {
      // Output that a limit has cut off is complete, even if the connection is then lost.
      if (!operation.truncated) throw lost;
    });
    if (!operation.error) this.#session.statements.checkPassed();
    if (!operation.error && this.#unreadable) throw unreadable(this.#unreadable, operation);
  }

  #operate(call: AnyCall, { code, limits }: RowRequest, rows: RowSink): Operation {
    const { parameters, check } = this.#run;
    const { connection, statements, transaction } = this.#session;
    const { preludes } = transaction;
    // An early query is sent before BackendKeyData arrives, which would show a pooler.
    const mayBePooled = connection.isPooled || connection.processId === undefined;
    const said = this.#run.text + call.comment;
    const text = mayBePooled || call.parsesAnew ? madeUnique(said) : said;
    const checkId = statements.checkIdFor(check, mayBePooled);
    const command = (handle: CoreConnection) => {
      putInFront(handle, preludes);
      return handle.first_run(this.#id, text, parameters, check.sql, checkId, code, limits);
    };
    const on = {
      ...statements.handlers,
      shape: (learned: LearnedShape) => this.#take(learned),
      unreadable: (event: EventOf<"unreadable">) => {
        this.#unreadable = event;
        connection.callCore((handle) => handle.discard());
      },
    };
    return call.operate(connection, command, { rows, on });
  }

  /** Called before the first row, and before the check has run. */
  #take(learned: LearnedShape): void {
    this.#learned = learned;
    const { connection, statements } = this.#session;
    const types = statements.learnedNow(this.#run.text, learned, this.#id)?.types ?? this.#types;
    connection.callCore((handle) => statements.define(handle, types));
  }
}

/**
 * For a text that depends on settings which the statement itself has changed, or that the server writes differently.
 */
function unreadable({ code, message, detail }: EventOf<"unreadable">, { committed }: Operation): PgzError {
  return fromFailure({ code, message: `${message}. The statement has run`, detail }, { committed });
}
