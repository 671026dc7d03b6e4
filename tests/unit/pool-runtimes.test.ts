// What a pool does besides its calls: timers, looks at idle connections and long leases, streams that outlive its
// close, and work that its runtime must keep alive. On Node and on Workers, over sockets in memory.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { gate, memoryPool } from "../support/memory-pool.ts";
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
    await pool.close();
  },
);

test.each([
  ["node", 10],
  ["workerd", 5],
])("the defaults are those of the runtime (%s)", async (name, max) => {
  const { pool } = memoryPool({}, { name });
  expect(pool.options.max).toBe(max);
  await pool.close();
});

test("an idle connection that does not answer its health check ends", async () => {
  const { pool, server } = memoryPool({ max: 1, healthCheckInterval: 2_000 });
  await pool.query("select n");
  await pass(3_500);
  expect([server.queries, pool.stats().idle]).toEqual([1, 1]);
  server.gate = gate().closed;
  await pass(10_000);
  expect([server.queries, pool.stats().total]).toEqual([2, 0]);
  await pool.close();
});

test("a lease that is held for long is reported, at the latest by close()", async () => {
  const onLeaseLeak = vi.fn();
  const held = async (milliseconds: number) => {
    const { pool } = memoryPool({ max: 1, leakThreshold: 100, observer: { onLeaseLeak } });
    const lease = await pool.acquire();
    await lease.release();
    const again = await pool.acquire();
    await pass(milliseconds);
    return { pool, lease: again };
  };
  const long = await held(1_500);
  expect(onLeaseLeak).toHaveBeenCalledTimes(1);
  const short = await held(500);
  expect(onLeaseLeak).toHaveBeenCalledTimes(1);
  const closing = short.pool.close({ timeout: 0 });
  expect(onLeaseLeak).toHaveBeenCalledTimes(2);
  for (const { lease } of [long, short]) await lease.release();
  await Promise.all([closing, long.pool.close()]);
});

test("an observer is told how long a call has waited, and how long a connection was in use", async () => {
  const observer = { onAcquire: vi.fn(), onRelease: vi.fn() };
  const { pool } = memoryPool({ max: 1, acquireTimeout: 30, observer });
  await pass(1_000);
  const lease = await pool.acquire();
  const refused = expect(pool.query("select n")).rejects.toMatchObject({ code: "ACQUIRE_TIMEOUT" });
  await pass(30);
  await refused;
  await pass(10);
  await lease.release();
  expect(observer.onAcquire).toHaveBeenLastCalledWith(expect.objectContaining({ waitMs: 30 }));
  expect(observer.onRelease).toHaveBeenLastCalledWith(expect.objectContaining({ useMs: 40 }));
  await pool.close();
});

// -- streams ---------------------------------------------------------------------------------------------------------

test.each([
  ["that has a connection", true, 1],
  ["that waits for one", true, 2],
  ["that has no connection yet", false, 1],
])("close() does not end a stream %s", async (_, isConnected, count) => {
  const { pool, server } = memoryPool({ max: 1 });
  if (isConnected) await pool.query("select n");
  const held = gate();
  server.gate = held.closed;
  const streams = Array.from({ length: count }, () => pool.stream("select n"));
  await pool.close({ timeout: 0 });
  held.open();
  for (const stream of streams) expect(await text(await stream)).toBe('{"n":0}\n');
  await quiet();
  expect(pool.stats().total).toBe(0);
});

test("close() ends other calls on a stream's connection, and the stream continues in any case", async () => {
  const { pool, server } = memoryPool({ max: 2, pipelining: 2 });
  await Promise.all([pool.query("select n"), pool.query("select n")]);
  const held = gate();
  server.gate = held.closed;
  const stream = pool.stream("select n, set_config('a.b', '1', false)");
  const running = pool.query("select n").catch((error: unknown) => error);
  await quiet();
  const closing = pool.close({ timeout: 0 });
  await pass(5_000);
  expect(await running).toMatchObject({ code: "POOL_CLOSED" });
  await closing;
  held.open();
  expect(await text(await stream)).toBe('{"n":0}\n');
});

// -- work that the runtime keeps alive -------------------------------------------------------------------------------

test("work that the runtime keeps alive ends: streams with their connection, resets, and nothing else", async () => {
  const kept: Promise<unknown>[] = [];
  const background = (work: Promise<unknown>) => void kept.push(work);
  const { pool, server } = memoryPool({ max: 1, acquireTimeout: 1_000 }, { background });
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
  await pool.close();
});

test("a reset is kept alive until it is over", async () => {
  const kept: Promise<unknown>[] = [];
  const background = (work: Promise<unknown>) => void kept.push(work);
  const { pool, server } = memoryPool({ max: 1, reset: "always" }, { background });
  const lease = await pool.acquire();
  const held = gate();
  server.gate = held.closed;
  const released = lease.release();
  await quiet();
  expect(kept.length).toBe(1);
  expect(await isPending(Promise.all(kept))).toBe(true);
  held.open();
  await released;
  expect(await isPending(Promise.all(kept))).toBe(false);
  await pool.close();
});

test("a stream that is aborted while it waits for a connection keeps nothing alive", async () => {
  const kept: Promise<unknown>[] = [];
  const background = (work: Promise<unknown>) => void kept.push(work);
  const { pool } = memoryPool({ max: 1 }, { background });
  const lease = await pool.acquire();
  const abort = new AbortController();
  const waiting = pool.stream("select n", { signal: abort.signal });
  waiting.catch(() => {});
  await pass(10);
  expect([pool.stats().waiting, kept.length, await isPending(kept[0]!)]).toEqual([1, 1, true]);
  abort.abort();
  await expect(waiting).rejects.toMatchObject({ code: "ABORTED", retryable: true });
  expect(await isPending(Promise.all(kept))).toBe(false);
  await lease.release();
  await pool.close();
});
