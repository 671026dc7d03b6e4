// The order of calls on one connection: which calls may be pipelined, what each waits for, and when the connection is
// free again. Calls and the connection are stand-ins, so that the test controls each step.
import { expect, test } from "vitest";
import type { Call } from "../../js/session/call.ts";
import { PIECE } from "../../js/util/limits.ts";
import { TurnQueueWorld } from "../support/turn-queue-world.ts";
import { gate } from "../support/memory-pool.ts";
import { isPending, quiet } from "../support/memory-session.ts";

test("a call on a free connection begins at once, and the queue is empty when it is over", async () => {
  const world = new TurnQueueWorld(5);
  expect(world.line.end()).toBeUndefined();
  const { over } = world.call("a");
  expect(world.log).toEqual(["a begins"]);
  const end = world.line.end()!;
  expect(await isPending(end)).toBe(true);
  over();
  await end;
  expect(world.line.end()).toBeUndefined();
  expect(await world.news()).toEqual(["a begins", "a is free"]);
});

test("a pipelined call begins once the previous one has sent its last message, and ends keep their order", async () => {
  const world = new TurnQueueWorld(5);
  const a = world.call("a");
  const b = world.call("b");
  expect(await world.news()).toEqual(["a begins"]);
  a.says();
  expect(world.log).toEqual(["b begins"]);
  b.says();
  b.over();
  expect(await world.news()).toEqual(["b begins"]);
  const end = world.line.end()!;
  expect(await isPending(end)).toBe(true);
  a.over();
  await end;
  expect(await world.news()).toEqual(["a is free", "b is free"]);
});

test.each(["alone", "loop", "stream"] as const)(
  "a call that is %s waits for all earlier calls, and all later calls wait for it",
  async (use) => {
    const world = new TurnQueueWorld(5);
    const a = world.call("a");
    const b = world.call("b", { use });
    const c = world.call("c");
    a.says();
    expect(await world.news()).toEqual(["a begins"]);
    a.over();
    expect(await world.news()).toEqual(["b begins", "a is free"]);
    // It has no follower, which could begin too early.
    expect(b.call.follower).toBeUndefined();
    b.over();
    expect(await world.news()).toEqual(["c begins", "b is free"]);
    c.over();
  },
);

test("without pipelining each call waits for the end of the previous one", async () => {
  const world = new TurnQueueWorld(1);
  const a = world.call("a");
  world.call("b");
  expect(a.call.follower).toBeUndefined();
  a.over();
  expect(await world.news()).toEqual(["a begins", "b begins", "a is free"]);
});

test("a bounded number of calls is in flight, and one more begins for each that is over", async () => {
  const world = new TurnQueueWorld(3);
  const calls = ["a", "b", "c", "d", "e"].map((name) => world.call(name));
  for (const at of [0, 1, 2]) calls[at]!.says();
  expect(await world.news()).toEqual(["a begins", "b begins", "c begins"]);
  calls[0]!.over();
  expect(await world.news()).toEqual(["d begins", "a is free"]);
  calls[3]!.says();
  expect(await world.news()).toEqual([]);
  calls[1]!.over();
  expect(await world.news()).toEqual(["e begins", "b is free"]);
  for (const at of [2, 3, 4]) calls[at]!.over();
  await quiet();
  // The places are free again: as many as at first.
  const next = ["f", "g", "h", "i"].map((name) => world.call(name));
  for (const one of next.slice(0, 3)) one.says();
  expect((await world.news()).filter((line) => line.endsWith("begins"))).toEqual(["f begins", "g begins", "h begins"]);
});

test("after 64 KiB of parameters the next call waits until they have left the socket's buffer", async () => {
  const world = new TurnQueueWorld(9);
  const { closed, open } = gate();
  world.written = closed;
  const calls = ["a", "b", "c", "d"].map((name) => world.call(name));
  calls[0]!.says(PIECE - 1);
  expect(await world.news()).toEqual(["a begins", "b begins"]);
  calls[1]!.says(1);
  expect(await world.news()).toEqual([]);
  open();
  expect(await world.news()).toEqual(["c begins"]);
  // The count starts again there.
  world.written = new Promise(() => {});
  calls[2]!.says(PIECE - 1);
  expect(await world.news()).toEqual(["d begins"]);
});

test("calls whose turn comes with the end of one begin in sequence, in the same turn", () => {
  const world = new TurnQueueWorld(100);
  const first = world.call("first", { use: "alone" });
  const says = (call: Call<void>) => call.follower!.sent(1);
  for (let n = 0; n < 50; n++) world.call(String(n), { body: says });
  let depth = 0;
  world.call("last", { body: () => void (depth = new Error().stack!.split("\n").length) });
  Error.stackTraceLimit = 1_000;
  first.over();
  Error.stackTraceLimit = 10;
  expect(world.log.filter((line) => line.endsWith("begins")).length).toBe(52);
  // The calls do not begin inside each other, because a thousand would need a stack of a thousand.
  expect(depth).toBeLessThan(60);
});

test("a call that is made while another one begins comes after it", async () => {
  const world = new TurnQueueWorld(5);
  const a = world.call("a", { body: () => void world.call("b") });
  expect(await world.news()).toEqual(["a begins"]);
  a.over();
  expect(await world.news()).toEqual(["b begins", "a is free"]);
});

test("a call after one whose body throws still gets its turn", async () => {
  const world = new TurnQueueWorld(5);
  const first = world.call("first", { use: "alone" });
  world.call("a", {
    body: () => {
      throw new Error("mine");
    },
  });
  world.call("b");
  first.over();
  expect(await world.news()).toEqual([
    "first begins",
    "a begins",
    "a is asked about mine",
    "a fails: mine",
    "b begins",
    "a is free",
    "first is free",
  ]);
});

// -- properties of a call ---------------------------------------------------------------------------------------------

test("an observer is told on which server the call begins", async () => {
  const world = new TurnQueueWorld(5);
  const begun: unknown[] = [];
  world.call("a", { call: { observation: { begin: (config: unknown) => void begun.push(config) } } });
  expect(begun).toEqual(["config"]);
});

test("texts are noted on a session with later users: each text of a batch, or the text of a call", async () => {
  const world = new TurnQueueWorld(5);
  const noted: string[] = [];
  world.session = world.newSession({ note: (text: string) => void noted.push(text) });
  world.call("a", { call: { subject: { text: "all", texts: ["one", "two"] } } }).over();
  world.call("b", { call: { subject: { text: "three" } } }).over();
  world.call("c").over();
  expect(noted).toEqual(["one", "two", "three"]);
});

// -- turns of transactions --------------------------------------------------------------------------------------------

test("a turn that is taken holds back later calls until it is passed on", async () => {
  const world = new TurnQueueWorld(5);
  const turn = world.line.take();
  world.call("a");
  const end = world.line.end()!;
  expect(await world.news()).toEqual([]);
  world.line.pass(turn);
  expect(await world.news()).toEqual(["a begins"]);
  expect(await isPending(end)).toBe(true);
});

test("after the last turn was passed on the queue is empty", async () => {
  const world = new TurnQueueWorld(5);
  const [first, second] = [world.line.take(), world.line.take()];
  const end = world.line.end()!;
  world.line.pass(first);
  expect(await isPending(end)).toBe(true);
  expect(await isPending(world.line.end()!)).toBe(true);
  world.line.pass(second);
  await end;
  expect(world.line.end()).toBeUndefined();
});
