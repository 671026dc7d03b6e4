// `cached(request, db, query, options)`: rows as a Response that a cache in front may store, until a commit purges it.
//
// Knows HTTP, and the order of the questions to the database and to the invalidator. Must not know what makes an answer
// too old (fence.ts), or which relations a statement reads (learn.ts).
//
//   invalidator   open ──── opened ─┐                     ┌─ close
//   database      moment, query ────┴─ headers ── body ── end
//
// Both are asked at once. Headers that let a cache store the answer leave only when both have answered, and the moment
// is the one that the invalidator was told. A statement that neither the isolate nor the invalidator knows is learned
// before it runs, so one that writes or locks never runs. (Its functions may write.)
//
// `close` follows the end of the body, so what `settle` is counted from is never too early. If it is lost, the fill
// ends by itself after `maxFill`; a body that takes longer than that breaks off, so that no cache stores it.
import { asBody, Client, Pool, runtime, Scope, TimeoutError, UsageError } from "../index.ts";
import type { QueryInput, RespondOptions } from "../index.ts";
import { withDeadline } from "../util/deadline.ts";
import type { Dependency } from "./dependencies.ts";
import type { Admitted, FillClosing, FillOpening, Opened, Refusal } from "./invalidator.ts";
import { hasTimeWords, learn } from "./learn.ts";
import { STAMP, type Moment } from "./moment.ts";
import { rowsOf } from "./question.ts";
import { queueOf, Stamped } from "./stamped.ts";
import { EVERYTHING, tagOf } from "./tags.ts";

type Awaitable<T> = T | Promise<T>;

/** An `Invalidator`, or what passes its calls on, such as the stub of a Durable Object. */
export interface CacheInvalidator {
  open(opening: FillOpening): Awaitable<Opened>;
  learn(life: string, dependency: Dependency): Awaitable<void>;
  close(closing: FillClosing): Awaitable<void>;
  abandon(life: string, id: string): Awaitable<void>;
}

/** Options of `cached`: those of `respond`, and its own. */
export interface CachedOptions extends Omit<RespondOptions, "status"> {
  /** Seconds for which the cache may serve the answer, unless a commit to what it has read comes before. */
  readonly maxAge: number;
  readonly invalidator: CacheInvalidator;
  /** The publication that the invalidator follows. */
  readonly publication: string;
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
  readonly openTimeout?: number | undefined;
}

/** The part of a `Request` that is read. */
interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: { get(name: string): string | null };
}

const NOT_OF_RESPOND = {
  ...{ maxAge: undefined, invalidator: undefined, publication: undefined, separatedBy: undefined },
  ...{ tagHeader: undefined, openTimeout: undefined, closeWhenDone: undefined },
};
const OPEN_TIMEOUT = 1_000;
/** Milliseconds for which a statement is not learned again. What was learned may not count yet (fence.ts). */
const LEARN_PAUSE = 10_000;
/** Statements of an isolate of which it is known when they were learned last. */
const MOST_KNOWN = 10_000;
const TAG_HEADERS = ["cache-tag", "surrogate-key", "xkey"] as const;
/** RFC 9213: the lifetime for the cache in front. Browsers have that of RFC 9111: nothing purges them. */
const LIFETIME = "cdn-cache-control";
/**
 * The headers that the caller may give. Others may be read by a cache: each platform has some of its own, which store
 * an answer without its tags, or for longer.
 */
const HEADERS = [
  ...["content-type", "content-disposition", "content-language", "content-security-policy", "vary", "link"],
  ...["cross-origin-resource-policy", "timing-allow-origin", "server-timing", "x-content-type-options"],
  ...["referrer-policy", "permissions-policy", "strict-transport-security", "x-robots-tag"],
];

/**
 * The rows as `respond` sends them, with headers that let the cache in front of this program store them for `maxAge`
 * seconds. The invalidator purges them there when a commit changes what they were read from.
 *
 * A request with `If-None-Match` is answered 304, without a query, if the invalidator knows that the answer is up to
 * date.
 *
 * An answer that could change without such a commit is sent with `Cache-Control: no-store`, and the header
 * `Cache-Status` says why.
 *
 * @throws UsageError `INVALID_QUERY` for a statement that writes or locks; `INVALID_OPTION` for a request other than
 * GET and HEAD, for a transaction or lease, for a scope without `separatedBy`, for Hyperdrive, which has a cache of its
 * own, and for headers that it makes itself; otherwise as `respond`
 *
 * @example
 * return await cached(request, db, sql`select id, name, price from products where category = ${category}`, {
 *   maxAge: 3_600, publication: "cache", invalidator: env.INVALIDATOR, signal: request.signal,
 * });
 */
export async function cached(request: Asked, db: Caller, query: QueryInput, options: CachedOptions): Promise<Response> {
  try {
    check(request, db, options);
  } catch (error) {
    // As `respond`: a caller that sets it does not close the client anywhere else.
    if (options.closeWhenDone) runtime().background(Promise.resolve((db as Partial<Client> | undefined)?.close?.()));
    throw error;
  }
  const response = await new Fill(request, db, query, options).respond();
  if (request.method !== "HEAD" || !response.body) return response;
  await response.body.cancel();
  return new Response(null, response);
}

function check({ method, url, headers }: Asked, db: unknown, options: CachedOptions): void {
  const { maxAge, invalidator, publication, separatedBy, tagHeader = "cache-tag" } = options;
  if (!(db instanceof Client || db instanceof Pool || db instanceof Scope))
    throw refusal("cached() takes the request, then a client, a pool or a scope: not a transaction or lease.");
  if (queueOf(db).config.host.endsWith(".hyperdrive.local"))
    throw refusal("cached() cannot see what Hyperdrive answers from its own cache: connect to the server itself.");
  if (method !== "GET" && method !== "HEAD") throw refusal(`cached() is for GET and HEAD, not for ${method}.`);
  if (typeof url !== "string" || typeof headers?.get !== "function")
    throw refusal("cached() takes a Request, or { method, url, headers } whose headers have get().");
  if (!Number.isSafeInteger(maxAge) || maxAge < 1) throw refusal('Option "maxAge" must be whole seconds, at least 1.');
  if (typeof invalidator?.open !== "function") throw refusal('Option "invalidator" must be an invalidator.');
  if (typeof publication !== "string") throw refusal('Option "publication" must be the name of a publication.');
  if (!TAG_HEADERS.includes(tagHeader)) throw refusal(`Option "tagHeader" must be one of ${TAG_HEADERS.join(", ")}.`);
  checkSeparation(db, separatedBy);
  // Those of `Access-Control-` are for browsers.
  const given = new Headers(options.headers as HeadersInit | undefined);
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
  const isObject = typeof separatedBy === "object" && separatedBy !== null;
  if (!isObject || !Object.values(separatedBy).some((value) => value !== undefined && value !== null))
    throw refusal(
      'Option "separatedBy" must be an object with what the cache tells answers apart by, such as ctx.props.',
    );
}

const refusal = (text: string) => new UsageError("INVALID_OPTION", text);

// -- what an isolate knows --------------------------------------------------------------------------------------------

/** By server, user, settings and `separatedBy`: where the last query has run. A guess, which the moment confirms. */
const places = new Map<string, Place>();
const MOST_PLACES = 1_000;

/**
 * By publication and statement: when this isolate last learned it. One that is not here may be one that writes, so it
 * does not run before the invalidator has said that it knows it.
 */
const learnedAt = new Map<string, number>();
/** What is being learned, by the same key: one of many calls does it. */
const learning = new Map<string, Promise<void>>();

/** Why an answer must not be stored; `late`: the invalidator has not answered in time. */
type Why = Refusal | "late";
type Known = Admitted | { readonly refusal: Why; readonly reason?: string; readonly life?: string };
type Place = Pick<Moment, "fingerprint" | "log">;
type Caller = Client | Pool | Scope;

// -- one answer -------------------------------------------------------------------------------------------------------

/** One run of a query whose answer a cache may store. */
class Fill {
  readonly #request: Asked;
  readonly #db: Caller;
  readonly #query: QueryInput;
  readonly #options: CachedOptions;
  readonly #statement: string;
  /** Its key in {@link learnedAt}. */
  readonly #key: string;
  /** As text, in one order of its names. */
  readonly #separation: string;
  /** The key in {@link places}. */
  readonly #placeKey: string;
  /** The ids in the request's If-None-Match. */
  readonly #validators: readonly string[];
  #id = "";
  /** Before the invalidator was asked: it counts `maxFill` from a later time. */
  #openedAt = 0;
  /** What it says, however late. */
  #answer: Promise<Opened> | undefined;
  /** The statement is to be learned when the body has ended: a client runs nothing before that. */
  #mustLearn = false;

  constructor(request: Asked, db: Caller, query: QueryInput, options: CachedOptions) {
    this.#request = request;
    this.#db = db;
    this.#query = query;
    this.#options = options;
    this.#statement = typeof query === "string" ? query : query.text;
    this.#key = `${options.publication}\n${this.#statement}`;
    this.#validators = idsIn(request.headers.get("if-none-match") ?? "");
    this.#separation = options.separatedBy ? JSON.stringify(Object.entries(options.separatedBy).sort(), asText) : "";
    const { host, port, database, user, options: settings } = queueOf(db).config;
    this.#placeKey = JSON.stringify([host, port, database, user, settings, this.#separation]);
  }

  async respond(): Promise<Response> {
    let opening: Promise<Known>;
    try {
      const place = places.get(this.#placeKey) ?? (await this.#firstPlace());
      opening = this.#open(place);
      if (!learnedAt.has(this.#key)) {
        const known = await opening;
        if ("refusal" in known && MAY_BE_UNKNOWN.has(known.refusal)) {
          await this.#learn(known.life);
          opening = this.#open(place);
        }
      }
      const confirmed = this.#validators.length ? await opening : undefined;
      if (confirmed && "tags" in confirmed && confirmed.validator !== undefined) return this.#notModified(confirmed);
      return await this.#run(opening, place);
    } catch (error) {
      this.#inBackground(() => this.#finish(undefined));
      throw error;
    }
  }

  #isAt({ fingerprint, log }: Moment): void {
    if (places.size >= MOST_PLACES) places.clear();
    places.set(this.#placeKey, { fingerprint, log });
  }

  async #firstPlace(): Promise<Place> {
    const { signal, timeout } = this.#options;
    return (await rowsOf<Moment>(this.#db, STAMP, [], { signal, timeout }))[0]!;
  }

  async #run(opening: Promise<Known>, place: Place): Promise<Response> {
    const calls = new Stamped<Moment>(this.#db, STAMP);
    const answer = calls.respond(this.#query, { ...this.#options, ...NOT_OF_RESPOND });
    const [known, response] = await Promise.all([opening, answer]);
    const moment = await calls.answer;
    if (moment) this.#isAt(moment);
    const verdict = judged(known, moment, place, valuesOf(this.#query));
    const stored = typeof verdict === "string" ? undefined : verdict;
    if (!stored) this.#mustLearn = "refusal" in known && known.refusal === "unknown" && this.#isDue;
    const headers = new Headers(stored ? this.#storing(stored.tags, this.#id) : notStoring(verdict as string));
    for (const [name, value] of response.headers) if (!headers.has(name)) headers.set(name, value);
    const { maxFill = Infinity } = stored ?? {};
    const body = watched(response.body!, {
      isOver: () => performance.now() - this.#openedAt > maxFill,
      end: () => this.#inBackground(() => this.#finish(stored && { life: stored.life, ...moment! })),
    });
    // As in a response of `respond`.
    const encoding = headers.has("content-encoding") && { encodeBody: "manual" };
    return new Response(asBody(body), { headers, ...encoding } as ResponseInit);
  }

  /** What was learned last may not count yet. */
  get #isDue(): boolean {
    return performance.now() - (learnedAt.get(this.#key) ?? -Infinity) > LEARN_PAUSE;
  }

  /** The body has ended, or there is none. `stored`: where and when the answer was read that a cache may store. */
  async #finish(stored: Omit<FillClosing, "id"> | undefined): Promise<void> {
    // An invalidator may never answer.
    this.#inBackground(() => (stored ? this.#close(stored) : this.#abandon()));
    if (this.#mustLearn) await this.#learnAgain().catch(() => {});
    if (this.#options.closeWhenDone) await (this.#db as Client).close();
  }

  /** Not what describes a body, as RFC 9110 has it (15.4.5). */
  #notModified({ tags, validator }: Admitted): Response {
    // The fill stays open.
    if (this.#options.closeWhenDone) this.#inBackground(() => (this.#db as Client).close());
    const headers = new Headers(this.#options.headers as HeadersInit | undefined);
    for (const name of [...headers.keys()]) if (name.startsWith("content-")) headers.delete(name);
    for (const [name, value] of Object.entries(this.#storing(tags, validator!))) headers.set(name, value);
    return new Response(null, { status: 304, headers });
  }

  /** The rows have no order that is known to be the same twice, so the tag is weak. */
  #storing(tags: readonly string[], id: string): Record<string, string> {
    const { maxAge, tagHeader = "cache-tag" } = this.#options;
    return {
      etag: `W/"${id}"`,
      "cache-control": "max-age=0, must-revalidate",
      [LIFETIME]: `max-age=${maxAge}`,
      [tagHeader]: [...tags, EVERYTHING].join(tagHeader === "cache-tag" ? "," : " "),
    };
  }

  // -- the invalidator -----------------------------------------------------------------------------------------------

  /** Never rejects. An invalidator that is late, or fails, counts as one that refuses. */
  async #open(place: Place): Promise<Known> {
    const { publication, maxAge, invalidator } = this.#options;
    const statement = this.#statement;
    const since = (this.#openedAt = performance.now());
    const id = (this.#id = crypto.randomUUID());
    this.#answer = (async () => {
      const hashes = await this.#hashes(place);
      const { fingerprint, log } = place;
      const of = { fingerprint, log, publication, maxAge: maxAge * 1_000, validators: this.#validators };
      return await invalidator.open({ id, statement, ...of, ...hashes, isSeparated: this.#separation !== "" });
    })();
    const opened = await within(this.#timeout, this.#answer);
    if (!opened) return { refusal: "late" };
    // If the life has begun after it was asked, the query may have run before, on a server that has lost commits since.
    if (opened.age !== undefined && opened.age < performance.now() - since) return { refusal: "down" };
    return opened as Known;
  }

  async #hashes({ fingerprint }: Place): Promise<Pick<FillOpening, "url" | "answer" | "representation">> {
    const [url, answer, representation] = await Promise.all([
      hashOf([this.#request.url, this.#separation]),
      // The form of the rows may follow from a header that `Vary` names.
      hashOf([this.#statement, valuesOf(this.#query), fingerprint]),
      hashOf([this.#request.url, this.#separation, this.#statement, valuesOf(this.#query), fingerprint, this.#form]),
    ]);
    return { url, answer, representation };
  }

  /** The options that decide the bytes; with some that do not. */
  get #form(): object {
    const { signal: _, observer: __, timeout: ___, ...form } = { ...this.#options, ...NOT_OF_RESPOND };
    return { ...form, headers: [...new Headers(form.headers as HeadersInit | undefined)] };
  }

  async #close({ life, snapshot, isStandby }: Omit<FillClosing, "id">): Promise<void> {
    await this.#options.invalidator.close({ life, id: this.#id, snapshot, isStandby });
  }

  /** Also when the invalidator has not answered yet: it may open the fill later. */
  async #abandon(): Promise<void> {
    const opened = await this.#answer;
    if (opened && "tags" in opened) await this.#options.invalidator.abandon(opened.life, this.#id);
  }

  async #learnAgain(): Promise<void> {
    await this.#learn((await this.#answer)?.life);
  }

  /** What is lost costs a purge when the fill ends by itself. */
  #inBackground(work: () => Awaitable<unknown>): void {
    runtime().background((async () => await work())().catch(() => {}));
  }

  async #learn(life: string | undefined): Promise<void> {
    const running = learning.get(this.#key);
    // Its caller may have left.
    if (running) return await running.catch(() => this.#learn(life));
    const work = this.#learnNow(life).finally(() => learning.delete(this.#key));
    learning.set(this.#key, work);
    await work;
  }

  async #learnNow(life: string | undefined): Promise<void> {
    const { publication, signal, invalidator } = this.#options;
    const { relations, ...learned } = await learn(this.#db, { text: this.#statement }, { publication, signal });
    if (learnedAt.size >= MOST_KNOWN) learnedAt.clear();
    learnedAt.set(this.#key, performance.now());
    if (life === undefined) return;
    const dependency = { statement: this.#statement, tags: relations.map(tagOf), ...learned };
    const told = (async () => await invalidator.learn(life, dependency))();
    await within(this.#timeout, told);
  }

  get #timeout(): number {
    return this.#options.openTimeout ?? OPEN_TIMEOUT;
  }
}

/** The tags that may be ours, as a cache compares them (RFC 9110, 8.8.3.2). `*` cannot be confirmed. */
const idsIn = (ifNoneMatch: string): readonly string[] =>
  ifNoneMatch.split(",").flatMap((tag) => /^(?:W\/)?"([\da-f-]{36})"$/.exec(tag.trim())?.[1] ?? []);

/** Waits at most this long. Returns undefined if there is no result, or an error, by then. */
async function within<T>(milliseconds: number, work: Promise<T>): Promise<T | undefined> {
  let result: T | undefined;
  const done = work.then(
    (value) => void (result = value),
    () => {},
  );
  await withDeadline(milliseconds, done);
  return result;
}

async function hashOf(what: readonly unknown[]): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(JSON.stringify(what, asText)));
  return btoa(String.fromCharCode(...new Uint8Array(hash, 0, 18)));
}

/** What JSON cannot say. A Date comes as its text. */
function asText(_: string, value: unknown): unknown {
  return typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value)) ? String(value) : value;
}

// -- judging ----------------------------------------------------------------------------------------------------------

const NOT_LEARNED = "what the statement reads is not known yet";
const REFUSALS: Readonly<Record<Why, string>> = {
  down: "the invalidator does not follow the database",
  elsewhere: "the invalidator follows another publication, database or server",
  unknown: NOT_LEARNED,
  unfit: "it may change without a commit",
  behind: "the invalidator is behind the database",
  mixed: "another query was answered under the same URL",
  full: "the invalidator has too many answers that have not ended",
  late: "the invalidator has not answered",
};

/** These do not say that the invalidator knows the statement. */
const MAY_BE_UNKNOWN: ReadonlySet<Why> = new Set(["down", "elsewhere", "unknown", "late"]);

/** What the invalidator has said, or why the answer must not be stored. */
function judged(known: Known, moment: Moment | undefined, place: Place, values: readonly unknown[]): Admitted | string {
  if ("refusal" in known) return known.reason ?? REFUSALS[known.refusal];
  if (!moment) return "the snapshot of the query is not known";
  if (moment.fingerprint !== place.fingerprint || moment.log !== place.log)
    return "the session has another role, other settings or another server than the one before";
  if (moment.seesOwn) return "the session has an open transaction or temporary tables";
  if (values.some(hasTimeWords)) return "a parameter may be the present time";
  return known;
}

const valuesOf = (query: QueryInput): readonly unknown[] => (typeof query === "string" ? [] : query.values);

/** RFC 9211. */
const notStoring = (why: string): Record<string, string> => ({
  "cache-control": "no-store",
  "cache-status": `pgz-edge; fwd=bypass; detail="${why.replaceAll(/[^ !#-[\]-~]/g, "'")}"`,
});

// -- the body ---------------------------------------------------------------------------------------------------------

interface Watch {
  /** Whether it is too late for the body to end well. */
  readonly isOver: () => boolean;
  /** Called once, after the last byte, or when no more are wanted. */
  readonly end: () => void;
}

/** The same bytes. */
function watched(bytes: ReadableStream<Uint8Array>, { isOver, end }: Watch): ReadableStream<Uint8Array> {
  const reader = bytes.getReader();
  let hasEnded = false;
  const endOnce = () => {
    if (!hasEnded) end(); // cancelling ends a read that is pending
    hasEnded = true;
  };
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (isOver()) throw tooLate();
          if (!done) return controller.enqueue(value);
          controller.close();
        } catch (error) {
          await reader.cancel(error).catch(() => {});
          endOnce();
          throw error;
        }
        endOnce();
      },
      async cancel(reason) {
        await reader.cancel(reason).catch(() => {});
        endOnce();
      },
    },
    { highWaterMark: 0 },
  );
}

function tooLate(): TimeoutError {
  const text =
    "The answer took longer than maxFill of the invalidator, so no cache may store it: read it faster, or use respond().";
  return new TimeoutError("QUERY_TIMEOUT", text);
}
