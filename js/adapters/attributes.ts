// The attributes of spans and metrics for a call, by OpenTelemetry's stable conventions for databases (semantic
// conventions 1.44, docs/db). All code that makes spans shares this file.
//
// Knows the conventions and the events of an observer. Must not know which code makes the spans: neither
// @opentelemetry/api nor a runtime.
//
// A text without parameters never shows a literal. A parameter's value appears only if option `observeParameters` gave
// it. A message of the server appears only on request, because it may quote data.
import type { ServerAddress, PgzError, QueryEnd, QueryStart } from "../index.ts";
import { sqlText } from "./sql-text.ts";

export type Attributes = Record<string, string | number | boolean>;

/** Maximum number of characters shown of one parameter. */
const LONGEST_PARAMETER = 256;

/** Returns the name of a call's span, and the attributes that are known when the call is made. */
export function startOf(event: QueryStart): { name: string; attributes: Attributes } {
  const texts = event.texts ?? [event.text];
  const read = texts.map(sqlText);
  const isBatch = texts.length > 1;
  const summaries = new Set(read.map(({ summary }) => summary));
  const [first] = summaries as Set<string | undefined>;
  const summary = isBatch ? (summaries.size === 1 && first ? `BATCH ${first}` : "BATCH") : first;
  const attributes: Attributes = {
    ...addressOf(event),
    "db.query.text": read.map(({ shown }) => shown).join("; "),
    ...(summary && { "db.query.summary": summary }),
    ...(isBatch && { "db.operation.batch.size": texts.length }),
  };
  event.parameters?.forEach((value, at) => (attributes[`db.query.parameter.${at}`] = shownValue(value)));
  return { name: summary || event.database || `${event.host}:${event.port}`, attributes };
}

/**
 * Returns the attributes of the server that the call goes to. With several hosts only the end event knows which host it
 * was.
 */
export function addressOf({ host, port, database }: ServerAddress): Attributes {
  return {
    "db.system.name": "postgresql",
    "db.namespace": database,
    "server.address": host,
    ...(port !== 5432 && { "server.port": port }),
  };
}

/** Returns the attributes that are known when the call is over. */
export function endOf(event: QueryEnd): Attributes {
  const { command, kind } = event;
  return {
    ...addressOf(event),
    // The command that the server reports. Omitted for a batch, where it would be the last statement's.
    ...(command && kind !== "batch" && { "db.operation.name": command }),
    ...(returnsRows(event) && { "db.response.returned_rows": event.rows! }),
    ...(event.error && failureOf(event.error)),
  };
}

/** Returns the attributes of a measurement: only a few, each with few distinct values. */
export function measuredOf(event: QueryEnd, attributes: Attributes): Attributes {
  const summary = attributes["db.query.summary"];
  return {
    ...addressOf(event),
    ...(summary !== undefined && { "db.query.summary": summary }),
    ...(event.error && failureOf(event.error)),
  };
}

/** Whether `rows` counts returned rows. A command tag also counts the rows that a statement changed. */
export function returnsRows({ command, rows }: QueryEnd): boolean {
  return rows !== null && /^(SELECT|FETCH)$/.test(command);
}

/** Returns the SQLSTATE, if the error has one from the server. */
export function sqlStateOf({ code }: PgzError): string | undefined {
  return /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

function failureOf(error: PgzError): Attributes {
  const state = sqlStateOf(error);
  return { "error.type": error.code ?? error.name ?? "_OTHER", ...(state && { "db.response.status_code": state }) };
}

/**
 * Returns whether the call failed, and the message that may be shown. Leaving a loop or a stream, or aborting a call,
 * is not a failure. A timeout by `AbortSignal.timeout` is one.
 */
export function statusOf(error: PgzError, messages: boolean): { isError: boolean; message?: string } {
  const isAbort = error.code === "ABORTED" && (error.cause as Error | undefined)?.name !== "TimeoutError";
  // The driver's own messages contain no values.
  return { isError: !isAbort, ...((messages || !sqlStateOf(error)) && { message: error.message }) };
}

function shownValue(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  let text: string | undefined;
  try {
    text = typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
  } catch {
    // The value's own code (`toJSON`, `toString`) threw.
  }
  return (text ?? typeof value).slice(0, LONGEST_PARAMETER);
}
