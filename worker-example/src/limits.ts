/**
 * What a request may cost. These are constants, so that anyone who changes one reads the reason beside it. The driver
 * enforces the limits on results while it reads from PostgreSQL: a result over its cap is cancelled in PostgreSQL, not
 * only cut off here.
 */

/** Limits of one query of the SQL box. */
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

/** Maximum characters of SQL text. Typed text fits; a megabyte of text would only keep the parser busy. */
export const maxQueryLength = 65_536;

/** Limits of one request below /api. */
export const requests = {
  /** Rows of a page, if the client does not say how many. */
  page: 50,
  /** Maximum rows of a page: they are in memory together as JSON. A client that wants all rows uses the export. */
  maxPage: 1_000,
  /** Maximum bytes of a JSON body: an order has a few hundred. */
  bodyBytes: 16_384,
  /** Milliseconds for the whole request. */
  timeout: 10_000,
};

/** Limits of the summaries that a cache stores (cached.ts). */
export const summaries = {
  /** Seconds: how old an answer can be while nothing follows the commits. Otherwise a commit purges it at once. */
  maxAge: 600,
};

/** Limits of one export. */
export const exporting = {
  /** Rows: fifty times what the demo's larger tenant has. */
  maxRows: 1_000_000,
  /** Bytes before compression. None of them are held here. */
  maxBytes: 256 * 1024 * 1024,
  /** Milliseconds until a slow client has read all of it. */
  timeout: 120_000,
};

/** Limits of one import. */
export const importing = {
  /** Bytes of the file. Cloudflare itself takes 100 MB on most plans. */
  maxBytes: 64 * 1024 * 1024,
  /** Rows: what one transaction stores in a few seconds. */
  maxRows: 500_000,
  /** Milliseconds. A long transaction holds back what VACUUM may remove. */
  timeout: 60_000,
  /** Milliseconds between two lines of progress. */
  tellEvery: 200,
};

/** Limits of listening (fan-out.ts). Each tenant has its own object, so they apply per tenant. */
export const listening = {
  /** Concurrent clients. */
  clients: 1_000,
  /**
   * Characters queued for one client: hundreds of notifications. If all clients are slow, this takes half of a Worker's
   * 128 MB.
   */
  behind: 32_768,
  /** Milliseconds between two comments on a stream: proxies end a silent stream, often after a minute. */
  keepAlive: 15_000,
};

/** Limits of the feed (feed.ts). One object serves all tenants. */
export const feeding = {
  /** Concurrent clients, over all tenants. */
  clients: 1_000,
  /**
   * Lines kept for clients that reconnect: some hundred bytes each. A client that missed more reads the table again.
   */
  keep: 100_000,
  /**
   * Milliseconds between two comments on a stream, as above. A client that has read nothing between two comments is
   * disconnected.
   */
  keepAlive: 15_000,
  /** Milliseconds without a change or a client, after which the object sleeps, if it has read the server's log. */
  quiet: 30_000,
  /** Milliseconds until the object reads again. A slot without clients holds back the server's log for this long. */
  wake: 300_000,
};
