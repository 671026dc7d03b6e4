/**
 * A Durable Object with a pool: its connections outlive requests, which those of a plain Worker may not.
 *
 *   /user?id=7             one row, by a connection of the pool
 *   /listen?channel=users  notifications as server-sent events, one LISTEN for all clients (fan-out.ts)
 *
 * All requests of an object share its sockets and timers, so a pool that is made once serves them all. It connects to
 * PostgreSQL itself: Hyperdrive has a pool of its own, and no LISTEN.
 */
import { createPool, sql, type Pool } from "pgz-edge";
import { FanOut } from "./fan-out.ts";
import { limits, listening } from "./limits.ts";

export interface DatabaseEnv {
  /** PostgreSQL's own address: `wrangler secret put DATABASE_URL`. */
  DATABASE_URL: string;
}

const MINUTE = 60_000;

export class Database {
  readonly pool: Pool;
  readonly #fanOut: FanOut;

  constructor(_state: unknown, env: DatabaseEnv) {
    this.pool = createPool(env.DATABASE_URL, {
      max: 5,
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

  async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    try {
      return await (pathname === "/listen"
        ? this.#listen(searchParams.get("channel"))
        : this.#user(Number(searchParams.get("id"))));
    } catch (error) {
      console.error("The database cannot be reached:", error);
      return refuse(502, "DATABASE_UNAVAILABLE", "The database cannot be reached. The Worker's log says why.");
    }
  }

  async #user(id: number): Promise<Response> {
    if (!Number.isInteger(id) || Math.abs(id) >= 2 ** 31) return refuse(400, "NO_ID", "The id is a whole number.");
    return this.pool.respond(sql`select id, name, meta from users where id = ${id}`, limits);
  }

  async #listen(channel: string | null): Promise<Response> {
    if (channel === null || !listening.channels.includes(channel))
      return refuse(400, "NO_CHANNEL", `The channel is one of ${listening.channels.join(", ")}.`);
    const body = await this.#fanOut.subscribe(channel);
    if (!body) return refuse(503, "TOO_MANY_CLIENTS", "Too many clients listen. Try again later.");
    return new Response(body, {
      headers: {
        "content-type": "text/event-stream",
        "cache-control": "no-store, no-transform",
        "x-content-type-options": "nosniff",
      },
    });
  }
}

function refuse(status: number, code: string, message: string): Response {
  return Response.json({ code, message }, { status, headers: { "cache-control": "no-store" } });
}
