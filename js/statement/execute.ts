// One statement on its session: carries out the decisions of its state until the result is over or the call fails.
//
// A known statement makes no promise: it is sent before `begin` returns, and the end of its operation calls back. Knows
// how each step of execution-state.ts is done. Must not know why it was decided, or what happens to the rows.
import type { Operation, RowSink } from "../connection/operation.ts";
import type { AnyCall } from "../session/call.ts";
import { learnNames, TypesInFront } from "../session/catalog-questions.ts";
import type { FirstRun } from "../session/first-run.ts";
import type { Session } from "../session/session.ts";
import type { Shape } from "../session/shapes.ts";
import type { PgzError } from "../util/errors.ts";
import { pauseAfter } from "./attempts.ts";
import { ExecutionState, type ExecutionForm, type Step } from "./execution-state.ts";
import { FirstExecution } from "./first-execution.ts";
import type { Query } from "./sql.ts";

/** Receives, once, the outcome of the statement. */
export interface Executed {
  /** The operation is over. `undefined`: the call ended meanwhile. */
  ended(operation: Operation | undefined): void;
  /** The call must fail with this error. */
  failed(error: unknown): void;
}

/** Runs the statement. `sink` returns a new sink for each run, because a second run starts from nothing. */
export function begin(
  call: AnyCall,
  session: Session,
  query: Query,
  form: ExecutionForm,
  sink: () => RowSink,
  executed: Executed,
): void {
  new Execution(call, session, query, form, sink, executed).begin();
}

/** As `begin`, but returns a promise of the ended operation; of `undefined` if the call ended meanwhile. */
export function execute(
  call: AnyCall,
  session: Session,
  query: Query,
  form: ExecutionForm,
  sink: () => RowSink,
): Promise<Operation | undefined> {
  return new Promise((ended, failed) => begin(call, session, query, form, sink, { ended, failed }));
}

class Execution {
  readonly #call: AnyCall;
  readonly #session: Session;
  readonly #query: Query;
  readonly #form: ExecutionForm;
  readonly #sink: () => RowSink;
  readonly #executed: Executed;
  readonly #state: ExecutionState;
  /** Types that the next first run asks for in front of the statement. */
  #typesInFront: TypesInFront | undefined;

  constructor(
    call: AnyCall,
    session: Session,
    query: Query,
    form: ExecutionForm,
    sink: () => RowSink,
    executed: Executed,
  ) {
    this.#call = call;
    this.#session = session;
    this.#query = query;
    this.#form = form;
    this.#sink = sink;
    this.#executed = executed;
    this.#state = new ExecutionState(call, session, query, form);
  }

  /** Any error thrown on the way fails the call. */
  begin(): void {
    try {
      this.#carryOut(this.#state.begin());
    } catch (error) {
      this.#executed.failed(error);
    }
  }

  #over(operation: Operation, lost: PgzError | undefined): void {
    try {
      this.#carryOut(this.#state.executed(operation, lost));
    } catch (error) {
      this.#executed.failed(error);
    }
  }

  #carryOut(step: Step): void {
    switch (step.do) {
      case "execute":
        return this.#execute(step.shape, step.parameters);
      case "end":
        return this.#executed.ended(step.operation);
      case "leave":
        return this.#executed.ended(undefined);
      case "fail":
        return this.#executed.failed(step.error);
      default:
        this.#wait(step)
          .then((decide) => this.#carryOut(decide()))
          .catch((error: unknown) => this.#executed.failed(error));
    }
  }

  #execute(shape: Shape, parameters: Uint8Array): void {
    const { statements, transaction } = this.#session;
    const call = this.#call;
    const length = this.#query.text.length + parameters.length;
    const operation = statements.execute(call, transaction, { shape, parameters }, this.#form, this.#sink());
    operation.whenOver((lost) => this.#over(operation, lost));
    // If BEGIN failed, a call sent after it would run outside the transaction.
    if (!transaction.isWaiting) call.sent(length);
  }

  // -- steps that wait ------------------------------------------------------------------------------------------------

  /**
   * Does the step, and resolves with the function that decides on the next one. The decision is made just before it is
   * carried out, because encoded parameters do not last longer.
   */
  async #wait(step: Exclude<Step, { readonly do: "execute" | "end" | "leave" | "fail" }>): Promise<() => Step> {
    const { connection, catalog, statements, transaction } = this.#session;
    const call = this.#call;
    const state = this.#state;
    const { policy } = this.#form;
    switch (step.do) {
      case "learn names":
        return (await learnNames(call, connection, catalog, policy)) ? () => state.named() : leave;
      case "describe": {
        const shape = await statements.learn(call, this.#query.text);
        return shape ? () => state.described(shape) : leave;
      }
      case "run first":
        return this.#runFirst(step.run, step.askedTypes);
      case "begin again":
        await transaction.prepareRepeat(step.failed);
        return () => state.begin();
      case "ask for types": {
        await transaction.prepareRepeat(step.failed);
        if (call.finished) return leave;
        const asking = TypesInFront.ask(call, connection, catalog, step.oids, policy);
        this.#typesInFront = asking instanceof Promise ? await asking : asking;
        if (!this.#typesInFront || call.finished) return leave;
        const next = state.withTypes(step.oids, step.failed);
        // Without an await in between, the question and the statement leave in one write, and no response comes between
        // them.
        return next.do === "run first" ? this.#runFirst(next.run, next.askedTypes) : () => next;
      }
      case "wait":
        await connection.stopping;
        return call.finished ? leave : () => state.begin();
      case "pause":
        await pauseAfter(step.attempt, step.error, connection, call);
        return call.finished ? leave : () => state.begin();
    }
  }

  async #runFirst(first: FirstRun, askedTypes: readonly number[] | undefined): Promise<() => Step> {
    const { transaction } = this.#session;
    const call = this.#call;
    const run = new FirstExecution(call, this.#session, first, this.#form, this.#sink(), this.#typesInFront);
    if (!transaction.isWaiting) call.sent(first.text.length + first.parameters.length);
    const ended = await run.ended();
    return () => this.#state.ranFirst(run, ended, askedTypes);
  }
}

function leave(): Step {
  return { do: "leave" };
}
