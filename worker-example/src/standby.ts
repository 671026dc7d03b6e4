/**
 * Reads from a standby near the Worker, where the binding HYPERDRIVE_STANDBY names one, and never from before the
 * client's own last write: the position of that travels in a cookie.
 *
 *   POST /api/orders ──> primary    ──> set-cookie: position=…
 *   GET  /api/orders ──> standby, if it has come as far as the cookie says; else the primary
 *
 * Without the binding both are the one client of context.ts. Knows the cookie. Must not know routes. The cookie is not
 * signed: who makes a position up can only send his own reads to the primary.
 */
import type { Scope } from "pgz-edge";
import { createCluster, type Cluster } from "pgz-edge/cluster";
import { clientOptions, tenantScope, withTenant, type Context } from "./context.ts";
import { requests } from "./limits.ts";

/** What a route does with its tenant's rows. */
type Calls = Pick<Scope, "query" | "exec">;

export async function reading<T>(context: Context, work: (database: Calls) => Promise<T>): Promise<T> {
  if (!context.env.HYPERDRIVE_STANDBY) return await withTenant(context, work);
  await using cluster = clusterOf(context);
  return await work(cluster.reads.after(positionOf(context.request)).scope(tenantScope(context)));
}

/** The result, and headers that make the client's next reads show it. */
export async function writing<T>(
  context: Context,
  work: (database: Calls) => Promise<T>,
): Promise<[T, Record<string, string>]> {
  if (!context.env.HYPERDRIVE_STANDBY) return [await withTenant(context, work), {}];
  await using cluster = clusterOf(context);
  const { value, position } = await cluster.scope(tenantScope(context)).transaction(work, { position: true });
  return [value, { "set-cookie": `position=${position}; Path=/api; Max-Age=60; HttpOnly; Secure; SameSite=Lax` }];
}

/** Sockets belong to a request. Which of the two is the primary the isolate knows from the first one on. */
function clusterOf(context: Context): Cluster {
  const { HYPERDRIVE_APP, HYPERDRIVE_STANDBY } = context.env;
  return createCluster([HYPERDRIVE_APP, HYPERDRIVE_STANDBY!], {
    ...clientOptions(context, requests.timeout),
    max: 1,
  });
}

function positionOf(request: Request): string | undefined {
  return /(?:^|; )position=([^;]*)/.exec(request.headers.get("cookie") ?? "")?.[1];
}
