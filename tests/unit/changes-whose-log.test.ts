// Whose log a server has, over sockets in memory: whether a stream of changes may begin or continue on that server, and
// what its slot says. changes-log-check.test.ts has the decision alone.
import { expect, test } from "vitest";
import { changes } from "../../js/changes.ts";
import {
  another,
  answersFirst,
  answersToStart,
  beginSnapshot,
  beginsStream,
  command,
  copyBoth,
  first,
  lost,
  newest,
  options,
  slotMade,
} from "../support/memory-changes.ts";
import { client, fakeTimers, isPending, letIn, useMemoryServer } from "../support/memory-session.ts";
import { completeAndReady, errorAndReady } from "../support/server-messages.ts";

useMemoryServer();

type Clock = ReturnType<typeof fakeTimers>;

/** Expects the stream to end by what its server's log lacks, in these words, after half a second for its connection. */
async function isLost(clock: Clock, next: Promise<unknown>, words: string): Promise<void> {
  await clock.pass(500);
  await expect(next).rejects.toMatchObject({ code: "CHANGES_LOST", message: expect.stringMatching(words) });
}

test("a server of another system ends a stream that has read", async () => {
  using clock = fakeTimers();
  const { next } = await lost(clock);
  await answersFirst(await another(clock), { system: "8" });
  await isLost(clock, next, "system 8");
});

test("a position of another timeline is compared with the server's history", async () => {
  using clock = fakeTimers();
  const history = "1\t0/20\tno recovery target specified\n";
  const { next } = first({ from: "7-1-x" });
  await answersFirst(await another(clock), { timeline: "2", history });
  await isLost(clock, next, "after 0/20");
  const { feed, next: other } = first({ from: "7-1-w" });
  const session = await another(clock);
  await answersFirst(session, { timeline: "2", history });
  expect(await command(session)).toMatch("LOGICAL 0/20");
  beginsStream(session);
  await other;
  expect([feed.fullPosition("0/20"), feed.fullPosition("0/21")]).toEqual(["7-1-w", "7-2-x"]);
  expect(feed.fullPosition("7-1-w")).toBe("7-1-w");
  for (const none of ["x", "", "0/zz", "0-0-0"])
    expect(() => feed.fullPosition(none)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
  // What a cluster says of a write whose position it could not ask for.
  expect(() => changes(client, { ...options, from: "0-0-0" })).toThrow(/Option "from" must be a position/);
});

test("a standby that lags is asked until it has the position", async () => {
  using clock = fakeTimers();
  const { feed, next } = first({ from: "0/50" });
  const session = await another(clock, newest);
  for (const end of ["0/40", "0/4F", "0/50"]) {
    const answering = answersFirst(session, { isStandby: true, end });
    while (await isPending(answering)) await clock.pass(500);
    expect(feed.stats().state).toBe("connecting");
  }
  expect(await command(session)).toMatch("LOGICAL 0/50");
  beginsStream(session);
  expect(await next).toMatchObject({ value: { kind: "begin" } });
});

test("a slot that another connection reads is asked about again: that reader may still move it", async () => {
  using clock = fakeTimers();
  const { next } = await lost(clock);
  const second = await another(clock);
  await answersFirst(second, { isActive: true });
  const answering = answersFirst(second, { confirmed: "0/30" });
  while (await isPending(answering)) await clock.pass(500);
  await isLost(clock, next, "slot is at 0/30");
});

test("a slot that is moved between the question and the beginning of the stream ends it", async () => {
  using clock = fakeTimers();
  const { next } = first();
  const session = await letIn();
  await answersFirst(session);
  await command(session, { confirmed: "0/30" });
  session.send(copyBoth);
  await isLost(clock, next, "moved .* 0/30");
});

test("what a server said before the stream began does not hold for the next one", async () => {
  using clock = fakeTimers();
  const { next } = first();
  const session = await letIn();
  expect(await answersToStart(session, { confirmed: "0/30" })).toMatch("LOGICAL 0/30");
  session.peer.end();
  const second = await another(clock);
  expect(await answersToStart(second, { confirmed: "0/10" })).toMatch("LOGICAL 0/10");
  beginsStream(second);
  expect(await next).toMatchObject({ value: { kind: "begin" } });
});

test("a slot that vanishes before the stream has begun is not made anew", async () => {
  using clock = fakeTimers();
  const { next } = first({ createSlot: "permanent" });
  const session = await letIn();
  await answersFirst(session);
  session.peer.end();
  await answersFirst(await another(clock), { hasSlot: false });
  await isLost(clock, next, "any more");
});

test("a run that has read nothing needs what earlier runs have acknowledged", async () => {
  using clock = fakeTimers();
  const { feed, next } = first();
  const session = await letIn();
  await answersToStart(session, { confirmed: "0/30" });
  session.send(copyBoth);
  while (feed.stats().state !== "streaming") await clock.pass(1);
  session.peer.end();
  const history = "1\t0/20\tno recovery target specified\n";
  await answersFirst(await another(clock), { timeline: "2", history, instance: "another time" });
  await isLost(clock, next, "after 0/20");
});

test("a standby without the slot is left for another server", async () => {
  using clock = fakeTimers();
  const { next } = await lost(clock);
  const second = await another(clock, newest);
  await answersFirst(second, { isStandby: true, hasSlot: false });
  second.peer.end();
  const third = await another(clock, newest);
  expect(await answersToStart(third)).toMatch("LOGICAL 0/10");
  beginsStream(third);
  expect(await next).toMatchObject({ value: { kind: "begin", xid: 7 } });
});

test("a standby that is too old is refused before the stream begins: it may be promoted meanwhile", async () => {
  using clock = fakeTimers();
  const { next } = first();
  await answersFirst(await letIn({ server_version: "15.2" }), { isStandby: true });
  await clock.pass(500);
  const advice = expect.stringMatching("connect to the primary");
  await expect(next).rejects.toMatchObject({ code: "0A000", advice });
});

test("a temporary slot that another connection uses is refused by the server, not waited for", async () => {
  using clock = fakeTimers();
  const { next } = first({ createSlot: "temporary" });
  const session = await letIn();
  await answersFirst(session, { isActive: true });
  expect(Buffer.from((await session.message())!.body).toString()).toMatch("CREATE_REPLICATION_SLOT");
  session.send(errorAndReady("42710"));
  await clock.pass(500);
  await expect(next).rejects.toMatchObject({ code: "42710" });
});

test("an abort while the server makes the slot of a snapshot drops it", async () => {
  const controller = new AbortController();
  const { next } = first({ createSlot: "permanent", snapshot: true, signal: controller.signal });
  const session = await letIn(newest);
  await answersFirst(session, { hasSlot: false });
  await beginSnapshot(session);
  await session.flight();
  controller.abort();
  session.send(slotMade);
  session.peer.end();
  const other = await letIn(newest);
  expect(Buffer.from((await other.message())!.body).toString()).toMatch('DROP_REPLICATION_SLOT "s" WAIT');
  other.send(completeAndReady("DROP_REPLICATION_SLOT"));
  await expect(next).rejects.toMatchObject({ code: "ABORTED" });
});
