// One URL has one answer: finds queries whose answers a cache would store under one URL although they differ.
//
// Knows names of URLs and of rows. Must not know SQL or HTTP. Each call is given the time.
//
// A cache that has an answer does not ask, so a query that depends on a cookie is found late: by the next miss. It is a
// mistake of the program's. All that can be done is to purge both, and to store neither for as long as answers of
// before may still be on their way. After that a URL may have another answer, as after a deployment.
import { BoundedMap } from "../util/bounded.ts";

/** What a cache may have under a URL. */
interface Claim {
  /** The name of what decides the rows; undefined: two were seen. */
  readonly rows: string | undefined;
  readonly tags: readonly string[];
  readonly until: number;
}

export class Answers {
  readonly #longest: number;
  /** By URL. Those that were asked for last come last. */
  readonly #known: BoundedMap<string, Claim>;
  /** Tags of a URL with two answers: purged again when every answer that was on its way has been stored. */
  readonly #again: { readonly tags: readonly string[]; readonly at: number }[] = [];

  /** `most`: URLs that are kept. `longest`: milliseconds from the opening of a fill until its answer is stored. */
  constructor(most: number, longest: number) {
    this.#known = new BoundedMap(most);
    this.#longest = longest;
  }

  /**
   * Whether this answer may be stored under the URL, for `maxAge` milliseconds. If not, returns the tags to purge: of
   * the answer that may be stored there, and of this one.
   */
  claim(
    url: string,
    { rows, tags, maxAge }: { readonly rows: string; readonly tags: readonly string[]; readonly maxAge: number },
    now: number,
  ): readonly string[] | undefined {
    const found = this.#known.get(url);
    const known = found && found.until > now ? found : undefined;
    const isMixed = known && known.rows !== rows;
    if (known && isMixed) {
      if (known.rows === undefined) return [];
      const both = [...new Set([...known.tags, ...tags])];
      this.#keep(url, { rows: undefined, tags: [], until: now + this.#longest });
      this.#again.push({ tags: both, at: now + this.#longest });
      return both;
    }
    this.#keep(url, { rows, tags, until: now + this.#longest + maxAge });
    return undefined;
  }

  /** The tags to purge once more. */
  takeDue(now: number): readonly string[] {
    const due: string[] = [];
    while (this.#again.length && this.#again[0]!.at <= now) due.push(...this.#again.shift()!.tags);
    return due;
  }

  #keep(url: string, claim: Claim): void {
    this.#known.delete(url);
    this.#known.set(url, claim);
  }
}
