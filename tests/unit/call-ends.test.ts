// How the client ends a call (js/session/call.ts): by its deadline or its signals. Also which facts its error states.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Connection } from "../../js/connection/connection.ts";
import { Operation } from "../../js/connection/operation.ts";
import { Call, tookTooLong } from "../../js/session/call.ts";
import { AbortError, PgzError, type Facts } from "../../js/util/errors.ts";

/** A connection that records which operations were abandoned. */
class Wire {
  readonly abandoned: Operation[] = [];
  operate(): Operation {
    return new Operation({});
  }
  abandon(operation: Operation): void {
    this.abandoned.push(operation);
  }
}

let wire: Wire;
beforeEach(() => {
  wire = new Wire();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
});
afterEach(() => void vi.useRealTimers());

function made(timeout = 0): Call<string> {
  const call = new Call<string>({ timeout });
  call.promise.catch(() => {});
  return call;
}

const operate = (call: Call<string>) => call.operate(wire as unknown as Connection, () => 0);
const errorOf = (call: Call<string>) => call.promise.catch((error: PgzError) => error) as Promise<PgzError>;
const stopped = (facts: Facts) => new AbortError("why", facts);

test("a call ends at its deadline, and its error names the deadline", async () => {
  const call = made(50);
  expect(call.isTimed).toBe(true);
  vi.advanceTimersByTime(49);
  expect(call.finished).toBe(false);
  vi.advanceTimersByTime(1);
  expect(call.finished).toBe(true);
  expect(await errorOf(call)).toMatchObject({
    name: "TimeoutError",
    code: "QUERY_TIMEOUT",
    message: expect.stringContaining("50 ms"),
    retryable: true,
  });
});

test("a call without a deadline has no timer, and the end of a call clears its timer", () => {
  const call = made();
  expect([call.isTimed, vi.getTimerCount()]).toEqual([false, 0]);
  const calls = [made(50), made(50)];
  expect(vi.getTimerCount()).toBe(2);
  calls[0]!.succeed("a");
  calls[1]!.fail(new PgzError("CONNECTION_LOST", "gone"));
  expect(vi.getTimerCount()).toBe(0);
});

test("a deadline's error states the given facts, and is neither retryable nor committed without them", () => {
  expect(tookTooLong(7)).toMatchObject({ code: "QUERY_TIMEOUT", retryable: false, committed: false });
  expect(tookTooLong(7, { committed: true })).toMatchObject({ retryable: false, committed: true });
});

test("any of its signals ends a call, with the signal's reason", async () => {
  const [first, second] = [new AbortController(), new AbortController()];
  for (const controller of [first, second]) {
    const call = made();
    for (const signal of [undefined, first.signal, second.signal]) call.abortOn(signal);
    expect(call.finished).toBe(controller === second);
    controller.abort(controller === first ? "first" : "second");
    expect(await errorOf(call)).toMatchObject({
      name: "AbortError",
      code: "ABORTED",
      cause: "first",
      hasNoEffect: true,
    });
  }
});

test("an already aborted signal ends a call at once, and later signals get no listener", () => {
  const call = made();
  const { signal } = new AbortController();
  const listens = vi.spyOn(signal, "addEventListener");
  call.abortOn(AbortSignal.abort());
  call.abortOn(signal);
  expect(call.finished).toBe(true);
  expect(listens).not.toHaveBeenCalled();
  call.abortOn(signal);
  expect(listens).not.toHaveBeenCalled();
});

test("a call that is over leaves no listener on its signals", () => {
  const { signal } = new AbortController();
  const listeners = new Set<unknown>();
  vi.spyOn(signal, "addEventListener").mockImplementation((_, listener) => void listeners.add(listener));
  vi.spyOn(signal, "removeEventListener").mockImplementation((_, listener) => void listeners.delete(listener));
  const calls = [made(), made()];
  for (const call of calls) {
    call.abortOn(signal);
    call.abortOn(signal);
  }
  expect(listeners.size).toBe(1);
  calls[0]!.succeed("a");
  calls[1]!.fail(new PgzError("CONNECTION_LOST", "gone"));
  expect(listeners.size).toBe(0);
});

test("a call that has sent nothing has had no effect, unless something else has happened", async () => {
  const expected = { nothing: true, calls: false, commits: false, rows: false } as const;
  for (const [reached, hasNoEffect] of Object.entries(expected)) {
    const call = made();
    if (reached !== "nothing") call.reaches(reached as "rows");
    call.interrupt(stopped);
    expect(await errorOf(call)).toMatchObject({ hasNoEffect, committed: reached === "rows" });
  }
  expect(wire.abandoned).toEqual([]);
});

test("a call with operations in flight abandons all of them, and its error says that it may have run", async () => {
  const call = made();
  const over = operate(call);
  over.end();
  const [first, second, last] = [operate(call), operate(call), operate(call)];
  call.interrupt(stopped);
  expect(wire.abandoned).toEqual([first, second, last]);
  expect(await errorOf(call)).toMatchObject({ code: "ABORTED", cause: "why", hasNoEffect: false, committed: false });
});

test("a call whose rows have reached the consumer says so in its error", async () => {
  const call = made();
  operate(call).committed = true;
  call.interrupt(stopped);
  expect(wire.abandoned).toHaveLength(1);
  expect(await errorOf(call)).toMatchObject({ retryable: false, committed: true });
});

test("a call that is over cannot be interrupted, and its operation is not abandoned", () => {
  const call = made();
  operate(call);
  call.succeed("a");
  call.interrupt(stopped);
  expect(wire.abandoned).toEqual([]);
});
