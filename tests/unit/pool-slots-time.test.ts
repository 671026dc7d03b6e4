// What time does to the connections of a pool, which the walk of its places (pool-walk.test.ts) does not compare: when
// they are checked and closed, also after a pause of the process.
import { afterAll, beforeAll, expect, test } from "vitest";
import { FakeClock } from "../support/fake-clock.ts";
import { closing, idle, lent } from "../support/pool-world.ts";

const clock = new FakeClock();
beforeAll(() => void clock.install());
afterAll(() => clock.uninstall());

test("idle connections are looked at each second, as long as there are any", async () => {
  const world = await idle(clock, 2, { idleTimeout: 2_500 });
  expect(clock.timers.map((left) => left > 990)).toEqual([true]);
  await world.pass(2_000);
  expect([world.looks, world.closes.length]).toEqual([2, 0]);
  await world.pass(1_000);
  expect([world.looks, closing(world), world.slots.counts.idleCloses]).toEqual([3, [0, 1], 2]);
  await world.step(() => world.over("closes", false));
  await world.step(() => world.over("closes", false));
  await world.pass(1_000);
  expect([world.looks, clock.timers]).toEqual([4, []]);
  expect(world.slots.counts.lifetimeCloses).toBe(0);
});

test("min connections stay, however long they are idle, but not beyond their lifetime", async () => {
  const world = await idle(clock, 3, { min: 2, idleTimeout: 1_000, lifetime: 5_000 });
  await world.pass(2_500);
  expect([closing(world), world.slots.counts]).toMatchObject([[0], { idleCloses: 1, lifetimeCloses: 0 }]);
  await world.pass(3_500);
  expect([closing(world), world.slots.counts]).toMatchObject([[0, 1, 2], { idleCloses: 1, lifetimeCloses: 2 }]);
});

test("a health check is sent after each interval without an answer, and does not count as use", async () => {
  const world = await idle(clock, 1, { healthCheckInterval: 1_500, idleTimeout: 4_500 });
  const asked: number[] = [];
  for (let second = 1; second <= 5; second++) {
    await world.pass(1_000);
    if (!world.checks.length) continue;
    asked.push(second);
    await world.step(() => world.over("checks", true));
  }
  expect(asked).toEqual([2, 4]);
  expect(closing(world)).toEqual([0]);
  expect(world.slots.counts.idleCloses).toBe(1);
});

test("without intervals and timeouts no check is sent, and no connection ends", async () => {
  const world = await idle(clock, 1);
  await world.pass(100_000);
  expect([world.checks.length, world.closes.length, world.looks]).toEqual([0, 0, 100]);
});

test("without timers, age is checked when a connection is requested", async () => {
  const world = await idle(clock, 2, { ticks: false, idleTimeout: 1_000 });
  expect(clock.timers).toEqual([]);
  await world.pass(998);
  expect(world.take(true)).toBe(world.members[1]);
  await world.pass(10);
  await world.step(() => world.take(true));
  expect(closing(world)).toEqual([0]);
  expect(world.slots.counts).toMatchObject({ idleCloses: 1, lifetimeCloses: 0 });
});

test.each([
  [2_999, false],
  [3_000, true],
])(
  "after the process paused for %d ms by either clock, connections are checked first: %s",
  async (stopped, isAsked) => {
    const world = await idle(clock, 1);
    clock.now += stopped;
    expect(world.slots.take(true) === undefined).toBe(isAsked);
    // The machine was suspended, and its monotonic clock stopped meanwhile.
    const other = await idle(clock, 1);
    const { now } = Date;
    Date.now = () => now() + stopped;
    expect(other.slots.take(true) === undefined).toBe(isAsked);
    Date.now = now;
  },
);

// Found by the simulator.
test("a connection that was lent during a pause of the process is checked before it is lent again", async () => {
  const world = await lent(clock, 1);
  world.wait(true);
  clock.now += 10_000;
  await world.step(() => void world.giveBack(0));
  expect(world.waiters.length).toBe(1);
});

test("a late look marks connections for a check too, and measures time from then on", async () => {
  const world = await idle(clock, 1);
  clock.now += 10_000;
  await world.pass(0);
  expect(world.slots.take(true)).toBe(undefined);
  await world.step(() => world.wait(true));
  await world.step(() => world.over("checks", true));
  expect(world.loans.length).toBe(1);
});

test("after suspectAll, a late look does not cause a second check", async () => {
  const world = await idle(clock, 2);
  clock.now += 10_000;
  world.suspect();
  world.slots.suspectAll();
  await world.step(() => world.wait(true));
  expect(world.checks.length).toBe(2);
  await world.step(() => world.over("checks", true));
  await world.step(() => world.over("checks", true));
  expect(world.slots.idle).toBe(1);
  expect(world.slots.take(true)).toBe(world.members[1]);
});

test("each bound of time takes effect at its last millisecond", async () => {
  const idling = await idle(clock, 1, { idleTimeout: 1_999 });
  await idling.pass(2_000);
  expect(closing(idling)).toEqual([0]);
  const unheard = await idle(clock, 1, { healthCheckInterval: 1_999 });
  await unheard.pass(2_000);
  expect(unheard.checks.length).toBe(1);
  const looked = await idle(clock, 1, { lifetime: 3_000 });
  await looked.pass(3_000);
  expect([closing(looked), looked.slots.counts.lifetimeCloses]).toEqual([[0], 1]);
  const wanted = await idle(clock, 1, { lifetime: 1_501 });
  await wanted.pass(1_500);
  expect(wanted.slots.take(true)).toBe(undefined);
  expect([closing(wanted), wanted.slots.counts.lifetimeCloses]).toEqual([[0], 1]);
  const lent = await idle(clock, 1, { lifetime: 1_501 });
  await lent.pass(100);
  lent.take(true);
  await lent.pass(1_399);
  await lent.step(() => void lent.giveBack(0));
  expect([closing(lent), lent.slots.counts.lifetimeCloses]).toEqual([[0], 1]);
});

test("after a second pause of the process, connections are checked again", async () => {
  const world = await idle(clock, 1);
  world.slots.suspectAll();
  await world.step(() => world.wait(true));
  await world.step(() => world.over("checks", true));
  await world.step(() => void world.giveBack(0));
  clock.now += 10_000;
  expect(world.slots.take(true)).toBe(undefined);
});
