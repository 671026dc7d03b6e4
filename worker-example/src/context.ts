/**
 * What each route is given, and a tenant's database.
 *
 * Knows the tenant and the scope. Must not know routes. `tenant` is here because of a token (auth.ts), and
 * each query of a route goes through its scope: the setting `app.tenant` travels in front of it, in the same round
 * trip, and the policies of schema.sql read it.
 */
import { createClient, type Client, type ClientOptions, type Scope } from "pgz-edge";
import type { Env } from "./env.ts";
import { requests } from "./limits.ts";
import { observer } from "./telemetry.ts";

export interface Context {
  readonly request: Request;
  readonly env: Env;
  readonly url: URL;
  readonly requestId: string;
  readonly tenant: string;
  /** The last part of the path, where the route has one. */
  readonly id: string;
}

/** The tenant's queries, and then the connection's end. `timeout` is for each of them. */
export async function withTenant<T>(
  context: Context,
  work: (database: Scope) => Promise<T>,
  { timeout }: { timeout: number } = requests,
): Promise<T> {
  await using client = tenantClient(context, timeout);
  return await work(scopeOf(client, context));
}

/** For a response that streams: pass `closeWhenDone` to its call. */
export function tenantStream(context: Context): Scope {
  return scopeOf(tenantClient(context, requests.timeout), context);
}

function tenantClient(context: Context, timeout: number): Client {
  return createClient(context.env.HYPERDRIVE_APP, clientOptions(context, timeout));
}

export function clientOptions({ request }: Pick<Context, "request">, timeout: number): ClientOptions {
  return {
    applicationName: "pgz-edge-example api",
    signal: request.signal, // a client that leaves ends its query in PostgreSQL
    timeout,
    observer,
    int8: "number",
    numeric: "string", // money keeps its digits in whatever reads the JSON
  };
}

function scopeOf(client: Client, context: Context): Scope {
  return client.scope(tenantScope(context));
}

export function tenantScope({ tenant }: Pick<Context, "tenant">) {
  return { settings: { "app.tenant": tenant } };
}

/** Headers of each answer with data. */
export const noStore = { "cache-control": "no-store, no-transform", "x-content-type-options": "nosniff" };
