// The stream that START_REPLICATION begins: committed transactions, keepalives, and the client's confirmations.
//
//   decode what has committed ──> behind, or nothing is left ──> keepalive? too late? ──> wait: bytes, a commit, time
//      ^                                                                                      │
//      └──────────────── status updates and CopyDone that have arrived ───────────────────────┘
//
// It works as walsender.c does: a client that has sent nothing for half of wal_sender_timeout is asked for a reply, and
// a client that has sent nothing for all of it is disconnected without a message. When the server shuts down the sender
// waits until the client has confirmed all of the log, sends COPY 0 and ends.
//
// Knows the order of messages and its clocks. Must not know the layout of a message, or how bytes are sent.
import { PgError, fatalViolation, warning } from "../errors.ts";
import { commandComplete, copyDone, Fields } from "../messages.ts";
import { Gone, type Doing } from "../process.ts";
import type { Session } from "../session.ts";
import { milliseconds } from "../settings.ts";
import { textOf, type Committed, type LoggedChange, type LoggedTable } from "./log.ts";
import * as pgoutput from "./pgoutput.ts";
import type { Slot } from "./slots.ts";

/** What the sender needs of its connection. */
export interface Standby {
  send(message: Uint8Array): void;
  flush(): void;
  /** The next message, if it has arrived completely. */
  arrived(): { readonly letter: string; readonly body: Uint8Array } | "none yet" | "gone";
  /** Waits until something arrives, or `wake` is called. */
  wait(begin: (wake: () => void) => () => void): Doing<void>;
  /** Whether the server shuts down. */
  readonly isStopping: boolean;
  /** Whether both sides have sent CopyDone once. The server never resets this, so each later stream ends at once. */
  hasSaidCopyDone: boolean;
}

/** What is sent. */
export interface Sent {
  readonly publications: readonly string[];
  /** The messages of `pg_logical_emit_message`, of all publications. */
  readonly messages: boolean;
}

/** A position of 64 bits. */
const position = (fields: Fields): number => (fields.int32() >>> 0) * 2 ** 32 + (fields.int32() >>> 0);

export class Sender {
  readonly #standby: Standby;
  readonly #session: Session;
  readonly #slot: Slot;
  readonly #publications: readonly string[];
  readonly #sendsMessages: boolean;
  /** Transactions whose commit is before this position were confirmed. */
  readonly #from: number;
  /** The index of the log's next transaction to decode. */
  #next = 0;
  /** The position up to which the log is decoded. */
  #sent: number;
  #written = 0;
  #flushed = 0;
  #heard: number;
  #waitsForAnswer = false;
  /** By OID, the revision of the table that was described to the client. */
  readonly #told = new Map<number, number>();
  /** Missing publications that were reported to the client. */
  readonly #missing = new Set<string>();
  /** When the client was last asked to confirm everything, while the server shuts down. */
  #asked = -Infinity;

  /** `from`: the position that the client has requested. */
  constructor(standby: Standby, session: Session, slot: Slot, from: number, { publications, messages }: Sent) {
    this.#standby = standby;
    this.#session = session;
    this.#slot = slot;
    this.#publications = publications;
    this.#sendsMessages = messages;
    this.#from = Math.max(from, slot.confirmed);
    this.#sent = slot.confirmed;
    this.#heard = session.clock.now;
  }

  /** Returns true when both sides have sent CopyDone, false if the client has gone or everything is over. */
  *run(): Doing<boolean> {
    this.#standby.send(pgoutput.copyBothResponse());
    this.#standby.flush();
    for (;;) {
      const end = this.#heed();
      if (end !== undefined) return end;
      if (this.#sendNext()) continue;
      if (this.#isDone()) return false;
      this.#askAndLeave();
      yield* this.#wait();
    }
  }

  // -- from the client ------------------------------------------------------------------------------------------------

  /** Reads what has arrived. Returns whether the stream has ended well, or `undefined` if it continues. */
  #heed(): boolean | undefined {
    for (;;) {
      const message = this.#standby.arrived();
      if (message === "none yet") return this.#standby.hasSaidCopyDone || undefined;
      if (message === "gone" || message.letter === "X") return false;
      this.#heard = this.#session.clock.now;
      this.#waitsForAnswer = false;
      if (message.letter === "c") {
        this.#standby.send(copyDone());
        this.#standby.hasSaidCopyDone = true;
        return true;
      }
      if (message.letter !== "d") throw fatalViolation(`invalid standby message type "${message.letter}"`);
      this.#heedData(new Fields(message.body));
    }
  }

  #heedData(fields: Fields): void {
    const letter = String.fromCharCode(fields.byte());
    if (letter === "h") return;
    // The real server reports this only in its log.
    if (letter !== "r") throw new Gone();
    this.#written = position(fields);
    this.#flushed = position(fields);
    position(fields); // applied
    position(fields); // the client's clock
    if (fields.byte()) this.#keepalive(false);
    const { world } = this.#session;
    if (this.#flushed) world.slots.confirm(this.#slot, this.#flushed, world.around.dice);
  }

  // -- to the client --------------------------------------------------------------------------------------------------

  /** Decodes and sends the next transaction. Returns false if there is none yet. */
  #sendNext(): boolean {
    const { log } = this.#session.world;
    const next = log.committed[this.#next];
    if (!next) {
      this.#sent = log.flushed;
      return false;
    }
    this.#next++;
    if (next.begins < this.#from) return true;
    this.#send(next);
    this.#sent = next.ends;
    this.#standby.flush();
    return true;
  }

  #send(transaction: Committed): void {
    let hasBegun = false;
    for (const change of transaction.changes) {
      const tables = change.tables.filter(({ oid }) => this.#isPublished(oid, transaction, change));
      if (change.kind === "message" ? !this.#sendsMessages : !tables.length) continue;
      if (!hasBegun) this.#log(change.position, pgoutput.begin(transaction));
      hasBegun = true;
      for (const table of tables) this.#tell(table);
      this.#log(change.position, this.#bodyOf(change, tables));
    }
    if (hasBegun) this.#log(transaction.ends, pgoutput.commit(transaction));
  }

  #log(start: number, body: Uint8Array): void {
    this.#standby.send(pgoutput.logData(start, this.#session.clock.now, body));
  }

  /** A change is not told either where its table joins the publication after its transaction has begun. */
  #isPublished(oid: number, { begins }: Committed, change: LoggedChange): boolean {
    const { publications } = this.#session.world;
    return this.#publications.some((name) => {
      const found = publications.find(name, begins) ?? this.#miss(name, change);
      return found?.tables.has(oid) && publications.find(name, change.position)?.tables.has(oid);
    });
  }

  /** From 18 on the server continues without the publication. */
  #miss(name: string, { position: at }: LoggedChange): undefined {
    if (this.#session.world.around.version >= 18) {
      if (this.#missing.has(name)) return undefined;
      this.#missing.add(name);
      const where = this.#callback("change", at);
      const detail = "The publication does not exist at this point in the WAL.";
      const hint = "Create the publication if it does not exist.";
      const routine = "LoadPublications";
      this.#session.notice(warning("55000", `skipped loading publication "${name}"`, { detail, hint, where, routine }));
      return undefined;
    }
    throw new PgError("42704", `publication "${name}" does not exist`, { where: this.#callback("change", at) });
  }

  #callback(of: string, at: number): string {
    return `slot "${this.#slot.name}", output plugin "pgoutput", in the ${of} callback, associated LSN ${textOf(at)}`;
  }

  /** Describes a table whose current description the client does not have. */
  #tell(table: LoggedTable): void {
    if (this.#told.get(table.oid) === table.revision) return;
    this.#told.set(table.oid, table.revision);
    for (const { type } of table.attributes) if (type.oid >= OWN_TYPES) this.#log(0, pgoutput.type(type));
    this.#log(0, pgoutput.relation(table));
  }

  #bodyOf(change: LoggedChange, tables: readonly LoggedTable[]): Uint8Array {
    const { kind, old = [], new: values = [] } = change;
    const { forms } = this.#session;
    const [table] = tables as [LoggedTable];
    switch (kind) {
      case "insert":
        return pgoutput.insert({ table, values }, forms);
      case "update":
        return pgoutput.update({ table, values: old }, { table, values }, forms);
      case "delete":
        return pgoutput.delete_({ table, values: old }, forms);
      case "truncate":
        return pgoutput.truncate(tables);
      case "message":
        return pgoutput.message(change);
    }
  }

  // -- its clocks -----------------------------------------------------------------------------------------------------

  get #timeout(): number {
    return milliseconds(this.#session.settings.get("wal_sender_timeout"));
  }

  /** Returns whether the client has confirmed everything while the server shuts down. */
  #isDone(): boolean {
    if (!this.#standby.isStopping) return false;
    if (this.#sent === (this.#flushed || this.#written)) {
      this.#standby.send(commandComplete("COPY 0"));
      return true;
    }
    const { now } = this.#session.clock;
    if (this.#waitsForAnswer || now < this.#asked + PAUSE) return false;
    this.#asked = now;
    this.#keepalive(true);
    return false;
  }

  #askAndLeave(): void {
    const silent = this.#session.clock.now - this.#heard;
    const timeout = this.#timeout;
    const isBehind = this.#flushed < this.#sent && this.#written < this.#sent;
    if (isBehind && !this.#waitsForAnswer) this.#keepalive(false);
    if (!timeout) return;
    if (silent >= timeout) throw new Gone();
    if (silent >= timeout / 2 && !this.#waitsForAnswer) this.#keepalive(true);
  }

  #keepalive(wantsAnswer: boolean): void {
    this.#waitsForAnswer ||= wantsAnswer;
    this.#standby.send(pgoutput.keepalive(this.#sent, this.#session.clock.now, wantsAnswer));
    this.#standby.flush();
  }

  *#wait(): Doing<void> {
    const { clock, world } = this.#session;
    const timeout = this.#timeout;
    const due = this.#heard + (this.#waitsForAnswer ? timeout : timeout / 2) - clock.now;
    const until = Math.max(this.#standby.isStopping ? Math.min(due, PAUSE) : due, TICK);
    yield* this.#standby.wait((wake) => {
      // The committing session is running now.
      const stop = world.log.onCommit(() => clock.after(0, wake));
      const timer = timeout ? clock.after(until, wake) : undefined;
      return () => {
        stop();
        timer?.cancel();
      };
    });
  }
}

/**
 * Milliseconds between two requests while the server shuts down. PostgreSQL asks again after each reply, which would be
 * endless where bytes take no time.
 */
const PAUSE = 10;

/** Minimum milliseconds of a wait for a time, because a sum of fractions may fall short of it. */
const TICK = 0.01;

/** The first OID of objects that are not built in. */
const OWN_TYPES = 16_384;
