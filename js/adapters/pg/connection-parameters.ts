// Where to connect and as which user: from the caller, a connection string, the environment and `defaults`. Also
// converts these to the driver's options.
//
// Knows the option names of pg and of the driver. Must not know sockets.
import type { LogInOptions, Options } from "../../index.ts";
import { parseConnectionString, type Parsed } from "./connection-string.ts";
import { defaults } from "./defaults.ts";
import { environment } from "./environment.ts";
import type { CustomTypes } from "./types/index.ts";

/** TLS options, by the names of Node's `tls.connect`. */
interface SslConfig {
  rejectUnauthorized?: boolean | undefined;
  ca?: unknown;
  cert?: unknown;
  key?: unknown;
  servername?: string | undefined;
  checkServerIdentity?: unknown;
}

type PasswordFunction = (parameters: ConnectionParameters) => string | Promise<string>;

/** Options of a client. */
export interface ClientConfig {
  user?: string | undefined;
  database?: string | undefined;
  password?: string | PasswordFunction | null | undefined;
  host?: string | undefined;
  port?: number | string | undefined;
  connectionString?: string | undefined;
  ssl?: boolean | string | SslConfig | undefined;
  sslnegotiation?: "postgres" | "direct" | undefined;
  types?: CustomTypes | undefined;
  binary?: boolean | undefined;
  /** Sends queries without waiting for the responses to earlier ones. */
  pipeline?: boolean | undefined;
  keepAlive?: boolean | undefined;
  keepAliveInitialDelayMillis?: number | undefined;
  statement_timeout?: number | false | undefined;
  lock_timeout?: number | false | undefined;
  idle_in_transaction_session_timeout?: number | false | undefined;
  /** With `"database"` the session takes replication commands too. */
  replication?: string | undefined;
  query_timeout?: number | false | undefined;
  connectionTimeoutMillis?: number | undefined;
  application_name?: string | undefined;
  fallback_application_name?: string | undefined;
  client_encoding?: string | undefined;
  options?: string | undefined;
  enableChannelBinding?: boolean | undefined;
  scramMaxIterations?: number | undefined;
  Promise?: PromiseConstructorLike | undefined;
  /** Options of pgz-edge for which pg has no name, such as `connect` or `allowCleartextPassword`. */
  pgz?: Options | undefined;
}

type Source = Record<string, unknown>;

/** Returns the given value, else the environment's, else the default. With `false` the environment is not read. */
function pick(name: string, config: Source, variable: string | false = `PG${name.toUpperCase()}`): unknown {
  const fromEnvironment = variable === false ? undefined : environment(variable);
  return config[name] || fromEnvironment || (defaults as unknown as Source)[name];
}

export class ConnectionParameters {
  user: string | undefined;
  database: string | undefined;
  port: number;
  host: string | undefined;
  declare password: ClientConfig["password"];
  binary: boolean;
  options: string | undefined;
  ssl: boolean | SslConfig;
  sslnegotiation: "postgres" | "direct" | undefined;
  client_encoding: string | undefined;
  replication: string | undefined;
  isDomainSocket: boolean;
  application_name: string | undefined;
  fallback_application_name: string | undefined;
  statement_timeout: number | false | undefined;
  lock_timeout: number | false | undefined;
  idle_in_transaction_session_timeout: number | false | undefined;
  query_timeout: number | false | undefined;
  connect_timeout: number;

  constructor(input?: ClientConfig | string) {
    const config = merged(input);
    this.user = pick("user", config) as string | undefined;
    this.database = (pick("database", config) as string | undefined) ?? this.user;
    this.port = parseInt(String(pick("port", config)), 10);
    this.host = pick("host", config) as string | undefined;
    hidden(this, "password", pick("password", config));
    this.binary = Boolean(pick("binary", config));
    this.options = pick("options", config) as string | undefined;
    this.ssl = sslOf(config["ssl"]);
    if (typeof this.ssl === "object" && this.ssl.key) hidden(this.ssl, "key", this.ssl.key);
    this.sslnegotiation = negotiationOf(pick("sslnegotiation", config, "PGSSLNEGOTIATION"), this.ssl);
    this.client_encoding = pick("client_encoding", config) as string | undefined;
    this.replication = pick("replication", config) as string | undefined;
    this.isDomainSocket = this.host?.startsWith("/") ?? false;
    this.application_name = pick("application_name", config, "PGAPPNAME") as string | undefined;
    this.fallback_application_name = pick("fallback_application_name", config, false) as string | undefined;
    this.statement_timeout = pick("statement_timeout", config, false) as number | false;
    this.lock_timeout = pick("lock_timeout", config, false) as number | false;
    this.idle_in_transaction_session_timeout = pick("idle_in_transaction_session_timeout", config, false) as number;
    this.query_timeout = pick("query_timeout", config, false) as number | false;
    this.connect_timeout = timeoutOf(config["connectionTimeoutMillis"]);
  }
}

function merged(input: ClientConfig | string | undefined): Source {
  if (typeof input === "string") return parseConnectionString(input);
  const config: Source = { ...input, password: input?.password }; // not enumerable in a pool's options
  const text = (config["connectionString"] as string | undefined) ?? defaults.connectionString;
  return text ? { ...config, ...parsedWithout(text) } : config;
}

/** Leaves out what the string does not contain, so that it does not remove other options. */
function parsedWithout(text: string): Parsed {
  return Object.fromEntries(Object.entries(parseConnectionString(text)).filter(([, value]) => value !== undefined));
}

/** Defines a property that `console.log` of its object does not show, such as a password. */
export function hidden(object: object, name: string, value: unknown): void {
  Object.defineProperty(object, name, { configurable: true, enumerable: false, writable: true, value });
}

/** Leaves these members out where the object is shown, by `console.log` or as JSON. A copy has them all. */
export function showWithout(object: object, names: readonly string[]): void {
  const shown = () => Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
  for (const hook of ["toJSON", Symbol.for("nodejs.util.inspect.custom")])
    Object.defineProperty(object, hook, { configurable: true, value: shown });
}

function sslOf(given: unknown): boolean | SslConfig {
  const ssl = given === undefined ? sslFromEnvironment() : given;
  if (ssl === "no-verify") return { rejectUnauthorized: false };
  return typeof ssl === "object" && ssl !== null ? (ssl as SslConfig) : Boolean(ssl);
}

function sslFromEnvironment(): unknown {
  const mode = environment("PGSSLMODE");
  if (mode === "disable") return false;
  if (mode === "no-verify") return mode;
  return mode && ["prefer", "require", "verify-ca", "verify-full"].includes(mode) ? true : defaults.ssl;
}

function negotiationOf(value: unknown, ssl: unknown): "postgres" | "direct" | undefined {
  if (value === undefined || value === "postgres") return value;
  if (value !== "direct")
    throw new Error(`Invalid sslnegotiation value: "${String(value)}". Valid values are "postgres" and "direct".`);
  if (!ssl) throw new Error("sslnegotiation=direct requires SSL to be enabled");
  return value;
}

function timeoutOf(millis: unknown): number {
  return millis === undefined ? Number(environment("PGCONNECT_TIMEOUT") ?? 0) : Math.floor(Number(millis) / 1000);
}

// -- as the driver's options -----------------------------------------------------------------------------------------

/** setTimeout's maximum. As in pg, the connection attempt has no deadline, and only its caller gives up. */
const FOR_EVER = 2_147_483_647;

/** Returns the driver's options. `password` is the client's current one. */
export function driverOptions(
  parameters: ConnectionParameters,
  config: ClientConfig,
  password: Options["password"],
): LogInOptions {
  const { host, port, user, database, ssl, options, application_name, fallback_application_name } = parameters;
  const settings = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"] as const;
  const given = settings
    .filter((name) => parameters[name])
    .map((name) => [name, String(parseSetting(parameters[name]))]);
  return {
    environment: false,
    host,
    port,
    user,
    database,
    password,
    options: options || undefined,
    applicationName: application_name || fallback_application_name || "",
    replication: parameters.replication ? String(parameters.replication) : undefined,
    startup: Object.fromEntries(given) as Record<string, string>,
    connectTimeout: config.connectionTimeoutMillis || FOR_EVER,
    keepAlive: config.keepAlive ? config.keepAliveInitialDelayMillis || 30_000 : 0,
    channelBinding: config.enableChannelBinding ? "prefer" : "disable",
    scramMaxIterations: config.scramMaxIterations,
    ...tlsOptions(ssl, parameters.sslnegotiation),
    ...config.pgz,
  };
}

/** Truncates numbers, because pg sends whole ones. */
function parseSetting(value: unknown): unknown {
  return typeof value === "number" ? Math.trunc(value) : value;
}

/** Returns options for no TLS, for TLS with full verification (the default of Node's `tls`), or for encryption only. */
function tlsOptions(ssl: boolean | SslConfig, sslnegotiation: Options["sslnegotiation"]): Options {
  if (!ssl) return { sslmode: "disable" };
  const { rejectUnauthorized = true, ca, cert, key, servername, checkServerIdentity } = ssl === true ? {} : ssl;
  const client = cert && key ? { cert: pem(cert), key: pem(key) } : {};
  const shared: Options = { sslnegotiation, servername: servername || undefined, ...client };
  if (!rejectUnauthorized) return { ...shared, sslmode: "require" };
  return { ...shared, ca: pem(ca), sslmode: checkServerIdentity ? "verify-ca" : "verify-full" };
}

/** Converts a text, bytes, or several of them to one text. */
function pem(value: unknown): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (Array.isArray(value)) return value.map(pem).join("\n");
  return typeof value === "string" ? value : new TextDecoder().decode(value as Uint8Array);
}
