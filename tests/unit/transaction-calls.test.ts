// What begins a transaction or a scope, on a client and on a pool alike: what it takes, and what work is given.
import { expect, test } from "vitest";
import { memoryPool } from "../support/memory-pool.ts";
import { client, useMemoryServer } from "../support/memory-session.ts";

useMemoryServer();

const refused = { name: "UsageError", code: "INVALID_OPTION" };

test.each([[undefined], [null], ["select 1"], [["select 1"]], [{ sql: "select 1" }]])(
  "a transaction whose work is no function is refused: %o",
  async (work) => {
    await expect(client.transaction(work as never)).rejects.toMatchObject(refused);
    expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
  },
);

test("options are checked before anything connects", async () => {
  for (const options of [
    { isolation: "snapshot" },
    { readOnly: 1 },
    { deferrable: "no" },
    { retry: 0 },
    { timeout: -1 },
  ])
    await expect(client.transaction(() => 1, options as never)).rejects.toMatchObject(refused);
  await expect(client.transaction(() => 1, { isolated: 1 } as never)).rejects.toMatchObject({ code: "UNKNOWN_OPTION" });
  expect(client.stats().state).toBe("new");
});

test("a transaction without statements sends none, and gives what its work returns", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  expect(await pool.transaction(() => 5)).toBe(5);
  expect(await pool.transaction(async () => "later", {})).toBe("later");
  await expect(pool.transaction(() => Promise.reject(new Error("mine")))).rejects.toThrow("mine");
  expect([server.sessions.length, server.queries]).toEqual([1, 0]);
  await pool.close();
});

test("a scope's calls, transactions and close are its owner's", async () => {
  const { pool } = memoryPool({ max: 1 });
  const scope = pool.scope({ settings: { "app.tenant": 7 } });
  expect(await scope.transaction(() => 6)).toBe(6);
  const { acquires } = pool.stats();
  expect(acquires).toBe(1);
  await expect(scope.stream("begin", { closeWhenDone: true })).rejects.toMatchObject({ code: "NOT_IN_SCOPE" });
  expect(pool.stats().state).toBe("closed");
  await expect(scope.query("select n")).rejects.toMatchObject({ code: "POOL_CLOSED" });
});
