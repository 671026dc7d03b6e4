// How a call of `pgz-edge/cluster` ends while no primary is known. The looks are scripted, and only the test moves the
// clock.
import { getEventListeners } from "node:events";
import { expect, test } from "vitest";
import type { ClusterConfig } from "../../js/cluster/options.ts";
import { Memory } from "../../js/cluster/memory.ts";
import { Router } from "../../js/cluster/router.ts";
import type { Servers } from "../../js/cluster/servers.ts";
import type { CallOptions, Pool } from "../../js/index.ts";
import { useFakeClock } from "../support/fake-clock.ts";

const clock = useFakeClock();

const settle = async () => {
  for (let n = 0; n < 20; n++) await null;
};

/** The pool whose calls reject with the reason for the abort. */
const FIRST = { name: "of the first server" } as unknown as Pool;
const PRIMARY = { name: "of the primary" } as unknown as Pool;

/** Creates the router of a cluster whose primary is lost. `own` is the signal among the cluster's options. */
function world(own?: AbortSignal) {
  const memory = new Memory();
  memory.mark({ isStandby: false, system: 7n, timeline: 1, lsn: 1n }, 0);
  const servers = {
    memory,
    primary: undefined as Pool | undefined,
    list: [{ pool: FIRST, facts: memory.of("first") }],
    acquireTimeout: 30_000,
    isClosed: false,
    config: { signal: own },
  };
  const router = new Router(servers as unknown as Servers, {} as ClusterConfig);
  let looks = 0;
  let look = () => Promise.resolve();
  Object.assign(router.probes, { probe: () => (looks++, look()) });
  const listeners = (signal: AbortSignal) => getEventListeners(signal, "abort").length;
  return { router, servers, listeners, looks: () => looks, lookBy: (by: typeof look) => void (look = by) };
}

/** Calls `router.primary()`. The returned function tells what it has resolved with so far. */
function search(router: Router, options: CallOptions) {
  let found: Pool | undefined;
  void Promise.resolve(router.primary(options)).then((pool) => (found = pool));
  return () => found;
}

test.each(["call", "cluster"] as const)("an abort of the %s ends a pause between two looks at once", async (whose) => {
  const abort = new AbortController();
  const { router, listeners, looks } = world(whose === "cluster" ? abort.signal : undefined);
  const found = search(router, whose === "call" ? { signal: abort.signal } : {});
  await settle();
  // The pauses are 20, 40 … 320 and 500 ms. The last one has begun.
  await clock.advance(650, settle);
  expect([clock.timers, looks(), listeners(abort.signal)]).toEqual([[470], 6, 1]);
  abort.abort();
  await settle();
  expect(found()).toBe(FIRST);
  expect([clock.timers, looks(), listeners(abort.signal)]).toEqual([[], 6, 0]);
});

test("an abort does not wait for the end of a look", async () => {
  const abort = new AbortController();
  const { router, lookBy, listeners } = world();
  lookBy(() => new Promise(() => {}));
  const found = search(router, { signal: abort.signal });
  await settle();
  expect(found()).toBeUndefined();
  abort.abort();
  await settle();
  expect(found()).toBe(FIRST);
  expect(listeners(abort.signal)).toBe(0);
});

test("a primary that is found, or is not found in time, leaves no listener on the signals", async () => {
  const [call, own] = [new AbortController(), new AbortController()];
  const { router, servers, listeners } = world(own.signal);
  const found = search(router, { signal: call.signal });
  await settle();
  expect([listeners(call.signal), listeners(own.signal)]).toEqual([1, 1]);
  servers.primary = PRIMARY;
  await clock.advance(20, settle);
  expect(found()).toBe(PRIMARY);
  servers.primary = undefined;
  await expect(router.primary({ signal: call.signal, timeout: 10 })).rejects.toMatchObject({ code: "CONNECT_FAILED" });
  expect([clock.timers, listeners(call.signal), listeners(own.signal)]).toEqual([[], 0, 0]);
});

test("a signal that aborted earlier, or is none, is for the callee to refuse", async () => {
  const { router, servers } = world();
  const earlier = search(router, { signal: AbortSignal.abort() });
  await settle();
  expect(earlier()).toBe(FIRST);
  const found = search(router, { signal: "none" } as never);
  await settle();
  servers.primary = PRIMARY;
  await clock.advance(20, settle);
  expect(found()).toBe(PRIMARY);
});
