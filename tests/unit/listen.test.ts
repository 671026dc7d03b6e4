// LISTEN over sockets in memory: what a listener sends, what its loop receives, and how each of them ends.
import { expect, onTestFinished, test, vi } from "vitest";
import { asksToListen, letInToListen, listening, rest } from "../support/memory-listen.ts";
import {
  accepted,
  client,
  isPending,
  letInByPooler,
  queryText,
  quiet,
  useMemoryServer,
} from "../support/memory-session.ts";
import { completeAndReady, errorAndReady, notified, notifiedOften } from "../support/server-messages.ts";

useMemoryServer();

test("concurrent calls of next() get one notification each", async () => {
  const { listener, session } = await listening();
  const iterator = listener[Symbol.asyncIterator]();
  const waiting = [iterator.next(), iterator.next(), iterator.next()];
  session.send(notified("one"));
  await quiet();
  session.send(notified("two"));
  expect((await waiting[0]!).value).toMatchObject({ payload: "one" });
  expect((await waiting[1]!).value).toMatchObject({ payload: "two" });
  expect(await isPending(waiting[2]!)).toBe(true);
  await listener.close();
  expect(await waiting[2]).toEqual({ done: true, value: undefined });
});

test.each(["close", "dispose", "return"])(
  "%s ends a listener; received notifications are still delivered, and no more come",
  async (how) => {
    const { listener, session } = await listening();
    session.send(notified("one"));
    await quiet();
    const iterator = listener[Symbol.asyncIterator]();
    if (how === "close") await listener.close();
    if (how === "dispose") await listener[Symbol.asyncDispose]();
    if (how === "return") expect(await iterator.return!()).toEqual({ done: true, value: undefined });
    expect(await rest(session)).toEqual(["Terminate"]);
    expect((await iterator.next()).value).toMatchObject({ payload: "one" });
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
    await listener.close();
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
  },
);

test("a signal ends a listener with its reason, after the received notifications were read", async () => {
  const stop = new AbortController();
  const { listener, session } = await listening({ signal: stop.signal });
  const iterator = listener[Symbol.asyncIterator]();
  session.send(notified("one"));
  await quiet();
  stop.abort("enough");
  expect((await iterator.next()).value).toMatchObject({ payload: "one" });
  await expect(iterator.next()).rejects.toMatchObject({ name: "AbortError", code: "ABORTED", cause: "enough" });
  // Later calls of next() fail the same way.
  await expect(iterator.next()).rejects.toMatchObject({ code: "ABORTED" });
  expect(await rest(session)).toEqual(["Terminate"]);
});

test("a listener reports what ended it first, whatever follows in the same turn", async () => {
  const stop = new AbortController();
  const { listener } = await listening({ signal: stop.signal });
  stop.abort("enough");
  await listener.close();
  await expect(listener[Symbol.asyncIterator]().next()).rejects.toMatchObject({ code: "ABORTED", cause: "enough" });
  const late = new AbortController();
  const { listener: closed } = await listening({ signal: late.signal });
  const closing = closed.close();
  late.abort();
  await closing;
  expect(await closed[Symbol.asyncIterator]().next()).toEqual({ done: true, value: undefined });
});

test("a listener that is over leaves no handler on its signal", async () => {
  const { signal } = new AbortController();
  const listeners = new Set<unknown>();
  vi.spyOn(signal, "addEventListener").mockImplementation((_, heard) => void listeners.add(heard));
  vi.spyOn(signal, "removeEventListener").mockImplementation((_, heard) => void listeners.delete(heard));
  const { listener } = await listening({ signal });
  expect(listeners.size).toBe(1);
  await listener.close();
  await quiet();
  expect(listeners.size).toBe(0);
});

test("a signal that aborts during LISTEN ends the connection and the call", async () => {
  const stop = new AbortController();
  const { pending, session } = await asksToListen({ signal: stop.signal });
  stop.abort("meanwhile");
  await expect(pending).rejects.toMatchObject({ code: "ABORTED", cause: "meanwhile" });
  expect(await rest(session)).toEqual(["Terminate"]);
});

test("the failure of the first LISTEN is the call's error, without another attempt", async () => {
  const { pending, session } = await asksToListen();
  session.send(errorAndReady("42501"));
  await expect(pending).rejects.toMatchObject({ name: "PostgresError", code: "42501" });
  expect(await rest(session)).toEqual(["Terminate"]);
  expect(await isPending(accepted())).toBe(true);
});

test("a connection that is lost before LISTEN completes fails the call", async () => {
  const { pending, session } = await asksToListen();
  session.peer.reset();
  await expect(pending).rejects.toMatchObject({ code: "CONNECTION_LOST" });
});

test.each([undefined, false, true])("behind a pooler listen() works only with sessionPooling: %s", async (isAsked) => {
  const pending = client.listen("jobs", { sessionPooling: isAsked });
  // A process id that no PostgreSQL server has.
  const session = await letInByPooler();
  if (isAsked) {
    expect(await queryText(session)).toBe('LISTEN "jobs"');
    session.send(completeAndReady("LISTEN"));
    return void (await (await pending).close());
  }
  await expect(pending).rejects.toMatchObject({ name: "UsageError", code: "LISTEN_BEHIND_POOLER" });
  expect(await rest(session)).toEqual(["Terminate"]);
});

test("options are checked before anything connects", async () => {
  await expect(client.listen("jobs", { onreconnect: () => {} } as never)).rejects.toMatchObject({
    ...{ code: "UNKNOWN_OPTION", message: expect.stringContaining('"onReconnect"') },
  });
  await expect(client.listen("jobs", { signal: 5 as never })).rejects.toMatchObject({ code: "INVALID_OPTION" });
  await expect(client.listen("jobs", null as never)).rejects.toMatchObject({ code: "INVALID_OPTION" });
  await expect(client.listen(5 as never)).rejects.toMatchObject({ name: "UsageError" });
});

test("a thousand notifications wait for the loop, and then the socket is not read until some are taken", async () => {
  const { listener, session } = await listening();
  session.send(notifiedOften(999));
  await quiet();
  const reads = session.peer.reads;
  session.send(notified("999"));
  await quiet();
  session.send(notified("1000"));
  await quiet();
  expect(session.peer.reads).toBe(reads);
  const iterator = listener[Symbol.asyncIterator]();
  for (let at = 0; at < 1_001; at++) expect((await iterator.next()).value).toMatchObject({ payload: String(at) });
  expect(session.peer.reads).toBeGreaterThan(reads);
  await listener.close();
});

test("if more have arrived at once, the socket is read again when fewer than a thousand are left", async () => {
  const { listener, session } = await listening();
  session.send(notifiedOften(1_500));
  await quiet();
  session.send(notified("1500"));
  await quiet();
  const { reads } = session.peer;
  const iterator = listener[Symbol.asyncIterator]();
  for (let at = 0; at < 500; at++) await iterator.next();
  await quiet();
  expect(session.peer.reads).toBe(reads);
  await iterator.next();
  await quiet();
  expect(session.peer.reads).toBe(reads + 1);
  await listener.close();
});

test("close ends a listener whose loop has stopped reading", async () => {
  const { listener, session } = await listening();
  session.send(notifiedOften(3_000));
  await quiet();
  await listener.close();
  expect(await rest(session)).toEqual(["Terminate"]);
});

test.each([
  ["22021", "a notification that the server could not send", true],
  ["57014", "a cancel by somebody else", false],
])("an error %s of the query that checks the connection is %s", async (code, _, isLoss) => {
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const onReconnect = vi.fn();
  const { listener, session } = await listening({ onReconnect });
  vi.advanceTimersByTime(30_000);
  expect(await queryText(session)).toBe("");
  session.send(errorAndReady(code));
  await quiet();
  if (isLoss) {
    await letInToListen(accepted());
    await quiet();
    expect(onReconnect).toHaveBeenCalledWith(expect.objectContaining({ code }));
  } else expect(onReconnect).not.toHaveBeenCalled();
  await listener.close();
});
