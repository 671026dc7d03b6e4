// How a call leaves the turn queue of its connection: over before its turn, without a session, failed, begun again on
// another session, or with a cleanup afterwards.
import { expect, test } from "vitest";
import type { Session } from "../../js/session/session.ts";
import { TurnQueueWorld } from "../support/turn-queue-world.ts";
import { gate } from "../support/memory-pool.ts";
import { quiet } from "../support/memory-session.ts";

test("a call that is over before its turn is skipped, and requests no session", async () => {
  const world = new TurnQueueWorld(1);
  const a = world.call("a");
  let asks = 0;
  const b = world.call("b", { connected: () => (asks++, world.session) });
  world.call("c");
  b.call.finished = true;
  a.over();
  expect(await world.news()).toEqual(["a begins", "c begins", "a is free", "b is free"]);
  expect(asks).toBe(0);
});

test("a call that is over when its session arrives does not begin", async () => {
  const world = new TurnQueueWorld(5);
  const { closed, open } = gate();
  const a = world.call("a", { connected: () => closed.then(() => world.session) });
  world.call("b");
  expect(await world.news()).toEqual([]);
  a.call.finished = true;
  open();
  expect(await world.news()).toEqual(["b begins", "a is free"]);
});

test("a call waits for a session that arrives later, and begins on it", async () => {
  const world = new TurnQueueWorld(5);
  const { closed, open } = gate();
  let seen: unknown;
  world.call("a", { connected: () => closed.then(() => world.session), body: (_, session) => void (seen = session) });
  expect(await world.news()).toEqual([]);
  open();
  expect(await world.news()).toEqual(["a begins"]);
  expect(seen).toBe(world.session);
});

test.each(["throws", "rejects"])("without a session the call fails, and is not repeated (%s)", async (how) => {
  const world = new TurnQueueWorld(5);
  const connected = () => {
    if (how === "throws") throw new Error("no server");
    return Promise.reject(new Error("no server"));
  };
  world.call("a", { connected, next: "begin again" });
  world.call("b");
  expect(await world.news()).toEqual(["a fails: no server", "b begins", "a is free"]);
});

test("a call that fails on its session is told the error, and the queue continues", async () => {
  const world = new TurnQueueWorld(5);
  const a = world.call("a");
  world.call("b");
  a.fails("division");
  expect(await world.news()).toEqual([
    "a begins",
    "a is asked about division",
    "a fails: division",
    "b begins",
    "a is free",
  ]);
});

test("a call whose session was unusable begins again on the next session, before the other calls", async () => {
  const world = new TurnQueueWorld(5);
  const sessions = [world.newSession(), world.newSession()];
  const seen: Session[] = [];
  const a = world.call("a", {
    ...{ next: "begin again", connected: () => sessions[seen.length]!, body: (_, session) => void seen.push(session) },
  });
  world.call("b");
  a.fails("ended");
  expect(await world.news()).toEqual(["a begins", "a is asked about ended", "a begins"]);
  expect(seen).toEqual(sessions);
  expect(seen[1]).toBe(sessions[1]);
  a.over();
  expect(await world.news()).toEqual(["b begins", "a is free"]);
});

test("a call that begins again has already sent its messages, so no second call follows it", async () => {
  const world = new TurnQueueWorld(2);
  const a = world.call("a", { next: "begin again" });
  const b = world.call("b");
  a.says();
  a.fails("ended");
  expect(a.call.follower).toBeUndefined();
  expect(await world.news()).toEqual(["a begins", "b begins", "a is asked about ended", "a begins"]);
  b.says();
  const c = world.call("c");
  expect(await world.news()).toEqual([]);
  a.over();
  expect(await world.news()).toEqual(["c begins", "a is free"]);
  c.over();
  b.over();
});

test("a call that moves elsewhere leaves the queue without an error", async () => {
  const world = new TurnQueueWorld(5);
  const a = world.call("a", { next: "leave" });
  a.fails("ended");
  expect(await world.news()).toEqual(["a begins", "a is asked about ended", "a is free"]);
});

test("late messages of a call without a session let no further call begin", async () => {
  const world = new TurnQueueWorld(2);
  const a = world.call("a", { next: "leave" });
  const { follower } = a.call;
  a.fails("ended");
  follower!.sent(1);
  const b = world.call("b");
  b.says();
  world.call("c");
  expect(await world.news()).toEqual(["a begins", "a is asked about ended", "b begins", "c begins", "a is free"]);
});

test("an end that is reported twice counts once", async () => {
  const world = new TurnQueueWorld(2);
  const [a, b, c] = ["a", "b", "c", "d"].map((name) => world.call(name)) as [
    ReturnType<TurnQueueWorld["call"]>,
    never,
    never,
  ];
  a.says();
  (b as typeof a).says();
  a.over();
  a.over();
  a.fails("late");
  expect((await world.news()).filter((line) => /free|begins/.test(line))).toEqual([
    "a begins",
    "b begins",
    "c begins",
    "a is free",
  ]);
  (c as typeof a).says();
  // Two calls are in flight again.
  expect(await world.news()).toEqual([]);
});

test("what a call has abandoned is cleaned up before the next call begins", async () => {
  const world = new TurnQueueWorld(5);
  const { closed, open } = gate();
  const a = world.call("a", { call: { operation: { cleanup: closed } } });
  world.call("b");
  a.over();
  expect(await world.news()).toEqual(["a begins"]);
  open();
  expect(await world.news()).toEqual(["b begins", "a is free"]);
});

test("a thousand calls that are over before an earlier one end without deep recursion", async () => {
  const world = new TurnQueueWorld(2_000);
  const first = world.call("first");
  first.says();
  const others = Array.from({ length: 1_500 }, (_, n) =>
    world.call(String(n), { body: (call) => call.follower!.sent(1) }),
  );
  for (const one of others) one.over();
  world.log.length = 0;
  let depth = 0;
  const last = world.call("last", { use: "alone", body: () => void (depth = new Error().stack!.split("\n").length) });
  Error.stackTraceLimit = 10_000;
  first.over();
  await quiet();
  Error.stackTraceLimit = 10;
  expect(world.log.length).toBe(1_502);
  expect(world.log).toContain("last begins");
  expect(depth).toBeLessThan(60);
  last.over();
});
