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
import { asBody, Client, Pool, runtime, Scope, serialized, TimeoutError, UsageError } from "../index.ts";
import type { QueryInput, RespondOptions } from "../index.ts";
import { BoundedMap } from "../util/bounded.ts";
import { withDeadline } from "../util/deadline.ts";
import type { Admitted, FillClosing, FillName, FillOpening, Life, Opened, Refusal, Remembered } from "./protocol.ts";
import { hasTimeWords, learn } from "./learn.ts";
import { STAMP, type Moment } from "./moment.ts";
import { rowsOf } from "../util/question.ts";
import { queueOf, Stamped } from "./stamped.ts";
import { EVERYTHING, tagOf } from "./tags.ts";

type Awaitable<T> = T | Promise<T>;

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
interface Asked {
  readonly method: string;
  readonly url: string;
  readonly headers: { get(name: string): string | null };
}

/** The options that `respond` does not get: those of its own, and the client is closed here. */
const OWN = ["maxAge", "invalidator", "separatedBy", "tagHeader", "invalidatorTimeout", "closeWhenDone"] as const;
const INVALIDATOR_TIMEOUT = 1_000;
/**
 * Milliseconds for which a statement is not learned again, at first and at most. What was learned may not count yet: a
 * transaction from before the life of the invalidator may run for hours (fence.ts).
 */
const LEARN_PAUSE = 1_000;
const LONGEST_PAUSE = 60_000;
const TAG_HEADERS = ["cache-tag", "surrogate-key", "xkey"] as const;
/** RFC 9213: the lifetime for the cache in front. Browsers have that of RFC 9111: nothing purges them. */
const LIFETIME = "cdn-cache-control";
/**
 * The headers that the caller may give. Others may be read by a cache: each platform has some of its own, which store
 * an answer without its tags, or for longer.
 */
const HEADERS = (
  "content-type content-disposition content-language content-security-policy vary link " +
  "cross-origin-resource-policy timing-allow-origin server-timing x-content-type-options " +
  "referrer-policy permissions-policy strict-transport-security x-robots-tag"
).split(" ");
/** Those that describe a body, which a 304 does not have (RFC 9110, 15.4.5). */
const OF_THE_BODY = ["content-type", "content-language"];

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
 *   maxAge: 3_600, invalidator: env.INVALIDATIONS.getByName("one"), signal: request.signal,
 * });
 */
export async function cached(request: Asked, db: Caller, query: QueryInput, options: CachedOptions): Promise<Response> {
  let fill: Fill;
  try {
    check(request, db, options);
    fill = new Fill(request, db, query, options);
  } catch (error) {
    // As `respond`: a caller that sets it does not close the client anywhere else.
    if ((options as CachedOptions | undefined)?.closeWhenDone)
      runtime().background(Promise.resolve((db as Partial<Client> | undefined)?.close?.()));
    throw error;
  }
  const response = await fill.respond();
  if (request.method !== "HEAD" || !response.body) return response;
  await response.body.cancel();
  return new Response(null, response);
}

function check(request: Asked, db: unknown, options: CachedOptions): void {
  if (typeof options !== "object" || options === null) throw refusal("cached() takes its options last.");
  const { method, url, headers } = Object(request) as Asked;
  const { maxAge, invalidator, separatedBy, tagHeader = "cache-tag" } = options;
  if (!(db instanceof Client || db instanceof Pool || db instanceof Scope))
    throw refusal("cached() takes the request, then a client, a pool or a scope: not a transaction or lease.");
  if (queueOf(db).config.host.endsWith(".hyperdrive.local"))
    throw refusal("cached() cannot see what Hyperdrive answers from its own cache: connect to the server itself.");
  if (method !== "GET" && method !== "HEAD") throw refusal(`cached() is for GET and HEAD, not for ${method}.`);
  if (typeof url !== "string" || typeof headers?.get !== "function")
    throw refusal("cached() takes a Request, or { method, url, headers } whose headers have get().");
  if (!Number.isSafeInteger(maxAge) || maxAge < 1) throw refusal('Option "maxAge" must be whole seconds, at least 1.');
  if (typeof invalidator?.open !== "function") throw refusal('Option "invalidator" must be an invalidator.');
  if ("status" in options) throw refusal('Option "status" of respond() is 200 or 304 here: leave it out.');
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

/** By server, user, settings and scope: where the last query has run. A guess, which the moment confirms. */
const places = new BoundedMap<string, Place>(1_000);

/**
 * By database and statement: what this isolate knows to read only. A statement that is not here may be one that writes,
 * so it does not run before the invalidator has said that it knows it.
 */
const readers = new BoundedMap<string, Reader>(1_000);
/** What is being learned, by the same key: one of many calls does it. */
const learning = new Map<string, Promise<void>>();

/** Why an answer must not be stored; `late`: the invalidator has not answered in time. */
type Why = Refusal | "late";
type Known =
  | Admitted
  | { readonly refusal: Why; readonly reason?: string; readonly life?: string; readonly publication?: string };
interface Reader {
  /** When it may be learned again. */
  readonly dueAt: number;
  /** Milliseconds from there to the next time. */
  readonly pause: number;
  /** It is unknown what it reads, and the next call learns that first. */
  readonly isUnknown?: boolean;
}
const DUE: Reader = { dueAt: -Infinity, pause: LEARN_PAUSE };
type Place = Pick<Moment, "fingerprint" | "timeline">;
type Caller = Client | Pool | Scope;

/** What the invalidator was asked. */
interface Asking {
  readonly id: string;
  /** Before the invalidator was asked: it counts `maxFill` from a later time. */
  readonly openedAt: number;
  /** What it says, however late. */
  readonly opened: Promise<Opened>;
  /** What it has said in time. Never rejects. An invalidator that is late, or fails, counts as one that refuses. */
  readonly known: Promise<Known>;
}

// -- one answer -------------------------------------------------------------------------------------------------------

/** One run of a query whose answer a cache may store. */
class Fill {
  readonly #request: Asked;
  readonly #db: Caller;
  readonly #query: QueryInput;
  readonly #options: CachedOptions;
  /** The options of `respond`. */
  readonly #form: RespondOptions;
  readonly #statement: string;
  /** The parameters as they are sent. */
  readonly #values: readonly unknown[];
  /** Its key in {@link readers}. */
  readonly #key: string;
  /** `separatedBy` as text, in one order of its names. */
  readonly #separation: string;
  /** The settings and the role of a scope. */
  readonly #scope: string;
  /** The key in {@link places}. */
  readonly #placeKey: string;
  /** The ids in the request's If-None-Match. */
  readonly #validators: readonly string[];
  #asking: Asking | undefined;
  /** The statement is learned when the body has ended: a client runs nothing before that. */
  #learnsAfterwards = false;

  constructor(request: Asked, db: Caller, query: QueryInput, options: CachedOptions) {
    const { separatedBy } = options;
    const form: Partial<CachedOptions> = { ...options };
    for (const name of OWN) delete form[name];
    this.#request = request;
    this.#db = db;
    this.#query = query;
    this.#options = options;
    this.#form = form;
    this.#statement = typeof query === "string" ? query : query.text;
    const values = typeof query === "string" ? [] : query.values;
    const { serialize } = queueOf(db).config;
    this.#values = serialize ? serialized(values, serialize) : values;
    this.#validators = idsIn(request.headers.get("if-none-match") ?? "");
    this.#separation = separatedBy ? JSON.stringify(Object.entries(separatedBy).sort(), asText) : "";
    const { host, port, database, user, options: settings } = queueOf(db).config;
    this.#key = JSON.stringify([host, port, database, this.#statement]);
    this.#scope = db instanceof Scope ? db.settings.statement : "";
    this.#placeKey = JSON.stringify([host, port, database, user, settings, this.#scope]);
  }

  async respond(): Promise<Response> {
    try {
      const place = places.get(this.#placeKey) ?? (await this.#firstPlace());
      this.#ask(place);
      const reader = readers.get(this.#key);
      if (!reader || (reader.isUnknown && performance.now() > reader.dueAt)) await this.#untilKnown(place);
      const confirmed = this.#validators.length ? await this.#asking!.known : undefined;
      if (confirmed && "tags" in confirmed && confirmed.validator !== undefined)
        return this.#notModified(confirmed.tags, confirmed.validator);
      return await this.#run(place);
    } catch (error) {
      this.#inBackground(() => this.#finish(undefined));
      throw error;
    }
  }

  #isAt({ fingerprint, timeline }: Moment): void {
    places.set(this.#placeKey, { fingerprint, timeline });
  }

  async #firstPlace(): Promise<Place> {
    const { signal, timeout } = this.#options;
    return (await rowsOf<Moment>(this.#db, STAMP, [], { signal, timeout }))[0]!;
  }

  /** Until the statement is known as one that neither writes nor locks. */
  async #untilKnown(place: Place): Promise<void> {
    const asking = this.#asking!;
    const known = await asking.known;
    if (!("refusal" in known && MAY_BE_UNKNOWN.has(known.refusal))) return void readers.set(this.#key, DUE);
    await this.#learn(known, this.#options.signal);
    this.#inBackground(() => this.#abandon(asking)); // it may be opened later
    this.#ask(place);
  }

  async #run(place: Place): Promise<Response> {
    const calls = new Stamped<Moment>(this.#db, STAMP);
    const { id, openedAt, known: asked } = this.#asking!;
    const [known, response] = await Promise.all([asked, calls.respond(this.#query, this.#form)]);
    const moment = await calls.answer;
    if (moment) this.#isAt(moment);
    const { stored, why } = this.#judged(known, moment, { place, calls });
    if (stored) readers.set(this.#key, DUE);
    if ("refusal" in known && known.refusal === "unknown") this.#planLearning(readers.get(this.#key) ?? DUE);
    const headers = new Headers(stored ? this.#storing(stored.tags, id) : notStoring(why));
    for (const [name, value] of response.headers) if (!headers.has(name)) headers.set(name, value);
    const maxFill = stored?.maxFill ?? Infinity;
    const body = watched(response.body!, {
      isOver: () => performance.now() - openedAt > maxFill,
      end: () => this.#inBackground(() => this.#finish(stored && { ...stored, ...stored.moment })),
    });
    // As in a response of `respond`.
    const encoding = headers.has("content-encoding") && { encodeBody: "manual" };
    return new Response(asBody(body), { headers, ...encoding } as ResponseInit);
  }

  /** What the invalidator has said, and the moment; or why the answer must not be stored. */
  #judged(known: Known, moment: Moment | undefined, { place, calls }: Ran): Judgement {
    if ("refusal" in known) return notStored(known.reason ?? REFUSALS[known.refusal]);
    if (!moment) return notStored("the snapshot of the query is not known");
    if (moment.fingerprint !== place.fingerprint || moment.timeline !== place.timeline)
      return notStored("the session has another role, other settings or another server than the one before");
    if (moment.seesOwn) return notStored("the session has an open transaction or temporary tables");
    if (this.#separation === "" && this.#request.headers.get("authorization"))
      return notStored("the request has Authorization (option separatedBy)");
    if (this.#values.some(hasTimeWords)) return notStored("a parameter may be the present time");
    if (String(calls.parameterTypesOf(this.#statement)) !== String(known.parameterTypes)) {
      calls.forgetTypesOf(this.#statement);
      return notStored("its parameters had the types from before a change of definitions");
    }
    return { stored: { ...known, moment }, why: "" };
  }

  /**
   * A pool, or a client that is closed afterwards, learns when the body has ended. While a client learns, it refuses
   * other calls. So one that goes on learns later, in front of the next call.
   */
  #planLearning(reader: Reader): void {
    this.#learnsAfterwards =
      (this.#db instanceof Pool || this.#options.closeWhenDone === true) && performance.now() > reader.dueAt;
    if (!this.#learnsAfterwards) readers.set(this.#key, { ...reader, isUnknown: true });
  }

  /** The body has ended, or there is none. `stored`: where and when the answer was read that a cache may store. */
  async #finish(stored: Omit<FillClosing, "id"> | undefined): Promise<void> {
    const asking = this.#asking;
    // An invalidator may never answer.
    if (asking) this.#inBackground(() => (stored ? this.#close(asking.id, stored) : this.#abandon(asking)));
    if (this.#learnsAfterwards) await this.#learnAgain().catch(() => {});
    if (this.#options.closeWhenDone) await (this.#db as Client).close();
  }

  /** The fill stays open. */
  #notModified(tags: readonly string[], validator: string): Response {
    if (this.#options.closeWhenDone) this.#inBackground(() => (this.#db as Client).close());
    const headers = new Headers(this.#options.headers as HeadersInit | undefined);
    for (const name of OF_THE_BODY) headers.delete(name);
    for (const [name, value] of Object.entries(this.#storing(tags, validator))) headers.set(name, value);
    return new Response(null, { status: 304, headers });
  }

  /** The rows have no order that is known to be the same twice, so the ETag is weak. */
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

  #ask(place: Place): void {
    const openedAt = performance.now();
    const id = crypto.randomUUID();
    const opened = this.#open(id, place);
    this.#asking = { id, openedAt, opened, known: this.#known(opened, openedAt) };
  }

  async #open(id: string, place: Place): Promise<Opened> {
    const { maxAge, invalidator } = this.#options;
    const names = await this.#names(place);
    const { fingerprint, timeline } = place;
    const isSeparated = this.#separation !== "";
    const of = { fingerprint, timeline, maxAge: maxAge * 1_000, validators: this.#validators, isSeparated };
    return await invalidator.open({ id, ...of, ...names });
  }

  async #known(answer: Promise<Opened>, since: number): Promise<Known> {
    const opened = await within(this.#timeout, answer);
    if (!opened) return { refusal: "late" };
    // If the life has begun after it was asked, the query may have run before, on a server that has lost commits since.
    if (opened.age !== undefined && opened.age < performance.now() - since) return { refusal: "down" };
    return opened as Known;
  }

  async #names({ fingerprint }: Place): Promise<Pick<FillOpening, "statement" | "url" | "rows" | "form">> {
    const statement = await statementName(this.#statement);
    const [url, rows, form] = await Promise.all([
      nameOf([this.#request.url, this.#separation]),
      // The form of the rows may follow from a header that `Vary` names.
      nameOf([statement, this.#values, fingerprint, this.#scope]),
      nameOf(this.#shape),
    ]);
    return { statement, url, rows, form };
  }

  /** The options that decide the bytes; with some that do not. */
  get #shape(): readonly unknown[] {
    const { signal: _, observer: __, timeout: ___, headers, ...shape } = this.#form;
    return [shape, ...new Headers(headers as HeadersInit | undefined)];
  }

  async #close(id: string, { life, tags, snapshot, isStandby }: Omit<FillClosing, "id">): Promise<void> {
    await this.#options.invalidator.close({ life, id, tags, snapshot, isStandby });
  }

  /** Also when the invalidator has not answered yet: it may open the fill later. */
  async #abandon({ id, opened }: Asking): Promise<void> {
    const answer = await opened;
    if ("tags" in answer) await this.#options.invalidator.abandon({ life: answer.life, id });
  }

  /** For those who ask later: this request may be over, and its signal aborted. */
  async #learnAgain(): Promise<void> {
    await this.#learn(await this.#asking!.opened, undefined);
  }

  /** What is lost costs a purge when the fill ends by itself. */
  #inBackground(work: () => Awaitable<unknown>): void {
    runtime().background((async () => await work())().catch(() => {}));
  }

  async #learn(life: Partial<Life>, signal: AbortSignal | undefined): Promise<void> {
    const running = learning.get(this.#key);
    // Its caller may have left.
    if (running) return await running.catch(() => this.#learn(life, signal));
    const work = this.#learnNow(life, signal).finally(() => learning.delete(this.#key));
    learning.set(this.#key, work);
    await work;
  }

  /** Without a life nothing is told. All that counts then is that the statement neither writes nor locks. */
  async #learnNow({ life, publication = "" }: Partial<Life>, signal: AbortSignal | undefined): Promise<void> {
    const { invalidator } = this.#options;
    const { relations, ...learned } = await learn(this.#db, { text: this.#statement }, { publication, signal });
    if (life === undefined) return void readers.set(this.#key, DUE);
    const { pause } = readers.get(this.#key) ?? DUE;
    readers.set(this.#key, { dueAt: performance.now() + pause, pause: Math.min(2 * pause, LONGEST_PAUSE) });
    const dependency = { statement: await statementName(this.#statement), tags: relations.map(tagOf), ...learned };
    const told = (async () => await invalidator.remember({ life, ...dependency }))();
    await within(this.#timeout, told);
  }

  get #timeout(): number {
    return this.#options.invalidatorTimeout ?? INVALIDATOR_TIMEOUT;
  }
}

/** The entity tags that may be ours, as a cache compares them (RFC 9110, 8.8.3.2). `*` cannot be confirmed. */
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

// -- names ------------------------------------------------------------------------------------------------------------

/**
 * Characters from which on a hash takes the place of a text. In Node a digest takes 30 us and a thread; the invalidator
 * keeps names by the ten thousand.
 */
const LONG = 80;
/** By text: what a program asks again and again. */
const statementNames = new BoundedMap<string, string>(1_000);

async function statementName(text: string): Promise<string> {
  const known = statementNames.get(text);
  if (known !== undefined) return known;
  const name = await nameOf([text]);
  statementNames.set(text, name);
  return name;
}

/** No hash begins as JSON does. */
async function nameOf(what: readonly unknown[]): Promise<string> {
  const text = JSON.stringify(what, asText);
  if (text.length < LONG) return text;
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return btoa(String.fromCharCode(...new Uint8Array(hash, 0, 18)));
}

/** What JSON cannot say. A Date comes as its text. */
function asText(_: string, value: unknown): unknown {
  return typeof value === "bigint" || (typeof value === "number" && !Number.isFinite(value)) ? String(value) : value;
}

// -- judging ----------------------------------------------------------------------------------------------------------

const REFUSALS: Readonly<Record<Why, string>> = {
  down: "the invalidator does not follow the database",
  elsewhere: "the invalidator follows another database or server",
  unknown: "what the statement reads is not known yet",
  unfit: "it may change without a commit",
  behind: "the invalidator is behind the database",
  mixed: "another query was answered under the same URL",
  full: "the invalidator has too many answers that have not ended",
  late: "the invalidator has not answered",
};

/** These do not say that the invalidator knows the statement. */
const MAY_BE_UNKNOWN: ReadonlySet<Why> = new Set(["down", "elsewhere", "unknown", "late"]);

/** Where a query was expected to run, and how it has run. */
interface Ran {
  readonly place: Place;
  readonly calls: Stamped<Moment>;
}

interface Judgement {
  readonly stored: (Admitted & { readonly moment: Moment }) | undefined;
  readonly why: string;
}

const notStored = (why: string): Judgement => ({ stored: undefined, why });

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
  reader.closed.catch(endOnce); // it may have failed while nothing is read
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
