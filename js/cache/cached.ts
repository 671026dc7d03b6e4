// `cached(request, db, query, options)`: rows as a Response that a cache in front may store, until a commit purges it.
//
// Knows HTTP, and the order of the questions to the database and to the invalidator. Must not know what makes an answer
// too old (fence.ts), or which relations a statement reads (learn.ts).
//
//   invalidator   open ──── known ─┐                        close
//   database      moment, query ───┴─ headers ── body ── end ─┘
//
// Both are asked at once. Headers that let a cache store the answer leave only when both have answered. A statement
// that the invalidator does not know is learned before it runs, so one that writes or locks never runs. (Its functions
// may write.)
import { Client, Pool, UsageError, type Lease, type QueryInput, type RespondOptions } from "../index.ts";
import { withDeadline } from "../util/deadline.ts";
import type { Dependency } from "./dependencies.ts";
import type { FillClosing, FillOpening, Opened } from "./invalidator.ts";
import { hasTimeWords, learn, MOMENT, type Moment } from "./learn.ts";
import { EVERYTHING, tagOf } from "./tags.ts";

type Awaitable<T> = T | Promise<T>;

/** An `Invalidator`, or what passes its calls on, such as the stub of a Durable Object. */
export interface CacheInvalidator {
  open(opening: FillOpening): Awaitable<Opened>;
  learn(dependency: Dependency): Awaitable<void>;
  close(closing: FillClosing): Awaitable<void>;
  abandon(id: string): Awaitable<void>;
}

/** Options of `cached`: those of `respond`, and its own. */
export interface CachedOptions extends Omit<RespondOptions, "status" | "closeWhenDone"> {
  /** Seconds for which the cache may serve the answer, unless a commit to what it has read comes before. */
  readonly maxAge: number;
  readonly invalidator: CacheInvalidator;
  /** The publication that the invalidator follows. */
  readonly publication: string;
  /**
   * The header with the answer's tags, by which the cache purges. Cloudflare's is `Cache-Tag`, Fastly's
   * `Surrogate-Key`, Varnish's `xkey`. Default `"cache-tag"`.
   */
  readonly tagHeader?: "cache-tag" | "surrogate-key" | "xkey" | undefined;
  /** Milliseconds that the invalidator may take. If it takes longer, the answer is not stored. Default 1,000. */
  readonly openTimeout?: number | undefined;
}

/** The part of a `Request` that is read. */
interface Asked {
  readonly method: string;
}

const NOT_OF_RESPOND = {
  ...{ maxAge: undefined, invalidator: undefined, publication: undefined },
  ...{ tagHeader: undefined, openTimeout: undefined },
};
const OPEN_TIMEOUT = 1_000;
/** Milliseconds for which a statement is not learned again. What was learned may not count yet (fence.ts). */
const LEARN_PAUSE = 10_000;
/** Statements of an isolate of which it is known when they were learned last. */
const MOST_KNOWN = 10_000;
export const STAMP = `select ${MOMENT}`;
const TAG_HEADERS = ["cache-tag", "surrogate-key", "xkey"] as const;
/** RFC 9213: the lifetime for the cache in front. Browsers have that of RFC 9111: nothing purges them. */
const LIFETIME = "cdn-cache-control";
/** They would let an answer be stored that must not be, or be served to others. */
const OWN_HEADERS = ["cache-control", "cache-status", "cloudflare-cdn-cache-control", "etag", "set-cookie", LIFETIME];

/**
 * The rows as `respond` sends them, with headers that let the cache in front of this program store them for `maxAge`
 * seconds. The invalidator purges them there when a commit changes what they were read from.
 *
 * An answer that could change without such a commit is sent with `Cache-Control: no-store`, and the header
 * `Cache-Status` says why.
 *
 * @throws UsageError `INVALID_QUERY` for a statement that writes or locks; `INVALID_OPTION` for a request other than
 * GET and HEAD, for a transaction, scope or lease, and for headers that it makes itself; otherwise as `respond`
 *
 * @example
 * return await cached(request, db, sql`select id, name, price from products where category = ${category}`, {
 *   maxAge: 3_600, publication: "cache", invalidator: env.INVALIDATOR, signal: request.signal,
 * });
 */
export async function cached(
  request: Asked,
  db: Client | Pool,
  query: QueryInput,
  options: CachedOptions,
): Promise<Response> {
  check(request, db, options);
  const response = await new Fill(db, query, options).respond();
  if (request.method !== "HEAD") return response;
  await response.body!.cancel();
  return new Response(null, response);
}

function check(request: Asked, db: unknown, options: CachedOptions): void {
  const { maxAge, invalidator, publication, tagHeader = "cache-tag" } = options;
  const { method } = request;
  if (!(db instanceof Client || db instanceof Pool))
    throw refusal("cached() takes the request, then a client or a pool: not a transaction, scope or lease.");
  if (method !== "GET" && method !== "HEAD") throw refusal(`cached() is for GET and HEAD, not for ${method}.`);
  if (!Number.isSafeInteger(maxAge) || maxAge < 1) throw refusal('Option "maxAge" must be whole seconds, at least 1.');
  if (typeof invalidator?.open !== "function") throw refusal('Option "invalidator" must be an invalidator.');
  if (typeof publication !== "string") throw refusal('Option "publication" must be the name of a publication.');
  if (!TAG_HEADERS.includes(tagHeader)) throw refusal(`Option "tagHeader" must be one of ${TAG_HEADERS.join(", ")}.`);
  const headers = new Headers(options.headers as HeadersInit | undefined);
  const made = [...OWN_HEADERS, ...TAG_HEADERS].find((name) => headers.has(name));
  if (made !== undefined) throw refusal(`cached() does not take the header ${made}.`);
}

const refusal = (text: string) => new UsageError("INVALID_OPTION", text);

/**
 * By publication and statement: when this isolate last learned it. One that is not here may be one that writes, so it
 * does not run before the invalidator has said that it knows it.
 */
const learnedAt = new Map<string, number>();

/** What an invalidator says that has not answered in time. */
const LATE = { refusal: "late" } as const;
type Known = Opened | typeof LATE;

/** One run of a query whose answer a cache may store. */
class Fill {
  readonly #db: Client | Pool;
  readonly #query: QueryInput;
  readonly #options: CachedOptions;
  readonly #invalidator: CacheInvalidator;
  readonly #statement: string;
  readonly #opening: FillOpening;
  /** Its key in {@link learnedAt}. */
  readonly #key: string;

  constructor(db: Client | Pool, query: QueryInput, options: CachedOptions) {
    this.#db = db;
    this.#query = query;
    this.#options = options;
    this.#invalidator = options.invalidator;
    this.#statement = typeof query === "string" ? query : query.text;
    this.#opening = { id: crypto.randomUUID(), statement: this.#statement, maxAge: options.maxAge * 1_000 };
    this.#key = `${options.publication}\n${this.#statement}`;
  }

  async respond(): Promise<Response> {
    let opening = this.#open();
    let lease: Lease | undefined;
    try {
      if (!learnedAt.has(this.#key) && !("known" in (await opening))) {
        await this.#learn();
        opening = this.#open();
      }
      if (this.#db instanceof Pool) lease = await this.#db.acquire({ signal: this.#options.signal });
      return await this.#run(opening, lease ?? (this.#db as Client), lease);
    } catch (error) {
      await this.#abandon();
      await lease?.release();
      throw error;
    }
  }

  async #run(opening: Promise<Known>, client: Client | Lease, lease: Lease | undefined): Promise<Response> {
    // The first before the second, so that its snapshot is not newer. A stream waits for the calls before it.
    const { signal, timeout } = this.#options;
    const stamp = client.query<Moment>({ text: STAMP, values: [] }, { signal, timeout });
    const answer = client.respond(this.#query, { ...this.#options, ...NOT_OF_RESPOND });
    const [known, stamped, response] = await Promise.allSettled([opening, stamp, answer]);
    if (response.status === "rejected") throw response.reason;
    const moment = stamped.status === "fulfilled" ? stamped.value.rows[0] : undefined;
    const verdict = judged((known as PromiseFulfilledResult<Known>).value, moment, valuesOf(this.#query));
    const isStored = typeof verdict !== "string";
    const headers = isStored ? this.#storing(verdict) : notStoring(verdict);
    for (const [name, value] of response.value.headers) headers[name] ??= value;
    const body = watched(response.value.body!, async () => {
      await lease?.release();
      await (isStored ? this.#close(verdict, moment!) : this.#notStored(verdict));
    });
    // As in a response of `respond`.
    const encoding = response.value.headers.has("content-encoding") && { encodeBody: "manual" };
    return new Response(body as BodyInit, { headers, ...encoding } as ResponseInit);
  }

  #storing({ tags }: Dependency): Record<string, string> {
    const { maxAge, tagHeader = "cache-tag" } = this.#options;
    return {
      "cache-control": "max-age=0, must-revalidate",
      [LIFETIME]: `max-age=${maxAge}`,
      [tagHeader]: [...tags, EVERYTHING].join(tagHeader === "cache-tag" ? "," : " "),
    };
  }

  /** Never rejects. An invalidator that is late, or fails, counts as one that refuses. */
  async #open(): Promise<Known> {
    const asked = within(this.#timeout, async () => await this.#invalidator.open(this.#opening));
    return (await asked) ?? LATE;
  }

  async #close(dependency: Dependency, { snapshot, isStandby }: Moment): Promise<void> {
    const { id, maxAge } = this.#opening;
    const closing = { id, dependency, snapshot, isStandby, maxAge };
    await within(this.#timeout, async () => await this.#invalidator.close(closing));
  }

  async #abandon(): Promise<void> {
    await within(this.#timeout, async () => await this.#invalidator.abandon(this.#opening.id));
  }

  /** Learns the statement for the next call, if that may help. */
  async #notStored(why: string): Promise<void> {
    await this.#abandon();
    const isDue = performance.now() - (learnedAt.get(this.#key) ?? -Infinity) > LEARN_PAUSE;
    if (why === NOT_LEARNED && isDue) await this.#learn().catch(() => {});
  }

  async #learn(): Promise<void> {
    const { publication, signal } = this.#options;
    const query = { text: this.#statement };
    const { relations, ...learned } = await learn(this.#db, query, { publication, signal });
    if (learnedAt.size >= MOST_KNOWN) learnedAt.clear();
    learnedAt.set(this.#key, performance.now());
    const dependency = { statement: this.#statement, tags: relations.map(tagOf), ...learned };
    await within(this.#timeout, async () => await this.#invalidator.learn(dependency));
  }

  get #timeout(): number {
    return this.#options.openTimeout ?? OPEN_TIMEOUT;
  }
}

/** Waits at most this long. Returns undefined if there is no result, or an error, by then. */
async function within<T>(milliseconds: number, work: () => Promise<T>): Promise<T | undefined> {
  let result: T | undefined;
  const done = work().then(
    (value) => void (result = value),
    () => {},
  );
  await withDeadline(milliseconds, done);
  return result;
}

// -- judging ----------------------------------------------------------------------------------------------------------

const NOT_LEARNED = "what the statement reads is not known yet";
const REFUSALS: Readonly<Record<string, string>> = {
  unknown: NOT_LEARNED,
  full: "the invalidator has too many answers that have not ended",
  behind: "the invalidator is behind the database",
  down: "the invalidator does not follow the database",
  late: "the invalidator has not answered",
};

/** What the answer depends on, or why it must not be stored. */
function judged(known: Known, moment: Moment | undefined, values: readonly unknown[]): Dependency | string {
  if ("refusal" in known) return REFUSALS[known.refusal] ?? known.refusal;
  if (!moment) return "the snapshot of the query is not known";
  const dependency = known.known.find(({ fingerprint }) => fingerprint === moment.fingerprint);
  if (!dependency) return NOT_LEARNED;
  // The cache has one answer for all of them.
  if (known.known.length > 1) return "it runs with several roles or settings";
  if (dependency.reasons.length) return dependency.reasons.join("; ");
  if (dependency.isPersonal) return "it depends on who asks";
  if (values.some(hasTimeWords)) return "a parameter may be the present time";
  return dependency;
}

const valuesOf = (query: QueryInput): readonly unknown[] => (typeof query === "string" ? [] : query.values);

/** RFC 9211. */
const notStoring = (why: string): Record<string, string> => ({
  "cache-control": "no-store",
  "cache-status": `pgz-edge; fwd=bypass; detail="${why.replaceAll(/[^ !#-[\]-~]/g, "'")}"`,
});

// -- the body ---------------------------------------------------------------------------------------------------------

/** The same bytes. `end` is called once, after the last of them, or when no more are wanted; the end waits for it. */
function watched(bytes: ReadableStream<Uint8Array>, end: () => Promise<void>): ReadableStream<Uint8Array> {
  const reader = bytes.getReader();
  let ended: Promise<void> | undefined;
  const endOnce = () => (ended ??= end()); // cancelling ends a read that is pending
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
        } catch (error) {
          await endOnce();
          throw error;
        }
        await endOnce();
        controller.close();
      },
      async cancel(reason) {
        await reader.cancel(reason).catch(() => {});
        await endOnce();
      },
    },
    { highWaterMark: 0 },
  );
}
