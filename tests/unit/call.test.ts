// A user's call (js/session/call.ts): who is told when it ends, in which order and with which facts, and how its
// operations add up.
import { beforeEach, expect, test } from "vitest";
import type { Connection } from "../../js/connection/connection.ts";
import { Operation, type Conversation } from "../../js/connection/operation.ts";
import { Call, type Consumer, type Made, type Outcome } from "../../js/session/call.ts";
import { PgzError, PostgresError } from "../../js/util/errors.ts";

/** A connection whose operations end when the test says so. */
class Wire {
  readonly operations: Operation[] = [];
  readonly asked: unknown[] = [];
  readonly core = { stats: { receivedBytes: 0 } };

  operate(command: unknown, conversation: Conversation | undefined, owner: unknown): Operation {
    this.asked.push([command, conversation, owner]);
    const operation = new Operation(conversation ?? {});
    this.operations.push(operation);
    return operation;
  }
}

let wire: Wire;
let log: unknown[];
beforeEach(() => {
  wire = new Wire();
  log = [];
});

const command = () => 0;
const maker = { ended: (_: unknown, outcome: Outcome) => void log.push(["maker", outcome]) };
const failure = () => new PgzError("CONNECTION_LOST", "gone", { hasNoEffect: true });

function made(options: Partial<Made> = {}): Call<string> {
  const call = new Call<string>({ timeout: 0, maker, ...options });
  call.promise.then(
    (value) => log.push(["promise", value]),
    () => log.push(["promise"]),
  );
  return call;
}

function operate(call: Call<string>, facts: Partial<Operation> = {}, isOver = true): Operation {
  const operation = call.operate(wire as unknown as Connection, command);
  Object.assign(operation, facts);
  if (isOver) operation.end();
  return operation;
}

/** The outcome that was passed to the maker. */
const outcome = () => (log as [string, Outcome][]).find(([who]) => who === "maker")?.[1];
const nothing = { rows: null, bytes: 0, command: "", error: undefined };

test("a call that succeeds tells its maker, its listeners, its holder, and then its caller", async () => {
  const call = made();
  call.holder = { onSuccess: () => log.push("holder"), onFailure: () => log.push("holder: failed") };
  call.whenOver(() => log.push("listener"));
  call.whenOver(() => log.push("listener 2"));
  expect(call.finished).toBe(false);
  call.succeed("a");
  expect(call.finished).toBe(true);
  expect(log).toEqual([["maker", nothing], "listener", "listener 2", "holder"]);
  expect(await call.promise).toBe("a");
  expect(log.at(-1)).toEqual(["promise", "a"]);
});

test("a call that fails tells its holder and its consumer first, then its maker and its listeners", async () => {
  const call = made();
  const error = failure();
  call.holder = { onSuccess: () => log.push("holder: succeeded"), onFailure: (given) => log.push(["holder", given]) };
  call.consumer = { fail: (given) => log.push(["consumer", given]) };
  call.whenOver(() => log.push("listener"));
  call.fail(error);
  expect(log).toEqual([["holder", error], ["consumer", error], ["maker", { ...nothing, error }], "listener"]);
  await expect(call.promise).rejects.toBe(error);
});

test("a call ends once, and later outcomes are ignored", async () => {
  const [won, lost] = [made(), made()];
  const error = failure();
  won.succeed("a");
  lost.fail(error);
  const before = [...log];
  for (const call of [won, lost]) {
    call.holder = { onSuccess: () => log.push("holder"), onFailure: () => log.push("holder") };
    call.consumer = { fail: () => log.push("consumer") };
    call.succeed("b");
    call.fail(failure());
    call.interrupt(failure);
    call.hand("stream");
    expect(call.finished).toBe(true);
  }
  expect(log).toEqual(before);
  expect(await won.promise).toBe("a");
  await expect(lost.promise).rejects.toBe(error);
});

test("a call without listeners can end, and the callbacks of its holder are optional", () => {
  const calls = Array.from({ length: 4 }, () => new Call<string>({ timeout: 0 }));
  for (const call of calls) call.promise.catch(() => {});
  for (const call of calls.slice(2)) call.holder = {};
  for (const [at, call] of calls.entries()) {
    if (at % 2) call.fail(failure());
    else call.succeed("a");
  }
  expect(calls.map(({ finished }) => finished)).toEqual([true, true, true, true]);
});

test("a listener that is added after the end of a call is told at once", () => {
  const call = made();
  call.succeed("a");
  log.length = 0;
  call.whenOver(() => log.push("listener"));
  expect(log).toEqual(["listener"]);
});

// -- streams that were handed over -----------------------------------------------------------------------------------

test("a call hands over a stream when its promise resolves, and a later failure reaches only the stream", async () => {
  const call = made();
  call.consumer = { fail: (error) => log.push(["consumer", error]) };
  call.hand("stream");
  expect(await call.promise).toBe("stream");
  expect(call.finished).toBe(false);
  const error = failure();
  call.fail(error);
  expect(log).toEqual([
    ["promise", "stream"],
    ["consumer", error],
    ["maker", { ...nothing, error }],
  ]);
  expect(await call.promise).toBe("stream");
});

test("a failed stream leaves no unhandled rejection that the user could not catch", async () => {
  const call = made({ isOfUser: true });
  call.hand("stream");
  const rejections: unknown[] = [];
  const note = (error: unknown) => void rejections.push(error);
  process.on("unhandledRejection", note);
  call.fail(failure());
  await new Promise(setImmediate);
  process.off("unhandledRejection", note);
  expect(rejections).toEqual([]);
});

test("written data of a stream counts as unread as long as the stream says so", () => {
  const call = made();
  expect(call.isUnread()).toBe(false);
  call.consumer = { fail: () => {} };
  expect(call.isUnread()).toBe(false);
  let isUnread = true;
  call.consumer = { fail: () => {}, isUnread: () => isUnread } satisfies Consumer;
  expect(call.isUnread()).toBe(true);
  isUnread = false;
  expect(call.isUnread()).toBe(false);
});

// -- operations of a call --------------------------------------------------------------------------------------------

test("an operation runs on the call's connection, and `operation` is the latest one", () => {
  const call = made();
  expect([call.operation, call.receivedBytes]).toEqual([undefined, 0]);
  const conversation = { duplex: true };
  const operation = call.operate(wire as unknown as Connection, command, conversation);
  expect(wire.asked).toEqual([[command, conversation, call]]);
  expect(wire.operations).toEqual([operation]);
  expect(call.operation).toBe(operation);
  wire.core.stats.receivedBytes = 7;
  expect(call.receivedBytes).toBe(7);
});

test("a call that is over sends nothing", () => {
  const call = made();
  call.succeed("a");
  expect(() => call.operate(wire as unknown as Connection, command)).toThrow();
  expect(wire.operations).toEqual([]);
});

test("rows and bytes of all operations are counted once each, and the command is that of the last operation", () => {
  const call = made();
  operate(call, { rowCount: 2, bytes: 20, command: "SELECT" });
  operate(call, { rowCount: null, bytes: 3 });
  operate(call, { rowCount: 5, bytes: 50, command: "INSERT" });
  call.succeed("a");
  expect(outcome()).toEqual({ rows: 7, bytes: 73, command: "INSERT", error: undefined });
});

test("rows of pipelined operations are counted when the call ends", () => {
  const call = made();
  const first = operate(call, {}, false);
  const second = operate(call, {}, false);
  operate(call, { rowCount: 1, bytes: 1, command: "SELECT" });
  Object.assign(first, { rowCount: 10, bytes: 100 });
  Object.assign(second, { rowCount: 200, bytes: 2_000 });
  call.succeed("a");
  expect(outcome()).toMatchObject({ rows: 211, bytes: 2_101 });
});

test("a command without a row count adds no rows, and an empty result has 0", () => {
  const none = made();
  operate(none, { command: "BEGIN" });
  none.succeed("a");
  expect(outcome()).toEqual({ ...nothing, command: "BEGIN" });
  log.length = 0;
  const empty = made();
  operate(empty, { rowCount: 0, command: "SELECT" });
  empty.succeed("a");
  expect(outcome()).toMatchObject({ rows: 0 });
});

test("a result that was cut off names its limit, and a failed call has no command", () => {
  const by = { limit: "rows", value: 1, observed: 2 } as never;
  const cut = made();
  operate(cut, { command: "SELECT" }, false).cut(by);
  cut.succeed("a");
  expect(outcome()).toEqual({ ...nothing, command: "SELECT", truncated: by });
  log.length = 0;
  const failed = made();
  operate(failed, { rowCount: 3, bytes: 5, command: "SELECT" }, false).cut(by);
  const error = failure();
  failed.fail(error);
  expect(outcome()).toStrictEqual({ rows: 3, bytes: 5, command: "", error });
});

test("the call's follower is notified once, after the call has sent its last message", () => {
  const call = made();
  call.sent(1);
  const said: number[] = [];
  call.follower = { sent: (bytes) => void said.push(bytes) };
  call.sent(2);
  call.sent(3);
  expect(said).toEqual([2]);
});

// -- the error of a call ---------------------------------------------------------------------------------------------

test.each([
  ["nothing", { retryable: true, committed: false }],
  ["calls", { retryable: true, committed: false }],
  ["commits", { retryable: false, committed: false }],
  ["rows", { retryable: false, committed: true }],
] as const)("an error says what cannot be taken back any more: %s", async (reached, facts) => {
  const call = made();
  expect(call.reached).toBe("nothing");
  if (reached !== "nothing") call.reaches(reached);
  expect(call.reached).toBe(reached);
  call.fail(failure());
  await expect(call.promise).rejects.toMatchObject({ ...facts, hasNoEffect: facts.retryable });
});

test("the error of a statement has its text, and has its values only with debugging on", async () => {
  const subject = { text: "select $1", values: [7] } as unknown as NonNullable<Made["subject"]>;
  for (const isDebug of [undefined, false, true]) {
    const call = made({ subject, ...(isDebug !== undefined && { isDebug }) });
    expect(call.trace !== undefined).toBe(isDebug === true);
    call.fail(new PostgresError({ code: "42601", message: "no" }));
    const error = (await call.promise.catch((error: unknown) => error)) as PostgresError;
    expect([error.query, error.parameters]).toEqual(["select $1", isDebug ? [7] : undefined]);
  }
});

test("two calls that fail with one error get an error each, and a foreign error is passed on unchanged", async () => {
  const shared = failure();
  const calls = ["select 1", "select 2"].map((text) => made({ subject: { text } as never }));
  for (const call of calls) call.fail(shared);
  const errors = await Promise.all(calls.map((call) => call.promise.catch((error: PgzError) => error)));
  expect(errors.map((error) => (error as PgzError).query)).toEqual(["select 1", "select 2"]);
  const foreign = Object.freeze(new Error("a callback's own"));
  const call = made({ subject: { text: "select 3" } as never });
  call.reaches("rows");
  call.fail(foreign);
  await expect(call.promise).rejects.toBe(foreign);
  const plain = made();
  plain.fail(shared);
  await expect(plain.promise).rejects.toBe(shared);
});

test("the error of a user's call shows who awaits it, and that of an internal call does not", async () => {
  const awaited = async (isOfUser: boolean | undefined) => {
    // V8 follows a promise only if it has a single waiter.
    const call = new Call<string>(isOfUser === undefined ? { timeout: 0 } : { timeout: 0, isOfUser });
    queueMicrotask(() => call.fail(failure()));
    const theCaller = async () => void (await call.promise);
    return theCaller().then(
      () => "",
      (error: PgzError) => error.stack!,
    );
  };
  expect(await awaited(true)).toContain("theCaller");
  for (const other of [false, undefined]) expect(await awaited(other)).not.toContain("theCaller");
});
