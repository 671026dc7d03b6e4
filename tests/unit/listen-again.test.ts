// A listener whose connection is lost connects again: after which pauses, what it reports, and how it notices a
// connection that no longer answers. Over sockets in memory, with timers that the test advances.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Listener, ListenOptions } from "../../js/api/listen.ts";
import { accepted, client, isPending, letIn, quiet, useMemoryServer, type Session } from "../support/memory-session.ts";
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

const notified = (payload: string) => wire.message("A", wire.int32(9), Buffer.from(`jobs\0${payload}\0`));
const answered = () => [wire.commandComplete("LISTEN"), wire.readyForQuery()];

async function letListen(): Promise<Session> {
  const session = await letIn();
  expect((await session.message())!.body.toString()).toBe('LISTEN "jobs"\0');
  session.send(...answered());
  await quiet();
  return session;
}

async function listening(options?: ListenOptions): Promise<{ listener: Listener; session: Session }> {
  const pending = client.listen("jobs", options);
  const session = await letListen();
  return { listener: await pending, session };
}

/** Checks that the next connection comes after exactly this pause. */
async function pauseBefore(next: Promise<Session>, expected: number): Promise<Session> {
  await pass(expected - 1);
  expect(await isPending(next), `before ${expected} ms`).toBe(true);
  await pass(1);
  expect(await isPending(next), `after ${expected} ms`).toBe(false);
  return next;
}

async function refuse(session: Session): Promise<void> {
  await session.flight();
  session.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "57P03", M: "starting up" }));
  session.peer.end();
  await quiet();
}

test("a lost connection is replaced, its loss is reported once that is done, and the loop continues", async () => {
  const onReconnect = vi.fn();
  const { listener, session } = await listening({ onReconnect });
  const iterator = listener[Symbol.asyncIterator]();
  session.send(notified("one"));
  await quiet();
  session.peer.reset();
  await pass(50);
  expect(onReconnect).not.toHaveBeenCalled();
  const again = await letListen();
  expect(onReconnect.mock.calls).toEqual([[expect.objectContaining({ code: "CONNECTION_LOST" })]]);
  again.send(notified("two"));
  expect((await iterator.next()).value).toMatchObject({ payload: "one" });
  expect((await iterator.next()).value).toMatchObject({ payload: "two" });
  await listener.close();
});

test("without onReconnect a lost connection is replaced too", async () => {
  const { listener, session } = await listening();
  session.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "57P01", M: "terminating connection" }));
  await pass(50);
  const again = await letListen();
  again.send(notified("one"));
  expect((await listener[Symbol.asyncIterator]().next()).value).toMatchObject({ payload: "one" });
  await listener.close();
});

test("the pause doubles after each failed attempt, up to 5 s", async () => {
  const onReconnect = vi.fn();
  const { listener, session } = await listening({ onReconnect });
  session.peer.reset();
  for (const pause of [50, 100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000])
    await refuse(await pauseBefore(accepted(), pause));
  expect(onReconnect).not.toHaveBeenCalled();
  const last = accepted();
  await pass(5_000);
  const again = await last;
  await again.flight();
  again.send(wire.authenticationOk(), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
  await again.flight();
  again.send(...answered());
  await quiet();
  // The loss of the listening connection is reported, not the failed attempts.
  expect(onReconnect.mock.calls).toEqual([[expect.objectContaining({ code: "CONNECTION_LOST" })]]);
  await listener.close();
});

test("each pause is up to twice as long at random", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0.5);
  const { listener, session } = await listening();
  session.peer.reset();
  await refuse(await pauseBefore(accepted(), 75));
  await pauseBefore(accepted(), 150);
  await listener.close();
});

test("a LISTEN that is refused after a loss is tried again, on another connection", async () => {
  const { listener, session } = await listening();
  session.peer.reset();
  await pass(50);
  const refusing = await letIn();
  await refusing.flight();
  refusing.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57P03", M: "no" }), wire.readyForQuery());
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
    await pass(pause - 1);
    const next = accepted();
    expect(await isPending(next)).toBe(true);
    await pass(1);
    const again = await next;
    await again.flight();
    again.send(wire.authenticationOk(), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
    await again.flight();
    again.send(...answered());
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
  const pending = client.listen("jobs").catch((error: unknown) => error);
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
