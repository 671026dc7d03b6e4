// Options: their sources, and the parameters that a session starts with.
import { expect, test } from "vitest";
import { resolveConfig, startupParameters } from "../../js/config/config.ts";
import { of, passwordOf, standIn, URL_ } from "./config-input.ts";

test("the defaults are as documented", async () => {
  const whole = of({ user: "ada" });
  const { password, key, ...config } = whole;
  expect(config).toEqual({
    host: "localhost",
    hostaddr: undefined,
    port: 5432,
    hosts: [{ host: "localhost", hostaddr: undefined, port: 5432, localLink: false, sslmode: "prefer" }],
    targetSessionAttrs: "any",
    loadBalanceHosts: "disable",
    notices: [],
    pool: {},
    user: "ada",
    database: "ada",
    applicationName: "pgz-edge",
    startup: [],
    options: "",
    sslmode: "prefer",
    sslnegotiation: "postgres",
    allowCleartextPassword: false,
    channelBinding: "prefer",
    scramMinIterations: 4096,
    scramMaxIterations: 100_000,
    connectTimeout: 10_000,
    timeout: 0,
    closeTimeout: 30_000,
    observeParameters: false,
    debug: false,
    slowQueryThreshold: 0,
    maxRows: 0,
    maxBytes: 0,
    maxFieldBytes: 0,
    onLimit: "error",
    duplicates: "keep",
    columnNames: "keep",
    dates: "string",
    bytea: "uint8array",
    json: "parse",
    maxMessageBytes: 1 << 30,
    flushBytes: 65_536,
    flushInterval: 100,
    statementCacheSize: 64,
    prepare: "auto",
    earlyQuery: "auto",
    firstRun: "text",
    pipelining: 100,
    retryOnSerialization: false,
    keepAlive: 30_000,
    readBuffer: 65_536,
    maxProtocolVersion: "3.0",
    localLink: false,
  });
  expect(await password(whole)).toEqual({ password: undefined });
  expect(key()).toBeUndefined();
  expect(resolveConfig({ user: "ada" }, { isWorkerd: true }).maxMessageBytes).toBe(8 << 20);
  expect(Object.isFrozen(of(URL_))).toBe(true);
});

test.each([
  ["postgres://ada@h/d", { host: "h", port: 5432, user: "ada", database: "d" }],
  ["postgresql://ada@h:6000", { host: "h", port: 6000, database: "ada" }],
  ["postgres://ada@/d", { host: "localhost", database: "d" }],
  ["postgres://ada@", { host: "localhost", database: "ada" }],
  ["postgres:///d?user=ada&host=h&port=7", { host: "h", port: 7, user: "ada", database: "d" }],
  ["postgres://?user=ada", { host: "localhost" }],
  ["postgres://ada@[::1]:6000/d", { host: "::1", port: 6000 }],
  ["postgres://ada@[2001:db8::1]", { host: "2001:db8::1", port: 5432 }],
  ["postgres://ada@h/a/b%20c", { database: "a/b c" }],
  ["postgres://a%40b:x@h/%C3%A9", { user: "a@b", database: "é" }],
  ["  postgres://ada@h/d\n", { host: "h", database: "d" }],
  [
    "postgres://ada@h/d?application_name=a+b%26c&connect_timeout=3&options=-c%20geqo%3Doff",
    { applicationName: "a+b&c", connectTimeout: 3_000, options: "-c geqo=off" },
  ],
  [
    "postgres://ada@h/d?sslmode=require&sslnegotiation=direct&channel_binding=disable&require_auth=scram-sha-256&max_protocol_version=3.2",
    {
      sslmode: "require",
      sslnegotiation: "direct",
      channelBinding: "disable",
      requireAuth: "scram-sha-256",
      maxProtocolVersion: "3.2",
    },
  ],
  ["postgres://ada@h?sslrootcert=system&", { ca: undefined, sslmode: "verify-full" }],
  ["postgres://ada@h?sslrootcert=system&sslmode=require", { sslmode: "verify-full" }],
  ["postgres://ada@h?sslmode=disable&sslrootcert=system", { sslmode: "verify-full" }],
  ["postgres://h/d?user=ada&dbname=e", { database: "e" }],
])("the URL %j", (url, expected) => expect(of(url)).toMatchObject(expected));

test.each([
  ["postgres://ada:secret@h/d", "secret"],
  ["postgres://ada:@h/d", ""],
  ["postgres://ada:a:b%40%2F%25%3F#!?@h/d", "a:b@/%?#!?"],
  ["postgres://ada@h/d?password=p%26q", "p&q"],
  ["postgres://ada@h/d", undefined],
])("the password of %j", async (url, password) => expect(await passwordOf(of(url))).toBe(password));

test("a URL object, a Hyperdrive binding and a connectionString are read alike", () => {
  class Hyperdrive {
    connectionString = "postgres://ada:secret@abc.hyperdrive.local:5432/app?sslmode=disable";
    host = "abc.hyperdrive.local";
    connect() {}
  }
  expect(of(new Hyperdrive())).toMatchObject({
    host: "abc.hyperdrive.local",
    user: "ada",
    sslmode: "disable",
    localLink: true,
    connect: undefined,
  });
  expect(of(new URL(URL_))).toMatchObject({ host: "db.example.com", user: "ada", database: "app" });
  expect(of({ connectionString: URL_ })).toMatchObject({ host: "db.example.com", user: "ada", database: "app" });
});

test("wrangler's stand-in for a Hyperdrive binding in Node is read as a binding", () => {
  expect(of(standIn)).toMatchObject({ host: "localhost", user: "ada", sslmode: "disable", connect: undefined });
});

test("later sources win (URL, the object's options, the overrides), and undefined overrides nothing", () => {
  const input = {
    connectionString: "postgres://ada@one:1/a?application_name=x",
    host: "two",
    port: 2,
    user: undefined,
  };
  expect(of(input, { host: "three", port: undefined })).toMatchObject({
    host: "three",
    port: 2,
    user: "ada",
    database: "a",
    applicationName: "x",
  });
});

test("a link is local by its host or by the option, and then plain unless TLS is requested", () => {
  expect(of({ user: "a", host: "x.hyperdrive.local" })).toMatchObject({ localLink: true, sslmode: "disable" });
  expect(of({ user: "a", host: "x.hyperdrive.local", sslmode: "require" })).toMatchObject({
    localLink: true,
    sslmode: "require",
  });
  expect(of({ user: "a", host: "x.hyperdrive.local.example.com" }).localLink).toBe(false);
  expect(of({ user: "a", host: "x.hyperdrive.local", localLink: false }).localLink).toBe(false);
  expect(of({ user: "a", localLink: true }).sslmode).toBe("disable");
});

test("StartupMessage has its parameters in order, always with UTF-8", () => {
  const config = of({
    user: "ada",
    database: "app",
    startup: { search_path: "x", TimeZone: "UTC" },
    options: "-c geqo=off",
  });
  expect(startupParameters(config)).toEqual([
    ["user", "ada"],
    ["database", "app"],
    ["application_name", "pgz-edge"],
    ["client_encoding", "UTF8"],
    ["options", "-c geqo=off"],
    ["search_path", "x"],
    ["TimeZone", "UTC"],
  ]);
  expect(startupParameters(of({ user: "ada" })).map(([name]) => name)).toEqual([
    "user",
    "database",
    "application_name",
    "client_encoding",
  ]);
});
