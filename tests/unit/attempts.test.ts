// How the SQLSTATE of a failed attempt is classified (js/statement/attempts.ts), and the pause before the next attempt.
import { expect, test } from "vitest";
import type { Connection } from "../../js/connection/connection.ts";
import {
  attemptsOf,
  isConflict,
  isStale,
  mayBeOutdated,
  mayBeUnsupported,
  OutdatedAttempt,
  pauseAfter,
  refusesBinary,
} from "../../js/statement/attempts.ts";
import type { Operation } from "../../js/connection/operation.ts";
import { connectionLost } from "../../js/runtime/contract.ts";
import { fromErrorResponse, PgzError, UsageError } from "../../js/util/errors.ts";
import { useFakeClock } from "../support/fake-clock.ts";
import { quiet } from "../support/memory-session.ts";

const error = (code: string, routine?: string, message = "failed") =>
  fromErrorResponse({ severity: "ERROR", code, message, ...(routine && { routine }) });
/** Errors that the driver itself made. Their codes may equal the server's. */
const ours = [new PgzError("26000", "no"), new PgzError("42P01", "no"), new UsageError("INVALID_QUERY", "no")];

test("a prepared statement that is gone, or whose tables have changed, counts as stale", () => {
  for (const one of [error("26000"), error("42P05")]) expect(isStale(one), one.code).toBe(true);
  expect(isStale(error("0A000", "RevalidateCachedQuery"))).toBe(true);
  expect(isStale(error("08P01", "PortalSetResultFormat"))).toBe(true);
});

test("other errors do not count as stale, even with the same code from another routine", () => {
  for (const code of ["0A000", "08P01", "42P01", "22P02", "26001", "40001"]) expect(isStale(error(code))).toBe(false);
  expect(isStale(error("0A000", "PortalSetResultFormat"))).toBe(false);
  expect(isStale(error("08P01", "RevalidateCachedQuery"))).toBe(false);
  for (const one of [...ours, new Error("26000"), undefined, "26000"]) expect(isStale(one)).toBe(false);
});

test("a refused name, type or value may mean an outdated description, if a description was cached", () => {
  for (const code of ["22P02", "42P01", "42703", "XX000"]) {
    expect(mayBeOutdated(error(code), true), code).toBe(true);
    expect(mayBeOutdated(error(code), false), code).toBe(false);
  }
  for (const code of ["40001", "57014", "53200", "23505", "55P03", "P0001", "02242", ""])
    expect(mayBeOutdated(error(code), true), code).toBe(false);
  for (const one of [...ours, new Error("42P01"), undefined]) expect(mayBeOutdated(one, true)).toBe(false);
  // A prepared statement may be gone even though its shape was learned a moment ago.
  expect(mayBeOutdated(error("26000"), false)).toBe(true);
});

test("a failed check may be due to the check itself, except for conflicts, cancels and missing resources", () => {
  for (const code of ["22P02", "42883", "25006", "XX000", "0A000", "14053"])
    expect(mayBeUnsupported(error(code)), code).toBe(true);
  for (const code of ["40001", "53200", "55P03", "57014", "58030"])
    expect(mayBeUnsupported(error(code)), code).toBe(false);
  for (const one of ours) expect(mayBeUnsupported(one)).toBe(false);
});

test("a missing binary form is recognized by the server's routine or message, except in a function's own error", () => {
  expect(refusesBinary(error("42883", "getTypeBinaryOutputInfo"))).toBe(true);
  expect(refusesBinary(error("0A000", "x", "no Binary  output"))).toBe(false);
  for (const words of ["no binary output function", "Binary format is not supported"])
    expect(refusesBinary(error("0A000", undefined, words)), words).toBe(true);
  expect(refusesBinary(error("42883", "other"))).toBe(false);
  for (const code of ["P0001", "P0002"]) {
    expect(refusesBinary(error(code, "getTypeBinaryOutputInfo"))).toBe(false);
    expect(refusesBinary(error(code, undefined, "no binary output"))).toBe(false);
  }
  // Only the class P0 is excluded, not every code that contains P0.
  expect(refusesBinary(error("42P05", undefined, "no binary output"))).toBe(true);
  for (const one of [new PgzError("0A000", "no binary output"), new Error("binary format"), undefined])
    expect(refusesBinary(one)).toBe(false);
});

test("retryOnSerialization is the number of attempts, and true means three", () => {
  expect([undefined, false, true, 1, 2, 9].map(attemptsOf)).toEqual([1, 1, 3, 1, 2, 9]);
});

test("only serialization failures and deadlocks are conflicts", () => {
  for (const code of ["40001", "40P01"]) expect(isConflict(error(code)), code).toBe(true);
  // Also the error of a batch, which the driver makes from the server's error.
  expect(isConflict(new PgzError("40001", "x"))).toBe(true);
  for (const code of ["40000", "40002", "40003", "140001", "400011", "57014"])
    expect(isConflict(error(code)), code).toBe(false);
  for (const one of [Object.assign(new Error("x"), { code: "40001" }), undefined]) expect(isConflict(one)).toBe(false);
});

test("an outdated attempt carries its failure and the operation that was sent", () => {
  const failure = error("26000");
  const operation = {} as Operation;
  expect(new OutdatedAttempt(failure, operation)).toMatchObject({ error: failure, operation });
  expect(new OutdatedAttempt(failure).operation).toBeUndefined();
});

// -- the pause -------------------------------------------------------------------------------------------------------

const clock = useFakeClock();

const conflict = error("40001");

/** Starts a pause, and records what the observer is told. */
function begun(attempt: number) {
  const told: unknown[] = [];
  const observer = { onRetry: (event: unknown) => void told.push(event) };
  const connection = { config: { observer }, closed: undefined as PgzError | undefined };
  let end = () => {};
  const call = { whenOver: (listener: () => void) => void (end = listener) };
  let outcome: unknown = "waits";
  pauseAfter(attempt, conflict, connection as unknown as Connection, call).then(
    () => (outcome = "over"),
    (failure: unknown) => (outcome = failure),
  );
  return {
    told,
    connection,
    end: () => end(),
    outcome: async () => {
      await quiet();
      return outcome;
    },
  };
}

test.each([
  [1, 10],
  [2, 20],
  [3, 40],
  [6, 320],
  [7, 500],
  [20, 500],
])("attempt %i is followed by a pause of %i ms, and the observer is told of it first", async (attempt, delayMs) => {
  const { told, outcome } = begun(attempt);
  expect(told).toEqual([{ attempt, delayMs, error: conflict }]);
  expect(clock.timers).toEqual([delayMs]);
  await clock.advance(delayMs - 1, quiet);
  expect(await outcome()).toBe("waits");
  await clock.advance(1, quiet);
  expect(await outcome()).toBe("over");
});

test("a pause is up to twice as long at random, so that two colliding calls do not collide again", () => {
  Math.random = () => 0.75;
  expect(begun(2).told).toMatchObject([{ delayMs: 35 }]);
});

test("the pause of a call that is over ends at once and leaves no timer", async () => {
  const { end, outcome } = begun(5);
  end();
  expect(await outcome()).toBe("over");
  expect(clock.timers).toEqual([]);
});

test("a connection that is lost during the pause fails the call", async () => {
  const { connection, outcome } = begun(1);
  connection.closed = connectionLost("gone");
  await clock.advance(10, quiet);
  expect(await outcome()).toBe(connection.closed);
});
