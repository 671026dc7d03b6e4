// The one process that knows which stored answers are too old: it follows the changes of a database, and purges.
//
// Knows the stream of changes, the catalog's inheritance, and when to ask the fence. Must not know HTTP or a platform,
// or decide what is too old (fence.ts).
//
// A commit is acknowledged when its tags, and those of all earlier commits, have been purged. So the server sends it
// again to the next life of this process. What that life cannot know is purged as a whole when it begins. The stream
// does not wait for purges: those of many commits become one call.
import { changes, type Changes, type Commit } from "../changes.ts";
import { EQ } from "../util/operators.ts";
import type { Pool } from "../index.ts";
import { Fence, EVERYTHING, type Closing, type Opening } from "./fence.ts";
import { Purges, type Purge } from "./purges.ts";
import { widened } from "./visibility.ts";

export interface InvalidatorOptions {
  /** A slot of its own, as of `changes`: no other reader may have it. */
  readonly slot: string;
  /** The publication of the tables whose answers are stored. */
  readonly publication: string;
  readonly purge: Purge;
  /** Milliseconds from the end of an answer's body until the cache has surely stored it. Default 2,000. */
  readonly settle?: number | undefined;
  /** Maximum milliseconds from a query to the end of its answer's body. Default 60,000. */
  readonly maxFill?: number | undefined;
  /**
   * Milliseconds that purging may be behind the database before no new answer is stored. Default 5,000.
   */
  readonly maxLag?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Is told of each purge that has failed. It is repeated until it has not. */
  readonly onPurgeFailure?: ((error: unknown) => void) | undefined;
}

/** The options that have defaults. */
interface Times {
  readonly settle: number;
  readonly maxFill: number;
  readonly maxLag: number;
}

/** Why an answer must not be stored. */
export type Refusal = "outdated" | "full" | "behind" | "down";

export interface InvalidatorStats {
  readonly state: "down" | "following";
  /** Milliseconds for which the oldest purge has been waiting. */
  readonly lag: number;
  readonly fills: number;
  readonly commits: number;
  readonly tags: number;
}

/** The prefix of the messages of cache.sql. */
const DEFINITIONS_CHANGED = "pgz-edge/cache";
const MAX_FILLS = 100_000;
const MAX_COMMITS = 100_000;
/** Commits that wait for their purges before the stream waits too. */
const MAX_WAITING = 10_000;

/**
 * An id above all that were given before, with 64 bits. A snapshot's xmax is not: it is above those that are over, and
 * what waits for a synchronous standby is not over, though it may have been told.
 */
export const NEW_XID = "select pg_catalog.pg_current_xact_id()::pg_catalog.text as xid";
/** The tables that a table is a part of: partitioned ones, and those that it inherits from. */
export const ANCESTORS = `with recursive ancestors (oid) as (
    select inhparent from pg_catalog.pg_inherits where inhrelid ${EQ} $1::pg_catalog.oid
    union select inhparent from ancestors, pg_catalog.pg_inherits where inhrelid ${EQ} ancestors.oid
  ) select oid from ancestors`;

/** A tag for the answers that read this relation. It is not its name: a name says more than a stranger should know. */
export const tagOf = (oid: number): string => `${EVERYTHING}-${oid.toString(36)}`;

export class Invalidator {
  readonly #db: Pool;
  readonly #options: InvalidatorOptions & Times;
  readonly #purges: Purges;
  #fence: Fence | undefined;
  /** A recent id with 64 bits. */
  #near = 0;
  /** By relation: the tags of a change of it. Known until definitions change. */
  readonly #tagsOf = new Map<number, Promise<readonly string[]>>();
  /** When each commit came that has not been acknowledged, in their order. */
  readonly #waiting: number[] = [];
  #acknowledged = Promise.resolve();
  #feed: Changes | undefined;

  constructor(db: Pool, options: InvalidatorOptions) {
    this.#db = db;
    const { settle = 2_000, maxFill = 60_000, maxLag = 5_000 } = options;
    this.#options = { ...options, settle, maxFill, maxLag };
    this.#purges = new Purges(options.purge, options.onPurgeFailure ?? (() => {}));
  }

  get stats(): InvalidatorStats {
    const sizes = this.#fence?.sizes ?? { fills: 0, commits: 0, tags: 0 };
    return { state: this.#fence ? "following" : "down", lag: this.#lag(), ...sizes };
  }

  /** As {@link Fence.open}. */
  open(opening: Opening): Refusal | undefined {
    if (!this.#fence) return "down";
    return this.#lag() > this.#options.maxLag ? "behind" : this.#fence.open(opening, now());
  }

  close(closing: Closing): void {
    if (this.#fence) void this.#purges.add(this.#fence.close(closing, now()));
  }

  abandon(id: string): void {
    this.#fence?.abandon(id);
  }

  /** Follows the changes until `signal` is aborted. Rejects when the stream cannot be followed. */
  async run(): Promise<void> {
    const { settle, maxFill, slot, publication, signal } = this.#options;
    const { rows } = await this.#db.query<{ xid: string }>(NEW_XID);
    this.#near = Number(rows[0]!.xid);
    const fence = new Fence(
      { settle, maxFill, keep: 2 * (maxFill + settle), maxFills: MAX_FILLS, maxCommits: MAX_COMMITS },
      this.#near,
      now(),
    );
    const timer = setInterval(() => void this.#purges.add(fence.takeDue(now())), Math.max(10, settle / 4));
    try {
      await this.#purges.add([EVERYTHING]);
      this.#feed = changes(this.#db, { slot, publication, signal, messages: true });
      this.#fence = fence;
      await this.#follow(this.#feed, fence);
    } finally {
      this.#fence = undefined;
      clearInterval(timer);
      this.#purges.end();
    }
  }

  async #follow(feed: Changes, fence: Fence): Promise<void> {
    const oids = new Map<string, number>();
    let tags = new Set<string>();
    const changed = async (schema: string, table: string) => {
      const oid = oids.get(JSON.stringify([schema, table]))!;
      for (const tag of await this.#tags(oid)) tags.add(tag);
    };
    for await (const change of feed) {
      if (change.kind === "schema") oids.set(JSON.stringify([change.schema, change.table]), change.oid);
      else if (change.kind === "message") {
        if (change.prefix === DEFINITIONS_CHANGED) tags.add(EVERYTHING);
      } else if (change.kind === "truncate")
        for (const { schema, table } of change.tables) await changed(schema, table);
      else if ("table" in change) await changed(change.schema, change.table);
      else if (change.kind === "commit") {
        this.#commit(change, [...tags], fence);
        tags = new Set();
        if (this.#waiting.length > MAX_WAITING) await this.#acknowledged;
      }
    }
  }

  #commit(change: Commit, tags: readonly string[], fence: Fence): void {
    const xid = widened(change.xid, this.#near);
    this.#near = Math.max(this.#near, xid);
    if (tags.includes(EVERYTHING)) this.#tagsOf.clear();
    const purged = this.#purges.add(fence.commit({ xid, tags }, now()));
    this.#waiting.push(now());
    this.#acknowledged = this.#acknowledged.then(async () => {
      await purged;
      this.#waiting.shift();
      await change.acknowledge().catch(() => {}); // the stream is over: the commit comes again
    });
  }

  /**
   * The tags of a change of a relation: its own, and those of the tables that it is a part of, since a query names
   * these. The catalog may already have a definition that the stream has not reached. That change of definitions
   * purges everything when it comes.
   */
  #tags(oid: number): Promise<readonly string[]> {
    const known = this.#tagsOf.get(oid);
    if (known) return known;
    const asked = this.#db
      .query<{ oid: number }>(ANCESTORS, [oid])
      .then(({ rows }) => [oid, ...rows.map((row) => row.oid)].map(tagOf));
    this.#tagsOf.set(oid, asked);
    return asked;
  }

  /** Milliseconds that purging is behind the database, as far as is known here. */
  #lag(): number {
    const [oldest] = this.#waiting;
    const ofStream = 1_000 * (this.#feed?.stats().lagSeconds ?? 0);
    return Math.max(ofStream, oldest === undefined ? 0 : now() - oldest);
  }
}

const now = () => performance.now();
