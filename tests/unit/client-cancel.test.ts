// Cancelled calls over sockets in memory: when a CancelRequest is sent, and when the next call may be sent.
import { expect, test } from "vitest";
import { CANCEL_DEADLINE, CANCEL_END } from "../../js/util/limits.ts";
import {
  accepted,
  begun,
  client,
  ended,
  execution,
  fakeClock,
  install,
  isPending,
  learn,
  letIn,
  letInKnowing,
  quiet,
  rows,
  server,
  useMemoryServer,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

test("an abort in the same turn as its call sends a cancel, because the call has been sent", async () => {
  const session = await letInKnowing();
  const abort = new AbortController();
  const call = client.query("select n", { signal: abort.signal });
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED", retryable: false });
  expect(await (await accepted()).flight()).toEqual(["CancelRequest"]);
  expect(await session.flight()).toEqual(execution);
});

test("an abort settles at once, cancels on a second socket, and the next call waits until that closes", async () => {
  const abort = new AbortController();
  const query = client.query("select n", { signal: abort.signal });
  const session = await letIn();
  await learn(session);
  abort.abort("why");
  await expect(query).rejects.toMatchObject({ name: "AbortError", code: "ABORTED", cause: "why", retryable: false });
  const next = client.query("select n");
  const cancel = await accepted();
  expect(await cancel.flight()).toEqual(["CancelRequest"]);
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57014", M: "canceled" }), wire.readyForQuery());
  const flight = session.flight();
  expect(await isPending(flight)).toBe(true);
  cancel.peer.end();
  expect(await flight).toEqual(execution);
  session.send(begun(), rows(5, 6), ended(1));
  expect((await next).rows).toEqual([{ n: 5 }]);
});

test("a client is busy until the server has ended the aborted call, or the connection is given up", async () => {
  const abort = new AbortController();
  const query = client.query("select n", { signal: abort.signal });
  const session = await letIn();
  await learn(session);
  abort.abort();
  await expect(query).rejects.toMatchObject({ code: "ABORTED" });
  expect(client.stats().state).toBe("busy");
  const cancel = await accepted();
  await cancel.flight();
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57014", M: "canceled" }), wire.readyForQuery());
  cancel.peer.end();
  await quiet();
  expect(client.stats().state).toBe("idle");

  using clock = fakeClock();
  const silent = new AbortController();
  const second = client.query("select n", { signal: silent.signal });
  await session.flight();
  silent.abort();
  await expect(second).rejects.toMatchObject({ code: "ABORTED" });
  await clock.pass(1_999);
  expect(client.stats().state).toBe("busy");
  await clock.pass(1);
  expect(client.stats().state).toBe("lost");
});

const canceled = () => wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57014", M: "canceled" });

test("a cancel that hits a Describe of the next call makes the client repeat it", async () => {
  const session = await letInKnowing();
  const abort = new AbortController();
  const aborted = client.query("select n", { signal: abort.signal });
  const next = client.query("select m");
  expect(await session.flight()).toEqual(execution);
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  abort.abort();
  await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
  const cancel = await accepted();
  await cancel.flight();
  session.send(begun(), ended(0), canceled(), wire.readyForQuery());
  cancel.peer.end();
  await learn(session);
  session.send(begun(), rows(5, 6), ended(1));
  expect((await next).rows).toEqual([{ n: 5 }]);
});

test("a cancel that hits the driver's own catalog query makes the client repeat it", async () => {
  const session = await letInKnowing();
  const abort = new AbortController();
  const aborted = client.query("select n", { signal: abort.signal });
  const asking = client.query("select mood");
  expect(await session.flight()).toEqual(execution);
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  abort.abort();
  await expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
  const cancel = await accepted();
  await cancel.flight();
  const mood = wire.rowDescription([{ name: "n", oid: 20001, size: 4 }]);
  session.send(begun(), ended(0));
  session.send(wire.parseComplete(), wire.parameterDescription([]), mood, wire.readyForQuery());
  expect(await session.flight()).toEqual(["Query"]);
  session.send(canceled(), wire.readyForQuery());
  cancel.peer.end();
  expect(await session.flight()).toEqual(["Query"]);
  const answer = [
    wire.rowDescription([{ name: "json", oid: 25 }]),
    wire.dataRow([Buffer.from('[[20001,"e","mood",[0],[]]]')]),
  ];
  session.send(...answer, ended(1));
  expect(await session.flight()).toEqual(execution);
  session.send(wire.parseComplete(), wire.bindComplete(), mood, wire.dataRow([Buffer.from("glad")]), ended(1));
  expect((await asking).rows).toEqual([{ n: "glad" }]);
});

test("no cancel is sent once the operation has ended", async () => {
  let accept: (() => void) | undefined;
  const { connect } = server;
  install((options) =>
    accept === undefined ? connect(options) : new Promise((resolve) => (accept = () => resolve(connect(options)))),
  );
  const abort = new AbortController();
  const query = client.query("select n", { signal: abort.signal });
  const session = await letIn();
  await learn(session);
  accept = () => {};
  abort.abort();
  await expect(query).rejects.toMatchObject({ code: "ABORTED" });
  await quiet();
  session.send(begun(), rows(0, 1), ended(1));
  await quiet();
  accept();
  expect(await isPending(server.accepted())).toBe(true);
  const next = client.query("select n");
  await session.flight();
  session.send(begun(), ended(0));
  await next;
});

test("a connection whose server ignores the cancel is closed after two seconds", async () => {
  using clock = fakeClock();
  const query = client.query("select n", { timeout: 20 });
  query.catch(() => {});
  await learn(await letIn());
  await clock.pass(20);
  await expect(query).rejects.toMatchObject({ name: "TimeoutError", code: "QUERY_TIMEOUT" });
  const next = client.query("select n");
  const another = (async () => {
    for (;;) {
      const session = await accepted();
      if ((await session.flight())[0] !== "CancelRequest") return session;
    }
  })();
  await clock.pass(1_999);
  expect(await isPending(another)).toBe(true);
  await clock.pass(1);
  const session = await another;
  session.send(wire.authenticationOk(), wire.parameterStatus("integer_datetimes", "on"), wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(5, 6), ended(1));
  expect((await next).rows).toEqual([{ n: 5 }]);
});

// A cancel that is late hits the next call, unless the session ends first.
test.each<[by: "its rows" | "the cancel", socket: "is reset" | "stays open", wait: number, isKept: boolean]>([
  ["its rows", "is reset", 0, false],
  ["its rows", "stays open", CANCEL_END, false],
  ["the cancel", "is reset", 0, true],
  ["the cancel", "stays open", CANCEL_DEADLINE, true],
])(
  "a call ended by %s, and the cancel's socket %s: after %d ms the session is kept: %s",
  async (by, socket, wait, isKept) => {
    using clock = fakeClock();
    const session = await letInKnowing();
    const abort = new AbortController();
    const call = client.query("select n", { signal: abort.signal });
    await session.flight();
    abort.abort();
    await expect(call).rejects.toMatchObject({ code: "ABORTED" });
    const cancel = await accepted();
    expect(await cancel.flight()).toEqual(["CancelRequest"]);
    session.send(...(by === "its rows" ? [begun(), rows(0, 1), ended(1)] : [canceled(), wire.readyForQuery()]));
    await quiet();
    if (socket === "is reset") cancel.peer.reset();
    else {
      await clock.pass(wait - 1);
      expect(client.stats().state).toBe("busy");
      await clock.pass(1);
    }
    await quiet();
    expect(client.stats().state).toBe(isKept ? "idle" : "lost");
  },
);
