// The options of `cached`, and which calls it refuses.
//
// Knows names and what is refused. Must not know how a call is answered.
import { Client, Pool, Scope, UsageError, type QueryInput, type RespondOptions, type RowOptions } from "../index.ts";
import { isPlain } from "./names.ts";
import { LONGEST_TIMER, mayWait } from "./pause.ts";
import type { FillClosing, FillName, FillOpening, Opened, Remembered } from "./protocol.ts";
import { queueOf } from "./stamped.ts";

export type Awaitable<T> = T | Promise<T>;

/** An `Invalidator`, or what passes its calls on, such as the stub of a Durable Object. */
export interface CacheInvalidator {
  open(opening: FillOpening): Awaitable<Opened>;
  remember(learned: Remembered): Awaitable<void>;
  close(closing: FillClosing): Awaitable<void>;
  abandon(fill: FillName): Awaitable<void>;
}

/** Options of `cached`: those of `respond`, and its own. */
export interface CachedOptions extends Omit<RespondOptions, "status"> {
  /** Seconds for which the cache may serve the answer, unless a commit to what it has read comes before. */
  readonly maxAge: number;
  readonly invalidator: CacheInvalidator;
  /**
   * What the cache in front tells answers apart by, beside the URL: `ctx.props` on Workers. It is said once more here,
   * for answers that depend on who asks. Without it they are not stored, and a scope is refused.
   */
  readonly separatedBy?: Readonly<Record<string, unknown>> | undefined;
  /**
   * The header with the answer's tags, by which the cache purges. Cloudflare's is `Cache-Tag`, Fastly's
   * `Surrogate-Key`, Varnish's `xkey`. Default `"cache-tag"`.
   */
  readonly tagHeader?: "cache-tag" | "surrogate-key" | "xkey" | undefined;
  /** Milliseconds that the invalidator may take. If it takes longer, the answer is not stored. Default 1,000. */
  readonly invalidatorTimeout?: number | undefined;
}

/** The part of a `Request` that is read. */
export interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: { get(name: string): string | null };
}

/** Milliseconds. */
export const INVALIDATOR_TIMEOUT = 1_000;

/** What runs the query. */
export type Caller = Client | Pool | Scope;

/** Options that `respond` does not get: our own, and `closeWhenDone`, because cached() closes the client. */
export const OWN = [
  "maxAge",
  "invalidator",
  "separatedBy",
  "tagHeader",
  "invalidatorTimeout",
  "closeWhenDone",
] as const;
/** The options of rows, whose defaults are the client's. */
export const ROW_OPTIONS = Object.keys({
  ...{ maxRows: true, maxBytes: true, maxFieldBytes: true, onLimit: true },
  ...{ duplicates: true, columnNames: true, int8: true, numeric: true },
} satisfies Record<keyof RowOptions, true>) as readonly (keyof RowOptions)[];
const TAG_HEADERS = ["cache-tag", "surrogate-key", "xkey"] as const;
/**
 * The headers that the caller may give. Others may be read by a cache: each platform has some of its own, which store
 * an answer without its tags, or for longer.
 */
const HEADERS = (
  "content-type content-disposition content-language content-security-policy vary link " +
  "cross-origin-resource-policy timing-allow-origin server-timing x-content-type-options " +
  "referrer-policy permissions-policy strict-transport-security x-robots-tag"
).split(" ");

export function check(request: Asked, db: unknown, query: QueryInput, options: CachedOptions): void {
  if (typeof options !== "object" || options === null) throw refusal("cached() takes its options last.");
  const { method, url, headers } = Object(request) as Asked;
  const {
    maxAge,
    invalidator,
    invalidatorTimeout = INVALIDATOR_TIMEOUT,
    separatedBy,
    tagHeader = "cache-tag",
  } = options;
  if (!(db instanceof Client || db instanceof Pool || db instanceof Scope))
    throw refusal("cached() takes the request, then a client, a pool or a scope: not a transaction or lease.");
  if (queueOf(db).config.host.endsWith(".hyperdrive.local"))
    throw refusal("cached() cannot see what Hyperdrive answers from its own cache: connect to the server itself.");
  if (typeof method !== "string" || typeof url !== "string" || typeof headers?.get !== "function")
    throw refusal("cached() takes a Request, or { method, url, headers } whose headers have get().");
  if (method !== "GET" && method !== "HEAD") throw refusal(`cached() is for GET and HEAD, not for ${method}.`);
  const { text, values } = Object(query) as Exclude<QueryInput, string>;
  if (typeof query !== "string" && (typeof text !== "string" || !Array.isArray(values ?? [])))
    throw new UsageError("INVALID_QUERY", "A query is sql`…`, text, or an object with text and an array of values.");
  if (!Number.isSafeInteger(maxAge) || maxAge < 1) throw refusal('Option "maxAge" must be whole seconds, at least 1.');
  if (typeof invalidator?.open !== "function") throw refusal('Option "invalidator" must be an invalidator.');
  if (!mayWait(invalidatorTimeout))
    throw refusal(`Option "invalidatorTimeout" must be whole milliseconds, from 1 to ${LONGEST_TIMER}.`);
  if ("status" in options) throw refusal('Option "status" of respond() is 200 or 304 here: leave it out.');
  if (!TAG_HEADERS.includes(tagHeader)) throw refusal(`Option "tagHeader" must be one of ${TAG_HEADERS.join(", ")}.`);
  checkSeparation(db, separatedBy);
  // Those of `Access-Control-` are for browsers.
  const given = headersOf(options.headers);
  const other = [...given.keys()].find((name) => !HEADERS.includes(name) && !name.startsWith("access-control-"));
  if (other !== undefined)
    throw refusal(`cached() does not take the header ${other}: set it on the response, if no cache reads it.`);
}

/** An empty object separates nothing: it is what `ctx.props` is by default. */
function checkSeparation(db: Caller, separatedBy: unknown): void {
  if (separatedBy === undefined) {
    if (db instanceof Scope)
      throw refusal('In a scope, option "separatedBy" must say what the cache tells tenants apart by.');
    return;
  }
  if (!isPlain(separatedBy))
    throw refusal('Option "separatedBy" must have texts, numbers, true, false, and plain objects and lists of these.');
  if (typeof separatedBy !== "object" || Array.isArray(separatedBy) || !hasValue(separatedBy))
    throw refusal(
      'Option "separatedBy" must be an object with what the cache tells answers apart by, such as ctx.props.',
    );
}

/** Whether anything in it is neither empty nor missing. */
function hasValue(plain: unknown): boolean {
  if (typeof plain === "object" && plain !== null) return Object.values(plain).some(hasValue);
  return plain !== undefined && plain !== null && plain !== "";
}

function headersOf(given: unknown): Headers {
  try {
    return new Headers(given as HeadersInit | undefined);
  } catch (cause) {
    const text = 'Option "headers" has a name or value that HTTP does not allow.';
    throw new UsageError("INVALID_OPTION", text, { cause });
  }
}

const refusal = (text: string) => new UsageError("INVALID_OPTION", text);
