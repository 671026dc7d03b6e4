/**
 * What one query of the SQL page may cost. These are constants, so that whoever changes one reads the reason beside it.
 * The driver enforces them while it reads from PostgreSQL, so a result over its cap is cancelled there, not only cut
 * here.
 */
export const limits = {
  /** Rows: five times the demo's table. More rows for a typed query mean a forgotten `limit` or a cross join. */
  maxRows: 1_000_000,
  /** Bytes of NDJSON: what a browser tab receives in a few seconds. It bounds egress; the Worker holds none of it. */
  maxBytes: 256 * 1024 * 1024,
  /**
   * Milliseconds from the query to its last row: enough for a full scan over a slow line, and short enough that an idle
   * tab frees its connection.
   */
  timeout: 60_000,
};

/** What listening may cost (fan-out.ts). */
export const listening = {
  /** A channel has no owner in PostgreSQL: whoever may connect may listen. So the Worker says which ones. */
  channels: ["users"],
  /** Clients at a time, of all channels. */
  clients: 1_000,
  /**
   * Characters that wait for one client: hundreds of notifications. With all clients slow, half of a Worker's 128 MB.
   */
  behind: 32_768,
  /** Milliseconds between two comments on a stream: proxies end one that is silent, often after a minute. */
  keepAlive: 15_000,
};

/** Characters of SQL text. Typed text fits; a megabyte of text would only keep the parser busy. */
export const maxQueryLength = 65_536;
