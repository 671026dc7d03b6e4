// Answers that are known to be up to date: a cache that has one may be told 304 without a query.
//
// Knows fills that have ended, and commits. Must not know HTTP.
//
//   close ── fresh ──▶ kept ── a commit that its snapshot does not see ──▶ dropped
//
// So no log of commits is needed, however old an answer is. What is not known here has to be read again.
import type { Commit } from "./commit-log.ts";
import { EVERYTHING } from "./tags.ts";
import { sees, type Snapshot } from "./visibility.ts";

/** An answer that lacks no commit that was told so far. */
export interface Validated {
  /** Of its fill. */
  readonly id: string;
  /** A name of all that decides its bytes. */
  readonly representation: string;
  readonly tags: readonly string[];
  readonly snapshot: Snapshot;
}

export class Validators {
  readonly #most: number;
  /** By the id of the fill, in the order of their ends. */
  readonly #known = new Map<string, Validated>();
  readonly #byTag = new Map<string, Set<string>>();

  constructor(most: number) {
    this.#most = most;
  }

  get size(): number {
    return this.#known.size;
  }

  add(answer: Validated): void {
    const { id } = answer;
    this.#known.set(id, answer);
    for (const tag of answer.tags) {
      const ids = this.#byTag.get(tag) ?? new Set();
      this.#byTag.set(tag, ids.add(id));
    }
    if (this.#known.size > this.#most) this.#drop(this.#known.keys().next().value!);
  }

  /** The first of these answers that is up to date and is what is asked for. */
  find(ids: readonly string[], representation: string): Validated | undefined {
    for (const id of ids) {
      const known = this.#known.get(id);
      if (known?.representation === representation) return known;
    }
    return undefined;
  }

  commit({ xid, tags }: Commit): void {
    if (tags.includes(EVERYTHING)) return this.clear();
    for (const tag of tags)
      for (const id of this.#byTag.get(tag) ?? []) if (!sees(this.#known.get(id)!.snapshot, xid)) this.#drop(id);
  }

  /** Definitions have changed. */
  clear(): void {
    this.#known.clear();
    this.#byTag.clear();
  }

  #drop(id: string): void {
    const { tags } = this.#known.get(id)!;
    this.#known.delete(id);
    for (const tag of tags) {
      const ids = this.#byTag.get(tag)!;
      ids.delete(id);
      if (!ids.size) this.#byTag.delete(tag);
    }
  }
}
