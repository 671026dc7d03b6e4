// Which borrower fails when a hook of a pool throws, and how often. Over sockets in memory, with a server that accepts
// every login.
import { beforeEach, expect, test, vi } from "vitest";
import type { Lease } from "../../js/pool/lease.ts";
import type { PoolOptions } from "../../js/pool/options.ts";
import { createPool, type Pool } from "../../js/pool/pool.ts";
import { accepted, newServer, shutdown } from "../support/memory-session.ts";
import { pause } from "../support/until.mjs";
import * as wire from "../support/wire.mjs";

beforeEach(() => {
  newServer();
  void letEverybodyIn();
});

/** Accepts each login, and answers each Query with nothing. Ends a session that sends anything else. */
async function letEverybodyIn(): Promise<void> {
  for (;;) {
    const session = await accepted();
    void (async () => {
      for (let name; (name = (await session.flight()).at(-1)) !== "end";) {
        if (name === "StartupMessage")
          session.send(wire.authenticationOk(), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
        if (name === "Sync") session.send(shutdown());
        if (name === "Query") session.send(wire.commandComplete("SET"), wire.readyForQuery());
      }
    })();
  }
}

const poolOf = (options: PoolOptions) =>
  createPool({ host: "memory", user: "u", database: "hooked", sslmode: "disable" }, options);

/** Starts `count` borrowers, each of which releases its connection at once. */
const borrowers = (pool: Pool, count: number) =>
  Array.from({ length: count }, () => pool.acquire().then((lease) => lease.release()));

const failed = (outcomes: PromiseSettledResult<unknown>[]) =>
  outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [String(outcome.reason)] : []));

for (const hook of ["beforeConnect", "afterConnect"] as const) {
  test(`one throw of ${hook} fails one waiter, and is reported once`, async () => {
    let connects = 0;
    const onHookError = vi.fn();
    const throws = () => {
      if (++connects === 4) throw new Error("not today");
    };
    const pool = poolOf({ max: 4, [hook]: throws, observer: { onHookError } });
    const leases = await Promise.all([pool.acquire(), pool.acquire(), pool.acquire()]);
    const waiting = borrowers(pool, 197);
    const outcome = Promise.allSettled(waiting);
    await expect(Promise.race(waiting)).rejects.toThrow("not today");
    for (const lease of leases) await lease.release();
    expect(failed(await outcome)).toEqual(["Error: not today"]);
    expect(onHookError).not.toHaveBeenCalled();
    expect(pool.stats()).toMatchObject({ failedConnects: 1, canceledAcquires: 1 });
    await pool.close();
  });
}

test("a hook that always throws fails each waiter with its own error, and connects pause", async () => {
  const times: number[] = [];
  const throws = () => {
    times.push(performance.now());
    throw new Error(`throw ${times.length}`);
  };
  const pool = poolOf({ max: 10, maxConnecting: 3, afterConnect: throws });
  const outcomes = failed(await Promise.allSettled(borrowers(pool, 9)));
  expect(outcomes.sort()).toEqual(Array.from({ length: 9 }, (_, n) => `Error: throw ${n + 1}`));
  const rounds = [times[0]!, times[3]!, times[6]!];
  expect(rounds[1]! - times[2]!).toBeGreaterThan(90);
  expect(rounds[2]! - times[5]!).toBeGreaterThan(90);
  await pause(300);
  expect(times.length).toBe(9);
  await pool.close();
});

test("a throw that fails no waiter is reported to the observer, or printed", async () => {
  const error = new Error("not for min");
  const told = async (options: PoolOptions) => {
    const pool = poolOf({ min: 1, afterConnect: () => Promise.reject(error), ...options });
    await pause(20);
    await pool.close();
  };
  const onHookError = vi.fn();
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  try {
    await told({ observer: { onHookError } });
    expect(onHookError.mock.calls).toEqual([[expect.objectContaining({ hook: "afterConnect", error })]]);
    expect(warn).not.toHaveBeenCalled();
    await told({});
    expect(warn.mock.calls).toEqual([[expect.stringContaining("afterConnect threw: Error: not for min")]]);
  } finally {
    warn.mockRestore();
  }
});

test("a throw of afterConnect during a reset is reported, and its connection is closed", async () => {
  let runs = 0;
  const onHookError = vi.fn();
  const afterConnect = () => {
    if (++runs === 2) throw new Error("not again");
  };
  const pool = poolOf({ max: 1, reset: "always", afterConnect, observer: { onHookError } });
  await (await pool.acquire()).release();
  expect(runs).toBe(2);
  expect(onHookError.mock.calls).toEqual([
    [{ host: "memory", port: 5432, database: "hooked", hook: "afterConnect", error: new Error("not again") }],
  ]);
  expect(pool.stats().total).toBe(0);
  await (await pool.acquire()).release();
  expect(pool.stats()).toMatchObject({ connects: 2, failedConnects: 0, total: 1 });
  await pool.close();
});

test("a hook whose connection ended during its call fails no waiter", async () => {
  let runs = 0;
  const afterConnect = async (lease: Lease) => {
    if (runs++) return;
    await lease.exec("select 1");
  };
  const pool = poolOf({ max: 1, afterConnect });
  await (await pool.acquire()).release();
  expect(runs).toBe(2);
  expect(pool.stats()).toMatchObject({ connects: 1, failedConnects: 1, canceledAcquires: 0 });
  await pool.close();
});

test("the timeout of a waiter has the reason why no connect succeeded", async () => {
  let connects = 0;
  const throws = () => {
    connects++;
    throw new Error("never");
  };
  const pool = poolOf({ max: 1, acquireTimeout: 50, afterConnect: throws });
  const outcomes = await Promise.allSettled([pool.acquire(), pool.acquire()]);
  expect(outcomes[0]).toMatchObject({ reason: { message: "never" } });
  expect(outcomes[1]).toMatchObject({ reason: { code: "ACQUIRE_TIMEOUT", cause: { message: "never" } } });
  expect(connects).toBe(1);
  await pool.close();
});

// Found by the simulator. With an early query, a hook has the connection before its login is over.
test("a connection that beforeAcquire refuses during its login fails no call, and is not cancelled", async () => {
  newServer();
  let sessions = 0;
  void (async () => {
    for (;;) {
      const session = await accepted();
      const isFirst = ++sessions === 1;
      void (async () => {
        while ((await session.flight()).at(-1) !== "end") {
          if (isFirst) continue; // its login is never over
          session.send(wire.authenticationOk(), wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
        }
      })();
    }
  })();
  let asked = 0;
  const pool = poolOf({ max: 1, earlyQuery: true, beforeAcquire: () => ++asked > 1 });
  const lease = await pool.acquire();
  expect(asked).toBe(2);
  expect(pool.stats().failedConnects).toBe(0);
  expect(sessions).toBe(2);
  await lease.release();
  await pool.close();
});

// Found by the simulator: the pool connected without end, and no timeout of the call ended that.
test("a call whose connections are all refused rejects after max + 10 of them", async () => {
  const why = new Error("never");
  const refuses = () => Promise.reject(why);
  const pool = poolOf({ max: 3, beforeAcquire: refuses });
  const refused = { name: "UsageError", code: "HOOK_REFUSED", retryable: true, cause: why };
  await expect(pool.acquire()).rejects.toMatchObject(refused);
  expect(pool.stats().connects).toBe(13);
  await pool.close();
});
