// Servers that no longer answer, over sockets in memory: a COMMIT without an answer, and a pool whose connection is
// given up in the background while others are available. tests/faults has this at every byte.
import { expect, test } from "vitest";
import { createPool } from "../../js/pool/pool.ts";
import type { PoolOptions } from "../../js/pool/options.ts";
import {
  accepted,
  begun,
  client,
  ended,
  execution,
  fakeClock,
  int4,
  isPending,
  learn,
  newClient,
  rows,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

let databases = 0;
const poolOf = (options: PoolOptions) =>
  createPool(
    { host: "memory", user: "u", database: `silent${databases++}`, sslmode: "disable", firstRun: "describe" },
    options,
  );

/** Accepts the next session. Ignores CancelRequests before it. */
async function letIn(): Promise<Session> {
  const session = await accepted();
  if ((await session.flight()).at(-1) !== "StartupMessage") return letIn();
  session.send(wire.authenticationOk(), wire.parameterStatus("integer_datetimes", "on"));
  session.send(wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
  return session;
}

/** Accepts a session that describes the statement first and then runs it, without an answer to the execution. */
async function letInAsked(): Promise<Session> {
  const session = await letIn();
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery());
  await session.flight();
  return session;
}

test.each([
  { where: "of the client", timeout: 100, options: {}, within: 2_500 },
  { where: "of the transaction", timeout: 0, options: { timeout: 100 }, within: 1_000 },
])("COMMIT after the last statement has the deadline $where, and the client stays usable", async (each) => {
  using clock = fakeClock();
  newClient({ timeout: each.timeout });
  const transaction = client.transaction((tx) => tx.last("select n"), each.options);
  transaction.catch(() => {});
  const session = await letInAsked();
  session.send(wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"), begun(), rows(0, 1));
  session.send(wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
  await clock.pass(each.within);
  expect(await isPending(transaction.catch(() => {}))).toBe(false);
  await expect(transaction).rejects.toMatchObject({ code: "QUERY_TIMEOUT", transaction: "unknown", retryable: false });
  const next = client.query("select n", { timeout: 10_000 });
  await clock.pass(2_000);
  const other = await letIn();
  expect(await other.flight()).toEqual(execution);
  other.send(begun(), rows(5, 6), ended(1));
  expect((await next).rows).toEqual([{ n: 5 }]);
});

// Found by the simulator: only the last of the descriptions was cancelled, and it waited for those before it.
test("after a batch with unanswered descriptions the next call continues on another session", async () => {
  using clock = fakeClock();
  newClient({ timeout: 100 });
  const batch = client.batch(["select n", "select m", "select o"], { atomic: false });
  batch.catch(() => {});
  const session = await letIn();
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  await clock.pass(100);
  await expect(batch).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
  const next = client.query("select n", { timeout: 10_000 });
  await clock.pass(2_000);
  const other = await letIn();
  await learn(other);
  other.send(begun(), rows(5, 6), ended(1));
  expect((await next).rows).toEqual([{ n: 5 }]);
});

test("a pool with room connects at once while a silent server has its time to end a transaction", async () => {
  using clock = fakeClock();
  const pool = poolOf({ max: 2 });
  const transaction = pool.transaction((tx) => tx.query("select n"), { timeout: 100 });
  transaction.catch(() => {});
  await letInAsked();
  await clock.pass(100);
  await expect(transaction).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
  const next = pool.query("select n");
  const session = await letIn(); // no time passes here
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(5, 6), ended(1));
  expect((await next).rows).toEqual([{ n: 5 }]);
  const closing = pool.close({ timeout: 0 });
  await clock.pass(2_000);
  await closing;
});

test("calls that share connections avoid one whose silent server has its time to end a call", async () => {
  const pool = poolOf({ max: 2, pipelining: 3 });
  const first = pool.query("select n", { timeout: 100 });
  first.catch(() => {});
  await letInAsked();
  const busy = pool.query("select n");
  const session = await letIn();
  expect(await session.flight()).toEqual(execution);
  await expect(first).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
  const shared = pool.query("select n");
  expect(await session.flight()).toEqual(execution);
  session.send(begun(), rows(1, 2), ended(1), begun(), rows(2, 3), ended(1));
  expect([(await busy).rows, (await shared).rows]).toEqual([[{ n: 1 }], [{ n: 2 }]]);
  await pool.close({ timeout: 0 });
});
