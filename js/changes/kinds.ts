// The kinds of changes that a stream yields. Types only.

/** The members of every change. */
interface Change {
  /**
   * Its position in the server's WAL, written as `pg_lsn`: `0/16B3748`. For a `commit` it is the position to
   * acknowledge.
   */
  readonly position: string;
  /** The id of its transaction. A non-transactional message has none. */
  readonly xid?: number;
  /** With option `streaming`: the id of the subtransaction that made the change, if any. */
  readonly subxid?: number;
}

/** The beginning of a committed transaction, whose changes follow. */
export interface Begin extends Change {
  readonly kind: "begin";
  readonly xid: number;
  /** The time of the commit, written as timestamptz in JSON. */
  readonly committedAt: string;
  /** The replication origin, if the transaction came from another server. */
  readonly origin?: string;
}

/** A change that names its table. */
interface OfTable extends Change {
  readonly schema: string;
  readonly table: string;
}

/** The definition of a table. Comes before the table's first change, and again whenever the definition has changed. */
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
  /** `pg_attribute.atttypmod`; -1 means none. */
  readonly typeModifier: number;
  /** Whether the column belongs to the replica identity. */
  readonly key: boolean;
}

/** An inserted row. Without `xid` it is a row of a snapshot. */
export interface Insert<Row = Record<string, unknown>> extends OfTable {
  readonly kind: "insert";
  readonly new: Row;
}

export interface Update<Row = Record<string, unknown>> extends OfTable {
  readonly kind: "update";
  /** The old key, if it has changed. With `REPLICA IDENTITY FULL` it is the whole old row. */
  readonly old?: Partial<Row>;
  readonly new: Partial<Row>;
  /** Columns that are missing in `new`, because their values are TOASTed and have not changed. */
  readonly unchanged?: readonly string[];
}

export interface Delete<Row = Record<string, unknown>> extends OfTable {
  readonly kind: "delete";
  /** The key of the row. With `REPLICA IDENTITY FULL` it is the whole row. */
  readonly old: Partial<Row>;
}

/** The end of a snapshot. The snapshot's rows are as of this position, and changes follow. */
export interface Snapshot extends Change {
  readonly kind: "snapshot";
}

export interface Truncate extends Change {
  readonly kind: "truncate";
  readonly tables: readonly { readonly schema: string; readonly table: string }[];
  readonly cascade: boolean;
  readonly restartIdentity: boolean;
}

/** A message of `pg_logical_emit_message`, with option `messages`. */
export interface Message extends Change {
  readonly kind: "message";
  /** Whether the message belongs to its transaction. Other messages arrive immediately, even if it rolls back. */
  readonly transactional: boolean;
  readonly prefix: string;
  /** The content as text, if it is UTF-8. */
  readonly content?: string;
  /** Otherwise the content as bytea in JSON: `\x…`. */
  readonly bytes?: string;
}

/** The end of a transaction. */
export interface Commit extends Change {
  readonly kind: "commit";
  readonly xid: number;
  readonly committedAt: string;
  /**
   * Acknowledges this commit. The slot then continues after it, and the server need not keep earlier WAL.
   *
   * @throws UsageError `CHANGES_OVER` if the loop was left or the stream has failed: then this commit comes again
   */
  acknowledge(): Promise<void>;
}

/** With option `streaming`: the beginning of a part of an open transaction. */
export interface Stream extends Change {
  readonly kind: "stream";
  readonly xid: number;
  /** Whether it is the first part. If so, discard changes of the transaction that arrived earlier. */
  readonly first: boolean;
}

/**
 * With option `streaming`: undo the changes of a transaction that has arrived in parts, or with `subxid` those of one
 * of its subtransactions. It was rolled back, or the connection was lost before its end: then it may begin again.
 */
export interface Abort extends Change {
  readonly kind: "abort";
  readonly xid: number;
}

/** With option `twoPhase`: the beginning of a prepared transaction, which ends with `prepare`. */
export interface BeginPrepare extends Change {
  readonly kind: "beginPrepare";
  readonly xid: number;
  /** The name that PREPARE TRANSACTION gave it. */
  readonly gid: string;
}

/** With option `twoPhase`: a transaction was prepared, or later committed or rolled back. */
export interface Prepared extends Change {
  readonly kind: "prepare" | "commitPrepared" | "rollbackPrepared";
  readonly xid: number;
  readonly gid: string;
  /** The time of this event, written as timestamptz in JSON. */
  readonly at: string;
  /**
   * Acknowledges this event. The slot then continues after it.
   *
   * @throws UsageError `CHANGES_OVER` if the loop was left or the stream has failed: then this event comes again
   */
  acknowledge(): Promise<void>;
}

/** The changes within a transaction. */
export type ContentOf<Row = Record<string, unknown>> =
  | Schema
  | Insert<Row>
  | Update<Row>
  | Delete<Row>
  | Snapshot
  | Truncate
  | Message;

export type AnyChange<Row = Record<string, unknown>> =
  | ContentOf<Row>
  | Begin
  | Commit
  | Stream
  | Abort
  | BeginPrepare
  | Prepared;
