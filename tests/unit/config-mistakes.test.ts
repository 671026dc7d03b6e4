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

test.each(["localhost:6711", "10.0.0.1:5432", "a,b:1"])("a host with a port: %s", (host) => {
  const message = 'Option "host" must be without a port, which belongs in option "port".';
  expect(refused({ host, user: "u" })).toMatchObject({ code: "INVALID_OPTION", message });
  expect(refused(`host=${host} user=u`)).toMatchObject({ code: "INVALID_OPTION", message });
});

test.each(["::1", "fe80::1%1", "1::2:3", "/run/a:1"])("a host with colons that has no port: %s", (host) => {
  expect(of({ host, user: "u" }).host).toBe(host);
});

test.each<[option: object, advice: string]>([
  [{ ssl: { rejectUnauthorized: false } }, 'write "sslmode", such as "verify-full", and "ca" or "cert" where you'],
  [{ statement_timeout: 5 }, 'write startup: { statement_timeout: … }, or "timeout" for calls'],
  [{ query_timeout: 5 }, 'write "timeout"'],
  [{ connection: {} }, 'settings of the session belong in "startup"'],
  [{ onnotice() {} }, "write observer: { onNotice }"],
  [{ maxConnections: 5 }, 'a pool takes "max"'],
  [{ transform: {} }, 'write columnNames: "camelCase"'],
  [{ schema: "app" }, "write startup: { search_path: … }"],
  [{ db: "app" }, 'write "database"'],
  [{ server: "h" }, 'write "host"'],
  [{ logger: console }, "write observer: { onQueryEnd }"],
  [{ keepAliveInitialDelayMillis: 5 }, 'write "keepAlive"'],
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

const SETTINGS =
  "timezone timeZone DateStyle search_path idle_in_transaction_session_timeout transaction_timeout work_mem";

test.each(SETTINGS.split(" "))("a setting of the server belongs in startup: %s", (name) => {
  const advice = `If it is a setting of the server, pass option startup: { ${name}: … }.`;
  expect(refused({ host: "h", user: "u", [name]: 5 }).message).toContain(advice);
  expect(() => createPool({ host: "h", user: "u", [name]: 5 } as object)).toThrow(advice);
  if (name === "work_mem") expect(refused(`postgres://u@h/d?${name}=5`).message).toContain(advice);
});

test("a setting of an extension is a member in quotes", () => {
  expect(refused({ host: "h", user: "u", "app.tenant": "7" }).message).toContain('startup: { "app.tenant": … }');
});

test.each([
  ["idleTimout", "idleTimeout"],
  ["passwrod", "password"],
  ["usr", "user"],
  ["hostname", "host"],
  ["userName", "user"],
  ["appName", "applicationName"],
  ["application_name", "applicationName"],
  ["connection_timeout", "connectTimeout"],
])("%s is near to %s", (name, nearest) => {
  expect(() => createPool({ host: "h", user: "u", [name]: 5 } as object)).toThrow(
    `Unknown option "${name}". The nearest known name is "${nearest}".`,
  );
});

test.each(["timezone", "maxUses", "sessions", "search_path", "__proto__ ", "x".repeat(10_000)])(
  "letters that two names begin with are no reason to suggest one: %s",
  (name) => expect(refused({ host: "h", user: "u", [name]: 5 }).message).not.toContain("nearest"),
);

test("where the known names are many, the page that has them is named", () => {
  const client = refused({ host: "h", user: "u", nonsense: 5 });
  expect(client.message).toBe('Unknown option "nonsense". The known names are in docs/options.md.');
  expect(() => createPool({ host: "h", user: "u", nonsense: 5 } as object)).toThrow("docs/pool.md and docs/options.md");
});

test.each([
  ["postgres://u@h/d?databse=app", 'Unknown URL parameter "databse". The nearest known name is "dbname".'],
  ["postgres://u@h?database=app", 'Unknown URL parameter "database". The nearest known name is "dbname".'],
  ["host=h user=u databse=app", 'Unknown parameter "databse". The nearest known name is "dbname".'],
  ["host=h user=u db=app", 'Unknown parameter "db". The nearest known name is "dbname".'],
  ["host=h user=u password=secret databse=app", 'Unknown parameter. The nearest known name is "dbname".'],
  ["host=h user=u nonsense=x", 'Unknown parameter "nonsense". The known names are in docs/connecting.md#parameters.'],
  ["postgres://u@h/d?min=2", '"min" is an option of a pool, and no parameter of a connection string: pass it beside'],
])("%s", (text, message) => expect(refused(text).message).toContain(message));

test("startup takes numbers and booleans, and a wrong member is named", () => {
  const startup = { statement_timeout: 5_000, jit: false, search_path: "app" };
  expect(of({ host: "h", user: "u", startup }).startup).toEqual([
    ["statement_timeout", "5000"],
    ["jit", "false"],
    ["search_path", "app"],
  ]);
  for (const [member, message] of [
    [{ a: null }, 'must be an object with "a" as text without NUL, a finite number or a boolean.'],
    [{ User: "u" }, 'must be without "User", which has an option of its own.'],
    [{ client_encoding: "LATIN1" }, 'must be without "client_encoding", which is always UTF8.'],
    [{ "a\0b": "x" }, "must be without one of its members, which is no name of a setting."],
  ] as const)
    expect(refused({ host: "h", user: "u", startup: { jit: "off", ...member } }).message).toContain(message);
});
