// A statement that is sent again (js/statement/course.ts): how often after a conflict, what an attempt leaves for the
// next one, and which effects forbid a repeat.
import { expect, test } from "vitest";
import type { Reached } from "../../js/connection/operation.ts";
import {
  BOUND,
  CHECK,
  error,
  executing,
  newCourse,
  newShape,
  NOT_BOUND,
  over,
  RUN,
  runningFirst,
  TEXT_ONLY,
  told,
} from "../support/noted-course.ts";

test("pauses are numbered and limited by the option, and the cached shape is read again after each", () => {
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

test("after a pause, the results of the first run and of the last Describe are no longer used", () => {
  const world = newCourse({ firstRun: RUN, hasRun: false, config: { retryOnSerialization: 3 } });
  const { course } = world;
  course.begin();
  const learned = newShape();
  course.ranFirst(told(over(error("22P02"), NOT_BOUND), true, learned), undefined, undefined);
  expect(course.begin()).toMatchObject({ do: "execute", shape: learned });
  expect(course.executed(over(error("40001"), BOUND), undefined).do).toBe("pause");
  expect(course.begin()).toEqual({ do: "run first", run: RUN });
  // Described for another reason: what the first run learned is not the cached shape now.
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

test("a statement that began a transaction, or is in one, does not run again after a conflict or a cancel", () => {
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

test("each cancel for another call leads to another run, unless rows were seen", () => {
  const hit = { exposed: true, canceled: true };
  const { course } = executing();
  for (const _ of "123") {
    expect(course.executed(over(error("57014"), BOUND, hit), undefined)).toEqual({ do: "wait" });
    expect(course.begin().do).toBe("execute");
  }
  const first = runningFirst();
  const failure = error("57014");
  const seen = over(failure, BOUND, { ...hit, committed: true });
  expect(first.course.ranFirst(told(seen), undefined, undefined)).toEqual({ do: "fail", error: failure });
});

test("a missing binary form that is found before Bind makes the transaction begin again after a Describe", () => {
  const { course, transaction } = newCourse({ knows: newShape() });
  Object.assign(transaction, { place: "begins", isNone: false });
  course.begin();
  const operation = over(error("42883", TEXT_ONLY), NOT_BOUND);
  expect(course.executed(operation, undefined)).toEqual({ do: "begin again", failed: operation });
});

test("a value that does not fit what a first run has learned is the error", () => {
  const { course } = runningFirst({ values: ["x"] });
  const failed = over(error("22P02"), NOT_BOUND);
  expect(course.ranFirst(told(failed, true, newShape(23)), undefined, undefined).do).toBe("begin again");
  expect(course.begin()).toMatchObject({ do: "fail", error: { code: "INVALID_PARAMETER" } });
});
