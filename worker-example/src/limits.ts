/**
 * What a request may cost. These are constants, so that whoever changes one reads the reason beside it. The driver
 * enforces those on results while it reads from PostgreSQL, so a result over its cap is cancelled there, not only cut
 * here.
 */

/** One query of the SQL box. */
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

/** Characters of SQL text. Typed text fits; a megabyte of text would only keep the parser busy. */
export const maxQueryLength = 65_536;

/** One request below /api. */
export const requests = {
  /** Rows of a page, unless the client asks for fewer or more. */
  page: 50,
  /** Rows of a page at most: as JSON they are in memory together. Who wants all of them asks for the export. */
  maxPage: 1_000,
  /** Bytes of a JSON body: an order is a few hundred. */
  bodyBytes: 16_384,
  /** Milliseconds for all of it. */
  timeout: 10_000,
};

/** One export. */
export const exporting = {
  /** Rows: fifty times what the demo's larger tenant has. */
  maxRows: 1_000_000,
  /** Bytes before they are compressed. None of it is held here. */
  maxBytes: 256 * 1024 * 1024,
  /** Milliseconds: until a slow client has read all of it. */
  timeout: 120_000,
};

/** One import. */
export const importing = {
  /** Bytes of the file. Cloudflare itself takes 100 MB on most plans. */
  maxBytes: 64 * 1024 * 1024,
  /** Rows: what one transaction stores in some seconds. */
  maxRows: 500_000,
  /** Milliseconds: a transaction that is open for long holds back what VACUUM may remove. */
  timeout: 60_000,
  /** Milliseconds between two lines that tell how far it has come. */
  tellEvery: 200,
};

/** What listening may cost (fan-out.ts). Each tenant has an object, so these are a tenant's. */
export const listening = {
  /** Clients at a time. */
  clients: 1_000,
  /**
   * Characters that wait for one client: hundreds of notifications. With all clients slow, half of a Worker's 128 MB.
   */
  behind: 32_768,
  /** Milliseconds between two comments on a stream: proxies end one that is silent, often after a minute. */
  keepAlive: 15_000,
};

/** What the feed may cost (feed.ts). One object keeps it for all tenants. */
export const feeding = {
  /** Clients at a time, of all tenants. */
  clients: 1_000,
  /** Lines that are kept for clients that come back: some hundred bytes each. Beyond that they read the table again. */
  keep: 100_000,
  /** Milliseconds between two comments on a stream, as above. One that takes nothing between two of them is ended. */
  keepAlive: 15_000,
  /** Milliseconds without a change and a client, behind which PostgreSQL is read no more, and the object sleeps. */
  quiet: 30_000,
  /** Milliseconds until it looks again: for so long a slot without clients holds back the server's log. */
  wake: 300_000,
};
