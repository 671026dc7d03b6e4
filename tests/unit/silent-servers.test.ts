// Servers that no longer answer, over sockets in memory: a COMMIT without an answer, and a pool whose connection is
// given up in the background while others are available. tests/faults has this at every byte.
import { expect, test } from "vitest";
import { createPool } from "../../js/pool/pool.ts";
import type { PoolOptions } from "../../js/pool/options.ts";
import { answered, learned } from "../support/memory-calls.ts";
import {
  accepted,
  client,
  execution,
  failure,
  fakeTimers,
  isPending,
  newClient,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { description, executed, executedInside, int4, loginAnswer, ran } from "../support/server-messages.ts";

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
  session.send(loginAnswer());
  return session;
}

/**
 * Accepts a session that describes the statement first and then runs it, without an answer to the execution. `begin`:
 * what is in front of the description of a transaction's first statement.
 */
async function describedOnly(begin: readonly string[] = []): Promise<Session> {
  const session = await letIn();
  expect(await session.flight()).toEqual([...begin, "Parse", "Describe", "Sync"]);
  session.send(...(begin.length ? [ran("BEGIN"), description([int4], [], "T")] : [description()]));
  await session.flight();
  return session;
}
const BEGIN = ["Parse", "Bind", "Execute"];

test.each([
  { where: "of the client", timeout: 100, options: {}, within: 2_500 },
  { where: "of the transaction", timeout: 0, options: { timeout: 100 }, within: 1_000 },
])("COMMIT after the last statement has the deadline $where, and the client stays usable", async (each) => {
  using clock = fakeTimers();
  newClient({ timeout: each.timeout });
  const transaction = failure(client.transaction((tx) => tx.last("select n"), each.options));
  const session = await describedOnly(BEGIN);
  session.send(executedInside());
  await clock.pass(each.within);
  expect(await isPending(transaction)).toBe(false);
  expect(await transaction).toMatchObject({ code: "QUERY_TIMEOUT", transaction: "unknown", retryable: false });
  const next = client.query("select n", { timeout: 10_000 });
  await clock.pass(2_000);
  await answered(await letIn(), next);
});

// Found by the simulator: only the last of the descriptions was cancelled, and it waited for those before it.
test("after a batch with unanswered descriptions the next call continues on another session", async () => {
  using clock = fakeTimers();
  newClient({ timeout: 100 });
  const batch = failure(client.batch(["select n", "select m", "select o"], { atomic: false }));
  const session = await letIn();
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  await clock.pass(100);
  expect(await batch).toMatchObject({ code: "QUERY_TIMEOUT" });
  const next = client.query("select n", { timeout: 10_000 });
  await clock.pass(2_000);
  await learned(await letIn(), next);
});

test("a pool with room connects at once while a silent server has its time to end a transaction", async () => {
  using clock = fakeTimers();
  const pool = poolOf({ max: 2 });
  const transaction = failure(pool.transaction((tx) => tx.query("select n"), { timeout: 100 }));
  await describedOnly(BEGIN);
  await clock.pass(100);
  expect(await transaction).toMatchObject({ code: "QUERY_TIMEOUT" });
  const next = pool.query("select n");
  await answered(await letIn(), next); // no time passes here
  const closing = pool.close({ timeout: 0 });
  await clock.pass(2_000);
  await closing;
});

test("calls that share connections avoid one whose silent server has its time to end a call", async () => {
  const pool = poolOf({ max: 2, pipelining: 3 });
  const first = failure(pool.query("select n", { timeout: 100 }));
  await describedOnly();
  const busy = pool.query("select n");
  const session = await letIn();
  expect(await session.flight()).toEqual(execution);
  expect(await first).toMatchObject({ code: "QUERY_TIMEOUT" });
  const shared = pool.query("select n");
  expect(await session.flight()).toEqual(execution);
  session.send(executed(1), executed(2));
  expect([(await busy).rows, (await shared).rows]).toEqual([[{ n: 1 }], [{ n: 2 }]]);
  await pool.close({ timeout: 0 });
});
