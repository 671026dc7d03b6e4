// A transaction: its changes and how they are undone, its savepoints, and what it sees.
//
// Knows how a change is kept, undone or completed. Must not know blocks (BEGIN … COMMIT: blocks.ts) or SQL.
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
  /** Called with the position of the commit in the log, which decoders see before sessions see the commit. */
  commitLogged?(position: number): void;
  /** Called when the transaction commits. */
  keep?(): void;
  /** Called when a crash loses the commit. */
  lose?(): void;
  /** What decoders of the log receive of the change. */
  readonly logged?: LoggedChange | undefined;
}

export class Transaction {
  isolation = "read committed";
  isReadOnly = false;
  isDeferrable = false;
  /** Commits up to this one are visible. `undefined`, with READ COMMITTED: each statement sees the commits so far. */
  snapshot: number | undefined;
  /** A query has run, so the isolation level cannot be set any more. */
  hasRun = false;
  /** The transaction has written, so its commit takes time. */
  hasWritten = false;
  /** Its id in the log and in snapshots, which it has from its first write on. */
  xid: number | undefined;
  /** Its commit is in the log: it cannot be rolled back any more, though it may not be visible yet. */
  isLogged = false;
  /** The server shows the tree of each statement that it parses (`debug_print_rewritten`). */
  showsTrees = false;
  readonly #changes: Change[] = [];
  #kept: Change[] = [];
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

  /** Releases a savepoint. Returns false if there is none with this name. */
  release(name: string): boolean {
    const at = this.#find(name);
    if (at >= 0) this.#savepoints.length = at;
    return at >= 0;
  }

  /** Rolls back to a savepoint, which stays. Returns its mark, or `undefined` if there is none with this name. */
  rollBackTo(name: string): number | undefined {
    const at = this.#find(name);
    if (at < 0) return undefined;
    this.#savepoints.length = at + 1;
    this.#undo(this.#savepoints[at]!.changes);
    return this.#savepoints[at]!.mark;
  }

  /** Returns the last savepoint with this name. */
  #find(name: string): number {
    return this.savepoints.lastIndexOf(name);
  }

  /** A statement has failed: undoes all changes since the last savepoint. */
  fail(): void {
    const last = this.#savepoints.at(-1);
    this.#undo(last?.changes ?? 0);
    if (!last) this.locks.releaseAll(this);
  }

  /** Logged changes in order, without those that were rolled back. */
  get logged(): LoggedChange[] {
    return this.#changes.flatMap(({ logged }) => logged ?? []);
  }

  commitLogged(position: number): void {
    this.isLogged = true;
    for (const change of this.#changes) change.commitLogged?.(position);
  }

  commit(): void {
    this.isOver = true;
    this.#kept = this.#changes.splice(0);
    for (const change of this.#kept) change.keep?.();
    this.#end();
  }

  /** A crash has lost the commit, which may not have been visible yet. */
  lose(): void {
    this.isLogged = false;
    for (const change of this.#kept.splice(0).reverse()) change.lose?.();
  }

  rollBack(): void {
    this.isOver = true;
    this.#undo(0);
    this.#end();
  }

  /** Calls `wake` when the transaction is over. Returns a function that stops this. */
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
