// COPY on one connection (js/statement/copy.ts), over sockets in memory: what is sent, which error the call has, and
// that the connection can be used afterwards.
import { expect, test } from "vitest";
import {
  accepted,
  client,
  execution,
  int4,
  isPending,
  letIn,
  newClient,
  quiet,
  rows,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const describing = ["Parse", "Describe", "Sync"];
const response = (letter: string) => wire.message(letter, Buffer.of(0), wire.int16(0));
const copyInResponse = () => response("G");
const copyOutResponse = () => response("H");
const copyData = (text: string | Uint8Array) => wire.message("d", Buffer.from(text));
const copyDone = () => wire.message("c");
const failed = (C: string, status: "I" | "T" | "E" = "I") =>
  Buffer.concat([wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no" }), wire.readyForQuery(status)]);
const complete = (tag: string, status: "I" | "T" = "I") =>
  Buffer.concat([wire.commandComplete(tag), wire.readyForQuery(status)]);

/** Reads the client's data up to the message that ends them. */
async function dataOf(session: Session): Promise<{ data: string; end: string; words: string }> {
  let data = "";
  for (;;) {
    const message = await session.message();
    if (message?.name === "CopyData") data += message.body.toString();
    else return { data, end: message?.name ?? "end", words: message?.body.toString() ?? "" };
  }
}

/** Checks that another call on the same session succeeds. */
async function goesOn(session: Session): Promise<void> {
  const call = client.exec("select n");
  expect(await session.flight()).toEqual(describing);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.noData(), wire.readyForQuery());
  expect(await session.flight()).toEqual(execution);
  session.send(wire.parseComplete(), wire.bindComplete(), wire.noData(), complete("SET"));
  await call;
}

function sourceOf(...items: unknown[]) {
  const canceled: unknown[] = [];
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      const item = items.shift();
      if (item === undefined) return new Promise<void>(() => {});
      controller.enqueue(item as Uint8Array);
      return undefined;
    },
    cancel: (reason) => void canceled.push(reason),
  });
  return { stream, canceled };
}

test("copyFrom sends Query, and then data and CopyDone once the server asks for them", async () => {
  const call = client.copyFrom("copy t from stdin", ["a\n", "b\n"]);
  const session = await letIn();
  expect((await session.message())!.body.toString()).toBe("copy t from stdin\0");
  const answer = dataOf(session);
  expect(await isPending(answer)).toBe(true);
  session.send(copyInResponse());
  expect(await answer).toMatchObject({ data: "a\nb\n", end: "CopyDone" });
  expect(await isPending(call)).toBe(true);
  session.send(complete("COPY 2"));
  expect(await call).toEqual({ command: "COPY", rowCount: 2 });
  await goesOn(session);
});

test("copyTo passes on what the server sends, and counts its rows", async () => {
  const opening = client.copyTo("copy t to stdout");
  const session = await letIn();
  expect(await session.flight()).toEqual(["Query"]);
  session.send(copyOutResponse(), copyData("a\n"), copyData("b\n"), copyDone(), complete("COPY 2"));
  expect(await new Response(await opening).text()).toBe("a\nb\n");
  await goesOn(session);
});

// -- texts that are no such COPY -------------------------------------------------------------------------------------

test("copyFrom of a COPY TO is refused, and the server is cancelled", async () => {
  const { stream, canceled } = sourceOf("a");
  const call = client.copyFrom("copy t to stdout", stream);
  const session = await letIn();
  await session.flight();
  session.send(copyOutResponse(), copyData("a\n"));
  await expect(call).rejects.toMatchObject({ name: "UsageError", code: "COPY_NEEDS_COPY_CALL" });
  expect(canceled).toEqual(["nothing more is wanted"]);
  const cancel = await accepted();
  expect(await cancel.flight()).toEqual(["CancelRequest"]);
  cancel.peer.end();
  session.send(failed("57014"));
  await goesOn(session);
});

test("copyTo of a COPY FROM is refused with CopyFail, without a cancel", async () => {
  const call = client.copyTo("copy t from stdin");
  const session = await letIn();
  await session.flight();
  session.send(copyInResponse());
  await expect(call).rejects.toMatchObject({ name: "UsageError", code: "COPY_NEEDS_COPY_CALL" });
  expect(await dataOf(session)).toMatchObject({ data: "", end: "CopyFail" });
  const cancel = accepted();
  session.send(failed("57014"));
  await goesOn(session);
  expect(await isPending(cancel)).toBe(true);
});

test.each([
  ["rows", () => Buffer.concat([wire.rowDescription([int4]), rows(1, 2), complete("SELECT 1")])],
  ["a command", () => complete("SET")],
])("a server that answers COPY with %s makes the call fail as no COPY", async (_, answer) => {
  for (const call of [() => client.copyFrom("copy t from stdin", "a"), () => client.copyTo("copy t to stdout")]) {
    const asked = call();
    const session = await letIn();
    await session.flight();
    session.send(answer());
    await expect(asked).rejects.toMatchObject({ name: "UsageError", code: "COPY_NEEDS_COPY_CALL" });
    await goesOn(session);
    await client.close();
    newClient();
  }
});

// -- errors ----------------------------------------------------------------------------------------------------------

test("an error instead of an answer is the call's error, and the source is not read", async () => {
  const { stream, canceled } = sourceOf("a");
  const call = client.copyFrom("copy t from stdin", stream);
  const session = await letIn();
  await session.flight();
  session.send(failed("42P01"));
  await expect(call).rejects.toMatchObject({ name: "PostgresError", code: "42P01" });
  expect(canceled).toEqual(["nothing more is wanted"]);
  await goesOn(session);
});

test("an error while data are sent cancels an idle source, and is the call's error", async () => {
  const { stream, canceled } = sourceOf(Buffer.alloc(70_000, "a"));
  const call = client.copyFrom("copy t from stdin", stream);
  const session = await letIn();
  await session.flight();
  session.send(copyInResponse());
  expect((await session.message())!.name).toBe("CopyData");
  expect(await isPending(call)).toBe(true);
  session.send(failed("22P02"));
  await expect(call).rejects.toMatchObject({ name: "PostgresError", code: "22P02" });
  await quiet();
  expect(canceled).toEqual(["nothing more is wanted"]);
  await goesOn(session);
});

test.each([
  ["its own error as the cause", new Error("secret"), { name: "PgzError", code: "COPY_SOURCE_FAILED" }],
  ["a value that it cannot send", undefined, { name: "UsageError", code: "INVALID_PARAMETER" }],
])("a source that fails ends the COPY with %s, whose text is not sent to the server", async (_, cause, error) => {
  const source = {
    *[Symbol.iterator]() {
      yield "a\n";
      if (cause) throw cause;
      yield 5 as never;
    },
  };
  const call = client.copyFrom("copy t from stdin", source);
  const session = await letIn();
  await session.flight();
  session.send(copyInResponse());
  const { end, words } = await dataOf(session);
  expect([end, words]).toEqual(["CopyFail", "The source of the data failed, so nothing was stored.\0"]);
  expect(await isPending(call)).toBe(true);
  session.send(failed("57014"));
  await expect(call).rejects.toMatchObject({ ...error, ...(cause && { cause }) });
  await goesOn(session);
});

test("an error of the server takes precedence over an error that the source makes of it", async () => {
  let fail = (_: Error) => {};
  const source = {
    [Symbol.asyncIterator]: () => ({
      next: () => new Promise<never>((_, reject) => (fail = reject)),
    }),
  };
  const call = client.copyFrom("copy t from stdin", source);
  const session = await letIn();
  await session.flight();
  session.send(copyInResponse());
  await quiet();
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "53100", M: "no" }));
  await quiet();
  fail(new Error("mine"));
  await quiet();
  session.send(wire.readyForQuery());
  await expect(call).rejects.toMatchObject({ code: "53100" });
  await goesOn(session);
});

test("a lost connection ends a COPY that waits for its answer, and one that waits for its source", async () => {
  for (const isAnswered of [false, true]) {
    const { stream, canceled } = sourceOf();
    const call = client.copyFrom("copy t from stdin", stream);
    const session = await letIn();
    await session.flight();
    if (isAnswered) session.send(copyInResponse());
    await quiet();
    session.peer.end();
    await expect(call).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
    await quiet();
    expect(canceled).toEqual(["nothing more is wanted"]);
  }
});

test("an abort ends the data and cancels the source", async () => {
  const abort = new AbortController();
  const { stream, canceled } = sourceOf("a");
  const call = client.copyFrom("copy t from stdin", stream, { signal: abort.signal });
  const session = await letIn();
  await session.flight();
  session.send(copyInResponse());
  await quiet();
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED", retryable: false });
  await quiet();
  expect(canceled).toEqual(["nothing more is wanted"]);
  expect((await dataOf(session)).end).toMatch(/^Copy(Done|Fail)$/);
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(failed("57014"));
  await goesOn(session);
});

test("an abort before the server has answered sends no data", async () => {
  const abort = new AbortController();
  const { stream, canceled } = sourceOf("a");
  const call = client.copyFrom("copy t from stdin", stream, { signal: abort.signal });
  const session = await letIn();
  await session.flight();
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED" });
  expect(canceled).toEqual(["nothing more is wanted"]);
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(copyInResponse());
  expect(await dataOf(session)).toMatchObject({ data: "", end: "CopyFail" });
  session.send(failed("57014"));
  await goesOn(session);
});

// -- more than one statement -----------------------------------------------------------------------------------------

test("a text that may be two statements is parsed by the server first, and does not run if refused", async () => {
  const text = "copy t from stdin; drop table t";
  const refused = client.copyFrom(text, "a");
  const session = await letIn();
  expect(await session.flight()).toEqual(describing);
  session.send(failed("42601"));
  await expect(refused).rejects.toMatchObject({ code: "42601" });
  const read = client.copyTo("copy t to stdout; select 1");
  expect(await session.flight()).toEqual(describing);
  session.send(failed("42601"));
  await expect(read).rejects.toMatchObject({ code: "42601" });

  for (const asksFirst of [true, false]) {
    const call = client.copyFrom("copy t from stdin delimiter '\\';'", "a");
    if (asksFirst) {
      expect(await session.flight()).toEqual(describing);
      session.send(wire.parseComplete(), wire.parameterDescription([]), wire.noData(), wire.readyForQuery());
    }
    expect(await session.flight()).toEqual(["Query"]);
    session.send(copyInResponse());
    await dataOf(session);
    session.send(complete("COPY 1"));
    await call;
  }
});

test("in a transaction BEGIN is sent first and alone, and COPY is not sent if BEGIN fails", async () => {
  for (const text of ["copy t from stdin", "copy t from stdin; drop table t"]) {
    const transaction = client.transaction((tx) => tx.copyFrom(text, "a"));
    const session = await letIn();
    expect((await session.message())!.body.toString()).toBe("BEGIN\0");
    session.send(failed("25006"));
    await expect(transaction).rejects.toMatchObject({ code: "25006" });
    await goesOn(session);
    await client.close();
    newClient();
  }
  const transaction = client.transaction((tx) => tx.copyFrom("copy t from stdin", "a"));
  const session = await letIn();
  expect((await session.message())!.body.toString()).toBe("BEGIN\0");
  session.send(complete("BEGIN", "T"));
  expect((await session.message())!.body.toString()).toBe("copy t from stdin\0");
  session.send(copyInResponse());
  await dataOf(session);
  session.send(complete("COPY 1", "T"));
  expect((await session.message())!.body.toString()).toBe("COMMIT\0");
  session.send(complete("COMMIT"));
  expect(await transaction).toEqual({ command: "COPY", rowCount: 1 });
});

// -- rows ------------------------------------------------------------------------------------------------------------

const SIGNATURE = Buffer.concat([Buffer.from("PGCOPY\n\xff\r\n\0", "latin1"), Buffer.alloc(8)]);

async function all<Row>(loop: AsyncIterable<Row>): Promise<Row[]> {
  const found: Row[] = [];
  for await (const row of loop) found.push(row);
  return found;
}

test("copyToRows describes the query, and reads its rows with COPY in binary", async () => {
  const reading = all(client.copyToRows("select n from t -- one\n;"));
  const session = await letIn();
  expect(await session.flight()).toEqual(describing);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  // A comment at the end of the query must not swallow the rest.
  expect((await session.message())!.body.toString()).toBe(
    "copy (select n from t -- one\n\n) to stdout (format binary)\0",
  );
  const row = (n: number) => Buffer.concat([wire.int16(1), wire.int32(4), wire.int32(n)]);
  session.send(copyOutResponse(), copyData(SIGNATURE), copyData(row(7)), copyData(row(8)));
  session.send(copyData(wire.int16(-1)), copyDone(), complete("COPY 2"));
  expect(await reading).toEqual([{ n: 7 }, { n: 8 }]);
  await goesOn(session);
});

test.each([
  ["a parameter", [23], [int4], "INVALID_QUERY", "parameters"],
  ["a column without binary form", [], [int4, { name: "m", oid: 790, size: 8 }], "INVALID_QUERY", '"m"'],
] as const)("copyToRows refuses a query with %s before it runs", async (_, parameters, columns, code, word) => {
  const reading = all(client.copyToRows("select n from t"));
  const session = await letIn();
  await session.flight();
  session.send(wire.parseComplete(), wire.parameterDescription([...parameters]), wire.rowDescription([...columns]));
  session.send(wire.readyForQuery());
  await expect(reading).rejects.toMatchObject({ name: "UsageError", code, message: expect.stringContaining(word) });
  await goesOn(session);
});

test("copyToRows in a transaction begins the transaction first", async () => {
  const transaction = client.transaction((tx) => all(tx.copyToRows("select n from t")));
  const session = await letIn();
  expect((await session.message())!.body.toString()).toBe("BEGIN\0");
  session.send(failed("25006"));
  await expect(transaction).rejects.toMatchObject({ code: "25006" });
});

test("an onProgress that never resolves holds up neither an aborted call nor its connection", async () => {
  const abort = new AbortController();
  const onProgress = () => new Promise<void>(() => {});
  const call = client.copyFrom("copy t from stdin", "1\n", { onProgress, signal: abort.signal });
  const code = call.catch((error: { code: string }) => error.code);
  const session = await letIn();
  await session.flight();
  session.send(copyInResponse());
  expect((await session.message())?.name).toBe("CopyData");
  await quiet();
  abort.abort();
  expect(await code).toBe("ABORTED");
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(failed("57014"));
  expect((await session.message())?.name).toBe("CopyFail");
  await goesOn(session);
});
