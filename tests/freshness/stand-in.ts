// A stand-in for a cache with tags in front of a program, such as Workers Cache, which workerd has none of outside the
// platform. Several data centres share the tags. What may be stored, and for how long, is http-cache-semantics' word.
//
// It does what a platform may do: it stores late, passes one answer to all that ask at once, asks again with
// If-None-Match for what has aged or was invalidated, takes a while until a purge is everywhere, and refuses purges.
//
// Knows HTTP. Must not know what an answer says, or when it is too old.
import CachePolicy from "http-cache-semantics";
import { pause } from "../support/until.mjs";

/** What answers a request that the cache does not: the program. Rejects if it is down. */
export type Origin = (path: string, headers: Readonly<Record<string, string>>) => Promise<Response>;

/** Milliseconds. */
export interface Delays {
  /** Until an answer is stored whose body has ended. */
  readonly store: number;
  /** Until a purge has reached the second data centre. */
  readonly propagation: number;
}

export interface Served {
  readonly body: string;
  readonly from: "origin" | "collapsed" | "cache" | "confirmed";
}

interface Stored {
  readonly body: string;
  readonly tags: readonly string[];
  policy: CachePolicy;
  /** The next request has to ask the program. */
  isInvalid: boolean;
}

export class StandIn {
  /** In a data centre a purge takes the answer away, or marks it as one to ask again for. */
  readonly #centres = [
    { stored: new Map<string, Stored>(), pending: new Map<string, Promise<Served | undefined>>(), invalidates: false },
    { stored: new Map<string, Stored>(), pending: new Map<string, Promise<Served | undefined>>(), invalidates: true },
  ];
  readonly #origin: Origin;
  readonly #below: (below: number) => number;
  readonly #delays: Delays;
  readonly #mayStore: (etag: string) => boolean;
  readonly counts = { collapsed: 0, confirmed: 0, hits: 0, misses: 0, notStored: 0, purges: 0, refused: 0, tooLate: 0 };
  /** The longest time that a purge has taken to reach all data centres. */
  slowestPurge = 0;

  /** `mayStore`: whether the answer with this ETag may still be stored. Later than `settle` it would be our fault. */
  constructor(
    origin: Origin,
    below: (below: number) => number,
    { delays, mayStore }: { readonly delays: Delays; readonly mayStore: (etag: string) => boolean },
  ) {
    this.#origin = origin;
    this.#below = below;
    this.#delays = delays;
    this.#mayStore = mayStore;
  }

  get centres(): number {
    return this.#centres.length;
  }

  /** Returns undefined if the program has not answered. */
  async fetch(centre: number, path: string): Promise<Served | undefined> {
    const { stored, pending } = this.#centres[centre]!;
    const found = stored.get(path);
    if (found && !found.isInvalid && found.policy.satisfiesWithoutRevalidation(asked(path))) {
      this.counts.hits++;
      return { body: found.body, from: "cache" };
    }
    const running = pending.get(path);
    if (running) {
      this.counts.collapsed++;
      const served = await running;
      return served && { ...served, from: "collapsed" };
    }
    const work = this.#fill(stored, path, found).finally(() => pending.delete(path));
    pending.set(path, work);
    return work;
  }

  async #fill(stored: Map<string, Stored>, path: string, found: Stored | undefined): Promise<Served | undefined> {
    const headers = found?.policy.revalidationHeaders(asked(path)) as Record<string, string> | undefined;
    let response: Response;
    let body: string;
    try {
      response = await this.#origin(path, headers ?? {});
      body = await response.text();
    } catch {
      return undefined;
    }
    if (response.status === 304) return this.#confirmed(stored, path, found!, response);
    if (response.status !== 200) return undefined;
    this.counts.misses++;
    void this.#store(stored, path, response, body);
    return { body, from: "origin" };
  }

  async #store(stored: Map<string, Stored>, path: string, response: Response, body: string): Promise<void> {
    const policy = new CachePolicy(asked(path), answered(response), { shared: true });
    if (!policy.storable()) {
      this.counts.notStored++;
      stored.delete(path); // RFC 9111, 4.4: what was stored is not the answer any more
      return;
    }
    const tags = response.headers.get("cache-tag")!.split(",");
    await pause(this.#below(this.#delays.store));
    if (!this.#mayStore(response.headers.get("etag")!)) return void this.counts.tooLate++;
    stored.set(path, { body, tags, policy, isInvalid: false });
  }

  /** The answer is stored anew: it may have been purged meanwhile. */
  #confirmed(stored: Map<string, Stored>, path: string, found: Stored, response: Response): Served {
    this.counts.confirmed++;
    const { policy } = found.policy.revalidatedPolicy(asked(path), answered(response));
    stored.set(path, { ...found, policy, isInvalid: false });
    return { body: found.body, from: "confirmed" };
  }

  /** Resolves when the purge is accepted. It reaches the second data centre later. Rejects now and then. */
  async purge(tags: readonly string[]): Promise<void> {
    if (this.#below(20) === 0) {
      this.counts.refused++;
      throw new Error("429 Too Many Requests");
    }
    this.counts.purges++;
    const from = performance.now();
    this.#purgeIn(0, tags);
    await pause(this.#below(this.#delays.propagation));
    this.#purgeIn(1, tags);
    this.slowestPurge = Math.max(this.slowestPurge, performance.now() - from);
  }

  #purgeIn(centre: number, tags: readonly string[]): void {
    const { stored, invalidates } = this.#centres[centre]!;
    for (const [path, one] of stored) {
      if (!one.tags.some((tag) => tags.includes(tag))) continue;
      if (invalidates) one.isInvalid = true;
      else stored.delete(path);
    }
  }
}

const asked = (url: string) => ({ url, method: "GET", headers: {} });

/** RFC 9213: for the caches that read it, CDN-Cache-Control takes the place of Cache-Control. */
function answered(response: Response) {
  const headers = Object.fromEntries(response.headers);
  const { "cdn-cache-control": targeted, ...others } = headers;
  return { status: response.status, headers: targeted ? { ...others, "cache-control": targeted } : headers };
}
