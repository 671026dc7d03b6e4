// Converts the driver's errors to Prisma's kinds, from which Prisma's client makes its codes (P2002 and so on).
//
// Knows SQLSTATEs and the driver's codes. Must not know statements or connections. An error for which Prisma has no
// kind stays the driver's own, and the client passes it on.
import { AuthenticationError, ConnectionError, PgzError, PostgresError } from "../index.ts";
import type { Constraint, MappedError } from "./prisma-contract.ts";

/** Prisma recognises this error by its name and its cause, not by its class. */
export class DriverAdapterError extends Error {
  override readonly name = "DriverAdapterError";
  declare readonly cause: MappedError;

  constructor(cause: MappedError) {
    super(textOf(cause), { cause });
  }
}

/** For some errors this text is all that the client shows. */
function textOf(cause: MappedError): string {
  if ("message" in cause) return cause.message;
  return "cause" in cause ? cause.cause : cause.kind;
}

/** The reason that ends a transaction's callback when Prisma rolls the transaction back. */
export const ROLLED_BACK = new Error("The transaction was rolled back while this statement ran.");

/** Returns the error that the adapter throws instead of `error`. */
export function prismaError(error: unknown): unknown {
  const kind = error instanceof PgzError && kindOf(error);
  return kind ? new DriverAdapterError(kind) : error;
}

function kindOf(error: PgzError): MappedError | undefined {
  const server = serverError(error);
  if (server) return { originalCode: server.code, originalMessage: server.message, ...ofServer(server) };
  const { code, message } = error;
  if (error.cause === ROLLED_BACK) return { kind: "TransactionAlreadyClosed", cause: ROLLED_BACK.message };
  switch (code) {
    case "INVALID_PARAMETER":
      return { kind: "InvalidInputValue", message, originalCode: "22P02", originalMessage: message };
    case "PARAMETER_OUT_OF_RANGE":
      return { kind: "ValueOutOfRange", cause: message, originalCode: "22003", originalMessage: message };
    case "TRANSACTION_FINISHED":
    case "TRANSACTION_ROLLED_BACK":
      return { kind: "TransactionAlreadyClosed", cause: message };
    case "TLS_FAILED":
    case "TLS_REFUSED":
      return { kind: "TlsConnectionError", reason: message };
    case "CONNECTION_LOST":
      return { kind: "ConnectionClosed" };
    case "CONNECT_FAILED":
      return { kind: "DatabaseNotReachable", ...addressOf(error) };
    case "CONNECT_TIMEOUT":
    case "QUERY_TIMEOUT":
      return { kind: "SocketTimeout" };
  }
  return undefined;
}

/** Returns the server's error. If the server refused a login, it is the cause of the driver's error. */
function serverError(error: PgzError): PostgresError | undefined {
  if (error instanceof PostgresError) return error;
  const isOfLogin = error instanceof AuthenticationError || error instanceof ConnectionError;
  return isOfLogin && error.cause instanceof PostgresError ? error.cause : undefined;
}

function ofServer(error: PostgresError): MappedError {
  const { code, message, detail, hint, severity = "N/A" } = error;
  const column = columnIn(error);
  switch (code) {
    case "22001":
      return { kind: "LengthMismatch", ...(column !== undefined && { column }) };
    case "22003":
      return { kind: "ValueOutOfRange", cause: message };
    case "22P02":
      return { kind: "InvalidInputValue", message };
    case "23505":
      return { kind: "UniqueConstraintViolation", ...constraintOf(error), ...tableOf(error) };
    case "23502":
      return { kind: "NullConstraintViolation", ...(column !== undefined && { constraint: { fields: [column] } }) };
    case "23503":
      return { kind: "ForeignKeyConstraintViolation", ...constraintOf(error) };
    case "23001":
      return { kind: "RestrictViolation", ...constraintOf(error) };
    case "3D000":
      return { kind: "DatabaseDoesNotExist", ...named("db", /database "([^"]*)"/, message) };
    case "28000":
      return { kind: "DatabaseAccessDenied", ...named("db", /database "([^"]*)"/, message) };
    case "28P01":
      return { kind: "AuthenticationFailed", ...named("user", /user "([^"]*)"/, message) };
    case "40001":
    case "40P01":
      return { kind: "TransactionWriteConflict" };
    case "42P01":
      return { kind: "TableDoesNotExist", ...named("table", /^\S+ "([^"]*)"/, message) };
    case "42703":
      return { kind: "ColumnNotFound", ...columnOf(message) };
    case "42P04":
      return { kind: "DatabaseAlreadyExists", ...named("db", /database "([^"]*)"/, message) };
    case "53300":
      return { kind: "TooManyConnections", cause: message };
  }
  return { kind: "postgres", code: code || "N/A", severity, message, detail, column, hint };
}

/**
 * Returns the constraint: by its column if the server names one, else by its name, else by the columns in the detail.
 */
function constraintOf(error: PostgresError): { constraint?: Constraint } {
  const { constraint, detail } = error;
  const column = columnIn(error);
  if (column !== undefined) return { constraint: { fields: [column] } };
  if (constraint) return { constraint: { index: constraint } };
  const fields = keyOf(detail);
  return fields ? { constraint: { fields } } : {};
}

/**
 * In JavaScriptCore, the engine of Safari and Bun, every error has a number of this name: its column in the source
 * code.
 */
function columnIn({ column }: PostgresError): string | undefined {
  return typeof column === "string" ? column : undefined;
}

/** `Key (a, b)=(1, 2) already exists.` */
function keyOf(detail = ""): string[] | undefined {
  return /Key \(([^)]+)\)/.exec(detail)?.[1]?.split(", ");
}

function tableOf({ table }: PostgresError): { table?: string } {
  return table === undefined ? {} : { table };
}

/** `column "a" …`, `column t.a …`: returns the name without quotes. Two quotes within quotes stand for one. */
function columnOf(message: string): { column?: string } {
  const name = /^column (.+) does not exist$/.exec(message)?.[1];
  return name === undefined
    ? {}
    : { column: name.replace(/"((?:""|[^"])*)"/g, (_, inner: string) => inner.replaceAll('""', '"')) };
}

/** Returns the name in quotes. It is missing where a server translates its messages. */
function named<Name extends string>(name: Name, pattern: RegExp, message: string): { [K in Name]?: string } {
  const found = pattern.exec(message)?.[1];
  return (found === undefined ? {} : { [name]: found }) as { [K in Name]?: string };
}

/** Returns the address, if the runtime's error contains one. */
function addressOf({ cause }: PgzError): { host?: string; port?: number } {
  const { address, hostname, port } = Object(cause) as { address?: unknown; hostname?: unknown; port?: unknown };
  const host = address ?? hostname;
  return { ...(typeof host === "string" && { host }), ...(typeof port === "number" && { port }) };
}
