// All of libpq's connection parameters by name, and those that providers and other tools write into their strings:
// which option each parameter sets, or why it is ignored or refused. And libpq's environment variables.
//
// Knows names (those of PostgreSQL 18). Must not know the forms of strings, defaults, or the rules of options. A value
// is refused if without it the connection would be silently weaker or go elsewhere. A value that changes nothing is
// ignored, with a notice.

import { UsageError } from "../util/errors.ts";
import type { ConnectionString } from "./connection-string.ts";
import type { Options } from "./options.ts";
import { isWholeName } from "../util/text.ts";
import { nearestOf } from "./nearest.ts";
import { codeOf, invalid, knownNames, unknown } from "./rules.ts";
import { optionNames } from "./table.ts";

/** The state while parameters are read. */
export interface Reading {
  /** Options that were given so far. */
  readonly given: Map<string, unknown>;
  /** What is ignored, for the observer. No value is repeated. */
  readonly notices: string[];
  /** Options whose environment variable is empty, with the variable's name. An error unless the option is given. */
  readonly empty: Map<keyof Options, string>;
  /** Options of a pool, if a pool is made. */
  readonly pool?: Map<string, unknown> | undefined;
}

/**
 * How a parameter is handled. `by value`: one of its values is applied or harmless, another value is not. `pool`:
 * applied by a pool, ignored by a client.
 */
type Fate = "done" | "ignored" | "refused" | "by value" | "pool";
type Take = (value: string, reading: Reading, what: string) => unknown;
type Parameter = readonly [fate: Fate, take: Take];

const done = (option: keyof Options, convert: (value: string) => unknown = (value) => value): Parameter => [
  "done",
  (value, { given }) => given.set(option, convert(value)),
];
const ignored = (why: string): Parameter => [
  "ignored",
  (_, { notices }, what) => notices.push(`${what} is ignored: ${why}.`),
];
const ofPool = (option: string, convert: (value: string) => unknown): Parameter => [
  "pool",
  (value, reading, what) =>
    reading.pool?.set(option, convert(value)) ??
    ignored("a client has one connection; createPool takes it")[1](value, reading, what),
];
const refused = (instead: string): Parameter => ["refused", (_, _reading, what) => refuse(what, instead)];
/** Accepts `harmless` values, which change nothing. Other values go to the parameter's own function. */
const unless = (harmless: RegExp, [, take]: Parameter): Parameter => [
  "by value",
  (value, reading, what) => harmless.test(value) || take(value, reading, what),
];
const file = (option: keyof Options) => refused(`it names a file; pass its text as option "${option}"`);

function refuse(what: string, instead: string): never {
  throw new UsageError("UNKNOWN_OPTION", `${what} is not supported: ${instead}.`);
}

const seconds = (value: string) => (/^\d+$/.test(value) ? Number(value) * 1_000 : NaN);
/** The option of the same name is in milliseconds. Read as seconds, a value that is usual there would be hours. */
const secondsOfJdbc = (value: string) =>
  Number(value) < 1_000
    ? seconds(value)
    : invalid("connectTimeout", "less than 1000 in a connection string, where it is JDBC's, in seconds");
const setting = (name: string, convert = (value: string) => value): Parameter => [
  "done",
  (value, { given }) => given.set("startup", { ...Object(given.get("startup")), [name]: convert(value) }),
];
const SEARCH_PATH = setting("search_path");
const TIME_ZONE = setting("TimeZone");
const UTF8 = unless(/^(utf-?8|utf8mb4|unicode|auto)$/i, ignored("text is always sent as UTF-8"));
/** No statement is kept on the server under a name. */
const UNNAMED = done("prepare", () => "unnamed");
const MEANS_NOTHING = ignored("it means nothing to a driver");
const NO_SOCKET_OPTION = ignored("the runtime's sockets have no such option");
const NO_GSSAPI = ignored("GSSAPI is not used");
const NO_OAUTH = refused('where the server takes a token as password, pass a function as option "password"');
const KEYS = refused("pass the password itself");

/**
 * In the order in which they are read, whatever the order in the string. A parameter comes after those it depends on.
 */
const parameters = new Map<string, Parameter>(
  Object.entries({
    host: done("host"),
    hostaddr: done("hostaddr"),
    port: done("port"),
    dbname: done("database"),
    user: done("user"),
    password: done("password"),
    passfile: done("passfile"),
    service: refused("service files are not read; write its parameters here"),
    application_name: done("applicationName"),
    fallback_application_name: [
      "done",
      (value, { given }) => given.has("applicationName") || given.set("applicationName", value),
    ],
    options: done("options"),
    client_encoding: UTF8,
    connect_timeout: done("connectTimeout", seconds),
    target_session_attrs: done("targetSessionAttrs"),
    load_balance_hosts: done("loadBalanceHosts"),
    channel_binding: done("channelBinding"),
    require_auth: done("requireAuth"),
    max_protocol_version: done("maxProtocolVersion", (value) => (value === "latest" ? "3.2" : value)),
    min_protocol_version: unless(/^3\.0$/, refused("use max_protocol_version=3.2")),
    keepalives_idle: ["done", (value, { given }) => value === "0" || given.set("keepAlive", seconds(value))],
    keepalives: ["done", (value, { given }) => value === "1" || given.set("keepAlive", value === "0" ? 0 : NaN)],
    keepalives_interval: NO_SOCKET_OPTION,
    keepalives_count: NO_SOCKET_OPTION,
    tcp_user_timeout: unless(/^0$/, NO_SOCKET_OPTION),
    sslmode: [
      "done",
      (value, { given }) =>
        value === "no-verify"
          ? invalid("sslmode", 'a mode of libpq: what pg calls no-verify is "require"')
          : given.set("sslmode", value),
    ],
    ssl: [
      "by value",
      // As in libpq, which takes JDBC's word.
      (value, { given }, what) =>
        value === "true" ? given.has("sslmode") || given.set("sslmode", "require") : refuse(what, "use sslmode"),
    ],
    sslnegotiation: done("sslnegotiation"),
    sslrootcert: [
      "by value",
      (value, reading, what) =>
        // libpq's word for the runtime's own certificates, the default here. libpq refuses a weaker mode together
        // with it: a user that names certificates to trust wants them to be checked.
        value === "system" ? reading.given.set("sslmode", "verify-full") : file("ca")[1](value, reading, what),
    ],
    sslcert: file("cert"),
    sslkey: file("key"),
    sslpassword: refused('pass option "key" without a passphrase'),
    sslcertmode: unless(/^(allow|disable)$/, refused('option "cert" decides')),
    sslcrl: refused("revocation lists are not checked"),
    sslcrldir: refused("revocation lists are not checked"),
    sslsni: unless(/^1$/, refused("the name is always sent")),
    sslcompression: unless(/^0$/, ignored("TLS does not compress")),
    ssl_min_protocol_version: unless(/^TLSv1(\.[12])?$/, refused("set it in the server (ssl_min_protocol_version)")),
    ssl_max_protocol_version: unless(/^TLSv1\.3$/, refused("set it in the server (ssl_max_protocol_version)")),
    sslkeylogfile: ignored("keys are never written"),
    requirepeer: refused("use a folder in which only the server's user can write"),
    gssencmode: unless(/^(disable|prefer)$/, refused("use TLS (sslmode)")),
    krbsrvname: NO_GSSAPI,
    gsslib: NO_GSSAPI,
    gssdelegation: NO_GSSAPI,
    scram_client_key: KEYS,
    scram_server_key: KEYS,
    oauth_issuer: NO_OAUTH,
    oauth_client_id: NO_OAUTH,
    oauth_client_secret: NO_OAUTH,
    oauth_scope: NO_OAUTH,
    replication: unless(/^(false|off|no|0)$/i, refused("use a client made for replication")),
    // Prisma's
    schema: setting("search_path", (value) =>
      isWholeName(value) ? `"${value.replaceAll('"', '""')}"` : invalid("schema", "a name of at most 63 bytes"),
    ),
    pgbouncer: unless(/^false$/, UNNAMED),
    statement_cache_size: done("statementCacheSize", Number),
    socket_timeout: done("timeout", seconds),
    sslaccept: [
      "by value",
      (value, { given }) =>
        value === "accept_invalid_certs" || given.get("sslmode") === "disable" || given.set("sslmode", "verify-full"),
    ],
    sslidentity: file("key"),
    connection_limit: ofPool("max", Number),
    pool_timeout: ofPool("acquireTimeout", seconds),
    max_connection_lifetime: ofPool("maxLifetime", seconds),
    max_idle_connection_lifetime: ofPool("idleTimeout", seconds),
    // Of Supabase in Vercel, and of node-postgres
    supa: MEANS_NOTHING,
    workaround: MEANS_NOTHING,
    uselibpqcompat: unless(/^true$/, ignored("the modes are always libpq's")),
    query_timeout: done("timeout", Number),
    // JDBC's
    ApplicationName: done("applicationName"),
    currentSchema: SEARCH_PATH,
    loginTimeout: done("connectTimeout", seconds),
    connectTimeout: done("connectTimeout", secondsOfJdbc),
    socketTimeout: done("timeout", seconds),
    tcpKeepAlive: unless(
      /^true$/,
      done("keepAlive", (value) => (value === "false" ? 0 : NaN)),
    ),
    prepareThreshold: unless(/^[1-9]\d*$/, UNNAMED),
    reWriteBatchedInserts: ignored("a batch is sent as one always"),
    // postgres.js', Rails', Ecto's, SQLAlchemy's, pgx'
    prepare: [
      "done",
      (value, { given }) => given.set("prepare", value === "false" ? "unnamed" : value === "true" ? "auto" : value),
    ],
    prepared_statements: unless(/^(true|on|yes|1)$/, UNNAMED),
    prepared_statement_cache_size: done("statementCacheSize", Number),
    charset: UTF8,
    encoding: UTF8,
    max: ofPool("max", Number),
    pool: ofPool("max", Number),
    pool_size: ofPool("max", Number),
    pool_max_conns: ofPool("max", Number),
    pool_min_conns: ofPool("min", Number),
    idle_timeout: ofPool("idleTimeout", seconds),
    max_lifetime: ofPool("maxLifetime", seconds),
    // Settings of the session, which many drivers take by their names
    search_path: SEARCH_PATH,
    TimeZone: TIME_ZONE,
    timezone: TIME_ZONE,
    statement_timeout: setting("statement_timeout"),
    lock_timeout: setting("lock_timeout"),
    idle_in_transaction_session_timeout: setting("idle_in_transaction_session_timeout"),
  } satisfies Record<string, Parameter>),
);

/**
 * Parameters that must not be empty, and the options that they set. A template with an unset variable would give a
 * connection that checks less, or another server. As in libpq, which takes only an empty `require_auth` as absent.
 */
const NEVER_EMPTY = new Map<string, keyof Options | undefined>([
  ["sslmode", "sslmode"],
  ["channel_binding", "channelBinding"],
  ["require_auth", "requireAuth"],
  ["target_session_attrs", "targetSessionAttrs"],
  ["load_balance_hosts", "loadBalanceHosts"],
  ["sslnegotiation", "sslnegotiation"],
  ["max_protocol_version", "maxProtocolVersion"],
  ["min_protocol_version", undefined],
  ["gssencmode", undefined],
  ["sslcertmode", undefined],
  ["service", undefined],
  ["scram_client_key", undefined],
  ["scram_server_key", undefined],
]);

/** Names of {@link NEVER_EMPTY}, for a test. */
export const neverEmpty = (): string[] => [...NEVER_EMPTY.keys()];

/** How each parameter is handled, for the documentation's test. */
export function fates(): [parameter: string, fate: Fate][] {
  return [...parameters].map(([parameter, [fate]]) => [parameter, fate]);
}

/** @throws UsageError `UNKNOWN_OPTION`, `INVALID_OPTION`, `INVALID_SSLMODE` */
export function readParameters({ pairs, ...form }: ConnectionString, reading: Reading): void {
  const values = new Map(pairs);
  for (const name of values.keys()) if (!parameters.has(name)) throw unknownParameter(name, form);
  for (const [name, value] of values)
    if (value === "" && NEVER_EMPTY.has(name)) throw empty(name, `Parameter "${name}"`);
  read(values, reading, (name) => `Parameter "${name}"`);
}

/** Options of a pool, which a client and a connection string do not have. */
export const OF_POOLS = /^(max|min|idle_?timeout(millis)?|max_?lifetime)$/i;

function unknownParameter(name: string, { mayName, isUrl }: Omit<ConnectionString, "pairs">): UsageError {
  const isOption = (optionNames as readonly string[]).includes(name) && name !== "database";
  if (isOption || OF_POOLS.test(name)) {
    const option = isOption ? "an option" : "an option of a pool";
    return new UsageError(
      "UNKNOWN_OPTION",
      `"${name}" is ${option}, and no parameter of a connection string: pass it beside the string.`,
    );
  }
  const isShown = mayName && /^[a-z_]{1,40}$/i.test(name);
  const what = `${isUrl ? "URL parameter" : "parameter"}${isShown ? ` "${name}"` : ""}`;
  // libpq's name, which is the only one that people miss by more than a few letters.
  const isDatabase = /^db$/i.test(name) || nearestOf(name, ["database"]);
  if (isDatabase) return unknown(what, "dbname", ["dbname"]);
  const known = [...parameters.keys()];
  return unknown(what, name, known, knownNames(known, "docs/connecting.md#parameters"), isShown);
}

function read(values: ReadonlyMap<string, string>, reading: Reading, what: (name: string) => string): void {
  for (const [name, [, take]] of parameters) {
    const value = values.get(name);
    // As in libpq, an empty value means the default. But an empty password is a password.
    if (value === undefined || (value === "" && !/^(password|connect_timeout)$/.test(name))) continue;
    take(value, reading, what(name));
  }
}

// -- environment -----------------------------------------------------------------------------------------------------

/** libpq's variables by parameter. Most have the parameter's name. */
export const variables: ReadonlyMap<string, string> = new Map([
  ...[
    "host hostaddr port user password passfile service options client_encoding target_session_attrs load_balance_hosts",
    "channel_binding require_auth max_protocol_version min_protocol_version sslmode sslnegotiation sslrootcert sslcert",
    "sslkey sslcertmode sslcrl sslcrldir sslsni sslcompression ssl_min_protocol_version ssl_max_protocol_version",
    "requirepeer gssencmode krbsrvname gsslib gssdelegation",
  ]
    .join(" ")
    .split(" ")
    .map((name) => [name, `PG${name.replaceAll("_", "").toUpperCase()}`] as const),
  ["dbname", "PGDATABASE"],
  ["application_name", "PGAPPNAME"],
  ["connect_timeout", "PGCONNECT_TIMEOUT"],
]);

/** Settings of the session that libpq reads from the environment. */
const settings = { PGTZ: "TimeZone", PGDATESTYLE: "DateStyle", PGGEQO: "geqo" };

/** Returns a variable's value. */
export type Environment = (name: string) => string | undefined;

/**
 * Reads libpq's variables as defaults for what was given nowhere else. An empty variable means nothing, or is an error
 * if nothing else gives the option ({@link Reading.empty}).
 */
export function readEnvironment(environment: Environment, reading: Reading): void {
  const values = new Map<string, string>();
  for (const [parameter, variable] of variables) {
    const value = environment(variable);
    const option = NEVER_EMPTY.get(parameter);
    if (value) values.set(parameter, value);
    else if (value === "" && option) reading.empty.set(option, variable);
  }
  read(values, reading, (name) => `Environment variable ${variables.get(name)}`);
  for (const [variable, name] of Object.entries(settings)) {
    const value = environment(variable);
    if (value) setting(name)[1](value, reading, variable);
  }
}

/** @throws UsageError `INVALID_OPTION` or `INVALID_SSLMODE` for an empty variable whose option is given nowhere else */
export function checkEmpty({ given, empty: variables }: Reading): void {
  for (const [option, variable] of variables)
    if ((given.get(option) ?? undefined) === undefined) throw empty(option, `Environment variable ${variable}`);
}

function empty(name: string, what: string): UsageError {
  return new UsageError(codeOf(name), `${what} is empty: give it a value, or leave it out.`);
}
