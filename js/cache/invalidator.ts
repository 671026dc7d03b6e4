// The one process that knows which stored answers are too old: it follows the changes of a database, and purges.
//
// Knows the stream of changes, the catalog's inheritance, and when to ask the fence. Must not know HTTP or a platform,
// or decide what is too old (fence.ts).
//
//   connection of the stream ── heartbeat comes back ── a life: fills may be opened ── the next connection ──▶
//
// A life has a fence of its own, and begins with a purge of all. After a failover, or a crash of a server with
// asynchronous commits, an answer may have what the database has not, and ids are given again: no fence can tell. So
// each connection of the stream is a new life. What is told names the life that it belongs to, and counts in no other.
//
// A commit is acknowledged when its tags, and those of all earlier commits, have been purged. So the server sends it
// again to the next run. The stream does not wait for purges: those of many commits become one call.
import { changes, type Changes, type Commit } from "../changes.ts";
import { AbortError, UsageError, type Pool } from "../index.ts";
import { EQ } from "../util/operators.ts";
import { Answers } from "./answers.ts";
import { Dependencies, type Dependency } from "./dependencies.ts";
import { Fence } from "./fence.ts";
import { Heartbeat } from "./heartbeat.ts";
import { LOG, type Moment } from "./moment.ts";
import { Purges, type Purge } from "./purges.ts";
import { rowsOf } from "./question.ts";
import { EVERYTHING, tagOf } from "./tags.ts";
import { readSnapshot, widened } from "./visibility.ts";

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
   * Milliseconds that purging may be behind the database before no new answer is stored. A message that goes through
   * the database every `maxLag / 4` shows how far it is. Default 5,000.
   */
  readonly maxLag?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Is told why a purge, or a question to the database, has failed. It is repeated until it has not. */
  readonly onFailure?: ((error: unknown) => void) | undefined;
}

/** The options that have defaults. */
interface Times {
  readonly settle: number;
  readonly maxFill: number;
  readonly maxLag: number;
}

/** A query that is about to run, and where its isolate expects to run it. */
export interface FillOpening extends Pick<Moment, "fingerprint" | "log"> {
  readonly id: string;
  /** Its text. */
  readonly statement: string;
  readonly publication: string;
  /** A hash of what the cache finds the answer by. */
  readonly url: string;
  /** Whether the cache tells answers for one visitor from those for another. */
  readonly isSeparated: boolean;
  /** A hash of what decides its rows: the text, its parameters, the fingerprint. */
  readonly answer: string;
  /** A hash of what decides its bytes: the URL, the answer, the form of the rows. */
  readonly representation: string;
  /** The ids of the fills whose answers the cache has. */
  readonly validators: readonly string[];
  /** Milliseconds for which the answer may be stored. */
  readonly maxAge: number;
}

/**
 * Why an answer must not be stored.
 *
 * - `down`: the invalidator does not follow the database.
 * - `elsewhere`: it follows another publication, database or server, or one on another timeline.
 * - `unknown`: {@link Invalidator.learn} has not been told of the statement since definitions have changed.
 * - `unfit`: the answer may change without a commit.
 * - `behind`: it is more than `maxLag` behind the database.
 * - `mixed`: the cache may have another answer under the same URL.
 * - `full`: too many answers have not ended.
 */
export type Refusal = "down" | "elsewhere" | "unknown" | "unfit" | "behind" | "mixed" | "full";

/** A life of the invalidator. What an isolate was told in one counts in no other. */
export interface Life {
  readonly life: string;
  /** Milliseconds since it has begun. */
  readonly age: number;
}

/** The answer may be stored. */
export interface Admitted extends Life {
  readonly tags: readonly string[];
  /** Milliseconds after which the body must not end well. */
  readonly maxFill: number;
  /** The answer of this fill is up to date. The query need not run, and there is nothing to close. */
  readonly validator?: string | undefined;
}

export interface Refused extends Partial<Life> {
  readonly refusal: Refusal;
  /** Of `unfit`. */
  readonly reason?: string;
}

/** What the invalidator says to a query. */
export type Opened = Admitted | Refused;

/** An answer whose body has ended, and the moment before it was read. */
export interface FillClosing extends Pick<Moment, "snapshot" | "isStandby"> {
  readonly life: string;
  readonly id: string;
}

export interface InvalidatorStats {
  readonly state: "down" | "following";
  /** Milliseconds: what was committed before has been purged. Infinity before the first heartbeat. */
  readonly lag: number;
  readonly fills: number;
  readonly commits: number;
  readonly tags: number;
}

/** The prefix of the messages of cache.sql. Their content is the command. */
const DEFINITIONS_CHANGED = "pgz-edge/cache";
const HEARTBEAT = "pgz-edge/cache-heartbeat";
/** The end of the commands after which transactions that run may have changed a table before it was published. */
const OF_PUBLICATION = " PUBLICATION";
const MAX_FILLS = 100_000;
const MAX_COMMITS = 100_000;
const MAX_DEFINITIONS = 1_000;
const MAX_STATEMENTS = 10_000;
const MAX_URLS = 100_000;
const MAX_VALIDATORS = 20_000;
/** Commits that wait for their purges before the stream waits too. */
const MAX_WAITING = 10_000;

/**
 * An id above all that were given before, with 64 bits. A snapshot's xmax is not: it is above those that are over, and
 * what waits for a synchronous standby is not over, though it may have been told.
 */
export const NEW_XID = `select pg_catalog.pg_current_xact_id()::pg_catalog.text as xid, ${LOG} as log`;
/** Writes a heartbeat, and says whether the event triggers of cache.sql are there. */
export const BEAT = `select pg_catalog.pg_logical_emit_message(true, '${HEARTBEAT}', $1::pg_catalog.text),
  (select pg_catalog.count(*) from pg_catalog.pg_event_trigger as t
    join pg_catalog.pg_proc as p on p.oid ${EQ} t.evtfoid
    join pg_catalog.pg_namespace as n on n.oid ${EQ} p.pronamespace
    where n.nspname ${EQ} 'pgz_edge_cache' and p.proname ${EQ} 'definitions_changed' and t.evtenabled ${EQ} 'A'
  ) ${EQ} 3 as armed`;
/** The tables that a table is a part of (partitioned ones, those that it inherits from), and the snapshot for that. */
export const ANCESTORS = `with recursive ancestors (oid) as (
    select inhparent from pg_catalog.pg_inherits where inhrelid ${EQ} $1::pg_catalog.oid
    union select inhparent from ancestors, pg_catalog.pg_inherits where inhrelid ${EQ} ancestors.oid
  ) select array(select oid from ancestors) as ancestors, pg_catalog.pg_current_snapshot()::pg_catalog.text as snapshot`;

/** Milliseconds that a question to the database, or one call of `purge`, may take. */
const LONGEST_CALL = 10_000;
/** Milliseconds until a question that has failed is asked again. */
const PAUSE = 1_000;

export class Invalidator {
  readonly #db: Pool;
  readonly #options: InvalidatorOptions & Times;
  #run: Run | undefined;

  constructor(db: Pool, options: InvalidatorOptions) {
    this.#db = db;
    const { settle = 2_000, maxFill = 60_000, maxLag = 5_000 } = options;
    this.#options = { ...options, settle, maxFill, maxLag };
  }

  get stats(): InvalidatorStats {
    return this.#run?.stats ?? NOT_RUNNING;
  }

  /**
   * Opens a fill. Only after that may headers leave that let a cache store the answer.
   *
   * @throws UsageError `INVALID_OPTION` if `maxAge` is no number of milliseconds
   */
  open(opening: FillOpening): Opened {
    if (!(opening.maxAge >= 0 && opening.maxAge < Infinity))
      throw new UsageError("INVALID_OPTION", "maxAge must be a number of milliseconds, of at least 0.");
    return this.#run?.open(opening) ?? { refusal: "down" };
  }

  /** Is told what was learned of a statement after this life was heard of. */
  learn(life: string, dependency: Dependency): void {
    this.#run?.learn(life, dependency);
  }

  /** The body has ended, or has broken off. */
  close(closing: FillClosing): void {
    this.#run?.close(closing);
  }

  /** No answer has left that a cache could store. */
  abandon(life: string, id: string): void {
    this.#run?.abandon(life, id);
  }

  /**
   * Follows the changes until `signal` is aborted. Rejects when the stream cannot be followed; call it again when the
   * reason is mended.
   *
   * @throws UsageError `STREAM_OPEN` if it runs already, `INVALID_OPTION` if cache.sql was not run in the database
   */
  async run(): Promise<void> {
    if (this.#run) throw new UsageError("STREAM_OPEN", "This invalidator runs already.");
    this.#run = new Run(this.#db, this.#options);
    try {
      await this.#run.follow();
    } finally {
      this.#run.end();
      this.#run = undefined;
    }
  }
}

const NOT_RUNNING: InvalidatorStats = { state: "down", lag: Infinity, fills: 0, commits: 0, tags: 0 };

/** What is known in one life. */
interface Known {
  readonly id: string;
  readonly beganAt: number;
  /** {@link Moment.log} of the server that is followed. */
  readonly log: string;
  readonly fence: Fence;
  readonly dependencies: Dependencies;
  readonly answers: Answers;
}

/** From the call of `run` to its end. */
class Run {
  readonly #db: Pool;
  readonly #options: InvalidatorOptions & Times;
  readonly #purges: Purges;
  readonly #heartbeat: Heartbeat;
  readonly #over = new AbortController();
  /** Aborted by the caller, or by `#over`. */
  readonly #signal: AbortSignal;
  readonly #feed: Changes;
  readonly #timer: ReturnType<typeof setInterval>;
  /** Without it nothing may be opened. */
  #life: Known | undefined;
  /** The connection of the stream whose life it is. */
  #connection = 0;
  /** A recent id with 64 bits. */
  #near = 0;
  /** By relation: the tags of a change of it. Known until definitions change. */
  readonly #tagsOf = new Map<number, readonly string[]>();
  /** When each commit came that has not been acknowledged, in their order. */
  readonly #waiting: number[] = [];
  #acknowledged = Promise.resolve();

  constructor(db: Pool, options: InvalidatorOptions & Times) {
    this.#db = db;
    this.#options = options;
    this.#purges = new Purges(options.purge, LONGEST_CALL, (error) => this.#tell(error));
    this.#heartbeat = new Heartbeat((beat) => this.#beat(beat), options.maxLag / 4);
    const { slot, publication, signal, settle } = options;
    this.#signal = signal ? AbortSignal.any([signal, this.#over.signal]) : this.#over.signal;
    this.#feed = changes(db, { slot, publication, signal: this.#signal, messages: true });
    this.#timer = setInterval(() => this.#tick(), Math.max(10, settle / 4));
  }

  get stats(): InvalidatorStats {
    const sizes = this.#life?.fence.sizes ?? { fills: 0, commits: 0, tags: 0 };
    return { state: this.#life ? "following" : "down", lag: this.#lag(), ...sizes };
  }

  open(opening: FillOpening): Opened | undefined {
    const life = this.#life;
    if (!life) return undefined;
    const { maxLag, maxFill } = this.#options;
    const of: Life = { life: life.id, age: now() - life.beganAt };
    const isHere = opening.publication === this.#options.publication && opening.log === life.log;
    if (!isHere) return { ...of, refusal: "elsewhere" };
    const dependency = life.dependencies.of(opening.statement, opening.fingerprint);
    if (!dependency || !life.fence.isLearned(snapshotOf(dependency))) return { ...of, refusal: "unknown" };
    const { tags, reasons, isPersonal } = dependency;
    const isForAll = !isPersonal || opening.isSeparated;
    const unfit = isForAll ? reasons : [...reasons, "it depends on who asks (option separatedBy)"];
    if (unfit.length) return { ...of, refusal: "unfit", reason: unfit.join("; ") };
    if (this.#lag() > maxLag) return { ...of, refusal: "behind" };
    if (!this.#isOnly(life, opening, tags)) return { ...of, refusal: "mixed" };
    const { id, maxAge, representation, validators } = opening;
    const fill = { id, tags, maxAge, representation, learned: snapshotOf(dependency) };
    const validator = life.fence.revalidate(fill, validators, now());
    if (validator !== undefined) return { ...of, tags, maxFill, validator };
    return life.fence.open(fill, now()) ? { ...of, tags, maxFill } : { ...of, refusal: "full" };
  }

  /** Whether the cache has no other answer under the URL. */
  #isOnly({ answers }: Known, { url, answer, maxAge }: FillOpening, tags: readonly string[]): boolean {
    const mixed = answers.claim(url, { answer, tags: tags.length ? tags : [EVERYTHING], maxAge }, now());
    if (mixed?.length) {
      void this.#purges.add(mixed);
      this.#tell(twoAnswers());
    }
    return !mixed;
  }

  learn(life: string, dependency: Dependency): void {
    if (this.#life?.id === life && this.#life.log === dependency.log) this.#life.dependencies.add(dependency);
  }

  close({ life, id, snapshot, isStandby }: FillClosing): void {
    if (this.#life?.id !== life) return; // what was open in another life is purged by this one
    void this.#purges.add(this.#life.fence.close(id, readSnapshot(snapshot, isStandby), now()));
  }

  abandon(life: string, id: string): void {
    if (this.#life?.id === life) this.#life.fence.abandon(id);
  }

  end(): void {
    this.#life = undefined;
    clearInterval(this.#timer);
    this.#purges.end();
    this.#over.abort();
  }

  async follow(): Promise<void> {
    try {
      await this.#follow();
    } catch (error) {
      if (this.#over.signal.aborted) throw this.#over.signal.reason;
      throw this.#signal.aborted && !(error instanceof AbortError) ? new AbortError(this.#signal.reason) : error;
    }
  }

  async #follow(): Promise<void> {
    const oids = new Map<string, number>();
    let tags = new Set<string>();
    let isOfPublication = false;
    const changed = async (schema: string, table: string) => {
      if (tags.has(EVERYTHING)) return;
      const oid = oids.get(JSON.stringify([schema, table]))!;
      for (const tag of await this.#tags(oid)) tags.add(tag);
    };
    for await (const change of this.#feed) {
      if (change.kind === "begin") [tags, isOfPublication] = [new Set(), false];
      else if (change.kind === "schema") oids.set(JSON.stringify([change.schema, change.table]), change.oid);
      else if (change.kind === "message") {
        if (change.prefix === HEARTBEAT) await this.#cameBack(change.content!);
        if (change.prefix !== DEFINITIONS_CHANGED) continue;
        tags.add(EVERYTHING);
        isOfPublication ||= change.content!.endsWith(OF_PUBLICATION);
      } else if (change.kind === "truncate")
        for (const { schema, table } of change.tables) await changed(schema, table);
      else if ("table" in change) await changed(change.schema, change.table);
      else if (change.kind === "commit") await this.#commit(change, [...tags], isOfPublication);
    }
  }

  async #commit(change: Commit, tags: readonly string[], isOfPublication: boolean): Promise<void> {
    if (this.#feed.stats().connections !== this.#connection) this.#life = undefined;
    const fence = this.#life?.fence;
    const xid = widened(change.xid, this.#near);
    this.#near = Math.max(this.#near, xid);
    if (tags.includes(EVERYTHING)) this.#tagsOf.clear();
    this.#purgeOf(change, fence ? fence.commit({ xid, tags }, now()) : tags);
    if (fence && isOfPublication) {
      fence.mayMiss();
      fence.tellsFrom((await this.#newXid()).xid);
    }
    if (this.#waiting.length > MAX_WAITING) await this.#orOver(this.#acknowledged);
  }

  /** Acknowledges the commit when it and all before it have been purged. */
  #purgeOf(change: Commit, tags: readonly string[]): void {
    const purged = this.#purges.add(tags);
    this.#waiting.push(now());
    this.#acknowledged = this.#acknowledged.then(async () => {
      await purged;
      this.#waiting.shift();
      await change.acknowledge().catch(() => {}); // the stream is over: the commit comes again
    });
  }

  // -- lives ---------------------------------------------------------------------------------------------------------

  #tick(): void {
    if (this.#life) void this.#purges.add([...this.#life.fence.takeDue(now()), ...this.#life.answers.takeDue(now())]);
    const { connections, state } = this.#feed.stats();
    if (state === "streaming") this.#heartbeat.tick(connections, connections !== this.#connection, now());
  }

  /** Writes a heartbeat. Never rejects: what does not come back says enough. */
  async #beat(beat: string): Promise<void> {
    try {
      const [row] = await rowsOf<{ armed: boolean }>(this.#db, BEAT, [beat], { timeout: LONGEST_CALL });
      if (row!.armed) return;
      this.#life = undefined;
      // Definitions may have changed untold. If it cannot be purged, the next run does it.
      void this.#purges.add([EVERYTHING]);
      this.#over.abort(unarmed());
    } catch (error) {
      this.#tell(error);
    }
  }

  /**
   * A heartbeat has come back. If it was written since the stream connected, the server that the stream reads is the
   * one that is written to, and a life may begin.
   */
  async #cameBack(beat: string): Promise<void> {
    const connection = this.#heartbeat.came(beat);
    if (connection === this.#connection || connection !== this.#feed.stats().connections) return;
    const { xid, log } = await this.#newXid();
    this.#near = xid;
    this.#connection = connection;
    const { settle, maxFill } = this.#options;
    const longest = maxFill + settle;
    const bounds = {
      ...{ maxFills: MAX_FILLS, maxCommits: MAX_COMMITS, maxDefinitions: MAX_DEFINITIONS },
      maxValidators: MAX_VALIDATORS,
    };
    this.#life = {
      id: crypto.randomUUID(),
      beganAt: now(),
      log,
      fence: new Fence({ settle, maxFill, keep: 2 * longest, ...bounds }, xid, now()),
      dependencies: new Dependencies(MAX_STATEMENTS), // ids of the snapshots that were learned before are given again
      answers: new Answers(MAX_URLS, longest),
    };
    this.#tagsOf.clear();
    void this.#purges.add([EVERYTHING]);
  }

  /** Milliseconds: what was committed before has been purged. */
  #lag(): number {
    const [oldest] = this.#waiting;
    return Math.max(this.#heartbeat.age(now()), oldest === undefined ? 0 : now() - oldest);
  }

  // -- questions -----------------------------------------------------------------------------------------------------

  /**
   * The tags of a change of a relation: its own, and those of the tables that it is a part of, since a query names
   * these. The catalog may already have a definition that the stream has not reached. That change of definitions
   * purges everything when it comes. The other way round (a commit is told before it is visible) nothing is known.
   */
  async #tags(oid: number): Promise<readonly string[]> {
    const known = this.#tagsOf.get(oid);
    if (known) return known;
    const [row] = await this.#ask<{ ancestors: readonly number[]; snapshot: string }>(ANCESTORS, [oid]);
    const tags = [oid, ...row!.ancestors].map(tagOf);
    const fence = this.#life?.fence; // each life asks anew
    if (fence && !fence.seesDefinitions(readSnapshot(row!.snapshot, false))) return [EVERYTHING];
    this.#tagsOf.set(oid, tags);
    return tags;
  }

  /** A new id, and the name of the log that it is in. */
  async #newXid(): Promise<{ readonly xid: number; readonly log: string }> {
    const [row] = await this.#ask<{ xid: string; log: string }>(NEW_XID, []);
    return { xid: Number(row!.xid), log: row!.log };
  }

  /** Asks until there is an answer, or the run is over. Meanwhile the stream waits, and {@link #lag} grows. */
  async #ask<Row>(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    for (;;)
      try {
        return await rowsOf<Row>(this.#db, text, values, { timeout: LONGEST_CALL });
      } catch (error) {
        this.#tell(error);
        await this.#orOver(new Promise((resolve) => setTimeout(resolve, PAUSE)));
      }
  }

  /** Waits for `work`. Rejects when the run is over. */
  async #orOver(work: Promise<unknown>): Promise<void> {
    const signal = this.#signal;
    signal.throwIfAborted();
    let abort!: () => void;
    const over = new Promise<never>((_, reject) => (abort = () => reject(signal.reason)));
    signal.addEventListener("abort", abort);
    await Promise.race([work, over]).finally(() => signal.removeEventListener("abort", abort));
  }

  /** Nothing that the caller does with the news may end the run. */
  #tell(error: unknown): void {
    try {
      this.#options.onFailure?.(error);
    } catch {
      // It is the caller's.
    }
  }
}

function unarmed(): UsageError {
  return new UsageError(
    "INVALID_OPTION",
    "The database does not tell of changed definitions: its event triggers of pgz-edge/cache are missing or not " +
      "ENABLE ALWAYS. Run cache.sql, which is in the package, in this database as a superuser.",
  );
}

/** It does not name the URL, which may have a secret. */
function twoAnswers(): UsageError {
  return new UsageError(
    "INVALID_OPTION",
    "Two different queries were answered under one URL, so a cache may have served one in place of the other. Both are " +
      "purged. A query for a URL must follow from the URL alone, not from cookies or other headers.",
  );
}

const snapshotOf = ({ snapshot, isStandby }: Pick<Dependency, "snapshot" | "isStandby">) =>
  readSnapshot(snapshot, isStandby);

const now = () => performance.now();
