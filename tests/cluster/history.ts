// What a history of calls must show: no read behind a position is from before it, and no write is lost but those that
// PostgreSQL itself has lost.
//
// A history is what was called, and what was answered. Two sorts of objects: registers, each written by one lane with
// values that grow, and lists that are only appended to. Knows positions and timelines. Must not know servers.
import { positionOf } from "../../js/adapters/cluster/position.ts";

/** A write that was called: to a register (its new value) or to a list (what was appended). */
export interface Write {
  readonly object: string;
  readonly value: number;
  /** Of its commit; `undefined`: the call failed, and it may have committed or not. */
  readonly position: string | undefined;
}

/** A read behind a position: the values of a list, or the one value of a register. */
export interface Read {
  readonly object: string;
  readonly behind: string;
  readonly values: readonly number[];
}

/** By timeline: where the next one began. The last one has no end. */
export type Ends = ReadonlyMap<number, bigint>;

export interface Verdict {
  /** Reads that lack a write that had committed at their position. */
  readonly stale: string[];
  /** Reads of values that nobody has written, or twice. */
  readonly invented: string[];
  /** Acknowledged writes that are gone though the log that they are in was kept. */
  readonly lost: string[];
  /** Those that PostgreSQL has lost: acknowledged in a part of the log that no later timeline has. */
  readonly lostByServer: number;
}

interface Placed {
  readonly value: number;
  readonly at: bigint;
}

/** `last`: what the primary has at the end, of each object. */
export function check(writes: readonly Write[], reads: readonly Read[], last: readonly Read[], ends: Ends): Verdict {
  const verdict = { stale: [] as string[], invented: [] as string[], lost: [] as string[], lostByServer: 0 };
  const { kept, unsure } = ordered(writes, ends);
  const all = byObject(writes);
  for (const read of [...reads, ...last]) {
    const { object, behind, values } = read;
    const written = all.get(object)!;
    if (new Set(values).size < values.length || values.some((value) => value !== 0 && !written.has(value)))
      verdict.invented.push(`${object} behind ${behind}: ${values.join()}`);
    const missing = missed(kept.get(object) ?? [], reached(behind, ends), isList(object), values);
    const isLast = last.includes(read);
    for (const value of missing) (isLast ? verdict.lost : verdict.stale).push(`${object}: ${value} behind ${behind}`);
    if (!isLast) continue;
    // What was acknowledged behind the end of its timeline: it is there only by chance.
    const highest = Math.max(0, ...values);
    for (const value of unsure.get(object) ?? [])
      if (isList(object) ? !values.includes(value) : highest < value) verdict.lostByServer++;
  }
  return verdict;
}

/** How far that is in the log that all later timelines have. */
function reached(behind: string, ends: Ends): bigint {
  const { timeline, lsn } = positionOf(behind);
  const end = ends.get(timeline);
  return end !== undefined && end < lsn ? end : lsn;
}

export const isList = (object: string) => object.startsWith("list");

/** Acknowledged writes by object, in the order of the log, and those of which it does not say that they were kept. */
function ordered(writes: readonly Write[], ends: Ends) {
  const kept = new Map<string, Placed[]>();
  const unsure = new Map<string, number[]>();
  for (const { object, value, position } of writes) {
    if (position === undefined) continue;
    const { timeline, lsn } = positionOf(position);
    const end = ends.get(timeline);
    // Of timeline 0: it has committed, and the connection was lost before it could be asked where.
    if (timeline && (end === undefined || lsn <= end)) append(kept, object, { value, at: lsn });
    else append(unsure, object, value);
  }
  for (const placed of kept.values()) placed.sort((one, other) => Number(one.at - other.at));
  return { kept, unsure };
}

/** What a read at this place of the log lacks. Of a register only the newest value counts. */
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
