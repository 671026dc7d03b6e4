// A statement's next steps (js/statement/execution-state.ts), one decision at a time: what the state asks of its
// session, what it keeps of an attempt for the next one, and what happens to cached descriptions.
// execution-state-walk.test.ts tests all ways through it.
import { expect, test } from "vitest";
import type { Reached } from "../../js/connection/operation.ts";
import { connectionLost } from "../../js/runtime/contract.ts";
import { PostgresError } from "../../js/util/errors.ts";
import { limitsOf } from "../../js/wasm/boundary.ts";
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
  type Given,
} from "../support/noted-execution-state.ts";

// -- the beginning ---------------------------------------------------------------------------------------------------

test("too many values are refused before the catalog is asked for names", () => {
  const { state } = newState({ values: Array<number>(65_536).fill(1), form: { policy: { parsers: {} } } });
  expect(() => state.begin()).toThrow(expect.objectContaining({ code: "TOO_MANY_PARAMETERS" }));
});

test("names are looked up once, and only if the form has parsers", () => {
  const { state } = newState({ knows: newShape(), form: { policy: { parsers: {} } } });
  expect(state.begin()).toEqual({ do: "learn names" });
  expect(state.named()).toMatchObject({ do: "execute" });
  expect(state.begin()).toMatchObject({ do: "execute" });
  expect(newState({ form: { policy: {} } }).state.begin()).toEqual({ do: "describe" });
});

test.each([
  ["if the option says so, outside of a transaction", {}, "I", "run first"],
  ["not in a transaction", {}, "T", "describe"],
  ["not if the option says so", { config: { firstRun: "describe" } }, "I", "describe"],
  ["not for a cursor", { form: { limits: limitsOf({ fetch: 2 }) } }, "I", "describe"],
  ["not if fields have a cap", { form: { limits: limitsOf({ fieldBytes: 2 }) } }, "I", "describe"],
  ["with other caps", { form: { limits: limitsOf({ rows: 2, bytes: 3 }) } }, "I", "run first"],
])("a statement runs before it is described %s", (_, given: Given, status, step) => {
  const { state, transaction } = newState({ firstRun: RUN, ...given });
  transaction.status = status;
  expect(state.begin().do).toBe(step);
});

test("a statement that may not run first is described, and is sent with that description", () => {
  const { state } = newState();
  expect(state.begin()).toEqual({ do: "describe" });
  const shape = newShape();
  expect(state.described(shape)).toMatchObject({ do: "execute", shape });
});

// -- values ----------------------------------------------------------------------------------------------------------

test("a value that does not fit the cached shape is encoded by a new description, in a transaction too", () => {
  const { state, transaction } = newState({ knows: newShape(23), values: ["x"] });
  Object.assign(transaction, { place: "inside", status: "T", isNone: false });
  expect(state.begin()).toEqual({ do: "begin again", failed: undefined });
  expect(state.begin()).toEqual({ do: "describe" });
  const shape = newShape(25);
  expect(state.described(shape)).toMatchObject({ do: "execute", shape });
});

test("a value that does not fit the new description either is the error", () => {
  const { state } = newState({ knows: newShape(23), values: ["x"] });
  state.begin();
  state.begin();
  expect(() => state.described(newShape(23))).toThrow(expect.objectContaining({ code: "INVALID_PARAMETER" }));
});

test("if the server describes the statement as before, the value is at fault, even if the statement has run", () => {
  const knows = newShape(23);
  const { state } = newState({ knows, values: ["x"], hasRun: true });
  state.begin();
  state.begin();
  expect(() => state.described(knows)).toThrow(expect.objectContaining({ code: "INVALID_PARAMETER" }));
});

test("a value whose own code ends the call prevents the statement from being sent", () => {
  const world = newState({
    knows: newShape(114),
    values: [{ toJSON: () => ((world.call.finished = true), 1) }],
  });
  expect(world.state.begin()).toEqual({ do: "leave" });
});

// -- outcomes --------------------------------------------------------------------------------------------------------

test("a complete result ends the statement, and one that a limit cut off does so despite a lost connection", () => {
  const { state, call } = executing();
  const whole = over();
  expect(state.executed(whole)).toEqual({ do: "end", operation: whole });
  const lost = connectionLost("gone");
  const gone = over();
  gone.end(lost);
  expect(state.executed(gone)).toEqual({ do: "fail", error: lost });
  const cut = over();
  cut.cut({ limit: "maxRows" } as never);
  cut.end(lost);
  expect(state.executed(cut)).toEqual({ do: "end", operation: cut });
  call.finished = true;
  expect(state.executed(whole)).toEqual({ do: "leave" });
});

test("a missing binary form is remembered even if the call is over, without another run", () => {
  const { state, call, statements } = executing();
  call.finished = true;
  expect(state.executed(over(error("42883", TEXT_ONLY), BOUND))).toEqual({ do: "leave" });
  expect(statements.isText).toBe(true);
});

test("if the missing binary form was known already, the error is the statement's own", () => {
  const { state, statements } = executing();
  statements.isText = true;
  const failure = error("42883", TEXT_ONLY);
  expect(state.executed(over(failure, BOUND))).toEqual({ do: "fail", error: failure });
});

test("a cancel for another call takes precedence over a lost statement, and is not a conflict", () => {
  const hit = { mayBeHit: true, canceled: true };
  const { state, log } = executing();
  expect(state.executed(over(error("26000"), NOT_BOUND, hit))).toEqual({ do: "wait" });
  expect(log).toEqual([]);
  const seen = executing();
  const failure = error("57014");
  expect(seen.state.executed(over(failure, BOUND, { ...hit, committed: true }))).toEqual({
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
    { hasBound: false, failedPart: "prelude" } as Reached,
    false,
  ],
  ["no description is dropped for an error that is not about it", "57014", NOT_BOUND, false],
])("%s", (_, code, reached, isForgotten) => {
  const { state, log, shape } = executing();
  const failure = error(code);
  const operation = over(failure, reached);
  const step = state.executed(operation);
  expect(step).toEqual(isForgotten ? { do: "begin again", failed: operation } : { do: "fail", error: failure });
  expect(log).toEqual(isForgotten ? [["forget", shape.id]] : []);
});

test("inside a transaction an outdated statement fails, and the next call describes it again", () => {
  const knows = newShape();
  const { state, log, transaction } = newState({ knows });
  Object.assign(transaction, { place: "inside", status: "T", isNone: false });
  state.begin();
  const failure = error("42P01");
  expect(state.executed(over(failure, NOT_BOUND))).toEqual({ do: "fail", error: failure });
  expect(log).toEqual([
    ["forget", knows.id],
    ["forgetShape", "select n"],
  ]);
});

test("inside a transaction only an error that shows that the statement has not run becomes retryable", () => {
  for (const [code, routine, isRetryable] of [
    ["0A000", "RevalidateCachedQuery", true],
    ["08P01", "PortalSetResultFormat", true],
    ["26000", "FetchPreparedStatement", true],
    ["0A000", "ExecuteQuery", false],
    ["42P01", "parserOpenTable", false],
  ] as const) {
    const { state, transaction } = newState({ knows: newShape() });
    Object.assign(transaction, { place: "inside", status: "T", isNone: false });
    state.begin();
    const failure = new PostgresError({ code, routine });
    expect(state.executed(over(failure, NOT_BOUND))).toEqual({ do: "fail", error: failure });
    expect(failure.retryable, code).toBe(isRetryable);
  }
});

test("a description that the server has just given is not outdated, but its name may be lost", () => {
  for (const [code, isLost] of [
    ["42P01", false],
    ["26000", true],
  ] as const) {
    const { state } = newState();
    state.begin();
    state.described(newShape());
    expect(state.executed(over(error(code), NOT_BOUND)).do).toBe(isLost ? "begin again" : "fail");
  }
});

test("a name that is lost twice is the error, and the server's latest description is kept", () => {
  const { state, log, shape } = executing();
  state.executed(over(error("26000"), NOT_BOUND));
  state.begin();
  state.described(newShape());
  const failure = error("26000");
  expect(state.executed(over(failure, NOT_BOUND))).toEqual({ do: "fail", error: failure });
  expect(log).toEqual([["forget", shape.id]]);
});

test.each([
  ["an error about no name is the statement's own if the statement had not run here", "42P01", false, true],
  ["the statement runs again if it had run here, since its name may have been another's", "42P01", true, false],
  ["the statement runs again if its name was lost", "26000", false, false],
])("if the new description equals the old one, %s", (_, code, hasRun, isItsOwn) => {
  const { state, shape } = executing({ hasRun });
  const failure = error(code);
  state.executed(over(failure, NOT_BOUND));
  expect(state.begin()).toEqual({ do: "describe" });
  if (isItsOwn) expect(() => state.described(shape)).toThrow(failure);
  else expect(state.described(shape)).toMatchObject({ do: "execute", shape });
  expect(state.described(newShape())).toMatchObject({ do: "execute" });
});

// -- outcomes of a first run -----------------------------------------------------------------------------------------

test("a first run ends with its operation", () => {
  const { state, call } = runningFirst();
  const first = over();
  expect(state.ranFirst(told(first))).toEqual({ do: "end", operation: first });
  call.finished = true;
  expect(state.ranFirst(told(first))).toEqual({ do: "leave" });
  expect(state.ranFirst(told(over(error("XX000"), BOUND)))).toEqual({ do: "leave" });
});

test("a first run that may not be described has failed, which does not count against first runs", () => {
  const { state, log } = runningFirst();
  log.length = 0;
  const failure = error("22012");
  expect(state.ranFirst(told(over(failure, BOUND)))).toEqual({ do: "fail", error: failure });
  expect(log).toEqual([]);
});

test("a cancel for another call makes a first run run again, whatever failed in it", () => {
  const { state, log } = runningFirst();
  log.length = 0;
  const hit = over(error("57014"), CHECK, { mayBeHit: true, canceled: true });
  expect(state.ranFirst(told(hit, true))).toEqual({ do: "wait" });
  expect(log).toEqual([]);
  expect(state.begin()).toEqual({ do: "run first", run: RUN });
});

test("after a failed check the statement runs with what the first run has described", () => {
  const { state, log } = runningFirst();
  const failed = over(error("22P02"), CHECK);
  expect(state.ranFirst(told(failed, true, LEARNED))).toEqual({ do: "begin again", failed });
  expect(log).toEqual([["noteFailedCheck", "22P02"]]);
  expect(state.begin()).toEqual({ do: "describe", learned: LEARNED });
});

test("a failure of the statement itself says nothing of the check", () => {
  const { state, log } = runningFirst();
  const failed = over(error("22P02"), NOT_BOUND);
  expect(state.ranFirst(told(failed, true))).toEqual({ do: "begin again", failed });
  expect(log).toEqual([]);
  expect(state.begin()).toEqual({ do: "describe" });
});
