// The server's log as logical decoding reads it: its end, and the changes of each committed transaction.
//
//   change ── its record ──> end      commit ── its record ──> [begins, ends)      in the order of commits
//
// While no slot exists only the end advances, and no change is recorded. Positions are numbers here, and text in views
// and commands. Knows tables as far as a change needs them. Must not know SQL, or which slots read.
import type { Transaction } from "../transactions.ts";
import type { Attribute, ReplicaIdentity } from "../tables.ts";
import type { Value } from "../values.ts";

/** A table as it was at the time of the change. */
export interface LoggedTable {
  readonly oid: number;
  readonly name: string;
  readonly replicaIdentity: ReplicaIdentity;
  readonly attributes: readonly Attribute[];
  /** The revision of its description. Every change of the table makes decoders describe it again, TRUNCATE too. */
  readonly revision: number;
}

export interface LoggedChange {
  readonly kind: "insert" | "update" | "delete" | "truncate" | "message";
  /** The position of its record. */
  readonly position: number;
  /** More than one only for TRUNCATE. */
  readonly tables: readonly LoggedTable[];
  readonly old?: readonly Value[] | undefined;
  readonly new?: readonly Value[] | undefined;
  /** Of a message. */
  readonly prefix?: string;
  readonly content?: string;
}

/** A committed transaction with its changes, without those that it rolled back. */
export interface Committed {
  readonly xid: number;
  /** The start of its commit record. */
  readonly begins: number;
  readonly ends: number;
  /** Virtual milliseconds. */
  readonly at: number;
  readonly changes: readonly LoggedChange[];
}

/** So near to the carry into the upper half of a position that most sessions with a slot reach it. */
const START = 0x1_ffff_fe00;
const CHANGE = 64;
const COMMIT = 48;

const PAGE = 8_192;
/** The size of a file of the log. The lower half of a position spans 256 files. */
const SEGMENT = 2 ** 24;

/** Returns where the next record begins: after its page's header if the last record has filled the previous page. */
export function insertPosition(end: number): number {
  if (end % PAGE) return end;
  return end + (end % SEGMENT ? 24 : 40);
}

/** Returns the name of the file that holds the byte before `position`. */
export function logFileName(timeline: number, position: number): string {
  const segment = Math.floor((position - 1) / SEGMENT);
  const parts = [timeline, Math.floor(segment / 256), segment % 256];
  return parts.map((part) => part.toString(16).toUpperCase().padStart(8, "0")).join("");
}

export class Log {
  #end = START;
  #readers = 0;
  readonly #committed: Committed[] = [];
  /** Commits that are not on disk yet, with `synchronous_commit = off`. No slot reads them, and a crash loses them. */
  #unflushed: Committed[] = [];
  readonly #listeners = new Set<() => void>();

  get end(): number {
    return this.#end;
  }

  /** The end of what is on disk. */
  get flushed(): number {
    return this.#unflushed[0]?.begins ?? this.#end;
  }

  /** Everything that was recorded, including what no slot needs any more. */
  get committed(): readonly Committed[] {
    return this.#committed;
  }

  get unflushed(): readonly Committed[] {
    return this.#unflushed;
  }

  /** Whether changes are recorded: a slot exists, or is being created. */
  get isRecording(): boolean {
    return this.#readers > 0;
  }

  /** Records changes from now on, until `close`. */
  open(): void {
    this.#readers++;
  }

  close(): void {
    this.#readers--;
  }

  /** Makes the last record fill its page. */
  fillPage(): void {
    this.#end = Math.ceil((this.#end + 1) / PAGE) * PAGE;
  }

  /** Sets the end: a standby has replayed up to it, or a server's copy ends there. */
  moveTo(end: number): void {
    this.#end = end;
  }

  /** Adds a record that no reader looks at. */
  advance(): void {
    this.#end += COMMIT;
  }

  /** Records a change, or returns `undefined` if no slot needs it. */
  record(kind: LoggedChange["kind"], tables: readonly LoggedTable[], rows: Rows = {}): LoggedChange | undefined {
    if (!this.isRecording || !tables.length) return undefined;
    const position = this.#end;
    this.#end += CHANGE;
    // A column that is added later is added to the existing rows, so these are copied.
    return { kind, position, tables, old: rows.old && [...rows.old], new: rows.new && [...rows.new] };
  }

  /** Records a message, or returns `undefined` if no slot needs it. */
  message(prefix: string, content: string): LoggedChange | undefined {
    if (!this.isRecording) return undefined;
    const position = this.#end;
    this.#end += CHANGE;
    return { kind: "message", position, tables: [], prefix, content };
  }

  /** Returns what is not on disk until `flush`. */
  commit(transaction: Transaction, now: number): Committed {
    const begins = this.#end;
    this.#end += COMMIT;
    const { id, xid = id, logged: changes } = transaction;
    const committed = { xid, begins, ends: this.#end, at: now, changes };
    this.#unflushed.push(committed);
    return committed;
  }

  /** This commit, and all before it, are on disk. Returns those that were not. */
  flush(last: Committed): readonly Committed[] {
    const flushed = this.#unflushed.splice(0, this.#unflushed.indexOf(last) + 1);
    if (this.isRecording) {
      this.#committed.push(...flushed);
      for (const listener of this.#listeners) listener();
    }
    return flushed;
  }

  /** The server has crashed. */
  loseUnflushed(): void {
    this.#end = this.flushed;
    this.#unflushed = [];
  }

  /** Calls `listener` with each commit. Returns a function that stops this. */
  onCommit(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

interface Rows {
  readonly old?: readonly Value[];
  readonly new?: readonly Value[];
}

/** Returns the position of a text: `1/FFFFF000` is 0x1fffff000. */
export function positionOf(text: string): number {
  const [high = "", low = ""] = text.split("/");
  return parseInt(high, 16) * 2 ** 32 + parseInt(low, 16);
}

export function textOf(position: number): string {
  return `${Math.floor(position / 2 ** 32).toString(16)}/${(position % 2 ** 32).toString(16)}`.toUpperCase();
}
