// The first connection of a stream of changes over sockets in memory: after which failures the stream waits and
// connects again, and how the others are reported.
import { expect, test } from "vitest";
import { advised } from "../../js/changes/advice.ts";
import { PostgresError } from "../../js/index.ts";
import {
  another,
  answerQuery,
  answersFirst,
  answersToStart,
  beginSnapshot,
  beginsStream,
  first,
  newest,
  slotMade,
  waiting,
} from "../support/memory-changes.ts";
import { fakeTimers, letIn, newClient, useMemoryServer, type Session } from "../support/memory-session.ts";
import { ended, errorAndReady, fatal } from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const ends: [string, (session: Session) => unknown][] = [
  ["right behind its login", () => {}],
  ["while it asks for its slot", (session) => session.flight()],
  ["while it begins", (session) => answersToStart(session)],
  ["by an administrator", async (session) => (await session.flight(), session.send(fatal("57P01")))],
  ["by a server that is full", async (session) => (await answersToStart(session), session.send(fatal("53300")))],
  ["by a reset", (session) => session.peer.reset()],
];

test.each(ends)("a first connection that ends %s is followed by another", async (_, say) => {
  using clock = fakeTimers();
  const { feed, next } = first();
  const session = await letIn();
  await say(session);
  session.peer.end();
  const second = await another(clock);
  await answersToStart(second);
  beginsStream(second);
  expect(await next).toMatchObject({ value: { kind: "begin", xid: 7 } });
  expect(feed.stats().connections).toBe(2);
});

test("after eight connections that end, the stream reports the loss, and says that reading again is safe", async () => {
  using clock = fakeTimers();
  const { feed, next } = first();
  for (let n = 1; n <= 8; n++) (await another(clock)).peer.end();
  await expect(next).rejects.toMatchObject({ code: "CONNECTION_LOST", stage: "session", retryable: true });
  expect(feed.stats().connections).toBe(8);
});

test("a slot that is in use is waited for without a limit", async () => {
  using clock = fakeTimers();
  const { feed, next } = first();
  for (let n = 1; n <= 12; n++) {
    const session = await another(clock);
    await answersToStart(session);
    session.send(errorAndReady("55006"));
  }
  const last = await another(clock);
  await answersToStart(last);
  beginsStream(last);
  expect(await next).toMatchObject({ value: { kind: "begin" } });
  expect(feed.stats().connections).toBe(13);
});

test.each(["42704", "08P01", "28000"])("a permanent failure is reported at once: %s", async (code) => {
  const { feed, next } = first();
  const session = await letIn();
  await answersToStart(session);
  session.send(errorAndReady(code));
  await expect(next).rejects.toMatchObject({ code, retryable: false });
  expect(feed.stats().connections).toBe(1);
});

test("a pooler that never answers is reported after the deadline, and reading again is safe", async () => {
  using clock = fakeTimers();
  const { next } = first();
  await answersToStart(await letIn());
  await clock.pass(20_000);
  await expect(next).rejects.toMatchObject({ code: "CONNECT_TIMEOUT", retryable: true });
});

test("the error names a slot that was made with a snapshot and may belong to another reader", async () => {
  using clock = fakeTimers();
  const { next } = first({ createSlot: "permanent", snapshot: true });
  for (const isLost of [true, false]) {
    const session = await another(clock, newest);
    await answersFirst(session);
    await beginSnapshot(session);
    expect(await session.flight()).toEqual(["Query"]);
    if (isLost) session.peer.end();
    else session.send(errorAndReady("42710", "E"));
  }
  // The server has half a second to close a connection that it has refused.
  await clock.pass(500);
  await expect(next).rejects.toMatchObject({
    code: "INVALID_OPTION",
    message: expect.stringMatching("This stream may have made it"),
  });
});

test("a snapshot whose link is lost is left to the program to begin again", async () => {
  const { feed, next } = first({ createSlot: "temporary", snapshot: true });
  const session = await letIn(newest);
  await answersFirst(session);
  await beginSnapshot(session);
  await answerQuery(session, slotMade);
  // search_path, for the filters that the next question returns.
  await answerQuery(
    session,
    wire.rowDescription([{ name: "set_config", oid: 25 }]),
    wire.dataRow([Buffer.from("p")]),
    ended(1),
  );
  const table = {
    oid: 1,
    identity: "d",
    schema: "public",
    name: "t",
    columns: [["n", 23, -1, true, false]],
    filter: null,
    hasLists: false,
    parts: [{ oid: 1, kind: "r", file: 1, schema: "public", name: "t" }],
  };
  const tables = wire.dataRow([Buffer.from(JSON.stringify(table))]);
  await answerQuery(session, wire.rowDescription([{ name: "j", oid: 114 }]), tables, ended(1));
  await session.flight();
  session.peer.end();
  await expect(next).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: true });
  expect(feed.stats().connections).toBe(1);
});

test.each([
  ["13.9", { streaming: true }, 14],
  ["14.2", { twoPhase: true }, 15],
  ["15.1", { origin: "any" }, 16],
  ["16beta1", { createSlot: "temporary", failover: true }, 17],
] as const)("a server of version %s is too old for %o", async (version, more, oldest) => {
  const { next } = first(more);
  const session = await letIn({ server_version: version });
  expect(await session.flight()).toEqual(["Terminate"]);
  session.peer.end();
  const message = expect.stringMatching(`needs PostgreSQL ${oldest} or newer, not ${Number.parseInt(version, 10)}`);
  await expect(next).rejects.toMatchObject({ code: "INVALID_OPTION", message });
});

test("a warning of a missing publication is an error, and nothing is acknowledged after it", async () => {
  using clock = fakeTimers();
  const notices: unknown[] = [];
  newClient({ observer: { onNotice: (notice) => void notices.push(notice) } });
  const { next, session } = await waiting(clock, { statusInterval: 1_000 });
  const warning = { S: "WARNUNG", V: "WARNING", C: "55000", M: "ohne Publikation »p«", R: "LoadPublications" };
  const fields = Object.entries(warning).map(([code, text]) => Buffer.concat([Buffer.from(code), wire.cstring(text)]));
  const keepalive = wire.message("d", Buffer.from("k"), Buffer.alloc(7), Buffer.of(64), Buffer.alloc(8), Buffer.of(1));
  session.send(wire.message("N", ...fields, Buffer.of(0)), keepalive);
  expect(await session.flight()).toEqual(["Terminate"]);
  await clock.pass(500);
  await expect(next).rejects.toMatchObject({ code: "42704", detail: "ohne Publikation »p«", retryable: false });
  expect(notices).toEqual([
    { severity: "WARNING", code: "55000", message: "ohne Publikation »p«", routine: "LoadPublications" },
  ]);
});

test.each([
  'can no longer get changes from replication slot "s"',
  'cannot read from logical replication slot "s"',
  'can no longer access replication slot "s"',
])("a slot whose log was removed has advice, in the words of each version: %s", (message) => {
  const error = new PostgresError({ severity: "ERROR", code: "55000", message });
  expect(advised(error).advice).toMatch(/^The server has removed WAL.* Drop the slot/);
});
