// What a stream of changes yields. Types only.

/** Of each of them. */
interface Change {
  /** Where it is in the server's log, as `pg_lsn` is written: `0/16B3748`. Of a `commit` what to acknowledge. */
  readonly position: string;
  /** The id of its transaction. A message that is not transactional has none. */
  readonly xid?: number;
  /** Option `streaming`: the id of its subtransaction, where it was made in one. */
  readonly subxid?: number;
}

/** A transaction that has committed follows. */
export interface Begin extends Change {
  readonly kind: "begin";
  readonly xid: number;
  /** When it was committed, as timestamptz in JSON. */
  readonly committedAt: string;
  /** The replication origin, where the transaction came from another server. */
  readonly origin?: string;
}

/** What stands in front of each change of a table. */
interface OfTable extends Change {
  readonly schema: string;
  readonly table: string;
}

/** A table as it is from here on: comes in front of its first change, and whenever it has changed. */
export interface Schema extends OfTable {
  readonly kind: "schema";
  /** OID of the table. */
  readonly oid: number;
  readonly replicaIdentity: "default" | "nothing" | "full" | "index";
  readonly columns: readonly ColumnOfTable[];
}

export interface ColumnOfTable {
  readonly name: string;
  readonly typeOid: number;
  /** `pg_attribute.atttypmod`; -1: none. */
  readonly typeModifier: number;
  /** It belongs to the replica identity. */
  readonly key: boolean;
}

/** A row that was inserted; without `xid` one of a snapshot. */
export interface Insert<Row = Record<string, unknown>> extends OfTable {
  readonly kind: "insert";
  readonly new: Row;
}

export interface Update<Row = Record<string, unknown>> extends OfTable {
  readonly kind: "update";
  /** The key as it was, where it has changed; the whole row with `REPLICA IDENTITY FULL`. */
  readonly old?: Partial<Row>;
  readonly new: Partial<Row>;
  /** Columns that `new` does not have: their values are TOASTed and have not changed. */
  readonly unchanged?: readonly string[];
}

export interface Delete<Row = Record<string, unknown>> extends OfTable {
  readonly kind: "delete";
  /** The key; the whole row with `REPLICA IDENTITY FULL`. */
  readonly old: Partial<Row>;
}

/** All rows of the snapshot have come: they are as of this position, and changes follow. */
export interface Snapshot extends Change {
  readonly kind: "snapshot";
}

export interface Truncate extends Change {
  readonly kind: "truncate";
  readonly tables: readonly { readonly schema: string; readonly table: string }[];
  readonly cascade: boolean;
  readonly restartIdentity: boolean;
}

/** Of `pg_logical_emit_message`, with option `messages`. */
export interface Message extends Change {
  readonly kind: "message";
  /** It belongs to its transaction. Others come at once, also out of transactions that fail. */
  readonly transactional: boolean;
  readonly prefix: string;
  /** As text, where it is UTF-8. */
  readonly content?: string;
  /** Otherwise, as bytea in JSON: `\x…`. */
  readonly bytes?: string;
}

/** The end of a transaction. */
export interface Commit extends Change {
  readonly kind: "commit";
  readonly xid: number;
  readonly committedAt: string;
  /** The slot goes on behind this commit from now on: the server need not keep what is before. */
  acknowledge(): Promise<void>;
}

/** Option `streaming`: a part of a transaction that is not over follows. */
export interface Stream extends Change {
  readonly kind: "stream";
  readonly xid: number;
  /** It is its first part: what has come of it before counts no more. */
  readonly first: boolean;
}

/** Option `streaming`: a transaction that came in parts, or with `subxid` a subtransaction of it, was rolled back. */
export interface Abort extends Change {
  readonly kind: "abort";
  readonly xid: number;
}

/** Option `twoPhase`: a transaction that is prepared follows. Its end is `prepare`. */
export interface BeginPrepare extends Change {
  readonly kind: "beginPrepare";
  readonly xid: number;
  /** The name that PREPARE TRANSACTION gave it. */
  readonly gid: string;
}

/** Option `twoPhase`: a transaction is prepared, and later commits or is rolled back. */
export interface Prepared extends Change {
  readonly kind: "prepare" | "commitPrepared" | "rollbackPrepared";
  readonly xid: number;
  readonly gid: string;
  /** When that was, as timestamptz in JSON. */
  readonly at: string;
  /** The slot goes on behind this from now on. */
  acknowledge(): Promise<void>;
}

/** What a transaction consists of. */
export type ContentOf<Row = Record<string, unknown>> =
  Schema | Insert<Row> | Update<Row> | Delete<Row> | Snapshot | Truncate | Message;

export type AnyChange<Row = Record<string, unknown>> =
  ContentOf<Row> | Begin | Commit | Stream | Abort | BeginPrepare | Prepared;
