// What the package exports, and nothing else.
export type {} from "./web-types.ts";
export { sql } from "./statement/sql.ts";
export { unnest } from "./statement/unnest.ts";
export { standardToon } from "./rows/standard-toon.ts";
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
} from "./util/errors.ts";
export { observers } from "./util/observer.ts";
export { conditional } from "./api/conditional.ts";
export { Client, connect, createClient } from "./api/client.ts";
export type { ClientStats } from "./api/client.ts";
/** @internal For `pgz-edge/cache`. */
export { asBody } from "./api/body.ts";
export { runtime } from "./runtime/runtime.ts";
export { serialized } from "./values/serialize.ts";
/** @internal For `pgz-edge/cluster`. */
export { ofPreludes } from "./connection/operation.ts";
export { TransactionCalls } from "./api/transaction-calls.ts";
export { logIn } from "./api/log-in.ts";
export type { Handover, LogInOptions } from "./api/log-in.ts";
export { createPool, Pool } from "./pool/pool.ts";
export { Lease } from "./pool/lease.ts";
export type { AcquireOptions, PoolEvent, PoolStats } from "./pool/pool.ts";
export type { PoolHooks, PoolInput, PoolOptions } from "./pool/options.ts";
export type { ConditionalOptions } from "./api/conditional.ts";
export type {
  BatchOptions,
  BatchResult,
  CallOptions,
  CopyFromOptions,
  CopyToOptions,
  Description,
  EncodedResult,
  ExecOptions,
  ExecResult,
  JsonOptions,
  QueryOptions,
  QueryResult,
  RespondOptions,
  SimpleOptions,
  StreamOptions,
} from "./api/options.ts";
export type {
  ConnectInput,
  LoginAttempt,
  Options,
  Options as ClientOptions,
  Password,
  PasswordAnswer,
  SslMode,
  TargetSessionAttrs,
} from "./config/options.ts";
export type { BoundaryStats, Column } from "./wasm/boundary.ts";
export type { Parser } from "./values/converters.ts";
export type { Serializer } from "./values/serialize.ts";
export type { CopyProgress, CopySource } from "./statement/copy.ts";
export type { CopyRow } from "./statement/copy-rows.ts";
export type { Format, FormatOptions, RowOptions, ToonForm } from "./rows/form.ts";
export type { Rows } from "./rows/rows.ts";
export type { BatchFailure, Code, ErrorFields, HostFailure, LimitName, Stage } from "./util/errors.ts";
export type { Listener, ListenOptions, Notification } from "./api/listen.ts";
export type {
  AcquireEvent,
  AcquireStart,
  CallKind,
  ConnectEvent,
  ConnectStart,
  DisconnectEvent,
  Enter,
  HookError,
  LeaseLeak,
  Notice,
  ChangesEvent,
  Observer,
  ParameterChange,
  ServerAddress,
  QueryEnd,
  QueryStart,
  ReleaseEvent,
  Retry,
  RouteEvent,
  RouteReason,
  SlowQuery,
  Truncation,
} from "./util/observer.ts";
export type { ConnectOptions, Connector, Socket, TlsOptions } from "./runtime/contract.ts";
export type { Prepared } from "./api/prepared.ts";
export { Scope } from "./api/scope.ts";
export type { ScopeOptions } from "./session/scope-settings.ts";
export type { Query, QueryInput, Sql } from "./statement/sql.ts";
export type { Parameter, SqlRow, SqlValue, Takes } from "./values/parameter-types.ts";
export type { JsonText } from "./util/json.ts";
export type { Transaction } from "./api/transaction.ts";
export type { Isolation, TransactionOptions } from "./api/transaction-options.ts";
