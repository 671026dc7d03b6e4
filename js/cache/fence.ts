// Which stored answers are too old: the state of the invalidator, and all its decisions.
//
// Knows fills, commits, tags and snapshots. Must not know SQL, a cache, a clock or a socket: each call is given the
// time, and returns the tags to purge now.
//
// A fill is one run of a query whose answer a cache may store:
//
//   open ──── the query runs, its body is read ──── close ── settle ──▶ forgotten
//    │                                               │          │
//    the tags are known,                  the snapshot is      the cache has surely
//    the snapshot is not                  known too            stored it by now
//
// No body ends well later than `maxFill` after its fill was opened: who sends it breaks it off.
//
// A 304 is a fill too. It tells a cache that an answer which it has is up to date, and may arrive after a purge. Its
// snapshot is known when it is opened, and when it has arrived is not told: it settles when `maxFill` is over.
//
// A commit to a tag purges what is stored. It does not purge what will be stored later: an answer that was read before
// the commit and reaches the cache after the purge would be served for its whole lifetime. So each fill is compared
// with each commit to its tags. Where the fill's snapshot does not see the commit, its tags are purged at once, and
// again when it has surely been stored (`settle` after its end). It does not matter which of the two is told first:
//
//   commit told before close   close() finds it in the log of commits
//   commit told after close    commit() finds the fill among those that settle
//   fill is never closed       it ends `maxFill` after it was opened, and its tags are purged as if it saw nothing
//   commit is forgotten        a snapshot that may miss it counts as one that does
//
// A change of definitions (DDL) is a commit to EVERYTHING: a new table may hide another of the same name, so there is
// no telling which statements it concerns. Both the query and the learning of its tags must have seen it: what was
// learned before it may name the wrong tables, and so may what was learned after it, when the query ran on a standby
// that had not replayed it. What is learned lives for hours, so changes of definitions have a log of their own, which
// other commits do not push out of memory.
//
// A transaction that runs while a table joins the publication: its changes of that table are never told. So after a
// change of a publication nothing counts that was learned, or read, while such a transaction ran (`mayMiss`,
// `tellsFrom`).
import { CommitLog, type Commit } from "./commit-log.ts";
import { EVERYTHING } from "./tags.ts";
import { Validators } from "./validators.ts";
import { sees, type Snapshot } from "./visibility.ts";

export interface FenceOptions {
  /** Milliseconds from the end of a body until a cache has surely stored it. */
  readonly settle: number;
  /** Milliseconds from the opening of a fill until its body has surely ended. */
  readonly maxFill: number;
  /** Milliseconds until all is stored that earlier lives have opened. Default `maxFill + settle`. */
  readonly unknownFor?: number;
  /** Maximum fills that are open or settle. */
  readonly maxFills?: number;
  /** Maximum commits that are kept. */
  readonly maxCommits?: number;
  /** Maximum changes of definitions that are kept, for however long. */
  readonly maxDefinitions?: number;
  /** Maximum answers that can be confirmed without a query. */
  readonly maxValidators?: number;
}

/** What a Durable Object has room for (128 MB), with the statements and URLs that the invalidator knows. */
const DEFAULTS = { maxFills: 50_000, maxCommits: 50_000, maxDefinitions: 1_000, maxValidators: 10_000 };

/** What a fill is known by when it is opened. */
export interface Opening {
  readonly id: string;
  readonly tags: readonly string[];
  /** A name of all that decides the bytes of the answer. */
  readonly representation: string;
  /** The snapshot from before the tags were learned. */
  readonly learned: Snapshot;
  /** Milliseconds for which the answer may be stored. */
  readonly maxAge: number;
}

interface Fill {
  /** Its tags have each tag once, and EVERYTHING last. */
  readonly opening: Opening;
  readonly openedAt: number;
  /** Undefined while the fill is open. */
  readonly endedAt?: number;
  /** Of its query, or older. Undefined: not known yet. */
  readonly snapshot?: Snapshot;
  /** Whether its tags are to be purged when it has settled. */
  isStale: boolean;
}

/** How old a snapshot may be, in the longest times that a fill takes: a commit is kept for as long. */
const KEPT = 2;
const NOTHING: readonly string[] = [];
/** Sees nothing. */
const NEVER: Snapshot = { xmin: 0, xmax: 0, xip: new Float64Array(), isStandby: false };

export class Fence {
  readonly #options: Required<FenceOptions>;
  /** In the order of their opening. */
  readonly #open = new Map<string, Fill>();
  /** Fills that have ended less than `settle` ago, in the order of their ends. */
  readonly #settling = new Set<Fill>();
  /** Both of these by tag. */
  readonly #byTag = new Map<string, Set<Fill>>();
  readonly #validators: Validators;
  readonly #log: CommitLog;
  /** Changes of definitions: what is learned must have seen them all. */
  readonly #definitions: CommitLog;
  /** Of transactions with lower ids, changes of published tables may not be told. */
  #toldFrom = 0;
  /**
   * By tag: until when an answer with it may be stored. A tag that no fill has used since its last purge is not stored
   * anywhere, so a commit to it purges nothing.
   */
  readonly #storedUntil = new Map<string, number>();
  /** Until then answers may be stored of which this object does not know; undefined: no longer. */
  #unknownUntil: number | undefined;

  /**
   * `before`: commits with lower ids may have been processed in an earlier life of the invalidator. What was stored or
   * begun in it is unknown: purge EVERYTHING now. `takeDue` says when to do so once more.
   */
  constructor(options: FenceOptions, before: number, now: number) {
    const unknownFor = options.maxFill + options.settle;
    this.#options = { ...DEFAULTS, unknownFor, ...options };
    this.#validators = new Validators(this.#options.maxValidators);
    this.#log = new CommitLog(this.#options.maxCommits, before);
    this.#definitions = new CommitLog(this.#options.maxDefinitions, before);
    this.#unknownUntil = now + this.#options.unknownFor;
  }

  /** Fills that are open or settle, and commits that are kept. */
  get sizes() {
    return { fills: this.#open.size + this.#settling.size, commits: this.#log.length, tags: this.#storedUntil.size };
  }

  /**
   * Opens a fill whose tags are still true ({@link isLearned}). Returns whether its answer may be stored. Only after
   * that may headers leave that let a cache store it. It may not if there are too many, or if the id is in use.
   */
  open(opening: Opening, now: number, snapshot?: Snapshot): boolean {
    if (this.#open.size + this.#settling.size >= this.#options.maxFills || this.#open.has(opening.id)) return false;
    const tags = [...new Set([...opening.tags, EVERYTHING])];
    const fill = { opening: { ...opening, tags }, openedAt: now, isStale: false, ...(snapshot && { snapshot }) };
    this.#open.set(opening.id, fill);
    this.#index(fill, now + this.#options.maxFill + this.#options.settle + opening.maxAge);
    return true;
  }

  /**
   * Opens a fill that confirms an answer of an earlier one. `ids`: the fills whose answers the cache has. Returns the
   * id of the one that is confirmed; undefined: the query has to run.
   */
  revalidate(opening: Opening, ids: readonly string[], now: number): string | undefined {
    const known = this.#validators.find(ids, opening.representation);
    return known && this.open(opening, now, known.snapshot) ? known.id : undefined;
  }

  /** The body has ended, or has broken off. */
  close({ id, tags }: Pick<Opening, "id" | "tags">, snapshot: Snapshot, now: number): readonly string[] {
    const open = this.#open.get(id);
    if (!open) return this.closeUnknown(tags, now);
    this.#drop(open);
    const isStale = !this.isFresh({ ...open.opening, snapshot });
    const fill = { ...open, endedAt: now, snapshot, isStale };
    this.#settling.add(fill);
    if (!isStale) this.#validators.add({ ...open.opening, snapshot });
    this.#index(fill, now + this.#options.settle + open.opening.maxAge);
    return isStale ? ownOf(fill) : NOTHING;
  }

  /**
   * The body of a fill has ended that is not open any more: it took too long, or is of an earlier life. Its tags were
   * purged, but it may be stored only now.
   */
  closeUnknown(given: readonly string[], now: number): readonly string[] {
    const tags = [...new Set([...given, EVERYTHING])];
    const opening = { id: "", tags, representation: "", learned: NEVER, maxAge: 0 };
    const fill = { opening, openedAt: now, endedAt: now, snapshot: NEVER, isStale: true };
    this.#settling.add(fill);
    this.#index(fill, Infinity); // until it is purged
    return ownOf(fill);
  }

  /** No answer has left that a cache could store. */
  abandon(id: string): void {
    const fill = this.#open.get(id);
    if (fill) this.#drop(fill);
  }

  /**
   * A commit of the stream, in the stream's order. It may be acknowledged when the returned tags have been purged.
   */
  commit(commit: Commit, now: number): readonly string[] {
    if (!commit.tags.length) return NOTHING;
    this.#log.add(commit, now);
    this.#validators.commit(commit);
    if (commit.tags.includes(EVERYTHING)) this.#definitions.add({ xid: commit.xid, tags: [EVERYTHING] }, now);
    for (const tag of commit.tags) for (const fill of this.#byTag.get(tag) ?? []) fill.isStale ||= misses(fill, commit);
    return this.#stored(commit.tags, now);
  }

  /** Whether an answer has all commits to its tags that were told so far, and none was untold. */
  isFresh({ tags, learned, snapshot }: Pick<Opening, "tags" | "learned"> & { readonly snapshot: Snapshot }): boolean {
    if (snapshot.xmin < this.#toldFrom) return false;
    return this.isLearned(learned) && this.#log.isSeenBy(snapshot, [...tags, EVERYTHING]);
  }

  /** Whether tags that were learned at this snapshot are still true. */
  isLearned(learned: Snapshot): boolean {
    return learned.xmin >= this.#toldFrom && this.seesDefinitions(learned);
  }

  /** Whether the snapshot sees all changes of definitions that were told so far. */
  seesDefinitions(snapshot: Snapshot): boolean {
    return this.#definitions.isSeenBy(snapshot, [EVERYTHING]);
  }

  /** A publication has changed: transactions that run may have changed a table before it joined. Nothing counts now. */
  mayMiss(): void {
    this.#toldFrom = Infinity;
    this.#validators.clear();
    for (const fill of [...this.#open.values(), ...this.#settling]) if (fill.snapshot) fill.isStale = true;
  }

  /** Transactions from this id on are told. What was learned when all earlier ones were over counts again. */
  tellsFrom(xid: number): void {
    this.#toldFrom = xid;
  }

  /** The tags that are due: of fills that have settled, or were never closed. */
  takeDue(now: number): readonly string[] {
    const { settle, maxFill } = this.#options;
    const due = new Set<string>();
    const drop = (fill: Fill, isStale: boolean) => {
      if (isStale) for (const tag of ownOf(fill)) due.add(tag);
      this.#drop(fill);
    };
    for (const fill of this.#open.values()) {
      if (fill.openedAt + maxFill + settle > now) break;
      drop(fill, fill.isStale || !fill.snapshot);
    }
    for (const fill of this.#settling) {
      if (fill.endedAt! + settle > now) break;
      drop(fill, fill.isStale);
    }
    this.#log.forget(now - KEPT * (maxFill + settle));
    for (const [tag, until] of this.#storedUntil) if (until <= now) this.#storedUntil.delete(tag);
    if (this.#unknownUntil === undefined || this.#unknownUntil > now) return this.#stored([...due], now);
    this.#unknownUntil = undefined;
    return [EVERYTHING];
  }

  /** The tags among these with which an answer may be stored. */
  #stored(tags: readonly string[], now: number): readonly string[] {
    if (this.#unknownUntil !== undefined) return tags;
    return tags.filter((tag) => {
      const mayBeStored = (this.#storedUntil.get(tag) ?? 0) > now;
      if (!this.#byTag.has(tag)) this.#storedUntil.delete(tag); // the purge leaves none
      return mayBeStored;
    });
  }

  #index(fill: Fill, storedUntil: number): void {
    for (const tag of fill.opening.tags) {
      const fills = this.#byTag.get(tag) ?? new Set();
      this.#byTag.set(tag, fills.add(fill));
      this.#storedUntil.set(tag, Math.max(this.#storedUntil.get(tag) ?? 0, storedUntil));
    }
  }

  #drop(fill: Fill): void {
    if (fill.endedAt !== undefined) this.#settling.delete(fill);
    else this.#open.delete(fill.opening.id);
    for (const tag of fill.opening.tags) {
      const fills = this.#byTag.get(tag)!;
      fills.delete(fill);
      if (!fills.size) this.#byTag.delete(tag);
    }
  }
}

/** The tags that purge one fill. An answer that reads no relation has only the tag of all. */
const ownOf = ({ opening: { tags } }: Fill): readonly string[] =>
  tags.length > 1 ? tags.filter((tag) => tag !== EVERYTHING) : tags;

/** Whether an answer lacks a commit to one of its tags. What it lacks when it is closed, `close` finds. */
function misses({ opening: { learned }, snapshot }: Fill, { xid, tags }: Commit): boolean {
  if (!snapshot) return false;
  return !sees(snapshot, xid) || (tags.includes(EVERYTHING) && !sees(learned, xid));
}
