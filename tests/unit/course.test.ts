// A statement's course (js/statement/course.ts), one decision at a time: what it asks of its session, what it keeps of
// an attempt for the next one, and what becomes of what was known. course-walk.test.ts goes all its ways.
import { expect, test } from "vitest";
import { Operation, type Reached } from "../../js/connection/operation.ts";
import type { AnyCall } from "../../js/session/call.ts";
import type { FirstRun } from "../../js/session/first-run.ts";
import type { Session } from "../../js/session/session.ts";
import type { Shape } from "../../js/session/shapes.ts";
import { connectionLost } from "../../js/sockets/contract.ts";
import { Course, type ExecutionForm } from "../../js/statement/course.ts";
import { fromErrorResponse, fromFailure, type PgzError } from "../../js/util/errors.ts";
import { limitsOf, NO_LIMITS } from "../../js/wasm/boundary.ts";

const NOT_BOUND: Reached = { bound: false, before: undefined };
const BOUND: Reached = { bound: true, before: undefined };
const CHECK: Reached = { bound: true, before: "check" };
const RUN = { text: "select n" } as FirstRun;
const TEXT_ONLY = { routine: "getTypeBinaryOutputInfo" };

let shapes = 0;
const newShape = (...parameterTypes: number[]): Shape =>
  ({ id: ++shapes, sql: "select n", parameterTypes: Uint32Array.from(parameterTypes) }) as unknown as Shape;

const error = (code: string, more: object = {}) =>
  fromErrorResponse({ severity: "ERROR", message: "no", code, ...more });
const MISSES = { message: 'invalid input syntax for type integer: "pgz-edge: columns {20001}"' };

/** An operation that is over: well, or failed with this. */
function over(failure?: PgzError, reached?: Reached, more: object = {}): Operation {
  const operation = Object.assign(new Operation({}), more);
  if (failure) operation.fail(failure, reached);
  return operation;
}

interface Given {
  readonly knows?: Shape;
  readonly hasRun?: boolean;
  readonly firstRun?: FirstRun;
  readonly values?: readonly unknown[];
  readonly form?: object;
  readonly config?: object;
  readonly text?: string;
}

/** A course on a session that notes what it is told. */
function newCourse({
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

/** The same, with its statement on the wire as it was known. */
function executing(given: Given = {}) {
  const knows = given.knows ?? newShape();
  const world = newCourse({ ...given, knows });
  expect(world.course.begin()).toMatchObject({ do: "execute", shape: knows });
  return { ...world, shape: knows };
}

/** The same, on the wire as a first run. */
function runningFirst(given: Given = {}) {
  const world = newCourse({ firstRun: RUN, ...given });
  expect(world.course.begin()).toEqual({ do: "run first", run: RUN });
  return world;
}

// -- how it begins ---------------------------------------------------------------------------------------------------

test("too many values are refused before the catalog is asked for names", () => {
  const { course } = newCourse({ values: Array<number>(65_536).fill(1), form: { policy: { parsers: {} } } });
  expect(() => course.begin()).toThrow(expect.objectContaining({ code: "TOO_MANY_PARAMETERS" }));
});

test("names are asked for once, and only where the form has parsers", () => {
  const { course } = newCourse({ knows: newShape(), form: { policy: { parsers: {} } } });
  expect(course.begin()).toEqual({ do: "learn names" });
  expect(course.named()).toMatchObject({ do: "execute" });
  expect(course.begin()).toMatchObject({ do: "execute" });
  expect(newCourse({ form: { policy: {} } }).course.begin()).toEqual({ do: "describe" });
});

test.each([
  ["where the option says so, outside of a transaction", {}, "I", "run first"],
  ["not in a transaction", {}, "T", "describe"],
  ["not where the option says so", { config: { firstRun: "describe" } }, "I", "describe"],
  ["not for a cursor", { form: { limits: limitsOf({ fetch: 2 }) } }, "I", "describe"],
  ["not where fields have a cap", { form: { limits: limitsOf({ fieldBytes: 2 }) } }, "I", "describe"],
  ["with other caps", { form: { limits: limitsOf({ rows: 2, bytes: 3 }) } }, "I", "run first"],
])("a statement runs before it is described %s", (_, given: Given, status, step) => {
  const { course, transaction, log } = newCourse({ firstRun: RUN, ...given });
  transaction.status = status;
  expect(course.begin().do).toBe(step);
  expect(log).toEqual(step === "describe" ? [] : [["firstRun", undefined]]);
});

test("one that may not is described, and leaves by what the server says", () => {
  const { course } = newCourse();
  expect(course.begin()).toEqual({ do: "describe" });
  const shape = newShape();
  expect(course.described(shape)).toMatchObject({ do: "execute", shape });
});

// -- values ----------------------------------------------------------------------------------------------------------

test("a value that does not suit what was known is encoded by a new description, in a transaction too", () => {
  const { course, transaction } = newCourse({ knows: newShape(23), values: ["x"] });
  Object.assign(transaction, { place: "inside", status: "T", isNone: false });
  expect(course.begin()).toEqual({ do: "begin again", failed: undefined });
  expect(course.begin()).toEqual({ do: "describe" });
  const shape = newShape(25);
  expect(course.described(shape)).toMatchObject({ do: "execute", shape });
});

test("one that does not suit the new description either is the error", () => {
  const { course } = newCourse({ knows: newShape(23), values: ["x"] });
  course.begin();
  course.begin();
  expect(() => course.described(newShape(23))).toThrow(expect.objectContaining({ code: "INVALID_PARAMETER" }));
});

test("where the server describes it as before, the value is at fault, whether it has run or not", () => {
  const knows = newShape(23);
  const { course } = newCourse({ knows, values: ["x"], hasRun: true });
  course.begin();
  course.begin();
  expect(() => course.described(knows)).toThrow(expect.objectContaining({ code: "INVALID_PARAMETER" }));
});

test("a value whose own code ends the call keeps the statement from leaving", () => {
  const world = newCourse({
    knows: newShape(114),
    values: [{ toJSON: () => ((world.call.finished = true), 1) }],
  });
  expect(world.course.begin()).toEqual({ do: "leave" });
});

// -- what became of it -----------------------------------------------------------------------------------------------

test("a result that is over ends it, and one that a limit has cut off though the connection is lost", () => {
  const { course, call } = executing();
  const whole = over();
  expect(course.executed(whole, undefined)).toEqual({ do: "end", operation: whole });
  const lost = connectionLost("gone");
  expect(course.executed(whole, lost)).toEqual({ do: "fail", error: lost });
  const cut = over();
  cut.cut({ limit: "maxRows" } as never);
  expect(course.executed(cut, lost)).toEqual({ do: "end", operation: cut });
  call.finished = true;
  expect(course.executed(whole, undefined)).toEqual({ do: "leave" });
});

test("columns that have changed are forgotten, also where the call is over", () => {
  const { course, call, log } = executing();
  call.finished = true;
  const changed = fromFailure({ code: "SHAPE_CHANGED", message: "no" });
  expect(course.executed(over(changed, BOUND), undefined)).toEqual({ do: "leave" });
  expect(log).toEqual([["forgetShape", "select n"]]);
  const other = executing();
  other.course.executed(over(error("22012"), BOUND), undefined);
  expect(other.log).toEqual([]);
});

test("a type without binary form is remembered though the call is over, and does not make it run again then", () => {
  const { course, call, statements } = executing();
  call.finished = true;
  expect(course.executed(over(error("42883", TEXT_ONLY), BOUND), undefined)).toEqual({ do: "leave" });
  expect(statements.isText).toBe(true);
});

test("where that was known already the error is the statement's own", () => {
  const { course, statements } = executing();
  statements.isText = true;
  const failure = error("42883", TEXT_ONLY);
  expect(course.executed(over(failure, BOUND), undefined)).toEqual({ do: "fail", error: failure });
});

test("a cancel for another call is answered before a lost statement is, and no conflict is made of it", () => {
  const hit = { exposed: true, canceled: true };
  const { course, log } = executing();
  expect(course.executed(over(error("26000"), NOT_BOUND, hit), undefined)).toEqual({ do: "wait" });
  expect(log).toEqual([]);
  const seen = executing();
  const failure = error("57014");
  expect(seen.course.executed(over(failure, BOUND, { ...hit, committed: true }), undefined)).toEqual({
    do: "fail",
    error: failure,
  });
});

test.each([
  ["in front of Bind what was known is forgotten, and described", "42P01", NOT_BOUND, true],
  ["so is a name that the server has lost", "26000", NOT_BOUND, true],
  ["behind Bind nothing is", "42P01", BOUND, false],
  ["nor where something in front of it failed", "42P01", { bound: false, before: "prelude" } as Reached, false],
  ["nor for an error that says nothing of what was known", "57014", NOT_BOUND, false],
])("%s", (_, code, reached, isForgotten) => {
  const { course, log, shape } = executing();
  const failure = error(code);
  const operation = over(failure, reached);
  const step = course.executed(operation, undefined);
  expect(step).toEqual(isForgotten ? { do: "begin again", failed: operation } : { do: "fail", error: failure });
  expect(log).toEqual(isForgotten ? [["forget", shape.id]] : []);
});

test("inside of a transaction it fails, and the next call learns it anew", () => {
  const knows = newShape();
  const { course, log, transaction } = newCourse({ knows });
  Object.assign(transaction, { place: "inside", status: "T", isNone: false });
  course.begin();
  const failure = error("42P01");
  expect(course.executed(over(failure, NOT_BOUND), undefined)).toEqual({ do: "fail", error: failure });
  expect(log).toEqual([
    ["forget", knows.id],
    ["forgetShape", "select n"],
  ]);
});

test("what the server has just described is not out of date, but its name may be lost", () => {
  for (const [code, isLost] of [
    ["42P01", false],
    ["26000", true],
  ] as const) {
    const { course } = newCourse();
    course.begin();
    course.described(newShape());
    expect(course.executed(over(error(code), NOT_BOUND), undefined).do).toBe(isLost ? "begin again" : "fail");
  }
});

test.each([
  ["an error that is no name's, of one that had not run here: it is the statement's own", "42P01", false, true],
  ["the same of one that had: its name may have been another statement's", "42P01", true, false],
  ["a lost name", "26000", false, false],
])("where it is described as before, %s", (_, code, hasRun, isItsOwn) => {
  const { course, shape } = executing({ hasRun });
  const failure = error(code);
  course.executed(over(failure, NOT_BOUND), undefined);
  expect(course.begin()).toEqual({ do: "describe" });
  if (isItsOwn) expect(() => course.described(shape)).toThrow(failure);
  else expect(course.described(shape)).toMatchObject({ do: "execute", shape });
  expect(course.described(newShape())).toMatchObject({ do: "execute" });
});

// -- what became of a first run --------------------------------------------------------------------------------------

const told = (operation: Operation, mayBeDescribed = false, shape?: Shape) => ({ operation, mayBeDescribed, shape });

test("a first run ends with the operation that had the rows, or fails with its error", () => {
  const { course, call } = runningFirst();
  const first = over();
  const released = over();
  expect(course.ranFirst(told(first), released, undefined)).toEqual({ do: "end", operation: released });
  expect(course.ranFirst(told(first), undefined, undefined)).toEqual({ do: "leave" });
  const failure = error("XX000");
  expect(course.ranFirst(told(first), over(failure), undefined)).toEqual({ do: "fail", error: failure });
  call.finished = true;
  expect(course.ranFirst(told(first), released, undefined)).toEqual({ do: "leave" });
  expect(course.ranFirst(told(over(failure, BOUND)), undefined, undefined)).toEqual({ do: "leave" });
});

test("one that may not be described has failed, and says nothing of first runs", () => {
  const { course, log } = runningFirst();
  log.length = 0;
  const failure = error("22012");
  expect(course.ranFirst(told(over(failure, BOUND)), undefined, undefined)).toEqual({ do: "fail", error: failure });
  expect(log).toEqual([]);
});

test("a cancel for another call makes it run again, whatever it met", () => {
  const { course, log } = runningFirst();
  log.length = 0;
  const hit = over(error("57014"), CHECK, { exposed: true, canceled: true });
  expect(course.ranFirst(told(hit, true), undefined, undefined)).toEqual({ do: "wait" });
  expect(log).toEqual([]);
  expect(course.begin()).toEqual({ do: "run first", run: RUN });
});

test("types that its check misses are asked for in front of a second one, once", () => {
  const { course, log } = runningFirst();
  const failed = over(error("22P02", MISSES), CHECK);
  expect(course.ranFirst(told(failed, true), undefined, undefined)).toEqual({
    do: "ask for types",
    failed,
    oids: [20_001],
  });
  log.length = 0;
  expect(course.withTypes([20_001], failed)).toEqual({ do: "run first", run: RUN, asked: [20_001] });
  expect(log).toEqual([["firstRun", [20_001]]]);
  const again = over(error("22P02", MISSES), CHECK);
  expect(course.ranFirst(told(again, true), undefined, [20_001])).toEqual({ do: "begin again", failed: again });
  expect(log.at(-1)).toEqual(["failedInFront", "check", "22P02"]);
  expect(course.begin()).toEqual({ do: "describe" });
});

test("a statement of the user's whose error reads so is no check that missed types", () => {
  const { course } = runningFirst();
  const failed = over(error("22P02", MISSES), NOT_BOUND);
  expect(course.ranFirst(told(failed, true), undefined, undefined)).toEqual({ do: "begin again", failed });
});

test("where no first run is possible any more it is described behind the question", () => {
  const world = newCourse();
  const failed = over(error("22P02", MISSES), CHECK);
  expect(world.course.withTypes([20_001], failed)).toEqual({ do: "begin again", failed });
});

test("what a first run has learned is how it leaves next, and the server is not asked", () => {
  const { course } = runningFirst();
  const shape = newShape();
  const failed = over(error("08P01"), NOT_BOUND);
  expect(course.ranFirst(told(failed, true, shape), undefined, undefined)).toEqual({ do: "begin again", failed });
  expect(course.begin()).toMatchObject({ do: "execute", shape });
});

// -- again -----------------------------------------------------------------------------------------------------------

test("pauses are numbered, as many as the option says, and what was known is looked up again behind each", () => {
  const { course, statements } = executing({ config: { retryOnSerialization: 3 } });
  const conflict = error("40001");
  for (const attempt of [1, 2]) {
    expect(course.executed(over(conflict, BOUND), undefined)).toEqual({ do: "pause", attempt, error: conflict });
    statements.shape = newShape();
    expect(course.begin()).toMatchObject({ do: "execute", shape: statements.shape });
  }
  expect(course.executed(over(conflict, BOUND), undefined)).toEqual({ do: "fail", error: conflict });
});

test("without the option a conflict is the error", () => {
  const { course } = executing();
  const conflict = error("40001");
  expect(course.executed(over(conflict, BOUND), undefined)).toEqual({ do: "fail", error: conflict });
});

test("behind a pause what a first run has learned counts no more, nor that it was described as before", () => {
  const world = newCourse({ firstRun: RUN, hasRun: false, config: { retryOnSerialization: 3 } });
  const { course } = world;
  course.begin();
  const learned = newShape();
  course.ranFirst(told(over(error("22P02"), NOT_BOUND), true, learned), undefined, undefined);
  expect(course.begin()).toMatchObject({ do: "execute", shape: learned });
  expect(course.executed(over(error("40001"), BOUND), undefined).do).toBe("pause");
  expect(course.begin()).toEqual({ do: "run first", run: RUN });
  // Described for another reason: what it had learned is not what is known now.
  const failed = over(error("22P02"), CHECK);
  expect(course.ranFirst(told(failed, true), undefined, undefined).do).toBe("begin again");
  expect(course.begin()).toEqual({ do: "describe" });

  const outdated = executing({ hasRun: false, config: { retryOnSerialization: 2 } });
  outdated.course.executed(over(error("42P01"), NOT_BOUND), undefined);
  outdated.course.begin();
  outdated.course.described(newShape());
  expect(outdated.course.executed(over(error("40001"), BOUND), undefined).do).toBe("pause");
  outdated.statements.shape = outdated.shape;
  expect(outdated.course.begin()).toMatchObject({ do: "execute", shape: outdated.shape });
});

test.each([
  ["select n", BOUND, true],
  ["call p()", BOUND, false],
  ["do 'begin end'", BOUND, false],
  ["call p()", NOT_BOUND, true],
  ["call p()", { bound: true, before: "close" } as Reached, true],
])("%s that a cancel for another call has hit at %j runs again: %s", (text, reached, isAgain) => {
  const { course } = executing({ text });
  const hit = over(error("57014"), reached, { exposed: true, canceled: true });
  expect(course.executed(hit, undefined).do).toBe(isAgain ? "wait" : "fail");
});

test("one that has begun a transaction itself, or is in one, does not run again for a conflict or a cancel", () => {
  for (const isBegun of [true, false]) {
    const { course, transaction } = newCourse({ knows: newShape(), config: { retryOnSerialization: 3 } });
    if (!isBegun) transaction.place = "begins";
    course.begin();
    transaction.isNone = !isBegun;
    expect(course.executed(over(error("40001"), BOUND), undefined).do).toBe("fail");
    const hit = over(error("57014"), NOT_BOUND, { exposed: true, canceled: true });
    expect(course.executed(hit, undefined).do).toBe("fail");
  }
});
