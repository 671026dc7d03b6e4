// The server's log as logical decoding reads it: where it ends, and the changes of each transaction that has committed.
//
//   change ── its record ──> end      commit ── its record ──> [begins, ends)      in the order of commits
//
// While no slot is there only the end moves on, and no change is recorded. Positions are numbers here, text in views
// and commands. Knows tables by what a change needs of them. Must not know SQL, or who reads.
import type { Transaction } from "../transactions.ts";
import type { Attribute, ReplicaIdentity } from "../tables.ts";
import type { Value } from "../values.ts";

/** A table as it was when it was changed. */
export interface LoggedTable {
  readonly oid: number;
  readonly name: string;
  readonly replicaIdentity: ReplicaIdentity;
  readonly attributes: readonly Attribute[];
  /** Of its description: whatever changes the table tells of it anew, TRUNCATE too. */
  readonly revision: number;
}

export interface LoggedChange {
  readonly kind: "insert" | "update" | "delete" | "truncate";
  /** Where its record is. */
  readonly position: number;
  /** Several for TRUNCATE alone. */
  readonly tables: readonly LoggedTable[];
  readonly old?: readonly Value[] | undefined;
  readonly new?: readonly Value[] | undefined;
}

/** A transaction that has committed, with what it has changed; what it rolled back is left out. */
export interface Committed {
  readonly xid: number;
  /** Of its commit record. */
  readonly begins: number;
  readonly ends: number;
  /** Virtual milliseconds. */
  readonly at: number;
  readonly changes: readonly LoggedChange[];
}

/** So near to the carry into the upper half of a position that most sessions with a slot meet it. */
const START = 0x1_ffff_fe00;
const CHANGE = 64;
const COMMIT = 48;

const PAGE = 8_192;
/** A file of the log, of which a position's upper half has 256. */
const SEGMENT = 2 ** 24;

/** Where the next record begins: behind the header of its page, where the last one has filled the page before it. */
export function insertPosition(end: number): number {
  if (end % PAGE) return end;
  return end + (end % SEGMENT ? 24 : 40);
}

/** The file that has the byte in front of `position`. */
export function logFileName(timeline: number, position: number): string {
  const segment = Math.floor((position - 1) / SEGMENT);
  const parts = [timeline, Math.floor(segment / 256), segment % 256];
  return parts.map((part) => part.toString(16).toUpperCase().padStart(8, "0")).join("");
}

export class Log {
  #end = START;
  #readers = 0;
  readonly #committed: Committed[] = [];
  readonly #listeners = new Set<() => void>();

  get end(): number {
    return this.#end;
  }

  /** All that was recorded, also what no slot needs any more. */
  get committed(): readonly Committed[] {
    return this.#committed;
  }

  /** Changes are wanted: a slot is there, or is being made. */
  get isRecording(): boolean {
    return this.#readers > 0;
  }

  /** From now on until `close` changes are recorded. */
  open(): void {
    this.#readers++;
  }

  close(): void {
    this.#readers--;
  }

  /** Its last record fills its page. */
  fillPage(): void {
    this.#end = Math.ceil((this.#end + 1) / PAGE) * PAGE;
  }

  /** A standby has replayed up to there, or a copy of a server was made then. */
  moveTo(end: number): void {
    this.#end = end;
  }

  /** Another record, which no reader looks at. */
  advance(): void {
    this.#end += COMMIT;
  }

  /** `undefined`: nobody wants it. */
  record(kind: LoggedChange["kind"], tables: readonly LoggedTable[], rows: Rows = {}): LoggedChange | undefined {
    if (!this.isRecording || !tables.length) return undefined;
    const position = this.#end;
    this.#end += CHANGE;
    // A column that is added later is added to the rows that are there.
    return { kind, position, tables, old: rows.old && [...rows.old], new: rows.new && [...rows.new] };
  }

  commit(transaction: Transaction, now: number): void {
    const begins = this.#end;
    this.#end += COMMIT;
    if (!this.isRecording) return;
    const { id: xid, logged: changes } = transaction;
    this.#committed.push({ xid, begins, ends: this.#end, at: now, changes });
    for (const listener of this.#listeners) listener();
  }

  /** `listener` is called with each commit. Returns how to stop that. */
  onCommit(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }
}

interface Rows {
  readonly old?: readonly Value[];
  readonly new?: readonly Value[];
}

/** `1/FFFFF000` is 0x1fffff000. */
export function positionOf(text: string): number {
  const [high = "", low = ""] = text.split("/");
  return parseInt(high, 16) * 2 ** 32 + parseInt(low, 16);
}

export function textOf(position: number): string {
  return `${Math.floor(position / 2 ** 32).toString(16)}/${(position % 2 ** 32).toString(16)}`.toUpperCase();
}
