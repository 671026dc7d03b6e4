// Tables and their rows, in versions as PostgreSQL keeps them: which transaction made a version, and which deleted it.
//
//   visible to T:  (made by T, or committed and known to T's snapshot)  and not  (deleted by T, or the same committed)
//
// Knows transactions and their snapshots. Must not know SQL, or which session waits for which.
import { Log, type LoggedChange, type LoggedTable } from "./replication/log.ts";
import type { Transaction } from "./transactions.ts";
import { int4, text, type Type, type Value } from "./values.ts";

export interface Attribute {
  readonly name: string;
  readonly type: Type;
  readonly number: number;
}

/** What the log keeps of old rows: nothing for a table without a key, or all columns. */
export type ReplicaIdentity = "d" | "f";

/** One version of a row. */
export interface Version {
  readonly id: number;
  readonly values: Value[];
  madeBy: Transaction | undefined;
  madeAt: number;
  deletedBy: Transaction | undefined;
  deletedAt: number | undefined;
  /** The version that an UPDATE has put in its place. */
  next: Version | undefined;
}

export interface TableOptions {
  readonly oid: number;
  readonly name: string;
  /** The session that owns the temporary table. */
  readonly owner?: object;
  /** A view: the table whose rows it has. */
  readonly of?: Table;
}

/** The number of the last commit, for all tables of a server. */
export class Commits {
  count = 0;
  /** The number of row versions that ever existed. */
  versions = 0;
  /** Transactions that read an older state. */
  readonly snapshots = new Set<Transaction>();
  readonly log = new Log();
}

export class Table {
  readonly oid: number;
  readonly name: string;
  readonly owner: object | undefined;
  /** The table whose rows a view has. */
  of: Table | undefined;
  attributes: readonly Attribute[];
  replicaIdentity: ReplicaIdentity = "d";
  #revision = 0;
  #versions: Version[] = [];
  /** The number of deleted versions that may be dropped. */
  #dead = 0;
  readonly #commits: Commits;
  /** The transaction that has made the table. Until it commits, no other transaction sees the table. */
  madeBy: Transaction | undefined;

  constructor(options: TableOptions, attributes: readonly Attribute[], commits: Commits) {
    this.oid = options.oid;
    this.name = options.name;
    this.owner = options.owner;
    this.of = options.of;
    this.attributes = attributes;
    this.#commits = commits;
  }

  /** Returns the versions that `reader` sees now. Without `reader`, those that are committed. */
  visible(reader?: Transaction): Version[] {
    if (this.of) return this.of.visible(reader);
    this.#sweep();
    return this.#versions.filter((version) => this.#sees(reader, version));
  }

  insert(writer: Transaction, values: Value[]): Version {
    return this.#add(writer, values, this.#log("insert", { new: values }));
  }

  /** Replaces a version. The caller holds its lock. */
  update(writer: Transaction, version: Version, values: Value[]): void {
    const next = this.#add(writer, values);
    this.#remove(writer, version, next, this.#log("update", { old: version.values, new: values }));
  }

  /** Deletes a version. The caller holds its lock. */
  delete(writer: Transaction, version: Version): void {
    this.#remove(writer, version, undefined, this.#log("delete", { old: version.values }));
  }

  /** Empties the table. The caller logs it, since a statement may name several tables. */
  truncate(writer: Transaction): void {
    this.#redescribe(writer);
    for (const version of this.visible(writer)) this.#remove(writer, version);
  }

  /** The table as the log describes it now. */
  get logged(): LoggedTable {
    const { oid, name, replicaIdentity, attributes } = this;
    return { oid, name, replicaIdentity, attributes, revision: this.#revision };
  }

  /** Makes decoders describe the table again, in this transaction and again after its commit. */
  #redescribe(writer: Transaction): void {
    this.#revision++;
    writer.add({ keep: () => void this.#revision++ });
  }

  #log(kind: LoggedChange["kind"], rows: Parameters<Log["record"]>[2]): LoggedChange | undefined {
    const { log } = this.#commits;
    return log.isRecording && !this.owner ? log.record(kind, [this.logged], rows) : undefined;
  }

  #add(writer: Transaction, values: Value[], logged?: LoggedChange): Version {
    const version: Version = {
      id: this.#commits.versions++,
      values,
      madeBy: writer,
      madeAt: 0,
      deletedBy: undefined,
      deletedAt: undefined,
      next: undefined,
    };
    this.#versions.push(version);
    const undo = () => {
      const at = this.#versions.lastIndexOf(version);
      if (at >= 0) this.#versions.splice(at, 1);
    };
    writer.add({
      logged,
      undo,
      lose: undo,
      keep: () => {
        version.madeBy = undefined;
        version.madeAt = this.#commits.count;
      },
    });
    return version;
  }

  /** `next`: the version that an UPDATE has put in its place. */
  #remove(writer: Transaction, version: Version, next?: Version, logged?: LoggedChange): void {
    version.deletedBy = writer;
    version.next = next;
    writer.add({
      logged,
      undo: () => {
        version.deletedBy = version.next = undefined;
      },
      keep: () => {
        version.deletedBy = undefined;
        version.deletedAt = this.#commits.count;
        this.#dead++;
      },
      lose: () => {
        version.deletedAt = version.next = undefined;
        if (this.#versions.includes(version)) this.#dead--;
        else this.#versions.push(version);
      },
    });
  }

  setReplicaIdentity(writer: Transaction, identity: ReplicaIdentity): void {
    const before = this.replicaIdentity;
    this.replicaIdentity = identity;
    this.#redescribe(writer);
    writer.add({ undo: () => void (this.replicaIdentity = before) });
  }

  addColumn(writer: Transaction, name: string, type: Type): void {
    const before = this.attributes;
    this.attributes = [...before, { name, type, number: before.length + 1 }];
    this.#redescribe(writer);
    for (const { values } of this.#versions) values.push(null);
    writer.add({
      undo: () => {
        this.attributes = before;
        for (const { values } of this.#versions) values.length = before.length;
      },
    });
  }

  #sees(reader: Transaction | undefined, version: Version): boolean {
    const { madeBy, madeAt, deletedBy, deletedAt } = version;
    const snapshot = reader?.snapshot ?? Infinity;
    const isMade = madeBy ? madeBy === reader : madeAt <= snapshot;
    const isDeleted =
      (deletedBy !== undefined && deletedBy === reader) || (deletedAt !== undefined && deletedAt <= snapshot);
    return isMade && !isDeleted;
  }

  /** Drops versions that no transaction can see any more. */
  #sweep(): void {
    if (!this.#dead || this.#commits.snapshots.size) return;
    this.#dead = 0;
    this.#versions = this.#versions.filter(({ deletedAt }) => deletedAt === undefined);
  }
}

export function attributesOf(columns: readonly (readonly [name: string, type: Type])[]): Attribute[] {
  return columns.map(([name, type], at) => ({ name, type, number: at + 1 }));
}

// -- the content at the start ----------------------------------------------------------------------------------------

export function firstTables(newOid: () => number, commits: Commits, writer: Transaction): Table[] {
  const table = (name: string, columns: Parameters<typeof attributesOf>[0]) =>
    new Table({ oid: newOid(), name }, attributesOf(columns), commits);
  const ledger = table("ledger", [["n", int4]]);
  ledger.replicaIdentity = "f";
  const shape = table("shape", [
    ["a", int4],
    ["b", text],
  ]);
  shape.insert(writer, [1, "one"]);
  return [ledger, shape];
}
