// Which statements a scope refuses, and why: all that would outlive its transaction, end it, or undo its settings.
import { expect, test } from "vitest";
import { checkInScope, notInScope } from "../../js/statement/scoped-statement.ts";
import { UsageError } from "../../js/util/errors.ts";

/** The reason for which a scope refuses a statement. `undefined` if the statement may run. */
function refusal(text: string): string | undefined {
  try {
    checkInScope(text);
    return undefined;
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    expect((error as UsageError).code).toBe("NOT_IN_SCOPE");
    return (error as UsageError).message;
  }
}

test.each(["begin", "start", "commit", "end", "rollback", "abort", "savepoint", "release", "prepare"])(
  "%s is left to scope.transaction()",
  (word) => {
    for (const text of [word, `${word.toUpperCase()} x`, `/* one */ ; ${word}`])
      expect(refusal(text)).toMatch(new RegExp(`^${word.toUpperCase()} cannot .* use scope\\.transaction\\(\\)`));
  },
);

test.each(["call", "do", "vacuum", "cluster"])("%s may commit", (word) => {
  expect(refusal(`${word} x`)).toMatch(new RegExp(`^${word.toUpperCase()} cannot run in a scope: it may commit`));
});

test.each(["set", "reset", "discard", "listen", "unlisten", "load", "deallocate"])("%s outlives the call", (word) => {
  expect(refusal(`${word} x`)).toMatch(new RegExp(`^${word.toUpperCase()} cannot .* outlive the call. Use the client`));
});

test.each([
  "select 1",
  "insert into t values (1)",
  "with a as (select 1) select set from a",
  "create table reset (n int)",
  "show all",
  "lock table t",
  "notify a",
  "",
  ";;",
  "/* set x = 1 */ select 1",
  '"set"',
])("%j runs in a scope", (text) => {
  expect(refusal(text)).toBeUndefined();
});

test.each([
  "set local tenant.id = '7'",
  "SET LOCAL search_path TO a",
  ";; set local search_path = a",
  "/* one */ set /* two */ local -- three\n x = 1",
  "set constraints all deferred",
  "SET CONSTRAINTS a.b immediate",
  // Only a role can give the login's own role back.
  "set local search_path = none",
  "set local search_path to default",
  "set local tenant.id = 'none'",
  "set local transaction_isolation = 'serializable'",
  "set local roles.none = none",
])("%j ends with the transaction, so it may run", (text) => {
  expect(refusal(text)).toBeUndefined();
});

test.each([
  "set search_path = a",
  "set session search_path = a",
  "set session authorization app",
  "set role app",
  "set time zone 'UTC'",
  "set",
  "set local.tenant = 'x'",
  "set constraints.tenant = 'x'",
  'set "local" = 1',
  "set 'local' x = 1",
  "set locale = 'x'",
  "set transaction read only",
  // The forms that SET LOCAL allows are refused for any other statement.
  "reset local tenant.id",
  "listen constraints",
])("%j affects the session or is no statement, so it is refused", (text) => {
  expect(refusal(text)).toMatch(/outlive the call/);
});

test.each([
  "set local role app",
  "set local role 'app'",
  "set local role = app",
  "set local role to $$app$$",
  'set local role "App"',
  "set local session authorization app",
  "set local session authorization 'app'",
  "set local session_authorization to 'app'",
  "set local role 'nonesuch'",
  "set local role 'no' 'body'",
  "set local role ''",
])("%j takes another role until the transaction ends, so it may run", (text) => {
  expect(refusal(text)).toBeUndefined();
});

test.each([
  "set local role none",
  "set local role 'none'",
  "set local role = 'NONE'",
  'set local role "none"',
  "set local role to default",
  "set local role = DEFAULT",
  'set local "ROLE" to none',
  "set local Role $$none$$",
  "set local role $a$none$a$",
  // A string may continue in the next line, and escapes may spell anything.
  "set local role 'no'\n'ne'",
  "set local role E'\\156one'",
  "set local role e'app'",
  "set local role 'a\\b'",
  "set local role $$a\\b$$",
  "set local role U&'\\006eone'",
  "set local session authorization default",
  "set local session authorization 'default' default",
  "set local session_authorization = default",
  "set local session_authorization to none",
])("%j may give the login's own role back, so it is refused", (text) => {
  expect(refusal(text)).toMatch(/^SET LOCAL cannot give the login's own role back/);
});

test("a refusal for another reason has the same class and code", () => {
  expect(notInScope("because")).toMatchObject({ name: "UsageError", code: "NOT_IN_SCOPE", message: "because" });
});
