/**
 * Reads from a standby near the Worker, if the binding HYPERDRIVE_STANDBY names one. A read never shows a state older
 * than the client's own last write: a cookie carries the position of that write.
 *
 *   POST /api/orders ──> primary    ──> set-cookie: position=…
 *   GET  /api/orders ──> standby, if it has come as far as the cookie says; else the primary
 *
 * Without the binding, reads and writes both use the client of context.ts. Knows the cookie. Must not know routes. The
 * cookie is not signed: a client that invents a position can only send its own reads to the primary.
 */
import type { Scope } from "pgz-edge";
import { createCluster, type Cluster } from "pgz-edge/cluster";
import { clientOptions, tenantScope, withTenant, type Context } from "./context.ts";
import { requests } from "./limits.ts";

/** The calls that a route makes on its tenant's rows. */
type Calls = Pick<Scope, "query" | "exec">;

export async function reading<T>(context: Context, work: (database: Calls) => Promise<T>): Promise<T> {
  if (!context.env.HYPERDRIVE_STANDBY) return await withTenant(context, work);
  await using cluster = clusterOf(context);
  return await work(cluster.reads.after(positionOf(context.request)).scope(tenantScope(context)));
}

/** Returns the result, and headers that make the client's next reads include the write. */
export async function writing<T>(
  context: Context,
  work: (database: Calls) => Promise<T>,
): Promise<[T, Record<string, string>]> {
  if (!context.env.HYPERDRIVE_STANDBY) return [await withTenant(context, work), {}];
  await using cluster = clusterOf(context);
  const { value, position } = await cluster.scope(tenantScope(context)).transaction(work, { position: true });
  return [value, { "set-cookie": `position=${position}; Path=/api; Max-Age=60; HttpOnly; Secure; SameSite=Lax` }];
}

/**
 * Made per request, because sockets belong to a request. From the first request on the isolate knows which of the two
 * is the primary.
 */
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
