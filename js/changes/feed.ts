// A stream of changes over all its connections: changes from the server, and acknowledgements back to it.
//
//   connect ── whose log? ── [snapshot] ── START_REPLICATION ──> read ── changes ──> the consumer, which requests more
//      ^                                                          │
//      └──────────────────── pause <────────────────────── lost ──┘
//
// A new connection starts after the last acknowledged position. The core drops whole transactions that the consumer has
// already received.
//
// Knows when to connect again, and what the server need not keep. Must not know what changes contain.
import { AbortError, PgzError, PostgresError, UsageError } from "../index.ts";
import type { ChangesEvent, Client, Pool } from "../index.ts";
import { Catalog } from "../server/catalog.ts";
import {
  CHANGES_ANSWERED,
  CHANGES_KEEPALIVE,
  CHANGES_LINES,
  CHANGES_STATUS_WANTED,
  CHANGES_TYPES_WANTED,
} from "../wasm/numbers.ts";
import { advised, withAdvice } from "./advice.ts";
import { configOf, report } from "./config.ts";
import { Core } from "./core.ts";
import { Lag } from "./lag.ts";
import { changesLost, decide } from "./log-check.ts";
import { ReadLog } from "./log-read.ts";
import { askForLog, confirmedIn, logQuestion, type Found } from "./log-question.ts";
import { missingPublication, ofWarning } from "./missing-publication.ts";
import {
  checkVersion,
  createSlotCommand,
  isPosition,
  lsnOf,
  lsnText,
  startCommand,
  type ChangesOptions,
} from "./options.ts";
import { OwnObjects } from "./own-objects.ts";
import { OwnPublication } from "./own-publication.ts";
import { lost, Replication } from "./replication.ts";
import { Retries } from "./retries.ts";
import { Snapshot } from "./snapshot.ts";
import { Watch } from "./watch.ts";

const STATUS_INTERVAL = 10_000;
const NOTHING = new Uint8Array(0);

/** Milliseconds between two questions about the log, doubled each time, up to the longest. */
const FIRST_LOG_PAUSE = 50;
const LONGEST_LOG_PAUSE = 1_000;
/** Older standbys do not decode changes, and say so. */
const OLDEST_STANDBY = 16;

/** The progress of a stream of changes. */
export type ChangesStats = Omit<ChangesEvent, "slot">;

export class Feed {
  readonly catalog = new Catalog();
  readonly #db: Client | Pool;
  readonly #options: ChangesOptions;
  readonly #core: Core;
  readonly #over = new AbortController();
  readonly #unhear: () => void;
  /** Sends status updates and looks for silence, from the first connection on. */
  #timer: ReturnType<typeof setInterval> | undefined;
  #connection: Replication | undefined;
  #connections = 0;
  /** What the connection's server has said of itself. */
  #server: Found | undefined;
  /** The snapshot, until all its rows have been yielded. */
  #snapshot: Snapshot | undefined;
  /** The publication for option `tables`. */
  readonly #ownPublication: OwnPublication | undefined;
  readonly #own: OwnObjects;
  readonly #publications: readonly string[];
  #leaving: Promise<void> | undefined;
  readonly #lag = new Lag();
  /** Whether a connection has streamed. From then on the stream connects again after a failure. */
  #hasStreamed = false;
  #isStreaming = false;
  /** Why it does not stream. */
  #reason: string | undefined;
  readonly #retries = new Retries();
  readonly #watch: Watch;
  /** Bits `CHANGES_…` that have not been handled yet. */
  #happened = 0;
  /** Whether bytes wait in the core until the types of a table's description are known. */
  #waits = false;
  /** The log that the stream reads, or that `from` names. */
  readonly #log: ReadLog;
  /** The position up to which the server need not keep WAL. */
  #flushed: bigint;
  /** The position after the last commit that the consumer has acknowledged. */
  #acknowledged = 0n;

  constructor(db: Client | Pool, options: ChangesOptions, rowForm: number) {
    this.#db = db;
    this.#options = options;
    this.#core = new Core(configOf(db).maxMessageBytes, rowForm, options.streaming === true);
    this.#log = new ReadLog(options.from);
    this.#flushed = this.#log.from;
    const { slot, publication = [], tables, signal } = options;
    this.#own = new OwnObjects(db, slot);
    this.#watch = new Watch(db);
    this.#ownPublication = tables && new OwnPublication(slot, tables);
    this.#publications = this.#ownPublication ? [this.#ownPublication.name] : [publication].flat();
    const abort = () => this.#stop(new AbortError(signal!.reason));
    signal?.addEventListener("abort", abort);
    this.#unhear = () => signal?.removeEventListener("abort", abort);
    if (signal?.aborted) abort();
  }

  /** Resolves with the next changes, at least one: as lines, or as a batch if the row form says so. */
  async next(): Promise<Uint8Array> {
    for (;;) {
      this.#over.signal.throwIfAborted();
      try {
        await this.#attend();
        const connection = this.#connection ?? (await this.#connect());
        if (this.#snapshot) {
          if (await this.#snapshot.more()) {
            if (this.#snapshot.isOver) this.#keepSlot();
            return this.#take();
          }
          // While rows were read the slot was free, so it may have been moved, or made anew.
          await this.#checkLog(connection);
          await this.#stream(connection);
        }
        this.#happened |= this.#waits ? connection.received(NOTHING) : await connection.read();
        this.#waits = false;
        // Changes are returned before other bits are handled, so that they are not mixed with those of the next
        // connection.
        if (!(this.#happened & CHANGES_LINES)) continue;
        if (this.#happened & CHANGES_STATUS_WANTED) this.#report(); // the next call may come late
        return this.#take();
      } catch (error) {
        this.#over.signal.throwIfAborted();
        await this.#comeBack(advised(ofWarning(error, this.#publications)));
      }
    }
  }

  /** Number of connections made so far. */
  get connections(): number {
    return this.#connections;
  }

  stats(): ChangesStats {
    const end = this.#over.signal.aborted ? this.#log.end : this.#end;
    const behind = end - this.#flushed;
    const state = this.#state;
    return {
      state,
      ...(state === "connecting" && this.#reason !== undefined && { reason: this.#reason }),
      connections: this.#connections,
      acknowledged: lsnText(this.#flushed),
      end: lsnText(end > this.#flushed ? end : this.#flushed),
      lagBytes: behind > 0n ? Number(behind) : 0,
      lagSeconds: this.#lag.seconds(Date.now()),
    };
  }

  get #state(): ChangesStats["state"] {
    if (this.#over.signal.aborted) return "over";
    if (this.#snapshot?.isOver === false) return "snapshot";
    return this.#isStreaming ? "streaming" : "connecting";
  }

  /** Returns a position of this stream as a text that also names its log. */
  fullPosition(position: string): string {
    if (!isPosition(position))
      throw new UsageError("INVALID_OPTION", "fullPosition takes a position of this stream, such as 0/16B3748.");
    if (this.#snapshot?.isOver === false)
      throw new UsageError(
        "INVALID_OPTION",
        "Until the change `snapshot` has come, no later run can continue: there is no position to store.",
      );
    return position.includes("/") ? this.#log.fullPosition(lsnOf(position)) : position;
  }

  /** Acknowledges all commits that the core has read. The consumer has received them all, because it requests more. */
  acknowledgeAll(): void {
    if (this.#over.signal.aborted) return;
    void this.acknowledge(this.#core.call((handle) => handle.committed()));
  }

  /** @throws UsageError `CHANGES_OVER` if the stream has ended and the server does not know of the position */
  async acknowledge(position: bigint): Promise<void> {
    if (position <= this.#acknowledged) return;
    if (this.#over.signal.aborted) throw this.#tooLate(position);
    this.#acknowledged = position;
    this.#lag.acknowledged(position);
    if (position > this.#flushed) this.#flushed = position;
    this.#report();
  }

  /** Names the position as `from` takes it, with its log. */
  #tooLate(position: bigint): UsageError {
    return new UsageError(
      "CHANGES_OVER",
      `The stream of changes has ended, so ${lsnText(position)} cannot be acknowledged. It has acknowledged ` +
        `${lsnText(this.#flushed)}, and later changes come again. Acknowledge before you leave the loop. If they are ` +
        `stored, start the next stream with from: "${this.#log.fullPosition(position)}".`,
      { cause: this.#over.signal.reason },
    );
  }

  /** Throws the reason if the stream has ended. */
  checkOpen(): void {
    this.#over.signal.throwIfAborted();
  }

  /**
   * Ends the stream, with the error that it has met, if any. Before the connection ends, acknowledgements have half a
   * second to reach the server.
   */
  async end(error?: unknown): Promise<void> {
    if (!this.#over.signal.aborted) this.#report();
    this.#stop(error ?? new AbortError("the stream of changes was left"));
    await this.#leaving;
    this.#core.free();
  }

  #stop(reason: unknown): void {
    if (this.#over.signal.aborted) return;
    clearInterval(this.#timer);
    this.#unhear();
    this.#noteEnd();
    this.#over.abort(reason);
    this.#leaving = this.#leave();
  }

  /** Never rejects. */
  async #leave(): Promise<void> {
    await this.#own.untilCreated();
    await this.#connection?.close();
    await this.#own.drop();
  }

  async #connect(): Promise<Replication> {
    // Stored at once, so that an abort also ends the creation of a slot, which may wait as long as transactions are
    // open.
    const connection = (this.#connection = await Replication.open(this.#db, this.#core, this.#over.signal));
    if (this.#over.signal.aborted) await connection.close();
    this.#over.signal.throwIfAborted();
    this.#connections++;
    this.#server = undefined;
    this.#keepTime();
    checkVersion(this.#options, connection.serverVersion);
    this.#core.call((handle) => handle.restart(handle.committed()));
    this.#waits = false;
    const { createSlot, snapshot } = this.#options;
    if (this.#ownPublication) await this.#publish(this.#ownPublication, connection);
    await this.#checkLog(connection);
    if (snapshot && !this.#hasStreamed) await this.#begin(connection);
    else {
      if (createSlot && !this.#hasStreamed) await this.#create(connection);
      await this.#stream(connection);
    }
    return connection;
  }

  /**
   * Checks that the server's log has everything that this stream has read, and that the publications exist. Waits for a
   * standby that lags, and for a slot that another connection reads, such as one that was lost and whose end the server
   * has not noticed.
   *
   * @throws PgzError `CHANGES_LOST`
   */
  async #checkLog(connection: Replication): Promise<void> {
    const { slot } = this.#options;
    const { connectTimeout } = configOf(this.#db);
    for (let pause = FIRST_LOG_PAUSE; ; pause = Math.min(pause * 2, LONGEST_LOG_PAUSE)) {
      const found = await askForLog(connection, slot, this.#publications, this.#log.read, connectTimeout);
      this.#server = found;
      if (found.log.isStandby && connection.serverVersion < OLDEST_STANDBY) throw onOldStandby();
      const committed = this.#core.call((handle) => handle.committed());
      const yielded = committed > this.#acknowledged ? committed : this.#acknowledged;
      const progress = this.#log.progress(yielded, this.#flushed);
      const decision = decide(progress, found.log);
      if (decision.kind === "lost") throw changesLost(slot, progress.needed, decision.why);
      if (decision.kind === "start") {
        if (found.missing !== undefined) throw missingPublication(found.missing);
        this.#checkSlot(found, progress.needed);
        // Its reader may still move the slot, so what was found would not be true any more. A slot that must be new is
        // refused instead.
        if (!found.isSlotActive || this.#needsNewSlot) {
          this.#flushed = decision.flushed;
          return this.#log.found(found);
        }
        this.#reason = `another connection reads slot "${slot}"`;
      } else this.#reason = "the standby has not come as far as this stream";
      await this.#pause(pause);
      this.#over.signal.throwIfAborted();
    }
  }

  /** A new slot begins at the end of the log. What was committed since `needed` would be passed over. */
  #checkSlot({ hasSlot, log }: Found, needed: bigint): void {
    if (hasSlot) return;
    const { slot, createSlot } = this.#options;
    const { from, hadSlot } = this.#log;
    const isKnown = this.#hasStreamed || (hadSlot && createSlot !== "temporary");
    if (isKnown && log.isStandby) throw lost(`this standby does not have slot "${slot}"`);
    if (isKnown) throw changesLost(slot, needed, "the slot does not exist any more");
    if (createSlot && from !== 0n)
      throw changesLost(slot, from, "the slot does not exist, and a new one has only later changes");
  }

  get #needsNewSlot(): boolean {
    const { createSlot, snapshot } = this.#options;
    return createSlot === "temporary" || (snapshot === true && !this.#hasStreamed);
  }

  /**
   * Makes the publication before the slot, because changes are decoded with the catalog of their own time. It may wait
   * for locks, so the server is known before: only then a dead link is noticed.
   */
  async #publish(own: OwnPublication, connection: Replication): Promise<void> {
    const { connectTimeout } = configOf(this.#db);
    this.#server = await askForLog(connection, this.#options.slot, [own.name], this.#log.read, connectTimeout);
    await this.#own.publish(own, connection);
  }

  async #begin(connection: Replication): Promise<void> {
    // A temporary slot ends with its connection.
    const isPermanent = this.#options.createSlot === "permanent";
    const onCreation = (creation: Promise<unknown>) => void (isPermanent && this.#own.addSlot(creation));
    const learn = () => this.#learn();
    const [options, publications] = [this.#options, this.#publications];
    try {
      this.#snapshot = await Snapshot.begin(connection, this.#core, options, publications, learn, onCreation);
      this.#slotBegins(this.#snapshot.position);
      this.#log.begins(this.#snapshot.position);
    } catch (error) {
      throw isThere(error) ? slotExists(this.#options.slot, this.#connections > 1, error) : error;
    }
  }

  /** Makes the slot, or continues with a permanent one that exists. */
  async #create(connection: Replication): Promise<void> {
    try {
      const [slot] = await connection.run(createSlotCommand(this.#options, connection.serverVersion));
      this.#slotBegins(lsnOf(slot![1]!));
    } catch (error) {
      if (!isThere(error) || this.#options.createSlot === "temporary") throw error;
      // Another connection has made it meanwhile.
      if (!this.#log.knowsSlot) await this.#checkLog(connection);
    }
  }

  /** A new slot begins at the end of the log. */
  #slotBegins(position: bigint): void {
    this.#log.reaches(position);
    if (position > this.#flushed) this.#flushed = position;
  }

  /** All rows have come. The consumer may leave the loop at `snapshot`, and a later run continues with the slot. */
  #keepSlot(): void {
    this.#own.giveSlot();
    this.#hasStreamed = true;
  }

  async #stream(connection: Replication): Promise<void> {
    this.#snapshot = undefined;
    const { connectTimeout } = configOf(this.#db);
    const { slot } = this.#options;
    // In one flight, so that what the first says of the slot is true when the second begins to read it.
    const question = logQuestion(slot, this.#publications);
    const command = startCommand(this.#options, this.#publications, lsnText(this.#flushed));
    const [row] = await connection.runWithin(connectTimeout, question, command);
    const confirmed = row && confirmedIn(row);
    if (confirmed !== undefined && confirmed > this.#flushed)
      throw changesLost(slot, this.#flushed, `another reader has moved the slot to ${lsnText(confirmed)}`);
    this.#log.begins(this.#flushed);
    this.#isStreaming = true;
    this.#hasStreamed = true;
    this.#reason = undefined;
    this.#retries.succeeded();
  }

  /** Returns the changes read so far. Their commits then wait for an acknowledgement. */
  #take(): Uint8Array {
    const committed = this.#core.call((handle) => handle.committed());
    if (committed > this.#acknowledged) this.#lag.read(committed, Date.now());
    return this.#core.take();
  }

  #keepTime(): void {
    if (this.#over.signal.aborted) return;
    this.#timer ??= setInterval(() => this.#tick(), this.#options.statusInterval ?? STATUS_INTERVAL);
  }

  #tick(): void {
    this.#checkSilence();
    if (!this.#hasStreamed && !this.#snapshot) return; // no position is known yet
    // A temporary slot ends with its connection.
    const mayConnectAgain = this.#isStreaming && this.#options.createSlot !== "temporary";
    const log = this.#log.read;
    if (mayConnectAgain && log?.isStandby) void this.#checkPromotion(log);
    try {
      report(this.#db, { changes: { slot: this.#options.slot, ...this.stats() } });
    } catch {
      // Another stream has trapped the core of both. This stream's next call rejects.
      void this.#connection?.close();
    }
  }

  async #attend(): Promise<void> {
    const happened = this.#happened;
    this.#happened = 0;
    if (happened & CHANGES_TYPES_WANTED) {
      this.#waits = true;
      await this.#learn();
    }
    if (happened & CHANGES_ANSWERED) {
      this.#connection!.answer();
      throw lost("the server ended the stream");
    }
    if (happened & CHANGES_KEEPALIVE && !(happened & CHANGES_LINES)) this.#skipToEnd();
    if (happened & CHANGES_STATUS_WANTED) this.#report();
  }

  /** If no commit waits for an acknowledgement, the server need not keep WAL that has no table of the publication. */
  #skipToEnd(): void {
    const [committed, end, isOutside] = this.#core.call(
      (handle) => [handle.committed(), handle.end(), handle.is_outside()] as const,
    );
    if (isOutside && this.#acknowledged >= committed && end > this.#flushed) this.#flushed = end;
  }

  /** Looks up the database's own types, once per description of a table. */
  async #learn(): Promise<void> {
    const oids = this.#core.call((handle) => handle.take_wanted_types());
    const columns = [...oids].map((typeOid) => ({ typeOid }));
    const question = this.catalog.question(columns);
    if (question !== undefined) {
      const { rows } = await this.#db.query<{ json_agg: never[] | null }>(question);
      this.catalog.learn(columns, rows[0]?.json_agg ?? []);
    }
    this.#core.define(this.catalog.definitions());
  }

  /**
   * Sends a status update, asks a silent server for a keepalive, and at last gives the connection up: a dead link
   * reports no error. Before changes are read, another connection asks what the server does.
   */
  #checkSilence(): void {
    const silence = this.#watch.look(this.#connection);
    if (!this.#isStreaming) return void (silence !== "heard" && this.#checkWork());
    if (silence === "dead") void this.#connection!.close();
    else this.#report(silence === "silent");
  }

  /** A standby that was promoted has a timeline of its own from then on, which the next connection learns. */
  async #checkPromotion(standby: { readonly instance?: string }): Promise<void> {
    const connection = this.#connection;
    if (await this.#watch.isPromoted(standby)) void connection?.close();
  }

  /** Gives a silent connection up if its server is not at work. */
  async #checkWork(): Promise<void> {
    const [connection, server] = [this.#connection, this.#server];
    if (!connection || !server) return; // its first answer has a deadline
    if (await this.#watch.isIdle(connection, server)) void connection.close();
  }

  #report(wantsAnswer = false): void {
    try {
      this.#connection?.updateStatus(this.#reportable, wantsAnswer);
    } catch {
      // The reader of the connection gets its errors.
    }
  }

  /** The server does not check the position: beyond the end of its log, it would pass over commits to come. */
  get #reportable(): bigint {
    const end = this.#end;
    return this.#flushed < end ? this.#flushed : end;
  }

  /** The end of the server's log, as far as is known. */
  get #end(): bigint {
    const end = this.#core.call((handle) => handle.end());
    return end > this.#log.end ? end : this.#log.end;
  }

  /** Keeps the end for `stats`, because the core is freed. */
  #noteEnd(): void {
    try {
      this.#log.reaches(this.#end);
    } catch {
      // The core has failed, which is why the stream ends.
    }
  }

  /** Returns when another connection may be tried, or throws the error that ends the stream. */
  async #comeBack(error: unknown): Promise<void> {
    this.#happened = 0;
    this.#isStreaming = false;
    await this.#connection?.close();
    this.#connection = undefined;
    if (this.#own.hasSlot) {
      const hasBegun = this.#snapshot?.hasBegun === true;
      const why = await this.#own.drop();
      throw hasBegun || why ? brokeOff(error, this.#options.slot, why) : this.#truthful(error);
    }
    if (!this.#retries.mayHelp(error, this.#stage)) throw this.#truthful(error);
    this.#reason = (error as Error).message;
    await this.#pause(this.#retries.pause());
  }

  /** Waits. Ends early if the stream is over. */
  async #pause(milliseconds: number): Promise<void> {
    const { signal } = this.#over;
    if (signal.aborted) return;
    await new Promise<void>((resolve) => {
      const over = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", over);
        resolve();
      };
      const timer = setTimeout(over, milliseconds);
      signal.addEventListener("abort", over);
    });
  }

  get #stage() {
    return {
      hasConnected: this.#connections > 0,
      hasSnapshot: this.#snapshot !== undefined,
      hasStreamed: this.#hasStreamed,
      isTemporary: this.#options.createSlot === "temporary",
    };
  }

  /**
   * Marks an error as retryable if nothing was yielded: it is then safe to read the same changes again, whatever the
   * server has done.
   */
  #truthful(error: unknown): unknown {
    const isSafe =
      !this.#hasStreamed && !this.#snapshot?.hasBegun && ["CONNECTION_LOST", "CONNECT_TIMEOUT"].includes(codeOf(error));
    return isSafe ? Object.assign(error as PgzError, { hasNoEffect: true, retryable: true }) : error;
  }
}

/** Older servers refuse the command on a standby. One that is promoted just before it would run it, unchecked. */
function onOldStandby(): PostgresError {
  const message = `logical decoding on a standby needs PostgreSQL ${OLDEST_STANDBY}: it is in recovery`;
  return new PostgresError({ severity: "ERROR", code: "0A000", message });
}

const codeOf = (error: unknown) => (error instanceof PgzError ? error.code : "");

const isThere = (error: unknown) => error instanceof PostgresError && error.code === "42710";

function slotExists(slot: string, hasTried: boolean, cause: unknown): UsageError {
  const again = hasTried
    ? " This stream may have made it on a connection that was lost before the response came: if so, drop it."
    : "";
  return new UsageError(
    "INVALID_OPTION",
    `Slot "${slot}" exists, and a snapshot needs a new slot. If the snapshot that made it had come whole, up to the ` +
      'change "snapshot", leave "snapshot" out to continue. Otherwise rows are missing: drop the slot, discard the ' +
      `rows, and start again.${again}`,
    { cause },
  );
}

/** `why`: the reason if the slot could not be dropped. */
function brokeOff(cause: unknown, slot: string, why: Error | undefined): PgzError {
  const outcome = why ? `could not be dropped (${why.message}): drop it` : "was dropped";
  const message = `The snapshot broke off, and slot "${slot}", which was made for it, ${outcome}. ${(cause as Error).message}`;
  return withAdvice(new PgzError("SNAPSHOT_BROKEN_OFF", message, { cause }), (cause as Partial<PgzError>).advice);
}
