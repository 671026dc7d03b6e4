// A listener whose connection is lost connects again: after which pauses, what it reports, and how it notices a
// connection that no longer answers. Over sockets in memory, with timers that the test advances.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { letInToListen, letListen, listening } from "../support/memory-listen.ts";
import {
  accepted,
  client,
  failure,
  isPending,
  letIn,
  quiet,
  refuseLogin,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { errorAndReady, notified } from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "performance"] });
  vi.spyOn(Math, "random").mockReturnValue(0);
});
afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

/** Advances the clock, and lets the driver do all that it can do by then. */
async function pass(milliseconds: number): Promise<void> {
  await quiet();
  await vi.advanceTimersByTimeAsync(milliseconds);
  await quiet();
}

/** Checks that the next connection comes after exactly this pause. */
async function pauseBefore(next: Promise<Session>, expected: number): Promise<Session> {
  await pass(expected - 1);
  expect(await isPending(next), `before ${expected} ms`).toBe(true);
  await pass(1);
  expect(await isPending(next), `after ${expected} ms`).toBe(false);
  return next;
}

test("the pause doubles after each failed attempt, up to 5 s", async () => {
  const onReconnect = vi.fn();
  const { listener, session } = await listening({ onReconnect });
  session.peer.reset();
  for (const pause of [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000])
    await refuseLogin("57P03", await pauseBefore(accepted(), pause));
  expect(onReconnect).not.toHaveBeenCalled();
  await letInToListen(await pauseBefore(accepted(), 5_000));
  // The loss of the listening connection is reported, not the failed attempts.
  expect(onReconnect.mock.calls).toEqual([[expect.objectContaining({ code: "CONNECTION_LOST" })]]);
  await listener.close();
});

test("a notification that waited when the connection was lost is still delivered, before later ones", async () => {
  const { listener, session } = await listening();
  session.send(notified("one"));
  await quiet();
  session.peer.reset();
  const again = await letInToListen(await pauseBefore(accepted(), 50));
  again.send(notified("two"));
  const iterator = listener[Symbol.asyncIterator]();
  for (const payload of ["one", "two"]) expect((await iterator.next()).value).toMatchObject({ payload });
  await listener.close();
});

test("each pause is up to twice as long at random", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  const { listener, session } = await listening();
  session.peer.reset();
  await refuseLogin("57P03", await pauseBefore(accepted(), 75));
  await pauseBefore(accepted(), 150);
  await listener.close();
});

test("a LISTEN that is refused after a loss is tried again, on another connection", async () => {
  const { listener, session } = await listening();
  session.peer.reset();
  await pass(50);
  const refusing = await letIn();
  await refusing.flight();
  refusing.send(errorAndReady("57P03"));
  expect(await refusing.flight()).toEqual(["Terminate"]);
  await pass(100);
  await letListen();
  await listener.close();
});

test("a connection that is lost within 5 s of LISTEN makes the next pause longer", async () => {
  const { listener, session } = await listening();
  session.peer.reset();
  let pause = 50;
  for (const lives of [0, 5_000, 5_001, 0]) {
    const again = await letInToListen(await pauseBefore(accepted(), pause));
    await pass(lives);
    again.peer.reset();
    await quiet();
    pause = lives > 5_000 ? 50 : 2 * pause;
  }
  await listener.close();
});

test.each(["close", "signal"])("%s during a pause ends it at once, and no connection is made", async (how) => {
  const stop = new AbortController();
  const { listener, session } = await listening({ signal: stop.signal });
  const next = listener[Symbol.asyncIterator]().next();
  session.peer.reset();
  await quiet();
  const another = accepted();
  if (how === "close") await listener.close();
  else stop.abort("enough");
  if (how === "close") expect(await next).toEqual({ done: true, value: undefined });
  else await expect(next).rejects.toMatchObject({ code: "ABORTED", cause: "enough" });
  await quiet();
  expect(vi.getTimerCount()).toBe(0);
  await pass(60_000);
  expect(await isPending(another)).toBe(true);
});

test.each(["close", "signal"])("%s while the listener connects again ends the attempt", async (how) => {
  const stop = new AbortController();
  const onReconnect = vi.fn();
  const { listener, session } = await listening({ signal: stop.signal, onReconnect });
  const next = listener[Symbol.asyncIterator]().next();
  session.peer.reset();
  await pass(50);
  const again = await accepted();
  await again.flight();
  if (how === "close") void listener.close();
  else stop.abort("enough");
  if (how === "close") expect(await next).toEqual({ done: true, value: undefined });
  else await expect(next).rejects.toMatchObject({ code: "ABORTED", cause: "enough" });
  expect(await again.message()).toBeUndefined();
  const another = accepted();
  await pass(60_000);
  expect(await isPending(another)).toBe(true);
  expect(onReconnect).not.toHaveBeenCalled();
});

// -- checks of an idle connection -------------------------------------------------------------------------------------

test("an idle connection is checked each half minute, and an answer in time is enough", async () => {
  const { listener, session } = await listening();
  for (const _ of "12") {
    await pass(29_999);
    const asked = session.message();
    expect(await isPending(asked)).toBe(true);
    await pass(1);
    expect((await asked)!.body.toString()).toBe("\0");
    // Longer than an answer may take.
    session.send(wire.message("I"), wire.readyForQuery());
  }
  await pass(20_000);
  session.send(notified("one"));
  expect((await listener[Symbol.asyncIterator]().next()).value).toMatchObject({ payload: "one" });
  await listener.close();
  await quiet();
  expect(vi.getTimerCount()).toBe(0);
});

test("a connection that does not answer a check within ten seconds is replaced", async () => {
  const onReconnect = vi.fn();
  const { listener, session } = await listening({ onReconnect });
  await pass(30_000);
  const another = accepted();
  await pass(9_999);
  expect((await session.message())!.name).toBe("Query");
  const end = session.message();
  expect(await isPending(end)).toBe(true);
  await pass(1);
  expect(await end).toBeUndefined();
  await pauseBefore(another, 50);
  await listener.close();
});

test("a LISTEN that is not answered within ten seconds fails", async () => {
  const pending = failure(client.listen("jobs"));
  await (await letIn()).flight();
  await pass(9_999);
  expect(await isPending(pending)).toBe(true);
  await pass(1);
  expect(await pending).toMatchObject({ name: "ConnectionError", code: "CONNECTION_LOST" });
  expect(vi.getTimerCount()).toBe(0);
});

test("while a thousand notifications wait, nothing is read, and the connection is not checked", async () => {
  const { listener, session } = await listening();
  const iterator = listener[Symbol.asyncIterator]();
  session.send(Buffer.concat(Array.from({ length: 1_000 }, () => notified("one"))));
  await pass(60_000);
  const asked = session.message();
  expect(await isPending(asked)).toBe(true);
  await iterator.next();
  await pass(30_000);
  expect((await asked)!.name).toBe("Query");
  await listener.close();
});
