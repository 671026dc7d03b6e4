// What all sessions of a server share: tables, locks, commits, listeners.
//
// Knows committed state and how it changes. Must not know sessions' conversations, or how a server starts and stops.
import type { Clock, Dice } from "../contract.ts";
import { Locks } from "./locks.ts";
import type { Committed, Log } from "./replication/log.ts";
import { Publications } from "./replication/publications.ts";
import { Slots } from "./replication/slots.ts";
import type { Session } from "./session.ts";
import { Standing } from "./standing.ts";
import { Commits, firstTables, type Table } from "./tables.ts";
import { Transaction } from "./transactions.ts";

export interface Notification {
  readonly processId: number;
  readonly channel: string;
  readonly payload: string;
}

/** What sessions use of their server. */
export interface Surroundings {
  readonly version: 15 | 18;
  readonly clock: Clock;
  readonly dice: Dice;
  readonly roles: readonly string[];
  thinkTime(what: string, text: string): number;
  /** Milliseconds from the record of a commit in the log until it is visible. */
  visibleAfter(): number;
  /** Milliseconds until it is on disk. */
  flushedAfter(): number;
  sessions(): readonly SessionInfo[];
  /** The open transactions. */
  transactions(): readonly Transaction[];
  notify(notification: Notification): void;
  /** Cancels the statement of a process. Returns whether there is such a process. */
  cancel(processId: number): boolean;
  terminate(processId: number): boolean;
}

/** A row of pg_stat_activity. */
export interface SessionInfo {
  readonly processId: number;
  readonly user: string;
  readonly database: string;
  readonly applicationName: string;
  readonly state: string;
  readonly query: string;
}

export class World {
  readonly #surroundings: Surroundings;
  locks: Locks;
  readonly commits = new Commits();
  readonly tables: Table[] = [];
  readonly publications = new Publications();
  readonly slots = new Slots(this.commits.log);
  /** The server's role in its cluster. */
  readonly standing = new Standing();
  /** Changes when tables are made, changed or dropped, so that statements are analysed again. */
  catalogVersion = 0;
  /** Texts that the model does not know and has refused as a syntax error. */
  readonly unknownStatements: string[] = [];
  #oid = 16_384;
  #transactions = 700;
  /** In the order of their commits in the log. */
  readonly #unflushed = new Map<Committed, Transaction>();
  /** The highest id that is on disk. */
  #flushedXid = 700;

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings;
    this.locks = new Locks(surroundings.clock);
    const first = new Transaction(this.nextTransaction(), 0, this.locks);
    // After the OIDs of the types.
    this.#oid = 16_410;
    this.tables.push(...firstTables(() => this.newOid(), this.commits, first));
    this.commit(first);
    this.publications.add("simulated", [this.tables[0]!.oid], 0);
  }

  get clock(): Clock {
    return this.#surroundings.clock;
  }

  get log(): Log {
    return this.commits.log;
  }

  get around(): Surroundings {
    return this.#surroundings;
  }

  thinkTime(what: string, text: string): number {
    return this.#surroundings.thinkTime(what, text);
  }

  newOid(): number {
    return this.#oid++;
  }

  nextTransaction(): number {
    return this.#transactions++;
  }

  /** Makes the transaction's changes visible to all sessions. */
  commit(transaction: Transaction): void {
    this.logCommit(transaction);
    this.endSnapshot(transaction);
    this.commits.count++;
    transaction.commit();
  }

  /** Writes the commit to the log, which others may read before it is visible. */
  logCommit(transaction: Transaction): void {
    if (!transaction.hasWritten || transaction.isLogged) return;
    const committed = this.log.commit(transaction, this.clock.now);
    transaction.commitLogged(committed.begins);
    this.#unflushed.set(committed, transaction);
    const wait = this.#surroundings.flushedAfter();
    if (!wait) return this.#flush(committed);
    this.clock.after(wait, () => {
      if (this.#unflushed.has(committed)) this.#flush(committed); // else flushed with a later one, or lost
    });
  }

  /** With all that are before it in the log. */
  #flush(committed: Committed): void {
    for (const one of this.log.flush(committed)) {
      this.#unflushed.delete(one);
      this.#flushedXid = Math.max(this.#flushedXid, one.xid);
    }
  }

  /** The server has crashed: commits that were not on disk have never been, and their ids are given again. */
  loseUnflushed(): void {
    const lost = [...this.#unflushed.values()].reverse();
    if (!lost.length) return;
    this.#unflushed.clear();
    for (const transaction of lost) transaction.lose();
    this.#transactions = this.#flushedXid + 1;
    this.log.loseUnflushed();
    this.commits.count++;
    this.catalogVersion++;
  }

  /** `pg_current_snapshot()` as text. */
  snapshot(): string {
    if (this.standing.snapshot) return this.standing.snapshot();
    const running = this.#surroundings.transactions().flatMap(({ xid }) => xid ?? []);
    const xip = running.sort((a, b) => a - b);
    return `${xip[0] ?? this.#transactions}:${this.#transactions}:${xip.join(",")}`;
  }

  takeSnapshot(transaction: Transaction): void {
    transaction.snapshot = this.commits.count;
    this.commits.snapshots.add(transaction);
  }

  endSnapshot(transaction: Transaction): void {
    this.commits.snapshots.delete(transaction);
  }

  notify(notification: Notification): void {
    this.#surroundings.notify(notification);
  }

  // -- tables ---------------------------------------------------------------------------------------------------------

  /** Returns the table as this session finds it: its temporary tables hide others. */
  table(name: string, session: Session): Table | undefined {
    const isVisible = ({ madeBy }: Table) => !madeBy || madeBy === session.transaction;
    const all = this.tables.filter((table) => table.name === name && isVisible(table));
    return all.find(({ owner }) => owner === session) ?? all.find(({ owner }) => !owner);
  }

  addTable(table: Table, session: Session): void {
    const transaction = session.transaction!;
    table.madeBy = transaction;
    this.tables.push(table);
    this.catalogVersion++;
    transaction.add({
      undo: () => {
        this.tables.splice(this.tables.indexOf(table), 1);
        this.catalogVersion++;
      },
      keep: () => {
        table.madeBy = undefined;
      },
    });
  }

  /** Drops a table for its transaction at once. No other session can read it, because it is locked. */
  dropTable(table: Table, transaction: Transaction): void {
    const at = this.tables.indexOf(table);
    this.tables.splice(at, 1);
    this.catalogVersion++;
    transaction.add({
      undo: () => {
        this.tables.splice(at, 0, table);
        this.catalogVersion++;
      },
    });
  }

  changed(transaction: Transaction): void {
    this.catalogVersion++;
    transaction.add({ undo: () => void this.catalogVersion++ });
  }

  dropTemporary(session: Session): void {
    for (let at = this.tables.length - 1; at >= 0; at--)
      if (this.tables[at]!.owner === session) this.tables.splice(at, 1);
  }

  temporaryOf(session: Session): Table[] {
    return this.tables.filter(({ owner }) => owner === session);
  }
}
