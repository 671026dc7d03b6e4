/**
 * A Durable Object with a pool: its connections outlive requests, which those of a plain Worker may not.
 *
 *   /user?id=7   one row, by a connection of the pool
 *   /listen      what becomes of the tenant's orders, as server-sent events: one LISTEN for all clients (fan-out.ts)
 *
 * All requests of an object share its sockets and timers, so a pool that is made once serves them all. It connects to
 * PostgreSQL itself: Hyperdrive has a pool of its own, and no LISTEN. It has a login of its own too, because who may
 * run SQL can end the sessions of the role that it runs as.
 *
 * PostgreSQL asks for no permission to listen, so the Worker says who hears what: each tenant has an object of its own,
 * which hears that tenant's channel. One tenant's clients then cannot use up another's room either.
 */
import { DurableObject } from "cloudflare:workers";
import { createPool, sql, type Pool } from "pgz-edge";
import type { Context } from "./context.ts";
import type { DatabaseEnv } from "./env.ts";
import { FanOut } from "./fan-out.ts";
import { limits, listening } from "./limits.ts";
import { Problem, problemOf, problemResponse } from "./problem.ts";
import { observer } from "./telemetry.ts";

const MINUTE = 60_000;

export class Database extends DurableObject<DatabaseEnv> {
  readonly pool: Pool;
  readonly #fanOut: FanOut;

  constructor(context: DurableObjectState, env: DatabaseEnv) {
    super(context, env);
    this.pool = createPool(env.DATABASE_URL, {
      max: 5,
      observer,
      applicationName: "pgz-edge-example object",
      // An open socket keeps its object in memory, but for 15 minutes only. Behind that an object may be evicted in the
      // middle of a query, so connections are replaced before.
      maxLifetime: 12 * MINUTE,
      // Timers of an object outlive requests, so idle connections can be looked after: one that is lost is noticed
      // before somebody wants it, and one that nobody wants ends. Without any, the object may sleep, and costs nothing.
      healthCheckInterval: MINUTE / 2,
      idleTimeout: MINUTE,
    });
    this.#fanOut = new FanOut(this.pool, listening);
  }

  /** Requests come from this Worker only: it has looked at the token, and names the channel. */
  override async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const requestId = searchParams.get("request") ?? "";
    try {
      return await (pathname === "/listen"
        ? this.#listen(searchParams.get("channel")!)
        : this.#user(searchParams.get("id")));
    } catch (error) {
      const problem = problemOf(error);
      if (problem.status >= 500 && !(error instanceof Problem)) console.error(`${requestId}:`, error);
      return problemResponse(problem, requestId);
    }
  }

  async #user(text: string | null): Promise<Response> {
    const id = /^-?\d{1,10}$/.test(text ?? "") ? Number(text) : NaN;
    if (!(Math.abs(id) < 2 ** 31)) throw new Problem(400, "BAD_ID", "An id is a whole number.");
    return this.pool.respond(sql`select id, name, meta from users where id = ${id}`, limits);
  }

  async #listen(channel: string): Promise<Response> {
    const body = await this.#fanOut.subscribe(channel);
    if (!body) throw new Problem(503, "TOO_MANY_CLIENTS", "Too many clients listen. Try again later.");
    return new Response(body, {
      headers: {
        "content-type": "text/event-stream",
        "cache-control": "no-store, no-transform",
        "x-content-type-options": "nosniff",
      },
    });
  }
}

/** The changes of the tenant's orders: the trigger of schema.sql notifies this channel. */
export function listen(context: Context): Promise<Response> {
  return ask(context, context.tenant, "listen", { channel: `orders_${context.tenant}` });
}

/** One object for all: its pool is the one that everybody shares. No tenant's name has a space. */
export function askObject(context: Context): Promise<Response> {
  return ask(context, " shared", "user", { id: context.url.searchParams.get("id") ?? "" });
}

/** Without the request's headers: the token ends here. */
async function ask(
  { env: { DATABASE: objects }, request: { signal }, requestId: id }: Context,
  name: string,
  path: string,
  parameters: Record<string, string>,
): Promise<Response> {
  const url = `http://object/${path}?${new URLSearchParams({ ...parameters, request: id })}`;
  const response = await objects.get(objects.idFromName(name)).fetch(new Request(url, { signal }));
  return new Response(response.body, response); // with headers that may be set
}
