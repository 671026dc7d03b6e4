/**
 * Bindings, variables and secrets, as wrangler.jsonc and `wrangler secret put` provide them. Must not know which code
 * uses them.
 */
import type { CacheInvalidator } from "pgz-edge/cache";

export interface AuthEnv {
  /**
   * `{"acme":"…","globex":["…","…"]}`: `wrangler secret put TOKENS`. A tenant has several tokens while one replaces
   * another. `openssl rand -hex 32` makes a token.
   */
  TOKENS?: string;
}

export interface DatabaseEnv {
  /** PostgreSQL's own address, with the login of the objects: `wrangler secret put DATABASE_URL`. */
  DATABASE_URL: string;
}

export interface FeedEnv {
  FEED: DurableObjectNamespace;
  /**
   * PostgreSQL's own address, with the login of changes.sql: `wrangler secret put CHANGES_URL`. If unset, there is no
   * feed.
   */
  CHANGES_URL?: string;
  /** The name of the replication slot. Slots belong to the server, not to a database. */
  CHANGES_SLOT?: string;
}

export interface CacheEnv extends DatabaseEnv, Pick<FeedEnv, "CHANGES_URL"> {
  INVALIDATIONS: { getByName(name: string): CacheInvalidator };
  /** The name of the cache's replication slot. */
  CACHE_SLOT?: string;
}

/** What the cache in front of `Summary` tells answers apart by. */
export interface TenantProps {
  readonly tenant: string;
}

/** The Worker's own entrypoints, as `ctx.exports` has them. */
export interface Exports {
  readonly Summary: SummaryStub & ((options: { props: TenantProps }) => SummaryStub);
}

interface SummaryStub {
  fetch(request: Request): Promise<Response>;
  purge(tags: readonly string[]): Promise<unknown>;
}

interface Hyperdrive {
  connectionString: string;
}

export interface Env extends AuthEnv, DatabaseEnv, FeedEnv, CacheEnv {
  /** The read-only role (the SQL box, `/users`). */
  HYPERDRIVE: Hyperdrive;
  /** The role of the routes below /api. */
  HYPERDRIVE_APP: Hyperdrive;
  /** The same role on a standby near the Worker, if there is one (standby.ts). */
  HYPERDRIVE_STANDBY?: Hyperdrive;
  DATABASE: DurableObjectNamespace;
}
