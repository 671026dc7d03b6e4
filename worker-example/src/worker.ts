/**
 * A Worker with a page where you type SQL and watch the rows arrive: `/` the page, `/query` the SQL endpoint behind it,
 * `/users` the handler that the README shows. `/user` and `/listen` are those of a Durable Object (database.ts).
 *
 * `/query` runs what a stranger typed. Four things together keep that harmless: the connection's role may only read
 * (README.md), every query runs in a read-only transaction, `limits.ts` bounds its cost, and a cancelled request
 * cancels the query in PostgreSQL. A deployed Worker also needs authentication in front; README.md says why.
 */
import { createClient, sql, type Client, type Format } from "pgz-edge";
import type { DatabaseEnv } from "./database.ts";
import { limits, maxQueryLength } from "./limits.ts";
import page from "./page.html";
import users from "./users.ts";

export { Database } from "./database.ts";

interface Env extends DatabaseEnv {
  HYPERDRIVE: { connectionString: string };
  DATABASE: DurableObjectNamespace;
}

/** What the page learns about a failure: no connection string, no host, no stack. */
interface Failure {
  code: string;
  message: string;
  hint?: string | undefined;
  position?: string | number | undefined;
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    switch (new URL(request.url).pathname) {
      case "/":
        return showPage();
      case "/query":
        return runQuery(request, env);
      case "/users":
        return users.fetch(request, env).catch((error: unknown) => refuse(400, describe(error)));
      case "/user":
      case "/listen":
        return askObject(request, env);
      default:
        return refuse(404, { code: "NOT_FOUND", message: "There is /, /query, /users, /user and /listen." });
    }
  },
};

function showPage(): Response {
  const nonce = crypto.randomUUID();
  return new Response(page.replaceAll("{{nonce}}", nonce), {
    headers: {
      "content-type": "text/html; charset=utf-8",
      "content-security-policy":
        `default-src 'none'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; connect-src 'self'; ` +
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      "referrer-policy": "no-referrer",
      "x-content-type-options": "nosniff",
      "cache-control": "no-store",
    },
  });
}

async function runQuery(request: Request, env: Env): Promise<Response> {
  const asked = await readQuery(request);
  if (asked instanceof Response) return asked;

  const { signal } = request;
  let client: Client | undefined;
  try {
    client = createClient(env.HYPERDRIVE);
    await client.query(sql`begin read only`, { signal, timeout: limits.timeout });
  } catch (error) {
    // Before the visitor's SQL has run, a failure concerns the operator only: it goes to the log, not to the visitor.
    if (!signal.aborted) console.error("The database cannot be reached:", error);
    await client?.close();
    return refuse(502, {
      code: "DATABASE_UNAVAILABLE",
      message: "The database cannot be reached. The Worker's log says why.",
    });
  }

  try {
    // The extended protocol takes one statement only, so "commit; drop table users" is refused. The client is closed
    // after the last row, and PostgreSQL rolls back: there is nothing to commit.
    return await client.respond(sql.unsafe(asked.text), {
      format: asked.format,
      ...limits,
      signal,
      closeWhenDone: true,
      headers: { "cache-control": "no-store, no-transform", "x-content-type-options": "nosniff" },
    });
  } catch (error) {
    await client.close();
    return refuse(400, describe(error));
  }
}

/** One object for all: its pool is the one that everybody shares. A busier service has one per tenant or region. */
function askObject(request: Request, { DATABASE: objects }: Env): Response | Promise<Response> {
  return isFromElsewhere(request) ? refuseElsewhere() : objects.get(objects.idFromName("shared")).fetch(request);
}

const formats: Readonly<Record<Format, true>> = { ndjson: true, json: true, columnar: true, toon: true, csv: true };

function isFormat(name: unknown): name is Format {
  return typeof name === "string" && Object.hasOwn(formats, name);
}

/** The SQL text and the format of a request: `?q=…&format=…`, or the same two as a JSON body. */
async function readQuery(request: Request): Promise<{ text: string; format: Format } | Response> {
  if (isFromElsewhere(request)) return refuseElsewhere();
  const fields = await readFields(request);
  if (fields instanceof Response) return fields;
  const { q: text, format = "ndjson" } = fields;
  if (typeof text !== "string" || text.trim() === "") {
    return refuse(400, { code: "NO_QUERY", message: "Give the SQL text as q." });
  }
  if (text.length > maxQueryLength) {
    return refuse(413, { code: "QUERY_TOO_LONG", message: `The SQL text may have ${maxQueryLength} characters.` });
  }
  if (!isFormat(format))
    return refuse(400, { code: "UNKNOWN_FORMAT", message: `The format is one of ${Object.keys(formats).join(", ")}.` });
  return { text, format };
}

/** Browsers say where a request comes from. Another site's page must not run queries with this visitor's access. */
function isFromElsewhere(request: Request): boolean {
  return !["same-origin", "none", null].includes(request.headers.get("sec-fetch-site"));
}

function refuseElsewhere(): Response {
  return refuse(403, { code: "CROSS_SITE", message: "Queries are taken from this Worker's own page only." });
}

async function readFields(request: Request): Promise<{ q?: unknown; format?: unknown } | Response> {
  if (request.method === "GET") return Object.fromEntries(new URL(request.url).searchParams);
  if (request.method !== "POST")
    return refuse(405, { code: "METHOD", message: "Use GET or POST." }, { allow: "GET, POST" });
  // Four bytes per character, and room for JSON's escapes. readQuery measures a chunked body, which has no length.
  if (Number(request.headers.get("content-length")) > 8 * maxQueryLength) {
    return refuse(413, { code: "QUERY_TOO_LONG", message: `The SQL text may have ${maxQueryLength} characters.` });
  }
  const body: unknown = await request.json().catch(() => undefined);
  if (typeof body === "object" && body !== null) return body;
  return refuse(400, { code: "NO_QUERY", message: 'Post a JSON object, {"q": "select …", "format": "ndjson"}.' });
}

function describe(error: unknown): Failure {
  const { code, message, hint, position } = error as Partial<Failure>;
  return { code: code ?? "UNEXPECTED", message: message ?? String(error), hint, position };
}

function refuse(status: number, failure: Failure, headers: Record<string, string> = {}): Response {
  return Response.json(failure, {
    status,
    headers: { "cache-control": "no-store", "x-content-type-options": "nosniff", ...headers },
  });
}
