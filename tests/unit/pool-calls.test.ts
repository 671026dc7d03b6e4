// The pool as its user calls it, over sockets in memory: what each call gets, refuses and reports, which calls share a
// connection (`pipelining`), and what hooks do to calls.
import { getEventListeners } from "node:events";
import { inspect } from "node:util";
import { expect, test, vi } from "vitest";
import type { PoolOptions } from "../../js/pool/options.ts";
import { createPool, type AcquireOptions, type Pool } from "../../js/pool/pool.ts";
import { holdBack, memoryPool } from "../support/memory-pool.ts";
import { fakeTimers, quiet } from "../support/memory-session.ts";
import { until } from "../support/until.mjs";

const one = { rows: [{ n: 0 }] };

test("events report connections and loans until removed, and a throwing listener breaks nothing", async () => {
  const onHookError = vi.fn();
  const { pool } = memoryPool({ max: 1, observer: { onHookError } });
  const told: string[] = [];
  const left = () => told.push("left");
  expect(pool.off("connect", left)).toBe(pool);
  for (const event of ["connect", "acquire", "release", "remove"] as const) {
    expect(pool.on(event, () => void told.push(event))).toBe(pool);
    pool.on(event, () => {
      throw new Error("a listener's");
    });
    pool.on(event, () => Promise.reject(new Error("a listener's promise")));
    pool.on(event, left);
    expect(pool.off(event, left)).toBe(pool);
  }
  await pool.query("select n");
  await (await pool.acquire()).release();
  await pool.transaction(() => 1);
  await pool.waitIdle();
  expect(told).toEqual(["connect", "acquire", "release", "acquire", "release", "acquire", "release"]);
  await pool.close();
  expect(told.at(-1)).toBe("remove");
  expect(onHookError).toHaveBeenCalledTimes(2 * told.length);
  expect(onHookError.mock.calls[0]).toMatchObject([
    { host: "memory", hook: 'on("connect")', error: { message: "a listener's" } },
  ]);
});

test("an event that a pool does not have is refused, and so is a listener that is no function", () => {
  const { pool } = memoryPool();
  for (const event of ["error", "nonsense", "toString", Symbol("connect")])
    for (const call of ["on", "off"] as const)
      expect(() => pool[call](event as "connect", () => {})).toThrow(
        expect.objectContaining({
          code: "INVALID_OPTION",
          message: expect.stringMatching(/connect, acquire, release, remove.*afterConnect.*observer.*pool\.listen\(\)/),
        }),
      );
  expect(() => pool.on("connect", undefined as never)).toThrow("must be a function");
});

test("stats show the state of the pool, and what it has done", async () => {
  const { pool, server } = memoryPool({ max: 2 });
  expect(pool.options).toEqual({ max: 2, min: 0, idleTimeoutMillis: 300_000 });
  expect(Object.isFrozen(pool.options)).toBe(true);
  await pool.query("select n");
  const held = holdBack(server);
  const running = pool.query("select n");
  const lease = await pool.acquire();
  const waiting = pool.query("select n");
  const counts = { max: 2, total: 2, idle: 0, acquired: 2, connecting: 0, waiting: 1, queries: 3, errors: 0, rows: 1 };
  expect(pool.stats()).toMatchObject({ state: "open", ...counts });
  expect(pool.stats()).not.toHaveProperty("running");
  const draining = pool.drain();
  expect(pool.stats().state).toBe("draining");
  held.all();
  expect(await running).toMatchObject(one);
  expect(await waiting).toMatchObject(one);
  await lease.release();
  await draining;
  expect(pool.stats()).toMatchObject({ state: "closed", total: 0, acquired: 0, waiting: 0, rows: 3, acquires: 4 });
});

test("console.log shows a pool by its state, its server and its counts", async () => {
  const { pool } = memoryPool({ max: 3 });
  await pool.query("select n");
  const shown = /^Pool \{ state: 'open', host: 'memory', .*, max: 3, total: 1, idle: 1, .*, queries: 1, errors: 0 \}$/;
  expect(inspect(pool, { breakLength: Infinity })).toMatch(shown);
});

test.each([[5], ["text"], [null], [() => {}], [[1]]])("options that are %s are refused", (options) => {
  const make = () => createPool({ host: "memory", user: "u" }, options as PoolOptions);
  expect(make).toThrow(expect.objectContaining({ name: "UsageError" }));
});

test("a call gets a free connection at once, also right after a call that waited for several answers", async () => {
  const { pool } = memoryPool({ max: 1 });
  for (let n = 0; n < 3; n++) {
    await pool.prepare("select n");
    expect(pool.stats()).toMatchObject({ idle: 1, acquired: 0 });
    await pool.query("select n");
    expect(pool.stats()).toMatchObject({ idle: 1, acquired: 0, acquires: 2 * n + 2, emptyAcquires: 1 });
  }
});

const signalled = (pool: Pool, signal: AbortSignal) => pool.query("select n", { signal });

test.each<[string, PoolOptions, call: (pool: Pool, signal: AbortSignal) => Promise<unknown>]>([
  ["a call", {}, signalled],
  ["an observed call", { observer: { onAcquire() {} } }, signalled],
  ["acquire()", {}, (pool, signal) => pool.acquire({ signal })],
])("%s that is aborted before it is made, or while it waits, takes no connection", async (_, options, call) => {
  const { pool } = memoryPool({ max: 1, ...options });
  const aborted = (cause: string) => ({ code: "ABORTED", hasNoEffect: true, cause });
  await expect(call(pool, AbortSignal.abort("before"))).rejects.toMatchObject(aborted("before"));
  expect(pool.stats()).toMatchObject({ acquires: 0, total: 0 });
  const lease = await pool.acquire();
  const abort = new AbortController();
  const waiting = call(pool, abort.signal);
  expect(pool.stats().waiting).toBe(1);
  abort.abort("while");
  await expect(waiting).rejects.toMatchObject(aborted("while"));
  expect(pool.stats()).toMatchObject({ acquires: 1, acquired: 1, waiting: 0, canceledAcquires: 1 });
  await lease.release();
  // Also if a connection is free.
  await expect(call(pool, AbortSignal.abort("before"))).rejects.toMatchObject(aborted("before"));
});

test("an open pool listens, on a connection that does not count as its own", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const listener = await pool.listen("jobs");
  expect([server.sessions.length, pool.stats().total]).toEqual([1, 0]);
  await listener.close();
});

test("a draining or closed pool refuses calls, and the error says which of the two it is", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const held = holdBack(server);
  const running = pool.query("select n");
  const draining = pool.drain();
  const calls = () => [
    pool.query("select n"),
    pool.acquire(),
    pool.transaction(() => 1),
    pool.listen("x"),
    pool.stream("select n"),
  ];
  const message = { code: "POOL_CLOSED", hasNoEffect: true, message: "The pool is draining: make another." };
  for (const call of calls()) await expect(call).rejects.toMatchObject(message);
  held.all();
  expect(await running).toMatchObject(one);
  await draining;
  await pool.drain();
  for (const call of calls()) await expect(call).rejects.toMatchObject({ code: "POOL_CLOSED" });
});

test("acquire() no longer heeds its signal once it has a connection, and `until` from then on", async () => {
  const { pool } = memoryPool({ max: 1 });
  const abort = new AbortController();
  const lease = await pool.acquire({ signal: abort.signal });
  expect(getEventListeners(abort.signal, "abort")).toEqual([]);
  await lease.release();
  const until = new AbortController();
  const bound = await pool.acquire({ until: until.signal });
  until.abort();
  await pool.waitIdle();
  await expect(bound.query("select n")).rejects.toMatchObject({ code: "LEASE_RELEASED" });
  await expect(pool.acquire({ timeout: 5 } as AcquireOptions)).rejects.toMatchObject({ code: "UNKNOWN_OPTION" });
  await expect(pool.acquire({ signal: 5 } as unknown as AcquireOptions)).rejects.toThrow("signal");
});

test.each([0, -1, 1.5, NaN, "3"])("a pool refuses the size %s", (size) => {
  const { pool } = memoryPool();
  expect(() => pool.resize(size as number)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
  pool.resize(1);
  expect(pool.stats().max).toBe(1);
});

const HELD =
  "All are held by transactions and leases. Code inside a transaction, or with a lease, must call the transaction or " +
  "the lease: a call of the pool waits until one is free.";

test("a call that waits for the connection of a stream is told that streams use theirs to the end", async () => {
  const { pool, server } = memoryPool({ max: 1, acquireTimeout: 30 });
  const held = holdBack(server);
  const stream = pool.stream("select n");
  await expect(pool.query("select n")).rejects.toMatchObject({
    code: "ACQUIRE_TIMEOUT",
    message: expect.stringContaining("1 waiting. A stream, a loop over rows and a cursor use their connection until"),
  });
  held.all();
  expect(await new Response(await stream).text()).toBe('{"n":0}\n');
});

test("a call that waits for too long gets an error with the state of the pool", async () => {
  const { pool } = memoryPool({ max: 2, acquireTimeout: 30 });
  const lease = await pool.acquire();
  await pool.transaction(() =>
    expect(pool.query("select n")).rejects.toMatchObject({
      code: "ACQUIRE_TIMEOUT",
      retryable: true,
      message:
        "No connection was free within 30 ms (acquireTimeout): 2 of 2 in use, 0 idle, 0 connecting, 2 in all, " +
        `1 waiting. ${HELD}`,
    }),
  );
  // So does a call whose own timeout passes while it waits, also if an observer watches it.
  const other = await pool.acquire();
  for (const observer of [undefined, { onQueryEnd() {} }])
    await expect(pool.query("select n", { timeout: 5, observer })).rejects.toMatchObject({
      code: "QUERY_TIMEOUT",
      retryable: true,
      message:
        "The call took longer than 5 ms (timeout), waiting for a connection of the pool: 2 of 2 in use, 0 idle, " +
        `0 connecting, 2 in all, 1 waiting. ${HELD}`,
    });
  await other.release();
  // Not a call that has a connection, also if the hook has agreed to it.
  const { pool: agreed } = memoryPool({ max: 1, beforeAcquire: () => true });
  const slow = agreed.transaction(() => new Promise<void>(() => {}), { timeout: 5 });
  await expect(slow).rejects.toMatchObject({ message: "The call took longer than 5 ms (timeout)." });
  // The transaction's connection is free again. A leased one does not affect it.
  expect(await pool.query("select n")).toMatchObject(one);
  await lease.release();
});

// -- sessions that end ------------------------------------------------------------------------------------------------

test("a call whose session ends before it began moves to another, and runs on three sessions at most", async () => {
  const { pool, server } = memoryPool({ max: 3 });
  await pool.query("select n");
  server.farewells = 2;
  expect(await pool.query("select n")).toMatchObject(one);
  expect([server.farewells, server.sessions.length, pool.stats().errors]).toEqual([0, 3, 0]);
  server.farewells = 4;
  await expect(pool.query("select n")).rejects.toMatchObject({ code: "57P01" });
  expect([server.farewells, pool.stats().errors]).toEqual([1, 1]);
});

test("a session that ends right after its login fails no call, which runs on the next session", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  server.strays = 1;
  expect(await pool.query("select n")).toMatchObject(one);
  expect([server.sessions.length, pool.stats().errors]).toEqual([2, 0]);
  const lease = await pool.acquire();
  expect(await lease.query("select n")).toMatchObject(one);
  await lease.release();
});

test("after one session has ended, idle ones are checked before they are lent", async () => {
  const { pool, server } = memoryPool({ max: 2 });
  await Promise.all([pool.query("select n"), pool.query("select n")]);
  server.farewells = 1;
  expect(await pool.query("select n")).toMatchObject(one);
  expect(server.queries).toBe(1);
});

test.each([
  ["two refused logins come first", [false, false, true, true], 1],
  ["two ended sessions come first", [true, true, false, true], 2],
])("refused logins do not count as sessions that end: %s", async (_, logins, farewells) => {
  using clock = fakeTimers();
  const { pool, server } = memoryPool({ max: 1, earlyQuery: true });
  await pool.query("select n");
  pool.reset();
  server.logins.push(...logins);
  server.farewells = farewells;
  const outcome = pool.query("select n").catch((error: unknown) => error);
  for (let n = 0; n < 5; n++) await clock.pass(1_000);
  expect(await outcome).toMatchObject(one);
  expect(server.logins).toEqual([]);
});

// -- calls that share a connection ------------------------------------------------------------------------------------

const query = (text: string) => (pool: Pool) => pool.query(text);

test.each<[string, PoolOptions, call: (pool: Pool) => Promise<unknown>, waiting: number]>([
  ["a statement that does not change the session shares a connection", {}, query("select n"), 0],
  ["a statement that may change it has its connection alone", {}, query("select set_config('a.b', '1', false)"), 1],
  ["a statement that may change it shares with reset: never", { reset: "never" }, query("select set_config()"), 0],
  ["no statement shares with reset: always", { reset: "always" }, query("select n"), 1],
  ["a lease has its connection alone", {}, async (pool) => (await pool.acquire()).release(), 1],
  ["a transaction has its connection alone", {}, (pool) => pool.transaction(() => {}), 1],
])("%s", async (_, options, call, waiting) => {
  const { pool, server } = memoryPool({ max: 1, pipelining: 3, ...options });
  await pool.query("select n");
  await until(() => pool.stats().idle === 1);
  const held = holdBack(server);
  const calls = [pool.query("select n"), call(pool)];
  await quiet();
  expect(pool.stats()).toMatchObject({ total: 1, waiting });
  held.all();
  await Promise.all(calls);
});

/** A pool of one connection, on which two calls run. */
async function shared() {
  const { pool, server } = memoryPool({ max: 1, pipelining: 2 });
  await pool.query("select n");
  const held = holdBack(server);
  const calls = [pool.query("select n"), pool.query("select n")];
  await quiet();
  expect(pool.stats()).toMatchObject({ total: 1, waiting: 0 });
  return { pool, server, held, calls };
}

test("a call that is aborted when it is just given its place leaves the place to the next call", async () => {
  const { pool, held, calls } = await shared();
  const abort = new AbortController();
  const aborted = pool.query("select n", { signal: abort.signal });
  const next = pool.query("select n");
  expect(pool.stats().waiting).toBe(2);
  pool.on("release", () => abort.abort());
  const rejected = expect(aborted).rejects.toMatchObject({ code: "ABORTED" });
  await held.one();
  await calls[0];
  await rejected;
  expect(pool.stats()).toMatchObject({ waiting: 0, acquired: 1 });
  held.all();
  await Promise.all([calls[1], next]);
  await pool.waitIdle();
  expect(pool.stats()).toMatchObject({ total: 1, idle: 1 });
});

// No statement that shares a connection begins a transaction, but a server may report one anyway.
test("a call that cannot begin on the connection it was given fails, and returns the connection", async () => {
  const { pool, server, held, calls } = await shared();
  server.status = "T";
  const refused = expect(calls[0]).rejects.toMatchObject({ code: "TRANSACTION_OPEN" });
  await held.one();
  await refused;
  const failed = vi.fn();
  pool.scope({ role: "r" }).query("select n").catch(failed);
  await quiet();
  expect(failed.mock.calls).toMatchObject([[{ code: "TRANSACTION_OPEN" }]]);
  server.status = "I";
  held.all();
  await calls[1];
  await pool.waitIdle();
  expect(await pool.query("select n")).toMatchObject({ rowCount: 1 });
});

// -- hooks ------------------------------------------------------------------------------------------------------------

test("beforeAcquire decides: a refused connection is closed, and another is lent", async () => {
  const answers = [false, new Error("no"), true];
  const beforeAcquire = vi.fn(() => {
    const said = answers.shift();
    if (said instanceof Error) throw said;
    return said;
  });
  const { pool } = memoryPool({ max: 2, beforeAcquire });
  expect(await pool.query("select n")).toMatchObject(one);
  await pool.waitIdle();
  expect([beforeAcquire.mock.calls.length, pool.stats().connects]).toEqual([3, 3]);
  expect(await pool.query("select n")).toMatchObject(one);
  expect([beforeAcquire.mock.calls.length, pool.stats().connects]).toEqual([4, 3]);
});

// Found by the simulator. With an early query, a hook has the connection before its login is over.
test("a connection that beforeAcquire refuses during its login fails no call, and is not cancelled", async () => {
  let asked = 0;
  const { pool, server } = memoryPool({ max: 1, earlyQuery: true, beforeAcquire: () => ++asked > 1 });
  server.logins.push("never");
  await (await pool.acquire()).release();
  expect([asked, server.accepted, pool.stats().failedConnects]).toEqual([2, 2, 0]);
});

// Found by the simulator: the pool connected without end, and no timeout of the call ended that.
test("a call whose connections are all refused rejects after max + 10 of them", async () => {
  const why = new Error("never");
  const { pool } = memoryPool({ max: 3, beforeAcquire: () => Promise.reject(why) });
  const refused = { name: "UsageError", code: "HOOK_REFUSED", retryable: true, cause: why };
  await expect(pool.acquire()).rejects.toMatchObject(refused);
  expect(pool.stats().connects).toBe(13);
});

test("a call that gives up during an outage says why no connection could be made", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  server.logins.push(...Array.from({ length: 99 }, () => false));
  const abort = new AbortController();
  const waiting = pool.query("select n", { signal: abort.signal });
  await until(() => pool.stats().failedConnects > 0);
  const reason = /, 2 waiting; the last connect failed: [^;]+\.$/;
  const error = { code: "QUERY_TIMEOUT", retryable: true, cause: { code: "53300" } };
  for (const observer of [undefined, { onQueryEnd() {} }])
    await expect(pool.query("select n", { timeout: 5, observer })).rejects.toMatchObject({
      ...error,
      message: expect.stringMatching(reason),
    });
  await expect(pool.transaction(() => 1, { timeout: 5 })).rejects.toMatchObject({
    ...error,
    message: expect.stringMatching(reason),
  });
  abort.abort();
  await expect(waiting).rejects.toMatchObject({ code: "ABORTED" });
});

test("the timeout of a waiter has the reason why no connect succeeded, but no text of a hook's", async () => {
  const afterConnect = () => Promise.reject(new Error("never"));
  const { pool } = memoryPool({ max: 1, acquireTimeout: 50, afterConnect });
  expect(await Promise.allSettled([pool.acquire(), pool.acquire()])).toMatchObject([
    { reason: { message: "never" } },
    {
      reason: {
        code: "ACQUIRE_TIMEOUT",
        cause: { message: "never" },
        message: expect.stringMatching(/1 waiting; the last connect failed\.$/),
      },
    },
  ]);
  expect(pool.stats().failedConnects).toBe(1);
});

test("a hook's throw that fails no waiter is reported to the observer", async () => {
  // The pool connects again after a pause, which would report the next throw.
  using clock = fakeTimers();
  const error = new Error("not for min");
  const onHookError = vi.fn();
  memoryPool({ min: 1, afterConnect: () => Promise.reject(error), observer: { onHookError } });
  while (onHookError.mock.calls.length === 0) await clock.pass(0);
  const place = { host: "memory", port: 5432, database: expect.stringContaining("pooled") as string };
  await quiet();
  expect(onHookError.mock.calls).toEqual([[{ ...place, hook: "afterConnect", error }]]);
});
