// What strangers pass at first: other drivers' options, and texts that are nearly a URL. Each error says what to write.
import { expect, test } from "vitest";
import { createPool } from "../../js/index.ts";
import { useMemoryServer } from "../support/memory-session.ts";
import { of, refused } from "./config-input.ts";

useMemoryServer();

test.each([
  ["", "The URL is empty. A variable may be missing, or its name misspelt."],
  [" \n", "The URL is empty. A variable may be missing, or its name misspelt."],
  ['"postgres://u:secret@h/d"', "The URL begins with a quotation mark: pass it without quotes."],
  ["psql 'postgres://u:secret@h/d'", "The URL begins with psql: pass only what follows, without quotes."],
  ["DATABASE_URL=postgres://u:secret@h/d", "The URL begins with a variable's name: pass only what follows the =."],
  ["database_url = postgres://u:secret@h/d", "The URL begins with a variable's name: pass only what follows the =."],
  ['export PG_URL="postgresql://u:secret@h"', "The URL begins with a variable's name: pass only what follows the =."],
  [
    "jdbc:postgresql://h/d?user=u&password=secret",
    "The URL is JDBC's: leave out jdbc:, and write the user and the password as in postgres://user:password@host.",
  ],
  ["mysql://u:secret@h/d", "The URL is not PostgreSQL's: it must begin with postgres://."],
  [
    "prisma+postgres://accelerate.prisma-data.net/?api_key=secret",
    "The URL is not PostgreSQL's: it must begin with postgres://.",
  ],
])("%j", (url, message) => {
  expect(refused(url)).toMatchObject({ code: "INVALID_URL", message });
});

test.each([undefined, null, ""])("a connectionString that is %s is missed before the user", (connectionString) => {
  expect(refused({ connectionString })).toMatchObject({
    code: "INVALID_URL",
    message: expect.stringMatching(/^(Nothing to connect to: connectionString is|The URL is empty)/) as string,
  });
  if (connectionString === "") return;
  expect(of({ connectionString, host: "h", user: "u" } as never).host).toBe("h");
});

test("keywords that look like a variable are read as keywords", () => {
  expect(of("user=postgres host=h").user).toBe("postgres");
  expect(of("dbname=postgres://other/e user=u").database).toBe("postgres://other/e");
  expect(refused("USER=postgres host=h").message).toContain('The nearest known name is "user"');
});

test.each(["postgres://h/d", { host: "h" }])("without a user: %j", (input) => {
  const message =
    'Option "user" must be given, as text without NUL: in the URL (postgres://user@host), here, or as PGUSER.';
  expect(refused(input)).toMatchObject({ code: "INVALID_OPTION", message });
});

test.each<[option: object, advice: string]>([
  [{ ssl: { rejectUnauthorized: false } }, 'write "sslmode", such as "verify-full", and "ca" or "cert" where you'],
  [{ statement_timeout: 5 }, 'write startup: { statement_timeout: … }, or "timeout" for calls'],
  [{ query_timeout: 5 }, 'write "timeout"'],
  [{ connection: {} }, 'settings of the session belong in "startup"'],
  [{ onnotice() {} }, "write observer: { onNotice }"],
  [{ maxConnections: 5 }, 'a pool takes "max"'],
  [{ transform: {} }, 'write columnNames: "camelCase"'],
  [{ max: 5 }, "a client has one connection; createPool takes it"],
  [{ idleTimeoutMillis: 5 }, "a client has one connection; createPool takes it"],
  [{ max_lifetime: 5 }, "a client has one connection; createPool takes it"],
])("%j of another driver", (option, advice) => {
  const error = refused({ host: "h", user: "u", ...option });
  expect(error.code).toBe("UNKNOWN_OPTION");
  expect(error.message).toContain(`"${Object.keys(option)[0]}": ${advice}`);
});

test("a pool, which has such options, is told their names", () => {
  for (const [name, here] of [
    ["idleTimeoutMillis", "idleTimeout"],
    ["max_lifetime", "maxLifetime"],
  ] as const)
    expect(() => createPool({ host: "h", user: "u", [name]: 5 } as object)).toThrow(
      `Unknown option "${name}". The nearest known name is "${here}".`,
    );
});

test("a pool gives the same advice about another driver's options as a client", () => {
  for (const [name, advice] of [
    ["ssl", 'write "sslmode"'],
    ["statementTimeout", "write startup: { statement_timeout: … }"],
    ["allowExitOnIdle", "leave it out"],
    ["url", "pass the URL itself"],
  ] as const)
    expect(() => createPool({ host: "h", user: "u", [name]: 5 } as object)).toThrow(`"${name}": ${advice}`);
});
