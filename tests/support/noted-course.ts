// A statement's course on a session that only records its calls, for tests of the course's decisions.
//
// Knows what js/statement/course.ts needs of a call and a session. Must not know what the course decides.
import { expect } from "vitest";
import { Operation, type Reached } from "../../js/connection/operation.ts";
import type { AnyCall } from "../../js/session/call.ts";
import type { FirstRun } from "../../js/session/first-run.ts";
import type { Session } from "../../js/session/session.ts";
import type { Shape } from "../../js/session/shapes.ts";
import { Course, type ExecutionForm, type FirstEnded } from "../../js/statement/course.ts";
import { fromErrorResponse, type PgzError } from "../../js/util/errors.ts";
import { NO_LIMITS } from "../../js/wasm/boundary.ts";

export const NOT_BOUND: Reached = { bound: false, before: undefined };
export const BOUND: Reached = { bound: true, before: undefined };
export const CHECK: Reached = { bound: true, before: "check" };
export const RUN = { text: "select n" } as FirstRun;
export const TEXT_ONLY = { routine: "getTypeBinaryOutputInfo" };

let shapes = 0;
export const newShape = (...parameterTypes: number[]): Shape =>
  ({ id: ++shapes, sql: "select n", parameterTypes: Uint32Array.from(parameterTypes) }) as unknown as Shape;

export const error = (code: string, more: object = {}) =>
  fromErrorResponse({ severity: "ERROR", message: "no", code, ...more });
export const MISSES = { message: 'invalid input syntax for type integer: "pgz-edge: columns {20001}"' };

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

/** Returns a course on a session that records its calls. */
export function newCourse({
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
  const transaction = { place: "alone", status: "I", isNone: true };
  const statements = {
    shape: knows,
    isText: false,
    known: () => statements.shape,
    hasRun: () => hasRun,
    firstRun: (...given: unknown[]) => (log.push(["firstRun", given[3]]), firstRun),
    forget: ({ id }: Shape) => void log.push(["forget", id]),
    forgetShape: (sql: string) => void log.push(["forgetShape", sql]),
    failedInFront: (part: unknown, { code }: PgzError) => void log.push(["failedInFront", part, code]),
    refuseBinary: () => !statements.isText && (statements.isText = true),
  };
  const session = { config: { firstRun: "text", ...config }, statements, transaction } as unknown as Session;
  const whole = { form: 1, limits: NO_LIMITS, ...form } as ExecutionForm;
  const course = new Course(call as AnyCall, session, { text, values }, whole);
  return { course, call, transaction, statements, log };
}

/** The same, with its statement sent, whose shape was known. */
export function executing(given: Given = {}) {
  const knows = given.knows ?? newShape();
  const world = newCourse({ ...given, knows });
  expect(world.course.begin()).toMatchObject({ do: "execute", shape: knows });
  return { ...world, shape: knows };
}

/** The same, with its statement sent as a first run. */
export function runningFirst(given: Given = {}) {
  const world = newCourse({ firstRun: RUN, ...given });
  expect(world.course.begin()).toEqual({ do: "run first", run: RUN });
  return world;
}

/** The result that a first run reports at its end. */
export const told = (operation: Operation, mayBeDescribed = false, shape?: Shape): FirstEnded => ({
  operation,
  mayBeDescribed,
  shape,
});
