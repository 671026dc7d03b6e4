// Meets every state that the places of a pool can reach with every event. The walk goes breadth-first over sequences of
// events, and continues from each new state. tests/support/pool-world.ts has what must hold after each event. From each
// state everything is also wound up, and no waiter may be left then. There are four walks, each with events that affect
// one another, because all events together would give too many states.
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Member } from "../../js/pool/member.ts";
import { FakeClock } from "../support/fake-clock.ts";
import { fakeOf, World, type Rules } from "../support/pool-world.ts";

const clock = new FakeClock();
beforeAll(() => void clock.install());
afterAll(() => clock.uninstall());

/** An event: whether it can happen now, and what it does. */
type Event = readonly [can: (world: World) => unknown, happens: (world: World) => unknown];

const always = () => true;
const few = ({ waiters }: World) => waiters.length < 3;
const has = (kind: "opens" | "closes" | "cleans" | "checks" | "loans" | "waiters") => (world: World) =>
  world[kind].length;
const member = (world: World, state: Member["state"]) => world.members.find((one) => one.state === state)!;
const second = (world: World) => world.loans.length > 1;

type Events = Readonly<Record<string, Event>>;

/** Those of the events that have these names. */
const only = (events: Events, ...names: string[]): Events =>
  Object.fromEntries(names.map((name) => [name, events[name]!]));

const LENDING: Events = {
  "take alone": [always, (world) => world.take(true)],
  "wait alone": [few, (world) => world.wait(true)],
  "leave first": [has("waiters"), (world) => world.leave(0)],
  "leave last": [({ waiters }) => waiters.length > 1, (world) => world.leave(world.waiters.length - 1)],
  opened: [has("opens"), (world) => world.opened()],
  "not opened, none ends": [has("opens"), (world) => world.notOpened("none")],
  "not opened, first ends": [has("opens"), (world) => world.notOpened("first")],
  "not opened, all end": [has("opens"), (world) => world.notOpened("all")],
  "the pause is over": [({ clock }) => clock.timers.length, (world) => world.pass(world.clock.timers[0]!)],
  "give back first": [has("loans"), (world) => void world.giveBack(0)],
  "give back second": [second, (world) => void world.giveBack(1)],
};

const CLEANING: Events = {
  ...only(
    LENDING,
    "take alone",
    "wait alone",
    "opened",
    "not opened, none ends",
    "the pause is over",
    "give back first",
    "give back second",
  ),
  "call over": [({ loans }) => loans[0]?.member.call?.finished === false, (world) => world.finishCall(0)],
  "give back to be cleaned": [
    has("loans"),
    (world) => {
      world.isDirty = true;
      void world.giveBack(0);
      world.isDirty = false;
    },
  ],
  "give back doomed": [
    has("loans"),
    (world) => {
      world.loans[0]!.member.isDoomed = true;
      void world.giveBack(0);
    },
  ],
  cleaned: [has("cleans"), (world) => world.over("cleans", true)],
  "cleaned, closed": [has("cleans"), (world) => world.over("cleans", false)],
  "cleaned, doomed": [
    has("cleans"),
    (world) => {
      world.cleans[0]!.member.isDoomed = true;
      world.over("cleans", true);
    },
  ],
  closed: [has("closes"), (world) => world.over("closes", false)],
  "lose idle": [(world) => member(world, "idle"), (world) => world.lose(member(world, "idle"))],
  "lose lent": [(world) => member(world, "lent"), (world) => world.lose(member(world, "lent"))],
  "lose busy": [(world) => member(world, "busy"), (world) => world.lose(member(world, "busy"))],
};

const LOSING = only(CLEANING, "closed", "lose idle", "lose lent");

const SHARING: Events = {
  ...only(LENDING, "take alone"),
  "take shared": [always, (world) => world.take(false)],
  ...only(LENDING, "wait alone"),
  "wait shared": [few, (world) => world.wait(false)],
  ...only(LENDING, "opened", "give back first"),
  "give back last": [second, (world) => void world.giveBack(world.loans.length - 1)],
  "stop on first": [
    ({ loans }) => loans[0] && !loans[0].member.connection.stopping,
    ({ loans }) => void (fakeOf(loans[0]!.member).stopping = Promise.resolve()),
  ],
  "doom first": [has("loans"), ({ loans }) => void (loans[0]!.member.isDoomed = true)],
  ...only(CLEANING, "lose lent", "give back to be cleaned", "cleaned", "closed"),
};

const TIME: Events = {
  ...only(LENDING, "take alone", "wait alone", "opened", "give back first"),
  "a second passes": [always, (world) => world.pass(1_000)],
  "five seconds pass": [always, (world) => world.pass(5_000)],
  freeze: [always, (world) => world.freeze()],
  suspect: [
    always,
    (world) => {
      world.suspect();
      world.slots.suspectAll();
    },
  ],
  alive: [has("checks"), (world) => world.over("checks", true)],
  dead: [has("checks"), (world) => world.over("checks", false)],
  ...only(CLEANING, "closed", "lose idle"),
};

const ENDS: Events = {
  ...only(LENDING, "take alone", "wait alone"),
  "wait for a stream": [few, (world) => world.wait(true, true)],
  ...only(LENDING, "opened", "not opened, none ends", "not opened, all end", "the pause is over", "give back first"),
  ...only(CLEANING, "give back to be cleaned", "cleaned", "closed"),
  "resize to 1": [({ slots }) => slots.max !== 1, ({ slots }) => slots.resize(1)],
  "resize to 2": [({ slots }) => slots.max !== 2, ({ slots }) => slots.resize(2)],
  renew: [always, (world) => world.renew()],
  close: [({ isClosed }) => !isClosed, (world) => world.close()],
  "end the rest": [({ isClosed }) => isClosed, (world) => world.endRest()],
};

interface Walk {
  readonly rules: Rules;
  readonly events: Events;
  /** The number of all states. `undefined`: there are more than a test has time for. */
  readonly states?: number;
}

/** The number of states after which a walk stops. */
const MOST_STATES = 500;

const walks: Record<string, Walk> = {
  "lending, one connect at a time": { rules: { max: 2, maxConnecting: 1 }, states: 32, events: LENDING },
  "lending, with room": { rules: { max: 3, maxConnecting: 2, min: 1, holdProcess: true }, states: 96, events: LENDING },
  filling: { rules: { max: 3, min: 3, maxConnecting: 1 }, states: 176, events: { ...LENDING, ...LOSING } },
  cleaning: { rules: { max: 2 }, states: 197, events: CLEANING },
  sharing: { rules: { max: 2, sharing: 3 }, events: SHARING },
  time: {
    rules: { max: 2, min: 1, idleTimeout: 3_000, healthCheckInterval: 2_000, acquireTimeout: 2_500, lifetime: 9_000 },
    events: TIME,
  },
  "time without timers": {
    rules: { max: 2, idleTimeout: 3_000, lifetime: 9_000, ticks: false },
    states: 357,
    events: TIME,
  },
  ends: { rules: { max: 2, acquireTimeout: 60_000 }, events: ENDS },
};

async function played({ rules, events }: Walk, path: readonly string[]): Promise<World> {
  const world = new World(clock, rules);
  for (const [at, name] of path.entries()) {
    if (!events[name]![0](world)) expect.fail(`${path.slice(0, at + 1).join(" -> ")}: cannot happen`);
    await world.step(() => events[name]![1](world));
  }
  return world;
}

test.each(Object.keys(walks))("%s: the invariants hold in each state and after each event", async (name) => {
  const walk = walks[name]!;
  const seen = new Set<string>();
  let ends: (readonly string[])[] = [[]];
  while (ends.length && seen.size < MOST_STATES) {
    const next: (readonly string[])[] = [];
    for (const path of ends) {
      const world = await played(walk, path);
      if (world.faults.length) expect.fail(`${path.join(" -> ")}: ${world.faults.join("; ")}`);
      if (seen.has(world.state)) continue;
      seen.add(world.state);
      for (const [event, [can]] of Object.entries(walk.events)) if (can(world)) next.push([...path, event]);
      await world.windUp();
      if (world.faults.length) expect.fail(`${path.join(" -> ")}, wound up: ${world.faults.join("; ")}`);
    }
    ends = next;
  }
  if (walk.states === undefined) expect(seen.size).toBeGreaterThanOrEqual(MOST_STATES);
  else expect(seen.size).toBe(walk.states);
});
