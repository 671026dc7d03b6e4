// Turns between the calls of one connection and its transactions, over sockets in memory: which calls wait, which are
// refused, and how the end of their owner affects them.
import { beforeEach, expect, test } from "vitest";
import { answered } from "../support/memory-calls.ts";
import { gate, memoryPool } from "../support/memory-pool.ts";
import {
  client,
  failure,
  fakeTimers,
  isPending,
  letInKnowing,
  newClient,
  quiet,
  texts,
  useMemoryServer,
} from "../support/memory-session.ts";
import { answers } from "../support/memory-transaction.ts";
import { executedInside, ran } from "../support/server-messages.ts";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const open = { name: "UsageError", code: "TRANSACTION_OPEN" };

test("while a transaction runs or waits, other calls are refused, and the client is busy", async () => {
  const session = await letInKnowing();
  const { closed, open: goOn } = gate();
  const first = client.transaction(() => closed);
  const second = client.transaction(async (tx) => (await tx.query("select n")).rows);
  await quiet();
  for (const call of [client.query("select n"), client.exec("select n"), client.batch(["select n"])])
    await expect(call).rejects.toMatchObject(open);
  expect(client.stats().state).toBe("busy");
  goOn();
  await first;
  // The second transaction waits or runs.
  await expect(client.query("select n")).rejects.toMatchObject(open);
  expect(client.stats().state).toBe("busy");
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  session.send(ran("BEGIN"), executedInside());
  await answers(session, "COMMIT");
  expect(await second).toEqual([{ n: 1 }]);
  expect(client.stats().state).toBe("idle");
  await answered(session, client.query("select n"));
});

test("a transaction waits for the calls before it, and transactions run one after the other", async () => {
  const session = await letInKnowing();
  const order: string[] = [];
  const call = client.query("select n");
  const { closed, open: goOn } = gate();
  const first = client.transaction(async () => {
    order.push("first begins");
    await closed;
    order.push("first ends");
  });
  const second = client.transaction(() => void order.push("second"));
  await quiet();
  expect(order).toEqual([]);
  await answered(session, call);
  await quiet();
  expect(order).toEqual(["first begins"]);
  goOn();
  await Promise.all([first, second]);
  expect(order).toEqual(["first begins", "first ends", "second"]);
});

test("a transaction inside another's callback is ended after the outer one was idle for 3 s", async () => {
  await letInKnowing();
  using clock = fakeTimers();
  let inner: unknown;
  const outer = client.transaction(async () => {
    inner = await failure(client.transaction(() => 1));
    return "outer";
  });
  await clock.pass(2_999);
  expect([inner, await isPending(outer)]).toEqual([undefined, true]);
  await clock.pass(1);
  expect(inner).toMatchObject({ ...open, retryable: true });
  expect(await outer).toBe("outer");
  // The inner transaction is over, so a later one has nothing to wait for.
  expect(await client.transaction(() => 2)).toBe(2);
});

test("another waiting transaction that is aborted does not change that", async () => {
  await letInKnowing();
  using clock = fakeTimers();
  let inner: unknown;
  const { closed, open: goOn } = gate();
  const outer = client.transaction(async () => {
    await closed;
    inner = await failure(client.transaction(() => 1));
    return "outer";
  });
  await quiet();
  const abort = new AbortController();
  const waiting = failure(client.transaction(() => 1, { signal: abort.signal }));
  abort.abort();
  expect(await waiting).toMatchObject({ code: "ABORTED" });
  goOn();
  await clock.pass(3_000);
  expect(inner).toMatchObject({ ...open, retryable: true });
  expect(await outer).toBe("outer");
});

test("a transaction that is aborted while it waits is over, and the next call does not wait for it", async () => {
  const session = await letInKnowing();
  const call = client.query("select n");
  const abort = new AbortController();
  const waiting = failure(client.transaction(() => 1, { signal: abort.signal }));
  abort.abort("enough");
  expect(await waiting).toMatchObject({ name: "AbortError", cause: "enough", hasNoEffect: true });
  const next = client.query("select n");
  await answered(session, call, 1);
  await answered(session, next, 2);
});

test("the end of a lease ends its transactions, and keeps no connection for them", async () => {
  const { pool } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  const abort = new AbortController();
  const running = failure(lease.transaction(() => new Promise(() => {})));
  const aborted = failure(lease.transaction(() => 1, { signal: abort.signal }));
  let hasRun = false;
  const waiting = failure(lease.transaction(() => ((hasRun = true), new Promise(() => {}))));
  abort.abort();
  expect(await aborted).toMatchObject({ code: "ABORTED" });
  await quiet();
  const releasing = lease.release();
  for (const call of [running, waiting]) expect(await call).toMatchObject({ code: "LEASE_RELEASED" });
  await releasing;
  expect(hasRun).toBe(false);
  for (const call of [lease.transaction(() => 1), lease.query("select n")])
    await expect(call).rejects.toMatchObject({ code: "LEASE_RELEASED" });
  expect(pool.stats()).toMatchObject({ acquired: 0 });
  await pool.close();
});
