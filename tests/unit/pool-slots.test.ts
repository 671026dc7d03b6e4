// What the walk of a pool's places (pool-walk.test.ts) does not compare: pauses between connects, waiters,
// counts, and the ends of connections and of the pool. pool-slots-time.test.ts has checks and ages.
import { afterAll, beforeAll, expect, test } from "vitest";
import { FakeClock } from "../support/fake-clock.ts";
import { closing, idle, lent, settle, World } from "../support/pool-world.ts";

const clock = new FakeClock();
beforeAll(() => void clock.install());
afterAll(() => clock.uninstall());

// -- pauses -----------------------------------------------------------------------------------------------------------

/** The pauses before the connects that follow failures of these kinds. */
async function pauses(failures: readonly ("none" | "first")[], dice = 0): Promise<number[]> {
  const world = new World(clock, { max: 1 });
  Math.random = () => dice;
  const seen: number[] = [];
  for (const ends of failures) {
    while (world.waiters.length < 2) world.wait(true);
    await world.step(() => world.notOpened(ends));
    expect(world.opens.length).toBe(0);
    const [pause = NaN] = clock.timers;
    seen.push(pause);
    await world.pass(pause - 1);
    expect(world.opens.length).toBe(0);
    await world.pass(1);
    expect(world.opens.length).toBe(1);
  }
  Math.random = () => 0;
  return seen;
}

test("the pause doubles after each failed connect, up to 5 s, plus as much again at random", async () => {
  const wanted = [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000];
  expect(await pauses(Array.from(wanted, () => "none"))).toEqual(wanted);
  expect(await pauses(["none", "none"], 0.5)).toEqual([150, 300]);
});

test("a failure that ends a waiter makes the others wait 100 ms, however many there were", async () => {
  expect(await pauses(["first", "first", "none", "first", "none"])).toEqual([100, 100, 100, 100, 200]);
});

test("connects that fail together count as one failure, and a successful one resets the count", async () => {
  const world = new World(clock, { max: 4 });
  for (let n = 0; n < 4; n++) world.wait(true);
  await world.step(() => world.notOpened("none"));
  await world.step(() => world.notOpened("none"));
  await world.pass(100);
  await world.step(() => world.notOpened("none"));
  expect(clock.timers).toEqual([200]);
  await world.step(() => world.opened());
  await world.pass(200);
  await world.step(() => world.notOpened("none"));
  expect(clock.timers[0]).toBe(100);
  expect(world.slots.counts).toMatchObject({ connects: 1, failedConnects: 4 });
  expect(world.faults).toEqual([]);
});

test("a reset of the pool resets the count too, and starts the next generation", async () => {
  const world = new World(clock, { max: 1 });
  world.wait(true);
  await world.step(() => world.notOpened("none"));
  await world.pass(100);
  await world.step(() => world.notOpened("none"));
  await world.pass(200);
  expect(world.opens[0]!.generation).toBe(0);
  await world.step(() => world.renew());
  await world.step(() => world.notOpened("none"));
  expect(clock.timers).toEqual([100]);
  await world.pass(100);
  expect(world.opens[0]!.generation).toBe(1);
  // For a member from before the last reset, this must not end newer connections.
  world.slots.renew(0);
  await world.step(() => world.opened());
  await world.step(() => void world.giveBack(0));
  expect(world.slots.idle).toBe(1);
  world.slots.renew(1);
  expect(world.slots.idle).toBe(0);
});

test("a reset ends the pause, and connects for its waiters at once", async () => {
  const world = new World(clock, { max: 2 });
  world.wait(true);
  await world.step(() => world.notOpened("none"));
  expect(world.opens.length).toBe(0);
  await world.step(() => world.renew());
  expect(world.opens.length).toBe(1);
  expect(clock.timers).toEqual([]);
  await world.step(() => world.opened());
  expect(world.loans.length).toBe(1);
  // A reset outside of a pause makes no connection without a waiter.
  await world.step(() => world.renew());
  expect(world.opens.length).toBe(0);
});

test("a failure without a waiter is reported, and the pauses grow", async () => {
  const world = new World(clock, { max: 2, min: 1 });
  await world.step(() => world.notOpened("first"));
  expect([world.unreported, clock.timers]).toEqual([1, [100]]);
  await world.pass(100);
  await world.step(() => world.notOpened("first"));
  expect([world.unreported, clock.timers]).toEqual([2, [200]]);
  world.wait(true);
  await world.pass(200);
  await world.step(() => world.notOpened("first"));
  expect([world.unreported, world.failures.length]).toEqual([2, 1]);
});

test("a failure that ends all waiters sets no pause, and is reported to them only", async () => {
  const world = new World(clock, { max: 2 });
  world.wait(true);
  world.wait(true);
  await world.step(() => world.notOpened("all"));
  expect([world.failures.length, world.unreported, clock.timers]).toEqual([2, 0, []]);
});

// -- waiting ----------------------------------------------------------------------------------------------------------

test("each waiter has its own deadline, and is told why the last connect failed", async () => {
  const world = await lent(clock, 1, { acquireTimeout: 1_000, ticks: false });
  for (let n = 0; n < 3; n++) {
    world.wait(true);
    await world.pass(300);
  }
  expect([world.failures.length, clock.timers.length]).toEqual([0, 1]);
  await world.pass(97);
  expect(world.failures.length).toBe(0);
  await world.pass(3);
  expect(world.failures.length).toBe(1);
  await world.pass(299);
  expect(world.failures.length).toBe(1);
  await world.pass(301);
  expect(world.failures.length).toBe(3);
  expect(clock.timers).toEqual([]);
  expect(world.slots.counts).toMatchObject({ acquireTimeouts: 3, canceledAcquires: 3 });
  expect(world.lateBecause).toEqual([undefined, undefined, undefined]);
});

test("acquireTimeout 0 means that a waiter waits for ever", async () => {
  const world = new World(clock, { max: 1, acquireTimeout: 0 });
  world.wait(true);
  await world.pass(86_400_000);
  expect([world.failures.length, clock.timers]).toEqual([0, []]);
});

test("a waiter whose time is over is told why no connect succeeds, until one does", async () => {
  const world = new World(clock, { max: 1, acquireTimeout: 150 });
  world.wait(true);
  await world.step(() => world.notOpened("none"));
  await world.pass(200);
  expect(world.lateBecause).toEqual([world.error]);
  world.wait(true);
  await world.step(() => world.opened());
  world.wait(true);
  await world.pass(200);
  expect(world.lateBecause).toEqual([world.error, undefined]);
});

test("loans and their waiting times are counted", async () => {
  const world = new World(clock, { max: 1 });
  world.wait(true);
  await world.pass(40);
  await world.step(() => world.opened());
  world.wait(true);
  await world.pass(9);
  await world.step(() => void world.giveBack(0));
  await world.step(() => void world.giveBack(0));
  await world.step(() => world.take(true));
  world.wait(true);
  world.leave(0);
  const stranger = { since: 0, isAlone: true, isStream: false, queueIndex: -1, take: () => {}, fail: () => {} };
  expect(world.slots.leave(stranger)).toBe(false);
  expect(world.slots.counts).toEqual({
    ...{ acquires: 3, acquireMs: 51, emptyAcquires: 2, emptyAcquireMs: 51, canceledAcquires: 1, acquireTimeouts: 0 },
    ...{ connects: 1, failedConnects: 0, lifetimeCloses: 0, idleCloses: 0 },
  });
});

// -- ends -------------------------------------------------------------------------------------------------------------

test("a smaller pool closes the oldest idle connections, and a larger pool connects for its waiters", async () => {
  const world = await idle(clock, 3);
  await world.step(() => world.take(true));
  await world.step(() => world.slots.resize(2));
  expect([closing(world), world.slots.idle, world.slots.max]).toEqual([[0], 1, 2]);
  await world.step(() => world.slots.resize(1));
  expect([closing(world), world.slots.idle]).toEqual([[0, 1], 0]);
  await world.step(() => world.wait(true));
  await world.step(() => world.over("closes", false));
  expect(world.opens.length).toBe(0);
  await world.step(() => world.slots.resize(3));
  expect(world.opens.length).toBe(1);
});

test("close counts the closed connections, and leaves no timer", async () => {
  const world = await lent(clock, 2, { acquireTimeout: 60_000 });
  await world.step(() => world.wait(true));
  await world.step(() => void world.giveBack(1));
  await world.step(() => void world.giveBack(1));
  expect(clock.timers.length).toBeGreaterThan(0);
  await world.step(() => world.close());
  expect(clock.timers).toEqual([]);
  expect(closing(world)).toEqual([1]);
  expect(world.take(true)).toBe(undefined);
  world.wait(true);
  expect(world.failures.length).toBe(1);
  await world.step(() => void world.giveBack(0));
  expect(closing(world)).toEqual([1, 0]);
  expect(clock.timers).toEqual([]);
});

test("a pause between connects ends with the pool, unless a stream waits for it", async () => {
  for (const isStream of [false, true]) {
    const world = new World(clock, { max: 1, acquireTimeout: 60_000 });
    world.wait(true, isStream);
    await world.step(() => world.notOpened("none"));
    await world.step(() => world.close());
    expect(clock.timers).toEqual(isStream ? [99, 59_998] : []);
    if (!isStream) continue;
    await world.step(() => world.leave(0));
    expect(clock.timers).toEqual([]);
  }
});

test("a second close keeps the error of the first", async () => {
  const world = new World(clock, {});
  world.close();
  world.slots.close(new Error("another") as never);
  world.wait(true);
  expect(world.failures).toEqual([world.closedBecause]);
});

test("isLeftToStreams is true if only streams wait or have connections", async () => {
  const world = new World(clock, { max: 2 });
  expect(world.slots.isLeftToStreams).toBe(true);
  world.wait(true);
  world.wait(true, true);
  expect(world.slots.isLeftToStreams).toBe(true);
  await world.step(() => world.leave(0));
  expect(world.slots.isLeftToStreams).toBe(false);
  await world.step(() => world.opened());
  expect([world.loans.length, world.slots.isLeftToStreams]).toEqual([1, false]);
  await world.step(() => world.opened());
  expect(world.slots.isLeftToStreams).toBe(false);
  world.close();
  await world.step(() => world.over("closes", false));
  expect(world.slots.isLeftToStreams).toBe(true);
  world.finishCall(0);
  expect(world.slots.isLeftToStreams).toBe(true);
  world.loans[0]!.member.stream = { finished: true };
  expect(world.slots.isLeftToStreams).toBe(false);
});

test("the condition of until() is tested whenever a connection was returned or lost", async () => {
  const world = new World(clock, { max: 1 });
  let asked = 0;
  let isSo = false;
  const waiting = world.slots.until(() => (asked++, isSo));
  world.wait(true);
  await settle();
  expect(asked).toBe(1);
  await world.step(() => world.opened());
  await world.step(() => void world.giveBack(0));
  expect(asked).toBe(3);
  isSo = true;
  await world.step(() => world.lose(world.members[0]!));
  expect(asked).toBe(4);
  await waiting;
});

test("until() rejects when its signal aborts, even one that has aborted before", async () => {
  const world = new World(clock, { max: 1 });
  const abort = new AbortController();
  const waiting = world.slots.until(() => false, abort.signal);
  const failed = waiting.catch((reason: unknown) => reason);
  abort.abort("enough");
  expect(await failed).toBe("enough");
  await expect(world.slots.until(() => false, AbortSignal.abort("before"))).rejects.toBe("before");
  await world.slots.until(() => true, AbortSignal.abort("too late"));
});

test("remaining calls are ended on request and awaited, except for streams", async () => {
  const world = await lent(clock, 2);
  world.loans[0]!.member.stream = { finished: false };
  await world.step(() => world.close());
  let isOver = false;
  await world.step(() => world.endRest(() => void (isOver = true)));
  expect([closing(world), isOver, world.slots.lent]).toEqual([[1], false, 1]);
  await world.step(() => world.over("closes", false));
  expect([isOver, world.slots.total]).toEqual([true, 1]);
  world.loans[0]!.member.stream = { finished: true };
  await world.step(() => world.endRest());
  expect(world.closes.length).toBe(1);
  expect(world.faults).toEqual([]);
});

test("a login that fails after its connection was lent counts as a failed connect", async () => {
  const world = new World(clock, { max: 1 });
  const failure = { error: world.error, ends: "none" };
  world.wait(true);
  await world.step(() => world.opened(Promise.reject(failure)));
  expect(world.slots.counts).toMatchObject({ acquires: 1, connects: 0, failedConnects: 1 });
  expect(clock.timers[0]).toBe(100);
});

test("closed connections are not counted when a pool becomes smaller", async () => {
  const world = await idle(clock, 3);
  await world.step(() => world.slots.resize(2));
  await world.step(() => world.over("closes", false));
  await world.step(() => world.slots.resize(1));
  expect([world.closes.length, world.slots.idle]).toEqual([1, 1]);
});

/** Two connections, the maximum, and three calls, of which the first and the last share a connection. */
async function sharing(): Promise<World> {
  const world = new World(clock, { max: 2, sharing: 2 });
  for (let n = 0; n < 2; n++) {
    await world.step(() => world.wait(false));
    await world.step(() => world.opened());
  }
  await world.step(() => world.wait(false));
  const [first, , third] = world.loans;
  expect(third!.member).toBe(first!.member);
  return world;
}

test("a shared connection is on its way to nobody while another call runs on it", async () => {
  const world = await sharing();
  const [first, second] = world.loans;
  world.wait(true);
  // The last call is over but its connection not returned yet. Meanwhile the other connection is lost.
  await world.step(() => {
    world.finishCall(2);
    world.lose(second!.member);
    void world.giveBack(1);
  });
  expect(world.opens.length).toBe(1);
  // The last call returns it. That says nothing about the call that stays.
  await world.step(() => void world.giveBack(1));
  expect(first!.member).toMatchObject({ borrowers: 1, call: undefined, isReturning: false });
  expect(world.faults).toEqual([]);
});

test("a shared connection is on its way back when the last of its calls is over", async () => {
  const world = await sharing();
  const { member } = world.loans[2]!;
  const call = { finished: false };
  member.call = call;
  // The other call leaves, and now the remaining call decides.
  await world.step(() => void world.giveBack(0));
  expect(member).toMatchObject({ borrowers: 1, call, isReturning: false });
  call.finished = true;
  expect(member.isReturning).toBe(true);
  expect(world.faults).toEqual([]);
});

test("after the pool was resized to more, min is kept again", async () => {
  const world = new World(clock, { max: 3, min: 2 });
  world.slots.fill();
  for (let n = 0; n < 2; n++) await world.step(() => world.opened());
  await world.step(() => world.slots.resize(1));
  await world.step(() => world.over("closes", false));
  expect([world.slots.total, world.opens.length]).toEqual([1, 0]);
  await world.step(() => world.slots.resize(3));
  expect([world.slots.total, world.opens.length]).toEqual([2, 1]);
});
