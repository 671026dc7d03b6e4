// Option `cache`: whether a cache between the driver and the server may answer, if the cache is keyed by a query's
// text.
//
// Knows what Hyperdrive's documentation says of that (developers.cloudflare.com/hyperdrive/concepts/query-caching):
// Hyperdrive caches no query whose text names a function that is not IMMUTABLE, also if the name is in a comment. Must
// not know connections, nor whether there is a cache.
import { UsageError } from "../util/errors.ts";

/**
 * Added after the text, on its own line because the text may end with a comment. Positions in the text stay the same.
 */
const UNCACHED = "\n/* cache: false, by now() */";

/**
 * Matches words of the text, as that cache does, instead of reading SQL. Names the functions of that page, and others
 * in common use whose results change by themselves or differ between sessions.
 */
const NEVER_CACHED =
  /\b(?:(?:now|timeofday|random|lastval|currval|nextval|setval|txid_current|clock_timestamp|(?:statement|transaction)_timestamp|gen_random_uuid|uuidv[47]|current_setting|set_config)\s*\(|(?:current_(?:date|time|timestamp|user|role|schema)|session_user|localtime(?:stamp)?)\b)/i;

/** Bounds of the texts that were warned of, because each text is kept: their number, and the length of one. */
const MOST_WARNINGS = 100,
  LONGEST_WARNED = 10_000;
const warned = new Set<string>();

/** The text that is sent for option `cache`. */
export function forCache(text: string, cache: boolean): string {
  if (typeof cache !== "boolean") throw new UsageError("INVALID_OPTION", 'Option "cache" must be true or false.');
  // The text of a prepared statement has it already.
  if (!cache) return text.endsWith(UNCACHED) ? text : text + UNCACHED;
  const found = NEVER_CACHED.exec(text)?.[0];
  if (found && text.length <= LONGEST_WARNED && warned.size < MOST_WARNINGS && !warned.has(text)) warn(text, found);
  return text;
}

function warn(text: string, found: string): void {
  warned.add(text);
  const name = found.replace(/\s*\($/, "()");
  // eslint-disable-next-line no-console -- a query that is never cached still works, so nothing else reports it
  console.warn(`pgz-edge: cache: true, but Hyperdrive caches no query with ${name}: pass its value as a parameter.`);
}
