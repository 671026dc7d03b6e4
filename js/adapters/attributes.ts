// What a span and a metric say of a call, by OpenTelemetry's stable conventions for databases (semantic conventions
// 1.44, docs/db): one place for all who make spans.
//
// Knows the conventions and the events of an observer. Must not know who makes the spans: neither @opentelemetry/api
// nor a runtime.
//
// No literal of a text without parameters, no value unless option `observeParameters` gave it, no message of the
// server unless asked for: it may quote data.
import type { Place, PgzError, QueryEnd, QueryStart } from "../index.ts";
import { sqlText } from "./sql-text.ts";

export type Attributes = Record<string, string | number | boolean>;

/** Characters of one parameter that are shown. */
const LONGEST_PARAMETER = 256;

/** What a call is called, and what is known of it when it is made. */
export function startOf(event: QueryStart): { name: string; attributes: Attributes } {
  const texts = event.texts ?? [event.text];
  const read = texts.map(sqlText);
  const isBatch = texts.length > 1;
  const summaries = new Set(read.map(({ summary }) => summary));
  const [first] = summaries as Set<string | undefined>;
  const summary = isBatch ? (summaries.size === 1 && first ? `BATCH ${first}` : "BATCH") : first;
  const attributes: Attributes = {
    ...placeOf(event),
    "db.query.text": read.map(({ shown }) => shown).join("; "),
    ...(summary && { "db.query.summary": summary }),
    ...(isBatch && { "db.operation.batch.size": texts.length }),
  };
  event.parameters?.forEach((value, at) => (attributes[`db.query.parameter.${at}`] = shownValue(value)));
  return { name: summary || event.database || `${event.host}:${event.port}`, attributes };
}

/** Where it goes. Of several hosts the one that it went to is known at the end. */
export function placeOf({ host, port, database }: Place): Attributes {
  return {
    "db.system.name": "postgresql",
    "db.namespace": database,
    "server.address": host,
    ...(port !== 5432 && { "server.port": port }),
  };
}

/** What is known of a call when it is over. */
export function endOf(event: QueryEnd): Attributes {
  const { command, kind } = event;
  return {
    ...placeOf(event),
    // As the server says; of a batch it is the last one's.
    ...(command && kind !== "batch" && { "db.operation.name": command }),
    ...(returnsRows(event) && { "db.response.returned_rows": event.rows! }),
    ...(event.error && failureOf(event.error)),
  };
}

/** The attributes of a measurement: few, of few values. */
export function measuredOf(event: QueryEnd, attributes: Attributes): Attributes {
  const summary = attributes["db.query.summary"];
  return {
    ...placeOf(event),
    ...(summary !== undefined && { "db.query.summary": summary }),
    ...(event.error && failureOf(event.error)),
  };
}

/** The command tag counts rows that it changed, too. */
export function returnsRows({ command, rows }: QueryEnd): boolean {
  return rows !== null && /^(SELECT|FETCH)$/.test(command);
}

/** The SQLSTATE, if the server said one. */
export function sqlStateOf({ code }: PgzError): string | undefined {
  return /^[0-9A-Z]{5}$/.test(code) ? code : undefined;
}

function failureOf(error: PgzError): Attributes {
  const state = sqlStateOf(error);
  return { "error.type": error.code ?? error.name ?? "_OTHER", ...(state && { "db.response.status_code": state }) };
}

/**
 * Whether the call has failed, and what may be said of it. Who leaves a loop or a stream, or aborts a call, has not:
 * but a signal of `AbortSignal.timeout` has.
 */
export function statusOf(error: PgzError, messages: boolean): { isError: boolean; message?: string } {
  const isAbort = error.code === "ABORTED" && (error.cause as Error | undefined)?.name !== "TimeoutError";
  // Our own messages hold no value.
  return { isError: !isAbort, ...((messages || !sqlStateOf(error)) && { message: error.message }) };
}

function shownValue(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.length} bytes`;
  let text: string | undefined;
  try {
    text = typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
  } catch {
    // A value's own code.
  }
  return (text ?? typeof value).slice(0, LONGEST_PARAMETER);
}
