/**
 * The SQL box: `/query?q=…&format=…`, or the same two as a JSON body. It runs the SQL that its caller typed.
 *
 * Four things together keep that harmless. The connection's role may only read `users` and `events`, and no tenant's
 * rows (schema.sql). Every query runs in a read-only transaction. `limits.ts` bounds its cost. A cancelled request
 * cancels the query in PostgreSQL. The box is here to show the driver: leave it out of an application that does not
 * need it.
 */
import {
  createClient,
  PostgresError,
  ResponseTooLargeError,
  sql,
  TimeoutError,
  UsageError,
  type Format,
} from "pgz-edge";
import { readJson } from "./body.ts";
import { noStore, type Context } from "./context.ts";
import { limits, maxQueryLength } from "./limits.ts";
import { Problem, unavailable } from "./problem.ts";
import { observer } from "./telemetry.ts";

export async function runQuery({ request, env, url, requestId }: Context): Promise<Response> {
  const { text, format } = checked(
    // Four bytes per character, and room for JSON's escapes.
    request.method === "POST" ? await readJson(request, 8 * maxQueryLength) : Object.fromEntries(url.searchParams),
  );
  const { signal } = request;
  const client = createClient(env.HYPERDRIVE, { observer });
  try {
    await client.query(sql`begin read only`, { signal, timeout: limits.timeout });
  } catch (error) {
    // Before the caller's SQL has run, a failure concerns the operator only. It goes to the log, not to the caller.
    if (!signal.aborted) console.error(`${requestId}: the database cannot be reached:`, error);
    await client.close();
    throw unavailable();
  }

  try {
    // The extended query protocol takes one statement only, so "commit; drop table users" is refused. The client is
    // closed after the last row, and PostgreSQL rolls back: there is nothing to commit.
    const options = { format, ...limits, signal, closeWhenDone: true, headers: noStore };
    return await client.respond(sql.unsafe(text), options);
  } catch (error) {
    await client.close();
    throw ofCaller(error);
  }
}

const formats: Readonly<Record<Format, true>> = { ndjson: true, json: true, columnar: true, toon: true, csv: true };

function isFormat(name: unknown): name is Format {
  return typeof name === "string" && Object.hasOwn(formats, name);
}

function checked(fields: unknown): { text: string; format: Format } {
  const { q: text, format = "ndjson" } = (fields ?? {}) as { q?: unknown; format?: unknown };
  if (typeof text !== "string" || text.trim() === "")
    throw new Problem(400, "NO_QUERY", 'Give the SQL text as q: {"q": "select …", "format": "ndjson"}.');
  if (text.length > maxQueryLength)
    throw new Problem(413, "QUERY_TOO_LONG", `The SQL text may have ${maxQueryLength} characters.`);
  if (!isFormat(format))
    throw new Problem(400, "UNKNOWN_FORMAT", `The format is one of ${Object.keys(formats).join(", ")}.`);
  return { text, format };
}

/** The SQL is the caller's own, so the caller also gets the server's texts. */
function ofCaller(error: unknown): unknown {
  if (error instanceof PostgresError)
    return new Problem(400, error.code, error.message, { hint: error.hint, position: error.position });
  const isTheirs =
    error instanceof UsageError || error instanceof TimeoutError || error instanceof ResponseTooLargeError;
  return isTheirs ? new Problem(400, error.code, error.message) : error;
}
