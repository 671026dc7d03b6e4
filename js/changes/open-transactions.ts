// Collects the changes of each open transaction until its commit.
//
//   begin ──────────────> open ── commit ──> returned
//   stream, first: true ─>  │ └── abort ───> dropped, or only the changes of a subtransaction
//   the connection is lost ─┘  all are dropped: the server sends them again
//
// Knows kinds of changes. Must not know connections or lines.
import { ProtocolError, ResponseTooLargeError, UsageError } from "../index.ts";
import type { AnyChange, ContentOf } from "./kinds.ts";

/** A transaction that has committed. */
export interface ChangesOfTransaction<Row = Record<string, unknown>> {
  /** The position that `acknowledge` acknowledges. A later stream can start after it (option `from`). */
  readonly position: string;
  /** Missing for a non-transactional message, and for rows of a snapshot. */
  readonly xid?: number;
  readonly committedAt?: string;
  readonly origin?: string;
  /**
   * The changes between `begin` and `commit`, or rows of a snapshot. The last group of a snapshot's rows ends with kind
   * `snapshot`.
   */
  readonly changes: ContentOf<Row>[];
  /** @throws UsageError `CHANGES_OVER` if the loop was left or the stream has failed: then it comes again */
  acknowledge(): Promise<void>;
}

interface OpenTransaction<Row> {
  readonly origin?: string | undefined;
  readonly changes: { readonly change: ContentOf<Row>; readonly bytes: number }[];
}

const IS_TWO_PHASE =
  "The slot was made for two-phase commit, or changed to it, and the server sends its prepared transactions at PREPARE. " +
  'transactions() cannot hold them: read the changes one by one, with option "twoPhase", or make another slot.';

/** Stands for a missing xid: rows of a snapshot and non-transactional messages. No transaction has the id 0. */
const NO_TRANSACTION = 0;

export class OpenTransactions<Row> {
  readonly #maxBytes: number;
  readonly #open = new Map<number, OpenTransaction<Row>>();
  /** Total size of the changes of open transactions, in bytes as the server sent them. */
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Adds a change of `bytes` bytes. Returns the whole transaction if this change is its commit. */
  add(change: AnyChange<Row>, bytes: number): ChangesOfTransaction<Row> | undefined {
    const { xid = NO_TRANSACTION } = change;
    switch (change.kind) {
      case "begin":
        return this.#begin(xid, change.origin);
      case "stream":
        return change.first ? this.#begin(xid) : undefined;
      case "abort":
        return this.#drop(xid, change.subxid);
      case "commit": {
        const open = this.#open.get(xid);
        if (!open) throw new ProtocolError("UNEXPECTED_MESSAGE", `Transaction ${xid} committed without a begin.`);
        const { origin } = open;
        this.#drop(xid);
        const { position, committedAt } = change;
        const changes = open.changes.map(({ change: one }) => one);
        const acknowledge = () => change.acknowledge();
        return { position, xid, committedAt, ...(origin !== undefined && { origin }), changes, acknowledge };
      }
      // Without the option `twoPhase` they come from a slot that was made for it.
      case "beginPrepare":
      case "prepare":
      case "commitPrepared":
      case "rollbackPrepared":
        throw new UsageError("INVALID_OPTION", IS_TWO_PHASE);
    }
    if (xid === NO_TRANSACTION && change.kind === "message") return outsideTransaction([change]);
    this.#hold(xid, change, bytes);
    return undefined;
  }

  /** Takes the rows of a snapshot that have arrived since the last call, if there are any. */
  takeRows(): ChangesOfTransaction<Row> | undefined {
    const rows = this.#open.get(NO_TRANSACTION);
    if (!rows) return undefined;
    this.#drop(NO_TRANSACTION);
    return outsideTransaction(rows.changes.map(({ change }) => change));
  }

  /**
   * Drops all open transactions on a new connection: the server sends each again from its beginning, unless it has been
   * rolled back.
   */
  restart(): void {
    this.#open.clear();
    this.#bytes = 0;
  }

  #begin(xid: number, origin?: string): undefined {
    this.#drop(xid);
    this.#open.set(xid, { origin, changes: [] });
  }

  #hold(xid: number, change: ContentOf<Row>, bytes: number): void {
    const open = this.#open.get(xid) ?? { changes: [] };
    this.#open.set(xid, open);
    open.changes.push({ change, bytes });
    this.#bytes += bytes;
    if (this.#bytes > this.#maxBytes)
      throw new ResponseTooLargeError({ limit: "bytes", value: this.#maxBytes, observed: this.#bytes });
  }

  /** Drops a transaction, or only the changes of its subtransaction. */
  #drop(xid: number, subxid?: number): undefined {
    const open = this.#open.get(xid);
    if (!open) return;
    const kept = subxid === undefined ? [] : open.changes.filter(({ change }) => change.subxid !== subxid);
    for (const { bytes } of open.changes) this.#bytes -= bytes;
    for (const { bytes } of kept) this.#bytes += bytes;
    if (subxid === undefined) this.#open.delete(xid);
    else this.#open.set(xid, { ...open, changes: kept });
  }
}

/** Wraps changes that belong to no transaction. There is nothing to acknowledge. */
function outsideTransaction<Row>(changes: ContentOf<Row>[]): ChangesOfTransaction<Row> {
  return { position: changes.at(-1)!.position, changes, acknowledge: () => Promise.resolve() };
}
