// One statement on its session: carries out the decisions of its state until the result is over or the call fails.
//
// A known statement makes no promise: it is sent before `begin` returns, and the end of its operation calls back. Knows
// how each step of execution-state.ts is done. Must not know why a step was decided, or what happens to the rows.
import type { Operation, RowSink } from "../connection/operation.ts";
import type { AnyCall, Ending } from "../session/call.ts";
import { learnNames } from "../session/catalog-questions.ts";
import type { FirstRun } from "../session/first-run.ts";
import type { Session } from "../session/session.ts";
import { isRead } from "../util/statement-words.ts";
import { pauseAfter } from "./attempts.ts";
import { ExecutionState, type ExecutionForm, type Step } from "./execution-state.ts";
import { FirstExecution } from "./first-execution.ts";
import type { Query } from "./sql.ts";

/** A statement that a call runs. */
export interface Statement {
  readonly query: Query;
  readonly form: ExecutionForm;
  /** Returns a new sink for each run, because a second run starts from nothing. */
  readonly newSink: () => RowSink;
  /** Called when the result is complete, with the operation that had the rows. */
  readonly ended: (operation: Operation) => void;
}

/** Runs the statement. Resolves with the ended operation; with `undefined` if the call ended meanwhile. */
export function execute(
  call: AnyCall,
  session: Session,
  statement: Omit<Statement, "ended">,
): Promise<Operation | undefined> {
  return new Promise((resolve, reject) => {
    let found: Operation | undefined;
    const ended = (operation: Operation) => void (found = operation);
    const ending = { over: () => resolve(found), failed: reject };
    new Execution(call, session, { ...statement, ended }, ending).begin();
  });
}

export class Execution {
  readonly #call: AnyCall;
  readonly #session: Session;
  readonly #statement: Statement;
  readonly #ending: Ending;
  readonly #state: ExecutionState;
  #operation: Operation | undefined;

  constructor(call: AnyCall, session: Session, statement: Statement, ending: Ending) {
    this.#call = call;
    this.#session = session;
    this.#statement = statement;
    this.#ending = ending;
    this.#state = new ExecutionState(call, session, statement.query, statement.form);
  }

  /** Any error thrown on the way fails the call. */
  begin(): void {
    try {
      this.#carryOut(this.#state.begin());
    } catch (error) {
      this.#ending.failed(error);
    }
  }

  /** Called when the operation is over that was put on the wire last. */
  readonly #over = (): void => {
    try {
      this.#carryOut(this.#state.executed(this.#operation!));
    } catch (error) {
      this.#ending.failed(error);
    }
  };

  #carryOut(step: Step): void {
    const call = this.#call;
    const { query, form, newSink } = this.#statement;
    const { statements, transaction } = this.#session;
    switch (step.do) {
      case "execute": {
        this.#operation = statements.execute(call, step, form, newSink());
        this.#operation.whenOver(this.#over);
        // If BEGIN failed, a call sent after it would run outside the transaction.
        if (!transaction.isBeginning) call.sent(query.text.length + step.parameters.length);
        return;
      }
      case "end":
        this.#statement.ended(step.operation);
        return this.#ending.over();
      case "leave":
        return this.#ending.over();
      case "fail":
        return this.#ending.failed(step.error);
      default:
        this.#wait(step)
          .then((decide) => this.#carryOut(decide()))
          .catch((error: unknown) => this.#ending.failed(error));
    }
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
    const { query, form } = this.#statement;
    const { policy } = form;
    switch (step.do) {
      case "learn names":
        return (await learnNames(call, connection, catalog, policy)) ? () => state.named() : leave;
      case "describe": {
        const shape = await statements.learn(call, query.text, step.learned);
        // A type that is new here may have been dropped and created again under the same name.
        const isNamed = shape && (await learnNames(call, connection, catalog, policy));
        return isNamed ? () => state.described(shape) : leave;
      }
      case "run first":
        return this.#runFirst(step.run);
      case "begin again":
        await transaction.prepareRepeat(step.failed);
        return () => state.begin();
      case "wait":
        await connection.stopping;
        return call.finished ? leave : () => state.begin();
      case "pause":
        await pauseAfter(step.attempt, step.error, connection, call);
        return call.finished ? leave : () => state.begin();
    }
  }

  async #runFirst(first: FirstRun): Promise<() => Step> {
    const { transaction } = this.#session;
    const { form, newSink } = this.#statement;
    const call = this.#call;
    const run = new FirstExecution(call, this.#session, first, form, newSink());
    // Nothing follows the first run of a statement that writes, no call and no COMMIT: if it is refused, it is sent
    // again.
    if (!transaction.isBeginning && isRead(first.text)) call.sent(first.text.length + first.parameters.length, true);
    await run.over();
    return () => this.#state.ranFirst(run);
  }
}

function leave(): Step {
  return { do: "leave" };
}
