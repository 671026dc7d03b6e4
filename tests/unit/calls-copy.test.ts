// COPY in both directions over sockets in memory: what is sent, what is returned, and what a source is told about a
// refused call.
import { beforeEach, expect, test, vi } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import {
  client,
  division,
  isPending,
  letInKnowing,
  newClient,
  quiet,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed", flushInterval: 0 }));

const IN = "copy t from stdin";
const OUT = "copy t to stdout";
/** CopyInResponse or CopyOutResponse with one column, as text or binary. */
const copying = (letter: "G" | "H", format = 0) =>
  wire.message(letter, Buffer.from([format]), wire.int16(1), wire.int16(format));
const data = (text: string) => wire.message("d", Buffer.from(text));
const done = (tag: string) => [wire.commandComplete(tag), wire.readyForQuery()];

/** Reads the data up to CopyDone or CopyFail, and the name of that message. */
async function copied(session: Session): Promise<[data: Buffer, end: string]> {
  const pieces: Buffer[] = [];
  for (;;) {
    const message = (await session.message())!;
    if (message.name === "CopyData") pieces.push(message.body);
    else return [Buffer.concat(pieces), message.name];
  }
}

/** Reads a Query message and returns its text. */
async function query(session: Session): Promise<string> {
  const { name, body } = (await session.message())!;
  expect(name).toBe("Query");
  return body.toString().slice(0, -1);
}

// -- COPY FROM --------------------------------------------------------------------------------------------------------

test("copyFrom sends the source's data and returns how many rows the server stored", async () => {
  const session = await letInKnowing();
  const progress = vi.fn();
  const call = client.copyFrom(IN, ["1\n", "2\n"], { onProgress: progress });
  expect(await query(session)).toBe(IN);
  session.send(copying("G"));
  const [sent, end] = await copied(session);
  expect([sent.toString(), end]).toEqual(["1\n2\n", "CopyDone"]);
  session.send(...done("COPY 2"));
  expect(await call).toEqual({ command: "COPY", rowCount: 2 });
  expect(progress.mock.calls.at(-1)).toEqual([expect.objectContaining({ bytes: 4 })]);
});

test("a source that fails ends the COPY, and nothing is stored", async () => {
  const session = await letInKnowing();
  async function* source() {
    yield "1\n";
    throw new Error("mine");
  }
  const call = client.copyFrom(IN, source()).catch((error: unknown) => error);
  await query(session);
  session.send(copying("G"));
  expect((await copied(session))[1]).toBe("CopyFail");
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57014", M: "failed" }), wire.readyForQuery());
  expect(await call).toMatchObject({ code: "COPY_SOURCE_FAILED", cause: { message: "mine" } });
  expect(client.stats().state).toBe("idle");
});

/** A source that records whether it was asked for data, and whether it was cancelled. */
function watched() {
  const told: string[] = [];
  const stream = new ReadableStream<string>(
    { pull: () => void told.push("asked"), cancel: () => void told.push("left") },
    { highWaterMark: 0 },
  );
  return { stream, told };
}

test.each([
  ["no COPY", () => "select 1", {}, "COPY_NEEDS_COPY_CALL"],
  ["an unknown option", () => IN, { onprogress: () => {} }, "UNKNOWN_OPTION"],
  ["a signal that has aborted", () => IN, { signal: AbortSignal.abort() }, "ABORTED"],
])("a source is cancelled when copyFrom is refused for %s", async (_, input, options, code) => {
  const { stream, told } = watched();
  await expect(client.copyFrom(input(), stream, options as never)).rejects.toMatchObject({ code });
  await quiet();
  expect(told).toEqual(["left"]);
});

test("a source is cancelled without being read when the server refuses the COPY", async () => {
  const session = await letInKnowing();
  const { stream, told } = watched();
  const call = client.copyFrom(IN, stream).catch((error: unknown) => error);
  await query(session);
  session.send(division(), wire.readyForQuery());
  expect(await call).toMatchObject({ code: "22012" });
  await quiet();
  expect(told).toEqual(["left"]);
});

test("a source that was being read is cancelled once, by its reader", async () => {
  const session = await letInKnowing();
  const { stream, told } = watched();
  const call = client.copyFrom(IN, stream).catch((error: unknown) => error);
  await query(session);
  session.send(copying("G"));
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
  await query(session);
  session.send(copying("G"));
  await copied(session);
  session.send(...done("COPY 1"));
  expect(await call).toMatchObject({ rowCount: 1 });
  expect(cancel).not.toHaveBeenCalled();
});

// -- rows -------------------------------------------------------------------------------------------------------------

/** Answers the query for the columns of a table, and returns its text. */
async function describe(session: Session, oid: number, column = "id"): Promise<string> {
  const { name, body } = (await session.message())!;
  expect(name).toBe("Parse");
  await session.flight();
  session.send(wire.parseComplete(), wire.parameterDescription([]));
  session.send(wire.rowDescription([{ name: column, oid }]), wire.readyForQuery());
  return body.toString().split("\0")[1]!;
}

test.each([
  ["a name", "odd table", '"odd table"'],
  ["an identifier", sql.identifier("s", "t"), '"s"."t"'],
] as const)("copyFromRows asks for the columns of %s, and sends rows in binary", async (_, table, name) => {
  const session = await letInKnowing();
  const progress = vi.fn();
  const call = client.copyFromRows(table as string, ["id"], [[7], { id: 8 }], { onProgress: progress });
  expect(await describe(session, 23)).toBe(`select "id" from ${name}`);
  expect(await query(session)).toBe(`copy ${name} ("id") from stdin (format binary)`);
  session.send(copying("G", 1));
  const [sent, end] = await copied(session);
  const row = (id: number) => Buffer.concat([wire.int16(1), wire.int32(4), wire.int32(id)]);
  expect(sent.toString("hex")).toContain(Buffer.concat([row(7), row(8)]).toString("hex"));
  expect(end).toBe("CopyDone");
  session.send(...done("COPY 2"));
  expect(await call).toEqual({ command: "COPY", rowCount: 2 });
  expect(progress.mock.calls.at(-1)).toEqual([expect.objectContaining({ rows: 2 })]);
});

test("several columns are one list, and values are written as option `serialize` says", async () => {
  newClient({ prepare: "unnamed", serialize: (value: unknown) => (value instanceof Map ? "a map" : value) as never });
  const session = await letInKnowing();
  const call = client.copyFromRows("t", ["a", "b"], [[new Map(), "x"]]);
  const { body } = (await session.message())!;
  expect(body.toString().split("\0")[1]).toBe('select "a", "b" from "t"');
  await session.flight();
  const columns = ["a", "b"].map((name) => ({ name, oid: 25 }));
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription(columns), wire.readyForQuery());
  expect(await query(session)).toMatch(/^copy "t" \("a", "b"\) from stdin/);
  session.send(copying("G", 1));
  expect((await copied(session))[0].toString()).toContain("a map");
  session.send(...done("COPY 1"));
  expect(await call).toMatchObject({ rowCount: 1 });
});

test("a table whose columns cannot be described ends the call before any COPY", async () => {
  const session = await letInKnowing();
  const call = client.copyFromRows("t", ["id"], [[7]]).catch((error: unknown) => error);
  await session.flight();
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "42P01", M: "no table" }), wire.readyForQuery());
  expect(await call).toMatchObject({ code: "42P01" });
  expect(client.stats().state).toBe("idle");
});

test("a call that is aborted while columns are described begins no COPY", async () => {
  const session = await letInKnowing();
  const abort = new AbortController();
  const call = client.copyFromRows("t", ["id"], [[7]], { signal: abort.signal }).catch((error: unknown) => error);
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
  expect(await query(session)).toBe(OUT);
  session.send(copying("H"));
  expect(await isPending(call)).toBe(true);
  session.send(data("1\n"));
  const stream = await call;
  await expect(client.query("select n")).rejects.toMatchObject({ code: "STREAM_OPEN" });
  session.send(data("2\n"), wire.message("c"), ...done("COPY 2"));
  expect(await new Response(stream).text()).toBe("1\n2\n");
});

test("copyTo accepts limits, and an exceeded limit is an error, whatever the client's option says", async () => {
  newClient({ prepare: "unnamed", flushInterval: 0, onLimit: "truncate" });
  const session = await letInKnowing();
  const call = client.copyTo(OUT, { maxRows: 1 }).catch((error: unknown) => error);
  await query(session);
  session.send(copying("H"), data("1\n"), data("2\n"), wire.message("c"), ...done("COPY 2"));
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
  const seen: unknown[] = [];
  const looping = (async () => {
    for await (const row of client.copyToRows("select n")) seen.push(row);
  })();
  expect(await describe(session, 23, "n")).toBe("select n");
  expect(await query(session)).toBe("copy (select n\n) to stdout (format binary)");
  const head = Buffer.concat([Buffer.from("PGCOPY\n\xff\r\n\0", "latin1"), wire.int32(0), wire.int32(0)]);
  const row = Buffer.concat([wire.int16(1), wire.int32(4), wire.int32(7)]);
  session.send(copying("H", 1), wire.message("d", head), wire.message("d", row), wire.message("d", wire.int16(-1)));
  session.send(wire.message("c"), ...done("COPY 1"));
  await looping;
  expect(seen).toEqual([{ n: 7 }]);
});

test("copyToRows accepts no parameters, and reports when its rows are cut off", async () => {
  expect(() => client.copyToRows(sql`select ${1}`)).toThrow(expect.objectContaining({ code: "INVALID_QUERY" }));
  newClient({ prepare: "unnamed", onLimit: "truncate", maxRows: 1 });
  const session = await letInKnowing();
  const looping = (async () => {
    for await (const _ of client.copyToRows("select n"));
  })().catch((error: unknown) => error);
  await describe(session, 23, "n");
  await query(session);
  const head = Buffer.concat([Buffer.from("PGCOPY\n\xff\r\n\0", "latin1"), wire.int32(0), wire.int32(0)]);
  const row = () => wire.message("d", wire.int16(1), wire.int32(4), wire.int32(7));
  session.send(copying("H", 1), wire.message("d", head), row(), row(), row(), wire.message("d", wire.int16(-1)));
  session.send(wire.message("c"), ...done("COPY 3"));
  expect(await looping).toMatchObject({ name: "ResponseTooLargeError", limit: "rows" });
});

// -- what observers are told ------------------------------------------------------------------------------------------

const refusedAt8 = () => wire.errorResponse({ S: "ERROR", V: "ERROR", C: "42703", M: "no such column", P: "8" });

test.each([
  ["copyFrom", () => client.copyFrom(IN, ["1"]), IN],
  ["copyFromRows", () => client.copyFromRows("t", ["id"], [[7]]), 'copy "t" ("id") from stdin'],
  ["copyTo", () => client.copyTo(OUT), OUT],
] as const)("an observer and the reader of its error see %s as a COPY with this text", async (how, make, text) => {
  const onQueryStart = vi.fn();
  newClient({ prepare: "unnamed", observer: { onQueryStart } });
  const session = await letInKnowing();
  const call = (make() as Promise<unknown>).catch((error: unknown) => error);
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
  const looping = (async () => {
    for await (const _ of client.copyToRows("select n"));
  })().catch((error: unknown) => error);
  await describe(session, 23, "n");
  await query(session);
  session.send(refusedAt8(), wire.readyForQuery());
  const error = await looping;
  expect(error).toMatchObject({ code: "42703", query: "select n" });
  expect((error as { excerpt?: string }).excerpt).toBeUndefined();
});
