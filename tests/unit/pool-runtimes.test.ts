// What a pool does besides its calls: timers, looks at idle connections and long leases, what it tells an observer, its
// close, and work that its runtime must keep alive. On Node and on Workers, over sockets in memory.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { PoolOptions } from "../../js/pool/options.ts";
import type { Observer } from "../../js/util/observer.ts";
import { holdBack, memoryPool } from "../support/memory-pool.ts";
import { isPending, quiet } from "../support/memory-session.ts";

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance", "Date"] }));
afterEach(() => void vi.useRealTimers());

const pass = (milliseconds: number) => vi.advanceTimersByTimeAsync(milliseconds);
const text = (stream: ReadableStream<Uint8Array>) => new Response(stream).text();

// -- idle connections and leases -------------------------------------------------------------------------------------

test.each([
  ["node", 0, 0],
  ["node", 100_000, 0],
  ["workerd", 0, 1],
  ["workerd", 100_000, 0],
])(
  "idle connections end by a timer, but on Workers only with health checks (%s, %d ms)",
  async (name, interval, left) => {
    const { pool } = memoryPool({ max: 1, idleTimeout: 2_000, healthCheckInterval: interval }, { name });
    await pool.query("select n");
    await pass(10_000);
    expect(pool.stats()).toMatchObject({ total: left, idleCloses: 1 - left });
  },
);

test.each([
  ["node", 10],
  ["workerd", 5],
])("the defaults are those of the runtime (%s)", async (name, max) => {
  const { pool } = memoryPool({}, { name });
  expect(pool.options.max).toBe(max);
});

test("a lease that is held for long is reported, at the latest by close()", async () => {
  const onLeaseLeak = vi.fn();
  const { pool } = memoryPool({ max: 2, leakThreshold: 100, observer: { onLeaseLeak } });
  await (await pool.acquire()).release();
  const long = await pool.acquire();
  await pass(1_500);
  expect(onLeaseLeak).toHaveBeenCalledTimes(1);
  const short = await pool.acquire();
  await pass(300);
  expect(onLeaseLeak).toHaveBeenCalledTimes(1);
  void pool.close({ timeout: 0 });
  expect(onLeaseLeak).toHaveBeenCalledTimes(2);
  for (const lease of [long, short]) await lease.release();
});

test("an observer is told of each loan: the request, its outcome, and how long it lasted", async () => {
  const told: [string, Record<string, unknown>][] = [];
  const note = (name: string) => (event: object) => void told.push([name, event as Record<string, unknown>]);
  const names = ["onAcquireStart", "onAcquire", "onRelease"];
  const observer: Observer = Object.fromEntries(names.map((name) => [name, note(name)]));
  const { pool } = memoryPool({ max: 1, acquireTimeout: 30, observer });
  await pass(1_000);
  const lease = await pool.acquire();
  const refused = expect(pool.query("select n")).rejects.toMatchObject({ code: "ACQUIRE_TIMEOUT" });
  await pass(30);
  await refused;
  await pass(10);
  await lease.release();
  await pool.query("select n");
  const place = { host: "memory", port: 5432 };
  const [first, second] = [told[0]![1]["id"], told[2]![1]["id"]];
  expect(told).toMatchObject([
    ["onAcquireStart", { ...place, id: first }],
    ["onAcquire", { ...place, id: first }],
    ["onAcquireStart", { ...place, id: second }],
    ["onAcquire", { ...place, id: second, waitMs: 30, error: { code: "ACQUIRE_TIMEOUT" } }],
    ["onRelease", { ...place, useMs: 40 }],
    ["onAcquireStart", place],
    ["onAcquire", place],
    ["onRelease", place],
  ]);
});

// -- the end of a pool -----------------------------------------------------------------------------------------------

test.each([
  [undefined, 5_000],
  [{ timeout: 300 }, 300],
])(
  "close(%o) gives running calls %d ms and then ends them, and refuses waiting calls at once",
  async (options, time) => {
    const { pool, server } = memoryPool({ max: 1 });
    await pool.query("select n");
    holdBack(server);
    const outcomes: string[] = [];
    const running = pool.query("select n").catch((error: { code: string }) => outcomes.push(error.code));
    const refused = (error: { message: string }) => outcomes.push(error.message);
    const waiting = [pool.query("select n").catch(refused), pool.acquire().catch(refused)];
    const closing = pool.close(options);
    expect(pool.close()).toBe(closing);
    await Promise.all(waiting);
    expect(outcomes).toEqual(Array(2).fill("The pool is closed: make another."));
    await pass(time - 1);
    expect(outcomes.length).toBe(2);
    await pass(2);
    await running;
    expect(outcomes[2]).toBe("POOL_CLOSED");
    await pass(3_000);
    await closing;
    expect(pool.stats()).toMatchObject({ state: "closed", total: 0 });
  },
);

test("close() resolves at once if nothing runs, and ends connects in progress", async () => {
  const { pool } = memoryPool({ min: 2 });
  await pool[Symbol.asyncDispose]();
  expect(pool.stats()).toMatchObject({ state: "closed", total: 0, connects: 0 });
});

test("close() does not end a stream that has no connection yet", async () => {
  const { pool } = memoryPool({ max: 1 });
  const stream = pool.stream("select n");
  await pool.close({ timeout: 0 });
  expect(await text(await stream)).toBe('{"n":0}\n');
  await quiet();
  expect(pool.stats().total).toBe(0);
});

test("draining and waitIdle end with their signal, and running calls continue", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const held = holdBack(server);
  const running = pool.query("select n");
  await quiet();
  await expect(pool.waitIdle(AbortSignal.abort("now"))).rejects.toMatchObject({ code: "ABORTED", cause: "now" });
  const abort = new AbortController();
  const draining = pool.drain(abort.signal);
  abort.abort("enough");
  await expect(draining).rejects.toMatchObject({ code: "ABORTED", cause: "enough" });
  expect(pool.stats().state).toBe("draining");
  held.all();
  expect(await running).toMatchObject({ rows: [{ n: 0 }] });
  await pool.waitIdle();
});

// -- work that the runtime keeps alive -------------------------------------------------------------------------------

/** A pool, and the work that its runtime is asked to keep alive. */
function keeping(options: PoolOptions) {
  const kept: Promise<unknown>[] = [];
  return { kept, ...memoryPool({ max: 1, ...options }, { background: (work) => void kept.push(work) }) };
}

test("work that the runtime keeps alive ends: streams with their connection, resets, and nothing else", async () => {
  const { kept, pool, server } = keeping({ acquireTimeout: 1_000 });
  await pool.query("select n");
  expect(kept).toEqual([]);

  expect(await text(await pool.stream("select n"))).toBe('{"n":0}\n');
  expect(kept.length).toBeGreaterThan(0);
  expect(await isPending(Promise.all(kept.splice(0)))).toBe(false);

  const lease = await pool.acquire();
  const refused = expect(pool.stream("select n")).rejects.toMatchObject({ code: "ACQUIRE_TIMEOUT" });
  await pass(1_001);
  await refused;
  expect(kept.length).toBe(1);
  expect(await isPending(Promise.all(kept.splice(0)))).toBe(false);
  await lease.release();

  await pool.query("select n, set_config('a.b', '1', false)");
  await quiet();
  expect([kept.length, server.queries]).toEqual([1, 1]);
});

test("a reset is kept alive until it is over", async () => {
  const { kept, pool, server } = keeping({ reset: "always" });
  const lease = await pool.acquire();
  const held = holdBack(server);
  const released = lease.release();
  await quiet();
  expect(kept.length).toBe(1);
  expect(await isPending(Promise.all(kept))).toBe(true);
  held.all();
  await released;
  expect(await isPending(Promise.all(kept))).toBe(false);
});

test("a stream that is aborted while it waits for a connection keeps nothing alive", async () => {
  const { kept, pool } = keeping({});
  const lease = await pool.acquire();
  const abort = new AbortController();
  const waiting = pool.stream("select n", { signal: abort.signal });
  waiting.catch(() => {});
  await pass(10);
  expect([pool.stats().waiting, kept.length, await isPending(kept[0]!)]).toEqual([1, 1, true]);
  abort.abort();
  await expect(waiting).rejects.toMatchObject({ code: "ABORTED", hasNoEffect: true });
  expect(await isPending(Promise.all(kept))).toBe(false);
  await lease.release();
});
