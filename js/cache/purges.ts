// Purges: one call of the platform at a time, with all tags that have come meanwhile, repeated until it has answered.
//
// Knows tags and a function that purges. Must not know why a tag is purged.
import { paused } from "./pause.ts";

/**
 * Purges these tags wherever answers are stored. Rejects if that did not happen, or resolves with `success: false`, as
 * `ctx.cache.purge` of Workers does.
 */
export type Purge = (tags: readonly string[]) => Promise<unknown>;

/** What a platform takes at a time: 1,000 tags on Workers. */
const MOST_TAGS = 1_000;
/** Milliseconds until the first repeat of a purge that has failed, and at most between two. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 10_000;

interface Waiting {
  readonly tags: Set<string>;
  readonly done: Promise<void>;
  readonly settle: () => void;
}

export interface PurgesOptions {
  readonly purge: Purge;
  /** Milliseconds after which a call of `purge` has failed. */
  readonly longest: number;
  /** Is told why each call that has failed has. Never throws. */
  readonly onFailure: (error: unknown) => void;
  /** When it aborts, no further attempt begins. What waits is never resolved. */
  readonly over: AbortSignal;
}

export class Purges {
  readonly #options: PurgesOptions;
  #running: Waiting | undefined;
  #next: Waiting | undefined;

  constructor(options: PurgesOptions) {
    this.#options = options;
  }

  /** Resolves when the tags have been purged: by a call of the platform that began after this call. */
  add(tags: readonly string[]): Promise<void> {
    if (!tags.length) return Promise.resolve();
    this.#next ??= waiting();
    const { done, tags: all } = this.#next;
    for (const tag of tags) all.add(tag);
    if (!this.#running) void this.#run();
    return done;
  }

  /** Resolves when all that was added so far has been purged. */
  done(): Promise<void> {
    return (this.#next ?? this.#running)?.done ?? Promise.resolve();
  }

  async #run(): Promise<void> {
    while (this.#next && !this.#isOver) {
      [this.#running, this.#next] = [this.#next, undefined];
      const { tags, settle } = this.#running;
      const all = [...tags];
      for (let from = 0; from < all.length; from += MOST_TAGS)
        await this.#untilPurged(all.slice(from, from + MOST_TAGS));
      if (!this.#isOver) settle();
    }
    if (!this.#isOver) this.#running = undefined;
  }

  get #isOver(): boolean {
    return this.#options.over.aborted;
  }

  async #attempt(tags: readonly string[]): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const { purge, longest } = this.#options;
    const late = new Promise<never>((_, reject) => {
      const give = () => reject(new Error(`The purge was not answered within ${longest} ms.`));
      timer = setTimeout(give, longest);
    });
    const purged = async () => checkSuccess(await purge(tags)); // it may throw at once, too
    await Promise.race([purged(), late]).finally(() => clearTimeout(timer));
  }

  async #untilPurged(tags: readonly string[]): Promise<void> {
    for (let pause = FIRST_PAUSE; !this.#isOver; pause = Math.min(2 * pause, LONGEST_PAUSE))
      try {
        return await this.#attempt(tags);
      } catch (error) {
        this.#options.onFailure(error);
        await paused(pause, this.#options.over);
      }
  }
}

function checkSuccess(result: unknown): void {
  const { success, errors } = Object(result) as { readonly success?: unknown; readonly errors?: unknown };
  if (success === false) throw new Error(`The platform has not purged: ${JSON.stringify(errors)}`);
}

function waiting(): Waiting {
  let settle!: () => void;
  const done = new Promise<void>((resolve) => (settle = resolve));
  return { tags: new Set(), done, settle };
}
