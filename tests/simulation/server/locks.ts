// Locks of tables, of rows (by their transactions) and advisory locks, with PostgreSQL's eight modes, granted in order.
//
// A lock belongs to a holder (a session) and to an owner, which is the session itself or one of its transactions. The
// owner decides when the lock is released. There is no check for deadlocks, because no program can lock in two orders.
//
// Knows keys, modes and queues. Must not know tables or SQL.
import type { Clock } from "../contract.ts";
import type { Doing } from "./process.ts";

/** The modes that the model uses. */
export const ACCESS_SHARE = 1,
  ROW_EXCLUSIVE = 3,
  EXCLUSIVE = 7,
  ACCESS_EXCLUSIVE = 8;

/** For each mode: the modes with which it conflicts. */
const CONFLICTS: readonly (readonly number[])[] = [
  [],
  [8],
  [7, 8],
  [5, 6, 7, 8],
  [4, 5, 6, 7, 8],
  [3, 4, 6, 7, 8],
  [3, 4, 5, 6, 7, 8],
  [2, 3, 4, 5, 6, 7, 8],
  [1, 2, 3, 4, 5, 6, 7, 8],
];

export const MODE_NAMES = [
  "",
  "AccessShareLock",
  "RowShareLock",
  "RowExclusiveLock",
  "ShareUpdateExclusiveLock",
  "ShareLock",
  "ShareRowExclusiveLock",
  "ExclusiveLock",
  "AccessExclusiveLock",
];

export interface Holder {
  readonly processId: number;
}

interface Grant {
  readonly holder: Holder;
  readonly owner: object;
  readonly mode: number;
  count: number;
}

interface Request {
  readonly holder: Holder;
  readonly owner: object;
  readonly mode: number;
  readonly granted: () => void;
}

interface Lock {
  readonly grants: Grant[];
  readonly queue: Request[];
}

/** A lock that is held or waited for, as a check reads it. */
export interface LockInfo {
  readonly key: string;
  readonly mode: string;
  readonly processId: number;
  readonly isGranted: boolean;
  readonly isOfSession: boolean;
}

export class Locks {
  readonly #clock: Clock;
  readonly #locks = new Map<string, Lock>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get all(): LockInfo[] {
    return [...this.#locks].flatMap(([key, { grants, queue }]) => {
      const info = (isGranted: boolean) => (entry: Grant | Request) => ({
        key,
        mode: MODE_NAMES[entry.mode]!,
        processId: entry.holder.processId,
        isGranted,
        isOfSession: entry.owner === entry.holder,
      });
      return [...grants.map(info(true)), ...queue.map(info(false))];
    });
  }

  /** Takes the lock if it is free. Returns whether it is held now. */
  #try(holder: Holder, owner: object, key: string, mode: number): boolean {
    const lock = this.#of(key);
    const isFree = !this.#conflicts(lock, lock.queue, holder, mode);
    if (isFree) this.#grant(lock, holder, owner, mode);
    this.#forget(key, lock);
    return isFree;
  }

  /** Waits for the lock. */
  *acquire(holder: Holder, owner: object, key: string, mode: number): Doing<void> {
    if (this.#try(holder, owner, key, mode)) return;
    const lock = this.#of(key);
    let isGranted = false;
    let wake = () => {};
    const request: Request = { holder, owner, mode, granted: () => ((isGranted = true), wake()) };
    lock.queue.push(request);
    try {
      yield {
        kind: "running",
        begin: (awake) => {
          wake = awake;
          return () => {};
        },
      };
    } finally {
      wake = () => {};
      if (!isGranted) this.#withdraw(key, lock, request);
    }
  }

  /** Releases a lock. Returns whether it was held. */
  release(holder: Holder, owner: object, key: string, mode: number): boolean {
    const lock = this.#locks.get(key);
    const at = lock?.grants.findIndex((it) => it.holder === holder && it.owner === owner && it.mode === mode) ?? -1;
    if (!lock || at < 0) return false;
    if (--lock.grants[at]!.count === 0) lock.grants.splice(at, 1);
    this.#serve(key, lock);
    return true;
  }

  /** Releases the locks of `owner`. `prefix` limits this to keys that begin with it. */
  releaseAll(owner: object, prefix = ""): void {
    for (const [key, lock] of [...this.#locks]) {
      if (!key.startsWith(prefix)) continue;
      const kept = lock.grants.filter((grant) => grant.owner !== owner);
      if (kept.length === lock.grants.length) continue;
      lock.grants.splice(0, lock.grants.length, ...kept);
      this.#serve(key, lock);
    }
  }

  holds(holder: Holder, owner: object, key: string, mode: number): boolean {
    return !!this.#locks.get(key)?.grants.some((it) => it.holder === holder && it.owner === owner && it.mode === mode);
  }

  #of(key: string): Lock {
    let lock = this.#locks.get(key);
    if (!lock) this.#locks.set(key, (lock = { grants: [], queue: [] }));
    return lock;
  }

  #forget(key: string, lock: Lock): void {
    if (!lock.grants.length && !lock.queue.length) this.#locks.delete(key);
  }

  #grant(lock: Lock, holder: Holder, owner: object, mode: number): void {
    const same = lock.grants.find((it) => it.holder === holder && it.owner === owner && it.mode === mode);
    if (same) same.count++;
    else lock.grants.push({ holder, owner, mode, count: 1 });
  }

  /**
   * Whether another holder has a conflicting lock, or waits for a conflicting lock earlier in the queue. A holder that
   * already has this mode or a stronger one need not wait for requests in the queue.
   */
  #conflicts(lock: Lock, ahead: readonly Request[], holder: Holder, mode: number): boolean {
    const forbids = (it: Grant | Request) => it.holder !== holder && CONFLICTS[mode]!.includes(it.mode);
    if (lock.grants.some(forbids)) return true;
    return !lock.grants.some((it) => it.holder === holder && it.mode >= mode) && ahead.some(forbids);
  }

  #serve(key: string, lock: Lock): void {
    const waiting = [...lock.queue];
    const stillWaiting: Request[] = [];
    const granted: Request[] = [];
    for (const request of waiting) {
      if (this.#conflicts(lock, stillWaiting, request.holder, request.mode)) stillWaiting.push(request);
      else {
        this.#grant(lock, request.holder, request.owner, request.mode);
        granted.push(request);
      }
    }
    lock.queue.splice(0, lock.queue.length, ...stillWaiting);
    this.#forget(key, lock);
    // Each request wakes in an event of its own, because the session that released the lock is still running.
    for (const request of granted) this.#clock.after(0, () => request.granted());
  }

  #withdraw(key: string, lock: Lock, request: Request): void {
    const at = lock.queue.indexOf(request);
    if (at >= 0) {
      lock.queue.splice(at, 1);
      this.#serve(key, lock);
    } else this.release(request.holder, request.owner, key, request.mode); // granted, but not told yet
  }
}
