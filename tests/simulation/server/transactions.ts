// A transaction: what it has changed and how that is undone, its savepoints, and what it sees.
//
// Knows how a change is kept, undone or made good. Must not know blocks (BEGIN … COMMIT: blocks.ts) or SQL.
import type { Locks } from "./locks.ts";
import type { LoggedChange } from "./replication/log.ts";

interface Savepoint {
  readonly name: string;
  readonly changes: number;
  /** What its session had counted until then. */
  readonly mark: number;
}

interface Change {
  undo?(): void;
  /** When the transaction commits. */
  keep?(): void;
  /** What those who decode the log get of it. */
  readonly logged?: LoggedChange | undefined;
}

export class Transaction {
  isolation = "read committed";
  isReadOnly = false;
  isDeferrable = false;
  /** What was committed until then is visible; `undefined`: with READ COMMITTED, to each statement what is there. */
  snapshot: number | undefined;
  /** A query has run: its isolation can be set no more. */
  hasRun = false;
  /** Its commit takes time. */
  hasWritten = false;
  readonly #changes: Change[] = [];
  readonly #savepoints: Savepoint[] = [];
  isOver = false;
  #waiting: Set<() => void> | undefined;

  constructor(
    readonly id: number,
    /** Virtual milliseconds, for `now()`. */
    readonly startedAt: number,
    readonly locks: Locks,
  ) {}

  get takesSnapshot(): boolean {
    return this.isolation === "repeatable read" || this.isolation === "serializable";
  }

  add(change: Change): void {
    this.#changes.push(change);
  }

  get savepoints(): readonly string[] {
    return this.#savepoints.map(({ name }) => name);
  }

  savepoint(name: string, mark: number): void {
    this.#savepoints.push({ name, changes: this.#changes.length, mark });
  }

  /** `false`: there is none of that name. */
  release(name: string): boolean {
    const at = this.#find(name);
    if (at >= 0) this.#savepoints.length = at;
    return at >= 0;
  }

  /** The savepoint itself stays. Returns its mark; `undefined`: there is none of that name. */
  rollBackTo(name: string): number | undefined {
    const at = this.#find(name);
    if (at < 0) return undefined;
    this.#savepoints.length = at + 1;
    this.#undo(this.#savepoints[at]!.changes);
    return this.#savepoints[at]!.mark;
  }

  /** The last one of that name. */
  #find(name: string): number {
    return this.savepoints.lastIndexOf(name);
  }

  /** A statement has failed: undoes all since the last savepoint. */
  fail(): void {
    const last = this.#savepoints.at(-1);
    this.#undo(last?.changes ?? 0);
    if (!last) this.locks.releaseAll(this);
  }

  /** In their order; what was rolled back is not among them. */
  get logged(): LoggedChange[] {
    return this.#changes.flatMap(({ logged }) => logged ?? []);
  }

  commit(): void {
    this.isOver = true;
    for (const change of this.#changes.splice(0)) change.keep?.();
    this.#end();
  }

  rollBack(): void {
    this.isOver = true;
    this.#undo(0);
    this.#end();
  }

  /** `wake` is called when it is over. Returns how to stop that. */
  onOver(wake: () => void): () => void {
    const waiting = (this.#waiting ??= new Set());
    waiting.add(wake);
    return () => waiting.delete(wake);
  }

  #end(): void {
    this.locks.releaseAll(this);
    if (this.#waiting) for (const wake of this.#waiting) wake();
  }

  #undo(length: number): void {
    while (this.#changes.length > length) this.#changes.pop()!.undo?.();
  }
}
