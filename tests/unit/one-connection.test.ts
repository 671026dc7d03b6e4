// Turns between the calls of one connection and its transactions, over sockets in memory: which calls wait, which are
// refused, and how the end of their owner affects them.
import { beforeEach, expect, test } from "vitest";
import { gate, memoryPool } from "../support/memory-pool.ts";
import {
  accepted,
  begun,
  client,
  ended,
  fakeClock,
  isPending,
  letInKnowing,
  newClient,
  quiet,
  rows,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const open = { name: "UsageError", code: "TRANSACTION_OPEN" };
const begin = () => Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN")]);

/** Answers a transaction of one statement, BEGIN and COMMIT. */
async function answerTransaction(session: Session): Promise<void> {
  await session.flight();
  session.send(begin(), begun(), rows(1, 2), wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
  expect(await session.flight()).toEqual(["Query"]);
  session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
}

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
  await answerTransaction(session);
  expect(await second).toEqual([{ n: 1 }]);
  expect(client.stats().state).toBe("idle");
  const call = client.query("select n");
  await session.flight();
  session.send(begun(), rows(3, 4), ended(1));
  expect((await call).rows).toEqual([{ n: 3 }]);
});

test("a transaction waits for the calls before it, and transactions run one after the other", async () => {
  const session = await letInKnowing();
  const order: string[] = [];
  const call = client.query("select n").then(() => order.push("call"));
  const { closed, open: goOn } = gate();
  const first = client.transaction(async () => {
    order.push("first begins");
    await closed;
    order.push("first ends");
  });
  const second = client.transaction(() => void order.push("second"));
  await session.flight();
  await quiet();
  expect(order).toEqual([]);
  session.send(begun(), rows(1, 2), ended(1));
  await call;
  await quiet();
  expect(order).toEqual(["call", "first begins"]);
  goOn();
  await Promise.all([first, second]);
  expect(order).toEqual(["call", "first begins", "first ends", "second"]);
});

test("a transaction that fails leaves the connection to the next call", async () => {
  const session = await letInKnowing();
  await expect(client.transaction(() => Promise.reject(new Error("mine")))).rejects.toThrow("mine");
  const call = client.query("select n");
  await session.flight();
  session.send(begun(), rows(1, 2), ended(1));
  expect((await call).rows).toEqual([{ n: 1 }]);
});

test("after an open stream began, or on a closed client, a transaction is refused and does not run", async () => {
  const session = await letInKnowing();
  let runs = 0;
  const work = () => void runs++;
  const opening = client.stream("select n");
  await expect(client.transaction(work)).rejects.toMatchObject({ name: "UsageError", code: "STREAM_OPEN" });
  await session.flight();
  session.send(begun(), rows(1, 2), ended(1));
  await new Response(await opening).text();
  // A refused transaction does not count as open.
  expect(client.stats().state).toBe("idle");
  await client.transaction(work);
  await client.close();
  await expect(client.transaction(work)).rejects.toMatchObject({ code: "CLIENT_CLOSED", retryable: true });
  await expect(client.query("select n")).rejects.toMatchObject({ code: "CLIENT_CLOSED", retryable: true });
  expect(runs).toBe(1);
});

test("a transaction inside another's callback is ended after the outer one was idle for 3 s", async () => {
  await letInKnowing();
  using clock = fakeClock();
  let inner: unknown;
  const outer = client.transaction(async () => {
    inner = await client.transaction(() => 1).catch((error: unknown) => error);
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
  using clock = fakeClock();
  let inner: unknown;
  const { closed, open: goOn } = gate();
  const outer = client.transaction(async () => {
    await closed;
    inner = await client.transaction(() => 1).catch((error: unknown) => error);
    return "outer";
  });
  await quiet();
  const abort = new AbortController();
  const waiting = client.transaction(() => 1, { signal: abort.signal });
  abort.abort();
  await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
  goOn();
  await clock.pass(3_000);
  expect(inner).toMatchObject({ ...open, retryable: true });
  expect(await outer).toBe("outer");
});

test("a transaction continues to wait while the one before it runs statements", async () => {
  const session = await letInKnowing();
  using clock = fakeClock();
  const first = client.transaction(async (tx) => {
    await tx.query("select n");
    await tx.query("select n");
  });
  const second = client.transaction(() => 2);
  await session.flight();
  await clock.pass(10_000);
  session.send(begin(), begun(), rows(1, 2), wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
  await session.flight();
  await clock.pass(10_000);
  session.send(begun(), rows(1, 2), wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
  await session.flight();
  session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
  await first;
  expect(await second).toBe(2);
});

test("a transaction that could not begin leaves nothing open", async () => {
  const call = client.transaction(() => 1);
  const session = await accepted();
  await session.flight();
  session.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "53300", M: "too many clients" }));
  session.peer.end();
  await expect(call).rejects.toMatchObject({ code: "53300" });
  await letInKnowing();
  expect(client.stats().state).toBe("idle");
});

test("a transaction that is aborted while it waits is over, and the next call does not wait for it", async () => {
  const session = await letInKnowing();
  const call = client.query("select n");
  const abort = new AbortController();
  const waiting = client.transaction(() => 1, { signal: abort.signal });
  await session.flight();
  abort.abort("enough");
  await expect(waiting).rejects.toMatchObject({ name: "AbortError", cause: "enough", retryable: true });
  const next = client.query("select n");
  session.send(begun(), rows(1, 2), ended(1));
  expect((await call).rows).toEqual([{ n: 1 }]);
  await session.flight();
  session.send(begun(), rows(2, 3), ended(1));
  expect((await next).rows).toEqual([{ n: 2 }]);
});

test("the end of a lease ends its running transaction, whatever its callback waits for", async () => {
  const { pool } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  const running = lease.transaction(() => new Promise(() => {}));
  running.catch(() => {});
  const abort = new AbortController();
  const waiting = lease.transaction(() => 1, { signal: abort.signal });
  abort.abort();
  await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
  await lease.release();
  await expect(running).rejects.toMatchObject({ code: "LEASE_RELEASED" });
  await expect(lease.transaction(() => 1)).rejects.toMatchObject({ code: "LEASE_RELEASED" });
  await expect(lease.query("select n")).rejects.toMatchObject({ code: "LEASE_RELEASED" });
  await pool.close();
});

test("the end of a lease without a transaction ends the calls on it", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  await lease.query("select n");
  server.gate = new Promise(() => {});
  const call = lease.query("select n");
  call.catch(() => {});
  await quiet();
  void lease.release();
  expect(await isPending(call.catch(() => {}))).toBe(false);
  await expect(call).rejects.toMatchObject({ code: "LEASE_RELEASED" });
});

test("a transaction that waits on a lease ends with the lease, and does not keep its connection", async () => {
  const { pool } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  const failed = (error: unknown) => error;
  const running = lease.transaction(() => new Promise(() => {})).catch(failed);
  let hasRun = false;
  const waiting = lease.transaction(() => ((hasRun = true), new Promise(() => {}))).catch(failed);
  await quiet();
  const releasing = lease.release();
  expect(await running).toMatchObject({ code: "LEASE_RELEASED" });
  expect(await waiting).toMatchObject({ code: "LEASE_RELEASED" });
  await releasing;
  expect(hasRun).toBe(false);
  expect(pool.stats()).toMatchObject({ acquired: 0 });
});
