// From what a user passes (URL, binding, options) to one frozen, complete and checked Config; and the pure decisions
// that follow from it: how TLS is tried on a runtime, which authentication methods are allowed, which startup
// parameters are sent.
//
// Knows: the options of docs/options.md with defaults and bounds, libpq's URL parameters, sslmode's meanings.
// Must not know: sockets, wasm, clocks, the environment (no PG* variable is ever read).
//
// Secrets: the password lives in a closure, and no error repeats a value that came out of a URL, because a badly
// encoded password can end up in any part of it. What is named is an option's name, and what it must be.

import type { Parser } from "../values/converters.ts";
import type { Runtime } from "../sockets/runtime.ts";
import { PgzError, UsageError } from "../util/errors.ts";
import { LONGEST_TIMER } from "../util/limits.ts";
import { isObserver, type Observer } from "../util/observer.ts";
import type { Connector } from "../sockets/contract.ts";
import { isText } from "../util/text.ts";
import {
  AUTH_CLEARTEXT,
  AUTH_MD5,
  AUTH_SCRAM_SHA_256,
  AUTH_TRUST,
  CLEARTEXT_WANTS_TLS,
  CLEARTEXT_WANTS_VERIFIED_TLS,
} from "../wasm/boundary.ts";

/** libpq's six modes. `docs/options.md` says what each becomes on each runtime. */
export type SslMode = "disable" | "allow" | "prefer" | "require" | "verify-ca" | "verify-full";

/** A password, or a function that is called for one at each new connection, for tokens that expire. */
export type Password = string | (() => string | Promise<string>);

/**
 * The options of a connection. `undefined` means the default. Durations are in milliseconds, sizes in bytes.
 * `docs/options.md` has the reason for each default, and what differs per runtime.
 */
export interface Options {
  /** Name or address of the server. Default `"localhost"`. */
  host?: string | undefined;
  /** TCP port, 1 to 65,535. Default 5432. */
  port?: number | undefined;
  /** Name of the database. Default: the user's name, as in libpq. */
  database?: string | undefined;
  /** The role to log in as. Required, here or in the URL, because an edge runtime has no login name to use instead. */
  user?: string | undefined;
  /** The password, or a function that returns it. An empty text is a password. No error and no log shows it. */
  password?: Password | undefined;
  /** The `application_name` that `pg_stat_activity` shows. Default `"pgz-edge"`. */
  applicationName?: string | undefined;
  /** Settings for the session, such as `{ search_path: "app", TimeZone: "UTC" }`. `client_encoding` is always UTF8. */
  startup?: Readonly<Record<string, string>> | undefined;
  /** Command-line options for the server process, libpq's `options`, such as `"-c geqo=off"`. */
  options?: string | undefined;
  /** Whether TLS is used and what is verified. Default `"prefer"`, and `"disable"` on a local link (`localLink`). */
  sslmode?: SslMode | undefined;
  /**
   * `"direct"` starts TLS without asking first, which saves a round trip. It needs PostgreSQL 17, a runtime with ALPN,
   * and sslmode `require` or stronger. Default `"postgres"`.
   */
  sslnegotiation?: "postgres" | "direct" | undefined;
  /** The name that is sent (SNI) and that the certificate must have. Default: `host`. */
  servername?: string | undefined;
  /** Certificates (PEM) to trust instead of the runtime's. Every sslmode that uses TLS then checks the chain. */
  ca?: string | undefined;
  /** The client's certificate (PEM). Needs `key`. */
  cert?: string | undefined;
  /** The private key (PEM) of `cert`. */
  key?: string | undefined;
  /**
   * The allowed authentication methods, as libpq's `require_auth`: a comma-separated list of `none`, `password`, `md5`
   * and `scram-sha-256`, or all with `!` to exclude them. Default: any, but cleartext only over verified TLS or a local
   * link. Naming `password` here allows it over TLS that is not verified too.
   */
  requireAuth?: string | undefined;
  /** Allows the password in clear over any link, also without TLS. Default `false`. */
  allowCleartextPassword?: boolean | undefined;
  /** `"require"` is an error, because no runtime supports channel binding yet. Default `"prefer"`. */
  channelBinding?: "disable" | "prefer" | "require" | undefined;
  /** The most SCRAM iterations that a server may ask for, 1 to 100,000,000. It protects your CPU. Default 100,000. */
  scramMaxIterations?: number | undefined;
  /** Milliseconds for DNS, TCP, TLS and authentication together. It cannot be turned off. Default 10,000. */
  connectTimeout?: number | undefined;
  /** Milliseconds for each call, then CancelRequest and `QUERY_TIMEOUT`. Default 0: no deadline. */
  timeout?: number | undefined;
  /** The most rows of a result. Default 0: no limit. */
  maxRows?: number | undefined;
  /** The most bytes of an encoded result, including brackets and headers. Default 0: no limit. */
  maxBytes?: number | undefined;
  /** The most bytes of one field, as the server sends it. Default 0: no limit. */
  maxFieldBytes?: number | undefined;
  /**
   * What happens to a result that passes one of these limits: `"error"` rejects or breaks it off, `"truncate"` ends it
   * properly with a mark. Default `"error"`, because a shortened result must not look complete.
   */
  onLimit?: "error" | "truncate" | undefined;
  /**
   * What happens to columns with the same name: `"keep"` (in objects the last one wins), `"rename"` the second `id` to
   * `id_2`, or `"error"`. Default `"keep"`, as the server's own JSON does.
   */
  duplicates?: "keep" | "rename" | "error" | undefined;
  /**
   * int8 (bigint) values. Default: strings in JavaScript objects, since a number would lose digits; bare digits in
   * JSON.
   */
  int8?: "string" | "number" | "bigint" | undefined;
  /** numeric values. Default: strings in JavaScript objects, since a number would lose digits; bare digits in JSON. */
  numeric?: "string" | "number" | undefined;
  /** date, timestamp and timestamptz in JavaScript objects: ISO 8601 text, `Date` or Temporal. Default `"string"`. */
  dates?: "string" | "date" | "temporal" | undefined;
  /** bytea in JavaScript objects: bytes, PostgreSQL's text `\x…`, or base64. Default `"uint8array"`. */
  bytea?: "uint8array" | "hex" | "base64" | undefined;
  /** json and jsonb in JavaScript objects: parsed, or the server's text with every digit. Default `"parse"`. */
  json?: "parse" | "text" | undefined;
  /** Your own parsers for JavaScript objects, by a type's OID or SQL name. They override every other policy. */
  types?: Readonly<Record<string, Parser>> | undefined;
  /** The longest message accepted from the server, in bytes. Default 8 MiB on Workers, else PostgreSQL's own 1 GiB. */
  maxMessageBytes?: number | undefined;
  /** Bytes of finished rows that are passed on at once. Above 4 MiB counts as 4 MiB. Default 65,536. */
  flushBytes?: number | undefined;
  /** Milliseconds that a finished row waits for `flushBytes` to fill. 0: it does not wait. Default 100. */
  flushInterval?: number | undefined;
  /** Named statements per connection, up to 65,535. 0: none, for poolers without prepared statements. Default 64. */
  statementCacheSize?: number | undefined;
  /**
   * When a statement is prepared under a name: from its second use on, but never behind a detected pooler (`"auto"`),
   * from its first use on (`"named"`), or never (`"unnamed"`). Default `"auto"`.
   */
  prepare?: "auto" | "named" | "unnamed" | undefined;
  /**
   * Runs a statement outside a transaction again after a conflict (40001, 40P01), which the server has rolled back.
   * `true`: up to three runs in all; a number: that many. The pause is 10 ms, 20 ms … plus up to as much again at
   * random. A statement whose rows have gone downstream is not repeated. Default false.
   */
  retryOnSerialization?: boolean | number | undefined;
  /**
   * Sends the first query together with the last authentication message, which saves a round trip. `"auto"` does so
   * only if the server is already known, by verified TLS or a local link. Default `"auto"`.
   */
  earlyQuery?: boolean | "auto" | undefined;
  /** Milliseconds until the first TCP keep-alive probe. 0: none. No effect on Workers. Default 30,000. */
  keepAlive?: number | undefined;
  /** Bytes of one read, 1,024 to 16,777,216. Workers always use 65,536. Default 65,536. */
  readBuffer?: number | undefined;
  /** `"3.2"` has long cancel keys, and needs PostgreSQL 18 and poolers that know it. Default `"3.0"`, as in libpq. */
  maxProtocolVersion?: "3.0" | "3.2" | undefined;
  /**
   * The link never leaves the runtime, so a cleartext password and an early query are safe. Default: whether the host
   * ends in `.hyperdrive.local`.
   */
  localLink?: boolean | undefined;
  /** Makes the sockets, instead of the runtime's connector (the socket contract in docs/architecture.md). */
  connect?: Connector | undefined;
  /** Is called for connects, calls, notices and changed settings (docs/observer.md). */
  observer?: Observer | undefined;
  /** Milliseconds after which the observer's `onSlowQuery` is called. Default 0: never. */
  slowQueryThreshold?: number | undefined;
  /** When it aborts, connecting and every call end. On Workers: `request.signal`. */
  signal?: AbortSignal | undefined;
}

/** Options with an optional URL. The options win over the URL. */
export type ConfigObject = Options & { readonly connectionString?: string | undefined };

/** A URL, options, or anything with a `connectionString`, such as a Hyperdrive binding. */
export type ConnectInput = string | ConfigObject | { readonly href: string } | { readonly connectionString: string };

type Secret = "password" | "key";
type Optional =
  "int8" | "numeric" | "types" | "servername" | "ca" | "cert" | "requireAuth" | "connect" | "observer" | "signal";

/** Every option resolved; frozen. Holds no secret that JSON, `console.log` or a spread could show. */
export type Config = Readonly<
  { [K in Exclude<keyof Options, Secret | Optional | "startup">]-?: Exclude<Options[K], undefined> } & {
    [K in Optional]: Exclude<Options[K], undefined> | undefined;
  } & {
    startup: readonly (readonly [name: string, value: string])[];
    /**
     * Asks anew each time; `undefined` without a password. Rejects with `UsageError` when the function gives no usable
     * text.
     */
    password: () => Promise<string | undefined>;
    /** The client certificate's private key. */
    key: () => string | undefined;
  }
>;

/** What `resolveConfig` must know of the runtime. */
export interface Defaults {
  /** Workers have 128 MB in all: the message bound is smaller there. */
  readonly isWorkerd?: boolean | undefined;
}

/**
 * The complete configuration. Later sources win: defaults, URL, the object's own options, `overrides`.
 *
 * @throws UsageError `INVALID_URL`, `INVALID_OPTION`, `UNKNOWN_OPTION`, `INVALID_SSLMODE`,
 * `CHANNEL_BINDING_UNSUPPORTED`
 */
export function resolveConfig(input: ConnectInput, runtime: Defaults = {}, overrides: Options = {}): Config {
  const given = new Map<string, unknown>();
  read(input, given);
  readObject(overrides, given);
  const all: Record<string, unknown> = {};
  for (const [name, [rule, fallback]] of Object.entries(table)) {
    const value =
      given.get(name) ??
      (typeof fallback === "function" ? (fallback as Fallback)(all as unknown as Config, runtime) : fallback);
    all[name] = value === undefined ? undefined : rule(value, name);
  }
  const { password, key } = all as Options;
  all.startup = Object.entries(all.startup as object);
  all.password = async () => (typeof password === "function" ? passwordText(await password(), "password") : password);
  all.key = () => key;
  const config = Object.freeze(all) as unknown as Config;
  checkTogether(config, key);
  return config;
}

export interface TlsPlan {
  /**
   * Whether each asks for TLS; in order. {@link deservesNextAttempt} says when the next one is due, on a new socket.
   */
  readonly attempts: readonly boolean[];
  /** `ca`: the chain; `full`: the chain and the name. */
  readonly verify: "none" | "ca" | "full";
}

/**
 * How TLS is tried under this sslmode on this runtime. Where a runtime cannot do what was asked, the plan is the
 * stricter thing or there is none; it is never the weaker one.
 *
 * A runtime that always verifies makes `verify: "full"` of every mode, and then `prefer` does not fall back to plain
 * text after a failed handshake: libpq would have had an encrypted link there.
 *
 * @throws UsageError `UNSUPPORTED_ON_RUNTIME`, before anything is sent
 */
export function tlsPlan(
  config: Config,
  { name, capabilities: can = {} }: Pick<Runtime, "name" | "capabilities">,
): TlsPlan {
  const { sslmode, ca, cert, host, servername = host } = config;
  if (sslmode === "disable") return { attempts: [false], verify: "none" };

  const unsupported = {
    ca: ca && !can.canUseCustomCa,
    cert: cert && !can.canClientCertificate,
    sslnegotiation: config.sslnegotiation === "direct" && !can.canAlpn,
    // Where certificates can be chosen, so can the name that they must have.
    servername: servername !== host && !can.canUseCustomCa,
  };
  for (const [option, refused] of Object.entries(unsupported)) {
    if (refused) throw new UsageError("UNSUPPORTED_ON_RUNTIME", `${name} does not support option "${option}".`);
  }

  const attempts =
    sslmode === "allow" ? [false, true] : sslmode === "prefer" && can.canSkipVerification ? [true, false] : [true];
  // As libpq: whoever names certificates to trust gets the chain checked in the weak modes too.
  const verify =
    sslmode === "verify-full" || !can.canSkipVerification ? "full" : sslmode === "verify-ca" || ca ? "ca" : "none";
  return { attempts, verify };
}

/**
 * Whether the failure of one attempt is what the next one is for: the TLS handshake failed, the server answered
 * SSLRequest with an error, or it has no pg_hba.conf line for this kind of link (28000; poolers say 08P01). Not a wrong
 * password, a full server or a dead network.
 */
export function deservesNextAttempt(error: unknown): boolean {
  return error instanceof PgzError && /^(TLS_(FAILED|REFUSED)|28000|08P01)$/.test(error.code);
}

/**
 * What the core is told of authentication over this link: the methods that the server may ask for, and why cleartext is
 * not one.
 */
export function allowedMethods(config: Config, verify: TlsPlan["verify"], encrypted: boolean): number {
  const methods = requiredMethods(config.requireAuth);
  if (!(methods & AUTH_CLEARTEXT)) return methods;
  const refusal = cleartextRefusal(config, verify, encrypted);
  return refusal === undefined ? methods : (methods & ~AUTH_CLEARTEXT) | refusal;
}

/**
 * What this link lacks for a password in clear; `undefined`: nothing. Whoever reads the link, or answers it, would have
 * the password.
 */
function cleartextRefusal(
  { localLink, allowCleartextPassword, requireAuth }: Config,
  verify: TlsPlan["verify"],
  encrypted: boolean,
): number | undefined {
  if (localLink || allowCleartextPassword) return undefined;
  if (!encrypted) return CLEARTEXT_WANTS_TLS;
  if (verify !== "none" || asksForCleartext(requireAuth)) return undefined;
  return CLEARTEXT_WANTS_VERIFIED_TLS;
}

/**
 * `auto` sends the first query early only to a server that is already known: by a fully verified TLS link, or by a
 * local one.
 */
export function allowsEarlyQuery(config: Config, verify: TlsPlan["verify"], encrypted: boolean): boolean {
  if (config.earlyQuery !== "auto") return config.earlyQuery;
  return config.localLink || (encrypted && verify === "full");
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

function read(input: unknown, given: Map<string, unknown>): void {
  const { connectionString, href } = Object(input) as { connectionString?: unknown; href?: unknown };
  // Only plain objects are asked for options: a Hyperdrive binding's `connect` is not the option of that name.
  const prototype: unknown = Object.getPrototypeOf(Object(input));
  const isPlain = input && !(prototype && Object.getPrototypeOf(prototype));
  const url = typeof input === "string" ? input : (connectionString ?? (isPlain ? undefined : href));
  if (typeof url === "string") readUrl(url, given);
  else if (!isPlain) throw invalidUrl("Pass a URL, options, or a binding with a connectionString");
  if (isPlain) readObject(input, given);
}

function readObject(input: object, given: Map<string, unknown>): void {
  for (const [name, value] of Object.entries(input)) {
    if (name === "connectionString" || value === undefined) continue;
    if (!optionNames.includes(name)) throw unknown(`option "${name}"`, name, optionNames);
    given.set(name, value);
  }
}

/**
 * libpq's URL parameters. Each is the option of that name, in the case of JavaScript; `dbname` alone is called
 * otherwise.
 */
const parameters =
  "host port dbname user password application_name options sslmode sslnegotiation require_auth channel_binding connect_timeout max_protocol_version".split(
    " ",
  );

// user:password @ host or [IPv6] : port / database ? parameters. As in libpq the first @ before any / ends the user
// information; a later @ means a password that is not percent-encoded, of which a part would be taken for a host or a
// parameter.
const URL_FORM =
  /^postgres(?:ql)?:\/\/(?:([^:@/]*)(?::([^@/]*))?@)?(\[[^[\]@/]*\]|[^:/?[\]@]*)(?::([^/?@]*))?(?:\/([^?@]*))?(?:\?([^@]*))?$/i;

function readUrl(text: string, given: Map<string, unknown>): void {
  const [matched, user, password, host, port, database, query = ""] = URL_FORM.exec(text.trim()) ?? [];
  if (matched === undefined)
    throw invalidUrl("Its form is postgres://user:password@host:port/database?sslmode=require");
  const set = (name: string, encoded = "") => {
    const value = decode(encoded);
    if (value) given.set(name, /^(port|connectTimeout)$/.test(name) && /^\d+$/.test(value) ? Number(value) : value);
  };
  set("user", user);
  if (password !== undefined) given.set("password", decode(password));
  set("host", host?.replace(/[[\]]/g, ""));
  set("port", port);
  set("database", database);
  for (const pair of query.split("&")) {
    const [parameter = "", ...values] = pair.split("=");
    // Behind a password in the query a name may be the rest of it, after an "&" that is not percent-encoded.
    if (pair) readParameter(decode(parameter), values.join("="), set, !query.includes("password="));
  }
  // As in libpq, which refuses a weaker mode beside it: whoever names certificates to trust wants them to be checked.
  if (query.includes("sslrootcert=system")) given.set("sslmode", "verify-full");
}

function readParameter(
  parameter: string,
  value: string,
  set: (name: string, value: string) => void,
  named: boolean,
): void {
  // Seconds in libpq.
  if (parameter === "connect_timeout") value += "000";
  if (parameters.includes(parameter))
    return set(
      parameter === "dbname" ? "database" : parameter.replace(/_./g, (text) => text.charAt(1).toUpperCase()),
      value,
    );
  const [file, root] = /^ssl(?:(root)?cert|key)$/.exec(parameter) ?? [];
  if (!file)
    throw unknown(
      `URL parameter${named && /^[a-z_]{1,40}$/i.test(parameter) ? ` "${parameter}"` : ""}`,
      parameter,
      parameters,
    );
  // libpq's word for the runtime's own certificates, and the default here.
  if (root && value === "system") return;
  throw new UsageError(
    "UNKNOWN_OPTION",
    `URL parameter "${file}" names a file: pass its text as option "${root ? "ca" : file.slice(3)}".`,
  );
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // No cause: it may quote the text.
    throw invalidUrl("Write % itself as %25");
  }
}

// -- checking --------------------------------------------------------------------------------------------------------

/** Gives the value back, or throws and says what the option of this name must be. */
type Rule = <T>(value: T, name: string) => T;

function rule(must: string, holds: (value: unknown) => unknown): Rule {
  return (value, name) => (holds(value) ? value : invalid(name, must));
}

export function oneOf(...values: unknown[]): Rule {
  return rule(`one of ${values.join(", ")}`, (value) => values.includes(value));
}

function whole(min: number, max: number): Rule {
  return rule(
    `a whole number from ${min} to ${max}`,
    (value) => Number.isInteger(value) && (value as number) >= min && (value as number) <= max,
  );
}

const anyText = rule("text without NUL", isText);
const someText = rule("text without NUL, not empty", (value) => value && isText(value));
// An empty password is text like any other.
const passwordText = rule("text without NUL, or a function that gives it", isText);
const pem = rule("PEM text (-----BEGIN …)", (value) => isText(value) && /-----BEGIN ./.test(value));
const flag = oneOf(true, false);
/** Of something that is tried again. */
export const attempts = rule(
  "a boolean or the number of attempts",
  (value) => typeof value === "boolean" || (Number.isInteger(value) && (value as number) > 0),
);
const count = whole(0, Number.MAX_SAFE_INTEGER);
const milliseconds = whole(0, LONGEST_TIMER);
const RESERVED = /^(user|database|options|application_name|client_encoding|replication|_pq_\..*)?$/i;

type Fallback = (sofar: Config, runtime: Defaults) => unknown;

/** One of these, by default the first. */
const firstOf = (...values: (string | boolean)[]) => [oneOf(...values), values[0]!] as const;

/** Per option what it must be, and its default: a value, one that follows from the options above it, or none. */
const table: {
  readonly [K in keyof Options]-?: readonly [rule: Rule, fallback?: Fallback | string | number | boolean | object];
} = {
  host: [rule("one host name or address", (value) => isText(value) && /^[^\0-\x20,/@\x7f]+$/.test(value)), "localhost"],
  port: [whole(1, 65_535), 5432],
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
  localLink: [flag, ({ host }) => host.endsWith(".hyperdrive.local")],
  sslmode: [
    oneOf("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    ({ localLink }) => (localLink ? "disable" : "prefer"),
  ],
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
  scramMaxIterations: [whole(1, 100_000_000), 100_000],
  connectTimeout: [whole(1, LONGEST_TIMER), 10_000],
  timeout: [milliseconds, 0],
  maxRows: [count, 0],
  maxBytes: [count, 0],
  maxFieldBytes: [count, 0],
  onLimit: firstOf("error", "truncate"),
  duplicates: firstOf("keep", "rename", "error"),
  int8: [oneOf("string", "number", "bigint")],
  numeric: [oneOf("string", "number")],
  dates: firstOf("string", "date", "temporal"),
  bytea: firstOf("uint8array", "hex", "base64"),
  json: firstOf("parse", "text"),
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
  retryOnSerialization: [attempts, false],
  keepAlive: [milliseconds, 30_000],
  readBuffer: [whole(1 << 10, 1 << 24), 1 << 16],
  maxProtocolVersion: firstOf("3.0", "3.2"),
  connect: [rule("a function", (value) => typeof value === "function")],
  observer: [rule("an object whose on… methods are functions", isObserver)],
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

function checkTogether(config: Config, key: string | undefined): void {
  if ((config.cert === undefined) !== (key === undefined)) invalid("key", `given together with "cert"`);
  // As libpq: direct TLS cannot fall back, so a mode that may do without TLS contradicts it.
  if (config.sslnegotiation === "direct" && !/^(require|verify-)/.test(config.sslmode))
    invalid("sslnegotiation", '"postgres" unless sslmode is "require" or stronger');
  if (config.channelBinding === "require") {
    throw new UsageError(
      "CHANNEL_BINDING_UNSUPPORTED",
      'Option "channelBinding" cannot be "require" on any runtime: use sslmode=verify-full.',
    );
  }
}

/** The words of libpq's require_auth. The last three may be listed, but nothing here speaks them. */
const METHODS = new Map([
  ["none", AUTH_TRUST],
  ["password", AUTH_CLEARTEXT],
  ["md5", AUTH_MD5],
  ["scram-sha-256", AUTH_SCRAM_SHA_256],
  ["gss", 0],
  ["sspi", 0],
  ["oauth", 0],
]);
const ALL_METHODS = AUTH_TRUST | AUTH_CLEARTEXT | AUTH_MD5 | AUTH_SCRAM_SHA_256;

/** The methods that a require_auth leaves; 0 when it is malformed or leaves none. */
function requiredMethods(list: string | undefined): number {
  if (list === undefined) return ALL_METHODS;
  const words = list.split(",").map((word) => word.trim());
  const excludes = list.trimStart().startsWith("!");
  let listed = 0;
  for (const word of words) {
    // All of them with "!" or none.
    if (word.startsWith("!") !== excludes) return 0;
    const method = METHODS.get(excludes ? word.slice(1) : word);
    if (method === undefined) return 0;
    listed |= method;
  }
  return excludes ? ALL_METHODS & ~listed : listed;
}

/** Cleartext by its name, not as one of those that are left. */
function asksForCleartext(list = ""): boolean {
  return list.split(",").some((word) => word.trim() === "password");
}

// -- errors ----------------------------------------------------------------------------------------------------------

function invalid(name: string, must: string): never {
  throw new UsageError(name === "sslmode" ? "INVALID_SSLMODE" : "INVALID_OPTION", `Option "${name}" must be ${must}.`);
}

function invalidUrl(why: string): UsageError {
  return new UsageError(
    "INVALID_URL",
    `The URL cannot be read. ${why}; percent-encode @ : / ? # % in user and password.`,
  );
}

/** A cap that is misspelt must not be none. */
export function checkOptions(options: object, known: readonly string[]): void {
  for (const name in options) {
    if (!known.includes(name) && (options as Record<string, unknown>)[name] !== undefined)
      throw unknown(`option "${name}"`, name, known);
  }
}

/**
 * The nearest name is the one with the longest beginning in common, whatever the case and the punctuation; two letters
 * say nothing.
 */
function unknown(what: string, name: string, known: readonly string[]): UsageError {
  const letters = (text: string) => text.toLowerCase().replace(/[^a-z]/g, "");
  let beginning = letters(name.slice(0, 40));
  let nearest;
  while (beginning.length > 2 && !(nearest = known.find((other) => letters(other).startsWith(beginning))))
    beginning = beginning.slice(0, -1);
  return new UsageError(
    "UNKNOWN_OPTION",
    `Unknown ${what}. ${nearest ? `The nearest known name is "${nearest}"` : `Known names: ${known.join(", ")}`}.`,
  );
}
