// What the package exports, and nothing else.
export { Client, connect, createClient } from "./client.ts";
export type { CallOptions, ExecResult, QueryOptions, QueryResult, RespondOptions, StreamOptions } from "./client.ts";
export type { ConnectInput, Options, Password, SslMode } from "./config.ts";
export type { BoundaryStats, Column } from "./core/boundary.ts";
export type { Parser } from "./core/converters.ts";
export type { Rows } from "./core/rows.ts";
export {
  AbortError,
  AuthenticationError,
  ConnectionError,
  PgzError,
  PostgresError,
  ProtocolError,
  ResponseTooLargeError,
  TimeoutError,
  UsageError,
} from "./errors.ts";
export type { Code, ErrorFields, Stage } from "./errors.ts";
export type { ConnectOptions, Connector, Socket, TlsOptions } from "./sockets/contract.ts";
export { sql } from "./sql.ts";
export type { Query, QueryInput, Sql } from "./sql.ts";
