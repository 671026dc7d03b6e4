// COPY through a pooler (js/statement/copy.ts), over sockets in memory: whether the connection can be used after a
// failed COPY.
import { expect, test } from "vitest";
import { accepted, client, letIn, quiet, useMemoryServer, type Session } from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const response = (letter: string) => wire.message(letter, Buffer.of(0), wire.int16(0));
const copyInResponse = () => response("G");
const copyOutResponse = () => response("H");
const failed = (C: string) =>
  Buffer.concat([wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no" }), wire.readyForQuery()]);
const complete = (tag: string) => Buffer.concat([wire.commandComplete(tag), wire.readyForQuery()]);

/** Reads the client's data up to the message that ends them. */
async function takeData(session: Session): Promise<void> {
  while ((await session.message())?.name === "CopyData");
}

/** Accepts the next session as a pooler: its process id is impossible on Linux. */
async function letInByPooler(): Promise<Session> {
  const session = await accepted();
  await session.flight();
  session.send(wire.authenticationOk(), wire.parameterStatus("integer_datetimes", "on"));
  session.send(wire.backendKeyData(0x7fffffff, wire.int32(9)), wire.readyForQuery());
  return session;
}

test.each([
  [
    "behind a pooler a COPY that fails after its data began ends the connection",
    letInByPooler,
    copyInResponse,
    failed("22P02"),
    "lost",
  ],
  ["behind a pooler a COPY that fails before its data keeps it", letInByPooler, undefined, failed("22P02"), "idle"],
  ["behind a pooler a COPY that succeeds keeps it", letInByPooler, copyInResponse, complete("COPY 1"), "idle"],
  ["without a pooler a COPY that fails keeps it", letIn, copyInResponse, failed("22P02"), "idle"],
] as const)("%s, because only a pooler may lose count of the answers", async (_, next, answer, end, state) => {
  const call = client.copyFrom("copy t from stdin", "a").catch(() => {});
  const session = await next();
  await session.flight();
  if (answer) {
    session.send(answer());
    await takeData(session);
  }
  session.send(end);
  await call;
  await quiet();
  expect(client.stats().state).toBe(state);
});

test("behind a pooler a COPY TO that fails keeps the connection", async () => {
  const call = client.copyTo("copy t to stdout").catch(() => {});
  const session = await letInByPooler();
  await session.flight();
  session.send(copyOutResponse(), failed("22012"));
  await call;
  await quiet();
  expect(client.stats().state).toBe("idle");
});
