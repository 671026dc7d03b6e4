// COPY FROM over a slow socket, and when a connection ends (js/statement/copy.ts): which side waits for which, and that
// nothing is sent once the server wants no more data.
import { beforeEach, expect, test } from "vitest";
import { Operation } from "../../js/connection/operation.ts";
import type { AnyCall } from "../../js/session/call.ts";
import type { Session as OpenSession } from "../../js/session/session.ts";
import { connectionLost } from "../../js/sockets/contract.ts";
import { copyIn } from "../../js/statement/copy.ts";
import { PIECE } from "../../js/util/limits.ts";
import {
  accepted,
  client,
  int4,
  letIn,
  newServer,
  quiet,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { slowSockets, written, type SlowSocket } from "../support/slow-socket.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
let socket: SlowSocket;
beforeEach(() => {
  newServer({ readsWhileIdle: true });
  socket = slowSockets();
});

const copyInResponse = () => wire.message("G", Buffer.of(0), wire.int16(0));
const error = (C: string) => wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no" });
const done = (tag: string) => Buffer.concat([wire.commandComplete(tag), wire.readyForQuery()]);

async function goesOn(session: Session): Promise<void> {
  const call = client.copyFrom("copy t from stdin", "a");
  expect(await session.flight()).toEqual(["Query"]);
  session.send(copyInResponse());
  for (const name of ["CopyData", "CopyDone"]) expect((await session.message())!.name).toBe(name);
  session.send(done("COPY 1"));
  expect(await call).toEqual({ command: "COPY", rowCount: 1 });
}

/** A source of pieces that each fill a write, and a counter of the requested pieces. */
function pieces(count: number) {
  const seen = { asked: 0, isLeft: false };
  async function* source() {
    try {
      for (; seen.asked < count; seen.asked++) yield await Promise.resolve(Buffer.alloc(PIECE));
    } finally {
      seen.isLeft = true;
    }
  }
  return { seen, source: source() };
}

test("a source is asked for more once the socket has taken the previous piece", async () => {
  const { seen, source } = pieces(2);
  const call = client.copyFrom("copy t from stdin", source);
  const session = await letIn();
  await session.flight();
  socket.holds = true;
  session.send(copyInResponse());
  for (const asked of [0, 1]) {
    expect(await written(session)).toEqual(["CopyData"]);
    await quiet();
    expect(seen.asked).toBe(asked);
    socket.goOn();
  }
  expect(await written(session)).toEqual(["CopyDone"]);
  socket.goOn();
  session.send(done("COPY 2"));
  expect(await call).toEqual({ command: "COPY", rowCount: 2 });
});

test("the server's error is received while the server takes no data, and the source is cancelled", async () => {
  const { seen, source } = pieces(9);
  const call = client.copyFrom("copy t from stdin", source);
  const session = await letIn();
  await session.flight();
  socket.holds = true;
  session.send(copyInResponse());
  expect(await written(session)).toEqual(["CopyData"]);
  // The notice before the error must not make the reader wait for the write.
  session.send(wire.noticeResponse({ S: "NOTICE", V: "NOTICE", C: "00000", M: "soon" }));
  await quiet();
  session.send(error("22P02"), wire.readyForQuery());
  await expect(call).rejects.toMatchObject({ code: "22P02" });
  expect(seen).toEqual({ asked: 0, isLeft: true });
});

test("an error instead of CopyInResponse leaves the source unread, and nothing is sent", async () => {
  let isRead = false;
  const source = {
    *[Symbol.iterator]() {
      isRead = true;
      yield "a";
    },
  };
  const call = client.copyFrom("copy t from stdin", source);
  const session = await letIn();
  await session.flight();
  session.send(copyInResponse(), error("53100"), wire.readyForQuery());
  await expect(call).rejects.toMatchObject({ code: "53100" });
  expect(isRead).toBe(false);
  await goesOn(session);
});

test("a long text is sent whole, in several writes", async () => {
  const text = "abc\n".repeat(PIECE);
  const call = client.copyFrom("copy t from stdin", text);
  const session = await letIn();
  await session.flight();
  session.send(copyInResponse());
  let data = "";
  for (let message = await session.message(); message!.name === "CopyData"; message = await session.message())
    data += message!.body.toString();
  expect(data === text).toBe(true);
  session.send(done("COPY 1"));
  await call;
});

test.each(["copyFrom", "copyTo"] as const)(
  "unexpected rows instead of what %s wants are cancelled before their end",
  async (way) => {
    const call = way === "copyTo" ? client.copyTo("copy t to stdout") : client.copyFrom("copy t from stdin", "a");
    const ending = expect(call).rejects.toMatchObject({ code: "COPY_NEEDS_COPY_CALL" });
    const session = await letIn();
    await session.flight();
    session.send(wire.rowDescription([int4]), wire.dataRow([Buffer.from("1")]));
    await ending;
    const cancel = await accepted();
    expect(await cancel.flight()).toEqual(["CancelRequest"]);
    cancel.peer.end();
    session.send(error("57014"), wire.readyForQuery());
    await goesOn(session);
  },
);

test("an onProgress that ends the call is not waited for", async () => {
  const abort = new AbortController();
  const onProgress = () => (abort.abort(), new Promise<void>(() => {}));
  const call = client.copyFrom("copy t from stdin", "a", { onProgress, signal: abort.signal });
  const ending = expect(call).rejects.toMatchObject({ code: "ABORTED" });
  const session = await letIn();
  await session.flight();
  session.send(copyInResponse());
  expect((await session.message())!.name).toBe("CopyData");
  await ending;
  // At once, not after the server has sent something.
  expect((await session.message())!.name).toMatch(/^Copy(Done|Fail)$/);
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(error("57014"), wire.readyForQuery());
  await goesOn(session);
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
  await expect(copyIn(call, session, "copy t from stdin", () => expect.unreachable())).rejects.toBe(lost);
});
