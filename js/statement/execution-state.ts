// Decides each next step of one statement, from its text and values to the end of its result: by the cached shape, by
// what has been sent, and by the outcome.
//
//   begin ──┬─> learn names ──┐
//           v                 v
//         known? ─ yes ──────────────────────────────────> execute ──> over: end, or why it failed
//           ├─ may run at once ──> run first ──> over                       │
//           └─ describe ──> described ──────────────────────^               │
//           ^                                                               │
//           └───────── here · after a pause · described <──────────────────┴──> fail
//                      (`Next` in session/again.ts)
//
// It makes no promise and sends nothing: execute.ts carries out its decisions. Knows shapes, parameters and what a
// failure says about both. Must not know sockets, or what happens to the rows.
import type { Failure, Operation } from "../connection/operation.ts";
import type { Form } from "../rows/form.ts";
import { nextAfter, type Cause, type Effect, type Next, type Place } from "../session/again.ts";
import type { AnyCall } from "../session/call.ts";
import type { FirstRun } from "../session/first-run.ts";
import { isCitusError } from "../session/citus.ts";
import type { Session } from "../session/session.ts";
import type { LearnedShape, Shape } from "../server/shapes.ts";
import type { RowRequest } from "../session/statements.ts";
import { HAS_NOT_RUN, type PgzError } from "../util/errors.ts";
import { mayCommitApart } from "../util/statement-words.ts";
import { checkCount, encodeParameters } from "../values/parameters.ts";
import { LIMIT_FETCH, LIMIT_FIELD_BYTES } from "../wasm/boundary.ts";
import { attemptsOf, isConflict, isStale, mayBeOutdated, refusesBinary } from "./attempts.ts";
import type { Query } from "./sql.ts";

export type ExecutionForm = RowRequest & Pick<Form, "policy">;

/** The next step. */
export type Step =
  /** Ask the catalog for types that the form names, then call `begin` again. */
  | { readonly do: "learn names" }
  /**
   * Ask the server for the statement's shape, then call `described`. `learned`: what a first run has just described,
   * where only the catalog may have to be asked.
   */
  | { readonly do: "describe"; readonly learned?: LearnedShape | undefined }
  /** Run the statement with its parameters and rows as text, then call `ranFirst`. */
  | { readonly do: "run first"; readonly run: FirstRun }
  /** Send the statement at once, because the next encoded value overwrites `parameters`. Then call `executed`. */
  | { readonly do: "execute"; readonly shape: Shape; readonly parameters: Uint8Array }
  /**
   * If the flight of `failed` carried BEGIN, roll back, so that the next attempt carries BEGIN again. Then call
   * `begin`.
   */
  | { readonly do: "begin again"; readonly failed: Operation | undefined }
  /** Wait until no cancel is in flight on the session, then call `begin`. */
  | { readonly do: "wait" }
  /** Wait for the pause, then call `begin`. */
  | { readonly do: "pause"; readonly attempt: number; readonly error: PgzError }
  /** The result is complete. */
  | { readonly do: "end"; readonly operation: Operation }
  /** The call has ended for another reason. */
  | { readonly do: "leave" }
  | { readonly do: "fail"; readonly error: unknown };

/** What a first run reports at its end (first-execution.ts). */
export interface FirstEnded {
  readonly operation: Operation;
  /** What the server has described, even if the statement then did not run. */
  readonly learned: LearnedShape | undefined;
  /** Whether nothing of it ran, and it may succeed if it runs as described. */
  readonly mayBeDescribed: boolean;
}

const LEAVE: Step = { do: "leave" };
const DESCRIBE: Step = { do: "describe" };
const LEARN_NAMES: Step = { do: "learn names" };
const WAIT: Step = { do: "wait" };

/** What was true when the statement was last sent. */
interface Sent {
  readonly shape: Shape;
  /** Whether the isolate knew the shape. Otherwise the server has just described it. */
  readonly wasKnown: boolean;
  /** Whether the server may have had the statement under a name. */
  readonly hadRun: boolean;
}

/** An attempt that failed, perhaps because its shape or its prepared statement was out of date. */
interface FailedAttempt {
  readonly shape: Shape;
  readonly hadRun: boolean;
  readonly error: unknown;
}

export class ExecutionState {
  readonly #call: AnyCall;
  readonly #session: Session;
  readonly #query: Query;
  readonly #form: ExecutionForm;
  /** Whether the current attempt runs alone, begins a transaction or is inside one. */
  #place: Place = "alone";
  #sent: Sent | undefined;
  #hasNames: boolean;
  /** This attempt uses what the server has just described: the cached shape was out of date, or a first run failed. */
  #ignoresCache = false;
  #failedAttempt: FailedAttempt | undefined;
  /** What the server described during a first run that then failed. */
  #learned: LearnedShape | undefined;
  /** How often the statement has been sent again, by cause. */
  readonly #repeats: Partial<Record<Cause, number>> = {};

  constructor(call: AnyCall, session: Session, query: Query, form: ExecutionForm) {
    this.#call = call;
    this.#session = session;
    this.#query = query;
    this.#form = form;
    this.#hasNames = !form.policy?.parsers;
  }

  // -- before it is sent ----------------------------------------------------------------------------------------------

  begin(): Step {
    const { statements, transaction } = this.#session;
    const { text, values } = this.#query;
    checkCount(values);
    if (!this.#hasNames) return LEARN_NAMES;
    this.#place = transaction.placeOf(this.#call);
    if (this.#ignoresCache) return { do: "describe", learned: this.#learned };
    const shape = statements.known(text);
    if (shape) return this.#execute(shape, true);
    const run = this.#mayRunFirst() ? statements.firstRun(text, values, this.#form) : undefined;
    return run ? { do: "run first", run } : DESCRIBE;
  }

  /** Called when the names of types are known. */
  named(): Step {
    this.#hasNames = true;
    return this.begin();
  }

  described(shape: Shape): Step {
    // The description may have carried BEGIN.
    this.#place = this.#session.transaction.placeOf(this.#call);
    return this.#execute(shape, false);
  }

  #execute(shape: Shape, wasKnown: boolean): Step {
    this.#checkChanged(shape);
    const hadRun = this.#session.statements.hasRun(shape);
    let parameters;
    try {
      parameters = encodeParameters(this.#query.values, shape.parameterTypes);
    } catch (error) {
      if (!wasKnown) throw error;
      this.#failedAttempt = { shape, hadRun: false, error };
      // Nothing has been sent, so the transaction is not affected.
      return this.#next("outdated", { effect: "none", place: "alone" }, error);
    }
    if (this.#call.finished) return LEAVE; // a value's toJSON may abort
    this.#sent = { shape, wasKnown, hadRun };
    return { do: "execute", shape, parameters };
  }

  /**
   * Whether the statement may run without a description. Not inside a transaction: the transaction may have made a type
   * that no other session sees, and a failed check would end it. Not for a cursor: later flights must find its portal.
   * Not with a limit on the size of a field: a value has another length as text than in binary, so the limit would
   * refuse other rows than in later runs.
   */
  #mayRunFirst(): boolean {
    const { config, transaction } = this.#session;
    const { limits } = this.#form;
    if (limits[LIMIT_FETCH] || limits[LIMIT_FIELD_BYTES]) return false;
    return config.firstRun === "text" && transaction.status === "I";
  }

  /**
   * Throws the earlier error if describing the statement again gave the same shape: an old shape was not the cause. A
   * prepared statement may still be the cause, if it was lost or was made for other types.
   */
  #checkChanged(shape: Shape): void {
    const failed = this.#failedAttempt;
    if (failed?.shape === shape && !failed.hadRun && !isStale(failed.error)) throw failed.error;
  }

  // -- the outcome ----------------------------------------------------------------------------------------------------

  executed(operation: Operation): Step {
    const { outcome, lost } = operation;
    // Output that a limit has cut off is complete, whatever happens to the connection.
    if (lost && !operation.truncated) return { do: "fail", error: lost };
    if (outcome.is === "failed") return this.#executionFailed(operation, outcome);
    return this.#call.finished ? LEAVE : { do: "end", operation };
  }

  #executionFailed(operation: Operation, { error, hasBound, failedPart }: Failure): Step {
    const { statements } = this.#session;
    const { shape, wasKnown, hadRun } = this.#sent!;
    const { wasHitByOtherCancel } = operation;
    const asText = refusesBinary(error) && statements.refuseBinary(shape);
    if (this.#call.finished) return LEAVE;
    if (wasHitByOtherCancel || asText) {
      const step = this.#rolledBack(wasHitByOtherCancel ? "cancel" : "no binary form", operation, error);
      if (step) return step;
    }
    // After BindComplete something may have run, and been committed (DO and CALL can). Before BindComplete nothing has
    // run.
    const failedInFront = failedPart !== undefined && !isCitusError(error);
    if (!hasBound && !failedInFront && !this.#ignoresCache && mayBeOutdated(error, wasKnown)) {
      statements.forget(shape);
      this.#failedAttempt = { shape, hadRun, error };
      const step = this.#describedNext(error, operation);
      // It cannot be repeated here, for example because its transaction has failed too. The next call describes it
      // again.
      if (step.do === "fail") {
        statements.forgetShape(shape.sql);
        // Nothing of it has run, and its transaction can only be rolled back.
        if (isStale(error)) Object.assign(error, HAS_NOT_RUN);
      }
      return step;
    }
    return this.#conflictOrFail(operation, error);
  }

  /** Called when the first run is over. */
  ranFirst(run: FirstEnded): Step {
    const { operation } = run;
    const { outcome } = operation;
    if (this.#call.finished) return LEAVE;
    if (outcome.is !== "failed") return { do: "end", operation };
    const { error, failedPart } = outcome;
    if (operation.wasHitByOtherCancel) {
      const step = this.#rolledBack("cancel", operation, error);
      if (step) return step;
    }
    if (!run.mayBeDescribed) return this.#conflictOrFail(operation, error);
    if (failedPart === "check") this.#session.statements.noteFailedCheck(error);
    this.#learned = run.learned;
    return this.#describedNext(error, operation);
  }

  // -- repeats --------------------------------------------------------------------------------------------------------

  #conflictOrFail(operation: Operation, error: PgzError): Step {
    return (isConflict(error) && this.#rolledBack("conflict", operation, error)) || { do: "fail", error };
  }

  /** For a statement that the server has rolled back: returns the step that sends it again, if it may be sent again. */
  #rolledBack(cause: Cause, operation: Operation, error: PgzError): Step | undefined {
    const { transaction } = this.#session;
    const place = transaction.isNone ? this.#place : "inside";
    const step = this.#next(cause, { effect: this.#effectOf(operation), place }, error, operation);
    return step.do === "fail" ? undefined : step;
  }

  /** For a statement of which nothing has run: describes it again and repeats it, or fails. */
  #describedNext(error: unknown, operation: Operation): Step {
    return this.#next("outdated", { effect: "none", place: this.#place }, error, operation);
  }

  #effectOf({ outcome }: Operation): Effect {
    if (outcome.is === "failed" && (!outcome.hasBound || outcome.failedPart)) return "none";
    return mayCommitApart([this.#query.text]) ? "unknown" : "undone";
  }

  #next(cause: Cause, attempt: { effect: Effect; place: Place }, error: unknown, operation?: Operation): Step {
    const repeats = this.#repeats[cause] ?? 0;
    const userHasRows = operation?.committed ?? false;
    const next = nextAfter(cause, { ...attempt, userHasRows, repeats, most: this.#most(cause) });
    if (next === "fail") return { do: "fail", error };
    this.#repeats[cause] = repeats + 1;
    return this.#stepOf(next, error, operation);
  }

  #most(cause: Cause): number {
    if (cause === "conflict") return attemptsOf(this.#session.config.retryOnSerialization) - 1;
    return cause === "outdated" ? 1 : Infinity;
  }

  #stepOf(next: Exclude<Next, "fail">, error: unknown, failed: Operation | undefined): Step {
    this.#ignoresCache = next === "described";
    if (next === "described") return { do: "begin again", failed };
    // The next attempt uses the cache, which may be out of date again. So it may be described once more.
    this.#repeats.outdated = 0;
    if (next === "after a pause") {
      this.#failedAttempt = this.#learned = undefined;
      return { do: "pause", attempt: this.#repeats.conflict!, error: error as PgzError };
    }
    this.#learned = undefined;
    // The server signals a cancel twice, to the backend and to its process group: the second signal may still come.
    return WAIT;
  }
}
