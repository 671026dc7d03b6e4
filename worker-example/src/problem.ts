/**
 * Errors as responses: RFC 9457's `application/problem+json`.
 *
 * Knows which status belongs to which SQLSTATE, and what a client may read of an error: a text of ours, the code, and
 * the names of a constraint or column, which are part of the API. A client never gets the server's texts, which name
 * hosts, roles and SQL. They go to the log, under the id that the response also has.
 */
import {
  AuthenticationError,
  ConnectionError,
  PgzError,
  PostgresError,
  ResponseTooLargeError,
  TimeoutError,
  UsageError,
} from "pgz-edge";

/** An error that is meant for the client. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    detail: string,
    readonly members: Readonly<Record<string, unknown>> = {},
    readonly headers: Readonly<Record<string, string>> = {},
  ) {
    super(detail);
  }
}

/** Statuses by SQLSTATE, or by its class, which is its first two characters. */
const statuses: Readonly<Record<string, readonly [status: number, detail: string]>> = {
  "22": [400, "A value does not fit its column."],
  "23502": [422, "A value is missing."],
  "23503": [409, "A row that it refers to is missing, or another row refers to it."],
  "23505": [409, "There is such a row already."],
  "23514": [422, "A value is not allowed."],
  "40": [503, "It met another change of the same rows. Try again."],
  "42501": [403, "That is not allowed."],
  "53": [503, "The database has too much to do. Try again later."],
  "57": [503, "The database has ended the connection. Try again."],
  "57014": [504, "It took too long, and was cancelled."],
};

/** Returns what the client is told of any error. */
export function problemOf(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof PostgresError) return ofServer(error);
  if (error instanceof TimeoutError) return new Problem(504, error.code, "It took too long, and was cancelled.");
  if (error instanceof ResponseTooLargeError) return new Problem(422, error.code, "The result is larger than allowed.");
  if (error instanceof UsageError && /^(INVALID_PARAMETER|PARAMETER_OUT_OF_RANGE)$/.test(error.code))
    return new Problem(400, error.code, "A value does not fit its column.");
  const isUnavailable = error instanceof ConnectionError || error instanceof AuthenticationError;
  if (isUnavailable || (error instanceof PgzError && error.retryable)) return unavailable();
  return new Problem(500, "INTERNAL", "That did not work. The log says why.");
}

export function unavailable(): Problem {
  const detail = "The database cannot be reached. The log says why.";
  return new Problem(503, "DATABASE_UNAVAILABLE", detail, {}, { "retry-after": "5" });
}

function ofServer({ code, constraint, column }: PostgresError): Problem {
  if (code.startsWith("3D")) return unavailable(); // the database does not exist
  const [status, detail] = statuses[code] ??
    statuses[code.slice(0, 2)] ?? [500, "That did not work. The log says why."];
  if (status === 500) return new Problem(500, "INTERNAL", detail);
  const names = { ...(constraint && { constraint }), ...(column && { column }) };
  return new Problem(status, code, detail, names, status === 503 ? { "retry-after": "1" } : {});
}

/** `type` is left out, which means about:blank: the title is that of the status. */
export function problemBody({ status, code, message, members }: Problem, requestId: string) {
  return { title: titles[status] ?? "Error", status, detail: message, code, ...members, requestId };
}

export function problemResponse(problem: Problem, requestId: string): Response {
  return Response.json(problemBody(problem, requestId), {
    status: problem.status,
    headers: { "content-type": "application/problem+json", "cache-control": "no-store", ...problem.headers },
  });
}

const titles: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  409: "Conflict",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  422: "Unprocessable Content",
  500: "Internal Server Error",
  503: "Service Unavailable",
  504: "Gateway Timeout",
};
