// COPY on one connection (js/statement/copy.ts), over sockets in memory: what is sent, which error the call has, and
// that the connection can be used afterwards. copy-socket.test.ts has sockets that take data slowly.
import { expect, test } from "vitest";
import { allOf, asked, askedForData, copiesAgain, dataOf, IN, OUT, watched } from "../support/memory-copy.ts";
import {
  acceptCancel,
  accepted,
  client,
  isPending,
  letIn,
  letInByPooler,
  newClient,
  queryText,
  quiet,
  useMemoryServer,
} from "../support/memory-session.ts";
import {
  completeAndReady,
  copyData,
  copyInResponse,
  copyOutResponse,
  description,
  ran,
  errorAndReady,
  errorResponse,
  int4,
  rows,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const describing = ["Parse", "Describe", "Sync"];

// -- answers that are no such COPY -----------------------------------------------------------------------------------

const columns = wire.rowDescription([int4]);
const wrong = { name: "UsageError", code: "COPY_NEEDS_COPY_CALL" };

test.each([
  ["copyFrom", "a command", [completeAndReady("SET")], false],
  ["copyTo", "a command", [completeAndReady("SET")], false],
  ["copyFrom", "rows and their end", [columns, rows(1, 2), completeAndReady("SELECT 1")], false],
  ["copyTo", "rows and their end", [columns, rows(1, 2), completeAndReady("SELECT 1")], false],
  ["copyFrom", "endless rows", [columns, rows(1, 2)], true],
  ["copyTo", "endless rows", [columns, rows(1, 2)], true],
  ["copyFrom", "data", [copyOutResponse(), copyData("a\n")], true],
] as const)(
  "%s that is answered with %s is refused, and cancelled if the answer has no end",
  async (way, _, answer, isCancelled) => {
    const { stream, told } = watched("a");
    const call = expect(way === "copyTo" ? client.copyTo(OUT) : client.copyFrom(IN, stream)).rejects.toMatchObject(
      wrong,
    );
    const session = await letIn();
    await session.flight();
    session.send(...answer);
    await call;
    expect(told).toEqual(way === "copyTo" ? [] : ["left"]);
    if (isCancelled) {
      await acceptCancel();
      session.send(errorAndReady("57014"));
    }
    await copiesAgain(session);
  },
);

test("copyTo of a COPY FROM is refused with CopyFail, without a cancel", async () => {
  const call = client.copyTo(OUT);
  const session = await letIn();
  await session.flight();
  session.send(copyInResponse());
  await expect(call).rejects.toMatchObject(wrong);
  expect(await dataOf(session)).toMatchObject({ data: "", end: "CopyFail" });
  const cancel = accepted();
  session.send(errorAndReady("57014"));
  await copiesAgain(session);
  expect(await isPending(cancel)).toBe(true);
});

// -- errors ----------------------------------------------------------------------------------------------------------

test("an error directly after CopyInResponse leaves the source unread, and nothing is sent", async () => {
  const { stream, told } = watched("a");
  const { call, session } = await asked(stream);
  session.send(copyInResponse(), errorAndReady("53100"));
  await expect(call).rejects.toMatchObject({ name: "PostgresError", code: "53100" });
  expect(told).toEqual(["left"]);
  await copiesAgain(session);
});

test.each([
  ["its own error as the cause", new Error("secret"), { name: "PgzError", code: "COPY_SOURCE_FAILED" }],
  ["a value that it cannot send", undefined, { name: "UsageError", code: "INVALID_PARAMETER" }],
])("a source that fails ends the COPY with %s, whose text is not sent to the server", async (_, cause, error) => {
  const source = {
    *[Symbol.iterator]() {
      yield "a\n";
      if (cause) throw cause;
      yield 5;
    },
  };
  const { call, session } = await askedForData(source);
  const { end, words } = await dataOf(session);
  expect([end, words]).toEqual(["CopyFail", "The source of the data failed, so nothing was stored.\0"]);
  expect(await isPending(call)).toBe(true);
  session.send(errorAndReady("57014"));
  await expect(call).rejects.toMatchObject({ ...error, ...(cause && { cause }) });
  await copiesAgain(session);
});

test("an error of the server takes precedence over an error that the source makes of it", async () => {
  let fail = (_: Error) => {};
  const next = () => new Promise<never>((_, reject) => (fail = reject));
  const { call, session } = await askedForData({ [Symbol.asyncIterator]: () => ({ next }) });
  await quiet();
  session.send(errorResponse("53100"));
  await quiet();
  fail(new Error("mine"));
  await quiet();
  session.send(wire.readyForQuery());
  await expect(call).rejects.toMatchObject({ code: "53100" });
  await copiesAgain(session);
});

test.each([
  ["its answer", asked],
  ["its source", askedForData],
])("a lost connection ends a COPY that waits for %s", async (_, ask) => {
  const { stream, told } = watched();
  const { call, session } = await ask(stream);
  await quiet();
  session.peer.end();
  await expect(call).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
  await quiet();
  expect(told.at(-1)).toBe("left");
});

test("an abort ends the data and cancels the source", async () => {
  const abort = new AbortController();
  const { stream, told } = watched("a");
  const { call, session } = await askedForData(stream, { signal: abort.signal });
  await quiet();
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED", hasNoEffect: false });
  await quiet();
  expect(told).toEqual(["asked", "asked", "left"]);
  expect((await dataOf(session)).end).toMatch(/^Copy(Done|Fail)$/);
  await acceptCancel();
  session.send(errorAndReady("57014"));
  await copiesAgain(session);
});

test("an abort before the server has answered sends no data", async () => {
  const abort = new AbortController();
  const { stream, told } = watched("a");
  const { call, session } = await asked(stream, { signal: abort.signal });
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED" });
  expect(told).toEqual(["left"]);
  await acceptCancel();
  session.send(copyInResponse());
  expect(await dataOf(session)).toMatchObject({ data: "", end: "CopyFail" });
  session.send(errorAndReady("57014"));
  await copiesAgain(session);
});

test.each([
  ["that ends the call", true],
  ["that never resolves", false],
])("an onProgress %s holds up neither the aborted call nor its connection", async (_, abortsItself) => {
  const abort = new AbortController();
  const onProgress = () => {
    if (abortsItself) abort.abort();
    return new Promise<void>(() => {});
  };
  const { call, session } = await askedForData("1\n", { onProgress, signal: abort.signal });
  expect((await session.message())?.name).toBe("CopyData");
  await quiet();
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED" });
  // At once, not after the server has sent something.
  expect((await session.message())?.name).toMatch(/^Copy(Done|Fail)$/);
  await acceptCancel();
  session.send(errorAndReady("57014"));
  await copiesAgain(session);
});

// -- what precedes COPY ----------------------------------------------------------------------------------------------

test("a text that may be two statements is parsed by the server first, and does not run if refused", async () => {
  const refused = client.copyFrom("copy t from stdin; drop table t", "a");
  const session = await letIn();
  expect(await session.flight()).toEqual(describing);
  session.send(errorAndReady("42601"));
  await expect(refused).rejects.toMatchObject({ code: "42601" });
  const read = client.copyTo("copy t to stdout; select 1");
  expect(await session.flight()).toEqual(describing);
  session.send(errorAndReady("42601"));
  await expect(read).rejects.toMatchObject({ code: "42601" });

  for (const asksFirst of [true, false]) {
    const call = client.copyFrom("copy t from stdin delimiter '\\';'", "a");
    if (asksFirst) {
      expect(await session.flight()).toEqual(describing);
      session.send(description([]));
    }
    expect(await session.flight()).toEqual(["Query"]);
    session.send(copyInResponse());
    await dataOf(session);
    session.send(completeAndReady("COPY 1"));
    await call;
  }
});

test("in a transaction COPY is not sent if BEGIN fails, which is sent alone or with the question for columns", async () => {
  for (const text of [IN, `${IN}; drop table t`, undefined]) {
    const transaction = client.transaction(async (tx) =>
      text ? await tx.copyFrom(text, "a") : await allOf(tx.copyToRows("select n from t")),
    );
    const session = await letIn();
    if (text) expect(await queryText(session)).toBe("BEGIN");
    else expect(await session.flight()).toEqual(["Parse", "Bind", "Execute", "Parse", "Describe", "Sync"]);
    session.send(errorAndReady("25006"));
    await expect(transaction).rejects.toMatchObject({ code: "25006" });
    await copiesAgain(session);
    await client.close();
    newClient();
  }
});

test.each([
  ["a parameter", [23], [int4], "parameters"],
  ["a column without binary form", [], [int4, { name: "m", oid: 790, size: 8 }], '"m"'],
] as const)("copyToRows refuses a query with %s before it runs", async (_, parameters, columns, word) => {
  const reading = allOf(client.copyToRows("select n from t"));
  const session = await letIn();
  await session.flight();
  session.send(ran("BEGIN"), description([...columns], [...parameters], "T"));
  expect(await queryText(session)).toBe("ROLLBACK");
  session.send(completeAndReady("ROLLBACK"));
  const message = expect.stringContaining(word);
  await expect(reading).rejects.toMatchObject({ name: "UsageError", code: "INVALID_QUERY", message });
  await copiesAgain(session);
});

// -- poolers ---------------------------------------------------------------------------------------------------------

const begins = copyInResponse();
const ends = copyOutResponse();

// Only a pooler may lose count of the answers, and only after the client has sent data.
test.each([
  [
    "through a pooler a COPY FROM that fails after its data began",
    letInByPooler,
    [begins],
    errorAndReady("22P02"),
    "lost",
  ],
  ["through a pooler a COPY FROM that fails before its data", letInByPooler, [], errorAndReady("22P02"), "idle"],
  ["through a pooler a COPY FROM that succeeds", letInByPooler, [begins], completeAndReady("COPY 1"), "idle"],
  ["through a pooler a COPY TO that fails", letInByPooler, [ends], errorAndReady("22012"), "idle"],
  ["without a pooler a COPY FROM that fails", letIn, [begins], errorAndReady("22P02"), "idle"],
] as const)("%s leaves its connection in this state", async (_, next, answer, end, state) => {
  const call = (answer[0] === ends ? client.copyTo(OUT) : client.copyFrom(IN, "a")).catch(() => {});
  const session = await next();
  await session.flight();
  session.send(...answer);
  if (answer[0] === begins) await dataOf(session);
  session.send(end);
  await call;
  await quiet();
  expect(client.stats().state).toBe(state);
});
