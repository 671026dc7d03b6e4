// The errors' facts, `instanceof` across copies of the package, and docs/errors.md compared with the code.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { expect, test, vi } from "vitest";
import { connectFailed } from "../../js/runtime/contract.ts";
import * as errors from "../../js/util/errors.ts";
import type { Code } from "../../js/util/errors.ts";

const {
  AbortError,
  AuthenticationError,
  ConnectionError,
  fromErrorResponse,
  fromFailure,
  noHost,
  PgzError,
  PostgresError,
  ProtocolError,
  ResponseTooLargeError,
  TimeoutError,
  UsageError,
} = errors;

const samples = {
  PgzError: new PgzError("ABORTED", "text"),
  UsageError: new UsageError("INVALID_OPTION", "text"),
  ProtocolError: new ProtocolError("PROTOCOL_VIOLATION", "text"),
  AuthenticationError: new AuthenticationError("28P01", "text"),
  ConnectionError: new ConnectionError("CONNECT_FAILED", "text", { stage: "dns", hasNoEffect: true }),
  TimeoutError: new TimeoutError("QUERY_TIMEOUT", "text"),
  AbortError: new AbortError(),
  ResponseTooLargeError: new ResponseTooLargeError({ limit: "rows", value: 5, observed: 6, committed: true }),
  PostgresError: new PostgresError({ code: "23505", message: "text" }),
};

test.each(Object.entries(samples))("%s carries its name and the common facts", (name, error) => {
  expect(error.name).toBe(name);
  expect(error).toBeInstanceOf(Error);
  expect(error.stack).toContain(`${name}: ${error.message}`);
  expect(error).toMatchObject({
    code: expect.any(String),
    retryable: expect.any(Boolean),
    committed: expect.any(Boolean),
  });
  for (const [other, constructor] of Object.entries(errors)) {
    if (!/Error$/.test(other) || other === "fromErrorResponse") continue;
    expect(error instanceof (constructor as typeof PgzError), `${name} instanceof ${other}`).toBe(
      other === name || other === "PgzError",
    );
  }
});

test("instanceof holds across two copies of the package", async () => {
  vi.resetModules();
  const copy = await import("../../js/util/errors.ts");
  expect(copy.PostgresError).not.toBe(PostgresError);
  const theirs = new copy.PostgresError({ code: "23505" });
  expect(theirs instanceof PostgresError).toBe(true);
  expect(theirs instanceof PgzError).toBe(true);
  expect(theirs instanceof UsageError).toBe(false);
  expect(new Error() instanceof PgzError).toBe(false);
  for (const value of [null, undefined, 1, "text", {}]) expect((value as unknown) instanceof PgzError).toBe(false);
});

test("a class derived by a user keeps the language's instanceof", () => {
  class Mine extends PostgresError {}
  expect(new Mine({}) instanceof Mine).toBe(true);
  expect(new Mine({}) instanceof PostgresError).toBe(true);
  expect(new PostgresError({}) instanceof Mine).toBe(false);
});

test("an error's name can be changed, like that of any error", () => {
  const error = new PostgresError({});
  error.name = "MyError";
  expect(String(error)).toMatch(/^MyError/);
});

test("facts are false unless given, and a cause exists only if given", () => {
  expect(new UsageError("STREAM_OPEN", "text")).toMatchObject({ retryable: false, committed: false });
  expect("cause" in new UsageError("STREAM_OPEN", "text")).toBe(false);
  const cause = new Error("underneath");
  expect(new ConnectionError("CONNECTION_LOST", "text", { stage: "session", hasNoEffect: true, cause })).toMatchObject({
    stage: "session",
    retryable: true,
    committed: false,
    cause,
  });
});

test("nothing is retryable once rows are in use", () => {
  expect(
    new ConnectionError("CONNECTION_LOST", "text", { stage: "session", hasNoEffect: true, committed: true }),
  ).toMatchObject({ retryable: false, committed: true });
  expect(fromErrorResponse({ code: "40001", message: "conflict" }, { committed: true })).toMatchObject({
    retryable: false,
    committed: true,
  });
});

test("AbortError has the web's name and keeps the reason", () => {
  expect(new AbortError("left")).toMatchObject({
    name: "AbortError",
    code: "ABORTED",
    cause: "left",
    committed: false,
  });
  expect(new AbortError("left", { committed: true }).committed).toBe(true);
});

test("ResponseTooLargeError states the limit, its value and the observed size", () => {
  expect(samples.ResponseTooLargeError).toMatchObject({
    code: "RESPONSE_TOO_LARGE",
    limit: "rows",
    value: 5,
    observed: 6,
    committed: true,
    retryable: false,
  });
  expect(samples.ResponseTooLargeError.message).toContain("5 rows");
});

test("PostgresError has every field that the server sent, by the manual's names", () => {
  const fields = {
    severity: "ERROR",
    code: "23505",
    message: "duplicate key",
    detail: "Key (id)=(1) already exists.",
    hint: "h",
    position: "8",
    internalPosition: "9",
    internalQuery: "select",
    where: "w",
    schema: "public",
    table: "t",
    column: "c",
    dataType: "int4",
    constraint: "t_pkey",
    file: "nbtinsert.c",
    line: "1",
    routine: "_bt_check_unique",
  };
  const error = fromErrorResponse(fields);
  expect(error).toBeInstanceOf(PostgresError);
  expect(error).toMatchObject(fields);
  expect("hint" in fromErrorResponse({ code: "42601", message: "syntax error" })).toBe(false);
});

test("an ErrorResponse without SQLSTATE or message still becomes a PostgresError", () => {
  expect(fromErrorResponse({})).toMatchObject({ code: "", message: "", name: "PostgresError", retryable: false });
  expect(fromErrorResponse({}, { isStartup: true })).toMatchObject({
    code: "",
    name: "PostgresError",
    retryable: false,
  });
});

/** Each helper that is true for one SQLSTATE only. */
const HELPERS = {
  isUniqueViolation: "23505",
  isForeignKeyViolation: "23503",
  isCheckViolation: "23514",
  isNotNullViolation: "23502",
  isExclusionViolation: "23P01",
  isSerializationFailure: "40001",
  isDeadlock: "40P01",
  isQueryCanceled: "57014",
  isAdminShutdown: "57P01",
  isInvalidSqlStatementName: "26000",
} as const;

test.each(Object.entries(HELPERS))("%s is SQLSTATE %s and no other", (helper, code) => {
  const isTrue = (code: string) => new PostgresError({ code })[helper as keyof typeof HELPERS];
  expect(isTrue(code)).toBe(true);
  for (const other of [...Object.values(HELPERS), "", "00000"]) expect(isTrue(other)).toBe(other === code);
});

/** Helpers that are true for several SQLSTATEs. Each has a test of its own below. */
const OF_CLASSES = ["isIntegrityViolation"];

test("isIntegrityViolation is true for all of class 23", () => {
  for (const code of ["23000", "23505", "23P01"]) expect(new PostgresError({ code }).isIntegrityViolation).toBe(true);
  for (const code of ["", "22023", "40001"]) expect(new PostgresError({ code }).isIntegrityViolation).toBe(false);
});

test("each helper is tested above, and named by docs/errors.md", () => {
  const helpers = Object.keys(Object.getOwnPropertyDescriptors(PostgresError.prototype)).filter((name) =>
    name.startsWith("is"),
  );
  expect(helpers.sort()).toEqual([...Object.keys(HELPERS), ...OF_CLASSES].sort());
  const named = [...source("docs/errors.md").matchAll(/`(is[A-Z]\w+)`/g)].map(([, name]) => name);
  for (const helper of helpers) expect(named).toContain(helper);
});

test.each(["28P01", "28000"])("%s during startup is an AuthenticationError around the server's error", (code) => {
  const error = fromErrorResponse({ code, message: "no" }, { isStartup: true });
  expect(error).toMatchObject({ name: "AuthenticationError", code, message: "no", retryable: false });
  expect(error.cause).toMatchObject({ name: "PostgresError", code });
  expect(fromErrorResponse({ code, message: "no" }).name).toBe("PostgresError");
});

test("a server's error before any statement can have run is retryable if it may pass", () => {
  const at = (code: string, isStartup: boolean) => fromErrorResponse({ code }, { isStartup }).retryable;
  for (const code of ["57P03", "53300", "57P01"]) expect([at(code, true), at(code, false)]).toEqual([true, false]);
  for (const code of ["40001", "40P01", "57P05"]) expect([at(code, false)]).toEqual([true]);
  for (const code of ["3D000", "42601", "23505", "40003", "28P01", "22053", "2257P"])
    expect([at(code, true), at(code, false)]).toEqual([false, false]);
});

test.each([
  ["PROTOCOL_VIOLATION", ProtocolError],
  ["MESSAGE_TOO_LARGE", ProtocolError],
  ["NOT_POSTGRESQL", ProtocolError],
  ["INVALID_VALUE", ProtocolError],
  ["SCRAM_NONCE_MISMATCH", AuthenticationError],
  ["AUTH_CLEARTEXT_REFUSED", AuthenticationError],
  ["PASSWORD_MISSING", AuthenticationError],
  ["INVALID_QUERY", UsageError],
  ["TLS_REFUSED", ConnectionError],
] as const)("a failure %s of the core becomes its class", (code, constructor) => {
  const error = fromFailure({ code, message: "What happened", detail: "in DataRow" }, { committed: true });
  expect(error.constructor).toBe(constructor);
  expect(error).toMatchObject({ code, message: "What happened (in DataRow)", committed: true, retryable: false });
  expect(fromFailure({ code, message: "What happened", detail: null }).message).toBe("What happened");
});

// -- the documented table --------------------------------------------------------------------------------------------

const root = join(import.meta.dirname, "../..");
const source = (path: string) => readFileSync(join(root, path), "utf8");
const files = (folder: string, extension: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(extension))
    .map((file) => `${folder}/${file}`);
const declared = [
  ...(/export type Code =([^;]*);/.exec(source("js/util/errors.ts"))?.[1] ?? "").matchAll(/"([A-Z0-9_]+)"/g),
].map((match) => match[1] as Code);
const documented = new Map(
  source("docs/errors.md")
    .split("\n")
    .flatMap((line) => {
      const cells = line.split("|").map((cell) => cell.trim());
      const code = /^`([A-Z0-9_]+)`$/.exec(cells[1] ?? "")?.[1];
      return code ? [[code, cells.slice(2, -1)] as const] : [];
    }),
);

test("docs/errors.md has one complete row for each code, and no other rows", () => {
  expect(declared.length).toBeGreaterThan(30);
  expect([...documented.keys()].sort()).toEqual([...declared].sort());
  for (const [code, [constructor, , meaning, remedy]] of documented) {
    expect(errors, code).toHaveProperty(constructor?.replaceAll("`", "") ?? "");
    expect(meaning?.length, code).toBeGreaterThan(10);
    expect(remedy?.length, code).toBeGreaterThan(10);
  }
});

/** Whether an error that is made with these facts is retryable. */
function retryableWith(code: string, facts: ts.Node | undefined): string {
  const text = facts?.getText() ?? "";
  if (new ConnectionError(code as Code, "", { stage: "tcp", hasNoEffect: true }).retryable === false) return "no";
  if (!/hasNoEffect|facts|SAFE/.test(text)) return "no";
  return /^{[^}]*hasNoEffect: true\b/.test(text) && !/isLasting|\.\.\./.test(text) ? "yes" : "if";
}

/** For each code, what all places in js/ where such an error is made say of `retryable`. */
function retryableInSources(): Map<string, Set<string>> {
  const found = new Map(declared.map((code) => [code as string, new Set<string>()]));
  for (const file of files("js", ".ts")) {
    const visit = (node: ts.Node): void => {
      ts.forEachChild(node, visit);
      if (!ts.isNewExpression(node) || !/Error$/.test(node.expression.getText())) return;
      const [code, , facts] = node.arguments ?? [];
      if (code && ts.isStringLiteral(code)) found.get(code.text)?.add(retryableWith(code.text, facts));
    };
    visit(ts.createSourceFile(file, source(file), ts.ScriptTarget.Latest, true));
  }
  return found;
}

test("docs/errors.md says of each code whether it is retryable, as the sources do", () => {
  const inSources = retryableInSources();
  for (const [code, [, retryable = ""]] of documented) {
    const [said, ...others] = inSources.get(code)!;
    expect(/^(no|yes|if)\b/.exec(retryable)?.[0], code).toBe(others.length ? "if" : (said ?? "no"));
  }
});

test("a call that fails however often it is made is not retryable, even if nothing was sent", () => {
  for (const code of ["CLIENT_CLOSED", "POOL_CLOSED", "LEASE_RELEASED"] as const)
    expect(new UsageError(code, "text", { hasNoEffect: true })).toMatchObject({ hasNoEffect: true, retryable: false });
  expect(new AbortError("left", { hasNoEffect: true })).toMatchObject({ hasNoEffect: true, retryable: false });
  expect(Object.keys(new AbortError())).not.toContain("hasNoEffect");
});

test.each([
  ["dns", "getaddrinfo ENOTFOUND db", false],
  ["dns", "failed to lookup address information: Name or service not known", false],
  ["dns", "getaddrinfo EAI_AGAIN db", true],
  ["dns", "failed to lookup address information: Temporary failure in name resolution", true],
  ["dns", "failed to lookup address information: Try again", true],
  ["tcp", "connect ECONNREFUSED 10.0.0.1:5432", true],
] as const)("a connect that fails in %s with %s", (stage, reason, retryable) => {
  const error = connectFailed(stage, reason);
  expect(error).toMatchObject({ code: "CONNECT_FAILED", stage, hasNoEffect: true, retryable });
  const all = noHost([{ host: "a", port: 1, error }]);
  expect(all).toMatchObject({ hasNoEffect: true, retryable });
});

test("every code in the sources is documented, with the class that carries it", () => {
  const found: [code: string, constructor: string | undefined, file: string][] = [];
  for (const file of files("js", ".ts")) {
    if (file === "js/util/errors.ts") continue;
    for (const match of source(file).matchAll(
      /\bnew (\w+Error)\(\s*"([A-Z][A-Z0-9_]{5,})"|\bcode: "([A-Z][A-Z0-9_]{5,})"/g,
    ))
      found.push([match[2] ?? match[3] ?? "", match[1], file]);
  }
  // In the core a code is an upper-case literal with an underscore.
  for (const file of files("src", ".rs").filter((name) => !/\/tests(\.rs|\/)/.test(name))) {
    const production = source(file).split("#[cfg(test)]\nmod ")[0] ?? "";
    for (const match of production.matchAll(/"([A-Z]+(?:_[A-Z]+)+)"/g)) {
      found.push([match[1] ?? "", undefined, file]);
    }
  }
  expect(found.length).toBeGreaterThan(10);
  for (const [code, constructor, file] of found) {
    expect([...documented.keys()], `${code} in ${file}`).toContain(code);
    if (constructor)
      expect(`${code} ${constructor}`, file).toBe(`${code} ${documented.get(code)?.[0]?.replaceAll("`", "")}`);
  }
});
