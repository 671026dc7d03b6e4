// The wall clock jumps by ten days, forward and back, while a pool works and a listener waits: nothing ends early, and
// nothing waits longer. Timers and deadlines of the driver use the monotonic clock.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type * as pgz from "../../js/index.ts";
import { testServers } from "../integration/servers.ts";
import { pause } from "../support/until.mjs";

const { connect, createPool } = (await import("../../dist/node.js" as string)) as typeof pgz;
const url = testServers().servers[0]!.url;
const DAYS = 10 * 86_400_000;
const { now } = Date;

beforeEach(() => void vi.spyOn(Date, "now"));
afterEach(() => void vi.restoreAllMocks());
const jump = (by: number) => vi.spyOn(Date, "now").mockImplementation(() => now() + by);

test.each([DAYS, -DAYS])("by %d ms: a pool's connections, its deadlines and its waiters", async (by) => {
  await using pool = createPool(url, { max: 2, idleTimeout: 60_000, maxLifetime: 60_000, acquireTimeout: 60_000 });
  const running = pool.query("select pg_sleep(0.4)::text as slept", { timeout: 60_000 });
  const lease = await pool.acquire();
  const waiting = pool.query("select 2 as n");
  jump(by);
  await pool.query("select 1", { signal: AbortSignal.timeout(200) }).catch(() => {});
  await running;
  await lease.release();
  expect((await waiting).rows).toEqual([{ n: 2 }]);
  await pause(1_200); // the pool has looked at its idle connections
  expect(pool.stats()).toMatchObject({ connects: 2, idle: 2, idleCloses: 0, lifetimeCloses: 0, acquireTimeouts: 0 });
  await expect(pool.query("select pg_sleep(30)", { timeout: 300 })).rejects.toMatchObject({ code: "QUERY_TIMEOUT" });
});

test.each([DAYS, -DAYS])("by %d ms: a lost listener reconnects", async (by) => {
  await using side = await connect(url);
  let back = () => {};
  const returned = new Promise<void>((resolve) => (back = resolve));
  const channel = `clock_${Math.random().toString(36).slice(2)}`;
  await using listener = await side.listen(channel, { onReconnect: () => back() });
  jump(by);
  await side.query(`select pg_terminate_backend(pid) from pg_stat_activity where query = 'LISTEN "${channel}"'`);
  await returned;
  await side.notify(channel, "after the jump");
  for await (const { payload } of listener) {
    expect(payload).toBe("after the jump");
    break;
  }
});
