// A statement that is sent again (js/statement/execution-state.ts): how often after a conflict, what an attempt leaves
// for the next one, and which effects forbid a repeat.
import { expect, test } from "vitest";
import {
  BOUND,
  CHECK,
  error,
  executing,
  LEARNED,
  newState,
  newShape,
  NOT_BOUND,
  over,
  RUN,
  runningFirst,
  TEXT_ONLY,
  told,
} from "../support/noted-execution-state.ts";

test("pauses are numbered and limited by the option, and the cached shape is read again after each", () => {
  const { state, statements } = executing({ config: { retryOnSerialization: 3 } });
  const conflict = error("40001");
  for (const attempt of [1, 2]) {
    expect(state.executed(over(conflict, BOUND))).toEqual({ do: "pause", attempt, error: conflict });
    statements.shape = newShape();
    expect(state.begin()).toMatchObject({ do: "execute", shape: statements.shape });
  }
  expect(state.executed(over(conflict, BOUND))).toEqual({ do: "fail", error: conflict });
});

test("without the option a conflict is the error", () => {
  const { state } = executing();
  const conflict = error("40001");
  expect(state.executed(over(conflict, BOUND))).toEqual({ do: "fail", error: conflict });
});

test("after a pause, the results of the first run and of the last Describe are no longer used", () => {
  const world = newState({ firstRun: RUN, hasRun: false, config: { retryOnSerialization: 3 } });
  const { state } = world;
  state.begin();
  state.ranFirst(told(over(error("22P02"), NOT_BOUND), true, LEARNED));
  expect(state.begin()).toEqual({ do: "describe", learned: LEARNED });
  state.described(newShape());
  expect(state.executed(over(error("40001"), BOUND)).do).toBe("pause");
  expect(state.begin()).toEqual({ do: "run first", run: RUN });
  // Described for another reason: what the first run learned is not the cached shape now.
  const failed = over(error("22P02"), CHECK);
  expect(state.ranFirst(told(failed, true)).do).toBe("begin again");
  expect(state.begin()).toEqual({ do: "describe" });

  const outdated = executing({ hasRun: false, config: { retryOnSerialization: 2 } });
  outdated.state.executed(over(error("42P01"), NOT_BOUND));
  outdated.state.begin();
  outdated.state.described(newShape());
  expect(outdated.state.executed(over(error("40001"), BOUND)).do).toBe("pause");
  outdated.statements.shape = outdated.shape;
  expect(outdated.state.begin()).toMatchObject({ do: "execute", shape: outdated.shape });
});

test.each([
  ["select n", BOUND, true],
  ["call p()", BOUND, false],
  ["do 'begin end'", BOUND, false],
  ["call p()", NOT_BOUND, true],
  ["call p()", CHECK, true],
])("%s that a cancel for another call has hit at %j runs again: %s", (text, reached, isAgain) => {
  const { state } = executing({ text });
  const hit = over(error("57014"), reached, { mayBeHit: true, canceled: true });
  expect(state.executed(hit).do).toBe(isAgain ? "wait" : "fail");
});

test("a statement that began a transaction, or is in one, does not run again after a conflict or a cancel", () => {
  for (const isBegun of [true, false]) {
    const { state, transaction } = newState({ knows: newShape(), config: { retryOnSerialization: 3 } });
    if (!isBegun) transaction.place = "begins";
    state.begin();
    transaction.isNone = !isBegun;
    expect(state.executed(over(error("40001"), BOUND)).do).toBe("fail");
    const hit = over(error("57014"), NOT_BOUND, { mayBeHit: true, canceled: true });
    expect(state.executed(hit).do).toBe("fail");
  }
});

test("each cancel for another call leads to another run, unless rows were seen", () => {
  const hit = { mayBeHit: true, canceled: true };
  const { state } = executing();
  for (const _ of "123") {
    expect(state.executed(over(error("57014"), BOUND, hit))).toEqual({ do: "wait" });
    expect(state.begin().do).toBe("execute");
  }
  const first = runningFirst();
  const failure = error("57014");
  const seen = over(failure, BOUND, { ...hit, committed: true });
  expect(first.state.ranFirst(told(seen))).toEqual({ do: "fail", error: failure });
});

test("a missing binary form that is found before Bind makes the transaction begin again after a Describe", () => {
  const { state, transaction } = newState({ knows: newShape() });
  Object.assign(transaction, { place: "begins", isNone: false });
  state.begin();
  const operation = over(error("42883", TEXT_ONLY), NOT_BOUND);
  expect(state.executed(operation)).toEqual({ do: "begin again", failed: operation });
});
