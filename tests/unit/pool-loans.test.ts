// Unreleased leases: which are reported, which are taken back, and what is not kept in memory by that.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { resolveConfig } from "../../js/config/config.ts";
import type { Options } from "../../js/config/options.ts";
import type { Lease } from "../../js/pool/lease.ts";
import { Loans } from "../../js/pool/loans.ts";
import { Member } from "../../js/pool/member.ts";
import type { LeaseLeak, Observer } from "../../js/util/observer.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { FakeConnection } from "../support/fake-connection.ts";
import { newServer } from "../support/memory-session.ts";
import { settle } from "../support/pool-world.ts";

const clock = new FakeClock();
const REGISTRY = FinalizationRegistry;
/** Calls back as the engine's FinalizationRegistry would after a garbage collection. */
let collect: (() => void) | undefined;
let registered: unknown[] = [];

beforeEach(() => {
  clock.install().reset();
  newServer();
  registered = [];
  collect = undefined;
  const fake = class {
    constructor(lost: (held: unknown) => void) {
      collect = () => registered.splice(0).forEach(lost);
    }
    register(_: object, held: unknown): void {
      registered.push(held);
    }
    unregister(held: unknown): void {
      registered = registered.filter((other) => other !== held);
    }
  };
  vi.stubGlobal("FinalizationRegistry", fake);
});
afterEach(() => {
  clock.uninstall();
  vi.stubGlobal("FinalizationRegistry", REGISTRY);
});

interface Given {
  readonly loans: Loans;
  readonly leaks: LeaseLeak[];
  readonly back: [Member, boolean][];
  lend(until?: AbortSignal): [Lease, Member];
}

function given(threshold: number, isCheckedPeriodically = true, isObserved = true): Given {
  const leaks: LeaseLeak[] = [];
  const back: [Member, boolean][] = [];
  const observer: Observer = { onLeaseLeak: (leak) => void leaks.push(leak) };
  const config = resolveConfig({ user: "fake", host: "fake", ...(isObserved && { observer }) });
  const counters = { queries: 0, errors: 0, rows: 0, bytes: 0, running: 0 };
  const loans = new Loans(config, counters, threshold, isCheckedPeriodically);
  const lend = (until?: AbortSignal): [Lease, Member] => {
    const member = new Member(new FakeConnection().real, 1, 0, clock.now, Infinity);
    const trace = loans.recordsStacks ? Object.assign(new Error("x"), { stack: "acquired here" }) : undefined;
    const lease = loans.lend(member, trace, until, (its) => void back.push([its, its.isDoomed]));
    return [lease, member];
  };
  return { loans, leaks, back, lend };
}

test("a lease that is held for too long is reported once", async () => {
  const { loans, leaks, lend } = given(1_000);
  lend();
  clock.now += 999;
  loans.checkAll(clock.now);
  expect(leaks).toEqual([]);
  clock.now += 1;
  loans.checkAll(clock.now);
  loans.checkAll(clock.now + 5_000);
  expect(leaks).toEqual([{ heldMs: 1_000, stack: "acquired here" }]);
});

test("a lease whose stream is read, a released lease, and any lease with threshold 0 is not reported", async () => {
  const { loans, leaks, back, lend } = given(1_000);
  const [, streaming] = lend();
  streaming.stream = { finished: false };
  const [released, member] = lend();
  await released.release();
  expect(back).toEqual([[member, false]]);
  loans.checkAll(clock.now + 5_000);
  expect(leaks).toEqual([]);
  const never = given(0);
  never.lend();
  never.loans.checkAll(clock.now + 1e9);
  collect!();
  expect([never.leaks.length, never.back.length]).toEqual([0, 1]);
});

test("without an observer a warning says where a lease was acquired, from the second leak on", () => {
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  const { loans, lend } = given(1_000, true, false);
  lend();
  loans.checkAll(clock.now + 1_500.4);
  lend();
  loans.checkAll(clock.now + 1_600);
  const late = (rest: string) => [`pgz-edge: a lease has not been released for ${rest}`];
  expect(warn.mock.calls).toEqual([
    late("1500 ms; where it was acquired is recorded from now on, and always with debug: true"),
    late("1600 ms; acquired here"),
  ]);
  warn.mockRestore();
});

test("stacks are recorded from the start with an observer of leaks, or with debug", () => {
  const recorded = (threshold: number, options: Partial<Options>) => {
    const config = resolveConfig({ user: "fake", host: "fake", ...options });
    return new Loans(config, { queries: 0, errors: 0, rows: 0, bytes: 0, running: 0 }, threshold, true).recordsStacks;
  };
  const onLeaseLeak = () => {};
  expect([recorded(1, {}), recorded(1, { observer: {} })]).toEqual([false, false]);
  expect([recorded(1, { debug: true }), recorded(1, { observer: { onLeaseLeak } })]).toEqual([true, true]);
  expect(recorded(0, { debug: true, observer: { onLeaseLeak } })).toBe(false);
});

test("a connection is given back once, and not lent again if it is destroyed", async () => {
  const { back, lend } = given(0);
  const [lease, member] = lend();
  const first = lease.release({ destroy: true });
  expect(lease.release()).toBe(first);
  expect(lease[Symbol.asyncDispose]()).toBe(first);
  await first;
  expect(back).toEqual([[member, true]]);
});

test("a long-lived signal keeps no handler of a released lease", async () => {
  const { lend } = given(0);
  const { signal } = new AbortController();
  const remove = vi.spyOn(signal, "removeEventListener");
  const [lease] = lend(signal);
  expect(remove).not.toHaveBeenCalled();
  await lease.release();
  expect(remove).toHaveBeenCalledTimes(1);
});

test("an unreferenced lease is reported and taken back, if it was out when the pool looked", async () => {
  const { loans, leaks, back, lend } = given(60_000);
  const [, member] = lend();
  expect(registered.length).toBe(0);
  loans.checkAll(clock.now);
  loans.checkAll(clock.now);
  expect(registered.length).toBe(1);
  clock.now += 70;
  collect!();
  expect([leaks, back]).toEqual([[{ heldMs: 70, stack: "acquired here" }], [[member, false]]]);
  const [early] = lend();
  await early.release();
  const [late] = lend();
  loans.checkAll(clock.now);
  expect(registered.length).toBe(1);
  await late.release();
  expect(registered.length).toBe(0);
});

test("without periodic checks a lease is watched from the beginning", async () => {
  const { back, lend } = given(60_000, false);
  const [lease] = lend();
  lend();
  expect(registered.length).toBe(2);
  await lease.release();
  expect(registered.length).toBe(1);
  collect!();
  expect(back.length).toBe(2);
});

test("an engine without FinalizationRegistry still lends and reports", async () => {
  vi.stubGlobal("FinalizationRegistry", undefined);
  const { loans, leaks, back, lend } = given(1_000);
  const [lease] = lend();
  loans.checkAll(clock.now + 1_000);
  await lease.release();
  expect([leaks.length, back.length]).toEqual([1, 1]);
});

test("the signal of a lease takes it back, unless it was released before", async () => {
  const { back, lend } = given(0);
  const abort = new AbortController();
  const [, member] = lend(abort.signal);
  const [released] = lend(abort.signal);
  await released.release();
  expect(back.length).toBe(1);
  abort.abort();
  await settle();
  expect(back.length).toBe(2);
  expect(back[1]).toEqual([member, false]);
});
