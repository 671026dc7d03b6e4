// Keeps the connections of a pool: which are idle or lent, which borrowers wait, and when to open more. Waiters are
// served first in, first out. Of the idle connections the one that came back last is lent first, so that those that are
// not needed reach `idleTimeout`.
//
// Knows counting, order and time. Must not know SQL, calls, or how a connection is made, cleaned or checked
// (`MemberActions`). Nothing here runs a user's code.
//
//   open + connecting <= max. A connection that is being closed counts until it is closed. After `resize` to fewer,
//   lent connections exceed `max` until their borrowers give them back.
import type { PgzError } from "../util/errors.ts";
import { Fifo, type Queued } from "./fifo.ts";
import type { Member } from "./member.ts";
import type { PoolConfig } from "./options.ts";

/** The kind of connection that a borrower needs, and since when. */
export interface BorrowRequest {
  readonly since: number;
  /** No other call may use the connection meanwhile. */
  readonly isAlone: boolean;
  /** A stream that the user reads. It continues after the pool is closed, and may still wait for a connection then. */
  readonly isStream: boolean;
}

/** A borrower that waits for a connection. One of its two functions is called, once. */
export interface Waiter extends BorrowRequest, Queued {
  take(member: Member): void;
  fail(error: unknown): void;
}

/** Why a connect failed, and which waiters fail with it: `none`, if a later connect may succeed. */
export interface Failure {
  readonly error: unknown;
  readonly ends: "none" | "first" | "all";
}

/** The actions that slots.ts leaves to other code. member-lifecycle.ts implements most of them. */
export interface MemberActions {
  /** Connects. Rejects with a cause that `judge` understands. */
  open(generation: number): Promise<Member>;
  /** Ends the member. Never rejects; must settle. */
  close(member: Member): Promise<void>;
  /** Leaves the member clean or closed. Never rejects; must settle. Returns `undefined` if there is nothing to do. */
  clean(member: Member): Promise<void> | undefined;
  /** Leaves the member alive or closed. Never rejects; must settle. */
  check(member: Member): Promise<void>;
  /** Called by each sweep, to report leases that are held for too long. */
  checkLeases(now: number): void;
  /**
   * The error of a waiter that has waited too long. `cause`: why the last connect failed, if none has succeeded since.
   */
  late(cause: unknown): PgzError;
  /** Marks a timer for idle connections, which must not keep the process alive. */
  unref?(timer: unknown): void;
  /** Decides which waiters fail after a failed connect. */
  judge(cause: unknown): Failure;
  /** Called for a failed connect that would have ended a waiter, but there is none. */
  unreported(cause: unknown): void;
}

/** Counters since the pool was made. Times are in milliseconds. */
export interface Counts {
  /** How many times a connection was lent. */
  acquires: number;
  /** The total time that these waited. */
  acquireMs: number;
  /** How many of them had to wait, and their total time. */
  emptyAcquires: number;
  emptyAcquireMs: number;
  /** Waiters that gave up, or failed, before there was a connection. */
  canceledAcquires: number;
  /** How many of them failed because `acquireTimeout` had passed. */
  acquireTimeouts: number;
  connects: number;
  failedConnects: number;
  /** Connections ended because of `maxLifetime`, and because of `idleTimeout`. */
  lifetimeCloses: number;
  idleCloses: number;
}

/**
 * The pause after a failed connect, in milliseconds. It doubles with each failure, up to the longest. A random part of
 * up to its own length is added.
 */
const FIRST_CONNECT_PAUSE = 100,
  LONGEST_CONNECT_PAUSE = 5_000;
/**
 * Milliseconds between two sweeps of the idle connections, and how late a sweep must be to show that the process was
 * suspended.
 */
const SWEEP_INTERVAL = 1_000,
  MIN_SUSPENSION = 2_000;

export class Slots {
  readonly counts: Counts = {
    acquires: 0,
    acquireMs: 0,
    emptyAcquires: 0,
    emptyAcquireMs: 0,
    canceledAcquires: 0,
    acquireTimeouts: 0,
    connects: 0,
    failedConnects: 0,
    lifetimeCloses: 0,
    idleCloses: 0,
  };
  max: number;
  readonly #config: PoolConfig;
  readonly #actions: MemberActions;
  /** Whether a timer may sweep the idle connections. */
  readonly #mayUseTimer: boolean;
  readonly #members = new Set<Member>();
  /** The last one is lent first. */
  readonly #idle: Member[] = [];
  /** In the order in which they came, which is also the order in which their `acquireTimeout` ends. */
  readonly #waiters = new Fifo<Waiter>();
  #connecting = 0;
  /** How many of the members are being closed. */
  #leaving = 0;
  #generation = 0;
  /**
   * Failed connects since the last success, without those that ended a waiter; and the error of the last failed one.
   */
  #failures = 0;
  #failure: unknown;
  /** Ends the pause after a failed connect. */
  #retryTimer: ReturnType<typeof setTimeout> | undefined;
  /** Ends the `acquireTimeout` of the first waiter. */
  #acquireTimer: ReturnType<typeof setTimeout> | undefined;
  #sweepTimer: ReturnType<typeof setTimeout> | undefined;
  /** Both clocks when a sweep was scheduled, or when all idle connections became suspect. */
  #lastClocks = { monotonic: 0, wall: 0 };
  /** When the process last resumed after a suspension. A server that was last heard before that may be gone. */
  #resumedAt = 0;
  /** Set when the pool is closed: connections are opened only for streams that wait. */
  #closed: PgzError | undefined;
  #changed: (() => void)[] = [];

  constructor(config: PoolConfig, actions: MemberActions, mayUseTimer: boolean) {
    this.#config = config;
    this.#actions = actions;
    this.#mayUseTimer = mayUseTimer;
    this.max = config.max;
  }

  get total(): number {
    return this.#members.size + this.#connecting;
  }

  get #staying(): number {
    return this.total - this.#leaving;
  }

  get idle(): number {
    return this.#idle.length;
  }

  get connecting(): number {
    return this.#connecting;
  }

  /** The error of the last connect, if none has succeeded since. */
  get failure(): unknown {
    return this.#failure;
  }

  get waiting(): number {
    return this.#waiters.size;
  }

  /** Number of members that a call or a lease has. */
  get lent(): number {
    let count = 0;
    for (const { state } of this.#members) if (state === "lent") count++;
    return count;
  }

  /** Whether every connection left belongs to a stream that a user reads or waits for. Such streams outlive a close. */
  get isLeftToStreams(): boolean {
    for (const { stream } of this.#members) if (stream?.finished !== false) return false;
    return this.#connecting <= this.#waiters.size;
  }

  // -- lending --------------------------------------------------------------------------------------------------------

  /** Lends a connection that is available at once. */
  take(isAlone: boolean): Member | undefined {
    if (this.#waiters.size || this.#closed) return undefined;
    const now = performance.now();
    if (this.#isSweepScheduled) this.#noteSuspension(now);
    const member = this.#fresh(now) ?? (isAlone ? undefined : this.#shareable());
    if (!member) return undefined;
    this.#lend(member, isAlone, now, now);
    return member;
  }

  /** Queues a waiter. `leave` removes it. */
  wait(waiter: Waiter): void {
    if (this.#closed) return waiter.fail(this.#closed);
    this.#waiters.add(waiter);
    this.#setAcquireTimer();
    this.#serve();
  }

  /**
   * Removes a waiter that gives up. Returns whether it still waited. A connection that is being made for it goes to
   * another waiter.
   */
  leave(waiter: Waiter): boolean {
    if (!this.#waiters.delete(waiter)) return false;
    this.counts.canceledAcquires++;
    this.#recheck();
    return true;
  }

  /**
   * Called when one borrower is done with the member. After the last one the member is cleaned and becomes idle again;
   * the returned promise settles after that.
   */
  giveBack(member: Member): Promise<void> | undefined {
    member.borrowers--;
    member.isAlone = false;
    member.stream = undefined;
    // With a settled call `isReturning` means that the member comes back at once, but other calls may still share it.
    if (member.call?.finished) member.call = undefined;
    if (member.ending) return undefined;
    // A waiter may share the member instead of this borrower.
    if (member.borrowers) return void (this.#waiters.size && this.#serve());
    member.state = "busy";
    const cleaning = member.isDoomed ? undefined : this.#actions.clean(member);
    if (!cleaning) return void this.#back(member);
    // Cleaning may take long. A waiter that counted on this member may get another connection.
    this.#serve();
    return cleaning.then(() => this.#back(member));
  }

  /**
   * Resolves when `condition` returns true, or rejects with the signal's reason. It is checked whenever a connection or
   * a waiter has gone.
   */
  async until(condition: () => boolean, signal?: AbortSignal): Promise<void> {
    while (!condition()) {
      signal?.throwIfAborted();
      const changed = new Promise<void>((resolve) => this.#changed.push(resolve));
      const stop = () => this.#recheck();
      signal?.addEventListener("abort", stop, { once: true });
      await changed;
      signal?.removeEventListener("abort", stop);
    }
  }

  // -- policy ---------------------------------------------------------------------------------------------------------

  /** Opens the `min` connections, at most `maxConnecting` at a time. */
  fill(): void {
    if (this.#closed || this.#retryTimer !== undefined) return;
    const { min, maxConnecting } = this.#config;
    while (this.total < Math.min(min, this.max) && this.#connecting < maxConnecting) this.#connect();
  }

  resize(max: number): void {
    this.max = max;
    while (this.#staying > max && this.#idle.length) void this.#end(this.#idle.shift()!);
    // There may be room for `min` connections again.
    this.fill();
    this.#serve();
  }

  /**
   * Retires all current connections: none of them is lent again. Does nothing if `generation` has been retired already.
   * Ends the pause after a failed connect: the caller knows that things have changed.
   */
  renew(generation = this.#generation): void {
    if (generation !== this.#generation) return;
    this.#generation++;
    this.#failures = 0;
    this.#endIdle();
    if (this.#retryTimer === undefined) return;
    clearTimeout(this.#retryTimer);
    this.#connectAgain();
  }

  /** Stops lending, except to streams that wait, and ends connections that come back. Other waiters fail. */
  close(error: PgzError): void {
    this.#closed ??= error;
    clearTimeout(this.#sweepTimer);
    this.#sweepTimer = undefined;
    this.#endIdle();
    this.#failAll(error, ({ isStream }) => !isStream);
  }

  /** Called when there is no waiter left: the timers would keep the process alive. */
  #stopTimers(): void {
    clearTimeout(this.#acquireTimer);
    this.#acquireTimer = undefined;
    if (!this.#closed) return;
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
  }

  #endIdle(): void {
    for (const member of this.#idle.splice(0)) void this.#end(member);
  }

  /** Ends the members that are lent too, except those of streams. */
  endRest(): Promise<unknown> {
    const rest = [...this.#members].filter(({ stream }) => stream?.finished !== false);
    return Promise.all(rest.map((member) => this.#end(member)));
  }

  /**
   * Called when connections may have ended unnoticed: the process was suspended, or a connection was found to have
   * ended. Idle connections are checked before they are lent.
   */
  suspectAll(): void {
    for (const member of this.#idle) member.isSuspect = true;
    this.#lastClocks = { monotonic: performance.now(), wall: Date.now() };
  }

  // -- serving --------------------------------------------------------------------------------------------------------

  #lend(member: Member, isAlone: boolean, since: number, now: number): void {
    const { counts } = this;
    counts.acquires++;
    counts.acquireMs += now - since;
    member.borrowers++;
    member.isAlone = isAlone;
    member.call = undefined;
    member.ref();
    member.state = "lent";
    member.since = now;
  }

  /** Takes an idle member that may be used. */
  #fresh(now: number): Member | undefined {
    const idle = this.#idle;
    for (let member = idle.at(-1); member && !member.isSuspect; member = idle.at(-1)) {
      idle.pop();
      if (now < member.expiresAt && (this.#mayUseTimer || !this.#isIdleTooLong(member, now))) return member;
      this.#endOld(member, now);
    }
    return undefined;
  }

  /**
   * Finds a member that calls may share, if no other can be made. Not one that is stopping an operation: its server may
   * never answer.
   */
  #shareable(): Member | undefined {
    const { sharing } = this.#config;
    if (sharing === 1 || this.total < this.max) return undefined;
    let least: Member | undefined;
    for (const member of this.#members) {
      if (member.state !== "lent" || member.isAlone || member.isDoomed || member.borrowers >= sharing) continue;
      if (member.connection.closed || member.connection.stopping || member.sessionChanges.makesTemporary) continue;
      if (!least || member.borrowers < least.borrowers) least = member;
    }
    return least;
  }

  /** Called when the member is clean or closed. `isAlive`: its server has just given a sign of life. */
  #back(member: Member, isAlive = false): void {
    if (!this.#members.has(member)) return this.#recheck();
    if (member.ending) return;
    const now = performance.now();
    if (member.connection.closed) return this.#remove(member);
    if (this.#isSweepScheduled) this.#noteSuspension(now);
    // A member that was lent during a suspension is as doubtful as an idle one.
    member.isSuspect = !isAlive && member.since < this.#resumedAt;
    member.state = "idle";
    member.since = member.heard = now;
    const isOver = this.#staying > this.max || member.generation !== this.#generation;
    const isClosed = this.#closed !== undefined && !this.#waiters.size;
    if (isClosed || member.isDoomed || isOver) void this.#end(member);
    else if (now >= member.expiresAt) this.#endOld(member, now);
    else this.#keep(member);
    // Also if the member ends: closing may take long, and there may be room for another connection.
    this.#serve(now);
    if (member.state === "idle" && !this.#config.holdProcess) member.unref();
    this.#recheck();
  }

  #keep(member: Member): void {
    this.#idle.push(member);
    this.#scheduleSweep();
  }

  /** Gives members to waiters, and connects for the waiters that are left. */
  #serve(now = performance.now()): void {
    for (let waiter = this.#waiters.first; waiter; waiter = this.#waiters.first) {
      const member = this.#fresh(now) ?? (waiter.isAlone ? undefined : this.#shareable());
      if (!member) break;
      this.#waiters.delete(waiter);
      this.counts.emptyAcquires++;
      this.counts.emptyAcquireMs += now - waiter.since;
      this.#lend(member, waiter.isAlone, waiter.since, now);
      waiter.take(member);
    }
    if (this.#waiters.size) this.#checkSuspects();
    while (this.#isShort()) this.#connect();
    if (this.#closed) this.#recheck();
  }

  /** Whether there are more waiters than connections on their way to them, and a connect is allowed. */
  #isShort(): boolean {
    const { maxConnecting } = this.#config;
    if (this.#retryTimer !== undefined || this.total >= this.max) return false;
    if (this.#connecting >= maxConnecting) return false;
    let coming = this.#connecting;
    for (const member of this.#members) if (member.isReturning) coming++;
    return this.#waiters.size > coming;
  }

  #connect(): void {
    this.#connecting++;
    const opened = (member: Member) => {
      this.#connecting--;
      this.#members.add(member);
      member.connection.onClosed(() => this.#onLost(member));
      // Its first call may be sent before its login is complete.
      member.connection.startup.done.then(
        () => {
          this.counts.connects++;
          this.#failures = 0;
          this.#failure = undefined;
        },
        // A connection that the pool ends before its login is complete, as a hook may ask, is no failure of the server.
        (cause: unknown) => member.ending ?? this.#failed(cause),
      );
      this.#back(member);
      this.fill();
    };
    const failed = (cause: unknown) => {
      this.#connecting--;
      this.#failed(cause);
    };
    this.#actions.open(this.#generation).then(opened, failed);
  }

  /** Fails the waiters that the failure ends. The others keep waiting, and connecting is retried after a pause. */
  #failed(cause: unknown): void {
    const { error, ends } = this.#actions.judge(cause);
    const { first } = this.#waiters;
    this.counts.failedConnects++;
    this.#failure = error;
    if (ends === "first" && first) this.#fail(first, error);
    else if (ends === "first") this.#actions.unreported(cause);
    this.#recheck();
    if (this.#closed && !this.#waiters.size) return;
    if (ends === "all") return this.#failAll(error);
    // A failure that ended a waiter does not lengthen the pause: all waiters should get the error before their
    // deadline.
    if (this.#retryTimer === undefined) this.#connectLater(ends === "first" && first ? 0 : this.#failures++);
  }

  #connectLater(failures: number): void {
    const pause = Math.min(FIRST_CONNECT_PAUSE * 2 ** failures, LONGEST_CONNECT_PAUSE) * (1 + Math.random());
    this.#retryTimer = setTimeout(() => this.#connectAgain(), pause);
    // A later waiter sets `#acquireTimer`, which keeps the process alive.
    if (!this.#waiters.size && this.#config.acquireTimeout) this.#actions.unref?.(this.#retryTimer);
  }

  /** Ends the pause after a failed connect. */
  #connectAgain(): void {
    this.#retryTimer = undefined;
    this.fill();
    this.#serve();
  }

  #failAll(error: unknown, isMeant: (waiter: Waiter) => boolean = () => true): void {
    for (const waiter of [...this.#waiters].filter(isMeant)) this.#fail(waiter, error);
    this.#recheck();
  }

  #fail(waiter: Waiter, error: unknown): void {
    this.#waiters.delete(waiter);
    this.counts.canceledAcquires++;
    waiter.fail(error);
  }

  /** Ends the waiters whose `acquireTimeout` has passed. The first waiter in the queue is always the next one. */
  #setAcquireTimer(): void {
    const { acquireTimeout } = this.#config;
    if (!acquireTimeout || this.#acquireTimer !== undefined) return;
    const { first } = this.#waiters;
    if (!first) return;
    const left = Math.max(0, first.since + acquireTimeout - performance.now());
    this.#acquireTimer = setTimeout(() => {
      this.#acquireTimer = undefined;
      const now = performance.now();
      for (let waiter = this.#waiters.first; waiter; waiter = this.#waiters.first) {
        if (waiter.since + acquireTimeout > now + 1) break;
        this.counts.acquireTimeouts++;
        const error = this.#actions.late(this.#failure);
        this.leave(waiter);
        waiter.fail(error);
      }
      this.#setAcquireTimer();
    }, left);
  }

  // -- ends -----------------------------------------------------------------------------------------------------------

  #endOld(member: Member, now: number): void {
    if (now >= member.expiresAt) this.counts.lifetimeCloses++;
    else this.counts.idleCloses++;
    void this.#end(member);
  }

  #end(member: Member): Promise<void> {
    if (member.ending) return member.ending;
    member.isDoomed = true;
    member.state = "leaving";
    this.#leaving++;
    return (member.ending = this.#actions.close(member).then(() => {
      this.#leaving--;
      this.#remove(member);
    }));
  }

  /** Called when the connection has ended. A member that is lent is given back by its borrower. */
  #onLost(member: Member): void {
    const at = this.#idle.indexOf(member);
    if (at >= 0) this.#idle.splice(at, 1);
    if (member.state === "idle") this.#remove(member);
    // A waiter that counted on this member may get another connection.
    else this.#serve();
  }

  #remove(member: Member): void {
    if (!this.#members.delete(member)) return;
    this.#recheck();
    this.fill();
    this.#serve();
  }

  #recheck(): void {
    if (!this.#waiters.size) this.#stopTimers();
    for (const changed of this.#changed.splice(0)) changed();
  }

  // -- time -----------------------------------------------------------------------------------------------------------

  #isIdleTooLong({ since }: Member, now: number): boolean {
    const { idleTimeout } = this.#config;
    return idleTimeout > 0 && now - since >= idleTimeout;
  }

  #scheduleSweep(): void {
    if (!this.#mayUseTimer || this.#sweepTimer !== undefined || this.#closed) return;
    this.#lastClocks = { monotonic: performance.now(), wall: Date.now() };
    this.#sweepTimer = setTimeout(() => this.#sweep(), SWEEP_INTERVAL);
    this.#actions.unref?.(this.#sweepTimer);
  }

  /** Closes or checks idle connections, the oldest first. */
  #sweep(): void {
    this.#sweepTimer = undefined;
    const now = performance.now();
    this.#noteSuspension(now);
    const { min, healthCheckInterval } = this.#config;
    for (const member of [...this.#idle]) {
      const isTooMany = this.#isIdleTooLong(member, now) && this.#staying > min;
      if (isTooMany || now >= member.expiresAt) {
        this.#idle.splice(this.#idle.indexOf(member), 1);
        this.#endOld(member, now);
      } else if (healthCheckInterval && now - member.heard >= healthCheckInterval) {
        this.#check(member);
      }
    }
    this.#actions.checkLeases(now);
    if (this.#members.size) this.#scheduleSweep();
  }

  /** Whether a sweep is scheduled, so that a suspension of the process can be noticed by its delay. */
  get #isSweepScheduled(): boolean {
    return this.#mayUseTimer && this.#sweepTimer !== undefined;
  }

  #noteSuspension(now: number): void {
    if (!this.#wasSuspended(now)) return;
    this.#resumedAt = now;
    this.suspectAll();
  }

  /**
   * Compares both clocks: the monotonic clock stops while the machine is suspended, and the wall clock can be set back.
   */
  #wasSuspended(now: number): boolean {
    const { monotonic, wall } = this.#lastClocks;
    return Math.max(now - monotonic, Date.now() - wall) > SWEEP_INTERVAL + MIN_SUSPENSION;
  }

  #checkSuspects(): void {
    for (const member of this.#idle.filter(({ isSuspect }) => isSuspect)) this.#check(member);
  }

  /** Checks whether the server of an idle member answers. */
  #check(member: Member): void {
    this.#idle.splice(this.#idle.indexOf(member), 1);
    member.state = "busy";
    const { since } = member;
    void this.#actions.check(member).then(() => {
      this.#back(member, true);
      // A health check does not count as use.
      if (member.state === "idle") member.since = since;
    });
  }
}
