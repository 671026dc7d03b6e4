// A long batch, which is sent window by window (js/statement/batch.ts), over a slow socket: when each window is sent,
// and what ends the transaction of a batch that fails or ends before all of it has been sent.
import { beforeEach, expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import { item, outcome } from "../support/flights.ts";
import { acceptCancel, client, isPending, letIn, quiet, useMemoryServer } from "../support/memory-session.ts";
import { bound, boundRow, description, errorAndReady, errorResponse, int4, row } from "../support/server-messages.ts";
import { slowSockets, written, type SlowSocket } from "../support/slow-socket.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

let socket: SlowSocket;
beforeEach(() => void (socket = slowSockets()));

/** An Execute that fails, so that Sync rolls back. */
const undone = ["Execute", "Sync"];
const long = "x".repeat(70_000);

/** A batch of three windows. The first has been written to the socket and is still buffered there. */
async function inWindows(options?: object) {
  const call = client.batch([sql`select ${long}`, sql`select ${long}`, sql`select ${long}`], options);
  const end = outcome(call);
  const session = await letIn();
  await session.flight();
  socket.holds = true;
  session.send(description([int4], [25]));
  expect(await written(session)).toEqual(item);
  return { call, end, session };
}

test("each window is sent once the previous one has left, and only the last ends in Sync", async () => {
  const { call, session } = await inWindows();
  for (const names of [
    ["Bind", "Execute"],
    ["Bind", "Execute", "Sync"],
  ]) {
    const next = written(session);
    expect(await isPending(next)).toBe(true);
    socket.goOn();
    expect(await next).toEqual(names);
  }
  socket.goOn();
  session.send(boundRow(1), wire.bindComplete(), row(2), wire.bindComplete(), row(3), wire.readyForQuery());
  expect((await call).map(({ rows }) => rows)).toEqual([[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]]);
});

test("an error holds back the later windows, and nothing that was sent is committed", async () => {
  const { end, session } = await inWindows();
  session.send(bound(), errorResponse("22012"));
  await quiet();
  socket.goOn();
  expect(await written(session)).toEqual(undone);
  socket.goOn();
  expect(await isPending(written(session))).toBe(true);
  session.send(wire.readyForQuery());
  const batch = { index: 0, rolledBack: [], skipped: [1, 2] };
  expect(await end).toMatchObject({ code: "22012", batch, retryable: false });
  await quiet();
  expect(client.stats().state).toBe("idle");
});

test("the end of the call holds back the later windows, and nothing that was sent is committed", async () => {
  const abort = new AbortController();
  const { end, session } = await inWindows({ signal: abort.signal });
  abort.abort();
  expect(await end).toMatchObject({ code: "ABORTED", hasNoEffect: false, transaction: "rolled back" });
  socket.holds = false;
  socket.goOn();
  expect(await written(session)).toEqual(undone);
  await acceptCancel();
  session.send(boundRow(1), errorAndReady("57014"));
  await quiet();
  expect(client.stats().state).toBe("idle");
});

test("a connection that is lost between windows fails the batch", async () => {
  const { end, session } = await inWindows();
  session.peer.end();
  await quiet();
  socket.goOn();
  const facts = { code: "CONNECTION_LOST", batch: undefined, retryable: false, transaction: "rolled back" };
  expect(await end).toMatchObject(facts);
});
