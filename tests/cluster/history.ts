// What a history of calls must show: no read after a position is from before it, and no write is lost except those that
// PostgreSQL itself has lost.
//
// A history is the calls and their answers. There are two sorts of objects: registers, each written by one lane with
// values that grow, and lists that are only appended to.
//
// Which writes a read after a position must show:
//
//   the position of the write is lower    always
//   the same position                     if the write was acknowledged before the read began
//
// A commit is in the log before it waits for a synchronous standby, and the primary shows it only after that. Another
// write that is acknowledged meanwhile has the same position, and a read after it need not show the one that waits
// (facts.test.ts). A lower position proves that its write was shown before the higher one was asked for.
//
// Knows positions and timelines. Must not know servers.
import { positionOf } from "../../js/cluster/position.ts";

/** A call that writes: to a register (its new value) or to a list (the appended value). */
export interface Write {
  readonly object: string;
  readonly value: number;
  /** The position of its commit; `undefined`: the call failed, and may have committed or not. */
  readonly position: string | undefined;
  /** When the call was acknowledged, on the clock of {@link Read.began}. */
  readonly acknowledged: number;
}

/** A read after a position: the values of a list, or the one value of a register. */
export interface Read {
  readonly object: string;
  /** The position that it was made with. */
  readonly after: string;
  readonly values: readonly number[];
  /** When the read began. */
  readonly began: number;
}

/** For each timeline, the position where the next one began. The last timeline has no end. */
export type Ends = ReadonlyMap<number, bigint>;

export interface Verdict {
  /** Reads that lack a write that had committed at their position. */
  readonly stale: string[];
  /** Reads of values that were never written, or that occur twice. */
  readonly invented: string[];
  /** Acknowledged writes that are gone although the log that contains them was kept. */
  readonly lost: string[];
  /** Number of writes that PostgreSQL has lost: acknowledged in a part of the log that no later timeline has. */
  readonly lostByServer: number;
}

interface Placed {
  readonly value: number;
  readonly at: bigint;
  readonly acknowledged: number;
}

/** `last`: the values of each object on the primary at the end. */
export function check(writes: readonly Write[], reads: readonly Read[], last: readonly Read[], ends: Ends): Verdict {
  const verdict = { stale: [] as string[], invented: [] as string[], lost: [] as string[], lostByServer: 0 };
  const { kept, unsure } = ordered(writes, ends);
  const all = byObject(writes);
  for (const read of [...reads, ...last]) {
    const { object, after, values } = read;
    const written = all.get(object)!;
    if (new Set(values).size < values.length || values.some((value) => value !== 0 && !written.has(value)))
      verdict.invented.push(`${object} after ${after}: ${values.join()}`);
    const missing = missed(kept.get(object) ?? [], read, reached(after, ends));
    const isLast = last.includes(read);
    for (const value of missing) (isLast ? verdict.lost : verdict.stale).push(`${object}: ${value} after ${after}`);
    if (!isLast) continue;
    // A write that was acknowledged after the end of its timeline exists only by chance.
    const highest = Math.max(0, ...values);
    for (const value of unsure.get(object) ?? [])
      if (isList(object) ? !values.includes(value) : highest < value) verdict.lostByServer++;
  }
  return verdict;
}

/** Returns how far the position is in the log that all later timelines have. */
function reached(after: string, ends: Ends): bigint {
  const { timeline, lsn } = positionOf(after);
  const end = ends.get(timeline);
  return end !== undefined && end < lsn ? end : lsn;
}

export const isList = (object: string) => object.startsWith("list");

/**
 * Returns the acknowledged writes by object: `kept` in the order of the log, and `unsure` if the log does not prove
 * that they were kept.
 */
function ordered(writes: readonly Write[], ends: Ends) {
  const kept = new Map<string, Placed[]>();
  const unsure = new Map<string, number[]>();
  for (const { object, value, position, acknowledged } of writes) {
    if (position === undefined) continue;
    const { timeline, lsn } = positionOf(position);
    const end = ends.get(timeline);
    // On timeline 0 the write has committed, and the connection was lost before its position could be asked for.
    if (timeline && (end === undefined || lsn <= end)) append(kept, object, { value, at: lsn, acknowledged });
    else append(unsure, object, value);
  }
  for (const placed of kept.values()) placed.sort((one, other) => Number(one.at - other.at));
  return { kept, unsure };
}

/** Returns the values that a read after this place of the log lacks. For a register only the newest value counts. */
function missed(writes: readonly Placed[], { object, values, began }: Read, at: bigint): number[] {
  const lower = count(writes, (write) => write.at < at);
  const upper = count(writes, (write) => write.at <= at);
  const same = writes.slice(lower, upper).filter(({ acknowledged }) => acknowledged < began);
  const shown = new Set(values);
  if (isList(object)) return [...writes.slice(0, lower), ...same].map(valueOf).filter((value) => !shown.has(value));
  const due = [...writes.slice(Math.max(0, lower - 1), lower), ...same].map(valueOf);
  const newest = Math.max(0, ...due);
  return newest > Math.max(0, ...values) ? [newest] : [];
}

const valueOf = ({ value }: Placed) => value;

/** Returns how many elements fulfil the condition, which is true of the first ones only. */
function count<T>(all: readonly T[], holds: (one: T) => boolean): number {
  let low = 0;
  for (let high = all.length; low < high;) {
    const middle = (low + high) >> 1;
    if (holds(all[middle]!)) low = middle + 1;
    else high = middle;
  }
  return low;
}

function byObject(writes: readonly Write[]): Map<string, Set<number>> {
  const all = new Map<string, Set<number>>();
  for (const { object, value } of writes) {
    const values = all.get(object) ?? new Set();
    all.set(object, values.add(value));
  }
  return all;
}

function append<T>(map: Map<string, T[]>, key: string, value: T): void {
  const list = map.get(key);
  if (list) list.push(value);
  else map.set(key, [value]);
}
