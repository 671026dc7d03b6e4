// What is done with a connection before it is lent again, in each state in which it can come back. The table states the
// rules in one place, and the test checks every combination.
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { clean, isDemoted, ping } from "../../js/pool/cleaning.ts";
import { Member } from "../../js/pool/member.ts";
import type { Change } from "../../js/session/setting-changes.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { FakeConnection, LOST, type Answer } from "../support/fake-connection.ts";
import { settle } from "../support/pool-world.ts";

const clock = new FakeClock();
beforeAll(() => void clock.install());
beforeEach(() => clock.reset());
afterAll(() => clock.uninstall());

const RESET =
  "set session authorization default; reset role; reset all; close all; unlisten *;\n" +
  "select pg_catalog.pg_advisory_unlock_all(); discard temp; discard sequences";

interface State {
  /** What is being cancelled on the connection, and how that ends. */
  readonly stopping: "nothing" | "well" | "with its end";
  readonly is: "open" | "busy" | "closed";
  /** The connection's transaction: none, or one whose ROLLBACK ends this way. */
  readonly rollback: "none" | "well" | "with its end";
  readonly reset: "auto" | "always" | "never";
  readonly change: Change;
  /** The answer to the reset. */
  readonly answer: Answer;
  /** How restoring the settings of the pool's user ends. */
  readonly restores: "well" | "with its end";
}

const SPACE: { readonly [K in keyof State]: readonly State[K][] } = {
  stopping: ["nothing", "well", "with its end"],
  is: ["open", "busy", "closed"],
  rollback: ["none", "well", "with its end"],
  reset: ["auto", "always", "never"],
  change: ["none", "resets", "ends"],
  answer: ["done", "error", "lost", "silence"],
  restores: ["well", "with its end"],
};

/** All combinations of the values. */
const STATES = Object.entries(SPACE).reduce<object[]>(
  (states, [name, values]) => states.flatMap((state) => values.map((value) => ({ ...state, [name]: value }))),
  [{}],
) as State[];

/** The expected steps, in order. */
function expected({ stopping, is, rollback, reset, change, answer, restores }: State): string[] {
  if (is === "closed" || stopping === "with its end") return [];
  if (is === "busy") return ["destroy: The connection was lost: it was given back while a call was running."];
  if (rollback === "with its end") return ["roll back"];
  const before = rollback === "none" ? [] : ["roll back"];
  if (reset === "never" || (reset === "auto" && change === "none")) return before;
  if (change === "ends") return [...before, "close"];
  if (answer === "error") return [...before, RESET, "close"];
  if (answer === "lost") return [...before, RESET];
  if (answer === "silence") return [...before, RESET, "destroy: The connection was lost: it did not answer."];
  return [...before, RESET, restores === "well" ? "restore" : "restore, in vain"];
}

/** Whether the connection is closed after these steps. */
function endsIn({ stopping, is, rollback, answer }: State, steps: readonly string[]): boolean {
  if (is === "closed" || stopping === "with its end") return true;
  if (/^(close|destroy.*|restore, in vain)$/.test(steps.at(-1) ?? "")) return true;
  return (rollback === "with its end" && steps.includes("roll back")) || (answer === "lost" && steps.includes(RESET));
}

function memberIn({ stopping, is, rollback, change, answer }: State): [Member, FakeConnection] {
  const connection = new FakeConnection();
  const member = new Member(connection.real, 1, 0, 0, Infinity);
  member.sessionChanges.change = change;
  connection.answers = { "set session": answer };
  connection.isBusy = is === "busy";
  if (is === "closed") connection.closed = LOST;
  if (stopping !== "nothing")
    connection.stopping = settle().then(() => void (stopping === "well" || (connection.closed = LOST)));
  Object.defineProperty(member.session, "transaction", {
    value: {
      rollBack: async () => {
        await settle();
        if (rollback !== "none") connection.log.push("roll back");
        if (rollback === "with its end") connection.closed = LOST;
      },
    },
  });
  return [member, connection];
}

test("a returned connection is cleaned as the table says, or closed, in each state", async () => {
  for (const state of STATES) {
    const [member, connection] = memberIn(state);
    let isOver = false;
    const cleaning = clean(member, state, async (given) => {
      expect(given).toBe(member);
      await settle();
      // Each borrower expects the user's settings, so they are not session changes.
      member.sessionChanges.change = "resets";
      connection.log.push(state.restores === "well" ? "restore" : "restore, in vain");
      if (state.restores !== "well") connection.closed = LOST;
    }).then(() => (isOver = true));
    for (let n = 0; n < 4; n++) await settle();
    const deadlines = clock.timers;
    const wanted = expected(state);
    const isSilent = state.answer === "silence" && wanted.includes(RESET);
    expect(deadlines, JSON.stringify(state)).toEqual(isSilent ? [5_000] : []);
    expect(isOver, JSON.stringify(state)).toBe(!isSilent);
    await clock.advance(5_000, settle);
    await cleaning;
    expect(connection.log, JSON.stringify(state)).toEqual(wanted);
    expect(Boolean(connection.closed), JSON.stringify(state)).toBe(endsIn(state, wanted));
    if (!connection.closed) expect(member.sessionChanges.change, JSON.stringify(state)).toBe("none");
    expect(clock.timers).toEqual([]);
  }
  expect(STATES.length).toBe(3 ** 5 * 4 * 2);
});

// Found by the simulator: a lease that was released before its first call ended the connection, and failed all waiters
// for a connection.
test("a connection whose login is not over is busy with the login, not with a call of its borrower", async () => {
  const connection = new FakeConnection();
  connection.established = false;
  connection.isBusy = true;
  let letIn = () => {};
  connection.startup.done = new Promise<void>((resolve) => (letIn = resolve));
  const cleaning = clean(new Member(connection.real, 1, 0, 0, Infinity), { reset: "auto" }, () => Promise.resolve());
  await settle();
  connection.isBusy = false;
  letIn();
  await cleaning;
  expect(connection.log).toEqual([]);
  expect(connection.closed).toBeUndefined();
});

test.each([
  ["done", []],
  ["error", ["destroy: The connection was lost: it gave no sign of life."]],
  ["lost", []],
  ["silence", ["destroy: The connection was lost: it did not answer."]],
] as const)("asked for a sign of life: %s", async (answer, then) => {
  const connection = new FakeConnection();
  connection.answers = { "": answer };
  const asking = ping(connection.real);
  await settle();
  expect(clock.timers).toEqual(answer === "silence" ? [2_000] : []);
  await clock.advance(1_999, settle);
  expect(Boolean(connection.closed)).toBe(answer === "error" || answer === "lost");
  await clock.advance(1, settle);
  await asking;
  expect(connection.log).toEqual(["nothing", ...then]);
  expect(clock.timers).toEqual([]);
});

test("a connection that has ended is not checked", async () => {
  const connection = new FakeConnection();
  connection.closed = LOST;
  await ping(connection.real);
  expect(connection.log).toEqual([]);
});

test.each([
  ['row ["off"]', false, []],
  ['row ["on"]', true, ["close"]],
  ["error", true, ["close"]],
  ["lost", true, []],
  ["silence", true, ["destroy: The connection was lost: it did not answer."]],
] as const)("a server that has refused a write is asked what it is: %s", async (answer, is, then) => {
  const connection = new FakeConnection();
  connection.config.targetSessionAttrs = "read-write";
  connection.refusedWrite = true;
  connection.answers = { SHOW: answer };
  const asking = isDemoted(new Member(connection.real, 1, 0, 0, Infinity));
  await settle();
  await clock.advance(1_999, settle);
  expect(connection.log.length).toBe(answer === "silence" ? 1 : 1 + then.length);
  await clock.advance(1, settle);
  expect(await asking).toBe(is);
  expect(connection.log).toEqual(["SHOW transaction_read_only", ...then]);
  expect(connection.refusedWrite).toBe(is);
  expect(clock.timers).toEqual([]);
});
