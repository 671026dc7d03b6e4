// A cache with two data centres in front of a program: it stores what the headers let it store, collapses requests,
// asks whether an answer is still good, stores late, and purges late.
//
// Knows HTTP, as a cache does. Must not know the database, or which answers are too old (oracle.ts).
import type { Clock, Dice } from "../contract.ts";

/** Maximum milliseconds from the end of a body until it is stored, and from a purge until each data centre has it. */
export const TIMES = { settle: 200, propagation: 80 };
const CENTRES = 2;

/** What a program answers. Rejects if it could not. */
export type Fetch = (headers: Headers) => Promise<Response>;

interface Stored {
  readonly body: string;
  readonly storedAt: number;
  readonly etag: string;
  readonly tags: readonly string[];
  readonly until: number;
}

export interface Served {
  readonly body: string;
  /** It was read from the database for this request. */
  readonly isOwn: boolean;
  /** Since when it is stored. */
  readonly storedAt?: number;
}

export class Front {
  readonly counts = { hits: 0, misses: 0, confirmed: 0, stored: 0, purges: 0, refused: 0 };
  readonly #clock: Clock;
  readonly #dice: Dice;
  readonly #centres = Array.from({ length: CENTRES }, () => new Map<string, Stored>());
  /** Requests that others of the same URL wait for. */
  readonly #pending = Array.from({ length: CENTRES }, () => new Map<string, Promise<Served | undefined>>());

  constructor(clock: Clock, dice: Dice) {
    this.#clock = clock;
    this.#dice = dice;
  }

  empty(): void {
    for (const centre of this.#centres) centre.clear();
  }

  async get(centre: number, url: string, slow: number, fetch: Fetch): Promise<Served> {
    const stored = this.#centres[centre]!.get(url);
    if (stored && stored.until > this.#clock.now) {
      this.counts.hits++;
      return { body: stored.body, isOwn: false, storedAt: stored.storedAt };
    }
    const pending = await this.#pending[centre]!.get(url);
    if (pending) return { ...pending, isOwn: false };
    const work = this.#fetched(centre, url, slow, fetch);
    const shared = work.then(
      ({ served, isStored }) => (isStored ? served : undefined),
      () => undefined,
    );
    this.#pending[centre]!.set(url, shared);
    try {
      return (await work).served;
    } finally {
      if (this.#pending[centre]!.get(url) === shared) this.#pending[centre]!.delete(url);
    }
  }

  async #fetched(centre: number, url: string, slow: number, fetch: Fetch) {
    const known = this.#centres[centre]!.get(url);
    const asked = new Headers(known ? { "if-none-match": known.etag } : {});
    const response = await fetch(asked);
    const { headers } = response;
    const age = Number(/max-age=(\d+)/.exec(headers.get("cdn-cache-control") ?? "")?.[1] ?? 0) * 1_000;
    if (response.status === 304) {
      this.counts.confirmed++;
      this.#store(centre, url, known!, age);
      return { served: { body: known!.body, isOwn: false }, isStored: true };
    }
    this.counts.misses++;
    const body = await this.#read(response, slow);
    const tags = (headers.get("cache-tag") ?? "").split(",");
    if (age) this.#store(centre, url, { body, etag: headers.get("etag")!, tags }, age);
    return { served: { body, isOwn: true }, isStored: age > 0 };
  }

  /** A slow reader: pauses after each chunk. */
  async #read(response: Response, slow: number): Promise<string> {
    const reader = response.body!.getReader();
    const decoder = new TextDecoder();
    let body = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return body;
      body += decoder.decode(value, { stream: true });
      await this.#pause(slow);
    }
  }

  /** The cache may take a while, also after a 304. */
  #store(centre: number, url: string, answer: Omit<Stored, "storedAt" | "until">, age: number): void {
    this.counts.stored++;
    this.#clock.after(this.#dice.below(TIMES.settle), () =>
      this.#centres[centre]!.set(url, { ...answer, storedAt: this.#clock.now, until: this.#clock.now + age }),
    );
  }

  /** Resolves when the platform has answered; each data centre may be later. */
  async purge(tags: readonly string[], refuses: boolean): Promise<void> {
    await this.#pause(this.#dice.below(20));
    if (refuses) {
      this.counts.refused++;
      throw new Error("the platform refuses the purge");
    }
    this.counts.purges++;
    for (const centre of this.#centres)
      this.#clock.after(this.#dice.below(TIMES.propagation), () => {
        for (const [url, stored] of centre) if (stored.tags.some((tag) => tags.includes(tag))) centre.delete(url);
      });
    await this.#pause(this.#dice.below(20));
  }

  #pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => this.#clock.after(milliseconds, resolve));
  }
}
