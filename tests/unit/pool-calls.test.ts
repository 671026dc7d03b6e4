// The pool as its user calls it, over sockets in memory: what each call gets, refuses, reports and leaves behind.
import { getEventListeners } from "node:events";
import { inspect } from "node:util";
import { expect, test, vi } from "vitest";
import type { PoolOptions } from "../../js/pool/options.ts";
import { createPool, type AcquireOptions } from "../../js/pool/pool.ts";
import type { Observer } from "../../js/util/observer.ts";
import { gate, memoryPool } from "../support/memory-pool.ts";
import { fakeClock, quiet } from "../support/memory-session.ts";
import { until } from "../support/until.mjs";

const one = { rows: [{ n: 0 }] };

test("events report connections and loans until removed, and a throwing listener breaks nothing", async () => {
  const { pool } = memoryPool({ max: 1 });
  const told: string[] = [];
  const left = () => told.push("left");
  expect(pool.off("connect", left)).toBe(pool);
  for (const event of ["connect", "acquire", "release", "remove"] as const) {
    expect(pool.on(event, () => void told.push(event))).toBe(pool);
    pool.on(event, () => {
      throw new Error("a listener's");
    });
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
});

test("stats show the state of the pool, and what it has done", async () => {
  const { pool, server } = memoryPool({ max: 2 });
  const held = gate();
  expect(pool.options).toEqual({ max: 2, min: 0, idleTimeoutMillis: 300_000 });
  expect(Object.isFrozen(pool.options)).toBe(true);
  await pool.query("select n");
  server.gate = held.closed;
  const running = pool.query("select n");
  const lease = await pool.acquire();
  const waiting = pool.query("select n");
  const counts = { max: 2, total: 2, idle: 0, acquired: 2, connecting: 0, waiting: 1, queries: 3, errors: 0, rows: 1 };
  expect(pool.stats()).toMatchObject({ state: "open", ...counts });
  expect(pool.stats()).not.toHaveProperty("running");
  const draining = pool.drain();
  expect(pool.stats().state).toBe("draining");
  held.open();
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
  await pool.close();
});

test.each([[5], ["text"], [null], [() => {}], [[1]]])("options that are %s are refused", (options) => {
  const make = () => createPool({ host: "memory", user: "u" }, options as PoolOptions);
  expect(make).toThrow(expect.objectContaining({ name: "UsageError" }));
});

test("a connection string may contain options of the pool", () => {
  expect(createPool("postgres://u@memory/d?connection_limit=3").options.max).toBe(3);
});

test("a call gets a free connection at once, also right after a call that waited for several answers", async () => {
  const { pool } = memoryPool({ max: 1 });
  for (let n = 0; n < 3; n++) {
    await pool.prepare("select n");
    expect(pool.stats()).toMatchObject({ idle: 1, acquired: 0 });
    await pool.query("select n");
    expect(pool.stats()).toMatchObject({ idle: 1, acquired: 0, acquires: 2 * n + 2, emptyAcquires: 1 });
  }
  await pool.close();
});

test.each([
  ["", {}],
  [", observed", { observer: { onAcquire() {} } }],
])("a call that is aborted before it is made, or while it waits, takes no connection%s", async (_, options) => {
  const { pool } = memoryPool({ max: 1, ...options });
  const aborted = { code: "ABORTED", retryable: true };
  await expect(pool.query("select n", { signal: AbortSignal.abort() })).rejects.toMatchObject(aborted);
  expect(pool.stats()).toMatchObject({ acquires: 0, total: 0 });
  const lease = await pool.acquire();
  const abort = new AbortController();
  const waiting = pool.query("select n", { signal: abort.signal });
  expect(pool.stats().waiting).toBe(1);
  abort.abort();
  await expect(waiting).rejects.toMatchObject(aborted);
  expect(pool.stats()).toMatchObject({ acquires: 1, waiting: 0, canceledAcquires: 1 });
  await lease.release();
  await pool.close();
});

test("an open pool listens, on a connection that does not count as its own", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const listener = await pool.listen("jobs");
  expect([server.sessions.length, pool.stats().total]).toEqual([1, 0]);
  await listener.close();
  await pool.close();
});

test.each([
  ["a statement that does not change the session shares a connection", {}, "select n", 0],
  [
    "a statement that may change the session has its connection alone",
    {},
    "select n, set_config('a.b', '1', false)",
    1,
  ],
  ["a statement that may change the session shares with reset: never", { reset: "never" }, "select set_config()", 0],
  ["no statement shares with reset: always", { reset: "always" }, "select n", 1],
] as const)("%s", async (_, options, text, waiting) => {
  const { pool, server } = memoryPool({ max: 1, pipelining: 3, ...options });
  const held = gate();
  await pool.query("select n");
  await until(() => pool.stats().idle === 1);
  server.gate = held.closed;
  const calls = [pool.query("select n"), pool.query(text)];
  expect(pool.stats()).toMatchObject({ total: 1, waiting });
  held.open();
  await Promise.all(calls);
  await pool.close();
});

test("a draining or closed pool refuses calls, and the error says which of the two it is", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const held = gate();
  server.gate = held.closed;
  const running = pool.query("select n");
  const draining = pool.drain();
  const calls = () => [
    pool.query("select n"),
    pool.acquire(),
    pool.transaction(() => 1),
    pool.listen("x"),
    pool.stream("select n"),
  ];
  const message = { code: "POOL_CLOSED", retryable: true, message: "The pool is draining: make another." };
  for (const call of calls()) await expect(call).rejects.toMatchObject(message);
  held.open();
  expect(await running).toMatchObject(one);
  await draining;
  await pool.drain();
  for (const call of calls()) await expect(call).rejects.toMatchObject({ code: "POOL_CLOSED" });
});

test("draining and waitIdle end with their signal, and running calls continue", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  const held = gate();
  server.gate = held.closed;
  const running = pool.query("select n");
  await quiet();
  await expect(pool.waitIdle(AbortSignal.abort("now"))).rejects.toMatchObject({ code: "ABORTED", cause: "now" });
  const abort = new AbortController();
  const draining = pool.drain(abort.signal);
  abort.abort("enough");
  await expect(draining).rejects.toMatchObject({ code: "ABORTED", cause: "enough" });
  expect(pool.stats().state).toBe("draining");
  held.open();
  expect(await running).toMatchObject(one);
  await pool.waitIdle();
  await pool.close();
});

test("acquire() ends with its signal before and while it waits, but not once it has a connection", async () => {
  const { pool } = memoryPool({ max: 1 });
  const aborted = { code: "ABORTED", retryable: true };
  await expect(pool.acquire({ signal: AbortSignal.abort("before") })).rejects.toMatchObject(aborted);
  expect(pool.stats().acquires).toBe(0);
  const abort = new AbortController();
  const lease = await pool.acquire({ signal: abort.signal });
  expect(getEventListeners(abort.signal, "abort")).toEqual([]);
  const waiting = pool.acquire({ signal: abort.signal });
  expect(pool.stats().waiting).toBe(1);
  abort.abort("while");
  await expect(waiting).rejects.toMatchObject({ ...aborted, cause: "while" });
  expect(pool.stats()).toMatchObject({ waiting: 0, canceledAcquires: 1, acquired: 1 });
  expect(await lease.query("select n")).toMatchObject(one);
  await lease.release();
  await expect(pool.acquire({ timeout: 5 } as AcquireOptions)).rejects.toMatchObject({ code: "UNKNOWN_OPTION" });
  await expect(pool.acquire({ signal: 5 } as unknown as AcquireOptions)).rejects.toThrow("signal");
  const until = new AbortController();
  const bound = await pool.acquire({ until: until.signal });
  until.abort();
  await pool.waitIdle();
  await expect(bound.query("select n")).rejects.toMatchObject({ code: "LEASE_RELEASED" });
  // Also if a connection is free.
  await expect(pool.acquire({ signal: AbortSignal.abort("before") })).rejects.toMatchObject(aborted);
  await pool.close();
});

test.each([0, -1, 1.5, NaN, "3"])("a pool refuses the size %s", (size) => {
  const { pool } = memoryPool();
  expect(() => pool.resize(size as number)).toThrow(expect.objectContaining({ code: "INVALID_OPTION" }));
  pool.resize(1);
  expect(pool.stats().max).toBe(1);
});

test("a call that waits for too long gets an error with the state of the pool", async () => {
  const { pool } = memoryPool({ max: 1, acquireTimeout: 30 });
  const lease = await pool.acquire();
  await expect(pool.query("select n")).rejects.toMatchObject({
    code: "ACQUIRE_TIMEOUT",
    retryable: true,
    message:
      "No connection was free within 30 ms (acquireTimeout): 1 of 1 in use, 0 idle, 0 connecting, 1 in all, 1 waiting. " +
      "All are held by transactions and leases. Code inside a transaction, or with a lease, must call the transaction " +
      "or the lease: a call of the pool waits until one is free.",
  });
  await lease.release();
  await pool.close();
});

test("a call on the pool inside its transaction times out, and the error points to the transaction", async () => {
  const { pool } = memoryPool({ max: 2, acquireTimeout: 50 });
  // Each transaction stays open until both calls have settled, however busy the machine is.
  let ask = (_: Promise<unknown>): void => {};
  const asked = new Promise<unknown>((resolve) => (ask = resolve));
  let open = 0;
  const within = () =>
    pool.transaction(async () => {
      open++;
      await asked;
    });
  const transactions = [within(), within()];
  await until(() => open === 2);
  const outcomes = Promise.allSettled([pool.query("select n"), pool.query("select n")]);
  ask(outcomes);
  const message = expect.stringContaining("All are held by transactions and leases.") as string;
  for (const settled of await outcomes) expect(settled).toMatchObject({ reason: { code: "ACQUIRE_TIMEOUT", message } });
  await Promise.all(transactions);
  // Both connections are free again. A leased one does not affect the other.
  const lease = await pool.acquire();
  expect(await pool.query("select n")).toMatchObject(one);
  await lease.release();
  await pool.close();
});

test("a call whose session ends before it began moves to another, and runs on three sessions at most", async () => {
  const { pool, server } = memoryPool({ max: 3 });
  await pool.query("select n");
  server.farewells = 2;
  expect(await pool.query("select n")).toMatchObject(one);
  expect([server.farewells, server.sessions.length, pool.stats().errors]).toEqual([0, 3, 0]);
  server.farewells = 4;
  await expect(pool.query("select n")).rejects.toMatchObject({ code: "57P01" });
  expect([server.farewells, pool.stats().errors]).toEqual([1, 1]);
  await pool.close();
});

test("a session that ends right after its login fails no call, which runs on the next session", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  server.strays = 1;
  expect(await pool.query("select n")).toMatchObject(one);
  expect([server.sessions.length, pool.stats().errors]).toEqual([2, 0]);
  const lease = await pool.acquire();
  expect(await lease.query("select n")).toMatchObject(one);
  await lease.release();
  await pool.close();
});

test("after one session has ended, idle ones are checked before they are lent", async () => {
  const { pool, server } = memoryPool({ max: 2 });
  await Promise.all([pool.query("select n"), pool.query("select n")]);
  server.farewells = 1;
  expect(await pool.query("select n")).toMatchObject(one);
  expect(server.queries).toBe(1);
  await pool.close();
});

test.each([
  ["two refused logins come first", [false, false, true, true], 1],
  ["two ended sessions come first", [true, true, false, true], 2],
])("refused logins do not count as sessions that end: %s", async (_, logins, farewells) => {
  using clock = fakeClock();
  const { pool, server } = memoryPool({ max: 1, earlyQuery: true });
  await pool.query("select n");
  pool.reset();
  server.logins.push(...logins);
  server.farewells = farewells;
  const outcome = pool.query("select n").catch((error: unknown) => error);
  for (let n = 0; n < 5; n++) await clock.pass(1_000);
  expect(await outcome).toMatchObject(one);
  expect(server.logins).toEqual([]);
  await pool.close();
});

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
  await pool.close();
});

test("an observer is told of each loan: the request, its outcome, and how long it lasted", async () => {
  const told: [string, Record<string, unknown>][] = [];
  const note = (name: string) => (event: object) => void told.push([name, event as Record<string, unknown>]);
  const names = ["onAcquireStart", "onAcquire", "onRelease"];
  const observer: Observer = Object.fromEntries(names.map((name) => [name, note(name)]));
  const { pool } = memoryPool({ max: 1, acquireTimeout: 20, observer });
  const lease = await pool.acquire();
  await expect(pool.query("select n")).rejects.toMatchObject({ code: "ACQUIRE_TIMEOUT" });
  await lease.release();
  await pool.query("select n");
  await pool.close();
  expect(told.map(([name]) => name)).toEqual([
    ...["onAcquireStart", "onAcquire", "onAcquireStart", "onAcquire", "onRelease"],
    ...["onAcquireStart", "onAcquire", "onRelease"],
  ]);
  const place = { host: "memory", port: 5432 };
  for (const [, event] of told) expect(event).toMatchObject(place);
  const [wanted, got, , failed, released] = told.map(([, event]) => event);
  expect(got!["id"]).toBe(wanted!["id"]);
  expect(failed).toMatchObject({ id: told[2]![1]["id"], error: { code: "ACQUIRE_TIMEOUT" } });
  expect(failed!["waitMs"]).toBeGreaterThan(15);
  expect(released!["useMs"]).toBeGreaterThan(15);
});

test("close() gives running calls their time and then ends them, and refuses waiting calls at once", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    for (const [options, time] of [
      [undefined, 5_000],
      [{ timeout: 300 }, 300],
    ] as const) {
      const { pool, server } = memoryPool({ max: 1 });
      await pool.query("select n");
      server.gate = new Promise(() => {});
      const outcomes: string[] = [];
      const running = pool.query("select n").catch((error: { code: string }) => outcomes.push(error.code));
      const refused = (error: { message: string }) => outcomes.push(error.message);
      const waiting = [pool.query("select n").catch(refused), pool.acquire().catch(refused)];
      const closing = pool.close(options);
      expect(pool.close()).toBe(closing);
      await Promise.all(waiting);
      expect(outcomes).toEqual(Array(2).fill("The pool is closed: make another."));
      await vi.advanceTimersByTimeAsync(time - 1);
      expect(outcomes.length).toBe(2);
      await vi.advanceTimersByTimeAsync(2);
      await running;
      expect(outcomes[2]).toBe("POOL_CLOSED");
      await vi.advanceTimersByTimeAsync(3_000);
      await closing;
      expect(pool.stats()).toMatchObject({ state: "closed", total: 0 });
    }
  } finally {
    vi.useRealTimers();
  }
});

test("close() resolves at once if nothing runs, and ends connects in progress", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const { pool } = memoryPool({ min: 2 });
    await pool[Symbol.asyncDispose]();
    expect(pool.stats()).toMatchObject({ state: "closed", total: 0, connects: 0 });
  } finally {
    vi.useRealTimers();
  }
});

test("a reset makes the next call connect again", async () => {
  const { pool, server } = memoryPool({ max: 1 });
  await pool.query("select n");
  pool.reset();
  await pool.query("select n");
  expect(server.sessions.length).toBe(2);
  await pool.close();
});
