// A batch of described statements (js/statement/batch.ts), over sockets in memory: what is sent first, what is
// pipelined, and what each item reports when one of them fails.
import { expect, test } from "vitest";
import { sql } from "../../js/statement/sql.ts";
import {
  answer,
  behindBegin,
  described,
  describedAgain,
  inFront,
  item,
  knowing,
  outcome,
  parsed,
} from "../support/flights.ts";
import { acceptCancel, client, isPending, letIn, useMemoryServer } from "../support/memory-session.ts";
import {
  begun,
  boundRow,
  completeAndReady,
  description,
  errorAndReady,
  errorResponse,
  int4,
  ran,
  row,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const flight = [...item, "Sync"];

test("statements are described together once, and then all items are pipelined", async () => {
  const call = client.batch(["select a", "select b", "select a"]);
  const session = await letIn();
  await answer(session, described);
  await answer(session, described, description(), description());
  await answer(session, [...item, ...item, "Bind", "Execute", "Sync"], boundRow(1), boundRow(2));
  session.send(wire.bindComplete(), row(3), wire.readyForQuery());
  expect((await call).map(({ rows }) => rows)).toEqual([[{ n: 1 }], [{ n: 2 }], [{ n: 3 }]]);
  const second = client.batch(["select b"]);
  await answer(session, flight, boundRow(4), wire.readyForQuery());
  expect((await second)[0]).toMatchObject({ rows: [{ n: 4 }], rowCount: 1, command: "SELECT" });
});

test("what a COMMIT among the items has committed is not reported as rolled back", async () => {
  const session = await knowing("select a", "commit", "select b");
  const call = outcome(client.batch(["select a", "commit", "select b", "select a"]));
  await session.flight();
  session.send(boundRow(1), wire.bindComplete(), wire.noData(), wire.commandComplete("COMMIT"));
  session.send(boundRow(1), wire.bindComplete(), errorAndReady("22012"));
  expect(await call).toMatchObject({ batch: { index: 3, rolledBack: [2], skipped: [] } });
});

test.each([
  ["a transaction of its own", true, "unknown"],
  ["isolated", false, undefined],
])("a connection that is lost after all items have been sent: %s", async (_, atomic, transaction) => {
  const session = await knowing("select a");
  const call = outcome(client.batch(["select a", "select a"], { atomic }));
  await session.flight();
  session.peer.end();
  expect(await call).toMatchObject({ code: "CONNECTION_LOST", transaction, retryable: false });
});

// -- before anything runs --------------------------------------------------------------------------------------------

test("if no statement can be described, nothing more is sent", async () => {
  const call = client.batch(["select a", "select b"], { atomic: false });
  const session = await letIn();
  for (const code of ["42P01", "42703"]) await answer(session, described, errorAndReady(code));
  expect(await call).toMatchObject([{ reason: { code: "42P01" } }, { reason: { code: "42703" } }]);
});

test.each([true, false])("a value that cannot be sent stops all of a batch, atomic or not (%s)", async (atomic) => {
  const queries = [sql`select ${1}`, sql`select ${"x"}`, sql`select ${2}`];
  const call = outcome(client.batch(queries, { atomic } as { atomic: true }));
  const session = await letIn();
  // The isolate may have cached another type, so the client describes the statement once more.
  await answer(session, described, description([int4], [23]));
  await describedAgain(session, description([int4], [23]));
  expect(await call).toMatchObject({
    code: "INVALID_PARAMETER",
    batch: { index: 1, rolledBack: [], skipped: [0, 2] },
  });
  expect(client.stats().state).toBe("idle");
});

// -- repeats ---------------------------------------------------------------------------------------------------------

test("a batch whose statement is lost is described again and runs once more", async () => {
  const session = await knowing("select a", "select b");
  const call = client.batch(["select a", "select b"]);
  await session.flight();
  session.send(boundRow(1), errorAndReady("26000"));
  for (const _ of "12") await describedAgain(session);
  // The names are prepared again.
  await answer(session, [...parsed, ...parsed, "Sync"], begun(), row(3), begun(), row(4), wire.readyForQuery());
  expect((await call).map(({ rows }) => rows)).toEqual([[{ n: 3 }], [{ n: 4 }]]);
});

test("a batch whose statement is lost a second time fails", async () => {
  const session = await knowing("select a");
  const call = outcome(client.batch(["select a"]));
  await answer(session, flight, errorAndReady("26000"));
  await describedAgain(session);
  await answer(session, [...parsed, "Sync"], errorAndReady("26000"));
  const batch = { index: 0, rolledBack: [], skipped: [] };
  expect(await call).toMatchObject({ code: "26000", batch, retryable: true });
});

test("a server without a binary form is asked for text", async () => {
  const session = await knowing("select a");
  const call = client.batch(["select a"]);
  const refusal = errorResponse("42883", { R: "getTypeBinaryOutputInfo" });
  await answer(session, flight, wire.bindComplete(), refusal, wire.readyForQuery());
  await describedAgain(session);
  session.send(...inFront(await session.flight()), wire.bindComplete(), wire.rowDescription([int4]));
  session.send(wire.dataRow([Buffer.from("6")]), completeAndReady("SELECT 1"));
  expect((await call)[0]!.rows).toEqual([{ n: 6 }]);
});

// -- calls that end --------------------------------------------------------------------------------------------------

test("a call that is over while its statements are described sends no item", async () => {
  const abort = new AbortController();
  const call = outcome(client.batch(["select a"], { signal: abort.signal }));
  const session = await letIn();
  await answer(session, described);
  abort.abort();
  expect(await call).toMatchObject({ code: "ABORTED" });
  await acceptCancel();
  session.send(description());
  const next = outcome(client.batch(["select b"]));
  await answer(session, described, errorAndReady("42P01"));
  expect(await next).toMatchObject({ code: "42P01" });
});

test("a value whose own code ends the call prevents the whole batch from being sent", async () => {
  const session = await knowing("select a");
  const abort = new AbortController();
  const toJSON = () => (abort.abort(), 1);
  const call = outcome(client.batch([sql`select ${{ toJSON }}`], { signal: abort.signal }));
  await answer(session, described, description([int4], [114]));
  expect(await call).toMatchObject({ code: "ABORTED" });
  expect(await isPending(session.flight())).toBe(true);
  expect(client.stats().state).toBe("idle");
});

// -- in a transaction ------------------------------------------------------------------------------------------------

test.each([true, false])(
  "in a transaction, a batch that is atomic (%s) is sent with BEGIN or waits for it",
  async (atomic) => {
    const session = await knowing("select a");
    const call = client.transaction((tx) => tx.batch(["select a"], { atomic } as { atomic: true }));
    const answers = [boundRow(1), wire.readyForQuery("T")];
    if (atomic) await answer(session, [...behindBegin.slice(0, 3), ...flight], ran("BEGIN"), ...answers);
    else {
      await answer(session, ["Query"], completeAndReady("BEGIN", "T"));
      await answer(session, flight, ...answers);
    }
    await answer(session, ["Query"], completeAndReady("COMMIT"));
    expect((await call).length).toBe(1);
  },
);
