// An error that several calls share: each has its own statement, and nothing of another call's.
import { expect, test } from "vitest";
import { PostgresError } from "../../js/util/errors.ts";
import { errorOf } from "../../js/util/trace.ts";

test("an error that ends several calls has the statement and parameters of each call", () => {
  const fields = { severity: "FATAL", code: "42703", message: "gone", position: "8" };
  const shared = new PostgresError(fields);
  const first = errorOf(shared, { text: "select secret from t where a = $1", values: ["a secret"] }, true);
  const second = errorOf(shared, { text: "select other", isRewritten: true }, true);
  const third = errorOf(shared, {} as { text: string }, true);
  expect(first).toBe(shared);
  expect(first).toMatchObject({ query: "select secret from t where a = $1", parameters: ["a secret"] });
  expect(first.excerpt).toContain("secret");
  expect(second).toMatchObject({ code: "42703", message: "gone", query: "select other" });
  expect([second.excerpt, second.advice, second.parameters]).toEqual([undefined, undefined, undefined]);
  expect([third.query, third.excerpt, third.parameters]).toEqual([undefined, undefined, undefined]);
});
