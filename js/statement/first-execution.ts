// The first run of a statement that the isolate does not know: what the responses of its one flight describe, and rows
// that are held until the catalog has said what their columns' types are made of.
//
//   the check fails for types of columns ──> they are asked for in front of a second flight
//   shape ──> all types known ──────────────────────────────> rows go to the sink as they arrive
//        └──> the core holds the rows ──> the run is over ──> the catalog is asked, in one more flight ──> release
//                                   └──> too many are held ─> the call fails, and the next one is described first
//
// Rows are held only before PostgreSQL 16, because there the check cannot see types of columns. The catalog is never
// asked on another connection, because no limit would count that connection.
//
// Knows the order of flights and when the catalog is asked. Must not know which statements may run this way
// (first-run.ts), nor what a failure leads to (execution-state.ts).
import type { Connection } from "../connection/connection.ts";
import type { Operation, RowSink } from "../connection/operation.ts";
import type { Form } from "../rows/form.ts";
import type { AnyCall } from "../session/call.ts";
import { isComposite } from "../session/catalog.ts";
import { learnNames, learnTypesAnew, type TypesInFront } from "../session/catalog-questions.ts";
import type { FirstRun } from "../session/first-run.ts";
import { isCitusError } from "../session/citus.ts";
import type { Session } from "../session/session.ts";
import { isRecord, newShapeId, type LearnedShape, type Shape } from "../session/shapes.ts";
import type { RowRequest } from "../session/statements.ts";
import { putInFront, type Front } from "../session/transaction-block.ts";
import { fromFailure, MAY_HAVE_RUN, UsageError, type PgzError } from "../util/errors.ts";
import { MOST_HELD } from "../util/limits.ts";
import { FIRST_OF_A_DATABASE } from "../values/oid.ts";
import { ROWS_NONE, type Column, type CoreConnection, type EventOf } from "../wasm/boundary.ts";
import { isStale, mayBeOutdated, mayBeUnsupported } from "./attempts.ts";

export class FirstExecution {
  readonly #call: AnyCall;
  readonly #session: Session;
  readonly #run: FirstRun;
  readonly #request: RowRequest & Pick<Form, "policy">;
  readonly #sink: RowSink;
  readonly #typesInFront: TypesInFront | undefined;
  readonly #id = newShapeId();
  readonly #operation: Operation;
  #learned: LearnedShape | undefined;
  #shape: Shape | undefined;
  /** Whether it is not an item of a batch, which puts statements in front in another way. */
  readonly #isAlone: boolean;
  #isHeld = false;
  /** The server's response to what is in front of the statement was not one that PostgreSQL gives. */
  #isOdd = false;
  /**
   * Returns the error for rows that cannot be read. `undefined`: they can. The statement still runs to its end, so that
   * the error rightly says that it has run.
   */
  #refused: ((operation: Operation) => PgzError) | undefined;

  /** Puts it on the wire, after a pending BEGIN and after settings. `typesInFront`: the types that are asked for. */
  constructor(
    call: AnyCall,
    session: Session,
    run: FirstRun,
    request: RowRequest & Pick<Form, "policy">,
    sink: RowSink,
    typesInFront?: TypesInFront,
    front: Front = session.transaction,
  ) {
    this.#call = call;
    this.#session = session;
    this.#run = run;
    this.#request = request;
    this.#sink = sink;
    this.#typesInFront = typesInFront;
    this.#isAlone = front === session.transaction;
    this.#operation = front.carried(this.#operate(front.preludes));
  }

  /**
   * The shape that the server described. Undefined if it described none, and until the catalog has been asked for its
   * types.
   */
  get shape(): Shape | undefined {
    return this.#shape;
  }

  /** Whether nothing of it ran, and it may succeed if it is described first. */
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

  /**
   * Resolves with the operation that had the rows, when it is over; with `undefined` if the call ended meanwhile.
   * Rejects when the connection is lost.
   */
  async ended(): Promise<Operation | undefined> {
    const operation = this.#operation;
    try {
      await overOrTruncated(operation);
    } catch (lost) {
      if (this.#isAlone) this.#session.statements.firstRunLost(lost, this.#learned !== undefined);
      throw lost;
    }
    if (operation.error) return operation;
    this.#checkRefused(operation);
    if (!this.#isHeld) return operation;
    const { connection, statements } = this.#session;
    try {
      if (this.#call.finished || !(await this.#learnTypes(this.#call, connection))) return undefined;
      const release = (handle: CoreConnection) => this.#release(handle);
      const on = {
        ...statements.handlers,
        unreadable: (event: EventOf<"unreadable">) => this.#refuse((operation) => unreadable(event, operation)),
      };
      const released = this.#call.operate(connection, release, { rows: this.#sink, on });
      await overOrTruncated(released);
      this.#checkRefused(released);
      return released;
    } finally {
      connection.tell((handle) => handle.drop_held(this.#id));
    }
  }

  #operate(preludes: readonly string[]): Operation {
    const { parameters, check } = this.#run;
    const { connection } = this.#session;
    // An early query is sent before BackendKeyData arrives, which would show a pooler.
    const mayBePooled = connection.isPooled || connection.processId === undefined;
    const said = this.#run.text + this.#call.comment;
    const text = mayBePooled ? madeUnique(said) : said;
    const { form, limits } = this.#request;
    const checkId = this.#session.statements.checkIdFor(check, mayBePooled);
    const command = (handle: CoreConnection) => {
      putInFront(handle, preludes);
      return handle.first_run(this.#id, text, parameters, check.sql, checkId, check.looksAtTypes, form, limits);
    };
    return this.#call.operate(connection, command, {
      rows: this.#sink,
      on: {
        ...this.#session.statements.handlers,
        shape: (learned) => this.#take(learned),
        unreadable: (event) => this.#refuse((operation) => unreadable(event, operation)),
        odd: () => {
          this.#isOdd = true;
          this.#session.statements.oddServer();
        },
        tooManyHeld: () => this.#giveUp(),
      },
    });
  }

  // -- what the server describes --------------------------------------------------------------------------------------

  /** Called before the first row. The rows are read by the shape, held, or refused. */
  #take(learned: LearnedShape): void {
    this.#learned = learned;
    const { connection, statements } = this.#session;
    if (!this.#isOdd) statements.checkPassed();
    const wantsRows = this.#request.form !== ROWS_NONE;
    const record = wantsRows && learned.columns.find(isRecord);
    if (record) {
      statements.describeFirst(this.#run.text);
      return this.#refuse(() => recordAsText(record));
    }
    const shape = (this.#shape = statements.learnedNow(this.#run.text, learned, this.#id));
    // The text of a composite does not say what it is made of, and that may have changed since the catalog was asked.
    const mayBeOld = shape?.types.some((type) => isComposite(type) && !this.#typesInFront?.include(type));
    if (shape && !(wantsRows && mayBeOld)) return connection.tell((handle) => statements.define(handle, shape.types));
    if (!wantsRows || !learned.columns.some((column) => this.#needsCatalog(column))) return;
    this.#isHeld = true;
    connection.tell((handle) => handle.hold(MOST_HELD));
  }

  /** What has run cannot run again, so this call fails. The next call describes the statement first. */
  #giveUp(): void {
    const { connection, statements } = this.#session;
    statements.describeFirst(this.#run.text);
    connection.interrupt(this.#operation, tooManyHeld());
  }

  /** Drops the rows. The call rejects with this error when the run is over. */
  #refuse(error: (operation: Operation) => PgzError): void {
    this.#refused ??= error;
    this.#session.connection.tell((handle) => handle.discard());
  }

  #checkRefused(operation: Operation): void {
    if (this.#refused) throw this.#refused(operation);
  }

  /**
   * A type of a fixed size is an enum or similar, and its text is its value. A type that is made of other types has no
   * fixed size. If parsers are given by the names of types, one of them may be for this type.
   */
  #needsCatalog({ typeOid, typeSize }: Column): boolean {
    return typeOid >= FIRST_OF_A_DATABASE && (typeSize < 0 || this.#request.policy?.parsers !== undefined);
  }

  /**
   * Resolves with `false` if the call ended meanwhile. The statement has run, so no failure here makes it safe to run
   * it again.
   */
  async #learnTypes(call: AnyCall, connection: Connection): Promise<boolean> {
    const { catalog, statements } = this.#session;
    const learned = this.#learned!;
    try {
      if (!(await learnTypesAnew(call, connection, catalog, learned.columns))) return false;
      if (!(await learnNames(call, connection, catalog, this.#request.policy))) return false;
    } catch (error) {
      throw Object.assign(error as PgzError, MAY_HAVE_RUN);
    }
    this.#shape = statements.learnedNow(this.#run.text, learned, this.#id);
    return true;
  }

  #release(handle: CoreConnection): number {
    this.#session.statements.define(handle, this.#shape?.types ?? []);
    return handle.release(this.#id);
  }
}

/** Waits for the end. Output that a limit has cut off is complete, even if the connection is then lost. */
async function overOrTruncated(operation: Operation): Promise<void> {
  try {
    await operation.done;
  } catch (lost) {
    if (!operation.truncated) throw lost;
  }
}

function tooManyHeld(): UsageError {
  return new UsageError(
    "TYPES_NEED_DESCRIBE",
    `The statement returned more than ${MOST_HELD >> 20} MiB the first time it ran, before the catalog could be asked ` +
      "for the types of its columns. It was cancelled, but what it has done may be stored. Called again, or after " +
      "describe(), it is described first and has no such limit.",
  );
}

/**
 * For a text that depends on settings which the statement itself has changed, or that the server writes differently.
 */
function unreadable({ code, message, detail }: EventOf<"unreadable">, { committed }: Operation): PgzError {
  return fromFailure({ code, message: `${message}. The statement has run`, detail }, { committed });
}

function recordAsText({ name }: Column): UsageError {
  return new UsageError(
    "RECORD_NEEDS_DESCRIBE",
    `The column "${name}" is an anonymous record, which cannot be read the first time a statement runs. ` +
      "The statement has run. Call describe() first, or cast the record to a type or to text.",
  );
}

/**
 * Makes the text unique. Since version 1.21, PgBouncer gives all clients that send the same text one statement of the
 * server. Its literals were read when another client parsed it: 'today' of another day, a timestamptz of another
 * TimeZone (docs/decisions/0020).
 */
function madeUnique(text: string): string {
  return `${text}\n/* ${Math.random().toString(36).slice(2)} */`;
}
