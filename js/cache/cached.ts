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
// before it runs, so one that writes or locks does not run. (A volatile function may still write. If a change of
// definitions makes a known statement write or lock, the next call that learns it is refused.)
//
// `close` follows the end of the body, so what `settle` is counted from is never too early. If it is lost, the fill
// ends by itself after `maxFill`; a body that takes longer than that breaks off, so that no cache stores it.
import { asBody, runtime, Scope, serialized, type Client, type QueryInput, type RespondOptions } from "../index.ts";
import { onAbort } from "../util/abort.ts";
import { BoundedMap } from "../util/bounded.ts";
import { withDeadline } from "../util/deadline.ts";
import { rowsOf } from "../util/question.ts";
import {
  check,
  INVALIDATOR_TIMEOUT,
  OWN,
  ROW_OPTIONS,
  type Asked,
  type Awaitable,
  type CachedOptions,
  type Caller,
} from "./cached-options.ts";
import { hasTimeWords, learn } from "./learn.ts";
import { STAMP, type Moment } from "./moment.ts";
import { nameOf, statementName, textOf } from "./names.ts";
import type { Admitted, FillClosing, FillOpening, Life, Opened, Refusal, Refused } from "./protocol.ts";
import { queueOf, Stamped } from "./stamped.ts";
import { EVERYTHING, tagOf } from "./tags.ts";
import { watched } from "./watched-body.ts";

/**
 * Milliseconds for which a statement is not learned again, at first and at most. What was learned may not count yet: a
 * transaction from before the life of the invalidator may run for hours (fence.ts).
 */
const LEARN_PAUSE = 1_000;
const LONGEST_PAUSE = 60_000;
/** Milliseconds that learning may take, such as for a table that is locked. */
const LONGEST_LEARNING = 10_000;
/** A cache asks about one answer, or a few. */
const MOST_VALIDATORS = 20;
/** RFC 9213: the lifetime for the cache in front. Browsers have that of RFC 9111: nothing purges them. */
const LIFETIME = "cdn-cache-control";
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
    check(request, db, query, options);
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

// -- what an isolate knows --------------------------------------------------------------------------------------------

/** By server, user, settings and scope: where the last query has run. A guess, which the moment confirms. */
const places = new BoundedMap<string, Place>(1_000);

/**
 * By database, fingerprint and statement: what this isolate knows to read only. A statement that is not here may be one
 * that writes, so it does not run before the invalidator has said that it knows it.
 */
const knownStatements = new BoundedMap<string, KnownStatement>(1_000);
/** What is being learned, by the same key: one of many calls does it. Resolves with where it was learned. */
const learning = new Map<string, Promise<Place>>();

/** Why an answer must not be stored; `late`: the invalidator has not answered in time. */
type Why = Refusal | "late";
type Known =
  | Admitted
  | { readonly refusal: Why; readonly reason?: string; readonly life?: string; readonly publication?: string };
interface KnownStatement {
  /** When it may be learned again. */
  readonly dueAt: number;
  /** Milliseconds from there to the next time. */
  readonly pause: number;
  /** It is unknown what it reads, and the next call learns that first. */
  readonly isUnknown?: boolean;
}
const DUE: KnownStatement = { dueAt: -Infinity, pause: LEARN_PAUSE };
type Place = Pick<Moment, "fingerprint" | "timeline">;

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
  readonly #respondOptions: RespondOptions;
  readonly #statement: string;
  /** The parameters as they are sent. */
  readonly #values: readonly unknown[];
  /** The database and the statement. */
  readonly #key: string;
  /** `separatedBy` as text, in one order of its names. */
  readonly #separation: string;
  /** The settings and the role of a scope, and those that the session began with. */
  readonly #settings: readonly (string | undefined)[];
  /** The key in {@link places}. */
  readonly #placeKey: string;
  /** The ids in the request's If-None-Match. */
  readonly #validators: readonly string[];
  #asking: Asking | undefined;

  constructor(request: Asked, db: Caller, query: QueryInput, options: CachedOptions) {
    const { separatedBy } = options;
    const respondOptions: Partial<CachedOptions> = { ...options };
    for (const name of OWN) delete respondOptions[name];
    this.#request = request;
    this.#db = db;
    this.#query = query;
    this.#options = options;
    this.#respondOptions = respondOptions;
    this.#statement = typeof query === "string" ? query : query.text;
    const values = typeof query === "string" ? [] : (query.values ?? []);
    const { serialize } = queueOf(db).config;
    this.#values = serialize ? serialized(values, serialize) : values;
    const names = Object.keys(separatedBy ?? {}).sort();
    this.#separation = separatedBy ? textOf(names.map((name) => [name, separatedBy[name]])) : "";
    this.#validators = this.#needsSeparation ? [] : idsIn(request.headers.get("if-none-match") ?? "");
    const { host, port, database, user, options: ofSession } = queueOf(db).config;
    this.#key = textOf([host, port, database, this.#statement]);
    this.#settings = [db instanceof Scope ? db.settings.statement : "", ofSession];
    this.#placeKey = textOf([host, port, database, user, ...this.#settings]);
  }

  async respond(): Promise<Response> {
    try {
      let place = places.get(this.#placeKey) ?? (await this.#firstPlace());
      this.#ask(place);
      const statement = knownStatements.get(this.#statementKey(place));
      if (!statement || (statement.isUnknown && performance.now() > statement.dueAt))
        place = await this.#untilKnown(place);
      const confirmed = this.#validators.length ? await this.#asking!.known : undefined;
      return confirmed && "tags" in confirmed && confirmed.validator !== undefined && this.#isInTime(confirmed)
        ? this.#notModified(confirmed.tags, confirmed.validator)
        : await this.#run(place);
    } catch (error) {
      this.#inBackground(() => this.#finish(undefined));
      throw error;
    }
  }

  /** Whether an answer may be confirmed: the cache must have the 304 while its fill is open. */
  #isInTime({ maxFill }: Admitted): boolean {
    return performance.now() - this.#asking!.openedAt < maxFill / 2;
  }

  /** A cache may tell such requests apart, and not say so. */
  get #needsSeparation(): boolean {
    return this.#separation === "" && (this.#request.headers.get("authorization") ?? null) !== null;
  }

  #statementKey({ fingerprint }: Place): string {
    return `${fingerprint} ${this.#key}`;
  }

  #rememberPlace({ fingerprint, timeline }: Place): Place {
    const place = { fingerprint, timeline };
    places.set(this.#placeKey, place);
    return place;
  }

  async #firstPlace(): Promise<Place> {
    const { signal, timeout } = this.#options;
    return (await rowsOf<Moment>(this.#db, STAMP, [], { signal, timeout }))[0]!;
  }

  /** Until the statement is known as one that neither writes nor locks. Returns where it will run. */
  async #untilKnown(place: Place): Promise<Place> {
    const asking = this.#asking!;
    const known = await asking.known;
    if (!("refusal" in known && MAY_BE_UNKNOWN.has(known.refusal))) {
      knownStatements.set(this.#statementKey(place), DUE);
      return place;
    }
    const learned = await this.#learn(place, known);
    this.#inBackground(() => this.#abandon(asking)); // it may be opened later
    this.#ask(learned);
    return learned;
  }

  async #run(place: Place): Promise<Response> {
    const calls = new Stamped<Moment>(this.#db, STAMP);
    const [known, response] = await Promise.all([
      this.#asking!.known,
      calls.respond(this.#query, this.#respondOptions),
    ]);
    try {
      return await this.#answered(response, known, { place, calls });
    } catch (error) {
      await response.body!.cancel().catch(() => {}); // it has a connection
      throw error;
    }
  }

  async #answered(response: Response, known: Known, { place, calls }: Ran): Promise<Response> {
    const { id, openedAt } = this.#asking!;
    const moment = await calls.answer;
    if (moment) this.#rememberPlace(moment);
    const { stored, why } = this.#judged(known, moment, { place, calls });
    const key = this.#statementKey(place);
    if (stored) knownStatements.set(key, DUE);
    // The next call learns it. This one may be a client's, which does nothing else before its body has ended.
    else if ("refusal" in known && known.refusal === "unknown")
      knownStatements.set(key, { ...(knownStatements.get(key) ?? DUE), isUnknown: true });
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
    // Its body could not end well any more.
    if (performance.now() - this.#asking!.openedAt >= known.maxFill)
      return notStored("the query took longer than maxFill of the invalidator");
    if (!moment) return notStored("the snapshot of the query is not known");
    if (moment.fingerprint !== place.fingerprint || moment.timeline !== place.timeline)
      return notStored("the session has another role, other settings or another server than the one before");
    if (moment.seesOwn) return notStored("the session has an open transaction or temporary tables");
    if (this.#needsSeparation) return notStored("the request has Authorization (option separatedBy)");
    if (this.#values.some(hasTimeWords)) return notStored("a parameter may be the present time");
    if (String(calls.parameterTypesOf(this.#statement)) !== String(known.parameterTypes)) {
      calls.forgetTypesOf(this.#statement);
      return notStored("its parameters had the types from before a change of definitions");
    }
    return { stored: { ...known, moment }, why: "" };
  }

  /** The body has ended, or there is none. `stored`: where and when the answer was read that a cache may store. */
  async #finish(stored: Omit<FillClosing, "id"> | undefined): Promise<void> {
    const asking = this.#asking;
    // An invalidator may never answer.
    if (asking) this.#inBackground(() => (stored ? this.#close(asking.id, stored) : this.#abandon(asking)));
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
    if (!isAnswer(opened)) return { refusal: "late" };
    // If the life has begun after it was asked, the query may have run before, on a server that has lost commits since.
    if (opened.age !== undefined && opened.age < performance.now() - since) return { refusal: "down" };
    return opened as Known;
  }

  async #names({ fingerprint }: Place): Promise<Pick<FillOpening, "statement" | "url" | "rows" | "form">> {
    const statement = await statementName(this.#statement);
    const [url, rows, form] = await Promise.all([
      nameOf([this.#request.url, this.#separation]),
      // The form of the rows may follow from a header that `Vary` names.
      nameOf([statement, this.#values, fingerprint, ...this.#settings]),
      nameOf(this.#form),
    ]);
    return { statement, url, rows, form };
  }

  /** The options that decide the bytes, with some that do not, and those of the client. */
  get #form(): readonly unknown[] {
    const { signal: _, observer: __, timeout: ___, headers, ...form } = this.#respondOptions;
    const { config } = queueOf(this.#db);
    const ofClient = ROW_OPTIONS.map((name) => config[name] ?? null);
    return [form, ofClient, ...new Headers(headers as HeadersInit | undefined)];
  }

  async #close(id: string, { life, tags, snapshot, isStandby }: Omit<FillClosing, "id">): Promise<void> {
    await this.#options.invalidator.close({ life, id, tags, snapshot, isStandby });
  }

  /** Also when the invalidator has not answered yet: it may open the fill later. */
  async #abandon({ id, opened }: Asking): Promise<void> {
    const answer = await opened;
    if ("tags" in answer) await this.#options.invalidator.abandon({ life: answer.life, id });
  }

  /** What is lost costs a purge when the fill ends by itself. */
  #inBackground(work: () => Awaitable<unknown>): void {
    runtime().background((async () => await work())().catch(() => {}));
  }

  async #learn(place: Place, life: Partial<Life>): Promise<Place> {
    const key = this.#statementKey(place);
    const running = learning.get(key);
    // Its caller may have left, or the platform may have ended its request: then it never settles.
    const found = running && (await within(LONGEST_LEARNING, running, this.#options.signal));
    if (found) return found;
    const work = this.#learnNow(key, life);
    learning.set(key, work);
    try {
      return await work;
    } finally {
      if (learning.get(key) === work) learning.delete(key);
    }
  }

  /**
   * Without a life nothing is told. All that counts then is that the statement neither writes nor locks. If that fails,
   * the next call learns it first.
   */
  async #learnNow(key: string, { life, publication = "" }: Partial<Life>): Promise<Place> {
    const { invalidator, signal, timeout } = this.#options;
    const { pause } = knownStatements.get(key) ?? DUE;
    knownStatements.delete(key);
    const options = { publication, signal, timeout: Math.min(timeout || LONGEST_LEARNING, LONGEST_LEARNING) };
    const { relations, ...learned } = await learn(this.#db, { text: this.#statement }, options);
    const place = this.#rememberPlace(learned);
    const next = { dueAt: performance.now() + pause, pause: Math.min(2 * pause, LONGEST_PAUSE) };
    knownStatements.set(this.#statementKey(place), life === undefined ? DUE : next);
    if (life === undefined) return place;
    const dependency = { statement: await statementName(this.#statement), tags: relations.map(tagOf), ...learned };
    const told = (async () => await invalidator.remember({ life, ...dependency }))();
    await within(this.#timeout, told);
    return place;
  }

  get #timeout(): number {
    return this.#options.invalidatorTimeout ?? INVALIDATOR_TIMEOUT;
  }
}

/** The entity tags that may be ours, as a cache compares them (RFC 9110, 8.8.3.2). `*` cannot be confirmed. */
const idsIn = (ifNoneMatch: string): readonly string[] =>
  ifNoneMatch.split(",", MOST_VALIDATORS).flatMap((tag) => /^(?:W\/)?"([\da-f-]{36})"$/.exec(tag.trim())?.[1] ?? []);

/** Waits at most this long, or until the signal aborts. Undefined: there is no result, or an error, by then. */
async function within<T>(milliseconds: number, work: Promise<T>, signal?: AbortSignal): Promise<T | undefined> {
  let result: T | undefined;
  const done = work.then(
    (value) => void (result = value),
    () => {},
  );
  if (!signal) await withDeadline(milliseconds, done);
  else {
    let stop = () => {};
    const aborted = new Promise<void>((resolve) => (stop = onAbort(signal, resolve)));
    await withDeadline(milliseconds, Promise.race([done, aborted]));
    stop();
  }
  return result;
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

/** Whatever passes the calls on may answer for an invalidator, and a later release may refuse for a new reason. */
function isAnswer(opened: Opened | undefined): opened is Opened {
  const { tags, maxFill, refusal } = Object(opened) as Partial<Admitted & Refused>;
  return refusal === undefined ? Array.isArray(tags) && typeof maxFill === "number" : Object.hasOwn(REFUSALS, refusal);
}

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
