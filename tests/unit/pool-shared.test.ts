// Calls that share a connection (`pipelining`): which calls do, which wait for their own, and who takes a freed place.
import { expect, test, vi } from "vitest";
import type { Pool } from "../../js/pool/pool.ts";
import { gate, memoryPool, type MemoryServer } from "../support/memory-pool.ts";
import { quiet } from "../support/memory-session.ts";

/** Holds back the server's answers, and releases them one by one, or all. */
function holdBack(server: MemoryServer) {
  let held = gate();
  server.gate = held.closed;
  return {
    async one() {
      const { open } = held;
      held = gate();
      server.gate = held.closed;
      open();
      await quiet();
    },
    all() {
      server.gate = undefined;
      held.open();
    },
  };
}

/** A pool of one connection, on which `count` calls run. */
async function sharedBy(count: number) {
  const { pool, server } = memoryPool({ max: 1, pipelining: 2 });
  await pool.query("select n");
  const answers = holdBack(server);
  const calls = Array.from({ length: count }, () => pool.query("select n"));
  await quiet();
  expect(pool.stats()).toMatchObject({ total: 1, waiting: 0 });
  return { pool, server, answers, calls };
}

test("calls that wait for the first connection share it too", async () => {
  const { pool, server } = memoryPool({ max: 1, pipelining: 3 });
  const answers = holdBack(server);
  const calls = Array.from({ length: 4 }, () => pool.query("select n"));
  await quiet();
  expect(pool.stats()).toMatchObject({ total: 1, acquired: 1, waiting: 1, acquires: 3 });
  for (const call of calls) {
    await answers.one();
    await call;
  }
  await pool.close();
});

test.each([
  ["a lease", async (pool: Pool) => (await pool.acquire()).release()],
  ["a transaction", (pool: Pool) => pool.transaction(() => {})],
])("%s has a connection alone", async (_, borrow) => {
  const { pool, answers, calls } = await sharedBy(1);
  const borrowed = borrow(pool);
  await quiet();
  expect(pool.stats().waiting).toBe(1);
  answers.all();
  await Promise.all([...calls, borrowed]);
  await pool.close();
});

test("a call that is aborted when it is just given its place leaves the place to the next call", async () => {
  const { pool, answers, calls } = await sharedBy(2);
  const abort = new AbortController();
  const aborted = pool.query("select n", { signal: abort.signal });
  const next = pool.query("select n");
  expect(pool.stats().waiting).toBe(2);
  pool.on("release", () => abort.abort());
  const rejected = expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
  await answers.one();
  await calls[0];
  await rejected;
  expect(pool.stats()).toMatchObject({ waiting: 0, acquired: 1 });
  answers.all();
  await Promise.all([calls[1], next]);
  await pool.waitIdle();
  expect(pool.stats()).toMatchObject({ total: 1, idle: 1 });
  await pool.close();
});

// No statement that shares a connection begins a transaction, but a server may report one anyway.
test("a call that cannot begin on the connection it was given fails, and returns the connection", async () => {
  const { pool, server, answers, calls } = await sharedBy(2);
  server.status = "T";
  const refused = expect(calls[0]).rejects.toMatchObject({ code: "TRANSACTION_OPEN" });
  await answers.one();
  await refused;
  const failed = vi.fn();
  pool.scope({ role: "r" }).query("select n").catch(failed);
  await quiet();
  expect(failed.mock.calls).toMatchObject([[{ code: "TRANSACTION_OPEN" }]]);
  server.status = "I";
  answers.all();
  await calls[1];
  await pool.waitIdle();
  expect(await pool.query("select n")).toMatchObject({ rowCount: 1 });
  await pool.close();
});
