// The arguments of `drizzle(…)`, for both releases of drizzle-orm: an object that runs queries, or a target for which
// a pool is made.
//
// Knows the forms of the arguments. Must not know how a database is made.
import { createPool, UsageError, type Pool, type PoolInput } from "../../index.ts";
import type { PgzClient } from "./runner.ts";

/** A target for which `drizzle` makes a pool: a connection string, a URL, or a binding such as Hyperdrive's. */
type Target = string | { readonly href: string } | { readonly connectionString: string };

/** The arguments of `drizzle`. `Config` is Drizzle's, which differs between its releases. */
export type InputOf<Config, TClient extends PgzClient> =
  | [client: TClient | Target]
  | [client: TClient | Target, config: Config]
  | [config: Config & ({ client: TClient } | { connection: PoolInput })];

/** Returns the object that runs the queries, and Drizzle's options. */
export function clientAndConfig<Config>(
  first: unknown,
  second: Config | undefined,
): [client: PgzClient | Pool, config: Config | undefined] {
  if (isClient(first)) return [first, second];
  if (isTarget(first)) return [createPool(first), second];
  const { client, connection, ...config } = Object(first) as { client?: PgzClient; connection?: PoolInput };
  if (client) return [client, config as Config];
  if (connection !== undefined) return [createPool(connection), config as Config];
  throw new UsageError("INVALID_OPTION", "drizzle needs a client or a pool: drizzle(createPool(url), { … }).");
}

function isTarget(given: unknown): given is Target {
  const { href, connectionString } = Object(given) as { href?: unknown; connectionString?: unknown };
  return [given, href, connectionString].some((one) => typeof one === "string");
}

const isClient = (given: unknown): given is PgzClient =>
  typeof (Object(given) as { query?: unknown }).query === "function";
