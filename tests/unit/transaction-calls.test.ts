// How a transaction or a scope begins, on a client and on a pool alike: its arguments, and what the callback is given.
import { expect, test } from "vitest";
import { memoryPool } from "../support/memory-pool.ts";
import { client, useMemoryServer } from "../support/memory-session.ts";

useMemoryServer();

test.each([[undefined], [null], ["select 1"], [["select 1"]], [{ sql: "select 1" }]])(
  "a transaction whose callback is not a function is refused: %o",
  async (work) => {
    await expect(client.transaction(work as never)).rejects.toMatchObject({
      name: "UsageError",
      code: "INVALID_OPTION",
    });
    expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
  },
);

test("options are checked before anything connects", async () => {
  await expect(client.transaction(() => 1, { isolated: 1 } as never)).rejects.toMatchObject({ code: "UNKNOWN_OPTION" });
  expect(client.stats().state).toBe("new");
});

test("a transaction without statements sends nothing, and resolves with its callback's result", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  expect(await pool.transaction(() => 5)).toBe(5);
  expect(await pool.transaction(async () => "later", {})).toBe("later");
  await expect(pool.transaction(() => Promise.reject(new Error("mine")))).rejects.toThrow("mine");
  expect([server.sessions.length, server.queries]).toEqual([1, 0]);
  await pool.close();
});

test("a scope's calls, transactions and close are those of its owner", async () => {
  const { pool } = memoryPool({ max: 1 });
  const scope = pool.scope({ settings: { "app.tenant": 7 } });
  expect(await scope.transaction(() => 6)).toBe(6);
  const { acquires } = pool.stats();
  expect(acquires).toBe(1);
  await expect(scope.stream("begin", { closeWhenDone: true })).rejects.toMatchObject({ code: "NOT_IN_SCOPE" });
  expect(pool.stats().state).toBe("closed");
  await expect(scope.query("select n")).rejects.toMatchObject({ code: "POOL_CLOSED" });
});
