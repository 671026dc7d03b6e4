// A statement's course (js/statement/course.ts), one decision at a time: what it asks of its session, what it keeps of
// an attempt for the next one, and what becomes of what was known. course-walk.test.ts goes all its ways.
import { expect, test } from "vitest";
import type { Reached } from "../../js/connection/operation.ts";
import { connectionLost } from "../../js/sockets/contract.ts";
import { fromFailure } from "../../js/util/errors.ts";
import { limitsOf } from "../../js/wasm/boundary.ts";
import {
  BOUND,
  CHECK,
  error,
  executing,
  MISSES,
  newCourse,
  newShape,
  NOT_BOUND,
  over,
  RUN,
  runningFirst,
  TEXT_ONLY,
  told,
  type Given,
} from "../support/noted-course.ts";

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

test("a name that is lost twice is the error, and what the server has just said of it is not forgotten", () => {
  const { course, log, shape } = executing();
  course.executed(over(error("26000"), NOT_BOUND), undefined);
  course.begin();
  course.described(newShape());
  const failure = error("26000");
  expect(course.executed(over(failure, NOT_BOUND), undefined)).toEqual({ do: "fail", error: failure });
  expect(log).toEqual([["forget", shape.id]]);
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
