// COPY FROM over a socket that takes its time, and at the ends of a connection (js/statement/copy.ts): who waits for
// whom, and that nothing is sent to a server that wants no data any more.
import { beforeEach, expect, test } from "vitest";
import { PIECE } from "../../js/util/limits.ts";
import {
  accepted,
  client,
  isPending,
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
const done = (tag: string, status: "I" | "T" = "I") =>
  Buffer.concat([wire.commandComplete(tag), wire.readyForQuery(status)]);

async function goesOn(session: Session): Promise<void> {
  const call = client.copyFrom("copy t from stdin", "a");
  expect(await session.flight()).toEqual(["Query"]);
  session.send(copyInResponse());
  for (const name of ["CopyData", "CopyDone"]) expect((await session.message())!.name).toBe(name);
  session.send(done("COPY 1"));
  expect(await call).toEqual({ command: "COPY", rowCount: 1 });
}

/** A source of pieces that each fill a write, and how many it was asked for. */
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

test("a source is asked for more when the socket has taken what it gave", async () => {
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

test("the server's error is heard while it takes no data, and the source is left", async () => {
  const { seen, source } = pieces(9);
  const call = client.copyFrom("copy t from stdin", source);
  const session = await letIn();
  await session.flight();
  socket.holds = true;
  session.send(copyInResponse());
  expect(await written(session)).toEqual(["CopyData"]);
  session.send(error("22P02"), wire.readyForQuery());
  await expect(call).rejects.toMatchObject({ code: "22P02" });
  expect(seen).toEqual({ asked: 0, isLeft: true });
});

test("an error that comes with the answer leaves the source alone, and nothing is sent", async () => {
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

test("a COPY in a transaction whose connection is gone fails at once", async () => {
  const transaction = client.transaction(async (tx) => {
    await tx.copyFrom("copy t from stdin", "a");
    session.peer.reset();
    await quiet();
    return tx.copyFrom("copy t from stdin", "b");
  });
  const ending = expect(transaction).rejects.toMatchObject({ code: "CONNECTION_LOST" });
  const session = await letIn();
  expect(await session.flight()).toEqual(["Query"]);
  session.send(done("BEGIN", "T"));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(copyInResponse());
  for (const name of ["CopyData", "CopyDone"]) expect((await session.message())!.name).toBe(name);
  session.send(done("COPY 1", "T"));
  await ending;
  expect(await isPending(accepted())).toBe(true);
});
