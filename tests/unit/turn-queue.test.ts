// The order of calls on one connection: which calls may be pipelined, what each waits for, how it leaves the queue, and
// when the connection is free again. Calls and the connection are stand-ins, so that the test controls each step.
import { expect, test, vi } from "vitest";
import { QueuedCall } from "../../js/api/turn-queue.ts";
import type { Call } from "../../js/session/call.ts";
import type { Session } from "../../js/session/session.ts";
import { PIECE } from "../../js/util/limits.ts";
import { gate } from "../support/memory-pool.ts";
import { isPending, quiet } from "../support/memory-session.ts";
import { TurnQueueWorld } from "../support/turn-queue-world.ts";

test("a call that still runs does not keep the call before it, with its result", () => {
  const forgets = vi.spyOn(QueuedCall.prototype, "forgetBefore");
  const world = new TurnQueueWorld(2);
  const a = world.call("a");
  a.says();
  const b = world.call("b");
  a.over();
  expect(forgets).toHaveBeenCalledTimes(1);
  b.over();
  expect(forgets).toHaveBeenCalledTimes(1);
  forgets.mockRestore();
});

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
  expect(await world.told()).toBe("a begins, a is free");
});

test("a pipelined call begins once the previous one has sent its last message, and ends keep their order", async () => {
  const world = new TurnQueueWorld(5);
  const a = world.call("a");
  const b = world.call("b");
  expect(await world.told()).toBe("a begins");
  a.says();
  expect(world.log).toEqual(["b begins"]);
  b.says();
  b.over();
  expect(await world.told()).toBe("b begins");
  const end = world.line.end()!;
  expect(await isPending(end)).toBe(true);
  a.over();
  await end;
  expect(await world.told()).toBe("a is free, b is free");
});

test.each(["alone", "loop", "stream"] as const)(
  "a call that is %s waits for all earlier calls, and all later calls wait for it",
  async (use) => {
    const world = new TurnQueueWorld(5);
    const a = world.call("a");
    const b = world.call("b", { use });
    const c = world.call("c");
    a.says();
    expect(await world.told()).toBe("a begins");
    a.over();
    expect(await world.told()).toBe("b begins, a is free");
    // It has no follower, which could begin too early.
    expect(b.call.follower).toBeUndefined();
    b.over();
    expect(await world.told()).toBe("c begins, b is free");
    c.over();
  },
);

test("behind a first run reads share the wire, and the first write waits until that run is over", async () => {
  const world = new TurnQueueWorld(9);
  const write = { call: { subject: { text: "insert" } } };
  const batch = { call: { subject: { text: "a batch", texts: ["select", "delete"] } } };
  const select = { call: { subject: { text: "select" } } };
  const [known, first, read] = ["known", "first", "read"].map((name) => world.call(name, select));
  const [insert, last] = [world.call("insert", write), world.call("last", select)];
  const items = world.call("items", batch);
  known!.says();
  first!.says(1, true);
  read!.says();
  expect(await world.told()).toBe("known begins, first begins, read begins");
  // The turn of a call is over only when those before it are: what a cancel of one of them hits runs again.
  first!.over();
  expect(await world.told()).toBe("");
  known!.over();
  expect(await world.told()).toBe("insert begins, first is free, known is free");
  insert.says();
  last.says();
  expect(await world.told()).toBe("last begins, items begins");
  for (const call of [read!, insert, last, items]) call.over();
  expect(await world.told()).toBe("insert is free, items is free, last is free, read is free");
});

test("without pipelining each call waits for the end of the previous one", async () => {
  const world = new TurnQueueWorld(1);
  const a = world.call("a");
  world.call("b");
  expect(a.call.follower).toBeUndefined();
  a.over();
  expect(await world.told()).toBe("a begins, b begins, a is free");
});

test("a bounded number of calls is in flight, and one more begins for each that is over", async () => {
  const world = new TurnQueueWorld(3);
  const calls = ["a", "b", "c", "d", "e"].map((name) => world.call(name));
  for (const at of [0, 1, 2]) calls[at]!.says();
  expect(await world.told()).toBe("a begins, b begins, c begins");
  calls[0]!.over();
  expect(await world.told()).toBe("d begins, a is free");
  calls[3]!.says();
  expect(await world.told()).toBe("");
  calls[1]!.over();
  expect(await world.told()).toBe("e begins, b is free");
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
  expect(await world.told()).toBe("a begins, b begins");
  calls[1]!.says(1);
  expect(await world.told()).toBe("");
  open();
  expect(await world.told()).toBe("c begins");
  // The count starts again there.
  world.written = new Promise(() => {});
  calls[2]!.says(PIECE - 1);
  expect(await world.told()).toBe("d begins");
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
  expect(await world.told()).toBe("a begins");
  a.over();
  expect(await world.told()).toBe("b begins, a is free");
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
  expect(await world.told()).toBe(
    "first begins, a begins, a is asked about mine, a fails: mine, b begins, a is free, first is free",
  );
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
  expect(await world.told()).toBe("");
  world.line.pass(turn);
  expect(await world.told()).toBe("a begins");
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

// -- how a call leaves the queue --------------------------------------------------------------------------------------

test("a call that is over before its turn is skipped, and requests no session", async () => {
  const world = new TurnQueueWorld(1);
  const a = world.call("a");
  let asks = 0;
  const b = world.call("b", { connected: () => (asks++, world.session) });
  world.call("c");
  b.call.finished = true;
  a.over();
  expect(await world.told()).toBe("a begins, c begins, a is free, b is free");
  expect(asks).toBe(0);
});

test("a call that is over when its session arrives does not begin", async () => {
  const world = new TurnQueueWorld(5);
  const { closed, open } = gate();
  const a = world.call("a", { connected: () => closed.then(() => world.session) });
  world.call("b");
  expect(await world.told()).toBe("");
  a.call.finished = true;
  open();
  expect(await world.told()).toBe("b begins, a is free");
});

test("a call waits for a session that arrives later, and begins on it", async () => {
  const world = new TurnQueueWorld(5);
  const { closed, open } = gate();
  let seen: unknown;
  world.call("a", { connected: () => closed.then(() => world.session), body: (_, session) => void (seen = session) });
  expect(await world.told()).toBe("");
  open();
  expect(await world.told()).toBe("a begins");
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
  expect(await world.told()).toBe("a fails: no server, b begins, a is free");
});

test("a call that fails on its session is told the error, and the queue continues", async () => {
  const world = new TurnQueueWorld(5);
  const a = world.call("a");
  world.call("b");
  a.fails("division");
  expect(await world.told()).toBe("a begins, a is asked about division, a fails: division, b begins, a is free");
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
  expect(await world.told()).toBe("a begins, a is asked about ended, a begins");
  expect(seen).toEqual(sessions);
  expect(seen[1]).toBe(sessions[1]);
  a.over();
  expect(await world.told()).toBe("b begins, a is free");
});

test("a call that begins again has already sent its messages, so no second call follows it", async () => {
  const world = new TurnQueueWorld(2);
  const a = world.call("a", { next: "begin again" });
  const b = world.call("b");
  a.says();
  a.fails("ended");
  expect(a.call.follower).toBeUndefined();
  expect(await world.told()).toBe("a begins, b begins, a is asked about ended, a begins");
  b.says();
  const c = world.call("c");
  expect(await world.told()).toBe("");
  a.over();
  expect(await world.told()).toBe("c begins, a is free");
  c.over();
  b.over();
});

test("a call that moves elsewhere leaves without an error, and its late messages let no further call begin", async () => {
  const world = new TurnQueueWorld(2);
  const a = world.call("a", { next: "leave" });
  const { follower } = a.call;
  a.fails("ended");
  follower!.sent(1);
  const b = world.call("b");
  b.says();
  world.call("c");
  expect(await world.told()).toBe("a begins, a is asked about ended, b begins, c begins, a is free");
});

test("an end that is reported twice counts once", async () => {
  const world = new TurnQueueWorld(2);
  const [a, b, c] = ["a", "b", "c", "d"].map((name) => world.call(name));
  a!.says();
  b!.says();
  a!.over();
  a!.over();
  a!.fails("late");
  const isNews = (line: string) => /free|begins/.test(line);
  expect((await world.news()).filter(isNews)).toEqual(["a begins", "b begins", "c begins", "a is free"]);
  c!.says();
  // Two calls are in flight again.
  expect(await world.told()).toBe("");
});

test("what a call has abandoned is cleaned up before the next call begins", async () => {
  const world = new TurnQueueWorld(5);
  const { closed, open } = gate();
  const a = world.call("a", { call: { operation: { cleanup: closed } } });
  world.call("b");
  a.over();
  expect(await world.told()).toBe("a begins");
  open();
  expect(await world.told()).toBe("b begins, a is free");
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
