// A batch whose statements have changed since they were described (js/statement/batch.ts), over sockets in memory:
// which part of it runs again, what its transaction does, and what the call can no longer undo.
import { expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import type { PgzError } from "../../js/util/errors.ts";
import {
  accepted,
  begun,
  client,
  int4,
  isPending,
  letIn,
  newClient,
  quiet,
  shutdown,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { says } from "../support/first-runs.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const describing = ["Parse", "Describe", "Sync"];
const item = ["Bind", "Describe", "Execute"];
const parsed = ["Parse", ...item];
const begins = [wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN")];
const ready = (status: "I" | "T" | "E" = "I") => wire.readyForQuery(status);
const error = (C: string, more = {}) => wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no", ...more });
const failed = (C: string, status: "I" | "E" = "I") => Buffer.concat([error(C), ready(status)]);
const described = (columns = [int4], parameters: number[] = []) =>
  Buffer.concat([wire.parseComplete(), wire.parameterDescription(parameters), wire.rowDescription(columns), ready()]);
const bound = () => Buffer.concat([wire.bindComplete(), wire.rowDescription([int4], [1])]);
/** The rest of an item's answer, with one row. */
const row = (n: number) => Buffer.concat([wire.dataRow([wire.int32(n)]), wire.commandComplete("SELECT 1")]);

async function answer(session: Session, flight: readonly string[], ...messages: Uint8Array[]): Promise<void> {
  expect(await session.flight()).toEqual(flight);
  session.send(...messages);
}

/** Answers a repeated Describe of a statement. The client may first close the old name. */
async function describedAgain(session: Session, types: number[] = []): Promise<void> {
  const flight = await session.flight();
  expect(flight.filter((name) => name !== "Close")).toEqual(describing);
  session.send(...(flight[0] === "Close" ? [wire.closeComplete()] : []), described([int4], types));
}

/** Returns a session on which these statements have run in a batch, so that their descriptions are cached. */
async function knowing(...texts: string[]): Promise<Session> {
  const call = client.batch(texts);
  const session = await letIn();
  for (const _ of texts) await answer(session, describing, described());
  await answer(session, [...texts.flatMap(() => item), "Sync"], ...texts.flatMap(() => [bound(), row(0)]), ready());
  await call;
  return session;
}

const outcome = (call: Promise<unknown>) =>
  call.then(
    () => "well",
    ({ code, batch, retryable }: PgzError) => ({ code, batch, retryable }),
  );

// -- outdated statements ---------------------------------------------------------------------------------------------

test.each([
  ["a cached description may be why a statement is refused, so the batch runs again", true, "42P01", true],
  ["a cached description is not why a statement is cancelled", true, "57014", false],
  ["a description that the server has just given is not why a statement is refused", false, "42P01", false],
])("%s", async (_, isKnown, code, isAgain) => {
  const session = await knowing("select a");
  const text = isKnown ? "select a" : "select b";
  const call = client.batch([text]);
  if (!isKnown) await answer(session, describing, described());
  await answer(session, [...item, "Sync"], failed(code));
  if (isAgain) {
    await describedAgain(session);
    await answer(session, [...item, "Sync"], bound(), row(1), ready());
    expect((await call)[0]!.rows).toEqual([{ n: 1 }]);
    return;
  }
  expect(await outcome(call)).toEqual({ code, batch: { index: 0, rolledBack: [], skipped: [] }, retryable: false });
});

test("a changed composite fails the batch, and the next call describes its statements", async () => {
  const pair = { name: "c", oid: 20_002, size: -1 };
  const value = (oid: number) => wire.dataRow([Buffer.concat([1, oid, 4, 7].map((number) => wire.int32(number)))]);
  const answers = (oid: number) => [
    ...[wire.bindComplete(), wire.rowDescription([pair], [1]), value(oid), wire.commandComplete("SELECT 1")],
    ...[bound(), row(2), ready()],
  ];
  const learning = client.batch(["select c", "select a"]);
  const session = await letIn();
  for (const columns of [[pair], [int4]]) await answer(session, describing, described(columns));
  await answer(session, ["Query"], says('[[20002,"c","pair",[23],["a"]]]'));
  await answer(session, [...item, ...item, "Sync"], ...answers(23));
  expect((await learning).map(({ rows }) => rows)).toEqual([[{ c: { a: 7 } }], [{ n: 2 }]]);
  const call = client.batch(["select c", "select a"]);
  await answer(session, [...item, ...item, "Sync"], ...answers(25));
  expect(await outcome(call)).toMatchObject({ code: "SHAPE_CHANGED" });
  const next = outcome(client.batch(["select c", "select a"]));
  for (const _ of "12") await describedAgain(session);
  session.peer.end();
  expect(await next).toMatchObject({ code: "CONNECTION_LOST" });
});

test("an outdated statement that does not run again is closed, and the next call describes it", async () => {
  const session = await knowing("create table t", "select a");
  const call = client.batch(["create table t", "select a"]);
  await session.flight();
  session.send(bound(), wire.commandComplete("CREATE TABLE"), failed("42P01"));
  expect(await outcome(call)).toMatchObject({ code: "42P01", batch: { index: 1, rolledBack: [0], skipped: [] } });
  const next = client.query("select a");
  await answer(session, ["Close", ...describing], wire.closeComplete(), failed("42P01"));
  await expect(next).rejects.toMatchObject({ code: "42P01" });
});

test("a transaction that began with the failed attempt is rolled back, and begins again with the second", async () => {
  const session = await knowing("select a");
  const call = client.transaction((tx) => tx.batch(["select a"]));
  await answer(session, ["Parse", "Bind", "Execute", ...item, "Sync"], ...begins, failed("26000", "E"));
  await answer(session, ["Query"], wire.commandComplete("ROLLBACK"), ready());
  await describedAgain(session);
  const flight = await session.flight();
  expect(flight).toEqual(["Parse", "Bind", "Execute", ...parsed, "Sync"]);
  session.send(...begins, begun(), row(2), ready("T"));
  await answer(session, ["Query"], wire.commandComplete("COMMIT"), ready());
  expect((await call)[0]!.rows).toEqual([{ n: 2 }]);
});

test("a call that is aborted before its second attempt leaves the transaction failed", async () => {
  const session = await knowing("select a");
  const abort = new AbortController();
  const transaction = client.transaction(async (tx) => {
    await tx.batch(["select a"], { signal: abort.signal }).catch(() => {});
  });
  const ending = outcome(transaction);
  expect(await session.flight()).toEqual(["Parse", "Bind", "Execute", ...item, "Sync"]);
  abort.abort();
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(...begins, failed("26000", "E"));
  // A second attempt would have rolled it back.
  expect((await session.message())!.body.toString()).toBe("COMMIT\0");
  session.send(wire.commandComplete("ROLLBACK"), ready());
  expect(await ending).toMatchObject({ code: "TRANSACTION_ROLLED_BACK" });
});

test("a value that no longer fits fails only its own item if others have run, and holds no other back", async () => {
  const queries = [sql`select ${1}`, sql`select ${2}, a`, sql`select ${3}, b`];
  const learning = client.batch(queries);
  const session = await letIn();
  for (const _ of "123") await answer(session, describing, described([int4], [23]));
  await session.flight();
  for (const n of [1, 2, 3]) session.send(bound(), row(n));
  session.send(ready());
  await learning;
  const call = client.batch(queries, { atomic: false });
  for (const _ of "123") await answer(session, [...item, "Sync"]);
  session.send(bound(), row(4), ready(), failed("26000"), failed("26000"));
  await describedAgain(session, [17]); // bytea, which accepts no number
  await describedAgain(session, [23]);
  await answer(session, [...parsed, "Sync"], begun(), row(6), ready());
  expect(await call).toMatchObject([
    { status: "fulfilled", value: { rows: [{ n: 4 }] } },
    { status: "rejected", reason: { code: "INVALID_PARAMETER" } },
    { status: "fulfilled", value: { rows: [{ n: 6 }] } },
  ]);
});

test.each([
  ["is not run on another session if one of its items has committed", 1],
  ["is run on another session if none of its items has committed", 0],
])("a batch whose session ends before its second attempt %s", async (_, committed) => {
  const session = await knowing("select a", "select b");
  const texts = committed ? ["select a", "select b"] : ["select b"];
  const call = client.batch(texts, { atomic: false });
  for (const _ of texts) await session.flight();
  if (committed) session.send(bound(), row(1), ready());
  session.send(failed("26000"));
  await session.flight();
  session.send(shutdown());
  if (committed) {
    expect(await outcome(call)).toMatchObject({ code: "57P01", retryable: false });
    expect(await isPending(accepted())).toBe(true);
    return;
  }
  const next = await letIn();
  const flight = await next.flight();
  next.send(...(flight[0] === "Parse" && flight[1] === "Describe" ? [described()] : [begun(), row(3), ready()]));
  if (flight[1] === "Describe") await answer(next, [...item, "Sync"], bound(), row(3), ready());
  expect(await call).toMatchObject([{ status: "fulfilled", value: { rows: [{ n: 3 }] } }]);
});

// -- names of types --------------------------------------------------------------------------------------------------

test("the names in `types` are looked up before the first Describe, and again after a catalog change", async () => {
  const types = { mood: (text: string) => text.toUpperCase() };
  const call = client.batch(["select m"], { types });
  const session = await letIn();
  await answer(session, ["Query"], says('{"mood":20001}'));
  await answer(session, describing, described([{ name: "m", oid: 20_001, size: -1 }]));
  await answer(session, ["Query"], says('[[20001,"e","mood",[0],[]]]'));
  await answer(session, ["Query"], says('{"mood":20001}'));
  const flight = await session.flight();
  expect(flight.slice(-4)).toEqual([...item, "Sync"]);
  session.send(wire.bindComplete(), wire.rowDescription([{ name: "m", oid: 20_001, size: -1 }], [1]));
  session.send(wire.dataRow([Buffer.from("sad")]), wire.commandComplete("SELECT 1"), ready());
  expect((await call)[0]!.rows).toEqual([{ m: "SAD" }]);
});

test("a call that ends during these look-ups sends no item", async () => {
  for (const isFirst of [true, false]) {
    const abort = new AbortController();
    const types = { mood: (text: string) => text };
    const call = outcome(client.batch(["select m"], { types, signal: abort.signal }));
    const session = await letIn();
    if (!isFirst) {
      await answer(session, ["Query"], says('{"mood":20001}'));
      await answer(session, describing, described([{ name: "m", oid: 20_001, size: -1 }]));
      await answer(session, ["Query"], says('[[20001,"e","mood",[0],[]]]'));
    }
    await answer(session, ["Query"]);
    abort.abort();
    expect(await call).toMatchObject({ code: "ABORTED" });
    const cancel = await accepted();
    await cancel.flight();
    cancel.peer.end();
    session.send(failed("57014"));
    await quiet();
    expect(client.stats().state).toBe("idle");
    expect(await isPending(session.message())).toBe(true);
    await client.close();
    newClient();
  }
});
