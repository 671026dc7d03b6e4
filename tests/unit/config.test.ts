// Options: where they come from, what they may be, what follows from them; and that no secret shows anywhere.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { inspect } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { allowedMethods, allowsEarlyQuery } from "../../js/config/authentication.ts";
import { optionNames, resolveConfig, startupParameters } from "../../js/config/config.ts";
import type { ConnectInput, Options } from "../../js/config/options.ts";
import { deservesNextAttempt, tlsPlan } from "../../js/config/tls.ts";
import { ConnectionError, fromErrorResponse, UsageError } from "../../js/util/errors.ts";

const URL_ = "postgres://ada:secret@db.example.com/app";
const of = (input: ConnectInput, overrides?: Options) => resolveConfig(input, {}, overrides);
const refused = (input: unknown, overrides?: unknown) => {
  try {
    resolveConfig(input as ConnectInput, {}, (overrides ?? {}) as Options);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return error as UsageError;
  }
  throw new Error("was accepted");
};

// -- where options come from -----------------------------------------------------------------------------------------

test("the defaults", async () => {
  const { password, key, ...config } = of({ user: "ada" });
  expect(config).toEqual({
    host: "localhost",
    port: 5432,
    user: "ada",
    database: "ada",
    applicationName: "pgz-edge",
    startup: [],
    options: "",
    sslmode: "prefer",
    sslnegotiation: "postgres",
    allowCleartextPassword: false,
    channelBinding: "prefer",
    scramMaxIterations: 100_000,
    connectTimeout: 10_000,
    timeout: 0,
    slowQueryThreshold: 0,
    maxRows: 0,
    maxBytes: 0,
    maxFieldBytes: 0,
    onLimit: "error",
    duplicates: "keep",
    dates: "string",
    bytea: "uint8array",
    json: "parse",
    maxMessageBytes: 1 << 30,
    flushBytes: 65_536,
    flushInterval: 100,
    statementCacheSize: 64,
    prepare: "auto",
    earlyQuery: "auto",
    pipelining: 100,
    retryOnSerialization: false,
    keepAlive: 30_000,
    readBuffer: 65_536,
    maxProtocolVersion: "3.0",
    localLink: false,
  });
  expect(await password()).toBeUndefined();
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
])("the password of %j", async (url, password) => expect(await of(url).password()).toBe(password));

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

test("later sources win: URL, the object's options, the overrides; undefined says nothing", () => {
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

test("a password function is asked at each connection, and what it gives is checked", async () => {
  let asked = 0;
  const config = of({ user: "ada", password: async () => `token ${++asked}` });
  expect(asked).toBe(0);
  expect([await config.password(), await config.password()]).toEqual(["token 1", "token 2"]);
  await expect(of({ user: "ada", password: () => "a\0b" }).password()).rejects.toMatchObject({
    code: "INVALID_OPTION",
  });
  await expect(of({ user: "ada", password: (() => 5) as never }).password()).rejects.toMatchObject({
    code: "INVALID_OPTION",
  });
});

test("a link is local by its host or by the option, and then plain unless asked otherwise", () => {
  expect(of({ user: "a", host: "x.hyperdrive.local" })).toMatchObject({ localLink: true, sslmode: "disable" });
  expect(of({ user: "a", host: "x.hyperdrive.local", sslmode: "require" })).toMatchObject({
    localLink: true,
    sslmode: "require",
  });
  expect(of({ user: "a", host: "x.hyperdrive.local.example.com" }).localLink).toBe(false);
  expect(of({ user: "a", host: "x.hyperdrive.local", localLink: false }).localLink).toBe(false);
  expect(of({ user: "a", localLink: true }).sslmode).toBe("disable");
});

// -- what is refused -------------------------------------------------------------------------------------------------

test.each([
  "",
  "localhost",
  "mysql://ada@h/d",
  "host=localhost user=ada",
  "postgres:ada@h",
  "postgres://ada:p@ss@h/d",
  "postgres://ada:p/w@h/d",
  "postgres://ada@[::1/d",
  "postgres://ada:100%@h/d",
  "postgres://ada:%zz@h",
  "postgres://ada@h/%ff",
  "postgres://ada@h/d?application_name=a@b",
])("INVALID_URL: %j", (url) => expect(refused(url).code).toBe("INVALID_URL"));

test.each([null, undefined, 5, true, () => 1, new Date()])("INVALID_URL: %s is no input", (input) =>
  expect(refused(input).code).toBe("INVALID_URL"),
);

test.each(["Require", "verify_full", "true", "", "disabled", 1, true, {}])("INVALID_SSLMODE: %j", (sslmode) => {
  expect(refused({ user: "a", sslmode })).toMatchObject({
    code: "INVALID_SSLMODE",
    message: expect.stringContaining("verify-full"),
  });
  if (typeof sslmode === "string" && sslmode !== "")
    expect(refused(`postgres://a@h/d?sslmode=${sslmode}`).code).toBe("INVALID_SSLMODE");
});

test.each([
  [{ hosts: "h" }, '"hosts"', '"host"'],
  [{ sslMode: "require" }, '"sslMode"', '"sslmode"'],
  [{ ssl: true }, '"ssl"', '"sslmode"'],
  [{ statementCache: 5 }, '"statementCache"', '"statementCacheSize"'],
  [{ toString: 1 }, '"toString"', '"'],
  [{ application_name: "x" }, '"application_name"', '"applicationName"'],
])("UNKNOWN_OPTION: %j names it and the nearest", (option, name, nearest) => {
  const error = refused({ user: "a", ...option });
  expect(error.code).toBe("UNKNOWN_OPTION");
  expect(error.message).toContain(`option ${name}`);
  expect(error.message).toContain(nearest);
  expect(refused(URL_, option).code).toBe("UNKNOWN_OPTION");
});

test.each([
  ["target_session_attrs=any", "target_session_attrs", ""],
  ["ssl_mode=require", "ssl_mode", "sslmode"],
  ["application-name=x", "", "application_name"],
  ["applicationName=x", "applicationName", "application_name"],
  ["sslrootcert=/root.crt", "sslrootcert", '"ca"'],
  ["sslkey=k", "sslkey", '"key"'],
  ["__proto__=x", "__proto__", ""],
])("UNKNOWN_OPTION: URL parameter %s", (parameter, name, advice) => {
  const error = refused(`${URL_}?${parameter}`);
  expect(error.code).toBe("UNKNOWN_OPTION");
  expect(error.message).toContain(name);
  expect(error.message).toContain(advice);
});

test.each<[keyof Options, unknown[]]>([
  ["host", [5, "", "a b", "a,b", "/tmp", "a@b", "a\0b"]],
  ["port", [0, 65_536, 1.5, NaN, "5432", -1]],
  ["database", ["", 5, "a\0b"]],
  ["user", ["", 5, "x\0user\0admin"]],
  ["password", [5, "a\0b", {}]],
  ["applicationName", [5, "x\0user\0admin"]],
  [
    "startup",
    [
      5,
      "a",
      { a: 1 },
      { a: "x\0y" },
      { "a\0b": "x" },
      { "": "x" },
      { user: "x" },
      { DATABASE: "x" },
      { replication: "true" },
      { client_encoding: "LATIN1" },
      { "_pq_.x": "1" },
    ],
  ],
  ["options", [5, "-c a=b\0user\0admin"]],
  ["sslnegotiation", ["Direct", "", 1]],
  ["servername", ["", 5]],
  ["ca", ["", "/etc/ca.pem", 5]],
  [
    "requireAuth",
    [
      "",
      "scram",
      "scram-sha-256,",
      "md5,!none",
      "!md5,none",
      "!md5,xnone",
      "gss",
      "sspi",
      "oauth",
      "!none,!password,!md5,!scram-sha-256",
      5,
      "__proto__",
    ],
  ],
  ["allowCleartextPassword", ["true", 1]],
  ["channelBinding", ["tls-unique", true]],
  ["scramMaxIterations", [0, 1.5, "4096", 1e9]],
  ["connectTimeout", [0, -1, 1.5, Infinity, 2 ** 31, "10"]],
  ["timeout", [-1, 0.5, 2 ** 31, NaN, Infinity]],
  ["maxRows", [-1, 0.5, Infinity, "10"]],
  ["maxBytes", [-1, 0.5, Infinity, 10n]],
  ["maxMessageBytes", [0, 1_000, 2 ** 30 + 1]],
  ["flushBytes", [0, -1, 2 ** 31]],
  ["flushInterval", [-1, Infinity]],
  ["statementCacheSize", [-1, 65_536, 1.5]],
  ["prepare", ["always", true]],
  ["retryOnSerialization", [0, 1.5, "yes"]],
  ["earlyQuery", ["yes", 1]],
  ["keepAlive", [-1, true]],
  ["readBuffer", [0, 2 ** 30]],
  ["maxProtocolVersion", [3, "3.1", "2.0"]],
  ["localLink", ["yes", 0]],
  ["connect", [{}, "net"]],
  ["signal", [{}, true]],
  ["observer", [5, () => {}, { onNotice: 1 }, { onQueryEnd: "x" }]],
  ["slowQueryThreshold", [-1, 1.5, "1"]],
])("INVALID_OPTION: %s", (name, values) => {
  for (const value of values) {
    const error = refused({ user: "a", [name]: value });
    expect([error.code, error.message], String(value)).toEqual([
      "INVALID_OPTION",
      expect.stringContaining(`"${name}"`),
    ]);
  }
});

test.each([
  "port=abc",
  "port=1:2",
  "port=99999",
  "port=+5",
  "connect_timeout=0",
  "connect_timeout=-1",
  "connect_timeout=x",
  "connect_timeout=",
  "user=a%00b",
  "application_name=%00",
  "host=a,b",
  "max_protocol_version=2",
])("INVALID_OPTION: URL parameter %s", (parameter) =>
  expect(refused(`postgres://ada@h/d?${parameter}`).code).toBe("INVALID_OPTION"),
);

test("a user must be named", () =>
  expect(refused("postgres://localhost/app")).toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringContaining('"user"'),
  }));

test("options that contradict each other", () => {
  const PEM = "-----BEGIN CERTIFICATE-----\nx";
  expect(refused({ user: "a", cert: PEM }).code).toBe("INVALID_OPTION");
  expect(refused({ user: "a", key: PEM }).code).toBe("INVALID_OPTION");
  for (const sslmode of ["disable", "allow", "prefer"])
    expect(refused({ user: "a", sslmode, sslnegotiation: "direct" }).code).toBe("INVALID_OPTION");
  expect(of({ user: "a", sslmode: "require", sslnegotiation: "direct", cert: PEM, key: PEM }).key()).toBe(PEM);
});

test("channel binding cannot be required, anywhere, instead of being dropped silently", () => {
  expect(refused({ user: "a", channelBinding: "require" }).code).toBe("CHANNEL_BINDING_UNSUPPORTED");
  expect(refused(`${URL_}?sslmode=require&channel_binding=require`).code).toBe("CHANNEL_BINDING_UNSUPPORTED");
});

// -- secrets ---------------------------------------------------------------------------------------------------------

const everything = (value: unknown): string => {
  const error = value as Error;
  const shown = [
    inspect(value, { depth: null, showHidden: true, getters: true }),
    JSON.stringify(value),
    String(value),
    JSON.stringify({ ...(value as object) }),
  ];
  if (error instanceof Error) shown.push(error.message, error.stack ?? "", inspect(error.cause));
  return shown.join("\n");
};

const password = fc
  .string({
    unit: fc.constantFrom(..."abcXYZ019@:/?#[]%&=+ ,\\\"'`$é😀\0\n", "host=", "%41"),
    minLength: 6,
    maxLength: 24,
  })
  .map((text) => `Zq7${text}`);
const place = fc.constantFrom<(password: string) => string>(
  (p) => `postgres://ada:${p}@h/d`,
  (p) => `postgres://ada:${p}@h:port/d`,
  (p) => `postgres://ada:${p}@[::1/d?sslmode=x`,
  (p) => `postgres://ada:${encodeURIComponent(p)}@h/d?nope=1`,
  (p) => `postgres://ada:${encodeURIComponent(p)}@h/d`,
  (p) => `postgres://ada:${encodeURIComponent(p)}@h:0/d`,
  (p) => `postgres://${p}@h/d`.replace("://", "://ada:"),
  (p) => `postgres//ada:${p}@h/d`,
  (p) => `postgres://ada:${p}`,
  (p) => `postgres://ada:${p}/d?user=ada`,
  (p) => `ada:${p}@h/d`,
  (p) => `postgres://h/d?user=ada&password=${p}`,
  (p) => `postgres://h/d?user=ada&pasword=${p}`,
  (p) => `postgres://h/d?user=ada&sslmode=${p}`,
  (p) => `postgres://h/d?user=ada&connect_timeout=${p}`,
  (p) => `host=h user=ada password=${p}`,
);

test("no error and no view of a Config shows a password, however badly it is written into the URL", () => {
  let errors = 0;
  fc.assert(
    fc.property(password, place, fc.boolean(), (secret, write, asObject) => {
      const url = write(secret);
      let outcome: unknown;
      try {
        outcome = resolveConfig(asObject ? { connectionString: url } : url);
      } catch (error) {
        errors++;
        outcome = error;
      }
      expect(everything(outcome)).not.toContain(secret);
      expect(everything(outcome)).not.toContain("Zq7");
    }),
    { numRuns: 3_000 },
  );
  expect(errors).toBeGreaterThan(1_000);
});

test("an object's password and key show nowhere either", () => {
  const config = of({
    user: "ada",
    password: "Zq7 secret",
    cert: "-----BEGIN CERTIFICATE-----\nx",
    key: "-----BEGIN PRIVATE KEY-----\nZq7",
  });
  expect(everything(config)).not.toContain("Zq7");
  expect(everything(refused({ user: "ada", password: "Zq7 secret\0" }))).not.toContain("Zq7");
  expect(everything(refused({ user: "ada", password: "Zq7 secret", port: -1 }))).not.toContain("Zq7");
});

// -- what follows ----------------------------------------------------------------------------------------------------

test("StartupMessage's parameters in order, always in UTF-8", () => {
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

const node: Parameters<typeof tlsPlan>[1] = {
  name: "Node",
  capabilities: { canSkipVerification: true, canUseCustomCa: true, canAlpn: true, canClientCertificate: true },
};
const workers: Parameters<typeof tlsPlan>[1] = { name: "Cloudflare Workers" };
const plan = (options: Options, runtime: typeof node) => {
  const { attempts, verify } = tlsPlan(of({ user: "a", host: "h", ...options }), runtime);
  return `${attempts.map((encrypt) => (encrypt ? "TLS" : "plain")).join(", ")}; ${verify}`;
};
const ca = "-----BEGIN CERTIFICATE-----\nx";

test.each<[Options, string, string]>([
  [{ sslmode: "disable" }, "plain; none", "plain; none"],
  [{ sslmode: "allow" }, "plain, TLS; none", "plain, TLS; full"],
  [{ sslmode: "prefer" }, "TLS, plain; none", "TLS; full"],
  [{}, "TLS, plain; none", "TLS; full"],
  [{ sslmode: "require" }, "TLS; none", "TLS; full"],
  [{ sslmode: "verify-ca" }, "TLS; ca", "TLS; full"],
  [{ sslmode: "verify-full" }, "TLS; full", "TLS; full"],
  [{ sslmode: "verify-full", servername: "h" }, "TLS; full", "TLS; full"],
])("the TLS plan of %j in Node, and on Workers", (options, inNode, onWorkers) => {
  expect([plan(options, node), plan(options, workers)]).toEqual([inNode, onWorkers]);
});

test.each<[Options, string, string]>([
  [{ sslmode: "require", ca }, "TLS; ca", "ca"],
  [{ sslmode: "prefer", ca }, "TLS, plain; ca", "ca"],
  [{ sslmode: "verify-full", ca }, "TLS; full", "ca"],
  [{ sslmode: "verify-full", cert: ca, key: ca }, "TLS; full", "cert"],
  [{ sslmode: "require", sslnegotiation: "direct" }, "TLS; none", "sslnegotiation"],
  [{ sslmode: "verify-full", sslnegotiation: "direct" }, "TLS; full", "sslnegotiation"],
  [{ sslmode: "require", servername: "other" }, "TLS; none", "servername"],
])("%j works in Node, and is an error on Workers", (options, inNode, named) => {
  expect(plan(options, node)).toBe(inNode);
  expect(() => plan(options, workers)).toThrow(
    expect.objectContaining({
      code: "UNSUPPORTED_ON_RUNTIME",
      message: expect.stringMatching(`Cloudflare Workers.*"${named}"`),
    }),
  );
});

test("what asks for TLS does not matter where there is none", () =>
  expect(plan({ sslmode: "disable", ca }, workers)).toBe("plain; none"));

test("never weaker: no mode on any runtime verifies less than libpq's, or goes plain where libpq does not", () => {
  const strength = { none: 0, ca: 1, full: 2 };
  const least = { disable: 0, allow: 0, prefer: 0, require: 0, "verify-ca": 1, "verify-full": 2 };
  for (const runtime of [
    node,
    workers,
    { ...node, capabilities: { ...node.capabilities, canSkipVerification: false } },
    { ...workers, capabilities: { canSkipVerification: true } },
  ]) {
    for (const [sslmode, verified] of Object.entries(least)) {
      const { attempts, verify } = tlsPlan(of({ user: "a", sslmode: sslmode as never }), runtime);
      expect(strength[verify]).toBeGreaterThanOrEqual(verified);
      if (/^(require|verify)/.test(sslmode)) expect(attempts.every(Boolean)).toBe(true);
    }
  }
});

test("the next attempt is for failed handshakes and missing pg_hba.conf lines only", () => {
  expect(deservesNextAttempt(new ConnectionError("TLS_FAILED", "x", { stage: "tls" }))).toBe(true);
  expect(deservesNextAttempt(fromErrorResponse({ code: "28000" }, true))).toBe(true);
  for (const code of ["28P01", "57P03", "53300", "3D000", "128000", "280001"])
    expect(deservesNextAttempt(fromErrorResponse({ code }, true))).toBe(false);
  expect(deservesNextAttempt(new ConnectionError("CONNECT_FAILED", "x", { stage: "tcp" }))).toBe(false);
  expect(deservesNextAttempt(new Error("28000"))).toBe(false);
});

test("which authentication methods are allowed", () => {
  const bits = (options: Options, encrypted: boolean, verify: "none" | "ca" | "full" = "full") =>
    allowedMethods(of({ user: "a", ...options }), verify, encrypted);
  expect(bits({}, true)).toBe(1 | 2 | 4 | 8);
  expect(bits({}, false)).toBe(1 | 4 | 8 | 16);
  expect(bits({ localLink: true }, false)).toBe(15);
  expect(bits({ allowCleartextPassword: true }, false)).toBe(15);
  expect(bits({ requireAuth: "scram-sha-256" }, true)).toBe(8);
  expect(bits({ requireAuth: "gss, md5 ,none" }, true)).toBe(1 | 4);
  expect(bits({ requireAuth: "!md5,!password" }, true)).toBe(1 | 8);
  expect(bits({ requireAuth: "password" }, true)).toBe(2);
  expect(bits({ requireAuth: "password" }, false)).toBe(16);
  expect(bits({ requireAuth: "!none, !gss" }, true)).toBe(2 | 4 | 8);
  expect(bits({ requireAuth: " !none,!sspi,!oauth" }, true)).toBe(2 | 4 | 8);
});

test("a cleartext password goes over verified TLS, a local link, or where it was asked for by its name", () => {
  const unverified = (options: Options) => allowedMethods(of({ user: "a", ...options }), "none", true);
  expect(unverified({})).toBe(1 | 4 | 8 | 256);
  expect(unverified({ requireAuth: "!md5" })).toBe(1 | 8 | 256);
  expect(unverified({ requireAuth: "password" })).toBe(2);
  expect(unverified({ requireAuth: "scram-sha-256,password" })).toBe(2 | 8);
  expect(unverified({ requireAuth: "scram-sha-256, password " })).toBe(2 | 8);
  expect(unverified({ requireAuth: "scram-sha-256" })).toBe(8);
  expect(unverified({ allowCleartextPassword: true })).toBe(15);
  expect(unverified({ localLink: true })).toBe(15);
  expect(allowedMethods(of({ user: "a" }), "ca", true)).toBe(15);
});

test("the rest of a password behind an unencoded & is not repeated", () => {
  const error = refused("postgres://u@h/d?password=ab&hunter=x");
  expect(error.code).toBe("UNKNOWN_OPTION");
  expect(error.message).not.toContain("hunter");
});

test("an early query goes by itself only to a server that is known", () => {
  const early = (options: Options, verify: "none" | "ca" | "full", encrypted: boolean) =>
    allowsEarlyQuery(of({ user: "a", ...options }), verify, encrypted);
  expect(early({}, "full", true)).toBe(true);
  expect([early({}, "none", true), early({}, "ca", true), early({}, "full", false), early({}, "none", false)]).toEqual([
    false,
    false,
    false,
    false,
  ]);
  expect(early({ localLink: true }, "none", false)).toBe(true);
  expect(early({ earlyQuery: true }, "none", false)).toBe(true);
  expect(early({ earlyQuery: false, localLink: true }, "full", true)).toBe(false);
});

test("docs/options.md has one row for each option, with its default", () => {
  const rows = readFileSync(join(import.meta.dirname, "../../docs/options.md"), "utf8")
    .split("\n")
    .flatMap((line) => {
      const cells = line.split("|").map((cell) => cell.trim());
      return /^`\w+`$/.test(cells[1] ?? "") && cells.length === 7 ? [cells.slice(1, -1)] : [];
    });
  expect(rows.map(([name]) => name?.replaceAll("`", "")).sort()).toEqual([...optionNames].sort());
  const config: Record<string, unknown> = of({ user: "ada" }) as never;
  for (const [name = "", value = "", ...others] of rows) {
    expect(
      others.every((cell) => cell !== ""),
      name,
    ).toBe(true);
    const actual = config[name.replaceAll("`", "")];
    if (/number|boolean/.test(typeof actual))
      expect(value.replaceAll(/[`,]/g, ""), name).toMatch(new RegExp(`^${String(actual)}\\b`));
    else if (typeof actual === "string" && actual !== "" && !/user|database/.test(name))
      expect(value, name).toContain(`\`${actual}\``);
  }
});
