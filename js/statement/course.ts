// One statement from its text and values to the end of its result, as decisions: what comes next by what is known of
// it, by what has been sent, and by what became of that.
//
//   begin ──┬─> learn names ──┐
//           v                 v
//         known? ─ yes ──────────────────────────────────> execute ──> over: end, or why it failed
//           ├─ may run at once ──> run first ──> over                       │
//           │                         └─ types in front ──> run first       │
//           └─ describe ──> described ──────────────────────^               │
//           ^                                                               │
//           └───────── here · after a pause · described <──────────────────┴──> fail
//
// It makes no promise and sends nothing: execute.ts carries its decisions out. Knows shapes, parameters and what a
// failure says of both. Must not know sockets, or what becomes of the rows.
import type { Failure, Operation } from "../connection/operation.ts";
import type { Form } from "../rows/form.ts";
import { nextAfter, type Cause, type Effect, type Next, type Place } from "../session/again.ts";
import type { AnyCall } from "../session/call.ts";
import { columnTypes, type FirstRun } from "../session/first-run.ts";
import { tellsOfNodes } from "../session/nodes.ts";
import type { Session } from "../session/session.ts";
import type { Shape } from "../session/shapes.ts";
import type { RowRequest } from "../session/statements.ts";
import type { PgzError } from "../util/errors.ts";
import { checkCount, encodeParameters } from "../values/parameters.ts";
import { LIMIT_FETCH, LIMIT_FIELD_BYTES } from "../wasm/boundary.ts";
import { attemptsOf, isConflict, isStale, mayBeOutdated, mayCommit, refusesBinary } from "./attempts.ts";
import type { Query } from "./sql.ts";

export type ExecutionForm = RowRequest & Pick<Form, "policy">;

/** What is to be done next. */
export type Step =
  /** The form names types that the catalog has to be asked for: then `begin` again. */
  | { readonly do: "learn names" }
  /** The server is asked for the statement's shape: then `described`. */
  | { readonly do: "describe" }
  /** The statement leaves as text, with a question for types in front of it where `asked` has them: then `ranFirst`. */
  | { readonly do: "run first"; readonly run: FirstRun; readonly asked?: readonly number[] | undefined }
  /** The statement leaves at once, since the next value that is encoded overwrites `parameters`: then `executed`. */
  | { readonly do: "execute"; readonly shape: Shape; readonly parameters: Uint8Array }
  /** The transaction that this was to begin is rolled back, and begins with what comes next: then `begin`. */
  | { readonly do: "begin again"; readonly failed: Operation | undefined }
  /** The same, and then `withTypes`. */
  | { readonly do: "ask for types"; readonly failed: Operation; readonly oids: readonly number[] }
  /** Until no cancel is under way on the session: then `begin`. */
  | { readonly do: "wait" }
  /** Then `begin`. */
  | { readonly do: "pause"; readonly attempt: number; readonly error: PgzError }
  /** Its result is whole. */
  | { readonly do: "end"; readonly operation: Operation }
  /** The call is over, for another reason. */
  | { readonly do: "leave" }
  | { readonly do: "fail"; readonly error: unknown };

/** What a first run tells at its end (first-execution.ts). */
export interface FirstEnded {
  readonly operation: Operation;
  /** What the statement turned out to be, as far as that is known for good. */
  readonly shape: Shape | undefined;
  /** Nothing of it ran, and described first it may go well. */
  readonly mayBeDescribed: boolean;
}

const LEAVE: Step = { do: "leave" };
const DESCRIBE: Step = { do: "describe" };
const LEARN_NAMES: Step = { do: "learn names" };
const WAIT: Step = { do: "wait" };

/** What held when the statement last left. */
interface Sent {
  readonly shape: Shape;
  /** The isolate knew the shape; else the server has just told of it. */
  readonly wasKnown: boolean;
  /** The server may have had it under a name. */
  readonly hadRun: boolean;
}

/** The attempt that failed because of what was known. */
interface Outdated {
  readonly shape: Shape;
  readonly hadRun: boolean;
  readonly error: unknown;
}

export class Course {
  readonly #call: AnyCall;
  readonly #session: Session;
  readonly #query: Query;
  readonly #form: ExecutionForm;
  /** Where the attempt that runs now began. */
  #place: Place = "alone";
  #sent: Sent | undefined;
  #hasNames: boolean;
  /** What was known has been out of date: this attempt goes by what the server says now. */
  #isAnew = false;
  #outdated: Outdated | undefined;
  /** What its first run has taught, though it failed. */
  #learned: Shape | undefined;
  /** How often it was sent again, by cause. */
  readonly #repeats: Partial<Record<Cause, number>> = {};

  constructor(call: AnyCall, session: Session, query: Query, form: ExecutionForm) {
    this.#call = call;
    this.#session = session;
    this.#query = query;
    this.#form = form;
    this.#hasNames = !form.policy?.parsers;
  }

  // -- on the way -----------------------------------------------------------------------------------------------------

  begin(): Step {
    const { statements, transaction } = this.#session;
    const { text, values } = this.#query;
    checkCount(values);
    if (!this.#hasNames) return LEARN_NAMES;
    this.#place = transaction.place;
    const shape = this.#isAnew ? this.#learned : statements.known(text);
    if (shape) return this.#execute(shape, true);
    const run = !this.#isAnew && this.#mayRunFirst() ? statements.firstRun(text, values, this.#form) : undefined;
    return run ? { do: "run first", run } : DESCRIBE;
  }

  /** The names of types are known. */
  named(): Step {
    this.#hasNames = true;
    return this.begin();
  }

  described(shape: Shape): Step {
    return this.#execute(shape, false);
  }

  /** The types that the check of a first run has missed have been asked for. */
  withTypes(oids: readonly number[], failed: Operation): Step {
    const { text, values } = this.#query;
    const run = this.#session.statements.firstRun(text, values, this.#form, oids);
    return run ? { do: "run first", run, asked: oids } : this.#describedNext(failed.error, failed);
  }

  #execute(shape: Shape, wasKnown: boolean): Step {
    this.#checkChanged(shape);
    const hadRun = this.#session.statements.hasRun(shape);
    let parameters;
    try {
      parameters = encodeParameters(this.#query.values, shape.parameterTypes);
    } catch (error) {
      if (!wasKnown) throw error;
      this.#outdated = { shape, hadRun: false, error };
      // Nothing has been sent, so it does not matter to the transaction.
      return this.#next("outdated", { effect: "none", place: "alone" }, error);
    }
    if (this.#call.finished) return LEAVE; // a value's toJSON may abort
    this.#sent = { shape, wasKnown, hadRun };
    return { do: "execute", shape, parameters };
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

  /**
   * Describing it again gave the same shape, so staleness was not the cause; unless a prepared statement was, lost or
   * made for other types.
   */
  #checkChanged(shape: Shape): void {
    const failed = this.#outdated;
    if (failed?.shape === shape && !failed.hadRun && !isStale(failed.error)) throw failed.error;
  }

  // -- what became of it ----------------------------------------------------------------------------------------------

  executed(operation: Operation, lost: PgzError | undefined): Step {
    // Cut off by a limit, the output is whole whatever becomes of the connection.
    if (lost && !operation.truncated) return { do: "fail", error: lost };
    const { outcome } = operation;
    if (outcome.is === "failed") return this.#executionFailed(operation, outcome);
    return this.#call.finished ? LEAVE : { do: "end", operation };
  }

  #executionFailed(operation: Operation, { error, bound, before }: Failure): Step {
    const { statements } = this.#session;
    const { shape, wasKnown, hadRun } = this.#sent!;
    const { wasHitBesides } = operation;
    if (error.code === "SHAPE_CHANGED") statements.forgetShape(shape.sql);
    const asText = refusesBinary(error) && statements.refuseBinary(shape);
    if (this.#call.finished) return LEAVE;
    if (wasHitBesides || asText) {
      const step = this.#rolledBack(wasHitBesides ? "cancel" : "no binary form", operation, error);
      if (step) return step;
    }
    // After BindComplete something may have run, and been committed (DO and CALL can); before it nothing has.
    const isInFront = before !== undefined && !tellsOfNodes(error);
    if (!bound && !isInFront && !this.#isAnew && mayBeOutdated(error, wasKnown)) {
      statements.forget(shape);
      this.#outdated = { shape, hadRun, error };
      const step = this.#describedNext(error, operation);
      // The transaction has failed with it. The next one is to know better.
      if (step.do === "fail") statements.forgetShape(shape.sql);
      return step;
    }
    return this.#conflictOrFail(operation, error);
  }

  /** `ended`: the operation that had the rows; `undefined` when the call was over before. */
  ranFirst(run: FirstEnded, ended: Operation | undefined, asked: readonly number[] | undefined): Step {
    const { statements } = this.#session;
    const { operation } = run;
    const { outcome } = operation;
    if (this.#call.finished) return LEAVE;
    if (outcome.is !== "failed") {
      // Rows that had waited may fail when they are written.
      if (ended?.error) return { do: "fail", error: ended.error };
      return ended ? { do: "end", operation: ended } : LEAVE;
    }
    const { error, before } = outcome;
    if (operation.wasHitBesides) {
      const step = this.#rolledBack("cancel", operation, error);
      if (step) return step;
    }
    if (!run.mayBeDescribed) return this.#conflictOrFail(operation, error);
    if (!tellsOfNodes(error)) statements.failedInFront(before, error);
    const oids = before === "check" && !asked ? columnTypes(error.message) : undefined;
    if (oids) return { do: "ask for types", failed: operation, oids };
    this.#learned = run.shape;
    return this.#describedNext(error, operation);
  }

  // -- again ----------------------------------------------------------------------------------------------------------

  #conflictOrFail(operation: Operation, error: PgzError): Step {
    return (isConflict(error) && this.#rolledBack("conflict", operation, error)) || { do: "fail", error };
  }

  /** The server has rolled the statement back: whether it is sent again. */
  #rolledBack(cause: Cause, operation: Operation, error: PgzError): Step | undefined {
    const { transaction } = this.#session;
    const place = transaction.isNone ? this.#place : "inside";
    const step = this.#next(cause, { effect: this.#effectOf(operation), place }, error, operation);
    return step.do === "fail" ? undefined : step;
  }

  /** Nothing of it has run: whether it is sent again by what the server says of it now. */
  #describedNext(error: unknown, operation: Operation): Step {
    return this.#next("outdated", { effect: "none", place: this.#place }, error, operation);
  }

  #effectOf({ outcome }: Operation): Effect {
    if (outcome.is === "failed" && (!outcome.bound || outcome.before)) return "none";
    return mayCommit(this.#query.text) ? "unknown" : "undone";
  }

  #next(cause: Cause, left: { effect: Effect; place: Place }, error: unknown, operation?: Operation): Step {
    const repeats = this.#repeats[cause] ?? 0;
    const isSeen = operation?.committed ?? false;
    const next = nextAfter(cause, { ...left, isSeen, repeats, most: this.#most(cause) });
    if (next === "fail") return { do: "fail", error };
    this.#repeats[cause] = repeats + 1;
    return this.#stepOf(next, error, operation);
  }

  #most(cause: Cause): number {
    if (cause === "conflict") return attemptsOf(this.#session.config.retryOnSerialization) - 1;
    return cause === "outdated" ? 1 : Infinity;
  }

  #stepOf(next: Exclude<Next, "fail">, error: unknown, failed: Operation | undefined): Step {
    this.#isAnew = next === "described";
    if (next === "described") return { do: "begin again", failed };
    // Another attempt, for which what is known may be out of date once more.
    this.#repeats.outdated = 0;
    if (next === "after a pause") {
      this.#outdated = this.#learned = undefined;
      return { do: "pause", attempt: this.#repeats.conflict!, error: error as PgzError };
    }
    // The server signals a cancel twice, to the backend and to its process group: the second one may still come.
    return WAIT;
  }
}
