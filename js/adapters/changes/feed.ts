// A stream of changes over all its connections: pieces as they come, and acknowledgements on their way back.
//
//   connect ── [snapshot] ── START_REPLICATION ──> read ── changes ─> the consumer, who asks for the next ones
//      ^                                            │
//      └──────────────── pause <──────────── lost ──┘       behind what was acknowledged; whole transactions that the
//                                             consumer has had are dropped by the core
//
// Knows when to connect again, and what the server need not keep. Must not know what a piece says.
import { AbortError, ConnectionError, PgzError, PostgresError, TimeoutError, UsageError } from "../../index.ts";
import type { ChangesEvent, Client, Pool } from "../../index.ts";
import { Catalog } from "../../session/catalog.ts";
import {
  CHANGES_ANSWERED,
  CHANGES_KEEPALIVE,
  CHANGES_LINES,
  CHANGES_STATUS_WANTED,
  CHANGES_TYPES_WANTED,
} from "../../wasm/numbers.ts";
import { advised } from "./advice.ts";
import { configOf } from "./config.ts";
import { Core } from "./core.ts";
import { Lag } from "./lag.ts";
import { creation, identifier, literal, positionOf, start, textOf, type ChangesOptions } from "./options.ts";
import { OwnPublication } from "./own-publication.ts";
import { lost, Replication } from "./replication.ts";
import { Snapshot } from "./snapshot.ts";

/** Of the answers to commands. */
const MAX_MESSAGE_BYTES = 1 << 20;
const STATUS_INTERVAL = 10_000;
/** Milliseconds before another connection is tried: doubled each time. */
const FIRST_PAUSE = 100;
const LONGEST_PAUSE = 10_000;
/**
 * Status intervals of silence: by default 30 s, then a minute, as PostgreSQL's own subscriptions have it
 * (wal_receiver_timeout). Not less: a server that skips a large transaction says nothing for half a minute, and one
 * that is given up for that would begin it again without an end.
 */
const ASKED_AFTER = 3;
const GIVEN_UP_AFTER = 6;
const NOTHING = new Uint8Array(0);

/** Errors behind which another connection may help: a server that goes or comes, a slot that another one still has. */
const PASSING = /^(57P0[1235]|53300|55006|08...)$/;
/** Of the server itself. Before anything has streamed, 08P01 is a pooler's, which says the same each time. */
const PASSING_AT_FIRST = /^(57P0[1235]|53300)$/;
/**
 * Connections in a row that may be lost before the first one streams. Their pauses are 13 to 25 s: a server that
 * crashes starts again meanwhile, and something in between that ends each connection is told of.
 */
const LOST_AT_FIRST = 8;

/** Milliseconds to connect and to drop the slot of a snapshot that broke off, or the publication. */
const LONGEST_DROP = 5_000;

/** Where a stream of changes is. */
export type ChangesStats = Omit<ChangesEvent, "slot">;

export class Feed {
  readonly catalog = new Catalog();
  readonly #db: Client | Pool;
  readonly #options: ChangesOptions;
  readonly #core: Core;
  readonly #over = new AbortController();
  readonly #unhear: () => void;
  /** Sends status updates, from the first connection on. */
  #timer: ReturnType<typeof setInterval> | undefined;
  #connection: Replication | undefined;
  #connections = 0;
  /** Until all its rows were yielded. */
  #snapshot: Snapshot | undefined;
  /** The slot was made for a snapshot whose rows were not all yielded. */
  #madeForSnapshot = false;
  /** Of option `tables`. */
  readonly #ownPublication: OwnPublication | undefined;
  /** The publication was made, and not dropped. */
  #hasOwn = false;
  readonly #publications: readonly string[];
  #undoing: Promise<string> | undefined;
  readonly #lag = new Lag();
  /** Some connection has streamed: from now on one that fails is tried again. */
  #hasStreamed = false;
  #isStreaming = false;
  #failures = 0;
  /** Connections in a row that were lost before the first one has streamed. */
  #lostAtFirst = 0;
  /** What was heard of this connection at the last look, and how many looks it has been silent for. */
  #heard: number | undefined;
  #silentLooks = 0;
  /** Bits `CHANGES_…` that were not attended to. */
  #happened = 0;
  /** Bytes wait in the core behind the description of a table. */
  #waits = false;
  /** What the server need not keep. */
  #flushed: bigint;
  /** Behind the last commit that the consumer has acknowledged. */
  #acknowledged = 0n;

  constructor(db: Client | Pool, options: ChangesOptions, rowForm: number) {
    this.#db = db;
    this.#options = options;
    this.#core = new Core(configOf(db).maxMessageBytes, rowForm);
    this.#flushed = positionOf(options.from ?? "0/0");
    const { slot, publication = [], tables, signal } = options;
    this.#ownPublication = tables && new OwnPublication(slot, tables);
    this.#publications = this.#ownPublication ? [this.#ownPublication.name] : [publication].flat();
    const abort = () => this.#stop(new AbortError(signal!.reason));
    signal?.addEventListener("abort", abort);
    this.#unhear = () => signal?.removeEventListener("abort", abort);
    if (signal?.aborted) abort();
  }

  /** The next changes, at least one: lines, or a batch where the row form says so. */
  async next(): Promise<Uint8Array> {
    for (;;) {
      this.#over.signal.throwIfAborted();
      try {
        await this.#attend();
        const connection = this.#connection ?? (await this.#connect());
        if (this.#snapshot) {
          if (await this.#snapshot.more()) return this.#take();
          await this.#stream(connection);
        }
        this.#happened |= this.#waits ? connection.received(NOTHING) : await connection.read();
        this.#waits = false;
        // First the changes, then what else has happened: those of the next connection are to be told apart.
        if (!(this.#happened & CHANGES_LINES)) continue;
        if (this.#happened & CHANGES_STATUS_WANTED) await this.#report(); // the next call may come late
        return this.#take();
      } catch (error) {
        this.#over.signal.throwIfAborted();
        await this.#comeBack(advised(error));
      }
    }
  }

  /** How many were made. */
  get connections(): number {
    return this.#connections;
  }

  stats(): ChangesStats {
    const isOver = this.#over.signal.aborted;
    const end = isOver ? this.#flushed : this.#core.call((handle) => handle.end());
    const behind = end - this.#flushed;
    return {
      state: isOver ? "over" : this.#snapshot ? "snapshot" : this.#isStreaming ? "streaming" : "connecting",
      connections: this.#connections,
      acknowledged: textOf(this.#flushed),
      end: textOf(end > this.#flushed ? end : this.#flushed),
      lagBytes: behind > 0n ? Number(behind) : 0,
      lagSeconds: this.#lag.seconds(Date.now()),
    };
  }

  /** All commits that the core has read were yielded: the consumer asks for more. */
  acknowledgeAll(): void {
    void this.acknowledge(this.#core.call((handle) => handle.committed()));
  }

  async acknowledge(position: bigint): Promise<void> {
    if (position <= this.#acknowledged) return;
    this.#acknowledged = position;
    this.#lag.acknowledged(position);
    if (position > this.#flushed) this.#flushed = position;
    await this.#report();
  }

  /** Ends it. What was acknowledged reaches the server before the connection ends. */
  async end(): Promise<void> {
    const connection = this.#connection;
    if (!this.#over.signal.aborted) await this.#report();
    this.#stop(new AbortError("the stream of changes was left"));
    await connection?.close();
    await this.#undo();
    this.#core.free();
  }

  #stop(reason: AbortError): void {
    if (this.#over.signal.aborted) return;
    clearInterval(this.#timer);
    this.#unhear();
    this.#over.abort(reason);
    void this.#connection?.close();
    void this.#undo();
  }

  async #connect(): Promise<Replication> {
    // At once the stream's own: to make a slot may take as long as transactions are open, and who aborts ends that too.
    const connection = (this.#connection = await Replication.open(this.#db, this.#core, this.#over.signal));
    this.#over.signal.throwIfAborted();
    this.#connections++;
    this.#core.call((handle) => handle.restart(handle.committed()));
    this.#waits = false;
    const { createSlot, snapshot } = this.#options;
    if (this.#ownPublication) await this.#publish(this.#ownPublication, connection);
    if (snapshot && !this.#hasStreamed) await this.#begin(connection);
    else {
      if (createSlot && !this.#hasStreamed) await this.#create(connection);
      await this.#stream(connection);
    }
    return connection;
  }

  /** In front of the slot: what is decoded is read by the catalog as it was then. */
  async #publish(own: OwnPublication, connection: Replication): Promise<void> {
    await own.make(connection);
    this.#hasOwn = true;
  }

  async #begin(connection: Replication): Promise<void> {
    const made = () => (this.#madeForSnapshot = this.#options.createSlot === "permanent");
    const learn = () => this.#learn();
    const [options, publications] = [this.#options, this.#publications];
    try {
      this.#snapshot = await Snapshot.begin(connection, this.#core, options, publications, learn, made);
    } catch (error) {
      throw isThere(error) ? slotExists(this.#options.slot, this.#connections > 1, error) : error;
    }
  }

  /** A permanent slot that exists is gone on with. */
  async #create(connection: Replication): Promise<void> {
    try {
      await connection.run(creation(this.#options, connection.serverVersion));
    } catch (error) {
      if (!isThere(error) || this.#options.createSlot === "temporary") throw error;
    }
  }

  async #stream(connection: Replication): Promise<void> {
    this.#snapshot = undefined;
    this.#madeForSnapshot = false;
    this.#hasStreamed ||= this.#options.snapshot === true;
    const { connectTimeout } = configOf(this.#db);
    const [slot] = await connection.runWithin(connectTimeout, confirmed(this.#options.slot));
    const known = positionOf(slot?.[0] ?? "0/0");
    if (known > this.#flushed) this.#flushed = known;
    const command = start(this.#options, this.#publications, textOf(this.#flushed));
    await connection.runWithin(connectTimeout, command);
    this.#isStreaming = true;
    this.#timer ??= setInterval(() => this.#tick(), this.#options.statusInterval ?? STATUS_INTERVAL);
    this.#hasStreamed = true;
    this.#failures = 0;
  }

  /** The changes that were read. What commits are in them waits to be acknowledged. */
  #take(): Uint8Array {
    const committed = this.#core.call((handle) => handle.committed());
    if (committed > this.#acknowledged) this.#lag.read(committed, Date.now());
    return this.#core.take();
  }

  #tick(): void {
    this.#heedSilence();
    try {
      configOf(this.#db).observer?.onChanges?.({ slot: this.#options.slot, ...this.stats() });
    } catch {
      // What an observer throws is dropped, as everywhere.
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
    if (happened & CHANGES_KEEPALIVE && !(happened & CHANGES_LINES)) this.#heedEnd();
    if (happened & CHANGES_STATUS_WANTED) await this.#report();
  }

  /** Nothing waits to be acknowledged, so the server need not keep what no table of the publication is in. */
  #heedEnd(): void {
    const [committed, end, isOutside] = this.#core.call(
      (handle) => [handle.committed(), handle.end(), handle.is_outside()] as const,
    );
    if (isOutside && this.#acknowledged >= committed && end > this.#flushed) this.#flushed = end;
  }

  /** The database's own types are asked for once per description of a table. */
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

  /** Reports, asks a server that is silent for a sign of life, and gives it up: nobody tells of a silent link. */
  #heedSilence(): void {
    // What has no answer before it streams has a deadline of its own.
    const heard = this.#isStreaming ? this.#connection?.heard : undefined;
    this.#silentLooks = heard !== undefined && heard === this.#heard ? this.#silentLooks + 1 : 0;
    this.#heard = heard;
    if (this.#silentLooks >= GIVEN_UP_AFTER) void this.#connection!.close();
    else void this.#report(this.#silentLooks >= ASKED_AFTER);
  }

  async #report(wantsAnswer = false): Promise<void> {
    // What is wrong with the connection its reader is told of.
    await this.#connection?.updateStatus(this.#flushed, wantsAnswer).catch(() => {});
  }

  /** Returns when another connection may be tried, or throws what ends the stream. */
  async #comeBack(error: unknown): Promise<void> {
    const connection = this.#connection;
    this.#connection = undefined;
    this.#happened = 0;
    this.#heard = undefined;
    this.#isStreaming = false;
    await connection?.close();
    if (this.#madeForSnapshot) throw brokeOff(error, await this.#undo());
    if (!this.#mayPass(error)) throw this.#truthful(error);
    const pause = Math.min(FIRST_PAUSE * 2 ** this.#failures++, LONGEST_PAUSE) * (1 + Math.random());
    await this.#pause(pause);
  }

  /** Less where the stream is over before. */
  async #pause(milliseconds: number): Promise<void> {
    const { signal } = this.#over;
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

  /** Drops what is of this stream alone. Returns what became of a broken snapshot's slot. Never rejects. */
  #undo(): Promise<string> {
    if (!this.#madeForSnapshot && !this.#hasOwn) return this.#undoing ?? Promise.resolve("");
    return (this.#undoing ??= this.#undone());
  }

  async #undone(): Promise<string> {
    const { slot } = this.#options;
    const [hasSlot, own] = [this.#madeForSnapshot, this.#hasOwn && this.#ownPublication];
    this.#madeForSnapshot = this.#hasOwn = false;
    await this.#connection?.close();
    // By a connection of its own: `db` may be closed, and its signal is often the one that has ended this stream.
    const core = new Core(MAX_MESSAGE_BYTES, 0);
    try {
      const connection = await Replication.open(this.#db, core, AbortSignal.timeout(LONGEST_DROP));
      const timer = setTimeout(() => void connection.close(), LONGEST_DROP);
      try {
        // The server may not have noticed yet that the slot's connection has ended.
        if (hasSlot) await connection.run(`DROP_REPLICATION_SLOT ${identifier(slot)} WAIT`);
        if (own) await own.drop(connection);
      } finally {
        clearTimeout(timer);
        await connection.close();
      }
      return `slot "${slot}", which was made for it, was dropped`;
    } catch (error) {
      return `slot "${slot}", which was made for it, could not be dropped (${(error as Error).message}): drop it`;
    } finally {
      core.free();
    }
  }

  #mayPass(error: unknown): boolean {
    if (!this.#hasStreamed) return this.#mayPassAtFirst(error);
    // With its connection the slot has gone, and with it what happens meanwhile.
    if (this.#options.createSlot === "temporary") return false;
    if (error instanceof PostgresError) return PASSING.test(error.code);
    const isOfNetwork = error instanceof TimeoutError || error instanceof ConnectionError;
    return isOfNetwork && error.code !== "CORE_TRAPPED";
  }

  /** A login that fails is told of at once. After one that did not, address and account are right. */
  #mayPassAtFirst(error: unknown): boolean {
    if (error instanceof PostgresError && error.code === "55006") {
      this.#lostAtFirst = 0;
      return true;
    }
    const isFirstLogin = this.#connections === 0;
    // Rows of a snapshot may have been yielded, and would come again.
    if (isFirstLogin || this.#snapshot || ++this.#lostAtFirst >= LOST_AT_FIRST) return false;
    if (error instanceof PostgresError) return PASSING_AT_FIRST.test(error.code);
    return error instanceof ConnectionError && (error.retryable || error.code === "CONNECTION_LOST");
  }

  /** Where nothing was yielded it is safe to read the same changes again, whatever the server has done before. */
  #truthful(error: unknown): unknown {
    const isSafe =
      !this.#hasStreamed && !this.#snapshot && ["CONNECTION_LOST", "CONNECT_TIMEOUT"].includes(codeOf(error));
    return isSafe ? Object.assign(error as PgzError, { retryable: true }) : error;
  }
}

const codeOf = (error: unknown) => (error instanceof PgzError ? error.code : "");

const isThere = (error: unknown) => error instanceof PostgresError && error.code === "42710";

function slotExists(slot: string, hasTried: boolean, cause: unknown): UsageError {
  const again = hasTried
    ? " It may be one that this stream has made over a connection that was lost before it heard so: drop it, if so."
    : "";
  return new UsageError(
    "INVALID_OPTION",
    `Slot "${slot}" exists, and a snapshot is taken with a slot that is made for it: leave "snapshot" out to go on ` +
      `with the slot, or drop it to begin anew.${again}`,
    { cause },
  );
}

function brokeOff(cause: unknown, slot: string): PgzError {
  const message = `The snapshot broke off, and ${slot}. ${(cause as Error).message}`;
  return new PgzError("SNAPSHOT_BROKEN_OFF", message, { cause });
}

/** What the server need not keep for the slot. */
const confirmed = (slot: string) =>
  `select confirmed_flush_lsn from pg_catalog.pg_replication_slots where slot_name = ${literal(slot)}`;
