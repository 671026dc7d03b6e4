// A statement's execution state on a session that only records its calls, for tests of the decisions.
//
// Knows what js/statement/execution-state.ts needs of a call and a session. Must not know what it decides.
import { expect } from "vitest";
import { Operation, type Reached } from "../../js/connection/operation.ts";
import type { AnyCall } from "../../js/session/call.ts";
import type { FirstRun } from "../../js/session/first-run.ts";
import type { Session } from "../../js/session/session.ts";
import type { LearnedShape, Shape } from "../../js/server/shapes.ts";
import { ExecutionState, type ExecutionForm, type FirstEnded } from "../../js/statement/execution-state.ts";
import { fromErrorResponse, type PgzError } from "../../js/util/errors.ts";
import { NO_LIMITS } from "../../js/wasm/boundary.ts";

export const NOT_BOUND: Reached = { hasBound: false, failedPart: undefined };
export const BOUND: Reached = { hasBound: true, failedPart: undefined };
export const CHECK: Reached = { hasBound: true, failedPart: "check" };
export const RUN = { text: "select n" } as FirstRun;
export const TEXT_ONLY = { routine: "getTypeBinaryOutputInfo" };

let shapes = 0;
export const newShape = (...parameterTypes: number[]): Shape =>
  ({ id: ++shapes, sql: "select n", parameterTypes: Uint32Array.from(parameterTypes) }) as unknown as Shape;

export const error = (code: string, more: object = {}) =>
  fromErrorResponse({ severity: "ERROR", message: "no", code, ...more });

/** Returns an operation that has ended: successfully, or with this failure. */
export function over(failure?: PgzError, reached?: Reached, more: object = {}): Operation {
  const operation = Object.assign(new Operation({}), more);
  if (failure) operation.fail(failure, reached);
  return operation;
}

export interface Given {
  readonly knows?: Shape;
  readonly hasRun?: boolean;
  readonly firstRun?: FirstRun;
  readonly values?: readonly unknown[];
  readonly form?: object;
  readonly config?: object;
  readonly text?: string;
}

/** Returns a state on a session that records its calls. */
export function newState({
  knows,
  hasRun = true,
  firstRun,
  values = [],
  form = {},
  config = {},
  text = "select n",
}: Given = {}) {
  const log: unknown[] = [];
  const call = { finished: false };
  const transaction = { place: "alone", placeOf: () => transaction.place, status: "I", isNone: true };
  const statements = {
    shape: knows,
    isText: false,
    known: () => statements.shape,
    hasRun: () => hasRun,
    firstRun: () => firstRun,
    forget: ({ id }: Shape) => void log.push(["forget", id]),
    forgetShape: (sql: string) => void log.push(["forgetShape", sql]),
    noteFailedCheck: ({ code }: PgzError) => void log.push(["noteFailedCheck", code]),
    refuseBinary: () => !statements.isText && (statements.isText = true),
  };
  const session = { config: { firstRun: "text", ...config }, statements, transaction } as unknown as Session;
  const whole = { code: 1, limits: NO_LIMITS, ...form } as ExecutionForm;
  const state = new ExecutionState(call as AnyCall, session, { text, values }, whole);
  return { state, call, transaction, statements, log };
}

/** The same, with its statement sent, whose shape was known. */
export function executing(given: Given = {}) {
  const knows = given.knows ?? newShape();
  const world = newState({ ...given, knows });
  expect(world.state.begin()).toMatchObject({ do: "execute", shape: knows });
  return { ...world, shape: knows };
}

/** The same, with its statement sent as a first run. */
export function runningFirst(given: Given = {}) {
  const world = newState({ firstRun: RUN, ...given });
  expect(world.state.begin()).toEqual({ do: "run first", run: RUN });
  return world;
}

/** What a server has described. */
export const LEARNED = { columns: [] } as unknown as LearnedShape;

/** The result that a first run reports at its end. */
export const told = (operation: Operation, mayBeDescribed = false, learned?: LearnedShape): FirstEnded => ({
  operation,
  mayBeDescribed,
  learned,
});
