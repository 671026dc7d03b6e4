/**
 * The context that each route is given, and the tenant's database.
 *
 * Knows the tenant and the scope. Must not know routes. `tenant` comes from a token (auth.ts), and each query of a
 * route goes through the tenant's scope: the setting `app.tenant` is sent before the query, in the same round trip, and
 * the policies of schema.sql read it.
 */
import { createClient, type Client, type ClientOptions, type Scope } from "pgz-edge";
import type { Env, Exports } from "./env.ts";
import { requests } from "./limits.ts";
import { observer } from "./telemetry.ts";

export interface Context {
  readonly request: Request;
  readonly env: Env;
  readonly exports: Exports;
  readonly url: URL;
  readonly requestId: string;
  readonly tenant: string;
  /** The last part of the path, where the route has one. */
  readonly id: string;
}

/** Runs `work` with the tenant's database, then closes the connection. `timeout` applies to each query. */
export async function withTenant<T>(
  context: Context,
  work: (database: Scope) => Promise<T>,
  { timeout }: { timeout: number } = requests,
): Promise<T> {
  await using client = tenantClient(context, timeout);
  return await work(scopeOf(client, context));
}

/** The tenant's database for a response that streams. Pass `closeWhenDone` to its call. */
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
    numeric: "string", // amounts of money keep all digits in any JSON parser
  };
}

function scopeOf(client: Client, context: Context): Scope {
  return client.scope(tenantScope(context));
}

export function tenantScope({ tenant }: Pick<Context, "tenant">) {
  return { settings: { "app.tenant": tenant } };
}

/** Headers of each response with data. */
export const noStore = { "cache-control": "no-store, no-transform", "x-content-type-options": "nosniff" };
