// COPY FROM over a slow socket, and when a connection ends (js/statement/copy.ts): which side waits for which.
import { beforeEach, expect, test } from "vitest";
import { Operation } from "../../js/connection/operation.ts";
import type { AnyCall } from "../../js/session/call.ts";
import type { Session as OpenSession } from "../../js/session/session.ts";
import { connectionLost } from "../../js/runtime/contract.ts";
import { copyIn } from "../../js/statement/copy.ts";
import { PIECE } from "../../js/util/limits.ts";
import { asked, IN } from "../support/memory-copy.ts";
import { newServer, quiet, useMemoryServer } from "../support/memory-session.ts";
import { completeAndReady, copyInResponse, errorAndReady } from "../support/server-messages.ts";
import { slowSockets, written, type SlowSocket } from "../support/slow-socket.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
let socket: SlowSocket;
beforeEach(() => {
  newServer({ readsWhileIdle: true });
  socket = slowSockets();
});

/** Begins a COPY of pieces that each fill a write, over a socket that takes none of them. Counts the requested ones. */
async function begin(count: number) {
  const seen = { asked: 0, isLeft: false };
  async function* source() {
    try {
      for (; seen.asked < count; seen.asked++) yield await Promise.resolve(Buffer.alloc(PIECE));
    } finally {
      seen.isLeft = true;
    }
  }
  const { call, session } = await asked(source());
  socket.holds = true;
  session.send(copyInResponse());
  return { call, session, seen };
}

test("a source is asked for more once the socket has taken the previous piece", async () => {
  const { call, session, seen } = await begin(2);
  for (const count of [0, 1]) {
    expect(await written(session)).toEqual(["CopyData"]);
    await quiet();
    expect(seen.asked).toBe(count);
    socket.goOn();
  }
  expect(await written(session)).toEqual(["CopyDone"]);
  socket.goOn();
  session.send(completeAndReady("COPY 2"));
  expect(await call).toEqual({ command: "COPY", rowCount: 2 });
});

test("the server's error is received while the server takes no data, and the source is cancelled", async () => {
  const { call, session, seen } = await begin(9);
  expect(await written(session)).toEqual(["CopyData"]);
  // The notice before the error must not make the reader wait for the write.
  session.send(wire.noticeResponse({ S: "NOTICE", V: "NOTICE", C: "00000", M: "soon" }));
  await quiet();
  session.send(errorAndReady("22P02"));
  await expect(call).rejects.toMatchObject({ code: "22P02" });
  expect(seen).toEqual({ asked: 0, isLeft: true });
});

test("on a connection that was lost meanwhile the COPY fails at once", async () => {
  const lost = connectionLost("gone");
  const operate = () => {
    const operation = new Operation({});
    operation.end(lost);
    return operation;
  };
  const call = { finished: false, operate } as unknown as AnyCall;
  const session = { connection: {}, transaction: { begun: () => Promise.resolve(true) } } as unknown as OpenSession;
  await expect(copyIn(call, session, IN, () => expect.unreachable())).rejects.toBe(lost);
});
