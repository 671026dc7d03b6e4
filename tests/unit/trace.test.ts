// An error that several calls share: each has its own statement, and nothing of another call's.
import { expect, test } from "vitest";
import { PostgresError, type BatchFailure } from "../../js/util/errors.ts";
import { errorOf } from "../../js/util/trace.ts";

test("an error that ends several calls has the statement and parameters of each call", () => {
  const fields = { severity: "FATAL", code: "42703", message: "gone", position: "8" };
  const shared = new PostgresError(fields);
  const first = errorOf(shared, { text: "select secret from t where a = $1", values: ["a secret"] }, { isDebug: true });
  const second = errorOf(shared, { text: "select other", isRewritten: true }, { isDebug: true });
  const third = errorOf(shared, {} as { text: string }, { isDebug: true });
  expect(first).toBe(shared);
  expect(first).toMatchObject({ query: "select secret from t where a = $1", parameters: ["a secret"] });
  expect(first.excerpt).toContain("secret");
  expect(second).toMatchObject({ code: "42703", message: "gone", query: "select other" });
  expect([second.excerpt, second.advice, second.parameters]).toEqual([undefined, undefined, undefined]);
  expect([third.query, third.excerpt, third.parameters]).toEqual([undefined, undefined, undefined]);
});

test("a conflict is not retryable if the call may have committed something before it", () => {
  const conflict = (batch?: BatchFailure) => {
    const error = new PostgresError({ severity: "ERROR", code: "40001", message: "" }, { hasNoEffect: true });
    return Object.assign(error, batch && { batch });
  };
  const texts = ["insert into t values (1)", "commit", "select 1"];
  const isRetryable = (...[error, subject, place]: Parameters<typeof errorOf>) =>
    errorOf(error, subject, place).retryable;
  expect(isRetryable(conflict(), { text: "select 1" })).toBe(true);
  expect(isRetryable(conflict(), { text: "call p()" })).toBe(false);
  expect(isRetryable(conflict(), { text: "call p()" }, { isInTransaction: true })).toBe(true);
  expect(isRetryable(conflict({ index: 2, rolledBack: [], skipped: [] }), { text: "", texts })).toBe(false);
  // A COMMIT that fails, or did not run, has stored nothing.
  for (const index of [0, 1])
    expect(isRetryable(conflict({ index, rolledBack: [0], skipped: [2] }), { text: "", texts })).toBe(true);
  // An item of an isolated batch.
  expect(isRetryable(conflict(), { text: "select 1", texts })).toBe(true);
});
