// Refused options: each has the right error code, and the error names the option and its allowed values.
import { expect, test } from "vitest";
import type { Options } from "../../js/config/options.ts";
import { of, refused, URL_ } from "./config-input.ts";

test.each([
  "",
  "localhost",
  "mysql://ada@h/d",
  "localhost user=ada",
  "host=localhost user='ada",
  "host=localhost user",
  "postgres:ada@h",
  "postgres://ada:p@ss@h/d",
  "postgres://ada:p/w@h/d",
  "postgres://ada@[::1/d",
  "postgres://ada:100%@h/d",
  "postgres://ada:%zz@h",
  "postgres://ada@h/%ff",
  "postgres://ada@h/d?application_name=a@b",
])("INVALID_URL: %j", (url) => expect(refused(url).code).toBe("INVALID_URL"));

test.each(["postgres://u:p@::1:5432/d", "postgres://u:p@2001:db8::1/d", "postgres://fe80::1?sslmode=disable"])(
  "an IPv6 address without brackets: %s",
  (url) => expect(refused(url).message).toContain("An IPv6 address needs brackets: [::1]"),
);

test("a password with a colon is not mistaken for an address", () => {
  for (const url of ["postgres://u:p:w@x@h/d", "postgres://u:ab:12%@h:1/d"])
    expect(refused(url).message).not.toContain("IPv6");
});

test("the error for pg's no-verify says how that mode is called here", () => {
  const error = refused("postgres://u:p@h/d?sslmode=no-verify");
  expect([error.code, error.message]).toEqual(["INVALID_SSLMODE", expect.stringContaining('"require"')]);
});

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
  [{ connectionTimeoutMillis: 5 }, '"connectionTimeoutMillis"', '"connectTimeout"'],
  [{ toString: 1 }, '"toString"', '"'],
  [{ application_name: "x" }, '"application_name"', '"applicationName"'],
])("UNKNOWN_OPTION: %j is named with the nearest known option", (option, name, nearest) => {
  const error = refused({ user: "a", ...option });
  expect(error.code).toBe("UNKNOWN_OPTION");
  expect(error.message).toContain(`option ${name}`);
  expect(error.message).toContain(nearest);
  expect(refused(URL_, option).code).toBe("UNKNOWN_OPTION");
});

test.each([
  ["target_session=any", "target_session", '"target_session_attrs"'],
  ["ssl_mode=require", "ssl_mode", "sslmode"],
  ["application-name=x", "", "application_name"],
  ["appName=x", "appName", '"application_name"'],
  ["sslrootcert=/root.crt", "sslrootcert", '"ca"'],
  ["sslkey=k", "sslkey", '"key"'],
  ["service=prod", "service", "service files"],
  ["ssl=false", "ssl", "sslmode"],
  ["gssencmode=require", "gssencmode", "TLS"],
  ["replication=database", "replication", ""],
  ["sslcrl=/crl", "sslcrl", "revocation"],
  ["requirepeer=postgres", "requirepeer", "folder"],
  ["__proto__=x", "__proto__", ""],
])("UNKNOWN_OPTION: URL parameter %s", (parameter, name, advice) => {
  const error = refused(`${URL_}?${parameter}`);
  expect(error.code).toBe("UNKNOWN_OPTION");
  expect(error.message).toContain(name);
  expect(error.message).toContain(advice);
});

test.each<[keyof Options, unknown[]]>([
  ["host", [5, "", "a b", "a,,b", "a,", "a,b c", "tmp/x", "a@b", "a\0b", "/a\0b"]],
  ["hostaddr", [5, "a b", "/tmp", "a\0b"]],
  ["port", [0, 65_536, 1.5, NaN, "0", "65536", "1.5", "+5", "5432 ", "1,0", "1,x", -1, {}]],
  ["targetSessionAttrs", ["master", "", true]],
  ["loadBalanceHosts", ["enable", true]],
  ["environment", [true, "PGHOST=h", 5]],
  ["database", ["", 5, "a\0b"]],
  ["user", ["", 5, "x\0user\0admin"]],
  ["password", [5, "a\0b", {}]],
  ["applicationName", [5, "x\0user\0admin"]],
  [
    "startup",
    [
      5,
      "a",
      [],
      { a: null },
      { a: NaN },
      { a: {} },
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
  ["scramMinIterations", [0, 1.5, "4096", 1e9]],
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
  ["observeParameters", [1, "true"]],
  ["sqlComment", ["x", {}]],
  ["slowQueryThreshold", [-1, 1.5, "1"]],
  ["closeTimeout", [-1, 1.5, "1"]],
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
  "host=a,,b",
  "port=1,2",
  "host=a,b&port=1,2,3",
  "host=a,b&hostaddr=1.1.1.1",
  "target_session_attrs=master",
  "load_balance_hosts=round-robin",
  "keepalives=yes",
  "keepalives_idle=x",
  "max_protocol_version=2",
])("INVALID_OPTION: URL parameter %s", (parameter) =>
  expect(refused(`postgres://ada@h/d?${parameter}`).code).toBe("INVALID_OPTION"),
);

test("a user is required", () =>
  expect(refused("postgres://localhost/app")).toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringContaining('"user"'),
  }));

test("contradictory options are refused", () => {
  const PEM = "-----BEGIN CERTIFICATE-----\nx";
  expect(refused({ user: "a", cert: PEM }).code).toBe("INVALID_OPTION");
  expect(refused({ user: "a", key: PEM }).code).toBe("INVALID_OPTION");
  for (const sslmode of ["disable", "allow", "prefer"])
    expect(refused({ user: "a", sslmode, sslnegotiation: "direct" }).code).toBe("INVALID_OPTION");
  expect(of({ user: "a", sslmode: "require", sslnegotiation: "direct", cert: PEM, key: PEM }).key()).toBe(PEM);
});
