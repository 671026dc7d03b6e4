// From what a user passes (URL, binding, options) to one frozen, complete and checked Config; and the pure decisions that follow
// from it: how TLS is tried on a runtime, which authentication methods are allowed, which startup parameters are sent.
//
// Knows: the options of docs/options.md with defaults and bounds, libpq's URL parameters, sslmode's meanings.
// Must not know: sockets, wasm, clocks, the environment (no PG* variable is ever read).
//
// Secrets: the password lives in a closure, and no error repeats a value that came out of a URL, because a badly encoded
// password can end up in any part of it. What is named is an option's name, and what it must be.

import { PgzError, UsageError } from "./errors.ts";
import type { Connector } from "./sockets/contract.ts";

/** libpq's six values with libpq's meanings; `docs/options.md` says what each becomes on which runtime. */
export type SslMode = "disable" | "allow" | "prefer" | "require" | "verify-ca" | "verify-full";

/** A password, or what is asked for one at each new connection (for tokens that expire). */
export type Password = string | (() => string | Promise<string>);

/**
 * All options of a connection. Each may be absent or `undefined`, which means its default. Durations are milliseconds, sizes
 * bytes. Reasons and limits per runtime: `docs/options.md`.
 */
export interface Options {
  /** Name or address of the server. Default `"localhost"`. */
  host?: string | undefined;
  /** TCP port, 1 to 65,535. Default 5432. */
  port?: number | undefined;
  /** Default: the user's name, as in libpq. */
  database?: string | undefined;
  /** Required, here or in the URL: an edge runtime has no login name to fall back to. */
  user?: string | undefined;
  password?: Password | undefined;
  /** `application_name` at the server. Default `"pgz-edge"`. */
  applicationName?: string | undefined;
  /** Run-time parameters for the session, such as `{ search_path: "app", TimeZone: "UTC" }`. */
  startup?: Readonly<Record<string, string>> | undefined;
  /** Command-line options for the server process, libpq's `options`, such as `"-c geqo=off"`. */
  options?: string | undefined;
  /** Default `"prefer"`; `"disable"` on a link that is local to the runtime. */
  sslmode?: SslMode | undefined;
  /** `"direct"` starts with TLS at once; needs ALPN and sslmode `require` or stronger. Default `"postgres"`. */
  sslnegotiation?: "postgres" | "direct" | undefined;
  /** The name sent (SNI) and checked in the certificate. Default: `host`. */
  servername?: string | undefined;
  /** Certificates (PEM) to trust instead of the runtime's. */
  ca?: string | undefined;
  /** Client certificate (PEM); needs `key`. */
  cert?: string | undefined;
  /** Private key (PEM) of `cert`. */
  key?: string | undefined;
  /** libpq's `require_auth`: comma-separated `none`, `password`, `md5`, `scram-sha-256`, each with `!` to exclude. */
  requireAuth?: string | undefined;
  /** Allows the password in clear over a link without TLS. Default `false`. */
  allowCleartextPassword?: boolean | undefined;
  /** `"require"` is refused until a runtime can do it. Default `"prefer"`. */
  channelBinding?: "disable" | "prefer" | "require" | undefined;
  /** Most SCRAM iterations a server may ask for, 1 to 100,000,000. Default 100,000. */
  scramMaxIterations?: number | undefined;
  /** Deadline (ms) over name look-up, TCP, TLS and authentication. Default 10,000. */
  connectTimeout?: number | undefined;
  /** Deadline (ms) of each call. Default 0: none. */
  timeout?: number | undefined;
  /** Most rows of a result. Default 0: no limit. */
  maxRows?: number | undefined;
  /** Most bytes of an encoded result. Default 0: no limit. */
  maxBytes?: number | undefined;
  /** Longest message (bytes) accepted from the server. Default 64 MiB on Workers, else 1 GiB. */
  maxMessageBytes?: number | undefined;
  /** Bytes of finished rows that are handed on at once. Default 65,536. */
  flushBytes?: number | undefined;
  /** Longest time (ms) a finished row waits for `flushBytes` to fill. Default 100. */
  flushInterval?: number | undefined;
  /** Named statements per connection; 0: none. Default 64. */
  statementCacheSize?: number | undefined;
  /** `"auto"`: named from a shape's second use. Default `"auto"`. */
  prepare?: "auto" | "named" | "unnamed" | undefined;
  /** The first query leaves together with the last authentication message. `"auto"`: where the server is already known. Default `"auto"`. */
  earlyQuery?: boolean | "auto" | undefined;
  /** First TCP keep-alive probe (ms); 0: none. Default 30,000. */
  keepAlive?: number | undefined;
  /** Bytes of one read. Default 65,536. */
  readBuffer?: number | undefined;
  /** Default `"3.0"`. `"3.2"` (long cancel keys) needs PostgreSQL 18 and poolers that know it. */
  maxProtocolVersion?: "3.0" | "3.2" | undefined;
  /** The link never leaves the runtime, as Hyperdrive's. Default: the host ends in `.hyperdrive.local`. */
  localLink?: boolean | undefined;
  /** Makes the socket instead of the runtime's own (the socket contract of docs/architecture.md). */
  connect?: Connector | undefined;
  /** Ends connecting, and later each call, when it aborts. */
  signal?: AbortSignal | undefined;
}

/** An options object may also carry a URL; its own options win. */
export type ConfigObject = Options & { readonly connectionString?: string | undefined };

/** A URL, options, or anything with a `connectionString`, such as a Hyperdrive binding. */
export type ConnectInput = string | ConfigObject | { readonly href: string } | { readonly connectionString: string };

type Secret = "password" | "key";
type Optional = "servername" | "ca" | "cert" | "requireAuth" | "connect" | "signal";

/** Every option resolved; frozen. Holds no secret that JSON, `console.log` or a spread could show. */
export type Config = Readonly<
  { [K in Exclude<keyof Options, Secret | Optional | "startup">]-?: Exclude<Options[K], undefined> } & {
    [K in Optional]: Exclude<Options[K], undefined> | undefined;
  } & {
    startup: readonly (readonly [name: string, value: string])[];
    /** Asks anew each time; `undefined` without a password. Rejects with `UsageError` when the function gives no usable text. */
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
 * @throws UsageError `INVALID_URL`, `INVALID_OPTION`, `UNKNOWN_OPTION`, `INVALID_SSLMODE`, `CHANNEL_BINDING_UNSUPPORTED`
 */
export function resolveConfig(input: ConnectInput, runtime: Defaults = {}, overrides: Options = {}): Config {
  const given = new Map<string, unknown>();
  read(input, given);
  readObject(overrides, given);
  const all: Record<string, unknown> = {};
  for (const [name, [rule, fallback]] of Object.entries(table)) {
    const value = given.get(name) ?? (typeof fallback === "function" ? (fallback as Fallback)(all as unknown as Config, runtime) : fallback);
    all[name] = value === undefined ? undefined : rule(value, name);
  }
  const { password, key } = all as Options;
  all.startup = Object.entries(all.startup as object);
  all.password = async () => (typeof password === "function" ? checkedPassword(await password()) : password);
  all.key = () => key;
  const config = Object.freeze(all) as unknown as Config;
  checkTogether(config, key);
  return config;
}

/** What a runtime's sockets can do; the sockets' own file says it of itself. */
export interface RuntimeTls {
  /** For the error text: `"Cloudflare Workers"`. */
  readonly name: string;
  readonly canSkipVerification: boolean;
  readonly canUseCustomCa: boolean;
  readonly canAlpn: boolean;
  readonly canClientCertificate: boolean;
  /** May send and check another name than the host. Default: as `canUseCustomCa`. */
  readonly canSetServername?: boolean | undefined;
}

/** One way to open the connection. */
export interface TlsAttempt {
  readonly tls: "never" | "sslrequest" | "direct";
  /** The server answers SSLRequest with `N`: go on in plain text on the same socket, or give up with `TLS_REFUSED`. */
  readonly plainWhenRefused: boolean;
}

export interface TlsPlan {
  /** In order; {@link deservesNextAttempt} says when the next one is due, on a new socket. */
  readonly attempts: readonly TlsAttempt[];
  /** `ca`: the chain; `full`: the chain and the name. */
  readonly verify: "none" | "ca" | "full";
}

/**
 * How TLS is tried under this sslmode on this runtime. Where a runtime cannot do what was asked, the plan is the stricter thing
 * or there is none; it is never the weaker one.
 *
 * A runtime that always verifies makes `verify: "full"` of every mode, and then `prefer` does not fall back to plain text
 * after a failed handshake: libpq would have had an encrypted link there.
 *
 * @throws UsageError `UNSUPPORTED_ON_RUNTIME`, before anything is sent
 */
export function tlsPlan(config: Config, runtime: RuntimeTls): TlsPlan {
  const { sslmode, ca, cert, servername, host } = config;
  const plain: TlsAttempt = { tls: "never", plainWhenRefused: false };
  if (sslmode === "disable") return { attempts: [plain], verify: "none" };

  const direct = config.sslnegotiation === "direct";
  const need = (can: boolean, option: string) => {
    if (!can) throw new UsageError("UNSUPPORTED_ON_RUNTIME", `${runtime.name} cannot do what option "${option}" asks for: leave it out, or see docs/options.md.`);
  };
  need(ca === undefined || runtime.canUseCustomCa, "ca");
  need(cert === undefined || runtime.canClientCertificate, "cert");
  need(!direct || runtime.canAlpn, "sslnegotiation");
  need(servername === undefined || servername === host || (runtime.canSetServername ?? runtime.canUseCustomCa), "servername");

  const encrypted: TlsAttempt = { tls: direct ? "direct" : "sslrequest", plainWhenRefused: sslmode === "prefer" };
  const attempts =
    sslmode === "allow" ? [plain, encrypted] : sslmode === "prefer" && runtime.canSkipVerification ? [encrypted, plain] : [encrypted];
  // As libpq: whoever names certificates to trust gets the chain checked in the weak modes too.
  const verify = sslmode === "verify-full" || !runtime.canSkipVerification ? "full" : sslmode === "verify-ca" || ca !== undefined ? "ca" : "none";
  return { attempts, verify };
}

/**
 * Whether the failure of one attempt is what the next one is for: the TLS handshake failed, or the server has no pg_hba.conf
 * line for this kind of link (28000; poolers say 08P01). Not a wrong password, a full server or a dead network.
 */
export function deservesNextAttempt(error: unknown): boolean {
  return error instanceof PgzError && /^(TLS_FAILED|28000|08P01)$/.test(error.code);
}

/** Bits for the core's `allowed`: 1 trust, 2 cleartext, 4 MD5, 8 SCRAM-SHA-256; 16: cleartext is missing for want of TLS. */
export function allowedMethods(config: Config, encrypted: boolean): number {
  const methods = requiredMethods(config.requireAuth);
  return encrypted || config.localLink || config.allowCleartextPassword ? methods : methods & 2 ? methods ^ 18 : methods;
}

/** `auto` sends the first query early only to a server that is already known: by a fully verified TLS link, or by a local one. */
export function allowsEarlyQuery(config: Config, verify: TlsPlan["verify"], encrypted: boolean): boolean {
  if (config.earlyQuery !== "auto") return config.earlyQuery;
  return config.localLink || (encrypted && verify === "full");
}

/** The parameters of StartupMessage in order. `client_encoding` is fixed: the core knows UTF-8 only. */
export function startupParameters(config: Config): [name: string, value: string][] {
  const { user, database, applicationName, options, startup } = config;
  const all: [string, string][] = [["user", user], ["database", database], ["application_name", applicationName], ["client_encoding", "UTF8"]];
  if (options) all.push(["options", options]);
  for (const [name, value] of startup) all.push([name, value]);
  return all;
}

// -- reading ---------------------------------------------------------------------------------------------------------------

function read(input: unknown, given: Map<string, unknown>): void {
  if (typeof input === "string") return readUrl(input, given);
  if (typeof input !== "object" || input === null) throw invalidUrl("Pass a postgres:// URL, an object with options, or a binding with a connectionString");
  const { connectionString, href } = input as { connectionString?: unknown; href?: unknown };
  if (typeof connectionString === "string") readUrl(connectionString, given);
  // Only plain objects are asked for options: a Hyperdrive binding's `connect` is not the option of that name.
  const prototype: unknown = Object.getPrototypeOf(input);
  if (prototype === null || Object.getPrototypeOf(prototype) === null) return readObject(input, given);
  if (typeof href === "string") return readUrl(href, given);
  if (typeof connectionString !== "string") throw invalidUrl("This object has no connectionString");
}

function readObject(input: object, given: Map<string, unknown>): void {
  for (const [name, value] of Object.entries(input)) {
    if (name === "connectionString" || value === undefined) continue;
    if (!Object.hasOwn(table, name)) throw unknown(`option "${name}"`, name, Object.keys(table));
    given.set(name, value);
  }
}

/** libpq's URL parameters; `connect_timeout` is in seconds there. */
const parameters: Record<string, keyof Options> = {
  host: "host",
  port: "port",
  dbname: "database",
  user: "user",
  password: "password",
  application_name: "applicationName",
  options: "options",
  sslmode: "sslmode",
  sslnegotiation: "sslnegotiation",
  require_auth: "requireAuth",
  channel_binding: "channelBinding",
  connect_timeout: "connectTimeout",
  max_protocol_version: "maxProtocolVersion",
};
const files: Record<string, keyof Options> = { sslrootcert: "ca", sslcert: "cert", sslkey: "key" };

// user:password @ host or [IPv6] : port / database ? parameters. As in libpq the first @ before any / ends the user information;
// a later @ means a password that is not percent-encoded, of which a part would be taken for a host or a parameter.
const URL_FORM = /^postgres(?:ql)?:\/\/(?:([^@/]*)@)?(\[[^\]@/]*\]|[^:/?[\]@]*)(?::([^/?@]*))?(?:\/([^?@]*))?(?:\?([^@]*))?$/i;

function readUrl(text: string, given: Map<string, unknown>): void {
  const [matched, userinfo, host, port, database, query] = URL_FORM.exec(text.trim()) ?? [];
  if (matched === undefined) throw invalidUrl("It must look like postgres://user:password@host:5432/database?sslmode=require");
  const set = (name: string, value: string | undefined) => {
    const decoded = value && decode(value);
    if (decoded) given.set(name, numeric.has(name) ? wholeNumber(decoded) : decoded);
  };
  const colon = userinfo?.indexOf(":") ?? -1;
  set("user", colon < 0 ? userinfo : userinfo?.slice(0, colon));
  if (colon >= 0) given.set("password", decode(userinfo?.slice(colon + 1) ?? ""));
  set("host", host?.replace(/^\[(.*)\]$/, "$1"));
  set("port", port);
  set("database", database);
  for (const pair of query?.split("&") ?? []) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const parameter = decode(equals < 0 ? pair : pair.slice(0, equals));
    readParameter(parameter, equals < 0 ? "" : pair.slice(equals + 1), set);
  }
}

function readParameter(parameter: string, value: string, set: (name: string, value: string) => void): void {
  const name = Object.hasOwn(parameters, parameter) ? parameters[parameter] : undefined;
  if (name === "connectTimeout") return set(name, `${value}000`);
  if (name !== undefined) return set(name, value);
  const file = Object.hasOwn(files, parameter) ? files[parameter] : undefined;
  if (file === undefined) throw unknown(/^[a-z_]{1,40}$/i.test(parameter) ? `URL parameter "${parameter}"` : "URL parameter", parameter, Object.keys(parameters));
  // libpq's word for the runtime's own certificates, and the default here.
  if (parameter === "sslrootcert" && value === "system") return;
  throw new UsageError("UNKNOWN_OPTION", `The URL parameter "${parameter}" names a file, which is not read here: pass the PEM text as option "${file}".`);
}

const numeric = new Set<string>(["port", "connectTimeout"] satisfies (keyof Options)[]);

function wholeNumber(text: string): number {
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    // No cause: it may quote the text.
    throw invalidUrl("A % must be followed by two hexadecimal digits; write a % itself as %25");
  }
}

// -- checking --------------------------------------------------------------------------------------------------------------

type Rule = (value: unknown, name: string) => unknown;

function oneOf(...values: unknown[]): Rule {
  return (value, name) => (values.includes(value) ? value : invalid(name, `one of ${values.join(", ")}`));
}

function whole(min: number, max: number): Rule {
  return (value, name) =>
    Number.isInteger(value) && (value as number) >= min && (value as number) <= max ? value : invalid(name, `a whole number from ${min} to ${max}`);
}

function text(form: RegExp, must: string): Rule {
  return (value, name) => (typeof value === "string" && form.test(value) ? value : invalid(name, must));
}

const WELL_FORMED = /^[^\0\ud800-\udfff]*$/u;
const anyText = text(WELL_FORMED, "text without NUL");
const someText = text(/^[^\0\ud800-\udfff]+$/u, "text without NUL, and not empty");
const pem = text(/^[^\0]*-----BEGIN [^\0]+$/, "PEM text (-----BEGIN …)");
const flag = oneOf(true, false);
const count = whole(0, Number.MAX_SAFE_INTEGER);
/** What a timer can hold: 24 days. */
const milliseconds = whole(0, 0x7fffffff);
const SSLMODES = ["disable", "allow", "prefer", "require", "verify-ca", "verify-full"];
const RESERVED = /^(user|database|options|application_name|client_encoding|replication|_pq_\..*)?$/i;

type Fallback = (sofar: Config, runtime: Defaults) => unknown;

/** Per option what it must be, and its default: a value, one that follows from the options above it, or none. */
const table: { readonly [K in keyof Options]-?: readonly [rule: Rule, fallback?: Fallback | string | number | boolean | object] } = {
  host: [text(/^[^\0-\x20,/@\x7f\ud800-\udfff]+$/u, "one host name or address (no list, no path of a Unix socket)"), "localhost"],
  port: [whole(1, 65_535), 5432],
  // The default is refused: there has to be one.
  user: [someText, ""],
  database: [someText, ({ user }) => user],
  password: [(value) => (typeof value === "function" ? value : checkedPassword(value))],
  applicationName: [anyText, "pgz-edge"],
  startup: [startup, {}],
  options: [anyText, ""],
  localLink: [flag, ({ host }) => host.endsWith(".hyperdrive.local")],
  sslmode: [sslmode, ({ localLink }) => (localLink ? "disable" : "prefer")],
  sslnegotiation: [oneOf("postgres", "direct"), "postgres"],
  servername: [someText],
  ca: [pem],
  cert: [pem],
  key: [pem],
  requireAuth: [requireAuth],
  allowCleartextPassword: [flag, false],
  channelBinding: [channelBinding, "prefer"],
  scramMaxIterations: [whole(1, 100_000_000), 100_000],
  connectTimeout: [whole(1, 0x7fffffff), 10_000],
  timeout: [milliseconds, 0],
  maxRows: [count, 0],
  maxBytes: [count, 0],
  maxMessageBytes: [whole(1 << 10, 1 << 30), (_, { isWorkerd }) => (isWorkerd ? 1 << 26 : 1 << 30)],
  flushBytes: [whole(1, 1 << 30), 1 << 16],
  flushInterval: [milliseconds, 100],
  statementCacheSize: [whole(0, 65_535), 64],
  prepare: [oneOf("auto", "named", "unnamed"), "auto"],
  earlyQuery: [oneOf("auto", true, false), "auto"],
  keepAlive: [milliseconds, 30_000],
  readBuffer: [whole(1 << 10, 1 << 24), 1 << 16],
  maxProtocolVersion: [oneOf("3.0", "3.2"), "3.0"],
  connect: [(value, name) => (typeof value === "function" ? value : invalid(name, "a function (see the socket contract)"))],
  signal: [(value, name) => (typeof (value as AbortSignal | null)?.addEventListener === "function" ? value : invalid(name, "an AbortSignal"))],
};

/** The names of all options, for the comparison with docs/options.md. */
export const optionNames: readonly string[] = Object.keys(table);

function startup(value: unknown, name: string): unknown {
  const must = "an object of names and texts without NUL; user, database, options and applicationName are options of their own";
  if (typeof value !== "object" || value === null) return invalid(name, must);
  for (const [key, item] of Object.entries(value)) {
    if (RESERVED.test(key) || !WELL_FORMED.test(key) || typeof item !== "string" || !WELL_FORMED.test(item)) return invalid(name, must);
  }
  return value;
}

function sslmode(value: unknown): unknown {
  if (SSLMODES.includes(value as string)) return value;
  throw new UsageError("INVALID_SSLMODE", `Option "sslmode" must be one of ${SSLMODES.join(", ")}.`);
}

function requireAuth(value: unknown, name: string): unknown {
  if (typeof value === "string" && requiredMethods(value)) return value;
  return invalid(name, `a list of none, password, md5, scram-sha-256, all with or all without "!", that leaves at least one`);
}

function channelBinding(value: unknown, name: string): unknown {
  if (value !== "require") return oneOf("disable", "prefer", "require")(value, name);
  throw new UsageError("CHANNEL_BINDING_UNSUPPORTED", `Option "channelBinding" (channel_binding in a URL) cannot be "require": no runtime's socket shows the server's certificate. Use sslmode=verify-full.`);
}

function checkTogether(config: Config, key: string | undefined): void {
  if ((config.cert === undefined) !== (key === undefined)) invalid("key", `given together with "cert"`);
  // As libpq: direct TLS cannot fall back, so a mode that may do without TLS contradicts it.
  if (config.sslnegotiation === "direct" && !/^(require|verify-)/.test(config.sslmode)) {
    invalid("sslmode", `"require" or stronger with sslnegotiation "direct"`);
  }
}

function checkedPassword(value: unknown): string {
  // An empty password is text like any other; NUL would end it on the wire.
  return typeof value === "string" && WELL_FORMED.test(value) ? value : invalid("password", "text without NUL, or a function that gives it");
}

const METHODS: Record<string, number> = { none: 1, password: 2, md5: 4, "scram-sha-256": 8 };

/** libpq's require_auth as bits; 0 when it is malformed or leaves nothing. */
function requiredMethods(list: string | undefined): number {
  if (list === undefined) return 15;
  const names = list.split(",").map((name) => name.trim());
  const excluding = list.trim().startsWith("!");
  let bits = 0;
  for (const name of names) {
    if (name.startsWith("!") !== excluding) return 0;
    const method = excluding ? name.slice(1) : name;
    // gss, sspi and oauth are libpq's words too, but nothing here speaks them.
    if (!Object.hasOwn(METHODS, method) && !/^(gss|sspi|oauth)$/.test(method)) return 0;
    bits |= METHODS[method] ?? 0;
  }
  return excluding ? 15 & ~bits : bits;
}

// -- errors ----------------------------------------------------------------------------------------------------------------

function invalid(name: string, must: string): never {
  throw new UsageError("INVALID_OPTION", `Option "${name}" must be ${must}.`);
}

function invalidUrl(why: string): UsageError {
  return new UsageError("INVALID_URL", `The connection URL cannot be read. ${why}; percent-encode @ : / ? # % in user and password.`);
}

function unknown(what: string, name: string, known: readonly string[]): UsageError {
  const begun = known.find((other) => other.toLowerCase().startsWith(name.toLowerCase()));
  const nearest = begun ?? [...known].sort((a, b) => distance(name, a) - distance(name, b))[0];
  return new UsageError("UNKNOWN_OPTION", `Unknown ${what}. The nearest known name is "${nearest}".`);
}

/** Levenshtein distance, over the first 40 characters and without regard to case. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (const letter of a.slice(0, 40).toLowerCase()) {
    const above = row;
    row = [(above[0] ?? 0) + 1];
    for (let j = 1; j <= b.length; j++) {
      const same = letter === b.charAt(j - 1).toLowerCase() ? 0 : 1;
      row.push(Math.min((above[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (above[j - 1] ?? 0) + same));
    }
  }
  return row.at(-1) ?? 0;
}
