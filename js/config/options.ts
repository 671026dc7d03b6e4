// What a user passes to connect, and what it becomes: `Options` with its documentation, and the complete `Config`.
//
// Types only. Knows every option of docs/options.md; what a value must be, and its default, is in config.ts.

import type { Connector } from "../sockets/contract.ts";
import type { Observer } from "../util/observer.ts";
import type { Parser } from "../values/converters.ts";
import type { Serializer } from "../values/serialize.ts";

/** libpq's six modes. `docs/options.md` says what each becomes on each runtime. */
export type SslMode = "disable" | "allow" | "prefer" | "require" | "verify-ca" | "verify-full";

/** libpq's target_session_attrs. */
export type TargetSessionAttrs = "any" | "read-write" | "read-only" | "primary" | "standby" | "prefer-standby";

/** A password, or a function that is called for one at each new connection, for tokens that expire. */
export type Password = string | (() => string | Promise<string>);

/**
 * The options of a connection. `undefined` means the default. Durations are in milliseconds, sizes in bytes.
 * `docs/options.md` has the reason for each default, and what differs per runtime.
 */
export interface Options {
  /**
   * Name or address of the server, or the absolute path of the folder with its Unix socket. Several, with commas
   * between, are tried in their order. Default `"localhost"`.
   */
  host?: string | undefined;
  /** The IP address of the host, with commas between for several: it is connected to without asking DNS. */
  hostaddr?: string | undefined;
  /** Port, 1 to 65,535, for all hosts; or as text one for each, with commas between. Default 5432. */
  port?: number | string | undefined;
  /**
   * Which of the hosts are wanted, by what the server says of itself behind the login. Another one is left, and the
   * next is tried. Default `"any"`.
   */
  targetSessionAttrs?: TargetSessionAttrs | undefined;
  /** In which order the hosts are tried: as they stand (`"disable"`) or `"random"`. Default `"disable"`. */
  loadBalanceHosts?: "disable" | "random" | undefined;
  /**
   * Where libpq's variables (`PGHOST` and so on) are read: defaults for what is given nowhere else. An object, or
   * `false` for none. Default: the process's environment on Node, Bun and Deno (where it may be read), none on Workers.
   */
  environment?: Readonly<Record<string, unknown>> | false | undefined;
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
  /**
   * Whether a login is bound to the server's certificate (SCRAM-SHA-256-PLUS). `"prefer"` binds it where server and
   * runtime can, `"require"` refuses every other login. On Workers, whose sockets do not show the certificate,
   * `"prefer"` does without and `"require"` is an error. Default `"prefer"`.
   */
  channelBinding?: "disable" | "prefer" | "require" | undefined;
  /**
   * The fewest SCRAM iterations that are accepted over a link on which no certificate is checked, 1 to 100,000,000: with
   * few of them whoever answers can find your password by trying. Over a link whose certificate is checked, and a local
   * one, any number is accepted. Default 4096, what RFC 7677 asks for and PostgreSQL's own default.
   */
  scramMinIterations?: number | undefined;
  /** The most SCRAM iterations that a server may ask for, 1 to 100,000,000. It protects your CPU. Default 100,000. */
  scramMaxIterations?: number | undefined;
  /** Milliseconds for DNS, TCP, TLS and authentication together. It cannot be turned off. Default 10,000. */
  connectTimeout?: number | undefined;
  /** Milliseconds for each call, then CancelRequest and `QUERY_TIMEOUT`. Default 0: no deadline. */
  timeout?: number | undefined;
  /**
   * Milliseconds for which a stream that outlives its client's `close()` may stand still, waiting for its server or for
   * its reader; then it ends. A call's `timeout` holds in its place while the reader waits. 0: for ever. Default
   * 30,000.
   */
  closeTimeout?: number | undefined;
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
  /** Names of columns in rows: `"keep"` (default), or `"camelCase"`: `created_at` becomes `createdAt`. */
  columnNames?: "keep" | "camelCase" | undefined;
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
  /**
   * Makes parameters of values of your own: it gets each value that is not null, and each element of an array, and
   * returns it, or what is to be sent in its place. Default: none.
   *
   * @example
   * createClient(url, { serialize: (value) => (value instanceof Decimal ? value.toString() : value) });
   */
  serialize?: Serializer | undefined;
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
   * What happens to a statement that the isolate does not know: it runs at once, with values and rows as text
   * (`"text"`), or the server is asked for its types first, which is one more round trip (`"describe"`). Default
   * `"text"`.
   */
  firstRun?: "text" | "describe" | undefined;
  /**
   * Most calls of `query`, `exec` and `json` that are on the wire together: those that are made together leave together
   * and are answered in their order. 1: each waits for the one before it. Default 100.
   */
  pipelining?: number | undefined;
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
  /** Observers and tracing channels get the values of parameters too. Default false, since values are often secrets. */
  observeParameters?: boolean | undefined;
  /**
   * For looking for a mistake: each flight is told of as a line, to `console.debug` or to this function
   * (docs/observer.md); errors have the call's `parameters`, and their stack is recorded at each call. Default false.
   */
  debug?: boolean | ((line: string) => void) | undefined;
  /**
   * What to say behind each statement that has no name, as an SQL comment: `() => ({ traceparent })`. It is called in
   * the caller's async context. Default: nothing.
   */
  sqlComment?: (() => Readonly<Record<string, string | undefined>> | undefined) | undefined;
  /** Milliseconds after which the observer's `onSlowQuery` is called. Default 0: never. */
  slowQueryThreshold?: number | undefined;
  /** When it aborts, connecting and every call end. On Workers: `request.signal`. */
  signal?: AbortSignal | undefined;
}

/** Options with an optional connection string. The options win over it. */
export type ConfigObject = Options & { readonly connectionString?: string | undefined };

/** A connection string, options, or anything with a `connectionString`, such as a Hyperdrive binding. */
export type ConnectInput = string | ConfigObject | { readonly href: string } | { readonly connectionString: string };

/** One of the servers that are tried, with the options that follow from its host. */
export interface Server {
  readonly host: string;
  readonly port: number;
  /** Where to connect instead of looking the host's name up. */
  readonly hostaddr: string | undefined;
  readonly localLink: boolean;
  readonly sslmode: SslMode;
}

type Secret = "password" | "key" | "environment";
type Optional =
  | "int8"
  | "numeric"
  | "types"
  | "serialize"
  | "servername"
  | "ca"
  | "cert"
  | "requireAuth"
  | "connect"
  | "observer"
  | "signal"
  | "sqlComment";

/** Every option resolved; frozen. Holds no secret that JSON, `console.log` or a spread could show. */
export type Config = Readonly<
  { [K in Exclude<keyof Options, Secret | Optional | keyof Server | "startup">]-?: Exclude<Options[K], undefined> } & {
    [K in Optional]: Exclude<Options[K], undefined> | undefined;
  } & {
    /** All servers, in the order in which they were given. `host` and so on are the first one's. */
    hosts: readonly Server[];
    /** What was asked for and is ignored, with the reason; the observer is told once. */
    notices: readonly string[];
    /** Options of a pool that stood in the connection string. */
    pool: Readonly<Record<string, unknown>>;
    startup: readonly (readonly [name: string, value: string])[];
    /**
     * Asks anew each time; `undefined` without a password. Rejects with `UsageError` when the function gives no usable
     * text.
     */
    password: () => Promise<string | undefined>;
    /** The client certificate's private key. */
    key: () => string | undefined;
  } & Server
>;
