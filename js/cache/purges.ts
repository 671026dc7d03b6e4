// Purges: one call of the platform at a time, with all tags that have come meanwhile, repeated until it has answered.
//
// Knows tags and a function that purges. Must not know why a tag is purged.

/** Purges these tags wherever answers are stored. Rejects if that did not happen. */
export type Purge = (tags: readonly string[]) => Promise<unknown>;

/** What a platform takes at a time: 1,000 tags on Workers. */
const MOST_TAGS = 1_000;
/** Milliseconds until the first repeat of a purge that has failed, and at most between two. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 10_000;

interface Waiting {
  tags: Set<string>;
  readonly done: Promise<void>;
  readonly settle: () => void;
}

export class Purges {
  readonly #purge: Purge;
  readonly #longest: number;
  readonly #onFailure: (error: unknown) => void;
  #next: Waiting | undefined;
  #isRunning = false;
  #isOver = false;

  /** An attempt that takes `longest` milliseconds has failed. `onFailure` is told each that has. It never throws. */
  constructor(purge: Purge, longest: number, onFailure: (error: unknown) => void) {
    this.#purge = purge;
    this.#longest = longest;
    this.#onFailure = onFailure;
  }

  /** Resolves when the tags have been purged: by a call of the platform that began after this call. */
  add(tags: readonly string[]): Promise<void> {
    if (!tags.length) return Promise.resolve();
    this.#next ??= waiting();
    const { done, tags: all } = this.#next;
    for (const tag of tags) all.add(tag);
    if (!this.#isRunning) void this.#run();
    return done;
  }

  /** No further attempt begins. What waits is never resolved. */
  end(): void {
    this.#isOver = true;
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    for (let one = this.#next; one && !this.#isOver; one = this.#next) {
      this.#next = undefined;
      const all = [...one.tags];
      for (let from = 0; from < all.length; from += MOST_TAGS)
        await this.#untilPurged(all.slice(from, from + MOST_TAGS));
      if (!this.#isOver) one.settle();
    }
    this.#isRunning = false;
  }

  async #attempt(tags: readonly string[]): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<never>((_, reject) => {
      const give = () => reject(new Error(`The purge was not answered within ${this.#longest} ms.`));
      timer = setTimeout(give, this.#longest);
    });
    const purged = async () => await this.#purge(tags); // it may throw at once, too
    await Promise.race([purged(), late]).finally(() => clearTimeout(timer));
  }

  async #untilPurged(tags: readonly string[]): Promise<void> {
    for (let pause = FIRST_PAUSE; !this.#isOver; pause = Math.min(2 * pause, LONGEST_PAUSE))
      try {
        return await this.#attempt(tags);
      } catch (error) {
        this.#onFailure(error);
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
  }
}

function waiting(): Waiting {
  let settle!: () => void;
  const done = new Promise<void>((resolve) => (settle = resolve));
  return { tags: new Set(), done, settle };
}
