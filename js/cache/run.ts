// One attempt to follow the changes of a database: from its first connection until it fails, or is aborted.
//
// Knows the stream of changes, the catalog's inheritance, and when to ask the fence. Must not know HTTP or a platform,
// decide what is too old (fence.ts), or begin again (invalidator.ts).
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
import { UsageError, type Pool } from "../index.ts";
import { onAbort } from "../util/abort.ts";
import { releaseWithoutLoss } from "../util/lossy-releases.ts";
import { EQ, NE } from "../util/operators.ts";
import { Answers } from "./answers.ts";
import { Dependencies } from "./dependencies.ts";
import { Fence } from "./fence.ts";
import { Heartbeat, type Beat } from "./heartbeat.ts";
import { TIMELINE } from "./moment.ts";
import type { InvalidatorStats, KnownOptions } from "./options.ts";
import { paused } from "./pause.ts";
import type { Admitted, FillClosing, FillName, FillOpening, Life, Opened, Remembered } from "./protocol.ts";
import { Purges } from "./purges.ts";
import { rowsOf } from "../util/question.ts";
import { EVERYTHING, tagOf } from "./tags.ts";
import { readSnapshot, widened } from "./visibility.ts";

/** The prefix of the messages of cache.sql. Their content is the command. */
export const DEFINITIONS_CHANGED = "pgz-edge/cache";
export const HEARTBEAT = "pgz-edge/cache-heartbeat";
/** The end of the commands after which transactions that run may have changed a table before it was published. */
const OF_PUBLICATION = " PUBLICATION";
const MAX_STATEMENTS = 10_000;
const MAX_URLS = 50_000;
/** Commits that wait for their purges before the stream waits too. */
const MAX_WAITING = 10_000;

/**
 * An id above all that were given before, with 64 bits. A snapshot's xmax is not: it is above those that are over, and
 * what waits for a synchronous standby is not over, though it may have been told.
 */
export const NEW_XID = `select pg_catalog.pg_current_xact_id()::pg_catalog.text as xid, ${TIMELINE} as timeline,
  pg_catalog.current_setting('server_version_num')::pg_catalog.int4 as version`;
/**
 * Writes a heartbeat, which says on which timeline it was written, and asks whether the event triggers of cache.sql are
 * there.
 */
export const BEAT = `select pg_catalog.pg_logical_emit_message(true, '${HEARTBEAT}',
    pg_catalog.concat($1::pg_catalog.text, ' ', ${TIMELINE})),
  (select pg_catalog.count(*) from pg_catalog.pg_event_trigger as t
    join pg_catalog.pg_proc as p on p.oid ${EQ} t.evtfoid
    join pg_catalog.pg_namespace as n on n.oid ${EQ} p.pronamespace
    where n.nspname ${EQ} 'pgz_edge_cache' and p.proname ${EQ} 'definitions_changed_1' and t.evtenabled ${EQ} 'A'
      and p.proowner ${EQ} t.evtowner and p.prosecdef
  ) ${EQ} 3 and coalesce(pg_catalog.current_setting('event_triggers', true), '') ${NE} 'off' as armed`;
/** The tables that a table is a part of (partitioned ones, those that it inherits from), and the snapshot for that. */
export const ANCESTORS = `with recursive ancestors (oid) as (
    select inhparent from pg_catalog.pg_inherits where inhrelid ${EQ} $1::pg_catalog.oid
    union select inhparent from ancestors, pg_catalog.pg_inherits where inhrelid ${EQ} ancestors.oid
  ) select array(select oid from ancestors) as ancestors, pg_catalog.pg_current_snapshot()::pg_catalog.text as snapshot`;

/** Milliseconds that a question to the database, or one call of `purge`, may take. */
const LONGEST_CALL = 10_000;
/** Milliseconds until a question that has failed is asked again. */
const PAUSE = 1_000;

/** What is known in one life. */
interface Known {
  readonly id: string;
  /** The connection of the stream whose life it is. */
  readonly connection: number;
  readonly beganAt: number;
  /** {@link Moment.timeline} of the server that is followed. */
  readonly timeline: string;
  readonly fence: Fence;
  readonly dependencies: Dependencies;
  readonly answers: Answers;
}

/** From the call of `run` to its end. */
export class Run {
  readonly #db: Pool;
  readonly #options: KnownOptions;
  readonly #purges: Purges;
  readonly #heartbeat: Heartbeat;
  readonly #over = new AbortController();
  /** Aborted by the caller, or by `#over`. */
  readonly #signal: AbortSignal;
  readonly #feed: Changes;
  readonly #timer: ReturnType<typeof setInterval>;
  /** Without it nothing may be opened. */
  #life: Known | undefined;
  /** Why the stream waits. */
  #reason: string | undefined;
  /** A recent id with 64 bits. */
  #near = 0;
  /** By relation: the tags of a change of it. Known until definitions change. */
  readonly #tagsOf = new Map<number, readonly string[]>();
  /** Commits that are not acknowledged. */
  #waiting = 0;
  #acknowledged = Promise.resolve();

  constructor(db: Pool, options: KnownOptions) {
    this.#db = db;
    this.#options = options;
    const { purge, onFailure } = options;
    this.#purges = new Purges({ purge, longest: LONGEST_CALL, onFailure, over: this.#over.signal });
    this.#heartbeat = new Heartbeat((content) => this.#beat(content), options.maxLag / 4);
    const { slot, createSlot, publication, signal, settle } = options;
    this.#signal = signal ? AbortSignal.any([signal, this.#over.signal]) : this.#over.signal;
    this.#feed = changes(db, { slot, createSlot, publication, signal: this.#signal, messages: true });
    this.#timer = setInterval(() => this.#tick(), Math.max(10, settle / 4));
  }

  get stats(): InvalidatorStats {
    const sizes = this.#life?.fence.sizes ?? { fills: 0, commits: 0, tags: 0 };
    const { reason } = this.#feed.stats();
    return { state: this.#life ? "following" : "down", reason, lag: this.#lag(), ...sizes };
  }

  open(opening: FillOpening): Opened | undefined {
    const life = this.#life;
    if (!life) return undefined;
    const { maxLag, maxFill, publication } = this.#options;
    const of: Life = { life: life.id, age: now() - life.beganAt, publication };
    if (opening.timeline !== life.timeline) return { ...of, refusal: "elsewhere" };
    const dependency = life.dependencies.of(opening.statement, opening.fingerprint);
    if (!dependency || !life.fence.isLearned(dependency.learned)) return { ...of, refusal: "unknown" };
    const { tags, reasons, isPersonal, learned, parameterTypes } = dependency;
    const isForAll = !isPersonal || opening.isSeparated;
    const unfit = isForAll ? reasons : [...reasons, "it depends on who asks (option separatedBy)"];
    if (unfit.length) return { ...of, refusal: "unfit", reason: unfit.join("; ") };
    if (this.#lag() > maxLag) return { ...of, refusal: "behind" };
    if (!this.#isOnly(life, opening, tags)) return { ...of, refusal: "mixed" };
    const { id, maxAge, url, rows, form, validators } = opening;
    const fill = { id, tags, maxAge, representation: `${url}\n${rows}\n${form}`, learned };
    const validator = life.fence.revalidate(fill, validators, now());
    const admitted: Admitted = { ...of, tags, maxFill, parameterTypes };
    if (validator !== undefined) return { ...admitted, validator };
    return life.fence.open(fill, now()) ? admitted : { ...of, refusal: "full" };
  }

  /** Whether the cache has no other answer under the URL. */
  #isOnly({ answers }: Known, { url, rows, maxAge }: FillOpening, tags: readonly string[]): boolean {
    const mixed = answers.claim(url, { rows, tags: tags.length ? tags : [EVERYTHING], maxAge }, now());
    if (mixed?.length) {
      this.#purge(mixed);
      this.#options.onFailure(twoAnswers());
    }
    return !mixed;
  }

  remember({ life, ...dependency }: Remembered): void {
    const known = this.#life;
    if (known?.id === life && known.timeline === dependency.timeline) known.dependencies.add(dependency);
  }

  close({ life, id, tags, snapshot, isStandby }: FillClosing): void {
    const fence = this.#life?.fence;
    if (!fence) return; // the next life purges everything
    const read = readSnapshot(snapshot, isStandby);
    this.#purge(this.#life!.id === life ? fence.close({ id, tags }, read, now()) : fence.closeUnknown(tags, now()));
  }

  abandon({ life, id }: FillName): void {
    if (this.#life?.id === life) this.#life.fence.abandon(id);
  }

  end(): void {
    this.#life = undefined;
    clearInterval(this.#timer);
    this.#over.abort();
  }

  async follow(): Promise<void> {
    try {
      await this.#follow();
    } catch (error) {
      throw this.#over.signal.aborted ? this.#over.signal.reason : error;
    }
  }

  async #follow(): Promise<void> {
    /** By schema and table. */
    const oids = new Map<string, number>();
    let changed = new Set<number>();
    let definitions: DefinitionChange = "none";
    const touch = ({ schema, table }: { schema: string; table: string }) =>
      changed.add(oids.get(keyOf(schema, table))!);
    await this.#newXid(); // a server that is refused gets no slot
    for await (const change of this.#feed) {
      if (change.kind === "begin") [changed, definitions] = [new Set(), "none"];
      else if (change.kind === "schema") oids.set(keyOf(change.schema, change.table), change.oid);
      else if (change.kind === "message") {
        // Any role may write such messages. One that is no text counts as the worst.
        if (change.prefix === HEARTBEAT) await this.#cameBack(change.content ?? "");
        if (change.prefix === DEFINITIONS_CHANGED && definitions !== "publication")
          definitions = (change.content ?? OF_PUBLICATION).endsWith(OF_PUBLICATION) ? "publication" : "other";
      } else if (change.kind === "truncate") change.tables.forEach(touch);
      else if ("table" in change) touch(change);
      else if (change.kind === "commit") await this.#commit(change, [...changed], definitions);
    }
  }

  async #commit(change: Commit, changed: readonly number[], definitions: DefinitionChange): Promise<void> {
    this.#endLifeOfOldConnection();
    const tags = definitions === "none" ? await this.#tagsOfAll(changed) : [EVERYTHING];
    const life = this.#life;
    const xid = widened(change.xid, this.#near);
    this.#near = Math.max(this.#near, xid);
    if (tags.includes(EVERYTHING)) this.#tagsOf.clear();
    this.#purgeOf(change, life ? life.fence.commit({ xid, tags }, now()) : tags);
    if (life && definitions === "publication") {
      life.fence.mayMiss();
      life.fence.tellsFrom(await this.#newXidOn(life.timeline));
    }
    if (this.#waiting > MAX_WAITING) await this.#orOver(this.#acknowledged);
  }

  #purge(tags: readonly string[]): void {
    void this.#purges.add(tags);
  }

  /** Acknowledges the commit when it and all before it have been purged. */
  #purgeOf(change: Commit, tags: readonly string[]): void {
    const purged = this.#purges.add(tags);
    this.#waiting++;
    this.#acknowledged = this.#acknowledged.then(async () => {
      await purged;
      this.#waiting--;
      await change.acknowledge().catch(() => {}); // the stream is over: the commit comes again
    });
  }

  // -- lives ---------------------------------------------------------------------------------------------------------

  #tick(): void {
    if (this.#db.stats().state !== "open") return this.#over.abort(poolClosed());
    if (this.#life) this.#purge([...this.#life.fence.takeDue(now()), ...this.#life.answers.takeDue(now())]);
    this.#endLifeOfOldConnection();
    const { connections, state, reason } = this.#feed.stats();
    if (reason !== undefined && reason !== this.#reason) this.#options.onFailure(waiting(reason));
    this.#reason = reason;
    if (state === "streaming") this.#heartbeat.tick(connections, connections !== this.#life?.connection, now());
  }

  /** Commits that a new connection tells again, or leaves out, are not known. */
  #endLifeOfOldConnection(): void {
    if (this.#feed.stats().connections !== this.#life?.connection) this.#life = undefined;
  }

  /** Writes a heartbeat. Never rejects: what does not come back says enough. */
  async #beat(content: string): Promise<void> {
    try {
      const [row] = await rowsOf<{ armed: boolean }>(this.#db, BEAT, [content], { timeout: LONGEST_CALL });
      if (row!.armed) return;
      this.#life = undefined;
      // Definitions may have changed untold. If it cannot be purged, the next run does it.
      this.#purge([EVERYTHING]);
      this.#over.abort(unarmed());
    } catch (error) {
      this.#options.onFailure(error);
    }
  }

  /**
   * A heartbeat has come back. If it was written since the stream connected, the server that the stream reads is the
   * one that is written to, and a life may begin.
   */
  async #cameBack(content: string): Promise<void> {
    const beat = this.#heartbeat.read(content);
    if (!beat) return;
    const { connections } = this.#feed.stats();
    if (beat.connection === connections && connections !== this.#life?.connection) await this.#begin(beat);
    void this.#purges.done().then(() => this.#heartbeat.count(beat));
  }

  async #begin({ connection, timeline }: Beat): Promise<void> {
    const xid = await this.#newXidOn(timeline);
    this.#near = xid;
    const { settle, maxFill, maxLag } = this.#options;
    const longest = maxFill + settle;
    // A process before this one may open fills until it sees how far it is behind.
    const unknownFor = longest + maxLag;
    this.#life = {
      id: crypto.randomUUID(),
      connection,
      beganAt: now(),
      timeline,
      fence: new Fence({ settle, maxFill, unknownFor }, xid, now()),
      dependencies: new Dependencies(MAX_STATEMENTS), // ids of the snapshots that were learned before are given again
      answers: new Answers(MAX_URLS, longest),
    };
    this.#tagsOf.clear();
    this.#purge([EVERYTHING]);
  }

  /** Milliseconds: what was committed before has been purged. */
  #lag(): number {
    return this.#heartbeat.age(now());
  }

  // -- questions -----------------------------------------------------------------------------------------------------

  async #tagsOfAll(changed: readonly number[]): Promise<readonly string[]> {
    const tags = new Set<string>();
    for (const oid of changed) for (const tag of await this.#tagsOfOne(oid)) tags.add(tag);
    return [...tags];
  }

  /**
   * The tags of a change of a relation: its own, and those of the tables that it is a part of, since a query names
   * these. The catalog may already have a definition that the stream has not reached. That change of definitions
   * purges everything when it comes. The other way round (a commit is told before it is visible) nothing is known.
   */
  async #tagsOfOne(oid: number): Promise<readonly string[]> {
    const known = this.#tagsOf.get(oid);
    if (known) return known;
    const [row] = await this.#ask<{ ancestors: readonly number[]; snapshot: string }>(ANCESTORS, [oid]);
    const tags = [oid, ...row!.ancestors].map(tagOf);
    const fence = this.#life?.fence; // each life asks anew
    if (fence && !fence.seesDefinitions(readSnapshot(row!.snapshot, false))) return [EVERYTHING];
    this.#tagsOf.set(oid, tags);
    return tags;
  }

  /** A new id of this timeline. While there are two primaries, a question may reach the other one. */
  async #newXidOn(wanted: string): Promise<number> {
    const { xid, timeline } = await this.#newXid();
    if (timeline !== wanted) throw otherTimeline();
    return xid;
  }

  /** A new id, and its timeline. Rejects if the server may lose changes. */
  async #newXid(): Promise<{ readonly xid: number; readonly timeline: string }> {
    const [row] = await this.#ask<{ xid: string; timeline: string; version: number }>(NEW_XID, []);
    this.#signal.throwIfAborted();
    const release = releaseWithoutLoss(row!.version);
    if (release !== undefined) throw tooOld(release);
    return { xid: Number(row!.xid), timeline: row!.timeline };
  }

  /** Asks until there is an answer, or the run is over. Meanwhile the stream waits, and {@link #lag} grows. */
  async #ask<Row>(text: string, values: readonly unknown[]): Promise<readonly Row[]> {
    for (;;)
      try {
        return await rowsOf<Row>(this.#db, text, values, { timeout: LONGEST_CALL });
      } catch (error) {
        this.#options.onFailure(error);
        await paused(PAUSE, this.#signal);
        this.#signal.throwIfAborted();
      }
  }

  /** Waits for `work`. Rejects when the run is over. */
  async #orOver(work: Promise<unknown>): Promise<void> {
    let stop!: () => void;
    const over = new Promise<void>((resolve) => (stop = onAbort(this.#signal, resolve)));
    await Promise.race([work, over]);
    stop();
    this.#signal.throwIfAborted();
  }
}

/** Whether a transaction has changed definitions. */
type DefinitionChange = "none" | "publication" | "other";

const keyOf = (schema: string, table: string): string => `${schema}\0${table}`;

function unarmed(): UsageError {
  return new UsageError(
    "INVALID_OPTION",
    "The database does not tell of changed definitions: its event triggers of pgz-edge/cache are missing, off, of " +
      "another version or not ENABLE ALWAYS. Run cache.sql, which is in the package, in this database as a superuser.",
  );
}

function tooOld(release: string): UsageError {
  return new UsageError(
    "INVALID_OPTION",
    "This release of PostgreSQL may leave out changes of a table that joins a publication. Update the server to " +
      `${release} or newer.`,
  );
}

function otherTimeline(): UsageError {
  return new UsageError(
    "INVALID_OPTION",
    "The invalidator's pool and its stream have reached servers of different timelines: a failover, or two primaries.",
  );
}

const poolClosed = () => new UsageError("POOL_CLOSED", "The pool of the invalidator is closed.");

function waiting(reason: string): UsageError {
  return new UsageError(
    "STREAM_OPEN",
    `No changes come: ${reason.replace(/\.$/, "")}. Until they do, no answer is stored.`,
  );
}

/** It does not name the URL, which may have a secret; the second answer's `Cache-Status` says the same. */
function twoAnswers(): UsageError {
  return new UsageError(
    "INVALID_QUERY",
    "Two different queries were answered under one URL, so a cache may have served one in place of the other. Both are " +
      "purged. A query for a URL must follow from the URL alone, not from cookies or other headers.",
  );
}

const now = () => performance.now();
