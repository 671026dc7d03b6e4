// Which transactions a snapshot of PostgreSQL sees.
//
// Knows the text of pg_current_snapshot() and transaction ids of 64 bits. Must not know what a transaction changed.
//
// A position in the log cannot answer this: a commit is in the log before it is visible, with synchronous replication
// even much earlier. So an answer is compared with a commit by what its snapshot sees.
//
//   "742:748:743,745"     xmin:xmax:xip
//    xid < xmin           is over: seen, if it has committed
//    xid >= xmax          had not begun, or had no id yet: not seen
//    xid in xip           was running: not seen
//
// On a standby the list is empty, although transactions between xmin and xmax may have been running
// (KnownAssignedXids are kept elsewhere in the snapshot). There only an id below xmin counts as seen.

/** A snapshot. Ids have 64 bits on the server; here they are numbers, which are exact up to 2^53. */
export interface Snapshot {
  readonly xmin: number;
  readonly xmax: number;
  /** Ascending. An invalidator keeps many snapshots, and a Set takes five times the memory. */
  readonly xip: Float64Array;
  readonly isStandby: boolean;
}

/**
 * Reads the text of `pg_current_snapshot()`.
 *
 * @throws SyntaxError for any other text
 */
export function readSnapshot(text: string, isStandby: boolean): Snapshot {
  const [, xmin, xmax, xip] = /^(\d+):(\d+):((?:\d+(?:,\d+)*)?)$/.exec(text) ?? [];
  if (xip === undefined) throw new SyntaxError("That is no snapshot of PostgreSQL.");
  const running = xip === "" ? [] : xip.split(",").map(exact);
  return { xmin: exact(xmin!), xmax: exact(xmax!), xip: Float64Array.from(running).sort(), isStandby };
}

function exact(digits: string): number {
  const xid = Number(digits);
  if (!Number.isSafeInteger(xid)) throw new SyntaxError("The transaction id is larger than 2^53.");
  return xid;
}

/** Whether the snapshot surely sees the transaction, given that it has committed. */
export function sees({ xmin, xmax, xip, isStandby }: Snapshot, xid: number): boolean {
  if (xid < xmin) return true;
  return !isStandby && xid < xmax && !has(xip, xid);
}

function has(ascending: Float64Array, wanted: number): boolean {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (ascending[middle]! < wanted) low = middle + 1;
    else high = middle;
  }
  return ascending[low] === wanted;
}

const EPOCH = 2 ** 32;

/**
 * The 64 bits of an id of which the log gives only the lower 32. `near` is a recent id: the server keeps the ids in
 * use within 2^31 of each other.
 */
export function widened(xid: number, near: number): number {
  const epoch = Math.round((near - xid) / EPOCH);
  return xid + Math.max(0, epoch) * EPOCH;
}
