// Option `cache`: whether a cache between us and the server may answer, for one that goes by a query's text.
//
// Knows what Hyperdrive's documentation says of it (developers.cloudflare.com/hyperdrive/concepts/query-caching): it
// keeps no query whose text names a function that is not IMMUTABLE, also where that name stands in a comment. Must not
// know connections, nor whether there is a cache.
import { UsageError } from "../util/errors.ts";

/** Behind the text, on a line of its own, because the text may end with a comment. Positions in the text stay. */
const UNCACHED = "\n/* cache: false, by now() */";

/** By the words of the text, as that cache does, not as SQL is read. The functions of that page, and what else people ask that changes by itself or is another for each session. */
const NEVER_CACHED =
  /\b(?:(?:now|timeofday|random|lastval|currval|nextval|setval|txid_current|clock_timestamp|(?:statement|transaction)_timestamp|gen_random_uuid|uuidv[47]|current_setting|set_config)\s*\(|(?:current_(?:date|time|timestamp|user|role|schema)|session_user|localtime(?:stamp)?)\b)/i;

/** The texts that were warned of; no more than this many and none that is longer, since each text is kept. */
const MOST_WARNINGS = 100,
  LONGEST_WARNED = 10_000;
const warned = new Set<string>();

/** The text that is sent for option `cache`. */
export function forCache(text: string, cache: boolean): string {
  if (typeof cache !== "boolean") throw new UsageError("INVALID_OPTION", 'Option "cache" must be true or false.');
  // A statement that was prepared has it already.
  if (!cache) return text.endsWith(UNCACHED) ? text : text + UNCACHED;
  const found = NEVER_CACHED.exec(text)?.[0];
  if (found && text.length <= LONGEST_WARNED && warned.size < MOST_WARNINGS && !warned.has(text)) warn(text, found);
  return text;
}

function warn(text: string, found: string): void {
  warned.add(text);
  const name = found.replace(/\s*\($/, "()");
  // eslint-disable-next-line no-console -- a query that is never cached still works, so nothing else tells of it
  console.warn(`pgz-edge: cache: true, but Hyperdrive caches no query with ${name}: pass its value as a parameter.`);
}
