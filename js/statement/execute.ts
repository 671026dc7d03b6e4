// One statement from its text and values to the end of its result: learn its shape, run it, and once more when what was
// known is stale.
//
// Knows shapes, parameters and what a failure says of both. Must not know sockets, or what becomes of the rows.
import type { Operation, RowSink } from "../connection/operation.ts";
import type { Form } from "../rows/form.ts";
import type { AnyCall } from "../session/call.ts";
import { learnNames, TypesInFront } from "../session/catalog-questions.ts";
import { columnTypes, isPlain, type FirstRun } from "../session/first-run.ts";
import type { Session } from "../session/session.ts";
import type { Shape } from "../session/shapes.ts";
import type { RowRequest } from "../session/statements.ts";
import { checkCount, encodeParameters } from "../values/parameters.ts";
import { isStale, mayBeOutdated, Outdated, refusesBinary, retryingConflicts, withCurrentShapes } from "./attempts.ts";
import { FirstExecution } from "./first-execution.ts";
import type { Query } from "./sql.ts";
import { LIMIT_FETCH, LIMIT_FIELD_BYTES } from "../wasm/boundary.ts";

/**
 * The ended operation, or `undefined` when the call was over before. `sink` gives a new one for each run: a second run
 * starts from nothing. Rejects with what the call is to reject with.
 */
export function execute(
  call: AnyCall,
  session: Session,
  query: Query,
  form: RowRequest & Pick<Form, "policy">,
  sink: () => RowSink,
): Promise<Operation | undefined> {
  return retryingConflicts(call, session, query.text, () => new Execution(call, session, query, form, sink).run());
}

/** What held when an attempt began. */
interface Attempt {
  readonly shape: Shape;
  /** The isolate knew the shape; else the server has just told of it. */
  readonly wasKnown: boolean;
  /** The server may have had it under a name. */
  readonly hadRun: boolean;
  readonly wasOutside: boolean;
}

/** The first attempt, when it failed. */
interface Failed {
  readonly shape: Shape;
  /** The server may have had it under a name. */
  readonly hadRun: boolean;
  readonly error: unknown;
}

/**
 * The server has rolled it back, nobody has seen a row, and it is not the statement's fault: a CancelRequest for
 * another call ended it, or its rows have no binary form.
 */
const AGAIN = Symbol("again");

class Execution {
  readonly #call: AnyCall;
  readonly #session: Session;
  readonly #query: Query;
  readonly #form: RowRequest & Pick<Form, "policy">;
  readonly #sink: () => RowSink;
  #failed: Failed | undefined;
  /** What its first run has taught, though it failed. */
  #learned: Shape | undefined;

  constructor(
    call: AnyCall,
    session: Session,
    query: Query,
    form: RowRequest & Pick<Form, "policy">,
    sink: () => RowSink,
  ) {
    this.#call = call;
    this.#session = session;
    this.#query = query;
    this.#form = form;
    this.#sink = sink;
  }

  async run(): Promise<Operation | undefined> {
    for (;;) {
      const ended = await withCurrentShapes(this.#session, (anew) => this.#attempt(anew));
      if (ended !== AGAIN) return ended;
      // The server signals a cancel twice, to the backend and to its process group: the second one may still come.
      await this.#session.connection.stopping;
      if (this.#call.finished) return undefined;
    }
  }

  async #attempt(anew: boolean): Promise<Operation | undefined | Outdated | typeof AGAIN> {
    const { connection, catalog, statements, transaction } = this.#session;
    const { text, values } = this.#query;
    const call = this.#call;
    checkCount(values);
    const { policy } = this.#form;
    if (policy?.parsers && !(await learnNames(call, connection, catalog, policy))) return undefined;
    const known = anew ? this.#learned : statements.known(text);
    const first = known || anew || !this.#mayRunFirst() ? undefined : statements.firstRun(text, values, this.#form);
    if (first) return this.#runFirst(first);
    const shape = known ?? (await statements.learn(call, text));
    if (!shape) return undefined;
    this.#checkChanged(shape);

    const attempt: Attempt = {
      shape,
      wasKnown: known !== undefined,
      hadRun: statements.hasRun(shape),
      wasOutside: transaction.status === "I",
    };
    let parameters;
    try {
      parameters = encodeParameters(values, shape.parameterTypes);
    } catch (error) {
      if (!known) throw error;
      return this.#outdated({ shape, hadRun: false, error });
    }
    if (call.finished) return undefined; // a value's toJSON may abort
    const length = text.length + parameters.length;
    const operation = statements.execute(call, transaction, { shape, parameters }, this.#form, this.#sink());
    // A call behind BEGIN that fails would run outside of the transaction.
    if (!transaction.isWaiting) call.said(length);
    try {
      await operation.done;
    } catch (lost) {
      // Cut off by a limit, the output is whole whatever becomes of the connection.
      if (!operation.truncated) throw lost;
    }
    if (operation.error) return this.#failure(operation, attempt, anew);
    return call.finished ? undefined : operation;
  }

  /**
   * Inside a transaction a type may have been made that nobody else sees, and a check that fails would end it. A
   * cursor's portal is one that a later flight finds. As text a field is longer than it is in binary, or shorter, so
   * that a cap on it would refuse other rows.
   */
  #mayRunFirst(): boolean {
    const { config, transaction } = this.#session;
    const { limits } = this.#form;
    if (limits[LIMIT_FETCH] || limits[LIMIT_FIELD_BYTES]) return false;
    return config.firstRun === "text" && transaction.status === "I";
  }

  /** One flight for a statement that nobody has described, with a question about types in front perhaps. */
  async #runFirst(first: FirstRun, inFront?: TypesInFront): Promise<Operation | undefined | Outdated | typeof AGAIN> {
    const { statements, transaction } = this.#session;
    const call = this.#call;
    const run = new FirstExecution(call, this.#session, first, this.#form, this.#sink(), inFront);
    const { operation } = run;
    if (!transaction.isWaiting) call.said(first.text.length + first.parameters.length);
    const ended = await run.ended();
    const { error, wasHitBesides, committed } = operation;
    if (call.finished) return undefined;
    if (!error) return this.#releasedOrError(ended);
    if (wasHitBesides && !committed && transaction.isNone) return AGAIN;
    if (!run.mayBeDescribed) throw error;
    statements.failedInFront(operation.failedBefore, error.message);
    const types = operation.failedBefore === "check" && !inFront ? columnTypes(error.message) : undefined;
    if (types) return this.#runFirstBehind(types, operation);
    this.#learned = run.shape;
    return new Outdated(error, operation);
  }

  /** The check has failed for these types of its columns, so nothing has run. */
  async #runFirstBehind(
    oids: readonly number[],
    failed: Operation,
  ): Promise<Operation | undefined | Outdated | typeof AGAIN> {
    const { connection, catalog, statements, transaction } = this.#session;
    const { text, values } = this.#query;
    const call = this.#call;
    await transaction.again(failed);
    if (call.finished) return undefined;
    const asking = TypesInFront.ask(call, connection, catalog, oids, this.#form.policy);
    const asked = asking instanceof Promise ? await asking : asking;
    if (!asked || call.finished) return undefined;
    const first = statements.firstRun(text, values, this.#form, oids);
    return first ? this.#runFirst(first, asked) : new Outdated(failed.error, failed);
  }

  /** Rows that had waited may fail when they are written. */
  #releasedOrError(operation: Operation | undefined): Operation | undefined {
    if (operation?.error) throw operation.error;
    return operation;
  }

  /** What follows from an error: another attempt, or the end of the call with it. */
  #failure(
    operation: Operation,
    { shape, wasKnown, hadRun, wasOutside }: Attempt,
    anew: boolean,
  ): Outdated | undefined | typeof AGAIN {
    const { statements, transaction } = this.#session;
    const { error, bound, failedBefore, wasHitBesides, committed } = operation;
    if (error!.code === "SHAPE_CHANGED") statements.forgetShape(shape.sql);
    const asText = refusesBinary(error) && statements.refuseBinary(shape);
    if (this.#call.finished) return undefined;
    if ((wasHitBesides || (asText && isPlain(shape.sql))) && !committed && transaction.isNone) return AGAIN;
    // Behind BindComplete something may have run, and been committed (DO and CALL can); before it nothing has.
    if (bound || failedBefore || anew || !mayBeOutdated(error, wasKnown)) throw error!;
    statements.forget(shape);
    if (wasOutside) return this.#outdated({ shape, hadRun, error }, operation);
    // The transaction has failed with it. The next one is to know better.
    statements.forgetShape(shape.sql);
    throw error!;
  }

  #outdated(failed: Failed, operation?: Operation): Outdated {
    this.#failed = failed;
    return new Outdated(failed.error, operation);
  }

  /**
   * Describing it again gave the same shape, so staleness was not the cause; unless a prepared statement was, lost or
   * made for other types.
   */
  #checkChanged(shape: Shape): void {
    const failed = this.#failed;
    if (failed?.shape === shape && !failed.hadRun && !isStale(failed.error)) throw failed.error;
  }
}
