// What a history of calls must show: no read after a position is from before it, and no write is lost except those that
// PostgreSQL itself has lost.
//
// A history is the calls and their answers. There are two sorts of objects: registers, each written by one lane with
// values that grow, and lists that are only appended to. Knows positions and timelines. Must not know servers.
import { positionOf } from "../../js/adapters/cluster/position.ts";

/** A call that writes: to a register (its new value) or to a list (the appended value). */
export interface Write {
  readonly object: string;
  readonly value: number;
  /** The position of its commit; `undefined`: the call failed, and may have committed or not. */
  readonly position: string | undefined;
}

/** A read after a position: the values of a list, or the one value of a register. */
export interface Read {
  readonly object: string;
  readonly behind: string;
  readonly values: readonly number[];
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
}

/** `last`: the values of each object on the primary at the end. */
export function check(writes: readonly Write[], reads: readonly Read[], last: readonly Read[], ends: Ends): Verdict {
  const verdict = { stale: [] as string[], invented: [] as string[], lost: [] as string[], lostByServer: 0 };
  const { kept, unsure } = ordered(writes, ends);
  const all = byObject(writes);
  for (const read of [...reads, ...last]) {
    const { object, behind, values } = read;
    const written = all.get(object)!;
    if (new Set(values).size < values.length || values.some((value) => value !== 0 && !written.has(value)))
      verdict.invented.push(`${object} after ${behind}: ${values.join()}`);
    const missing = missed(kept.get(object) ?? [], reached(behind, ends), isList(object), values);
    const isLast = last.includes(read);
    for (const value of missing) (isLast ? verdict.lost : verdict.stale).push(`${object}: ${value} after ${behind}`);
    if (!isLast) continue;
    // A write that was acknowledged after the end of its timeline exists only by chance.
    const highest = Math.max(0, ...values);
    for (const value of unsure.get(object) ?? [])
      if (isList(object) ? !values.includes(value) : highest < value) verdict.lostByServer++;
  }
  return verdict;
}

/** Returns how far the position is in the log that all later timelines have. */
function reached(behind: string, ends: Ends): bigint {
  const { timeline, lsn } = positionOf(behind);
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
  for (const { object, value, position } of writes) {
    if (position === undefined) continue;
    const { timeline, lsn } = positionOf(position);
    const end = ends.get(timeline);
    // On timeline 0 the write has committed, and the connection was lost before its position could be asked for.
    if (timeline && (end === undefined || lsn <= end)) append(kept, object, { value, at: lsn });
    else append(unsure, object, value);
  }
  for (const placed of kept.values()) placed.sort((one, other) => Number(one.at - other.at));
  return { kept, unsure };
}

/** Returns the values that a read at this place of the log lacks. For a register only the newest value counts. */
function missed(writes: readonly Placed[], at: bigint, isOfList: boolean, values: readonly number[]): number[] {
  let low = 0;
  for (let high = writes.length; low < high;) {
    const middle = (low + high) >> 1;
    if (writes[middle]!.at <= at) low = middle + 1;
    else high = middle;
  }
  const before = writes.slice(isOfList ? 0 : Math.max(0, low - 1), low);
  const shown = new Set(values);
  const newest = Math.max(0, ...values);
  return before.map(({ value }) => value).filter((value) => (isOfList ? !shown.has(value) : newest < value));
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
