// Every error that a caller can meet, and nothing else: data first (class, `code`, facts); text is only for humans.
//
// Knows: PostgreSQL's error fields and SQLSTATEs, and how a failure reported by the core or the server becomes an
// error. Must not know: sockets, queries, configuration. No text here or in a caller may contain a password or a URL.
//
// `instanceof` works across two copies of the package (a bundle and its dependency): each class marks its prototype
// with a registered symbol and checks the mark, not the identity of the constructor.

import { shownContext } from "./shown-sql.ts";
import { shownAs } from "./shown.ts";

/** The driver's own codes; the server's are SQLSTATEs. `docs/errors.md` explains each code and what to do. */
export type Code =
  // UsageError
  | "INVALID_URL"
  | "INVALID_OPTION"
  | "UNKNOWN_OPTION"
  | "INVALID_SSLMODE"
  | "UNSUPPORTED_ON_RUNTIME"
  | "INVALID_PARAMETER"
  | "PARAMETER_OUT_OF_RANGE"
  | "TOO_MANY_PARAMETERS"
  | "PARAMETERS_TOO_LARGE"
  | "INVALID_QUERY"
  | "STREAM_OPEN"
  | "CHANGES_OVER"
  | "CLIENT_CLOSED"
  | "OTHER_REQUEST"
  | "POOL_CLOSED"
  | "LEASE_RELEASED"
  | "HOOK_REFUSED"
  | "COPY_NEEDS_COPY_CALL"
  | "NOT_IN_SCOPE"
  | "COPY_IN_BATCH"
  | "COPY_SOURCE_FAILED"
  | "LISTEN_BEHIND_POOLER"
  | "TRANSACTION_OPEN"
  | "TRANSACTION_FINISHED"
  | "DUPLICATE_COLUMN"
  | "CHANNEL_BINDING_UNSUPPORTED"
  // PgzError itself
  | "TRANSACTION_ROLLED_BACK"
  | "SNAPSHOT_BROKEN_OFF"
  | "CLUSTER_LEFT_BEHIND"
  | "CHANGES_LOST"
  // ConnectionError
  | "CONNECT_FAILED"
  | "CONNECTION_LOST"
  | "TLS_REFUSED"
  | "TLS_FAILED"
  | "TARGET_SESSION_ATTRS"
  | "CORE_TRAPPED"
  // TimeoutError, AbortError, ResponseTooLargeError
  | "CONNECT_TIMEOUT"
  | "QUERY_TIMEOUT"
  | "ACQUIRE_TIMEOUT"
  | "HOOK_TIMEOUT"
  | "ABORTED"
  | "RESPONSE_TOO_LARGE"
  // ProtocolError
  | "MESSAGE_TOO_LARGE"
  | "PROTOCOL_VIOLATION"
  | "UNEXPECTED_MESSAGE"
  | "NOT_POSTGRESQL"
  | "INVALID_VALUE"
  | "SHAPE_CHANGED"
  | "CLIENT_ENCODING_NOT_UTF8"
  // AuthenticationError
  | "AUTH_METHOD_UNSUPPORTED"
  | "AUTH_METHOD_REFUSED"
  | "AUTH_GUESS_WRONG"
  | "AUTH_CLEARTEXT_REFUSED"
  | "AUTH_CHANNEL_BINDING_MISSING"
  | "PASSWORD_MISSING"
  | "PASSWORD_FUNCTION_FAILED"
  | "AWS_CREDENTIALS"
  | "SCRAM_MALFORMED"
  | "SCRAM_OUT_OF_ORDER"
  | "SCRAM_CLIENT_NONCE_TOO_SHORT"
  | "SCRAM_MANDATORY_EXTENSION"
  | "SCRAM_NONCE_MISMATCH"
  | "SCRAM_ITERATIONS_OUT_OF_RANGE"
  | "SCRAM_ITERATIONS_TOO_FEW"
  | "SCRAM_SERVER_SIGNATURE_MISMATCH"
  | "SCRAM_SERVER_ERROR";

/** What a limit counts: rows, bytes of output, or bytes of one field as the server sends it. */
export type LimitName = "rows" | "bytes" | "fieldBytes";

/** Which item of an atomic batch failed, and the effect on the other items. */
export interface BatchFailure {
  /** From 0. `undefined`: all items ran, and then the transaction could not be committed. */
  readonly index: number | undefined;
  /** Items that had run, and were rolled back. */
  readonly rolledBack: readonly number[];
  /** Items that did not run. */
  readonly skipped: readonly number[];
}

/** Fields that name a place in the server's own source. `console.log` omits them: only its authors need them. */
const SOURCE: ReadonlySet<string> = new Set(["file", "line", "routine"]);

/** Symbols by class; see {@link mark}. */
const marks = new Map<unknown, symbol>();

/** Facts of an error besides its code and message. */
export interface Facts {
  /** See {@link PgzError.retryable}. For errors of yours, such as those of a function `connect`. Default `false`. */
  readonly retryable?: boolean | undefined;
  /** See {@link PgzError.hasNoEffect}. Default `false`. */
  readonly hasNoEffect?: boolean | undefined;
  /** The same call will fail again until something is changed. Codes of which that is always true are `LASTING`. */
  readonly isLasting?: boolean | undefined;
  /** See {@link PgzError.committed}. Default `false`. */
  readonly committed?: boolean | undefined;
  /** The underlying error, as `Error.cause`. */
  readonly cause?: unknown;
}

/**
 * The base of every error that this package throws or rejects with. Anything else is a bug.
 *
 * Class, `code` and the facts are stable. Messages may change between versions.
 *
 * @example
 * if (error instanceof PgzError && error.retryable) return new Response("try again", { status: 503 });
 */
export class PgzError extends Error {
  static {
    mark(this, "PgzError");
    shownAs(this, (error, inspect) => {
      const { stack, name, message, query, parameters, cause } = error;
      const members = {
        ...error,
        ...(query && { query }),
        ...(parameters && { parameters }),
        ...(cause ? { cause } : {}),
      };
      const shown = Object.entries(members).filter(([name, value]) => value !== false && !SOURCE.has(name));
      return `${stack || `${name}: ${message}`} ${inspect(Object.fromEntries(shown))}`;
    });
  }

  /** A {@link Code}, or the server's SQLSTATE (`""` if it sent none). */
  readonly code: string;

  /**
   * The same call may succeed if it is made again in a moment, and that is safe: nothing left the socket, or the server
   * guarantees that nothing happened. Never true together with `committed`, because rows that are already in use would
   * come a second time.
   */
  readonly retryable: boolean;

  /**
   * The call has had no effect, so another connection or server may take it. `retryable` says more: that this may help.
   * Not enumerable.
   *
   * @internal
   */
  declare readonly hasNoEffect: boolean;

  /**
   * Set by `simple`: the commands that completed before the error. The server has rolled them back, unless the text
   * contains COMMIT.
   */
  declare readonly completed?: readonly string[];
  /** Set by `batch`: which item failed, and the effect on the other items. */
  declare readonly batch?: BatchFailure;
  /**
   * The outcome of the call's transaction: set when the connection was lost in it, when its COMMIT had been sent, and
   * when SQL of its callback had ended it before. `"unknown"`: there was no response to COMMIT, or a part may be
   * stored.
   */
  declare readonly transaction?: "committed" | "rolled back" | "unknown";
  /**
   * The SQL of the call, shortened, if there was one. Hidden if it may contain a password. Not enumerable; neither are
   * `excerpt`, `advice` and `parameters`.
   */
  declare readonly query?: string;
  /**
   * The line of the SQL with the server's `position`, or with the `parameter` that was refused, and a mark below it. It
   * is in `stack` too.
   */
  declare readonly excerpt?: string;
  /** What to write instead, if error and SQL show the mistake. It is in `stack` too. */
  declare readonly advice?: string;
  /** The values of `$1`, `$2` …, only with option `debug`, and not for a batch. */
  declare readonly parameters?: readonly unknown[];
  /** Which value could not be encoded. 1 is the value of `$1`. */
  declare readonly parameter?: number;
  /**
   * The number of the row, or of the array's item, that could not be encoded, from 0: set by `copyFromRows` and
   * `unnest`, and for a parameter that is an array.
   */
  declare readonly row?: number;

  /** Bytes of this result have already gone downstream, so you can no longer answer as if nothing had happened. */
  readonly committed: boolean;

  constructor(code: Code | (string & {}), message: string, facts: Facts = {}) {
    super(message, facts); // the language takes the cause from the facts
    this.code = code;
    const { retryable = false, hasNoEffect = retryable, committed = false, isLasting = LASTING.has(code) } = facts;
    this.committed = committed;
    const isSafe = hasNoEffect && !committed;
    Object.defineProperty(this, "hasNoEffect", { value: isSafe, writable: true, configurable: true });
    this.retryable = isSafe && !isLasting;
  }

  static override [Symbol.hasInstance](value: unknown): boolean {
    const symbol = marks.get(this);
    // A class that a user derived has no mark of its own: the language's rule applies to it.
    if (!symbol) return super[Symbol.hasInstance](value);
    return typeof value === "object" && value !== null && symbol in value;
  }
}

/** Codes of errors with which the same call fails however often it is made. */
const LASTING: ReadonlySet<string> = new Set([
  "CLIENT_CLOSED",
  "POOL_CLOSED",
  "LEASE_RELEASED",
  "TLS_REFUSED",
  "ABORTED",
]);

/** Facts of an error, for `Object.assign`, whose call may have had an effect after all. */
export const MAY_HAVE_RUN = { hasNoEffect: false, retryable: false } as const;
/** The same where the call is now known to have had none, and may be made again at once. */
export const HAS_NOT_RUN = { hasNoEffect: true, retryable: true } as const;

/**
 * An argument or the order of calls is wrong. The statement was not sent, except with `DUPLICATE_COLUMN` and
 * `COPY_NEEDS_COPY_CALL`, which only the server's response can show. The connection stays usable.
 */
export class UsageError extends PgzError {
  static {
    mark(this, "UsageError");
  }
  constructor(code: Code, message: string, facts?: Facts) {
    super(code, message, facts);
  }
}

/**
 * The server broke the protocol, is not PostgreSQL, or sent something that cannot be read. With most codes the
 * connection is closed; after `SHAPE_CHANGED` it stays usable.
 */
export class ProtocolError extends PgzError {
  static {
    mark(this, "ProtocolError");
  }
  constructor(code: Code, message: string, facts?: Facts) {
    super(code, message, facts);
  }
}

/**
 * Authentication failed. If the server refused, `code` is its SQLSTATE (28000, 28P01) and `cause` the
 * {@link PostgresError}. With any other code the driver refused.
 */
export class AuthenticationError extends PgzError {
  static {
    mark(this, "AuthenticationError");
  }
}

/** How far the connection had come. `session`: it was ready for queries. */
export type Stage = "dns" | "tcp" | "tls" | "auth" | "session";

/** The connection could not be made, or was lost. */
export class ConnectionError extends PgzError {
  static {
    mark(this, "ConnectionError");
  }
  readonly stage: Stage;
  /** With several hosts, none of which could be used: what went wrong with each, in the order of the attempts. */
  declare readonly hosts?: readonly HostFailure[];
  constructor(code: Code, message: string, facts: Facts & { readonly stage: Stage }) {
    super(code, message, facts);
    this.stage = facts.stage;
  }
}

/** What went wrong with one host. */
export interface HostFailure {
  readonly host: string;
  readonly port: number;
  readonly error: PgzError;
}

/** The error if none of several hosts could be used. `stage` is how far the last attempt came. */
export function noHost(hosts: readonly HostFailure[]): ConnectionError {
  const last = hosts[hosts.length - 1]?.error;
  const error = new ConnectionError(
    "CONNECT_FAILED",
    `None of the hosts could be used. ${hosts.map(failureOf).join(" ")}`,
    {
      stage: last instanceof ConnectionError ? last.stage : "session",
      hasNoEffect: hosts.some(({ error: { hasNoEffect } }) => hasNoEffect),
      isLasting: !hosts.some(({ error: { retryable } }) => retryable),
      cause: last,
    },
  );
  return Object.assign(error, { hosts });
}

function failureOf({ host, port, error: { message } }: HostFailure): string {
  const place = `${host}:${port}: `;
  return message.includes(place) ? message : place + message;
}

/** A deadline passed: `connectTimeout` (`CONNECT_TIMEOUT`) or `timeout` (`QUERY_TIMEOUT`). */
export class TimeoutError extends PgzError {
  static {
    mark(this, "TimeoutError");
  }
  constructor(
    code: "CONNECT_TIMEOUT" | "QUERY_TIMEOUT" | "ACQUIRE_TIMEOUT" | "HOOK_TIMEOUT",
    message: string,
    facts?: Facts,
  ) {
    super(code, message, facts);
  }
}

/**
 * The caller's signal aborted, or the consumer left. `name` is the web's `"AbortError"`, and `cause` the signal's
 * reason.
 */
export class AbortError extends PgzError {
  static {
    mark(this, "AbortError");
  }
  constructor(reason?: unknown, facts?: Facts) {
    super("ABORTED", "The call was aborted.", { ...facts, cause: reason });
  }
}

/** A result passed `maxRows`, `maxBytes` or `maxFieldBytes`. The server was told to stop. */
export class ResponseTooLargeError extends PgzError {
  static {
    mark(this, "ResponseTooLargeError");
  }
  /** Which limit was passed. */
  readonly limit: LimitName;
  /** The limit's value. */
  readonly value: number;
  /**
   * The count that was certain when the limit was passed. It is larger than `value`, but it is not the size of the
   * whole result.
   */
  readonly observed: number;
  constructor(passed: { limit: LimitName; value: number; observed: number; committed?: boolean | undefined }) {
    const { limit, value, observed } = passed;
    // "field bytes"
    super("RESPONSE_TOO_LARGE", `The result passed the limit of ${value} ${limit.replace("B", " b")}.`, passed);
    this.limit = limit;
    this.value = value;
    this.observed = observed;
  }
}

/** The fields of an ErrorResponse or NoticeResponse that the server sent, as text, by the manual's names. */
export interface ErrorFields {
  readonly severity?: string;
  readonly code?: string;
  readonly message?: string;
  readonly detail?: string;
  readonly hint?: string;
  readonly position?: string;
  readonly internalPosition?: string;
  readonly internalQuery?: string;
  readonly where?: string;
  readonly schema?: string;
  readonly table?: string;
  readonly column?: string;
  readonly dataType?: string;
  readonly constraint?: string;
  readonly file?: string;
  readonly line?: string;
  readonly routine?: string;
}

/** The fields without SQL that may contain a password: two fields quote statements of functions and of DO. */
export function shownFields<Fields extends ErrorFields>(fields: Fields): Fields {
  const { where, internalQuery } = fields;
  return {
    ...fields,
    ...(where !== undefined && { where: shownContext(where) }),
    ...(internalQuery !== undefined && { internalQuery: shownContext(internalQuery) }),
  };
}

/**
 * An ErrorResponse of the server. `code` is the SQLSTATE, `message` the server's message.
 *
 * The `is…` members are properties, not methods, so that forgotten parentheses cannot make a condition always true.
 *
 * @example
 * if (error instanceof PostgresError && error.isUniqueViolation) return new Response("taken", { status: 409 });
 */
export class PostgresError extends PgzError implements ErrorFields {
  static {
    mark(this, "PostgresError");
  }
  declare readonly severity?: string;
  declare readonly detail?: string;
  declare readonly hint?: string;
  /** The error's position in the SQL text, in characters from 1. */
  declare readonly position?: string;
  declare readonly internalPosition?: string;
  declare readonly internalQuery?: string;
  declare readonly where?: string;
  declare readonly schema?: string;
  declare readonly table?: string;
  declare readonly column?: string;
  declare readonly dataType?: string;
  declare readonly constraint?: string;
  declare readonly file?: string;
  declare readonly line?: string;
  declare readonly routine?: string;

  constructor(fields: ErrorFields, facts?: Facts) {
    const { code = "", message = "", ...others } = fields;
    super(code, message, facts);
    // Bun gives each error its own line and column, those of the source that created it.
    for (const ofBun of ["line", "column"]) Reflect.deleteProperty(this, ofBun);
    Object.assign(this, shownFields(others));
  }

  get isUniqueViolation(): boolean {
    return this.code === "23505";
  }
  get isForeignKeyViolation(): boolean {
    return this.code === "23503";
  }
  get isCheckViolation(): boolean {
    return this.code === "23514";
  }
  get isNotNullViolation(): boolean {
    return this.code === "23502";
  }
  get isExclusionViolation(): boolean {
    return this.code === "23P01";
  }
  /** Any code of class 23. */
  get isIntegrityViolation(): boolean {
    return this.code.startsWith("23");
  }
  get isSerializationFailure(): boolean {
    return this.code === "40001";
  }
  get isDeadlock(): boolean {
    return this.code === "40P01";
  }
  get isQueryCanceled(): boolean {
    return this.code === "57014";
  }
  get isAdminShutdown(): boolean {
    return this.code === "57P01";
  }
  /** The prepared statement does not exist, for example because a pooler switched server connections. */
  get isInvalidSqlStatementName(): boolean {
    return this.code === "26000";
  }
}

/** Whether the server ends the session after such an error. */
export function isFatal({ severity = "" }: ErrorFields): boolean {
  return /^(FATAL|PANIC)$/.test(severity);
}

/** Whether the error of a COMMIT leaves open what became of the transaction, as CockroachDB's 40003 does. */
export function leavesOutcomeOpen({ code }: Pick<PgzError, "code">): boolean {
  return code === "40003" || code === "08007";
}

/** The error if COMMIT rolled back. */
export function rolledBack(): PgzError {
  return new PgzError(
    "TRANSACTION_ROLLED_BACK",
    "A statement had failed, so COMMIT rolled back: " +
      "let its error leave the callback, or run it in a nested transaction.",
  );
}

/** A `failure` event of the core (docs/architecture.md, Events). */
interface Failure {
  readonly code: string;
  readonly message: string;
  readonly detail?: string | null | undefined;
}

/** Returns the error for a `failure` event. The core chose the code, and the code decides the class. */
export function fromFailure(failure: Failure, facts?: Facts): PgzError {
  const { code, message, detail } = failure;
  const text = detail ? `${message} (${detail})` : message;
  if (/^(AUTH_|SCRAM_|PASSWORD_)/.test(code)) return new AuthenticationError(code, text, facts);
  if (code.startsWith("TLS_")) return new ConnectionError(code as Code, text, { ...facts, stage: "tls" });
  if (code === "INVALID_QUERY") return new UsageError(code, text, facts);
  return new ProtocolError(code as Code, text, facts);
}

/** Returns the error for rows that a sink could not take, such as a text longer than the runtime's longest string. */
export function undecodable(cause: unknown): PgzError {
  return fromFailure({ code: "INVALID_VALUE", message: `The rows could not be decoded: ${String(cause)}` }, { cause });
}

/** The state of the session when an ErrorResponse came. */
interface Circumstances {
  /** Before the first ReadyForQuery, when no statement can have run. */
  readonly isStartup?: boolean;
  /** The server had not begun with the request. */
  readonly isUntouched?: boolean;
  readonly committed?: boolean | undefined;
  /** What made the transaction fail. */
  readonly cause?: PgzError | undefined;
}

/**
 * Conflicts between transactions: the server has rolled back one of them completely. Aurora DSQL has two codes of its
 * own, for a row (OC000) or a table (OC001) that another transaction has changed.
 */
export const CONFLICT = /^(40001|40P01|OC00[01])$/;

/**
 * Returns the error for an `error` event. A wrong user or password at startup is an {@link AuthenticationError}. These
 * are retryable: a server that is full or starting; a transaction that the server has rolled back completely
 * ({@link CONFLICT}); a request to a session that the server had ended for idling (57P05); and a request that the
 * server had not begun when it ended the session (57P).
 */
export function fromErrorResponse(
  fields: ErrorFields,
  { isStartup = false, isUntouched = false, committed, cause }: Circumstances = {},
): PostgresError | AuthenticationError {
  const code = fields.code ?? "";
  const hasNoEffect =
    (isStartup ? /^(53|57P)/.test(code) : CONFLICT.test(code) || code === "57P05") ||
    (isUntouched && isFatal(fields) && code.startsWith("57P"));
  const error = new PostgresError(fields, { hasNoEffect, committed, ...(cause && { cause }) });
  if (!isStartup || !code.startsWith("28")) return error;
  return new AuthenticationError(code, error.message, { committed, cause: error });
}

/** Gives a class a name that survives a minifier, and makes `instanceof` work across copies of the package. */
function mark(constructor: { readonly prototype: PgzError }, name: string): void {
  const symbol = Symbol.for(`pgz-edge.${name}`);
  marks.set(constructor, symbol);
  Object.defineProperties(constructor.prototype, {
    name: { value: name, configurable: true, writable: true },
    [symbol]: { value: true },
  });
}
