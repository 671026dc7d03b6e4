// COPY as a call (js/api/calls.ts), over sockets in memory: what is sent, what is returned, and what a source is told
// about a refused call. copy.test.ts has how a COPY ends.
import { beforeEach, expect, test, vi } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import { allOf, dataOf, IN, OUT, watched } from "../support/memory-copy.ts";
import {
  client,
  failure,
  isPending,
  letInKnowing,
  newClient,
  queryText,
  quiet,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import {
  binaryCopy,
  binaryRow,
  completeAndReady,
  copyData,
  copyDone,
  copyInResponse,
  copyOutResponse,
  description,
  division,
  errorResponse,
  ran,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed", flushInterval: 0 }));

// -- COPY FROM --------------------------------------------------------------------------------------------------------

test("copyFrom sends the source's data and returns how many rows the server stored", async () => {
  const session = await letInKnowing();
  const progress = vi.fn();
  const call = client.copyFrom(IN, ["1\n", "2\n"], { onProgress: progress });
  expect(await queryText(session)).toBe(IN);
  session.send(copyInResponse());
  expect(await dataOf(session)).toMatchObject({ data: "1\n2\n", end: "CopyDone" });
  expect(await isPending(call)).toBe(true);
  session.send(completeAndReady("COPY 2"));
  expect(await call).toEqual({ command: "COPY", rowCount: 2 });
  expect(progress.mock.calls.at(-1)).toEqual([expect.objectContaining({ bytes: 4 })]);
});

test.each([
  ["no COPY", "select 1", {}, "COPY_NEEDS_COPY_CALL"],
  ["an unknown option", IN, { onprogress: () => {} }, "UNKNOWN_OPTION"],
  ["a signal that has aborted", IN, { signal: AbortSignal.abort() }, "ABORTED"],
])("a source is cancelled when copyFrom is refused for %s", async (_, input, options, code) => {
  const { stream, told } = watched();
  await expect(client.copyFrom(input, stream, options as never)).rejects.toMatchObject({ code });
  await quiet();
  expect(told).toEqual(["left"]);
});

test("a source is cancelled without being read when the server refuses the COPY", async () => {
  const session = await letInKnowing();
  const { stream, told } = watched();
  const call = failure(client.copyFrom(IN, stream));
  await queryText(session);
  session.send(division(), wire.readyForQuery());
  expect(await call).toMatchObject({ code: "22012" });
  await quiet();
  expect(told).toEqual(["left"]);
});

test("a source that was being read is cancelled once, by its reader", async () => {
  const session = await letInKnowing();
  const { stream, told } = watched();
  const call = failure(client.copyFrom(IN, stream));
  await queryText(session);
  session.send(copyInResponse());
  await quiet();
  session.send(division());
  await quiet();
  session.send(wire.readyForQuery());
  expect(await call).toMatchObject({ code: "22012" });
  await quiet();
  expect(told).toEqual(["asked", "left"]);
});

test("a source's own `cancel` is not called after the source was read to its end", async () => {
  const session = await letInKnowing();
  const cancel = vi.fn(() => Promise.resolve());
  const call = client.copyFrom(IN, Object.assign(["1\n"], { cancel }));
  await queryText(session);
  session.send(copyInResponse());
  await dataOf(session);
  session.send(completeAndReady("COPY 1"));
  expect(await call).toMatchObject({ rowCount: 1 });
  expect(cancel).not.toHaveBeenCalled();
});

// -- rows -------------------------------------------------------------------------------------------------------------

/** Answers the query for columns, which begins a transaction, and returns its text. */
async function describe(session: Session, ...columns: { name: string; oid: number }[]): Promise<string> {
  const parsed: string[] = [];
  while (parsed.length < 2) {
    const { name, body } = (await session.message())!;
    if (name === "Parse") parsed.push(body.toString().split("\0")[1]!);
  }
  expect(parsed[0]).toBe("BEGIN");
  await session.flight();
  session.send(ran("BEGIN"), description(columns, [], "T"));
  return parsed[1]!;
}

/** The answer to a COPY that commits its own transaction. */
const committed = (tag: string) => Buffer.concat([wire.commandComplete(tag), completeAndReady("COMMIT")]);

test.each([
  ["a name", "odd table", '"odd table"'],
  ["an identifier", sql.identifier("s", "t"), '"s"."t"'],
] as const)("copyFromRows asks for the columns of %s, and sends rows in binary", async (_, table, name) => {
  const session = await letInKnowing();
  const progress = vi.fn();
  const call = client.copyFromRows(table as string, ["id"], [[7], { id: 8 }], { onProgress: progress });
  expect(await describe(session, { name: "id", oid: 23 })).toBe(`select "id" from ${name}`);
  expect(await queryText(session)).toBe(`copy ${name} ("id") from stdin (format binary); commit`);
  session.send(copyInResponse(1));
  const { data, end } = await dataOf(session);
  expect(data).toContain(Buffer.concat([binaryRow(7), binaryRow(8)]).toString("latin1"));
  expect(end).toBe("CopyDone");
  session.send(committed("COPY 2"));
  expect(await call).toEqual({ command: "COPY", rowCount: 2 });
  expect(progress.mock.calls.at(-1)).toEqual([expect.objectContaining({ rows: 2 })]);
});

test("several columns are one list, and values are written as option `serialize` says", async () => {
  newClient({ prepare: "unnamed", serialize: (value: unknown) => (value instanceof Map ? "a map" : value) as never });
  const session = await letInKnowing();
  const call = client.copyFromRows("t", ["a", "b"], [[new Map(), "x"]]);
  const columns = ["a", "b"].map((name) => ({ name, oid: 25 }));
  expect(await describe(session, ...columns)).toBe('select "a", "b" from "t"');
  expect(await queryText(session)).toMatch(/^copy "t" \("a", "b"\) from stdin/);
  session.send(copyInResponse(1));
  expect((await dataOf(session)).data).toContain("a map");
  session.send(committed("COPY 1"));
  expect(await call).toMatchObject({ rowCount: 1 });
});

test("a call that is aborted while columns are described begins no COPY", async () => {
  const session = await letInKnowing();
  const abort = new AbortController();
  const call = failure(client.copyFromRows("t", ["id"], [[7]], { signal: abort.signal }));
  await session.flight();
  abort.abort();
  expect(await call).toMatchObject({ code: "ABORTED" });
});

test.each([
  ["no columns", ["t", [], [[1]]], "INVALID_QUERY"],
  ["columns that are no list", ["t", "id", [[1]]], "INVALID_QUERY"],
  ["a column that is no name", ["t", [5], [[1]]], "INVALID_QUERY"],
  ["options that are none", ["t", ["id"], [[1]], 5], "INVALID_OPTION"],
  ["a misspelt option", ["t", ["id"], [[1]], { onprogress: () => {} }], "UNKNOWN_OPTION"],
  ["a table with a value", [sql`t${1}`, ["id"], [[1]]], "INVALID_QUERY"],
] as const)("copyFromRows with %s is refused", async (_, given, code) => {
  const call = client.copyFromRows(...(given as unknown as Parameters<typeof client.copyFromRows>));
  await expect(call).rejects.toMatchObject({ name: "UsageError", code });
  expect(client.stats().state).toBe("new");
});

// -- COPY TO ----------------------------------------------------------------------------------------------------------

test("copyTo returns the data as they arrive, from the first chunk on", async () => {
  const session = await letInKnowing();
  const call = client.copyTo(OUT);
  expect(await queryText(session)).toBe(OUT);
  session.send(copyOutResponse());
  expect(await isPending(call)).toBe(true);
  session.send(copyData("1\n"));
  const stream = await call;
  await expect(client.query("select n")).rejects.toMatchObject({ code: "STREAM_OPEN" });
  session.send(copyData("2\n"), copyDone(), completeAndReady("COPY 2"));
  expect(await new Response(stream).text()).toBe("1\n2\n");
});

test("copyTo accepts limits, and an exceeded limit is an error, whatever the client's option says", async () => {
  newClient({ prepare: "unnamed", flushInterval: 0, onLimit: "truncate" });
  const session = await letInKnowing();
  const call = failure(client.copyTo(OUT, { maxRows: 1 }));
  await queryText(session);
  session.send(copyOutResponse(), copyData("1\n"), copyData("2\n"), copyDone(), completeAndReady("COPY 2"));
  expect(await call).toMatchObject({ name: "ResponseTooLargeError", limit: "rows" });
});

test.each([
  ["no COPY", "select 1", {}, "COPY_NEEDS_COPY_CALL"],
  ["options that are none", OUT, 5, "INVALID_OPTION"],
  ["a wrong limit", OUT, { maxRows: -1 }, "INVALID_OPTION"],
])("copyTo is refused for %s", async (_, input, options, code) => {
  await expect(client.copyTo(input, options as never)).rejects.toMatchObject({ name: "UsageError", code });
  expect(client.stats().state).toBe("new");
});

test("copyToRows returns the rows of a binary COPY of the query", async () => {
  const session = await letInKnowing();
  // A comment at the end of the query must not swallow the rest.
  const looping = allOf(client.copyToRows("select n -- one\n;"));
  expect(await describe(session, { name: "n", oid: 23 })).toBe("select n -- one\n;");
  expect(await queryText(session)).toBe("copy (select n -- one\n\n) to stdout (format binary); commit");
  session.send(binaryCopy(7, 8), committed("COPY 2"));
  expect(await looping).toEqual([{ n: 7 }, { n: 8 }]);
});

test("copyToRows accepts no parameters, and reports when its rows are cut off", async () => {
  expect(() => client.copyToRows(sql`select ${1}`)).toThrow(expect.objectContaining({ code: "INVALID_QUERY" }));
  newClient({ prepare: "unnamed", onLimit: "truncate", maxRows: 1 });
  const session = await letInKnowing();
  const looping = failure(allOf(client.copyToRows("select n")));
  await describe(session, { name: "n", oid: 23 });
  await queryText(session);
  session.send(binaryCopy(7, 7, 7), committed("COPY 3"));
  expect(await looping).toMatchObject({ name: "ResponseTooLargeError", limit: "rows" });
});

// -- what observers are told ------------------------------------------------------------------------------------------

const refusedAt8 = () => errorResponse("42703", { M: "no such column", P: "8" });

test.each([
  ["copyFrom", () => client.copyFrom(IN, ["1"]), IN],
  ["copyFromRows", () => client.copyFromRows("t", ["id"], [[7]]), 'copy "t" ("id") from stdin'],
  ["copyTo", () => client.copyTo(OUT), OUT],
] as const)("an observer and the reader of its error see %s as a COPY with this text", async (how, make, text) => {
  const onQueryStart = vi.fn();
  newClient({ prepare: "unnamed", observer: { onQueryStart } });
  const session = await letInKnowing();
  const call = failure(make());
  expect(onQueryStart.mock.calls.at(-1)).toEqual([expect.objectContaining({ kind: "copy", text })]);
  await session.flight();
  session.send(refusedAt8(), wire.readyForQuery());
  const error = await call;
  expect(error).toMatchObject({ code: "42703", query: text });
  // If the driver has written the text, the server's position refers to another text than the user's.
  expect((error as { excerpt?: string }).excerpt === undefined).toBe(how === "copyFromRows");
});

test("an error of copyToRows has no position in the query, because the query is part of another text", async () => {
  const session = await letInKnowing();
  const looping = failure(allOf(client.copyToRows("select n")));
  await describe(session, { name: "n", oid: 23 });
  await queryText(session);
  session.send(refusedAt8(), wire.readyForQuery("E"));
  expect(await queryText(session)).toBe("ROLLBACK");
  session.send(completeAndReady("ROLLBACK"));
  const error = await looping;
  expect(error).toMatchObject({ code: "42703", query: "select n" });
  expect((error as { excerpt?: string }).excerpt).toBeUndefined();
});
