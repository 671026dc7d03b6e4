// A statement that runs before its first description (js/statement/first-execution.ts), over sockets in memory: which
// rows wait for the catalog, which failures lead to a description, and how unreadable rows are reported.
import { beforeEach, expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import { checked, described, failed, firstFlight, over, says, texts } from "../support/first-runs.ts";
import {
  accepted,
  begun,
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
/** Without "unnamed" the check before a statement would have a name from the third use on. */
const OPTIONS = { firstRun: "text", prepare: "unnamed" } as const;
beforeEach(() => newClient(OPTIONS));

const pair = { name: "c", oid: 99_999, size: -1 };
const other = { name: "o", oid: 99_998, size: -1 };
const mood = { name: "m", oid: 99_997, size: 4 };
const record = { name: "r", oid: 2249, size: -1 };
const PAIR = '[[99999,"c","pair",[23],["a"]]]';
/** The server's description of a statement. */
const shape = (columns = [int4]) =>
  Buffer.concat([
    ...[wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription(columns)],
    wire.readyForQuery(),
  ]);

async function firstRun(session?: Session): Promise<Session> {
  const next = session ?? (await letIn());
  expect(await next.flight()).toEqual(firstFlight);
  return next;
}

/** Expects that the statement is described, and then runs in binary. */
async function runsDescribed(session: Session, call: Promise<{ rows: unknown[] }>): Promise<void> {
  expect(await session.flight()).toEqual(described);
  session.send(shape());
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(5, 6), over(1));
  expect((await call).rows).toEqual([{ n: 5 }]);
}

/** The text in the Parse of the user's statement. */
async function textOf(session: Session): Promise<string> {
  let text = "";
  for (let message = await session.message(); message!.name !== "Sync"; message = await session.message())
    if (message!.name === "Parse" && !text) text = message!.body.toString().split("\0")[1]!;
  return text;
}

// -- the text of the statement ---------------------------------------------------------------------------------------

test("the statement's text is the user's own, with the comment of its call", async () => {
  newClient({ ...OPTIONS, sqlComment: () => ({ route: "a" }) });
  const call = client.query("select n").catch(() => {});
  const session = await letIn();
  expect(await textOf(session)).toBe("select n\n/*route='a'*/");
  session.peer.end();
  await call;
});

test("behind a possible pooler the text is made unique, in each run", async () => {
  const found: string[] = [];
  for (const _ of "12") {
    newClient(OPTIONS);
    const call = client.query("select n").catch(() => {});
    const session = await accepted();
    await session.flight();
    session.send(wire.authenticationOk(), wire.parameterStatus("integer_datetimes", "on"));
    session.send(wire.backendKeyData(0x7fffffff, wire.int32(9)), wire.readyForQuery());
    found.push(await textOf(session));
    session.peer.end();
    await call;
  }
  for (const text of found) expect(text).toMatch(/^select n\n\/\* [a-z0-9]{5,} \*\/$/);
  expect(found[0]).not.toBe(found[1]);
});

// -- waiting rows ----------------------------------------------------------------------------------------------------

test("rows of a composite wait for the catalog, and a call without rows asks nothing", async () => {
  const call = client.query("select c");
  const session = await firstRun();
  session.send(checked([pair]), wire.bindComplete(), texts("(1)"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  expect(await isPending(call)).toBe(true);
  session.send(says(PAIR));
  expect(await call).toMatchObject({ rows: [{ c: { a: 1 } }], rowCount: 1 });
  const counted = client.exec("select o");
  await firstRun(session);
  session.send(checked([other]), wire.bindComplete(), texts("(1)"), over(1));
  expect(await counted).toMatchObject({ rowCount: 1 });
});

test("rows wait despite a cached definition, because a composite may have changed since", async () => {
  const first = client.query("select c");
  const session = await firstRun();
  session.send(checked([pair]), wire.bindComplete(), texts("(1)"), over(1));
  await session.flight();
  session.send(says(PAIR));
  await first;
  const second = client.query("select c, 2");
  await firstRun(session);
  session.send(checked([pair]), wire.bindComplete(), texts("(1)"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(says('[[99999,"c","pair",[23],["b"]]]'));
  expect((await second).rows).toEqual([{ c: { b: 1 } }]);
  const counted = client.exec("select c, 3");
  await firstRun(session);
  session.send(checked([pair]), wire.bindComplete(), texts("(1)"), over(1));
  expect(await counted).toMatchObject({ rowCount: 1 });
});

test("a value of a fixed-size type is its text, unless a parser may need the type's name", async () => {
  const plain = client.query("select m");
  const session = await firstRun();
  session.send(checked([mood]), wire.bindComplete(), texts("sad"), over(1));
  expect((await plain).rows).toEqual([{ m: "sad" }]);
  const types = { mood: (text: string) => text.toUpperCase() };
  const parsed = client.query("select m, 1", { types });
  expect(await session.flight()).toEqual(["Query"]);
  session.send(says('{"mood":99997}'));
  await firstRun(session);
  session.send(checked([mood]), wire.bindComplete(), texts("sad"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(says('[[99997,"e","mood",[0],[]]]'));
  // By now the name may mean another type.
  expect(await session.flight()).toEqual(["Query"]);
  session.send(says('{"mood":99997}'));
  expect((await parsed).rows).toEqual([{ m: "SAD" }]);
});

test("built-in types of any size do not wait", async () => {
  const call = client.query("select t");
  const session = await firstRun();
  session.send(checked([{ name: "t", oid: 25, size: -1 }]), wire.bindComplete(), texts("x"), over(1));
  expect((await call).rows).toEqual([{ t: "x" }]);
});

test("a call that ends while its rows wait gets no rows, and the next call sees none of them", async () => {
  const abort = new AbortController();
  const call = client.query("select c", { signal: abort.signal });
  const session = await firstRun();
  session.send(checked([pair]), wire.bindComplete(), texts("(1)"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  abort.abort();
  await expect(call).rejects.toMatchObject({ code: "ABORTED", retryable: false });
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(failed("57014"));
  const next = client.query("select n");
  await firstRun(session);
  session.send(checked(), wire.bindComplete(), texts("7"), over(1));
  expect((await next).rows).toEqual([{ n: 7 }]);
});

test("waiting rows are dropped if their statement fails, without a look-up", async () => {
  const call = client.query("select c");
  const session = await firstRun();
  session.send(checked([pair]), wire.bindComplete(), texts("(1)"), failed("22012"));
  await expect(call).rejects.toMatchObject({ code: "22012", committed: false });
  const next = client.query("select n");
  await firstRun(session);
  session.send(checked(), wire.bindComplete(), texts("7"), over(1));
  expect((await next).rows).toEqual([{ n: 7 }]);
});

// -- unreadable rows -------------------------------------------------------------------------------------------------

test("a record is refused after its statement has ended, and its rows are dropped", async () => {
  const call = client.query("select r");
  const session = await firstRun();
  session.send(checked([record]), wire.bindComplete(), texts("(1)"));
  expect(await isPending(call)).toBe(true);
  session.send(over(1));
  await expect(call).rejects.toMatchObject({ name: "UsageError", code: "RECORD_NEEDS_DESCRIBE" });
  const again = client.query("select r");
  expect(await session.flight()).toEqual(described);
  session.send(failed("42601"));
  await expect(again).rejects.toMatchObject({ code: "42601" });
});

test("a statement with such columns that fails has its own error", async () => {
  const call = client.query("select r");
  const session = await firstRun();
  session.send(checked([record]), wire.bindComplete(), failed("22012"));
  await expect(call).rejects.toMatchObject({ code: "22012" });
});

test("a text that is invalid for its type is refused once the statement has run", async () => {
  const call = client.query("select n");
  const session = await firstRun();
  session.send(checked(), wire.bindComplete(), texts("1", "odd"));
  expect(await isPending(call)).toBe(true);
  session.send(texts("3"), over(3));
  await expect(call).rejects.toMatchObject({
    code: "INVALID_VALUE",
    message: expect.stringContaining("The statement has run"),
  });
  const next = client.query("select m");
  await firstRun(session);
  session.send(checked(), wire.bindComplete(), texts("7"), over(1));
  expect((await next).rows).toEqual([{ n: 7 }]);
});

test("an invalid text among rows that have waited is refused too", async () => {
  const call = client.query("select c");
  const session = await firstRun();
  session.send(checked([pair]), wire.bindComplete(), texts("(odd)"), over(1));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(says(PAIR));
  await expect(call).rejects.toMatchObject({
    code: "INVALID_VALUE",
    message: expect.stringContaining("The statement has run"),
  });
});

// -- failures --------------------------------------------------------------------------------------------------------

test.each([
  ["a statement that is not there", "26000", false],
  ["a value that its type does not take, where there are values", "22P02", true],
  ["another number of values", "08P01", true],
])("after the check and before Bind, %s leads to a run with the learned shape", async (_, code, hasValues) => {
  const call = client.query(hasValues ? sql`select ${"x"}` : "select n");
  const session = await firstRun();
  session.send(checked([int4], hasValues ? [25] : []), failed(code));
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(5, 6), over(1));
  expect((await call).rows).toEqual([{ n: 5 }]);
});

test.each([
  ["text that is no SQL", "42601", () => [wire.closeComplete(), failed("42601")]],
  ["a value, where there is none", "22P02", () => [checked(), failed("22P02")]],
  ["a timeout", "57014", () => [checked(), failed("57014")]],
  ["a failure after Bind", "26000", () => [checked(), wire.bindComplete(), failed("26000")]],
  [
    "a check that the server has no memory for",
    "53200",
    () => [wire.closeComplete(), wire.parseComplete(), failed("53200")],
  ],
] as const)("%s is the call's error", async (_, code, answer) => {
  const call = client.query("select n");
  const session = await firstRun();
  session.send(...answer());
  await expect(call).rejects.toMatchObject({ code });
  const next = client.query("select m");
  await firstRun(session);
  session.send(checked(), wire.bindComplete(), texts("7"), over(1));
  expect((await next).rows).toEqual([{ n: 7 }]);
});

test("a check that fails leads to a description", async () => {
  const call = client.query("select n");
  const session = await firstRun();
  session.send(wire.closeComplete(), wire.parseComplete(), failed("42883"));
  await runsDescribed(session, call);
});

test("if BEGIN before the statement fails, BEGIN's error is the call's, without a description", async () => {
  const transaction = client.transaction((tx) => tx.query("select n"));
  const session = await letIn();
  await session.flight();
  session.send(wire.closeComplete(), failed("25006"));
  await expect(transaction).rejects.toMatchObject({ code: "25006" });
});

test("a lost connection fails the call, unless a cap has already cut its rows off", async () => {
  const lost = client.query("select n");
  const session = await firstRun();
  session.send(checked(), wire.bindComplete(), texts("1"));
  session.peer.end();
  await expect(lost).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
  newClient(OPTIONS);
  const cut = client.json("select n", { maxRows: 1, onLimit: "truncate" });
  const next = await firstRun();
  next.send(checked(), wire.bindComplete(), texts("1", "2", "3"));
  await quiet();
  next.peer.end();
  expect(new TextDecoder().decode(await cut)).toMatch(/^\[\{"n":1\}/);
});
