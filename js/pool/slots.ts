// The places of a pool: who has a connection, who waits for one, when another is made. Waiters are served first in,
// first out; of idle connections the one that came back last goes out first, so that those that are not needed grow
// old.
//
// Knows counting, order and time. Must not know SQL, calls, or how a connection is made, cleaned or asked
// (`Keeper`). Nothing here runs a user's code.
//
//   open + connecting <= max, always: what is being closed counts until it is closed.
import type { PgzError } from "../util/errors.ts";
import { Fifo } from "./fifo.ts";
import type { Member } from "./member.ts";
import type { PoolConfig } from "./options.ts";

/** What is wanted of a connection, and since when. */
export interface Wish {
  readonly since: number;
  /** Nothing else is to be on the connection. */
  readonly isAlone: boolean;
  /** What its user reads of it outlives a close of the pool, and so does its waiting. */
  readonly isStream: boolean;
}

/** Who waits for a connection. One of the two is called, once. */
export interface Waiter extends Wish {
  take(member: Member): void;
  fail(error: unknown): void;
}

/** Why a connect failed, and which waiters end with that: none, because a later connect may do better, or these. */
export interface Failure {
  readonly error: unknown;
  readonly ends: "none" | "first" | "all";
}

/** What is done with connections, by who knows them. */
export interface Keeper {
  /** Connects. Rejects with what `judge` understands. */
  open(generation: number): Promise<Member>;
  /** Ends it. Never rejects; must settle. */
  close(member: Member): Promise<void>;
  /** Leaves it clean or closed. Never rejects; must settle. `undefined`: there is nothing to do. */
  clean(member: Member): Promise<void> | undefined;
  /** Leaves it alive or closed. Never rejects; must settle. */
  check(member: Member): Promise<void>;
  /** Looks at what takes long, once in a while. */
  look(now: number): void;
  /** Why a waiter has waited long enough. `cause`: why the last connect failed, if none has succeeded since. */
  late(cause: unknown): PgzError;
  /** This timer is for idle connections, which may not keep the process alive. */
  unref?(timer: unknown): void;
  /** What it means that a connect has failed so. */
  judge(cause: unknown): Failure;
  /** A connect has failed so, which would have ended a waiter, but none waits. */
  untold(cause: unknown): void;
}

/** Counters since the pool was made. Times are in milliseconds. */
export interface Counts {
  /** Times that a connection was given. */
  acquires: number;
  /** What they waited together. */
  acquireMs: number;
  /** Those that had to wait, and what they waited. */
  emptyAcquires: number;
  emptyAcquireMs: number;
  /** Who gave up, or was given up, before there was a connection. */
  canceledAcquires: number;
  /** Those of them whose `acquireTimeout` had passed. */
  acquireTimeouts: number;
  connects: number;
  failedConnects: number;
  /** Ended because of `maxLifetime`, and of `idleTimeout`. */
  lifetimeCloses: number;
  idleCloses: number;
}

/** Milliseconds between two connects that fail: twice as many each time, up to here, and as much again at random. */
const FIRST_PAUSE = 100,
  LONGEST_PAUSE = 5_000;
/** Between two looks at idle connections; and how late such a look is when the process was stopped. */
const TICK = 1_000,
  FROZEN = 2_000;

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
  readonly #keeper: Keeper;
  /** Whether a timer may look after idle connections. */
  readonly #ticks: boolean;
  readonly #members = new Set<Member>();
  /** The last one goes out first. */
  readonly #idle: Member[] = [];
  /** In the order in which they came, which is the order in which their time is over. */
  readonly #waiters = new Fifo<Waiter>();
  #connecting = 0;
  /** Of the members, those that are being closed. */
  #leaving = 0;
  #generation = 0;
  /** Connects that have failed since one did not, but for those that ended a waiter; and why the last one failed. */
  #failures = 0;
  #failure: unknown;
  #pause: ReturnType<typeof setTimeout> | undefined;
  #patience: ReturnType<typeof setTimeout> | undefined;
  #tick: ReturnType<typeof setTimeout> | undefined;
  #lastTick = { monotonic: 0, wall: 0 };
  /** When the process last went on after it had been stopped: what is on a connection since before may be gone. */
  #wentOn = 0;
  /** No more is made. */
  #closed: PgzError | undefined;
  #changed: (() => void)[] = [];

  constructor(config: PoolConfig, keeper: Keeper, ticks: boolean) {
    this.#config = config;
    this.#keeper = keeper;
    this.#ticks = ticks;
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

  get waiting(): number {
    return this.#waiters.size;
  }

  /** Those that a call or a lease has. */
  get lent(): number {
    let count = 0;
    for (const { place } of this.#members) if (place === "lent") count++;
    return count;
  }

  /** All that is there is for streams that their users read, or wait for: it outlives a close. */
  get isLeftToStreams(): boolean {
    for (const { stream } of this.#members) if (stream?.finished !== false) return false;
    return this.#connecting <= this.#waiters.size;
  }

  // -- giving ---------------------------------------------------------------------------------------------------------

  /** A connection that can be had at once. */
  take(isAlone: boolean): Member | undefined {
    if (this.#waiters.size || this.#closed) return undefined;
    const now = performance.now();
    if (this.#isTicking) this.#heedFreeze(now);
    const member = this.#fresh(now) ?? (isAlone ? undefined : this.#shareable());
    if (!member) return undefined;
    this.#lend(member, isAlone, now, now);
    return member;
  }

  /** Waits for one. `leave` takes it back. */
  wait(waiter: Waiter): void {
    if (this.#closed) return waiter.fail(this.#closed);
    this.#waiters.add(waiter);
    this.#setPatience();
    this.#serve();
  }

  /** It does not want a connection any more: whether it still waited. What is being made for it is somebody else's. */
  leave(waiter: Waiter): boolean {
    if (!this.#waiters.delete(waiter)) return false;
    this.counts.canceledAcquires++;
    this.#tell();
    return true;
  }

  /** One borrower is done with it. The last one brings it back, when it is clean: what is returned waits for that. */
  giveBack(member: Member): Promise<void> | undefined {
    member.borrowers--;
    member.isAlone = false;
    member.stream = undefined;
    // `call` tells when the connection comes back: one of several that is over does not.
    if (member.call?.finished) member.call = undefined;
    if (member.ending) return undefined;
    // Another may share it in this one's place.
    if (member.borrowers) return void (this.#waiters.size && this.#serve());
    member.place = "busy";
    const cleaning = member.isDoomed ? undefined : this.#keeper.clean(member);
    if (!cleaning) return void this.#back(member);
    // That may take long. Who waits and has counted on this one may have another.
    this.#serve();
    return cleaning.then(() => this.#back(member));
  }

  /**
   * Settles when `isSo` holds, or rejects with the signal's reason. It is asked whenever a connection or a waiter has
   * gone.
   */
  async until(isSo: () => boolean, signal?: AbortSignal): Promise<void> {
    while (!isSo()) {
      signal?.throwIfAborted();
      const changed = new Promise<void>((resolve) => this.#changed.push(resolve));
      const stop = () => this.#tell();
      signal?.addEventListener("abort", stop, { once: true });
      await changed;
      signal?.removeEventListener("abort", stop);
    }
  }

  // -- policy ---------------------------------------------------------------------------------------------------------

  /** Makes those that are always there, as many at a time as others. */
  fill(): void {
    if (this.#closed || this.#pause !== undefined) return;
    const { min, maxConnecting } = this.#config;
    while (this.total < Math.min(min, this.max) && this.#connecting < maxConnecting) this.#connect();
  }

  resize(max: number): void {
    this.max = max;
    while (this.#staying > max && this.#idle.length) void this.#end(this.#idle.shift()!);
    // There may be room for `min` again.
    this.fill();
    this.#serve();
  }

  /**
   * None of today's connections is given again, if this is still their generation. A connect that was to be tried again
   * later is tried now: things have changed.
   */
  renew(generation = this.#generation): void {
    if (generation !== this.#generation) return;
    this.#generation++;
    this.#failures = 0;
    this.#endIdle();
    if (this.#pause === undefined) return;
    clearTimeout(this.#pause);
    this.#goOn();
  }

  /** No connection is given any more but to streams that wait, and none comes back. Other waiters fail with it. */
  close(error: PgzError): void {
    this.#closed ??= error;
    clearTimeout(this.#tick);
    this.#tick = undefined;
    this.#endIdle();
    this.#failAll(error, ({ isStream }) => !isStream);
  }

  /** Called when nobody waits any more: the timers of those who waited would keep the process alive. */
  #stopTimers(): void {
    clearTimeout(this.#patience);
    this.#patience = undefined;
    if (!this.#closed) return;
    clearTimeout(this.#pause);
    this.#pause = undefined;
  }

  #endIdle(): void {
    for (const member of this.#idle.splice(0)) void this.#end(member);
  }

  /** Ends those that are lent, too, but not those of streams. */
  endRest(): Promise<unknown> {
    const rest = [...this.#members].filter(({ stream }) => stream?.finished !== false);
    return Promise.all(rest.map((member) => this.#end(member)));
  }

  /**
   * Connections may have ended, and nobody has told yet: the process was stopped, or one was found so. Idle ones are
   * asked for a sign of life before they are lent.
   */
  suspectAll(): void {
    for (const member of this.#idle) member.isSuspect = true;
    this.#lastTick = { monotonic: performance.now(), wall: Date.now() };
  }

  // -- within ---------------------------------------------------------------------------------------------------------

  #lend(member: Member, isAlone: boolean, since: number, now: number): void {
    const { counts } = this;
    counts.acquires++;
    counts.acquireMs += now - since;
    member.borrowers++;
    member.isAlone = isAlone;
    member.call = undefined;
    member.hold(true);
    member.place = "lent";
    member.since = now;
  }

  /** An idle one that may be used. */
  #fresh(now: number): Member | undefined {
    const idle = this.#idle;
    for (let member = idle.at(-1); member && !member.isSuspect; member = idle.at(-1)) {
      idle.pop();
      if (now < member.expiresAt && (this.#ticks || !this.#isIdleTooLong(member, now))) return member;
      this.#endOld(member, now);
    }
    return undefined;
  }

  /** One whose calls share it, where no other can be made. Not one that waits for a server that may never answer. */
  #shareable(): Member | undefined {
    const { sharing } = this.#config;
    if (sharing === 1 || this.total < this.max) return undefined;
    let least: Member | undefined;
    for (const member of this.#members) {
      if (member.place !== "lent" || member.isAlone || member.isDoomed || member.borrowers >= sharing) continue;
      if (member.connection.closed || member.connection.stopping) continue;
      if (!least || member.borrowers < least.borrowers) least = member;
    }
    return least;
  }

  /** It is clean, or closed. `isAlive`: it has just said so. */
  #back(member: Member, isAlive = false): void {
    if (!this.#members.has(member)) return this.#tell();
    if (member.ending) return;
    const now = performance.now();
    if (member.connection.closed) return this.#remove(member);
    if (this.#isTicking) this.#heedFreeze(now);
    // One that was lent meanwhile is no better than one that was idle.
    member.isSuspect = !isAlive && member.since < this.#wentOn;
    member.place = "idle";
    member.since = member.heard = now;
    const isOver = this.#staying > this.max || member.generation !== this.#generation;
    const isClosed = this.#closed !== undefined && !this.#waiters.size;
    if (isClosed || member.isDoomed || isOver) void this.#end(member);
    else if (now >= member.expiresAt) this.#endOld(member, now);
    else this.#keep(member);
    // Also where it goes: its end may take long, and there may be room for another.
    this.#serve(now);
    if (member.place === "idle") member.hold(this.#config.holdProcess);
    this.#tell();
  }

  #keep(member: Member): void {
    this.#idle.push(member);
    this.#startTicks();
  }

  /** Gives what there is to who waits, and makes more. */
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
    if (this.#closed) this.#tell();
  }

  /** Those who wait are more than the connections that are on their way to them. */
  #isShort(): boolean {
    const { maxConnecting } = this.#config;
    if (this.#pause !== undefined || this.total >= this.max) return false;
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
      member.connection.onClosed(() => this.#isLost(member));
      // Its first call may be on the wire before the server has let us in.
      member.connection.startup.done.then(
        () => {
          this.counts.connects++;
          this.#failures = 0;
          this.#failure = undefined;
        },
        // One that we end before its login is over, as a hook may want, is no failure of the server's.
        (cause: unknown) => member.ending ?? this.#failed(cause),
      );
      this.#back(member);
      this.fill();
    };
    const failed = (cause: unknown) => {
      this.#connecting--;
      this.#failed(cause);
    };
    this.#keeper.open(this.#generation).then(opened, failed);
  }

  /** Waiters go on waiting where that may help, and a connect is tried again after a pause. */
  #failed(cause: unknown): void {
    const { error, ends } = this.#keeper.judge(cause);
    const { first } = this.#waiters;
    this.counts.failedConnects++;
    this.#failure = error;
    if (ends === "first" && first) this.#fail(first, error);
    else if (ends === "first") this.#keeper.untold(cause);
    this.#tell();
    if (this.#closed && !this.#waiters.size) return;
    if (ends === "all") return this.#failAll(error);
    // A failure that ended a waiter is paid for: all who wait shall have the error before their time is over.
    if (this.#pause === undefined) this.#connectLater(ends === "first" && first ? 0 : this.#failures++);
  }

  #connectLater(failures: number): void {
    const pause = Math.min(FIRST_PAUSE * 2 ** failures, LONGEST_PAUSE) * (1 + Math.random());
    this.#pause = setTimeout(() => this.#goOn(), pause);
    // Who comes next waits by `#patience`, which keeps the process.
    if (!this.#waiters.size && this.#config.acquireTimeout) this.#keeper.unref?.(this.#pause);
  }

  /** The pause behind a connect that has failed is over. */
  #goOn(): void {
    this.#pause = undefined;
    this.fill();
    this.#serve();
  }

  #failAll(error: unknown, isMeant: (waiter: Waiter) => boolean = () => true): void {
    for (const waiter of [...this.#waiters].filter(isMeant)) this.#fail(waiter, error);
    this.#tell();
  }

  #fail(waiter: Waiter, error: unknown): void {
    this.#waiters.delete(waiter);
    this.counts.canceledAcquires++;
    waiter.fail(error);
  }

  /** The next who has waited long enough is the first in the queue. */
  #setPatience(): void {
    const { acquireTimeout } = this.#config;
    if (!acquireTimeout || this.#patience !== undefined) return;
    const { first } = this.#waiters;
    if (!first) return;
    const left = Math.max(0, first.since + acquireTimeout - performance.now());
    this.#patience = setTimeout(() => {
      this.#patience = undefined;
      const now = performance.now();
      for (let waiter = this.#waiters.first; waiter; waiter = this.#waiters.first) {
        if (waiter.since + acquireTimeout > now + 1) break;
        this.counts.acquireTimeouts++;
        const error = this.#keeper.late(this.#failure);
        this.leave(waiter);
        waiter.fail(error);
      }
      this.#setPatience();
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
    member.place = "leaving";
    this.#leaving++;
    return (member.ending = this.#keeper.close(member).then(() => {
      this.#leaving--;
      this.#remove(member);
    }));
  }

  /** The connection is over. One that is lent comes back by its borrower. */
  #isLost(member: Member): void {
    const at = this.#idle.indexOf(member);
    if (at >= 0) this.#idle.splice(at, 1);
    if (member.place === "idle") this.#remove(member);
    // Who waits and has counted on it may have another.
    else this.#serve();
  }

  #remove(member: Member): void {
    if (!this.#members.delete(member)) return;
    this.#tell();
    this.fill();
    this.#serve();
  }

  #tell(): void {
    if (!this.#waiters.size) this.#stopTimers();
    for (const changed of this.#changed.splice(0)) changed();
  }

  // -- time -----------------------------------------------------------------------------------------------------------

  #isIdleTooLong({ since }: Member, now: number): boolean {
    const { idleTimeout } = this.#config;
    return idleTimeout > 0 && now - since >= idleTimeout;
  }

  #startTicks(): void {
    if (!this.#ticks || this.#tick !== undefined || this.#closed) return;
    this.#lastTick = { monotonic: performance.now(), wall: Date.now() };
    this.#tick = setTimeout(() => this.#look(), TICK);
    this.#keeper.unref?.(this.#tick);
  }

  /** At idle connections, the oldest first. */
  #look(): void {
    this.#tick = undefined;
    const now = performance.now();
    this.#heedFreeze(now);
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
    this.#keeper.look(now);
    if (this.#members.size) this.#startTicks();
  }

  /** Looks are made, so that it shows when one is late. */
  get #isTicking(): boolean {
    return this.#ticks && this.#tick !== undefined;
  }

  #heedFreeze(now: number): void {
    if (!this.#wasFrozen(now)) return;
    this.#wentOn = now;
    this.suspectAll();
  }

  /** By either clock: the monotonic one stands still while a whole machine is suspended, the other one may be set. */
  #wasFrozen(now: number): boolean {
    const { monotonic, wall } = this.#lastTick;
    return Math.max(now - monotonic, Date.now() - wall) > TICK + FROZEN;
  }

  #checkSuspects(): void {
    for (const member of this.#idle.filter(({ isSuspect }) => isSuspect)) this.#check(member);
  }

  /** Asks an idle one whether it lives. */
  #check(member: Member): void {
    this.#idle.splice(this.#idle.indexOf(member), 1);
    member.place = "busy";
    const { since } = member;
    void this.#keeper.check(member).then(() => {
      this.#back(member, true);
      // A sign of life is no use.
      if (member.place === "idle") member.since = since;
    });
  }
}
