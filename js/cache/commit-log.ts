// The commits that a snapshot may miss.
//
// Knows ids, tags and snapshots. Must not know fills or time.
//
// A snapshot is compared with the commits to its tags. They come in the order of their commits, but an id is given
// when a transaction first writes, so the ids of a list do not ascend. Each entry has the highest id so far, so
// a scan backwards stops at the first entry whose highest id is below the snapshot's xmin.
//
//   by tag     xid       812   799   815   820
//              highest   812   812   815   820      a snapshot 816:820:… looks at 820 only
import { sees, type Snapshot } from "./visibility.ts";

export interface Commit {
  /** With 64 bits. */
  readonly xid: number;
  readonly tags: readonly string[];
}

interface Told extends Commit {
  /** When, in milliseconds. */
  readonly at: number;
}

interface Logged {
  readonly xid: number;
  readonly highest: number;
}

export class CommitLog {
  readonly #most: number;
  readonly #commits = new Queue<Told>();
  readonly #byTag = new Map<string, Queue<Logged>>();
  readonly #forgotten: Forgotten;

  /** `most`: commits that are kept. `before`: ids below it may be of commits that were forgotten. */
  constructor(most: number, before: number) {
    this.#most = most;
    this.#forgotten = new Forgotten(most, before - 1);
  }

  get length(): number {
    return this.#commits.length;
  }

  add(commit: Commit, at: number): void {
    this.#commits.push({ ...commit, at });
    for (const tag of commit.tags) {
      const list = this.#byTag.get(tag) ?? new Queue();
      this.#byTag.set(tag, list);
      list.push({ xid: commit.xid, highest: Math.max(commit.xid, list.last?.highest ?? 0) });
    }
    if (this.#commits.length > this.#most) this.#forgetFirst();
  }

  /** Forgets the commits that were told before then. */
  forget(before: number): void {
    for (let first; (first = this.#commits.first) && first.at <= before;) this.#forgetFirst();
  }

  #forgetFirst(): void {
    const commit = this.#commits.shift()!;
    this.#forgotten.add(commit.xid);
    for (const tag of commit.tags) {
      const list = this.#byTag.get(tag)!;
      list.shift();
      if (!list.length) this.#byTag.delete(tag);
    }
  }

  /** Whether the snapshot sees all commits to these tags, as far as that is known. */
  isSeenBy(snapshot: Snapshot, tags: readonly string[]): boolean {
    return !this.#forgotten.mayBeMissedBy(snapshot) && tags.every((tag) => this.#isListSeenBy(snapshot, tag));
  }

  #isListSeenBy(snapshot: Snapshot, tag: string): boolean {
    const list = this.#byTag.get(tag);
    for (let back = 1; list && back <= list.length; back++) {
      const { xid, highest } = list.fromEnd(back);
      if (highest < snapshot.xmin) return true;
      if (!sees(snapshot, xid)) return false;
    }
    return true;
  }
}

/**
 * Ids of commits whose tags are no longer known. A snapshot that may miss one of them may miss anything.
 *
 * A transaction that runs for hours keeps xmin low, so xmin alone would call every snapshot of these hours too old. So
 * the latest ids are kept: what still runs is not among them. Below `#floor` nothing is known.
 */
class Forgotten {
  readonly #most: number;
  readonly #ids = new Set<number>();
  #highest: number;
  #floor: number;

  constructor(most: number, floor: number) {
    this.#most = most;
    this.#floor = this.#highest = floor;
  }

  add(xid: number): void {
    this.#ids.add(xid);
    this.#highest = Math.max(this.#highest, xid);
    if (this.#ids.size <= this.#most) return;
    const [first] = this.#ids;
    this.#ids.delete(first!);
    this.#floor = Math.max(this.#floor, first!);
  }

  mayBeMissedBy(snapshot: Snapshot): boolean {
    if (this.#highest < snapshot.xmin) return false;
    if (!sees(snapshot, this.#highest)) return true;
    for (const running of snapshot.xip) if (running <= this.#floor || this.#ids.has(running)) return true;
    return false;
  }
}

/** First in, first out, and read from its end. An array's shift() moves all that is behind it. */
class Queue<T> {
  #items: T[] = [];
  /** Where the first item is. */
  #from = 0;

  get length(): number {
    return this.#items.length - this.#from;
  }

  get first(): T | undefined {
    return this.#items[this.#from];
  }

  get last(): T | undefined {
    return this.length ? this.#items.at(-1) : undefined;
  }

  /** 1 is the last item. */
  fromEnd(back: number): T {
    return this.#items[this.#items.length - back]!;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  shift(): T | undefined {
    const item = this.#items[this.#from++];
    if (this.#from > 1_000 && this.#from * 2 > this.#items.length) {
      this.#items = this.#items.slice(this.#from);
      this.#from = 0;
    }
    return item;
  }
}
