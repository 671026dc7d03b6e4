// A batch whose statements have changed since they were described (js/statement/batch.ts), over sockets in memory:
// which part of it runs again, what its transaction does, and what the call can no longer undo.
import { expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import {
  answer,
  described,
  describedAgain,
  inFront,
  isDescribed,
  item,
  knowing,
  outcome,
  parsed,
} from "../support/flights.ts";
import { acceptCancel, accepted, client, isPending, letIn, quiet, useMemoryServer } from "../support/memory-session.ts";
import {
  begun,
  boundRow,
  completeAndReady,
  description,
  errorAndReady,
  int4,
  ran,
  row,
  says,
  shutdown,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const flight = [...item, "Sync"];
const behindBegin = ["Parse", "Bind", "Execute", ...flight];

// -- outdated statements ---------------------------------------------------------------------------------------------

test.each([
  ["a cached description may be why a statement is refused, so the batch runs again", true, "42P01", true],
  ["a cached description is not why a statement is cancelled", true, "57014", false],
  ["a description that the server has just given is not why a statement is refused", false, "42P01", false],
])("%s", async (_, isKnown, code, isAgain) => {
  const session = await knowing("select a");
  const call = client.batch([isKnown ? "select a" : "select b"]);
  const end = outcome(call);
  if (!isKnown) await answer(session, described, description());
  await answer(session, flight, errorAndReady(code));
  if (isAgain) {
    await describedAgain(session);
    await answer(session, flight, boundRow(1), wire.readyForQuery());
    expect((await call)[0]!.rows).toEqual([{ n: 1 }]);
    return;
  }
  const batch = { index: 0, rolledBack: [], skipped: [] };
  expect(await end).toMatchObject({ code, batch, retryable: false });
});

test("a changed composite fails the batch, and the next call describes its statements", async () => {
  const pair = { name: "c", oid: 20_002, size: -1 };
  const value = (oid: number) => wire.dataRow([Buffer.concat([1, oid, 4, 7].map((number) => wire.int32(number)))]);
  const answers = (oid: number) => [
    ...[wire.bindComplete(), wire.rowDescription([pair], [1]), value(oid), wire.commandComplete("SELECT 1")],
    ...[boundRow(2), wire.readyForQuery()],
  ];
  const learning = client.batch(["select c", "select a"]);
  const session = await letIn();
  for (const columns of [[pair], [int4]]) await answer(session, described, description(columns));
  await answer(session, ["Query"], says('[[20002,"c","pair",[23],["a"]]]'));
  await answer(session, [...item, ...flight], ...answers(23));
  expect((await learning).map(({ rows }) => rows)).toEqual([[{ c: { a: 7 } }], [{ n: 2 }]]);
  const call = outcome(client.batch(["select c", "select a"]));
  await answer(session, [...item, ...flight], ...answers(25));
  expect(await call).toMatchObject({ code: "SHAPE_CHANGED" });
  const next = outcome(client.batch(["select c", "select a"]));
  await describedAgain(session);
  await isDescribed(session, next);
});

test("an outdated statement that does not run again is closed, and the next call describes it", async () => {
  const session = await knowing("create table t", "select a");
  const call = outcome(client.batch(["create table t", "select a"]));
  const created = boundRow(0).subarray(0, -row(0).length);
  await answer(session, [...item, ...flight], created, wire.commandComplete("CREATE TABLE"), errorAndReady("42P01"));
  expect(await call).toMatchObject({ code: "42P01", batch: { index: 1, rolledBack: [0], skipped: [] } });
  const next = client.query("select a");
  await answer(session, ["Close", ...described], wire.closeComplete(), errorAndReady("42P01"));
  await expect(next).rejects.toMatchObject({ code: "42P01" });
});

test("a transaction that began with the failed attempt is rolled back, and begins again with the second", async () => {
  const session = await knowing("select a");
  const call = client.transaction((tx) => tx.batch(["select a"]));
  await answer(session, behindBegin, ran("BEGIN"), errorAndReady("26000", "E"));
  await answer(session, ["Query"], completeAndReady("ROLLBACK"));
  await answer(session, ["Parse", "Bind", "Execute", ...described], ran("BEGIN"));
  session.send(description([int4], [], "T"));
  await answer(session, [...parsed, "Sync"], begun(), row(2), wire.readyForQuery("T"));
  await answer(session, ["Query"], completeAndReady("COMMIT"));
  expect((await call)[0]!.rows).toEqual([{ n: 2 }]);
});

test("if BEGIN fails in front of several descriptions, none of them is learned", async () => {
  const call = outcome(client.transaction((tx) => tx.batch(["select e", "select f"])));
  const session = await letIn();
  await answer(session, ["Parse", "Bind", "Execute", ...described]);
  await answer(session, described, errorAndReady("25006"), description());
  expect(await call).toMatchObject({ code: "25006", batch: { index: 0, rolledBack: [], skipped: [1] } });
  // It was described outside the transaction, perhaps without its settings.
  const next = client.query("select f");
  await answer(session, described, description());
  session.peer.end();
  await expect(next).rejects.toMatchObject({ code: "CONNECTION_LOST" });
});

test("a lost statement inside a transaction is not retried", async () => {
  const session = await knowing("select a", "select b");
  const call = client.transaction(async (tx) => {
    await tx.batch(["select a"]);
    await tx.batch(["select b"]);
  });
  const end = outcome(call);
  await answer(session, behindBegin, ran("BEGIN"), boundRow(1), wire.readyForQuery("T"));
  await answer(session, flight, errorAndReady("26000", "E"));
  await answer(session, ["Query"], completeAndReady("ROLLBACK"));
  expect(await end).toMatchObject({ code: "26000" });
});

test("a call that is aborted before its second attempt leaves the transaction failed", async () => {
  const session = await knowing("select a");
  const abort = new AbortController();
  const transaction = client.transaction(async (tx) => {
    await tx.batch(["select a"], { signal: abort.signal }).catch(() => {});
  });
  const end = outcome(transaction);
  await answer(session, behindBegin);
  abort.abort();
  await acceptCancel();
  session.send(ran("BEGIN"), errorAndReady("26000", "E"));
  // A second attempt would have rolled it back.
  expect((await session.message())!.body.toString()).toBe("COMMIT\0");
  session.send(completeAndReady("ROLLBACK"));
  expect(await end).toMatchObject({ code: "TRANSACTION_ROLLED_BACK" });
});

test("a value that no longer fits fails only its own item if others have run, and holds no other back", async () => {
  const queries = [sql`select ${1}`, sql`select ${2}, a`, sql`select ${3}, b`];
  const learning = client.batch(queries);
  const session = await letIn();
  for (const _ of "123") await answer(session, described, description([int4], [23]));
  await answer(session, [...item, ...item, ...flight], ...[1, 2, 3].map(boundRow), wire.readyForQuery());
  await learning;
  const call = client.batch(queries, { atomic: false });
  for (const _ of "12") await answer(session, flight);
  await answer(session, flight, boundRow(4), wire.readyForQuery(), errorAndReady("26000"), errorAndReady("26000"));
  await describedAgain(session, description([int4], [17])); // bytea, which accepts no number
  await describedAgain(session, description([int4], [23]));
  await answer(session, [...parsed, "Sync"], begun(), row(6), wire.readyForQuery());
  expect(await call).toMatchObject([
    { status: "fulfilled", value: { rows: [{ n: 4 }] } },
    { status: "rejected", reason: { code: "INVALID_PARAMETER" } },
    { status: "fulfilled", value: { rows: [{ n: 6 }] } },
  ]);
});

/** Loses the session in the second attempt of a batch whose last statement was lost. */
async function losesSession(texts: readonly string[]) {
  const session = await knowing("select a", "select b");
  const call = client.batch(texts, { atomic: false });
  call.catch(() => {});
  for (const _ of texts) await session.flight();
  session.send(...texts.slice(1).flatMap(() => [boundRow(1), wire.readyForQuery()]), errorAndReady("26000"));
  await session.flight();
  session.send(shutdown());
  return call;
}

test("a batch whose session ends before its second attempt runs on no other one if an item has committed", async () => {
  const call = losesSession(["select a", "select b"]);
  expect(await outcome(call)).toMatchObject({ code: "57P01", retryable: false });
  expect(await isPending(accepted())).toBe(true);
});

test("a batch whose session ends before its second attempt runs on another one if nothing has committed", async () => {
  const call = losesSession(["select b"]);
  const session = await letIn();
  const names = await session.flight();
  if (names[1] === "Describe") {
    session.send(description());
    await answer(session, flight, boundRow(3), wire.readyForQuery());
  } else session.send(...inFront(names), boundRow(3), wire.readyForQuery());
  expect(await call).toMatchObject([{ status: "fulfilled", value: { rows: [{ n: 3 }] } }]);
});

// -- names of types --------------------------------------------------------------------------------------------------

const mood = { name: "m", oid: 20_001, size: -1 };
const [MOOD, NAMES] = ['[[20001,"e","mood",[0],[]]]', '{"mood":20001}'];
const types = { mood: (text: string) => text.toUpperCase() };

test("the names in `types` are looked up before the first Describe, and again after a catalog change", async () => {
  const call = client.batch(["select m"], { types });
  const session = await letIn();
  await answer(session, ["Query"], says(NAMES));
  await answer(session, described, description([mood]));
  await answer(session, ["Query"], says(MOOD));
  await answer(session, ["Query"], says(NAMES));
  await answer(session, flight, wire.bindComplete(), wire.rowDescription([mood], [1]));
  session.send(wire.dataRow([Buffer.from("sad")]), completeAndReady("SELECT 1"));
  expect((await call)[0]!.rows).toEqual([{ m: "SAD" }]);
});

test.each([true, false])(
  "a call that ends during a look-up, the first (%s) or the second, sends no item",
  async (isFirst) => {
    const abort = new AbortController();
    const call = outcome(client.batch(["select m"], { types, signal: abort.signal }));
    const session = await letIn();
    if (!isFirst) {
      await answer(session, ["Query"], says(NAMES));
      await answer(session, described, description([mood]));
      await answer(session, ["Query"], says(MOOD));
    }
    await answer(session, ["Query"]);
    abort.abort();
    expect(await call).toMatchObject({ code: "ABORTED" });
    await acceptCancel();
    session.send(errorAndReady("57014"));
    await quiet();
    expect(client.stats().state).toBe("idle");
    expect(await isPending(session.message())).toBe(true);
  },
);
