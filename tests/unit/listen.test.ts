// LISTEN over sockets in memory: what a listener sends, what its loop receives, and how each of them ends.
import { expect, test, vi } from "vitest";
import type { Listener, ListenOptions } from "../../js/api/listen.ts";
import {
  accepted,
  client,
  isPending,
  letIn,
  newClient,
  quiet,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const notified = (payload: string, channel = "jobs") =>
  wire.message("A", wire.int32(9), Buffer.from(`${channel}\0${payload}\0`));
const answered = () => [wire.commandComplete("LISTEN"), wire.readyForQuery()];

/** Starts a listener, and returns it with its session. */
async function listening(options?: ListenOptions): Promise<{ listener: Listener; session: Session }> {
  const pending = client.listen("jobs", options);
  const session = await letIn();
  expect(await session.flight()).toEqual(["Query"]);
  session.send(...answered());
  return { listener: await pending, session };
}

/** The names of the messages up to the session's end. */
async function rest(session: Session): Promise<string[]> {
  const names: string[] = [];
  for (let message; (message = await session.message());) names.push(message.name);
  return names;
}

test("a listener has its own connection, and quotes the channel as it is written", async () => {
  const pending = client.listen('Odd "channel"');
  const session = await letIn();
  const { name, body } = (await session.message())!;
  expect([name, body.toString()]).toEqual(["Query", 'LISTEN "Odd ""channel"""\0']);
  expect(await isPending(pending)).toBe(true);
  session.send(...answered());
  await (await pending).close();
  expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
});

test("the loop receives each notification once, in order, including those from before it began", async () => {
  const { listener, session } = await listening();
  session.send(notified("one"), notified("", "jobs"));
  await quiet();
  const seen: unknown[] = [];
  const looping = (async () => {
    for await (const notification of listener) {
      seen.push(notification);
      if (seen.length === 3) break;
    }
  })();
  await quiet();
  expect(seen.length).toBe(2);
  session.send(notified("two"));
  await looping;
  expect(seen).toEqual(["one", "", "two"].map((payload) => ({ channel: "jobs", payload, processId: 9 })));
  // Leaving the loop has ended the listener.
  expect(await rest(session)).toEqual(["Terminate"]);
});

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

test("a waiting loop rejects at once when the signal aborts", async () => {
  const stop = new AbortController();
  const { listener } = await listening({ signal: stop.signal });
  const next = listener[Symbol.asyncIterator]().next();
  await quiet();
  stop.abort();
  await expect(next).rejects.toMatchObject({ code: "ABORTED" });
});

test("a signal ends the attempt to listen, before and while it connects", async () => {
  await expect(client.listen("jobs", { signal: AbortSignal.abort("before") })).rejects.toMatchObject({
    ...{ code: "ABORTED", cause: "before" },
  });
  const stop = new AbortController();
  const pending = client.listen("jobs", { signal: stop.signal });
  const session = await accepted();
  await session.flight();
  stop.abort("meanwhile");
  await expect(pending).rejects.toMatchObject({ code: "ABORTED", cause: "meanwhile" });
  expect(await rest(session)).toEqual([]);
});

test("a signal that aborts during LISTEN ends the connection and the call", async () => {
  const stop = new AbortController();
  const pending = client.listen("jobs", { signal: stop.signal });
  const session = await letIn();
  await session.flight();
  stop.abort("meanwhile");
  await expect(pending).rejects.toMatchObject({ code: "ABORTED", cause: "meanwhile" });
  expect(await rest(session)).toEqual(["Terminate"]);
});

test("the failure of the first attempt is the call's error, without another attempt", async () => {
  const refused = (C: string) => wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no" });
  const pending = client.listen("jobs");
  const session = await letIn();
  await session.flight();
  session.send(refused("42501"), wire.readyForQuery());
  await expect(pending).rejects.toMatchObject({ name: "PostgresError", code: "42501" });
  expect(await rest(session)).toEqual(["Terminate"]);
  const login = client.listen("jobs");
  const refusing = await accepted();
  await refusing.flight();
  refusing.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "28P01", M: "no" }));
  refusing.peer.end();
  await expect(login).rejects.toMatchObject({ code: "28P01" });
  expect(await isPending(accepted())).toBe(true);
});

test("a connection that is lost before LISTEN completes fails the call", async () => {
  const pending = client.listen("jobs");
  const session = await letIn();
  await session.flight();
  session.peer.reset();
  await expect(pending).rejects.toMatchObject({ code: "CONNECTION_LOST" });
});

test.each([undefined, false, true])("behind a pooler listen() works only with sessionPooling: %s", async (isAsked) => {
  newClient();
  const pending = client.listen("jobs", { sessionPooling: isAsked });
  const session = await accepted();
  await session.flight();
  // A process id that no PostgreSQL server has.
  session.send(wire.authenticationOk(), wire.backendKeyData(0x7fffffff, wire.int32(9)), wire.readyForQuery());
  if (isAsked) {
    expect(await session.flight()).toEqual(["Query"]);
    session.send(...answered());
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
  session.send(Buffer.concat(Array.from({ length: 999 }, (_, at) => notified(String(at)))));
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
  session.send(Buffer.concat(Array.from({ length: 1_500 }, (_, at) => notified(String(at)))));
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
  session.send(Buffer.concat(Array.from({ length: 3_000 }, (_, at) => notified(String(at)))));
  await quiet();
  await listener.close();
  expect(await rest(session)).toEqual(["Terminate"]);
});
