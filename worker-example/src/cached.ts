/**
 * `GET /api/summary`: number and sum of the tenant's orders by status, from a cache until a commit changes an order.
 *
 *   showSummary ──> the platform's cache ──> Summary ──> PostgreSQL
 *     token, tenant   by tenant and URL        └──> Invalidations <── commits, by logical replication
 *                        ^── purge ──────────────────────┘
 *
 * Knows what keeps one tenant's answer from another tenant:
 *
 * - The cache is in front of `Summary` only (wrangler.jsonc), so each request has passed the check of its token. The
 *   platform tells answers apart by the entrypoint's `ctx.props`, which has the tenant.
 * - No other cache is told that it may store an answer: what leaves the Worker is `private`, and has no lifetime.
 *
 * Outside the platform no cache is in front. A browser that sends the ETag of its answer is told 304 all the same,
 * without a query, as long as no commit has changed an order.
 */
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import { createClient, createPool, sql } from "pgz-edge";
import { cached, invalidatorObject, type CacheInvalidator } from "pgz-edge/cache";
import { clientOptions, tenantScope, type Context } from "./context.ts";
import type { CacheEnv, Exports, TenantProps } from "./env.ts";
import { requests, summaries } from "./limits.ts";
import { Problem, problemOf, problemResponse } from "./problem.ts";

const summary = sql`
  select status, count(*) as orders, sum(total) as total from orders group by status order by status`;

/** Asks the cache, or `Summary`, without the token: no cache stores the answer to a request with `authorization`. */
export async function showSummary({ exports, request, requestId, tenant }: Context): Promise<Response> {
  const headers = new Headers({ "x-request-id": requestId });
  const etag = request.headers.get("if-none-match");
  if (etag !== null) headers.set("if-none-match", etag);
  // Always the same URL: with the client's own, each `?x=…` would be one more answer to store.
  const asked = new Request("http://summary/", { headers, signal: request.signal });
  return personal(await exports.Summary({ props: { tenant } }).fetch(asked));
}

/** For this client's browser only: what a cache may do with the answer was said to the one in front of `Summary`. */
function personal(answer: Response): Response {
  const headers = new Headers(answer.headers);
  for (const name of ["cdn-cache-control", "cache-tag"]) headers.delete(name);
  headers.append("cache-control", "private");
  headers.append("vary", "authorization");
  return new Response(answer.body, { status: answer.status, headers });
}

/** The entrypoint whose answers the platform's cache stores. No address leads to it but the Worker's own calls. */
export class Summary extends WorkerEntrypoint<CacheEnv, TenantProps> {
  override async fetch(request: Request): Promise<Response> {
    try {
      return await this.#answer(request);
    } catch (error) {
      const [problem, requestId] = [problemOf(error), request.headers.get("x-request-id") ?? ""];
      if (problem.status >= 500 && !(error instanceof Problem)) console.error(`${requestId}:`, error);
      return problemResponse(problem, requestId);
    }
  }

  async #answer(request: Request): Promise<Response> {
    const { CHANGES_URL, DATABASE_URL, INVALIDATIONS } = this.env;
    // The signal is this call's. The client closes when the answer has ended.
    const { signal, ...options } = clientOptions({ request }, requests.timeout);
    const { props } = this.ctx;
    // Not through Hyperdrive, whose own cache no commit purges.
    const database = createClient(DATABASE_URL, options).scope(tenantScope(props));
    return await cached(request, database, summary, {
      format: "json",
      maxAge: summaries.maxAge,
      invalidator: CHANGES_URL ? INVALIDATIONS.getByName("orders") : none,
      separatedBy: { ...props },
      headers: { "x-content-type-options": "nosniff" },
      signal,
      closeWhenDone: true,
    });
  }

  /** The platform purges the cache of the entrypoint that asks for it. Elsewhere there is no cache. */
  async purge(tags: readonly string[]): Promise<unknown> {
    return await this.ctx.cache?.purge({ tags: [...tags] });
  }
}

interface State {
  readonly storage: { setAlarm(time: number): Promise<void> };
  readonly exports: Exports;
}

/** Follows the commits to orders, and purges. One object does it for all tenants. */
export class Invalidations extends invalidatorObject(DurableObject, (env: CacheEnv, { exports }: State) => ({
  db: createPool(env.CHANGES_URL!, { max: 2, applicationName: "pgz-edge-example cache" }),
  slot: env.CACHE_SLOT ?? "orders_cache",
  createSlot: "permanent",
  publication: "orders_cache",
  purge: (tags) => exports.Summary.purge(tags),
  onFailure: (error) => console.error("cache:", error),
})) {}

/** In place of an object that follows no commits. */
const none: CacheInvalidator = {
  open: () => ({ refusal: "down", reason: "there is no invalidator: README.md says how" }),
  remember() {},
  close() {},
  abandon() {},
};
