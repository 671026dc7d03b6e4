/** Bindings, variables and secrets: what wrangler.jsonc and `wrangler secret put` give. Must not know who uses them. */
export interface AuthEnv {
  /**
   * `{"acme":"…","globex":["…","…"]}`: `wrangler secret put TOKENS`. A tenant has several while one takes another's
   * place. `openssl rand -hex 32` makes a token.
   */
  TOKENS?: string;
}

export interface DatabaseEnv {
  /** PostgreSQL's own address, with the login of the objects: `wrangler secret put DATABASE_URL`. */
  DATABASE_URL: string;
}

export interface FeedEnv {
  FEED: DurableObjectNamespace;
  /** PostgreSQL's own address, with the login of changes.sql: `wrangler secret put CHANGES_URL`. Without: no feed. */
  CHANGES_URL?: string;
  /** The replication slot. Slots are the server's, not a database's. */
  CHANGES_SLOT?: string;
}

interface Hyperdrive {
  connectionString: string;
}

export interface Env extends AuthEnv, DatabaseEnv, FeedEnv {
  /** The role that may only read (the SQL box, `/users`). */
  HYPERDRIVE: Hyperdrive;
  /** The role of the routes below /api. */
  HYPERDRIVE_APP: Hyperdrive;
  /** The same role on a standby near the Worker, if there is one (standby.ts). */
  HYPERDRIVE_STANDBY?: Hyperdrive;
  DATABASE: DurableObjectNamespace;
}
