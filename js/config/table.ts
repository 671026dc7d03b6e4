// Every option of a connection, once: its purpose, the rule for its value, its default, and which calls may set it too.
//
// These entries are the source of `Options` and `Config` (options.ts), the options of calls (rows/form.ts,
// api/options.ts), the checks (config.ts), words of the command line and docs/options.md. To add an option, add an
// entry here, and the code that uses it. For the page, an entry's text may have
//
//   @unit          its unit or its values, if its rule is not a list of words
//   @defaultValue  the default, and the reason for it; a test compares it with the entry
//   @runtimes      what differs on some runtimes or servers
//
// and may name pages and sections like docs/connecting.md#several-hosts.
//
// An option was ten edits before, of which the compiler demanded some: a call accepted a forgotten option and ignored
// it. Types map over `keyof typeof OPTIONS` itself, because over a name for that union editors do not show an entry's
// text. A generator of the types was not written: its output is a file that must not be edited, and a step before each
// type check. Options that only calls have stay members of interfaces in js/api and js/rows.
//
// Knows options and their rules, one by one. Must not know where a value was given, or what follows from two options.

import type { Connector } from "../runtime/contract.ts";
import { LONGEST_TIMER } from "../util/limits.ts";
import { isObserver, observerMethods, strangerOf, type Observer } from "../util/observer.ts";
import { isText } from "../util/text.ts";
import type { Parser } from "../values/converters.ts";
import type { Serializer } from "../values/serialize.ts";
import { option, optional, type Entry, type Setters, type ValueOf } from "./entries.ts";
import { requiredMethods } from "./require-auth.ts";
import {
  anyText,
  attempts,
  flag,
  invalid,
  isFunction,
  oneOf,
  rule,
  someText,
  unknown,
  whole,
  wordsOf,
  type Rule,
} from "./rules.ts";

/**
 * The login that needs a password. `host` is the name, or the folder of a Unix socket; with several hosts the one tried
 * now.
 */
export interface LoginAttempt {
  readonly host: string;
  readonly port: number;
  readonly user: string;
  readonly database: string;
}

/** A password, and when the sessions that use it end. */
export interface PasswordAnswer {
  readonly password: string;
  /**
   * When the server ends a session that logged in with it: milliseconds as `Date.now()`, or a Date (docs/logins.md).
   */
  readonly expiresAt?: number | Date | undefined;
}

/** A password, or a function that is called for a password when a connection is made, for tokens that expire. */
export type Password = string | ((attempt: LoginAttempt) => string | PasswordAnswer | Promise<string | PasswordAnswer>);

const isPort = (port: unknown) => Number.isInteger(port) && (port as number) >= 1 && (port as number) <= 65_535;

const hosts = rule<string>(
  "names or addresses, or absolute paths of folders with Unix sockets; several with commas between",
  (value) => isText(value) && wordsOf(value).every((name) => /^(\/[^\0]*|[^\0-\x20,/@\x7f]+)$/.test(name)),
);
const host: Rule<string> = (value, name) => {
  // An IPv6 address has two colons or more.
  const hasPort = wordsOf(hosts(value, name)).some((one) => /^[^/:]+:\d+$/.test(one));
  return hasPort ? invalid(name, 'without a port, which belongs in option "port"') : (value as string);
};
const port = rule<number | string>(
  "a whole number from 1 to 65535, or several as text with commas between",
  (value) =>
    isPort(value) ||
    (typeof value === "string" && wordsOf(value).every((word) => word === "" || (/^\d+$/.test(word) && isPort(+word)))),
);
const address = rule<string>(
  "IP addresses, with commas between, one for each host",
  (value) => isText(value) && wordsOf(value).every((one) => /^[\w.:%]*$/.test(one)),
);

const count = whole(0, Number.MAX_SAFE_INTEGER);
const milliseconds = whole(0, LONGEST_TIMER);
const pem = rule<string>("PEM text (-----BEGIN …)", (value) => isText(value) && /-----BEGIN ./.test(value));

/** An empty password is a password. */
export const passwordText = rule<string>("text without NUL, or a function that gives it", isText);
const password: Rule<Password> = (value, name) =>
  typeof value === "function" ? (value as Password) : passwordText(value, name);

const RESERVED = /^(user|database|options|application_name|client_encoding|replication|_pq_\..*)?$/i;

type Settings = Readonly<Record<string, string | number | boolean>>;

export function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function reasonAgainst(name: string): string {
  if (/^client_encoding$/i.test(name)) return "is always UTF8";
  if (/^(user|database|options|application_name)$/i.test(name)) return "has an option of its own";
  return "is no name of a setting";
}

const startup: Rule<Settings> = (value, name) => {
  if (!isObject(value)) return invalid(name, "an object of settings");
  for (const [setting, text] of Object.entries(value)) {
    const shown = /^[\w.]{1,63}$/.test(setting) ? `"${setting}"` : "one of its members";
    if (!isText(setting) || RESERVED.test(setting))
      return invalid(name, `without ${shown}, which ${reasonAgainst(setting)}`);
    if (!isText(text) && !Number.isFinite(text) && typeof text !== "boolean")
      return invalid(name, `an object with ${shown} as text without NUL, a finite number or a boolean`);
  }
  return value as Settings;
};

const observing = rule<Observer>("an object whose on… methods are functions", isObserver);
/** Refuses an unknown `on…` method, which would never be called. */
const observer: Rule<Observer> = (value, name) => {
  const checked = observing(value, name);
  const other = strangerOf(checked);
  if (other) throw unknown(`method "${other}" of option "${name}"`, other, observerMethods);
  return checked;
};

export const OPTIONS = {
  /**
   * Name or address of the server, or the absolute path of the folder with its Unix socket. Several hosts, separated by
   * commas, are tried in the order given (docs/connecting.md#several-hosts).
   *
   * @unit text
   * @defaultValue `localhost`: a name works on every runtime; libpq's own default is a Unix socket, on systems that
   * have them
   * @runtimes Workers: no Unix sockets, and a private address only through a binding
   */
  host: optional(host),
  /**
   * The IP address of the host; for several hosts, separated by commas. The driver connects to it without asking DNS,
   * and certificates are checked for `host`.
   *
   * @unit text
   * @runtimes Workers: error with TLS if it differs from `host`
   */
  hostaddr: optional(address),
  /**
   * The port of all hosts, or a string with one port for each host, separated by commas: `"5432,5433"`.
   *
   * @unit 1 to 65,535, number or text
   * @defaultValue 5432, PostgreSQL's
   * @runtimes Workers refuse port 25
   */
  port: optional(port),
  /**
   * Which hosts are accepted, by the role that the server reports. The driver leaves any other host and tries the next
   * one (docs/connecting.md#several-hosts).
   *
   * @defaultValue `any`: most programs have one host
   */
  targetSessionAttrs: option(oneOf("any", "read-write", "read-only", "primary", "standby", "prefer-standby"), "any"),
  /**
   * The order in which the hosts are tried: as they are written (`disable`), or `random`.
   *
   * @defaultValue `disable`: the order in which you wrote them has a meaning
   */
  loadBalanceHosts: option(oneOf("disable", "random"), "disable"),
  /**
   * Where libpq's variables (`PGHOST` and so on) are read from: an object, or `false` for none. They are the defaults
   * for what is given nowhere else.
   *
   * @unit object, `false`
   * @defaultValue the process's
   * @runtimes Workers: none, unless you pass an object; Deno: only those that may be read without asking
   */
  environment: optional(
    rule<Readonly<Record<string, unknown>> | false>(
      "an object or false",
      (value) => value === false || (typeof value === "object" && value !== null),
    ),
  ),
  /**
   * The role to log in as. It is required (here, in the URL or as `PGUSER`), because an edge runtime has no login name
   * to use instead.
   *
   * @unit text
   * @defaultValue none: required
   */
  user: option(
    rule<string>(
      "given, as text without NUL: in the URL (postgres://user@host), here, or as PGUSER",
      (value) => value && isText(value),
    ),
    "",
  ),
  /**
   * Name of the database.
   *
   * @unit text
   * @defaultValue the user's name, as in libpq
   */
  database: option(someText, ({ user }) => user as string),
  /**
   * The password, or a function that returns it (or its promise), for expiring tokens (docs/logins.md). The function
   * gets host, port, user and database, and is called once for connections that are made together. An empty string is a
   * password. `console.log`, JSON and errors never show it.
   *
   * @unit text, function
   */
  password: optional(password),
  /**
   * Path of a libpq password file, used if no password is given (docs/logins.md#password-files).
   *
   * @unit text
   * @defaultValue `PGPASSFILE`, else `~/.pgpass`, unless `environment` is given
   * @runtimes Workers, browsers: error, there are no files
   */
  passfile: optional(someText),
  /**
   * The `application_name`, by which `pg_stat_activity` shows the program.
   *
   * @unit text
   * @defaultValue `pgz-edge`
   */
  applicationName: option(anyText, "pgz-edge"),
  /**
   * Settings for the session, such as `{ search_path: "app", statement_timeout: 5_000 }`. `client_encoding` is always
   * UTF8.
   *
   * @unit object of texts, numbers and booleans
   * @defaultValue none: the session is not changed unless you ask
   * @runtimes PgBouncer refuses names that it does not track, unless `ignore_startup_parameters` lists them
   */
  startup: option(startup, {}),
  /**
   * Command-line options for the server process, libpq's `options`, such as `-c geqo=off`.
   *
   * @unit text
   * @defaultValue none
   * @runtimes poolers ignore or refuse it
   */
  options: option(anyText, ""),
  /**
   * Whether the link never leaves the runtime or the machine, so that a cleartext password and an early query are safe.
   *
   * @defaultValue whether the host ends in `.hyperdrive.local` or is a Unix socket
   */
  localLink: optional(flag),
  /**
   * Whether TLS is used, and what is verified: libpq's six modes. Set `verify-full` on any network that is not yours.
   *
   * @defaultValue `prefer`, libpq's; on a local link (`localLink`) `disable`, because nothing leaves the machine
   * @runtimes see docs/options.md#tls-by-runtime
   */
  sslmode: optional(oneOf("disable", "allow", "prefer", "require", "verify-ca", "verify-full")),
  /**
   * `direct` starts TLS without asking first, which saves a round trip. It needs PostgreSQL 17, a runtime with ALPN,
   * and `sslmode` `require` or stronger.
   *
   * @defaultValue `postgres`: it works with every server
   * @runtimes Workers: `direct` is an error, they have no ALPN
   */
  sslnegotiation: option(oneOf("postgres", "direct"), "postgres"),
  /**
   * The name that is sent (SNI) and that the certificate must have.
   *
   * @unit text
   * @defaultValue the host: the certificate must be for the host that you named
   * @runtimes Workers: error if it differs from `host`
   */
  servername: optional(someText),
  /**
   * Certificates to trust instead of the runtime's. Every `sslmode` that uses TLS then checks the chain, as in libpq.
   *
   * @unit PEM text
   * @defaultValue what the platform trusts
   * @runtimes Workers: error, they accept public roots only
   */
  ca: optional(pem),
  /**
   * The client's certificate. It needs `key`.
   *
   * @unit PEM text
   * @runtimes Workers: error
   */
  cert: optional(pem),
  /**
   * The private key of `cert`. It is never shown.
   *
   * @unit PEM text
   * @runtimes Workers: error
   */
  key: optional(pem),
  /**
   * The allowed authentication methods, as in libpq's `require_auth`: a comma-separated list of `none`, `password`,
   * `md5` and `scram-sha-256`, or a list with `!` in front of each method, which excludes these methods.
   * `scram-sha-256` refuses every downgrade and saves a round trip. `password` over verified TLS saves one too. Naming
   * `password` here also allows it over TLS that is not verified.
   *
   * @unit text
   * @defaultValue any, but cleartext only over verified TLS or a local link
   */
  requireAuth: optional(
    rule<string>(
      'a list of none, password, md5, scram-sha-256, all or none with "!", that leaves one',
      (value) => typeof value === "string" && requiredMethods(value),
    ),
  ),
  /**
   * Allows a cleartext password over any link, even without TLS.
   *
   * @defaultValue false: it is sent only over verified TLS or a local link
   */
  allowCleartextPassword: option(flag, false),
  /**
   * Whether a login is bound to the server's certificate (SCRAM-SHA-256-PLUS), so that a login fails if an attacker
   * relays it over another TLS connection. `prefer` binds it if server and runtime can, `require` refuses every other
   * login (docs/connecting.md#channel-binding).
   *
   * @defaultValue `prefer`, libpq's
   * @runtimes Workers, whose sockets do not show the certificate: `require` is an error, `prefer` does without; Deno:
   * `prefer` does without under verified TLS
   */
  channelBinding: option(oneOf("disable", "prefer", "require"), "prefer"),
  /**
   * The minimum number of SCRAM iterations over a link on which no certificate is checked (no TLS, or `sslmode`
   * `prefer`, `allow` or `require` without `ca`). There an impostor gets a proof of your password, and with few
   * iterations can find the password by guessing. Over a link whose certificate is checked, or a local one, any number
   * is accepted, and `pgz-edge doctor` reports one that is too low.
   *
   * @unit 1 to 100,000,000
   * @defaultValue 4,096, the least that RFC 7677 recommends, and PostgreSQL's default
   * @runtimes Workers: with TLS the certificate is always checked
   */
  scramMinIterations: option(whole(1, 100_000_000), 4096),
  /**
   * The maximum number of SCRAM iterations that a server may ask for. With a large number a false server could waste
   * your CPU.
   *
   * @unit 1 to 100,000,000
   * @defaultValue 100,000, as in pgjdbc and pg; PostgreSQL's default is 4,096
   * @runtimes Workers: WebCrypto refuses more than 100,000, so the core derives the key in wasm
   */
  scramMaxIterations: option(whole(1, 100_000_000), 100_000),
  /**
   * The deadline for DNS, TCP, TLS and authentication together. It starts again for each host. It cannot be turned off,
   * because an attempt must end. In a connection string it is in seconds, as in libpq.
   *
   * @unit milliseconds
   * @defaultValue 10,000
   */
  connectTimeout: option(whole(1, LONGEST_TIMER), 10_000),
  /**
   * The deadline for a whole call: waiting for its turn, connecting, and reading a stream to its end. After that the
   * call rejects with `QUERY_TIMEOUT`, and the query is cancelled on the server. 0: no deadline.
   *
   * @unit milliseconds
   * @defaultValue 0: no deadline unless you set one
   */
  timeout: option(milliseconds, 0, "every"),
  /**
   * How long a stream that outlives `close()` or `release()` may stall: the server sends nothing, and the reader reads
   * nothing. Then the stream ends (at most a tenth later), because it would otherwise hold its connection for ever.
   * While the reader waits, the call's `timeout` applies instead, if it has one. 0: for ever.
   *
   * @unit milliseconds
   * @defaultValue 30,000
   */
  closeTimeout: option(milliseconds, 30_000),
  /**
   * The maximum number of rows of a result. 0: no limit.
   *
   * @unit rows
   * @defaultValue 0
   */
  maxRows: option(count, 0, "rows"),
  /**
   * The maximum number of bytes of an encoded result. Brackets and headers around the rows count, the truncation mark
   * does not (docs/options.md#limits-and-memory). 0: no limit.
   *
   * @unit bytes
   * @defaultValue 0
   */
  maxBytes: option(count, 0, "rows"),
  /**
   * The maximum number of bytes of one field, as the server sends it; for `copyTo`, of a CopyData message
   * (docs/options.md#limits-and-memory). 0: no limit.
   *
   * @unit bytes
   * @defaultValue 0
   */
  maxFieldBytes: option(count, 0, "rows"),
  /**
   * What happens to a result that passes a limit. Its statement is cancelled: what it wrote is undone, unless it was
   * complete by then. `error`: the call rejects, or its stream breaks off. `truncate`: the result ends there properly,
   * with a mark that is not a row: in NDJSON and JSON a last element `{"$truncated":{"limit":…,"value":…,"rows":…}}`,
   * in columnar output a member of that name; `query` returns `truncated`. TOON and CSV have no place for a mark and
   * refuse `truncate`, unless the call has an `observer` whose `onQueryEnd` reports it (docs/observer.md).
   *
   * @defaultValue `error`: a shortened result must not look complete
   */
  onLimit: option(oneOf("error", "truncate"), "error", "rows"),
  /**
   * What happens to columns with the same name. `keep`: in objects the last one wins. `rename`: the second `id` becomes
   * `id_2`. `error`: the call fails with `DUPLICATE_COLUMN`.
   *
   * @defaultValue `keep`: the server's own JSON repeats the name too
   */
  duplicates: option(oneOf("keep", "rename", "error"), "keep", "rows"),
  /**
   * Names of columns in rows. `camelCase` writes `created_at` as `createdAt`, in every format: it removes an underscore
   * between an ASCII letter or digit and a lowercase ASCII letter (`_id` and `line_2` stay). `fields` have the server's
   * names, and members of json values stay. `sql.snakeCase` is the inverse. Where two names become one, `duplicates`
   * says what happens.
   *
   * @defaultValue `keep`
   */
  columnNames: option(oneOf("keep", "camelCase"), "keep", "rows"),
  /**
   * int8 (bigint) values. `bigint` gives bare digits in JSON too.
   *
   * @defaultValue none: strings in objects, since a JavaScript number would lose digits, and bare digits in JSON, as
   * the server writes them
   */
  int8: optional(oneOf("string", "number", "bigint"), "rows"),
  /**
   * numeric values.
   *
   * @defaultValue none: as `int8`, so every digit is kept unless you choose `number`
   */
  numeric: optional(oneOf("string", "number"), "rows"),
  /**
   * date, timestamp and timestamptz in JavaScript objects. `string`: ISO 8601 text, which keeps microseconds, infinity
   * and all years. `date`: a `Date`, in milliseconds, a timestamp read as UTC. `temporal`: PlainDate, PlainDateTime and
   * Instant, and PlainTime for time, Duration for interval. A value that the type cannot represent, such as infinity,
   * stays text.
   *
   * @defaultValue `string`
   * @runtimes `temporal`: error if the runtime has no `Temporal`
   */
  dates: option(oneOf("string", "date", "temporal"), "string", "values"),
  /**
   * bytea in JavaScript objects: bytes, PostgreSQL's text `\x…` (`hex`), or base64.
   *
   * @defaultValue `uint8array`: bytes stay bytes
   */
  bytea: option(oneOf("uint8array", "hex", "base64"), "uint8array", "values"),
  /**
   * json and jsonb in JavaScript objects: parsed, or the server's text with every digit.
   *
   * @defaultValue `parse`
   */
  json: option(oneOf("parse", "text"), "parse", "values"),
  /**
   * Your own parsers for JavaScript objects, by a type's OID or SQL name (`uuid`, `uuid[]`, `app.mood`). They override
   * every other policy (docs/options.md#parsers-of-your-own). A call with parsers of its own also uses the client's.
   * For the same type the call's parser wins.
   *
   * @unit object of functions
   */
  types: optional(
    rule<Readonly<Record<string, Parser>>>(
      "an object of functions",
      (value) => typeof value === "object" && value && Object.values(value).every(isFunction),
    ),
    "values",
  ),
  /**
   * Turns values of your own into parameters. It is called with each value that is not null, and with each element of
   * an array, and returns the value itself, or what is sent instead (docs/queries.md#values-of-your-own).
   *
   * @unit function
   * @example
   * createClient(url, { serialize: (value) => (value instanceof Decimal ? value.toString() : value) });
   */
  serialize: optional(rule<Serializer>("a function", isFunction)),
  /**
   * The maximum length of a message from the server (docs/options.md#limits-and-memory).
   *
   * @unit bytes
   * @defaultValue 1,073,741,824, PostgreSQL's own limit: a longer message cannot be genuine
   * @runtimes Workers: 8,388,608, because an isolate has 128 MB in all
   */
  maxMessageBytes: option(whole(1 << 10, 1 << 30), (_, { isWorkerd }) => (isWorkerd ? 1 << 23 : 1 << 30)),
  /**
   * Finished rows are passed on when they have this many bytes, at most 4 MiB.
   *
   * @unit bytes
   * @defaultValue 65,536, a socket's size: larger pieces only wait, smaller pieces cost a call each
   */
  flushBytes: option(whole(1, 1 << 30), 1 << 16),
  /**
   * How long a finished row waits for `flushBytes` to fill. 0: it does not wait.
   *
   * @unit milliseconds
   * @defaultValue 100, so that rows of a slow query are passed on soon (the server itself sends 8 KB at a time)
   */
  flushInterval: option(milliseconds, 100),
  /**
   * The maximum number of named statements per connection, including the driver's own checks
   * (docs/queries.md#the-first-run-of-a-statement). 0: none, for poolers without prepared statements.
   *
   * @unit statements, 0 to 65,535
   * @defaultValue 64: enough for what an application repeats, and kind to the server's memory
   */
  statementCacheSize: option(whole(0, 65_535), 64),
  /**
   * When a statement is prepared under a name: from its second use on, but never behind a detected pooler (`auto`),
   * from its first use on (`named`), or never (`unnamed`) (docs/poolers.md).
   *
   * @defaultValue `auto`: statements that run once leave nothing on the server
   * @runtimes PgBouncer from 1.21 on: `named` works, with care (docs/poolers.md)
   */
  prepare: option(oneOf("auto", "named", "unnamed"), "auto"),
  /**
   * How the driver runs a statement that the isolate does not know. `text`: it runs at once, with values and rows as
   * text. `describe`: the server is asked for its types first, which costs a round trip. Before PostgreSQL 16 a
   * statement whose rows are read is described first in any case (docs/queries.md#the-first-run-of-a-statement).
   *
   * @defaultValue `text`
   */
  firstRun: option(oneOf("text", "describe"), "text"),
  /**
   * The maximum number of calls of `query`, `first`, `exec`, `json` and `describe` in flight: calls that are made
   * together are sent together and answered in order (docs/queries.md#calls-made-together). 1: each call waits for the
   * one before it.
   *
   * @unit 1 to 1,000
   * @defaultValue 100: enough to hide a round trip, and few enough that a failed connection leaves few calls in doubt
   */
  pipelining: option(whole(1, 1_000), 100),
  /**
   * Runs a statement outside a transaction again after a conflict (40001, 40P01), which the server has rolled back.
   * `true`: up to three runs in all; a number: up to that many. The pause is 10 ms, 20 ms … plus up to as much again at
   * random. Not inside a transaction (use its `retry`), and not after rows have gone downstream.
   *
   * @unit boolean, number
   * @defaultValue false
   */
  retryOnSerialization: option(attempts, false),
  /**
   * Sends the first query together with the last authentication message, which saves a round trip. `auto` does so only
   * if verified TLS or a local link has already shown that the server is the right one.
   *
   * @defaultValue `auto`: elsewhere the query would leave before the server has authenticated itself
   */
  earlyQuery: option(oneOf<boolean | "auto">("auto", true, false), "auto"),
  /**
   * The idle time before the first TCP keep-alive probe, which notices a dead peer. 0: no probes.
   *
   * @unit milliseconds
   * @defaultValue 30,000
   * @runtimes Workers: no effect, sockets have no such option
   */
  keepAlive: option(milliseconds, 30_000),
  /**
   * The size of the buffer for one read.
   *
   * @unit bytes, 1,024 to 16,777,216
   * @defaultValue 65,536: fewer reads than with the runtimes' own buffers of 4 to 16 KiB, and still small for an
   * isolate
   * @runtimes Workers: 65,536 always
   */
  readBuffer: option(whole(1 << 10, 1 << 24), 1 << 16),
  /**
   * `3.2` has long cancel keys, and needs PostgreSQL 18 and poolers that know it.
   *
   * @defaultValue `3.0`, libpq's: older poolers refuse anything newer
   */
  maxProtocolVersion: option(oneOf("3.0", "3.2"), "3.0"),
  /**
   * Makes the sockets: your own transport, by the socket contract of docs/architecture.md.
   *
   * @unit function
   * @defaultValue the runtime's
   */
  connect: optional(rule<Connector>("a function", isFunction)),
  /**
   * Your object that is told of connects, calls, notices and changed settings (docs/observer.md). A call's own observer
   * gets the events of that call instead of the client's.
   *
   * @unit object of functions
   */
  observer: optional(observer, "every"),
  /**
   * Whether observers and tracing channels get the values of parameters too.
   *
   * @defaultValue false: parameters are often secrets or personal data
   */
  observeParameters: option(flag, false),
  /**
   * For debugging: each flight is written as a line, to `console.debug` or to this function
   * (docs/observer.md#each-flight-as-a-line). Errors have the call's `parameters`, and their stack is recorded at each
   * call (docs/errors.md#where-it-happened), which costs 3 to 5 µs each.
   *
   * @unit boolean, function
   * @defaultValue false
   */
  debug: option(
    rule<boolean | ((line: string) => void)>(
      "true, false or a function",
      (value) => typeof value === "boolean" || isFunction(value),
    ),
    false,
  ),
  /**
   * Returns what is appended to each statement without a name, as an SQL comment: `() => ({ traceparent })`. It is
   * called in the caller's async context (docs/observer.md#the-trace-in-the-servers-log).
   *
   * @unit function
   * @defaultValue none: a comment that differs each time defeats caches that are keyed by the text, including
   * Hyperdrive's
   */
  sqlComment: optional(rule<() => Readonly<Record<string, string | undefined>> | undefined>("a function", isFunction)),
  /**
   * How long a call may run before `onSlowQuery` of the observer is called, while the call still runs. 0: never.
   *
   * @unit milliseconds
   * @defaultValue 0
   * @runtimes Workers: timers wait for I/O
   */
  slowQueryThreshold: option(milliseconds, 0, "every"),
  /**
   * When it aborts, connecting and every call end. If a call's own signal aborts, the call rejects with an
   * `AbortError`, and its query is cancelled on the server. On Workers: `request.signal`.
   *
   * @unit AbortSignal
   */
  signal: optional(
    rule<AbortSignal>(
      "an AbortSignal",
      (value) => typeof (value as AbortSignal | null)?.addEventListener === "function",
    ),
    "every",
  ),
};

type Table = typeof OPTIONS;
type OptionName = keyof Table;
export type OptionValue<Name extends OptionName> = ValueOf<Table[Name]>;
/** The names of the options that such calls may set. */
export type NamesBy<By extends Setters> = {
  [Name in OptionName]: Table[Name]["by"] extends By ? Name : never;
}[OptionName];
/** The names of the options without a default. */
export type OptionalName = {
  [Name in OptionName]: Table[Name] extends Entry<infer _, undefined, Setters> ? Name : never;
}[OptionName];

/** The names of all options. */
export const optionNames = Object.keys(OPTIONS) as readonly OptionName[];

/** The names of the options that such calls may set. */
export function namesBy<By extends Setters>(...by: By[]): readonly NamesBy<By>[] {
  return optionNames.filter((name): name is NamesBy<By> => (by as Setters[]).includes(OPTIONS[name].by));
}
