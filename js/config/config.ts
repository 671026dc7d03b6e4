// From what a user passes (connection string, binding, options) to one frozen, complete and checked Config: where
// options come from, the rule and the default of each, and the rules between them.
//
// Must not know sockets, wasm, clocks, or a runtime's environment: whoever calls says where PG* variables are read.
//
// Secrets: the password lives in a closure, and no error repeats a value.

import { LONGEST_TIMER } from "../util/limits.ts";
import { UsageError } from "../util/errors.ts";
import { isObserver, observerMethods, strangerOf } from "../util/observer.ts";
import { isText } from "../util/text.ts";
import { requiredMethods } from "./authentication.ts";
import { invalidUrl, readConnectionString } from "./connection-string.ts";
import { addresses, addressRule, hostRule, isLocal, portRule } from "./hosts.ts";
import type { Config, ConnectInput, Options, Server } from "./options.ts";
import { readEnvironment, readParameters, type Environment, type Reading } from "./parameters.ts";
import { anyText, attempts, flag, invalid, oneOf, rule, someText, unknown, whole, type Rule } from "./rules.ts";

/** What `resolveConfig` must know of the runtime. */
export interface Defaults {
  /** Workers have 128 MB in all: the message bound is smaller there. */
  readonly isWorkerd?: boolean | undefined;
  /** Where PG* variables are read, unless option `environment` says otherwise. */
  readonly environment?: Environment | undefined;
  /** A pool is made, which takes its options from the string too. */
  readonly isPool?: boolean | undefined;
}

/**
 * The complete configuration. Later sources win: defaults, PG* variables, connection string, the object's own options,
 * `overrides`.
 *
 * @throws UsageError `INVALID_URL`, `INVALID_OPTION`, `UNKNOWN_OPTION`, `INVALID_SSLMODE`,
 */
export function resolveConfig(input: ConnectInput, runtime: Defaults = {}, overrides: Options = {}): Config {
  const { given, notices, pool } = readAll(input, runtime, overrides);
  const all: Record<string, unknown> = {};
  for (const [name, [rule, fallback]] of Object.entries(table)) {
    const value =
      given.get(name) ??
      (typeof fallback === "function" ? (fallback as Fallback)(all as unknown as Config, runtime) : fallback);
    all[name] = value === undefined ? undefined : rule(value, name);
  }
  const { password, key, environment: _, ...shown } = all as Options;
  const hosts = serversIn(all as Options);
  const config = Object.freeze({
    ...shown,
    ...hosts[0],
    hosts,
    notices,
    pool: Object.fromEntries(pool ?? []),
    startup: Object.entries(shown.startup!),
    password: async () => (typeof password === "function" ? passwordText(await password(), "password") : password),
    key: () => key,
  }) as unknown as Config;
  checkTogether(config, key);
  return config;
}

/** The parameters of StartupMessage in order. `client_encoding` is fixed: the core knows UTF-8 only. */
export function startupParameters(config: Config): (readonly [name: string, value: string])[] {
  const { user, database, applicationName, options, startup } = config;
  return [
    ...Object.entries({
      user,
      database,
      application_name: applicationName,
      client_encoding: "UTF8",
      ...(options && { options }),
    }),
    ...startup,
  ];
}

// -- reading ---------------------------------------------------------------------------------------------------------

function readAll(input: unknown, runtime: Defaults, overrides: Options): Reading {
  const reading: Reading = { given: new Map(), notices: [], pool: runtime.isPool ? new Map() : undefined };
  const { given } = reading;
  const environment = environmentOf(input, runtime, overrides);
  if (environment) readEnvironment(environment, reading);
  read(input, reading);
  readObject(overrides, given);
  return reading;
}

/** What says where defaults are read has to be known before them. */
function environmentOf(input: unknown, runtime: Defaults, overrides: Options): Environment | undefined {
  const chosen = overrides.environment ?? (isPlainObject(input) ? (input as Options).environment : undefined);
  if (chosen === undefined || chosen === null) return runtime.environment;
  const variables = table.environment[0](chosen, "environment");
  if (variables === false) return undefined;
  return (name) => {
    const value = Object.hasOwn(variables, name) ? variables[name] : undefined;
    return typeof value === "string" ? value : undefined;
  };
}

function read(input: unknown, reading: Reading): void {
  const { connectionString, href } = Object(input) as { connectionString?: unknown; href?: unknown };
  const isPlain = isPlainObject(input);
  const text = typeof input === "string" ? input : (connectionString ?? (isPlain ? undefined : href));
  if (typeof text === "string") readParameters(readConnectionString(text), reading);
  else if (input === undefined || input === null)
    throw new UsageError(
      "INVALID_URL",
      `Nothing was given to connect to, but ${String(input)}: is a binding or a variable missing, or its name misspelt?`,
    );
  else if (!isPlain) throw invalidUrl("Pass a URL, options, or a binding with a connectionString");
  if (isPlain) readObject(input as object, reading.given);
}

/** Only plain objects are asked for options: a Hyperdrive binding's `connect` is not the option of that name. */
function isPlainObject(input: unknown): boolean {
  const prototype: unknown = Object.getPrototypeOf(Object(input));
  return Boolean(input) && !(prototype && Object.getPrototypeOf(prototype));
}

function readObject(input: object, given: Map<string, unknown>): void {
  for (const [name, value] of Object.entries(input)) {
    if (name === "connectionString" || value === undefined) continue;
    if (!optionNames.includes(name)) throw unknown(`option "${name}"`, name, optionNames);
    // Settings add up: a string's `schema` is one.
    const both = name === "startup" && isStartup(value) && isStartup(given.get(name));
    given.set(name, both ? { ...(given.get(name) as object), ...(value as object) } : value);
  }
}

/** What follows from a host alone is said for each. */
function serversIn({ host, hostaddr, port, localLink, sslmode }: Options): Server[] {
  return addresses(host, hostaddr, port).map((address) => {
    const local = localLink ?? isLocal(address.host);
    return { ...address, localLink: local, sslmode: sslmode ?? (local ? "disable" : "prefer") };
  });
}

// -- each option -----------------------------------------------------------------------------------------------------

// An empty password is text like any other.
const passwordText = rule("text without NUL, or a function that gives it", isText);
const pem = rule("PEM text (-----BEGIN …)", (value) => isText(value) && /-----BEGIN ./.test(value));
const count = whole(0, Number.MAX_SAFE_INTEGER);
const milliseconds = whole(0, LONGEST_TIMER);
const RESERVED = /^(user|database|options|application_name|client_encoding|replication|_pq_\..*)?$/i;

const observing = rule("an object whose on… methods are functions", isObserver);
/** A method that nobody calls would watch nothing. */
const observerRule: Rule = (value, name) => {
  const other = strangerOf(observing(value, name) as object);
  if (other) throw unknown(`method "${other}" of option "${name}"`, other, observerMethods);
  return value;
};

type Fallback = (sofar: Config, runtime: Defaults) => unknown;

/** One of these, by default the first. */
const firstOf = (...values: (string | boolean)[]) => [oneOf(...values), values[0]!] as const;

/** Per option what it must be, and its default: a value, one that follows from the options above it, or none. */
const table: {
  readonly [K in keyof Options]-?: readonly [rule: Rule, fallback?: Fallback | string | number | boolean | object];
} = {
  host: [hostRule],
  hostaddr: [addressRule],
  port: [portRule],
  targetSessionAttrs: firstOf("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
  loadBalanceHosts: firstOf("disable", "random"),
  environment: [
    rule("an object or false", (value) => value === false || (typeof value === "object" && value !== null)),
  ],
  // The default is refused: there has to be one.
  user: [someText, ""],
  database: [someText, ({ user }) => user],
  password: [(value, name) => (typeof value === "function" ? value : passwordText(value, name))],
  applicationName: [anyText, "pgz-edge"],
  startup: [
    rule("an object of texts without NUL, none of them an option of its own or client_encoding", isStartup),
    {},
  ],
  options: [anyText, ""],
  // Their defaults follow from the host.
  localLink: [flag],
  sslmode: [oneOf("disable", "allow", "prefer", "require", "verify-ca", "verify-full")],
  sslnegotiation: firstOf("postgres", "direct"),
  servername: [someText],
  ca: [pem],
  cert: [pem],
  key: [pem],
  requireAuth: [
    rule(
      'a list of none, password, md5, scram-sha-256, all or none with "!", that leaves one',
      (value) => typeof value === "string" && requiredMethods(value),
    ),
  ],
  allowCleartextPassword: [flag, false],
  channelBinding: [oneOf("disable", "prefer", "require"), "prefer"],
  scramMinIterations: [whole(1, 100_000_000), 4096],
  scramMaxIterations: [whole(1, 100_000_000), 100_000],
  connectTimeout: [whole(1, LONGEST_TIMER), 10_000],
  timeout: [milliseconds, 0],
  closeTimeout: [milliseconds, 30_000],
  maxRows: [count, 0],
  maxBytes: [count, 0],
  maxFieldBytes: [count, 0],
  onLimit: firstOf("error", "truncate"),
  duplicates: firstOf("keep", "rename", "error"),
  columnNames: firstOf("keep", "camelCase"),
  int8: [oneOf("string", "number", "bigint")],
  numeric: [oneOf("string", "number")],
  dates: firstOf("string", "date", "temporal"),
  bytea: firstOf("uint8array", "hex", "base64"),
  json: firstOf("parse", "text"),
  serialize: [rule("a function", (value) => typeof value === "function")],
  types: [
    rule(
      "an object of functions",
      (value) =>
        typeof value === "object" && value && Object.values(value).every((parser) => typeof parser === "function"),
    ),
  ],
  maxMessageBytes: [whole(1 << 10, 1 << 30), (_, { isWorkerd }) => (isWorkerd ? 1 << 23 : 1 << 30)],
  flushBytes: [whole(1, 1 << 30), 1 << 16],
  flushInterval: [milliseconds, 100],
  statementCacheSize: [whole(0, 65_535), 64],
  prepare: firstOf("auto", "named", "unnamed"),
  earlyQuery: firstOf("auto", true, false),
  firstRun: firstOf("text", "describe"),
  pipelining: [whole(1, 1_000), 100],
  retryOnSerialization: [attempts, false],
  keepAlive: [milliseconds, 30_000],
  readBuffer: [whole(1 << 10, 1 << 24), 1 << 16],
  maxProtocolVersion: firstOf("3.0", "3.2"),
  connect: [rule("a function", (value) => typeof value === "function")],
  observer: [observerRule],
  observeParameters: [flag, false],
  debug: [
    rule("true, false or a function", (value) => typeof value === "boolean" || typeof value === "function"),
    false,
  ],
  sqlComment: [rule("a function", (value) => typeof value === "function")],
  slowQueryThreshold: [milliseconds, 0],
  signal: [rule("an AbortSignal", (value) => typeof (value as AbortSignal | null)?.addEventListener === "function")],
};

/** The names of all options. */
export const optionNames: readonly string[] = Object.keys(table);

type CallOptionName =
  | "timeout"
  | "maxRows"
  | "maxBytes"
  | "maxFieldBytes"
  | "onLimit"
  | "duplicates"
  | "columnNames"
  | "int8"
  | "numeric"
  | "dates"
  | "bytea"
  | "json"
  | "types"
  | "observer"
  | "slowQueryThreshold"
  | "signal";

/** An option that a call may have too: its own value by the same rule, else the connection's. */
export function callOption<Name extends CallOptionName>(
  config: Config,
  options: { readonly [Given in Name]?: Config[Given] | undefined },
  name: Name,
): Config[Name] {
  const given = options[name];
  // The connection's has been checked.
  return given === undefined || given === null ? config[name] : table[name][0](given, name);
}

function isStartup(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    Object.entries(value).every(([name, text]) => isText(name) && !RESERVED.test(name) && isText(text))
  );
}

// -- rules between options -------------------------------------------------------------------------------------------

function checkTogether(config: Config, key: string | undefined): void {
  if ((config.cert === undefined) !== (key === undefined)) invalid("key", `given together with "cert"`);
  // As libpq: direct TLS cannot fall back, so a mode that may do without TLS contradicts it.
  if (config.sslnegotiation === "direct" && !config.hosts.every(({ sslmode }) => /^(require|verify-)/.test(sslmode)))
    invalid("sslnegotiation", '"postgres" unless sslmode is "require" or stronger');
}
