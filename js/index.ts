// What the package exports, and nothing else.
export { sql } from "./sql.ts";
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
export { Client, connect, createClient } from "./client.ts";
export type { ClientStats } from "./client.ts";
export type {
  BatchOptions, BatchResult, CopyFromOptions, CopyToOptions, Description, EncodedResult, ExecResult, JsonOptions,
  QueryOptions, QueryResult, RespondOptions, SimpleOptions, StreamOptions,
} from "./calls.ts";
export type { ConnectInput, Options, Password, SslMode } from "./config.ts";
export type { BatchFailure } from "./core/batch.ts";
export type { BoundaryStats, Column, LimitName } from "./core/boundary.ts";
export type { Parser } from "./core/converters.ts";
export type { CopyProgress, CopySource } from "./core/copy.ts";
export type { CopyRow } from "./core/copy-rows.ts";
export type { Format, FormatOptions, RowOptions } from "./core/form.ts";
export type { Truncation } from "./core/operation.ts";
export type { Rows } from "./core/rows.ts";
export type { Code, ErrorFields, Stage } from "./errors.ts";
export type { Listener, ListenOptions, Notification } from "./listen.ts";
export type { ConnectEvent, Notice, Observer, ParameterChange, QueryEnd, QueryStart, Retry, SlowQuery } from "./observer.ts";
export type { ConnectOptions, Connector, Socket, TlsOptions } from "./sockets/contract.ts";
export type { CallOptions } from "./queue.ts";
export type { Prepared } from "./prepared.ts";
export type { Query, QueryInput, Sql } from "./sql.ts";
export type { JsonText } from "./text.ts";
export type { Isolation, Transaction, TransactionOptions } from "./transaction.ts";
