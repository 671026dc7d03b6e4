// A statement's course (js/statement/course.ts), one decision at a time: what it asks of its session, what it keeps of
// an attempt for the next one, and what happens to cached descriptions. course-walk.test.ts tests all ways through it.
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

// -- the beginning ---------------------------------------------------------------------------------------------------

test("too many values are refused before the catalog is asked for names", () => {
  const { course } = newCourse({ values: Array<number>(65_536).fill(1), form: { policy: { parsers: {} } } });
  expect(() => course.begin()).toThrow(expect.objectContaining({ code: "TOO_MANY_PARAMETERS" }));
});

test("names are looked up once, and only if the form has parsers", () => {
  const { course } = newCourse({ knows: newShape(), form: { policy: { parsers: {} } } });
  expect(course.begin()).toEqual({ do: "learn names" });
  expect(course.named()).toMatchObject({ do: "execute" });
  expect(course.begin()).toMatchObject({ do: "execute" });
  expect(newCourse({ form: { policy: {} } }).course.begin()).toEqual({ do: "describe" });
});

test.each([
  ["if the option says so, outside of a transaction", {}, "I", "run first"],
  ["not in a transaction", {}, "T", "describe"],
  ["not if the option says so", { config: { firstRun: "describe" } }, "I", "describe"],
  ["not for a cursor", { form: { limits: limitsOf({ fetch: 2 }) } }, "I", "describe"],
  ["not if fields have a cap", { form: { limits: limitsOf({ fieldBytes: 2 }) } }, "I", "describe"],
  ["with other caps", { form: { limits: limitsOf({ rows: 2, bytes: 3 }) } }, "I", "run first"],
])("a statement runs before it is described %s", (_, given: Given, status, step) => {
  const { course, transaction, log } = newCourse({ firstRun: RUN, ...given });
  transaction.status = status;
  expect(course.begin().do).toBe(step);
  expect(log).toEqual(step === "describe" ? [] : [["firstRun", undefined]]);
});

test("a statement that may not run first is described, and is sent with that description", () => {
  const { course } = newCourse();
  expect(course.begin()).toEqual({ do: "describe" });
  const shape = newShape();
  expect(course.described(shape)).toMatchObject({ do: "execute", shape });
});

// -- values ----------------------------------------------------------------------------------------------------------

test("a value that does not fit the cached shape is encoded by a new description, in a transaction too", () => {
  const { course, transaction } = newCourse({ knows: newShape(23), values: ["x"] });
  Object.assign(transaction, { place: "inside", status: "T", isNone: false });
  expect(course.begin()).toEqual({ do: "begin again", failed: undefined });
  expect(course.begin()).toEqual({ do: "describe" });
  const shape = newShape(25);
  expect(course.described(shape)).toMatchObject({ do: "execute", shape });
});

test("a value that does not fit the new description either is the error", () => {
  const { course } = newCourse({ knows: newShape(23), values: ["x"] });
  course.begin();
  course.begin();
  expect(() => course.described(newShape(23))).toThrow(expect.objectContaining({ code: "INVALID_PARAMETER" }));
});

test("if the server describes the statement as before, the value is at fault, even if the statement has run", () => {
  const knows = newShape(23);
  const { course } = newCourse({ knows, values: ["x"], hasRun: true });
  course.begin();
  course.begin();
  expect(() => course.described(knows)).toThrow(expect.objectContaining({ code: "INVALID_PARAMETER" }));
});

test("a value whose own code ends the call prevents the statement from being sent", () => {
  const world = newCourse({
    knows: newShape(114),
    values: [{ toJSON: () => ((world.call.finished = true), 1) }],
  });
  expect(world.course.begin()).toEqual({ do: "leave" });
});

// -- outcomes --------------------------------------------------------------------------------------------------------

test("a complete result ends the statement, and one that a limit cut off does so despite a lost connection", () => {
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

test("changed columns are dropped from the cache, even if the call is over", () => {
  const { course, call, log } = executing();
  call.finished = true;
  const changed = fromFailure({ code: "SHAPE_CHANGED", message: "no" });
  expect(course.executed(over(changed, BOUND), undefined)).toEqual({ do: "leave" });
  expect(log).toEqual([["forgetShape", "select n"]]);
  const other = executing();
  other.course.executed(over(error("22012"), BOUND), undefined);
  expect(other.log).toEqual([]);
});

test("a missing binary form is remembered even if the call is over, without another run", () => {
  const { course, call, statements } = executing();
  call.finished = true;
  expect(course.executed(over(error("42883", TEXT_ONLY), BOUND), undefined)).toEqual({ do: "leave" });
  expect(statements.isText).toBe(true);
});

test("if the missing binary form was known already, the error is the statement's own", () => {
  const { course, statements } = executing();
  statements.isText = true;
  const failure = error("42883", TEXT_ONLY);
  expect(course.executed(over(failure, BOUND), undefined)).toEqual({ do: "fail", error: failure });
});

test("a cancel for another call takes precedence over a lost statement, and is not a conflict", () => {
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
  ["before Bind an outdated description is dropped and requested again", "42P01", NOT_BOUND, true],
  ["before Bind a name that the server has lost is dropped and described again", "26000", NOT_BOUND, true],
  ["after Bind no description is dropped", "42P01", BOUND, false],
  [
    "no description is dropped if something before the statement failed",
    "42P01",
    { bound: false, before: "prelude" } as Reached,
    false,
  ],
  ["no description is dropped for an error that is not about it", "57014", NOT_BOUND, false],
])("%s", (_, code, reached, isForgotten) => {
  const { course, log, shape } = executing();
  const failure = error(code);
  const operation = over(failure, reached);
  const step = course.executed(operation, undefined);
  expect(step).toEqual(isForgotten ? { do: "begin again", failed: operation } : { do: "fail", error: failure });
  expect(log).toEqual(isForgotten ? [["forget", shape.id]] : []);
});

test("inside a transaction an outdated statement fails, and the next call describes it again", () => {
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

test("a description that the server has just given is not outdated, but its name may be lost", () => {
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

test("a name that is lost twice is the error, and the server's latest description is kept", () => {
  const { course, log, shape } = executing();
  course.executed(over(error("26000"), NOT_BOUND), undefined);
  course.begin();
  course.described(newShape());
  const failure = error("26000");
  expect(course.executed(over(failure, NOT_BOUND), undefined)).toEqual({ do: "fail", error: failure });
  expect(log).toEqual([["forget", shape.id]]);
});

test.each([
  ["an error about no name is the statement's own if the statement had not run here", "42P01", false, true],
  ["the statement runs again if it had run here, since its name may have been another's", "42P01", true, false],
  ["the statement runs again if its name was lost", "26000", false, false],
])("if the new description equals the old one, %s", (_, code, hasRun, isItsOwn) => {
  const { course, shape } = executing({ hasRun });
  const failure = error(code);
  course.executed(over(failure, NOT_BOUND), undefined);
  expect(course.begin()).toEqual({ do: "describe" });
  if (isItsOwn) expect(() => course.described(shape)).toThrow(failure);
  else expect(course.described(shape)).toMatchObject({ do: "execute", shape });
  expect(course.described(newShape())).toMatchObject({ do: "execute" });
});

// -- outcomes of a first run -----------------------------------------------------------------------------------------

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

test("a first run that may not be described has failed, which does not count against first runs", () => {
  const { course, log } = runningFirst();
  log.length = 0;
  const failure = error("22012");
  expect(course.ranFirst(told(over(failure, BOUND)), undefined, undefined)).toEqual({ do: "fail", error: failure });
  expect(log).toEqual([]);
});

test("a cancel for another call makes a first run run again, whatever failed in it", () => {
  const { course, log } = runningFirst();
  log.length = 0;
  const hit = over(error("57014"), CHECK, { exposed: true, canceled: true });
  expect(course.ranFirst(told(hit, true), undefined, undefined)).toEqual({ do: "wait" });
  expect(log).toEqual([]);
  expect(course.begin()).toEqual({ do: "run first", run: RUN });
});

test("types that the check misses are looked up before a second first run, once", () => {
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

test("a user's statement with the same error text is not a check that misses types", () => {
  const { course } = runningFirst();
  const failed = over(error("22P02", MISSES), NOT_BOUND);
  expect(course.ranFirst(told(failed, true), undefined, undefined)).toEqual({ do: "begin again", failed });
});

test("if no first run is possible any more, the statement is described after the type look-up", () => {
  const world = newCourse();
  const failed = over(error("22P02", MISSES), CHECK);
  expect(world.course.withTypes([20_001], failed)).toEqual({ do: "begin again", failed });
});

test("the next attempt uses what a first run has learned, without asking the server", () => {
  const { course } = runningFirst();
  const shape = newShape();
  const failed = over(error("08P01"), NOT_BOUND);
  expect(course.ranFirst(told(failed, true, shape), undefined, undefined)).toEqual({ do: "begin again", failed });
  expect(course.begin()).toMatchObject({ do: "execute", shape });
});
