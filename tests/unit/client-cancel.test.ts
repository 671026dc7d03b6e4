// Cancelled calls over sockets in memory: when a CancelRequest is sent, and when the next call may be sent.
import { expect, test } from "vitest";
import { CANCEL_DEADLINE, CANCEL_END } from "../../js/util/limits.ts";
import { answered, learned } from "../support/memory-calls.ts";
import {
  accepted,
  cancelRequest,
  client,
  execution,
  failure,
  fakeTimers,
  install,
  isPending,
  learn,
  letIn,
  letInKnowing,
  quiet,
  server,
  useMemoryServer,
} from "../support/memory-session.ts";
import { begun, description, ended, errorAndReady, executed, loginAnswer } from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

test("an abort in the same turn as its call sends a cancel, because the call has been sent", async () => {
  const session = await letInKnowing();
  const abort = new AbortController();
  const call = client.query("select n", { signal: abort.signal });
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED", hasNoEffect: false });
  await cancelRequest();
  expect(await session.flight()).toEqual(execution);
});

test("an abort settles at once, cancels on a second socket, and the next call waits until that closes", async () => {
  const abort = new AbortController();
  const query = client.query("select n", { signal: abort.signal });
  const session = await letIn();
  await learn(session);
  abort.abort("why");
  await expect(query).rejects.toMatchObject({ name: "AbortError", code: "ABORTED", cause: "why", hasNoEffect: false });
  const next = client.query("select n");
  const cancel = await cancelRequest();
  session.send(errorAndReady("57014"));
  const flight = session.flight();
  expect(await isPending(flight)).toBe(true);
  cancel.peer.end();
  expect(await flight).toEqual(execution);
  session.send(executed());
  expect((await next).rows).toEqual([{ n: 7 }]);
});

/** Pipelines a call that describes its statement after one that is then aborted. Returns that call, and the cancel. */
async function describedBesideAborted(text: string) {
  const session = await letInKnowing();
  const abort = new AbortController();
  const aborted = failure(client.query("select n", { signal: abort.signal }));
  const next = client.query(text);
  expect(await session.flight()).toEqual(execution);
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  abort.abort();
  expect(await aborted).toMatchObject({ code: "ABORTED" });
  const cancel = await cancelRequest();
  session.send(begun(), ended(0));
  return { session, next, cancel };
}

test("a cancel that hits a Describe of the next call makes the client repeat it", async () => {
  const { session, next, cancel } = await describedBesideAborted("select m");
  session.send(errorAndReady("57014"));
  cancel.peer.end();
  await learned(session, next);
});

test("a cancel that hits the driver's own catalog query makes the client repeat it", async () => {
  const { session, next, cancel } = await describedBesideAborted("select mood");
  const mood = { name: "n", oid: 20001, size: 4 };
  session.send(description([mood]));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(errorAndReady("57014"));
  cancel.peer.end();
  expect(await session.flight()).toEqual(["Query"]);
  const type = wire.dataRow([Buffer.from('[[20001,"e","mood",[0],[]]]')]);
  session.send(wire.rowDescription([{ name: "json", oid: 25 }]), type, ended(1));
  expect(await session.flight()).toEqual(execution);
  session.send(wire.parseComplete(), wire.bindComplete(), wire.rowDescription([mood]));
  session.send(wire.dataRow([Buffer.from("glad")]), ended(1));
  expect((await next).rows).toEqual([{ n: "glad" }]);
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
  session.send(executed());
  await quiet();
  accept();
  expect(await isPending(server.accepted())).toBe(true);
  await answered(session, client.query("select n"));
});

test("a connection whose server ignores the cancel is closed after two seconds", async () => {
  using clock = fakeTimers();
  const query = failure(client.query("select n", { timeout: 20 }));
  await learn(await letIn());
  await clock.pass(20);
  expect(await query).toMatchObject({ name: "TimeoutError", code: "QUERY_TIMEOUT" });
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
  session.send(loginAnswer());
  await answered(session, next);
});

const answersTo = { "its rows": executed, "the cancel": () => errorAndReady("57014"), nothing: () => Buffer.alloc(0) };

// A cancel that is late hits the next call, unless the session ends first.
test.each<[by: keyof typeof answersTo, socket: "is reset" | "stays open", wait: number, isKept: boolean]>([
  ["its rows", "is reset", 0, false],
  ["its rows", "stays open", CANCEL_END, false],
  ["the cancel", "is reset", 0, true],
  ["the cancel", "stays open", CANCEL_DEADLINE, true],
  ["nothing", "stays open", CANCEL_DEADLINE, false],
])(
  "a call ended by %s, and the cancel's socket %s: after %d ms the session is kept: %s",
  async (by, socket, wait, isKept) => {
    using clock = fakeTimers();
    const session = await letInKnowing();
    const abort = new AbortController();
    const call = client.query("select n", { signal: abort.signal });
    await session.flight();
    abort.abort();
    await expect(call).rejects.toMatchObject({ code: "ABORTED" });
    const cancel = await cancelRequest();
    session.send(answersTo[by]());
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
