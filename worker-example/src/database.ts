/**
 * A Durable Object with a pool. Its connections outlive requests; those of a plain Worker may not.
 *
 *   /user?id=7   one row, by a connection of the pool
 *   /listen      changes of the tenant's orders, as server-sent events: one LISTEN for all clients (fan-out.ts)
 *
 * All requests of an object share its sockets and timers, so one pool serves them all. The pool connects to PostgreSQL
 * directly, because Hyperdrive has a pool of its own and no LISTEN. It has a login of its own, because a caller that
 * can run SQL can end other sessions of the same role.
 *
 * PostgreSQL requires no permission to listen, so the Worker decides who hears what: each tenant has its own object,
 * which listens on that tenant's channel only. This also keeps one tenant's clients from using up another tenant's
 * share of clients.
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
      // An open socket keeps its object in memory for 15 minutes only. After that the object may be evicted in the
      // middle of a query, so connections are replaced earlier.
      maxLifetime: 12 * MINUTE,
      // Timers of an object outlive requests, so the pool can check idle connections: it notices a lost connection
      // before a request needs it, and closes an unused one. An object without connections may sleep, and costs
      // nothing.
      healthCheckInterval: MINUTE / 2,
      idleTimeout: MINUTE,
    });
    this.#fanOut = new FanOut(this.pool, listening);
  }

  /** Requests come from this Worker only. It has checked the token, and it names the channel. */
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

/** Streams the changes of the tenant's orders. The trigger of schema.sql notifies this channel. */
export function listen(context: Context): Promise<Response> {
  return ask(context, context.tenant, "listen", { channel: `orders_${context.tenant}` });
}

/**
 * Asks the one object whose pool all tenants share. A tenant's name has no space, so no tenant has this object's name.
 */
export function askObject(context: Context): Promise<Response> {
  return ask(context, " shared", "user", { id: context.url.searchParams.get("id") ?? "" });
}

/** Forwards to an object without the request's headers, so the token goes no further. */
async function ask(
  { env: { DATABASE: objects }, request: { signal }, requestId: id }: Context,
  name: string,
  path: string,
  parameters: Record<string, string>,
): Promise<Response> {
  const url = `http://object/${path}?${new URLSearchParams({ ...parameters, request: id })}`;
  const response = await objects.get(objects.idFromName(name)).fetch(new Request(url, { signal }));
  return new Response(response.body, response); // a copy, because the headers of the original are immutable
}
