// Turns what a user passes (connection string, binding, options) into one frozen, complete and checked Config: the
// sources of options, and the rules between options.
//
// Must not know sockets, wasm, clocks, or a runtime's environment: the caller says where PG* variables are read.
//
// Secrets: the password is kept in a closure, and no error repeats a value.

import { UsageError } from "../util/errors.ts";
import { valuesOf, type Surroundings } from "./entries.ts";
import { invalidUrl, readConnectionString } from "./connection-string.ts";
import { addresses, isLocal } from "./hosts.ts";
import type { CallOptionName, Config, ConnectInput, Options, Server } from "./options.ts";
import { checkEmpty, OF_POOLS, readEnvironment, readParameters, type Environment, type Reading } from "./parameters.ts";
import { invalid, knownNames, unknown } from "./rules.ts";
import { passwordOf, type PasswordFile } from "./password.ts";
import { isObject, optionNames, OPTIONS } from "./table.ts";

/** Facts about the runtime that `resolveConfig` needs. */
interface Defaults extends Surroundings {
  /** Reads PG* variables, unless option `environment` says otherwise. */
  readonly environment?: Environment | undefined;
  /** Returns the password file that these options name or leave to the runtime, if the runtime has files. */
  readonly passfile?: ((options: Options) => PasswordFile | undefined) | undefined;
  /** Whether the configuration is for a pool, which takes its own options from the string too. */
  readonly isPool?: boolean | undefined;
}

/**
 * Returns the complete configuration. Later sources win: defaults, PG* variables, connection string, the object's own
 * options, `overrides`.
 *
 * @throws UsageError `INVALID_URL`, `INVALID_OPTION`, `UNKNOWN_OPTION`, `INVALID_SSLMODE`
 */
export function resolveConfig(input: ConnectInput, runtime: Defaults = {}, overrides: Options = {}): Config {
  const { given, notices, pool } = readAll(input, runtime, overrides);
  const all: Options = valuesOf(OPTIONS, (name) => given.get(name) ?? undefined, runtime);
  const { password, key, environment: _, ...shown } = all;
  const hosts = serversIn(all);
  const config = Object.freeze({
    ...shown,
    ...hosts[0],
    hosts,
    notices,
    pool: Object.fromEntries(pool ?? []),
    startup: Object.entries(shown.startup!).map(([name, value]) => [name, String(value)] as const),
    password: passwordOf(password, runtime.passfile?.(all)),
    key: () => key,
  }) as unknown as Config;
  checkTogether(config, key);
  if (all.passfile && password === undefined && !runtime.passfile)
    throw new UsageError("UNSUPPORTED_ON_RUNTIME", 'Option "passfile" is not supported: this runtime has no files.');
  return config;
}

/** The parameters of StartupMessage, in order. `client_encoding` is fixed, because the core knows UTF-8 only. */
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
  const pool = runtime.isPool ? new Map<string, unknown>() : undefined;
  const reading: Reading = { given: new Map(), notices: [], empty: new Map(), pool };
  const { given } = reading;
  const environment = environmentOf(input, runtime, overrides);
  if (environment) readEnvironment(environment, reading);
  read(input, reading);
  readObject(overrides, given);
  checkEmpty(reading);
  // `{ connectionString: env.MISSPELT }`: the error about the user would hide what is missing.
  const { connectionString } = Object(input) as { connectionString?: unknown };
  if (!given.has("user") && isPlainObject(input) && "connectionString" in input && !connectionString)
    throw nothing(`connectionString is ${connectionString === "" ? "empty" : String(connectionString)}`);
  return reading;
}

/** Read before all other options, because it says where defaults are read. */
function environmentOf(input: unknown, runtime: Defaults, overrides: Options): Environment | undefined {
  const chosen = overrides.environment ?? (isPlainObject(input) ? (input as Options).environment : undefined);
  if (chosen === undefined || chosen === null) return runtime.environment;
  const variables = OPTIONS.environment.rule(chosen, "environment");
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
  else if (input === undefined || input === null) throw nothing(`${String(input)} was given`);
  else if (!isPlain) throw invalidUrl("Pass a URL, options, or a binding with a connectionString");
  if (isPlain) readObject(input, reading.given);
}

function nothing(what: string): UsageError {
  return new UsageError(
    "INVALID_URL",
    `Nothing to connect to: ${what}. Is a binding or a variable missing, or its name misspelt?`,
  );
}

/**
 * Only plain objects are read as options: a Hyperdrive binding's `connect` is not the option of that name. In Node,
 * wrangler's getPlatformProxy (and so `next dev`) gives a Proxy without a prototype instead of a binding. The Proxy has
 * `connect`, but not as an own property.
 */
export function isPlainObject(input: unknown): input is object {
  const object = Object(input) as object;
  const prototype: unknown = Object.getPrototypeOf(object);
  const isBinding = "connect" in object && !Object.hasOwn(object, "connect");
  return Boolean(input) && !(prototype && Object.getPrototypeOf(prototype)) && !isBinding;
}

function readObject(input: object, given: Map<string, unknown>): void {
  for (const [name, value] of Object.entries(input)) {
    if (name === "connectionString" || value === undefined) continue;
    if (!(optionNames as readonly string[]).includes(name)) throw unknownOption(name);
    // Settings are merged, because a string's `schema` is one too.
    const before = given.get(name);
    const isMerged = name === "startup" && isObject(value) && isObject(before);
    given.set(name, isMerged ? { ...before, ...value } : value);
  }
}

/** Options of pg, postgres.js and of a pool, which no option here has a name like. */
const INSTEAD: readonly (readonly [name: RegExp, instead: string])[] = [
  [/^ssl$/, 'write "sslmode", such as "verify-full", and "ca" or "cert" where you have them'],
  [/^statement_?timeout$/i, 'write startup: { statement_timeout: … }, or "timeout" for calls'],
  [/^lock_?timeout$/i, "write startup: { lock_timeout: … }"],
  [/^(schema|searchPath|currentSchema)$/, "write startup: { search_path: … }"],
  [/^allowExitOnIdle$/, "leave it out, an idle pool keeps no program running"],
  [/^(url|uri)$/i, 'pass the URL itself, or as "connectionString"'],
  [/^(db|dbname)$/i, 'write "database"'],
  [/^server$/i, 'write "host"'],
  [/^(logger|log|logging)$/i, "write observer: { onQueryEnd }, or debug: true"],
  [/^keepAliveInitialDelay/, 'write "keepAlive", in milliseconds'],
  [/^query_timeout$/, 'write "timeout"'],
  [/^connection$/, 'settings of the session belong in "startup"'],
  [/^onnotice$/, "write observer: { onNotice }"],
  [/^(max_?connections|pool_?size|connection_?limit)$/i, 'a pool takes "max"'],
  [/^transform$/, 'write columnNames: "camelCase"'],
];
/** `known`: the names of a pool's options too, where a pool is made. */
export function unknownOption(name: string, known: readonly string[] = optionNames): UsageError {
  const isMisplaced = known === optionNames && OF_POOLS.test(name);
  const instead = isMisplaced
    ? "a client has one connection; createPool takes it"
    : INSTEAD.find(([pattern]) => pattern.test(name))?.[1];
  if (instead !== undefined) return new UsageError("UNKNOWN_OPTION", `Unknown option "${name}": ${instead}.`);
  const page = known === optionNames ? "docs/options.md" : "docs/pool.md and docs/options.md";
  return unknown(`option "${name}"`, name, known, knownNames(known, page), true);
}

/** Resolves for each server the options that follow from its host. */
function serversIn({ host, hostaddr, port, localLink, sslmode }: Options): Server[] {
  return addresses(host, hostaddr, port).map((address) => {
    const local = localLink ?? isLocal(address.host);
    return { ...address, localLink: local, sslmode: sslmode ?? (local ? "disable" : "prefer") };
  });
}

/** Returns the value of an option that a call may set: the call's own value, checked, or else the connection's. */
export function callOption<Name extends CallOptionName>(
  config: Config,
  options: { readonly [Given in Name]?: Config[Given] | undefined },
  name: Name,
): Config[Name] {
  const given = options[name];
  // The connection's value has been checked already.
  return given === undefined || given === null ? config[name] : (OPTIONS[name].rule(given, name) as Config[Name]);
}

// -- rules between options -------------------------------------------------------------------------------------------

function checkTogether(config: Config, key: string | undefined): void {
  if ((config.cert === undefined) !== (key === undefined)) invalid("key", `given together with "cert"`);
  // As in libpq: direct TLS cannot fall back, so it contradicts a mode that may do without TLS.
  if (config.sslnegotiation === "direct" && !config.hosts.every(({ sslmode }) => /^(require|verify-)/.test(sslmode)))
    invalid("sslnegotiation", '"postgres" unless sslmode is "require" or stronger');
}
