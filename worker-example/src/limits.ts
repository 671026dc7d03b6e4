/**
 * What one visitor of the SQL page may cost. Constants, not settings: whoever changes one reads the reason beside it.
 * The driver enforces all three while it reads from PostgreSQL, so a result over its cap is cancelled there, not only cut here.
 */
export const limits = {
  /** Rows: five times the demo's table. A larger answer to a hand-typed query is a forgotten `limit` or a cross join. */
  maxRows: 1_000_000,
  /** Bytes of NDJSON: what a browser tab can receive in a few seconds. The Worker holds none of it; the cap bounds egress. */
  maxBytes: 256 * 1024 * 1024,
  /** Milliseconds from the query to its last row. Long enough for a full scan over a slow line, short enough that an idle tab frees its connection. */
  timeout: 60_000,
};

/** Characters of SQL text. What a person types fits; a megabyte of text is a way to keep the parser busy. */
export const maxQueryLength = 65_536;
