// A statement's next steps (js/statement/execution-state.ts) in every state that it can reach: each outcome of an
// attempt, in each place, with and without a cached description. The rules are stated here independently of how the
// code decides.
import { expect, test } from "vitest";
import { Operation, type Reached } from "../../js/connection/operation.ts";
import type { AnyCall } from "../../js/session/call.ts";
import type { Session } from "../../js/session/session.ts";
import type { Shape } from "../../js/server/shapes.ts";
import { ExecutionState, type ExecutionForm, type Step } from "../../js/statement/execution-state.ts";
import { connectionLost } from "../../js/runtime/contract.ts";
import { fromErrorResponse } from "../../js/util/errors.ts";
import { NO_LIMITS } from "../../js/wasm/boundary.ts";

type Place = "alone" | "begins" | "inside";

/** What a session knows about the statement at the start. */
interface Beginning {
  readonly place: Place;
  readonly text: string;
  readonly knows: "its shape" | "nothing" | "nothing, and describes first";
  readonly hasNames: boolean;
}

/** A possible outcome of an attempt. */
interface End {
  readonly name: string;
  readonly error?: { readonly code: string; readonly routine?: string; readonly message?: string };
  readonly reached?: Reached;
  readonly isSeen?: boolean;
  readonly isHit?: boolean;
  readonly isLost?: boolean;
  /** The server is in a transaction afterwards, which the client did not request. */
  readonly isOpen?: boolean;
}

const CHECK = "check" as const;
const NOT_BOUND = { hasBound: false, failedPart: undefined };
const BOUND = { hasBound: true, failedPart: undefined };
const ends: readonly End[] = [
  { name: "well" },
  { name: "the connection is lost", isLost: true },
  { name: "a conflict", error: { code: "40001" }, reached: BOUND },
  { name: "a conflict when rows were seen", error: { code: "40001" }, reached: BOUND, isSeen: true },
  { name: "a conflict in what it began itself", error: { code: "40001" }, reached: BOUND, isOpen: true },
  { name: "a cancel for another", error: { code: "57014" }, reached: BOUND, isHit: true },
  { name: "a cancel for another before it began", error: { code: "57014" }, reached: NOT_BOUND, isHit: true },
  { name: "a cancel by another session", error: { code: "57014" }, reached: BOUND },
  { name: "no such name", error: { code: "26000" }, reached: NOT_BOUND },
  { name: "no such table", error: { code: "42P01" }, reached: NOT_BOUND },
  { name: "no such table, from a function", error: { code: "42P01" }, reached: BOUND },
  { name: "a value that does not fit", error: { code: "22P02" }, reached: NOT_BOUND },
  { name: "a division by zero when rows were seen", error: { code: "22012" }, reached: BOUND, isSeen: true },
  { name: "a type without binary form", error: { code: "42883", routine: "getTypeBinaryOutputInfo" }, reached: BOUND },
  { name: "a prelude that fails", error: { code: "42501" }, reached: { hasBound: false, failedPart: "prelude" } },
  {
    name: "a check that meets types of the database",
    error: { code: "22P02", message: 'invalid input syntax for type integer: "pgz-edge: columns {20001}"' },
    reached: { hasBound: true, failedPart: CHECK },
  },
  { name: "a check that fails", error: { code: "22P02" }, reached: { hasBound: true, failedPart: CHECK } },
];

const goesOn = (step: Step): boolean => !["end", "fail", "leave"].includes(step.do);

/** A statement's state, and a model of the session under it. */
class World {
  readonly call = { finished: false };
  readonly state: ExecutionState;
  readonly #beginning: Beginning;
  #place: Place;
  #shapes = 0;
  #shape: Shape | undefined;
  #hasRefusedBinary = false;

  constructor(beginning: Beginning) {
    this.#beginning = beginning;
    this.#place = beginning.place;
    if (beginning.knows === "its shape") this.#shape = this.#newShape();
    const form = { limits: NO_LIMITS, policy: beginning.hasNames ? undefined : { parsers: {} } };
    const query = { text: beginning.text, values: [] };
    this.state = new ExecutionState(this.call as AnyCall, this.#session(), query, form as unknown as ExecutionForm);
  }

  #session(): Session {
    const place = () => this.#place;
    return {
      config: { firstRun: "text", retryOnSerialization: 2 },
      statements: {
        known: () => this.#shape,
        hasRun: () => true,
        firstRun: () => (this.#beginning.knows === "nothing" ? { text: this.#beginning.text } : undefined),
        forget: () => {},
        forgetShape: () => (this.#shape = undefined),
        noteFailedCheck: () => {},
        refuseBinary: () => !this.#hasRefusedBinary && (this.#hasRefusedBinary = true),
      },
      transaction: {
        get place() {
          return place();
        },
        placeOf: place,
        get isNone() {
          return place() === "alone";
        },
        get status() {
          return place() === "inside" ? "T" : "I";
        },
      },
    } as unknown as Session;
  }

  #newShape(): Shape {
    const types = new Uint32Array();
    return { id: ++this.#shapes, sql: this.#beginning.text, parameterTypes: types } as unknown as Shape;
  }

  /** What the loop of execute.ts reports to the state after a step, once for each possible outcome. */
  *nexts(step: Step): Generator<{ readonly end: End; readonly next: () => Step }> {
    const { state } = this;
    switch (step.do) {
      case "learn names":
        return yield { end: ends[0]!, next: () => state.named() };
      case "describe":
        return yield { end: ends[0]!, next: () => state.described((this.#shape = this.#newShape())) };
      case "wait":
      case "pause":
        return yield { end: ends[0]!, next: () => state.begin() };
      case "begin again":
        return yield { end: ends[0]!, next: () => this.#again(() => state.begin()) };
      case "execute":
        for (const end of ends) {
          if (end.reached?.failedPart === CHECK) continue; // only first runs have one
          yield { end, next: () => state.executed(this.#operation(end)) };
        }
        return;
      case "run first":
        for (const end of ends) {
          if (end.isLost) continue; // it rejects then, which fails the call
          yield { end, next: () => this.#ranFirst(end) };
        }
    }
  }

  #again(next: () => Step): Step {
    if (this.#beginning.place === "begins") this.#place = "begins";
    return next();
  }

  #ranFirst(end: End): Step {
    const operation = this.#operation(end);
    const { reached } = end;
    const mayBeDescribed =
      reached !== undefined && reached.failedPart !== "prelude" && (!!reached.failedPart || !reached.hasBound);
    return this.state.ranFirst({ operation, learned: undefined, mayBeDescribed });
  }

  #operation({ error, reached, isSeen = false, isHit = false, isOpen = false, isLost = false }: End): Operation {
    const operation = new Operation({});
    operation.committed = isSeen;
    operation.mayBeHit = isHit;
    if (error) {
      const fields = { severity: "ERROR", message: "failed", ...error };
      operation.canceled = error.code === "57014";
      operation.fail(fromErrorResponse(fields), reached);
    }
    if (isLost) operation.end(lost());
    // The BEGIN before the statement succeeded: the transaction is open, and has failed with the statement.
    if (this.#place === "begins" || isOpen) this.#place = "inside";
    return operation;
  }
}

const lost = () => connectionLost("the server closed it");

/** The choices that lead to a step. */
type Way = readonly string[];
interface Stop {
  readonly beginning: Beginning;
  readonly way: Way;
  /** The outcomes of the attempts that have failed so far. */
  readonly ends: readonly End[];
  readonly step: Step;
  /** The statement continues after an attempt that has just failed. */
  readonly isAgain: boolean;
}

/** Maximum number of failed attempts on one way. The state holds one bit or count per cause. */
const MOST_FAILURES = 4;

const beginnings: Beginning[] = [];
for (const place of ["alone", "begins", "inside"] as const)
  for (const text of ["select 1", "call p()"])
    for (const knows of ["its shape", "nothing", "nothing, and describes first"] as const)
      for (const hasNames of [true, false]) beginnings.push({ place, text, knows, hasNames });

/** Yields every way through the steps. Each way starts again from the beginning, because the state changes. */
function* walk(beginning: Beginning, isAbandoned = false, choices: readonly number[] = []): Generator<Stop> {
  const world = new World(beginning);
  let step = world.state.begin();
  const way: string[] = [step.do];
  const met: End[] = [];
  let isFailure = false;
  for (const [at, choice] of choices.entries()) {
    const { end, next } = [...world.nexts(step)][choice]!;
    world.call.finished = isAbandoned && at === choices.length - 1;
    isFailure = end.error !== undefined || end.isLost === true;
    if (isFailure) met.push(end);
    step = decided(next);
    way.push(`${end.name} -> ${step.do}`);
  }
  yield { beginning, way, ends: met, step, isAgain: isFailure && goesOn(step) };
  if (!goesOn(step) || met.length === MOST_FAILURES) return;
  for (const choice of [...world.nexts(step)].keys()) yield* walk(beginning, isAbandoned, [...choices, choice]);
}

function decided(next: () => Step): Step {
  try {
    return next();
  } catch (error) {
    return { do: "fail", error };
  }
}

const stops = beginnings.flatMap((beginning) => [...walk(beginning)]);
const again = stops.filter(({ isAgain }) => isAgain);

test("every step is reached", () => {
  const steps = ["learn names", "describe", "run first", "execute", "begin again", "wait", "pause"];
  // The step "leave" is taken only when the call is over; a test below covers that.
  expect([...new Set(stops.map(({ step }) => step.do))].sort()).toEqual([...steps, "end", "fail"].sort());
  expect(again.length).toBeGreaterThan(500);
});

test("an attempt that may have had an effect, or whose rows were seen, is not sent again", () => {
  const mayHaveRun = ({ reached }: End) => reached?.hasBound === true && reached.failedPart === undefined;
  const wrong = again.filter(({ beginning, ends }) => {
    const last = ends.at(-1)!;
    return last.isSeen || last.isLost || last.isOpen || (beginning.text.startsWith("call") && mayHaveRun(last));
  });
  expect(wrong.map(({ way }) => way)).toEqual([]);
});

test("inside a transaction no attempt is sent again, and one that begins a transaction begins it again", () => {
  const beginsAgain = ({ do: next }: Step) => next === "begin again";
  const wrong = again.filter(
    ({ beginning: { place }, step }) => place === "inside" || (place === "begins" && !beginsAgain(step)),
  );
  expect(wrong.map(({ way }) => way)).toEqual([]);
});

test.each([
  // retryOnSerialization: 2.
  ["a conflict", 1],
  ["a type without binary form", 1],
  ["no such name", 1],
])("%s alone is followed by this many further attempts: %i", (name, most) => {
  const only = again.filter(({ ends }) => ends.every((end) => end.name === name));
  expect(Math.max(...only.map(({ ends }) => ends.length))).toBe(most);
});

test("after a repeat for another cause a statement may be outdated once more, but conflicts count in total", () => {
  const counts = (way: Stop) => way.ends.filter(({ name }) => name === "a conflict").length;
  expect(Math.max(...again.map(counts))).toBe(1);
  expect(again.some(({ ends }) => ends.map(({ name }) => name).join() === "no such name,a conflict,no such name")).toBe(
    true,
  );
});

test("a call that is over sends nothing more", () => {
  const abandoned = beginnings.flatMap((beginning) => [...walk(beginning, true)]);
  const failed = abandoned.filter(({ ends }) => ends.length > 0);
  expect(failed.length).toBeGreaterThan(100);
  expect(failed.filter(({ isAgain }) => isAgain).map(({ way }) => way)).toEqual([]);
});
