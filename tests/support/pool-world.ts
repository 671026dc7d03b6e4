// A pool's slots with everything around them simulated: borrowers, waiters, and an owner whose work ends when a test
// says. After each event all invariants are checked; violations are collected in `faults`.
//
// Knows only the interface of `Slots` and of its owner. The model beside it counts on its own.
import type { Connection } from "../../js/connection/connection.ts";
import { Member } from "../../js/pool/member.ts";
import type { PoolConfig } from "../../js/pool/options.ts";
import { Slots, type Failure, type MemberActions, type Waiter } from "../../js/pool/slots.ts";
import type { PgzError } from "../../js/util/errors.ts";
import type { FakeClock } from "./fake-clock.ts";

export type Rules = Partial<PoolConfig> & { readonly lifetime?: number; readonly ticks?: boolean };

/** The members of a fake connection that the model sets. */
type Fake = { -readonly [K in "closed" | "stopping"]: unknown } & {
  readonly listeners: Set<() => void>;
  readonly keepsProcess: boolean;
};

interface Loan {
  readonly member: Member;
  readonly isAlone: boolean;
}
interface Pending<T = void> {
  resolve(value: T): void;
  reject(cause: unknown): void;
}
type OfMember = Pending & { readonly member: Member };

const DEFAULTS = { max: 2, min: 0, idleTimeout: 0, maxLifetime: 0, acquireTimeout: 0, healthCheckInterval: 0 };
const END = new Error("it has ended") as unknown as PgzError;
const CLOSED = new Error("the pool is closed") as unknown as PgzError;

/** Lets all promises run that can. */
export async function settle(): Promise<void> {
  for (let n = 0; n < 10; n++) await null;
}

export class World {
  readonly faults: string[] = [];
  readonly slots: Slots;
  readonly config: PoolConfig;
  readonly opens: (Pending<Member> & { readonly generation: number })[] = [];
  readonly closes: OfMember[] = [];
  readonly cleans: OfMember[] = [];
  readonly checks: OfMember[] = [];
  /** Open connections. */
  readonly members: Member[] = [];
  readonly loans: Loan[] = [];
  readonly waiters: (Waiter & { readonly name: string })[] = [];
  /** The errors of failed waiters. */
  readonly failures: unknown[] = [];
  /** The error of the last connect at the time when a waiter timed out. */
  readonly lateBecause: unknown[] = [];
  readonly error = END;
  readonly closedBecause = CLOSED;
  unreported = 0;
  looks = 0;
  isClosed = false;
  /** Whether a returned connection must be cleaned. */
  isDirty = false;
  readonly clock: FakeClock;
  readonly #lifetime: number;
  readonly #ticks: boolean;
  /** Members that were idle when the process was stopped, or are suspected, and have not been checked since. */
  readonly #stale = new Set<Member>();
  #noConnectBefore = 0;
  /** Set while the pool may not have noticed the stop yet. It then also checks connections that were returned since. */
  #wasFrozen = false;
  /** The last connect failed for good, so `min` is not enforced. */
  #hasGivenUp = false;
  #isEndingRest = false;
  #acquires = 0;

  constructor(clock: FakeClock, { lifetime = Infinity, ticks = true, ...rules }: Rules) {
    this.clock = clock;
    clock.reset();
    this.#lifetime = lifetime;
    this.#ticks = ticks;
    const plain = { maxConnecting: 5, reset: "auto", leakThreshold: 0, holdProcess: false, sharing: 1 } as const;
    this.config = { ...DEFAULTS, ...plain, ...rules };
    this.slots = new Slots(this.config, this.#actions(), ticks);
    this.slots.fill();
  }

  // -- what happens ---------------------------------------------------------------------------------------------------

  /** Runs the event, lets all promises run that can, and checks the invariants. */
  async step(event: () => unknown): Promise<void> {
    this.clock.now++;
    await event();
    await settle();
    this.#look();
  }

  async pass(milliseconds: number): Promise<void> {
    await this.clock.advance(milliseconds, settle);
    if (milliseconds >= 1_000) this.#wasFrozen = false;
    const { acquireTimeout } = this.config;
    if (acquireTimeout && this.waiters.some(({ since }) => this.clock.now - since > acquireTimeout + 1))
      this.#fault("a waiter waits for too long");
    this.#look();
  }

  take(isAlone: boolean): Member | undefined {
    const hadWaiters = this.waiters.length > 0;
    const { now } = this.clock;
    const idle = this.members.filter(({ state, isSuspect }) => state === "idle" && !isSuspect);
    const isFree = idle.some((one) => !this.#stale.has(one) && now < one.expiresAt && !this.#isIdleTooLong(one, now));
    const member = this.slots.take(isAlone);
    if (!member && isFree && !hadWaiters && !this.isClosed && !this.#wasFrozen)
      this.#fault("a call is not given what is idle");
    if (member && hadWaiters) this.#fault("a call overtakes those that wait");
    if (member && this.isClosed) this.#fault("a closed pool lends");
    if (member) this.#lent(member, isAlone);
    return member;
  }

  /** Acquires as the pool does: it waits only if no connection is available at once. */
  wait(isAlone: boolean, isStream = false): void {
    const free = this.take(isAlone);
    if (free && isStream) free.stream = free.call;
    if (free) return;
    const waiter = {
      name: `${isAlone ? "alone" : "shared"}${isStream ? " stream" : ""}`,
      since: this.clock.now,
      isAlone,
      isStream,
      queueIndex: -1,
      take: (member: Member) => {
        if (this.waiters.shift() !== waiter) this.#fault("not first in, first out");
        this.#lent(member, isAlone);
        if (isStream) member.stream = member.call;
      },
      fail: (error: unknown) => {
        if (!this.waiters.includes(waiter)) this.#fault("a waiter ends twice");
        this.failures.push(error);
        this.waiters.splice(this.waiters.indexOf(waiter), 1);
      },
    };
    this.waiters.push(waiter);
    this.slots.wait(waiter);
  }

  leave(at: number): void {
    const [waiter] = this.waiters.splice(at, 1);
    this.slots.leave(waiter!);
  }

  /** `login`: the outcome of the login, if the member's first call may come before it. */
  opened(login: Promise<unknown> = Promise.resolve()): void {
    const { resolve, generation } = this.opens.shift()!;
    const { now } = this.clock;
    const member = new Member(fakeConnection(login), this.config.sharing, generation, now, now + this.#lifetime);
    this.members.push(member);
    this.#hasGivenUp = false;
    resolve(member);
  }

  notOpened(ends: Failure["ends"]): void {
    // A pause begins, unless all waiters get the failure at once.
    const { now } = this.clock;
    if (ends !== "all" && now >= this.#noConnectBefore) this.#noConnectBefore = now + 100;
    this.#hasGivenUp = ends === "all";
    this.opens.shift()!.reject({ error: END, ends });
  }

  giveBack(at: number): Promise<void> | undefined {
    const [{ member }] = this.loans.splice(at, 1) as [Loan];
    return this.slots.giveBack(member);
  }

  finishCall(at: number): void {
    this.loans[at]!.member.call = { finished: true };
  }

  /** The server or the network ends the connection. */
  lose(member: Member): void {
    const connection = fakeOf(member);
    connection.closed = END;
    this.members.splice(this.members.indexOf(member), 1);
    for (const listener of connection.listeners) listener();
  }

  /** Ends the first pending work of this kind. `isAlive`: its connection is still open then. */
  over(kind: "closes" | "cleans" | "checks", isAlive: boolean): void {
    const { member, resolve } = this[kind].shift()!;
    if (!isAlive && !member.connection.closed) this.lose(member);
    this.#stale.delete(member);
    resolve();
  }

  /** Stops the process: time passes, and no timer is called. */
  freeze(): void {
    this.clock.now += 4_000;
    this.#wasFrozen = true;
    // Only a timer that checks idle connections can notice this. It exists as long as a connection is idle.
    if (this.#ticks && !this.isClosed) this.suspect();
  }

  suspect(): void {
    for (const member of this.members) if (member.state === "idle") this.#stale.add(member);
  }

  close(): void {
    this.isClosed = true;
    this.slots.close(CLOSED);
  }

  endRest(over = () => {}): void {
    this.#isEndingRest = true;
    void this.slots.endRest().then(over);
    this.#isEndingRest = false;
  }

  /** Lets all pending work succeed, and returns all loans. */
  async windUp(): Promise<void> {
    for (let round = 0; round < 40; round++) {
      while (this.opens.length) await this.step(() => this.opened());
      while (this.cleans.length) await this.step(() => this.over("cleans", true));
      while (this.checks.length) await this.step(() => this.over("checks", true));
      while (this.closes.length) await this.step(() => this.over("closes", false));
      if (this.loans.length) {
        fakeOf(this.loans[0]!.member).stopping = undefined;
        await this.step(() => void this.giveBack(0));
      } else if (this.waiters.length) await this.pass(200);
      else if (!this.opens.length && !this.closes.length && !this.cleans.length && !this.checks.length) break;
    }
    if (this.waiters.length) this.#fault("a waiter is never served");
    if (this.isClosed && this.members.length) this.#fault("a closed pool keeps a connection");
    if (this.isClosed && this.clock.timers.length) this.#fault("a closed pool keeps a timer");
    if (this.members.some(({ state }) => state !== "idle")) this.#fault("a connection is lost to the pool");
  }

  // -- what there is --------------------------------------------------------------------------------------------------

  /**
   * Returns everything that the future depends on, as a text. Two states that differ only in names and times have the
   * same text.
   */
  get state(): string {
    const { slots, clock } = this;
    const idle = this.members.filter(({ state }) => state === "idle").sort((a, b) => a.heard - b.heard);
    const others = this.members.filter(({ state }) => state !== "idle").map((member) => this.#shown(member));
    return [
      idle.map((member) => this.#shown(member)).join(" "),
      others.sort().join(" "),
      this.loans.map(({ member }) => this.members.indexOf(member)).join(),
      this.waiters.map(({ name }) => name).join(),
      [this.opens, this.closes, this.cleans, this.checks].map(({ length }) => length).join(),
      this.opens.map(({ generation }) => generation === this.#generation).join(),
      [slots.max, this.isClosed, this.isDirty].join(),
      clock.timers.map((left) => Math.ceil(left / 250)).join(),
    ].join(" | ");
  }

  #generation = 0;

  renew(): void {
    this.#generation++;
    this.#noConnectBefore = 0; // it ends a pause too
    this.slots.renew();
  }

  #shown(member: Member): string {
    const { now } = this.clock;
    const { idleTimeout, healthCheckInterval } = this.config;
    const age = now - member.since;
    const flags = {
      alone: member.isAlone,
      doomed: member.isDoomed,
      suspect: member.isSuspect,
      stale: this.#stale.has(member),
      returning: member.isReturning,
      stopping: member.connection.stopping,
      stream: member.stream?.finished === false,
      old: member.generation !== this.#generation,
      tooOld: now >= member.expiresAt,
      tooIdle: idleTimeout && age >= idleTimeout,
      unheard: healthCheckInterval && now - member.heard >= healthCheckInterval,
    };
    const set = Object.entries(flags).flatMap(([name, is]) => (is ? [name] : []));
    return `${member.state}${member.borrowers || ""}(${set.join()})`;
  }

  // -- what must hold -------------------------------------------------------------------------------------------------

  #fault(what: string): void {
    this.faults.push(what);
    // An endless series of faults would never return to be reported.
    if (this.faults.length > 20) throw new Error(what);
  }

  /** The number of connections that count. A lost one counts until all work on it has ended. */
  get #total(): number {
    const used = [this.loans, this.cleans, this.checks].flat().filter(({ member }) => !member.ending);
    const all = [...used, ...this.closes].map(({ member }) => member);
    return this.opens.length + new Set([...this.members, ...all]).size;
  }

  /** Checks a member when it is lent. */
  #lent(member: Member, isAlone: boolean): void {
    const { sharing } = this.config;
    const { now } = this.clock;
    this.#acquires++;
    const others = this.loans.filter((loan) => loan.member === member);
    if (member.connection.closed) this.#fault("a closed connection is lent");
    if (this.closes.some((close) => close.member === member)) this.#fault("one that is being closed is lent");
    if (this.cleans.some((clean) => clean.member === member)) this.#fault("one that is not clean is lent");
    if (this.checks.some((check) => check.member === member)) this.#fault("one that is being asked is lent");
    if (others.length) {
      if (isAlone || others.some((loan) => loan.isAlone)) this.#fault("lent twice");
      if (others.length >= sharing) this.#fault("shared by too many");
      if (this.#total < this.slots.max) this.#fault("shared though there is room");
      if (member.connection.stopping) this.#fault("shared while something is stopped on it");
      if (member.isDoomed) this.#fault("one that is to go is shared");
      if (others.length > Math.min(...this.#shareable(member))) this.#fault("not the least loaded one is shared");
    } else {
      if (this.#stale.has(member)) this.#fault("one that may have ended is lent without a question");
      if (now >= member.expiresAt) this.#fault("one that is too old is lent");
      if (this.#isIdleTooLong(member, now)) this.#fault("one that was idle for too long is lent");
      if (member.generation !== this.#generation) this.#fault("one from before a reset is lent");
      if (this.members.some(({ state, heard }) => state === "idle" && heard > member.heard))
        this.#fault("not the one that came back last is lent");
    }
    this.#stale.delete(member);
    member.call = { finished: false };
    this.loans.push({ member, isAlone });
  }

  /** Whether the member has been idle for too long. On Workers no timer closes such members. */
  #isIdleTooLong(member: Member, now: number): boolean {
    const { idleTimeout } = this.config;
    return !this.#ticks && idleTimeout > 0 && now - member.since >= idleTimeout;
  }

  /** Returns the number of calls on each member that one more call could share, before `lent` got its own. */
  #shareable(lent?: Member): number[] {
    const { sharing } = this.config;
    return this.members.flatMap((member) => {
      const out = this.loans.filter((loan) => loan.member === member);
      const isOpen = out.length > 0 && out.length < sharing && !out.some(({ isAlone }) => isAlone);
      const mayBe = member === lent || (!member.isDoomed && !member.connection.stopping);
      return isOpen && mayBe ? [out.length] : [];
    });
  }

  /** Checks the invariants after each event. */
  #look(): void {
    const { slots, config } = this;
    const [first] = this.waiters;
    const isPausing = this.clock.now < this.#noConnectBefore;
    if (slots.waiting !== this.waiters.length) this.#fault("waiting is miscounted");
    if (slots.connecting !== this.opens.length) this.#fault("connecting is miscounted");
    const lent = new Set(this.loans.map(({ member }) => member).filter(({ ending }) => !ending));
    if (slots.lent !== lent.size) this.#fault("lent is miscounted");
    if (slots.idle !== this.members.filter(({ state }) => state === "idle").length) this.#fault("idle is miscounted");
    const staying = slots.total - this.members.filter(({ ending }) => ending).length;
    if (slots.idle && staying > slots.max) this.#fault("more than max are kept");
    if (slots.total !== this.#total) this.#fault("total is miscounted");
    if (slots.counts.acquires !== this.#acquires) this.#fault("acquires are miscounted");
    for (const { member } of this.loans) {
      if (!member.connection.closed && member.state === "idle") this.#fault("one that is lent counts as idle");
      if (!fakeOf(member).keepsProcess) this.#fault("the process may end under a borrower");
    }
    for (const member of this.members)
      if (member.state === "idle" && fakeOf(member).keepsProcess !== config.holdProcess)
        this.#fault("an idle connection keeps the process, or does not though it should");
    if (this.isClosed && this.waiters.some(({ isStream }) => !isStream)) this.#fault("a call waits in a closed pool");
    const isFull = this.opens.length >= config.maxConnecting;
    const least = Math.min(config.min, slots.max);
    if (slots.total < least && !isFull && !isPausing && !this.isClosed && !this.#hasGivenUp) this.#fault("below min");
    if (!first) return;
    if (slots.idle) this.#fault("a call waits while a connection is idle");
    const isOnly = (loan: Loan) => !this.loans.some((other) => other !== loan && other.member === loan.member);
    const returning = new Set(this.loans.filter((loan) => isOnly(loan) && loan.member.isReturning));
    const coming = this.opens.length + returning.size;
    if (!first.isAlone && slots.total >= slots.max && this.waiters.length > coming && this.#shareable().length)
      this.#fault("a call waits while a connection could be shared");
    const mayConnect = slots.total < slots.max && !isFull && !isPausing;
    if (mayConnect && this.waiters.length > coming) this.#fault("a call waits though there is room for a connection");
  }

  #actions(): MemberActions {
    const ofMember = (list: OfMember[], member: Member) =>
      new Promise<void>((resolve, reject) => list.push({ member, resolve, reject }));
    return {
      open: (generation) => {
        if (this.#total >= this.slots.max) this.#fault("above max");
        if (this.opens.length >= this.config.maxConnecting) this.#fault("above maxConnecting");
        if (this.clock.now < this.#noConnectBefore) this.#fault("a connect without a pause");
        if (this.isClosed && !this.waiters.length) this.#fault("a closed pool connects");
        return new Promise((resolve, reject) => this.opens.push({ generation, resolve, reject }));
      },
      close: (member) => {
        if (this.closes.some((close) => close.member === member)) this.#fault("closed twice");
        const isLent = this.loans.some((loan) => loan.member === member);
        if (isLent && !this.#isEndingRest) this.#fault("one that is lent is closed");
        if (isLent && member.stream?.finished === false) this.#fault("one that a stream has is closed");
        return ofMember(this.closes, member);
      },
      clean: (member) => (this.isDirty ? ofMember(this.cleans, member) : undefined),
      check: (member) => ofMember(this.checks, member),
      checkLeases: () => void this.looks++,
      late: (cause) => (this.lateBecause.push(cause), END),
      judge: (cause) => cause as Failure,
      unreported: () => void this.unreported++,
    };
  }
}

/** A pool that has lent `count` connections, all it may have. */
export async function lent(clock: FakeClock, count: number, rules: Rules = {}): Promise<World> {
  const world = new World(clock, { max: count, ...rules });
  for (let n = 0; n < count; n++) await world.step(() => world.wait(true));
  for (let n = 0; n < count; n++) await world.step(() => world.opened());
  return world;
}

/** A pool with `count` idle connections, which came back in order, a millisecond apart. */
export async function idle(clock: FakeClock, count: number, rules: Rules = {}): Promise<World> {
  const world = await lent(clock, count, rules);
  for (let n = 0; n < count; n++) await world.step(() => void world.giveBack(0));
  return world;
}

/** The places of the members that are being closed, in order. */
export const closing = ({ closes, members }: World): number[] => closes.map(({ member }) => members.indexOf(member));

export function fakeOf(member: Member): Fake {
  return member.connection as unknown as Fake;
}

function fakeConnection(login: Promise<unknown>): Connection {
  const listeners = new Set<() => void>();
  return {
    listeners,
    closed: undefined,
    stopping: undefined,
    isBusy: false,
    transactionStatus: "I",
    config: { host: "fake", port: 0, database: "fake", user: "fake", startup: [] },
    parameters: new Map(),
    startup: { done: login },
    onClosed: (listener: () => void) => listeners.add(listener),
    keepsProcess: true,
    ref(this: { keepsProcess: boolean }) {
      this.keepsProcess = true;
    },
    unref(this: { keepsProcess: boolean }) {
      this.keepsProcess = false;
    },
  } as unknown as Connection;
}
