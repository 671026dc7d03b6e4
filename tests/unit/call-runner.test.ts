// The life of a call apart from its turn, over sockets in memory: what is refused, what ends it, what its observer is
// told, and where it moves when its session was unusable. call-runner-close-timeout.test.ts has streams after a close.
import { AsyncLocalStorage } from "node:async_hooks";
import { inspect } from "node:util";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { QueuedCall, sessionFailure } from "../../js/api/turn-queue.ts";
import type { Call } from "../../js/session/call.ts";
import { installRuntime, runtime } from "../../js/runtime/runtime.ts";
import { answered, runs, streamed } from "../support/memory-calls.ts";
import { gate, memoryPool } from "../support/memory-pool.ts";
import {
  cancelRequest,
  client,
  failure,
  fakeTimers,
  isPending,
  letInKnowing,
  newClient,
  quiet,
  texts,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { answers, running } from "../support/memory-transaction.ts";
import {
  begun,
  division,
  ended,
  errorAndReady,
  executed,
  executedInside,
  ran,
  rows,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));
afterEach(() => vi.restoreAllMocks());

/** A loop over "select n" that has its first row and waits for more. */
async function openLoop(session: Session, leaves = false) {
  const looping = (async () => {
    for await (const row of client.rows("select n")) if (leaves) return row;
    return undefined;
  })();
  await session.flight();
  session.send(begun(), rows(1, 2));
  await quiet();
  return looping;
}

// -- unusable sessions ------------------------------------------------------------------------------------------------

test("a session was unusable if its own end failed the call without effect", () => {
  const own = { hasNoEffect: true };
  const session = (closed: unknown, established: boolean) => ({ connection: { closed, established } }) as never;
  expect(sessionFailure(own, session(own, true))).toBe("ended session");
  expect(sessionFailure(own, session(own, false))).toBe("refused login");
  expect(sessionFailure({ hasNoEffect: true }, session(own, true))).toBeUndefined();
  expect(sessionFailure(own, session(undefined, true))).toBeUndefined();
  const unsafe = { hasNoEffect: false };
  expect(sessionFailure(unsafe, session(unsafe, true))).toBeUndefined();
});

test("a call moves to another session as often as allowed, and only if nothing of it can have happened", () => {
  const nothing = () => {};
  class Queued extends QueuedCall<void> {
    connected = nothing as never;
    failedOn = nothing as never;
    free = nothing;
  }
  const job = (reached: string) => new Queued({ reached } as Call<void>, "alone", nothing, nothing);
  const one = job("nothing");
  expect([1, 2, 3].map(() => one.goesElsewhere("ended session", "alone", 2))).toEqual([true, true, false]);
  // A server that refuses the login has not had the call, so this does not count as a repeat.
  const other = job("nothing");
  expect([1, 2, 3].map(() => other.goesElsewhere("refused login", "alone", 1))).toEqual([true, true, true]);
  for (const reached of ["calls", "commits", "rows"])
    expect(job(reached).goesElsewhere("ended session", "alone", 9), reached).toBe(false);
});

// -- what ends a call, and what it keeps waiting ----------------------------------------------------------------------

test.each(["the call's signal", "the client's signal"])(
  "%s ends a running call, and after it aborted each new call",
  async (which) => {
    const stop = new AbortController();
    const { signal } = stop;
    const isCalls = which === "the call's signal";
    if (!isCalls) newClient({ prepare: "unnamed", signal });
    const session = await letInKnowing();
    const options = isCalls ? { signal } : {};
    const call = client.query("select n", options);
    await session.flight();
    stop.abort("enough");
    const aborted = { name: "AbortError", code: "ABORTED", cause: "enough" };
    await expect(call).rejects.toMatchObject({ ...aborted, hasNoEffect: false });
    await expect(client.query("select n", options)).rejects.toMatchObject({ ...aborted, hasNoEffect: true });
    expect(client.stats()).toMatchObject({ queries: 3, errors: 2 });
  },
);

test("a loop that is left ends its query, and the next call runs", async () => {
  const session = await letInKnowing();
  expect(await openLoop(session, true)).toEqual({ n: 1 });
  const next = client.query("select n");
  const cancel = await cancelRequest();
  session.send(errorAndReady("57014"));
  cancel.peer.end();
  await answered(session, next);
});

test("close ends a loop after the time that it gives to any call", async () => {
  const session = await letInKnowing();
  using clock = fakeTimers();
  const looping = failure(openLoop(session));
  await quiet();
  const closing = client.close();
  await clock.pass(399);
  expect(await isPending(closing)).toBe(true);
  await clock.pass(1);
  expect(await looping).toMatchObject({ code: "CLIENT_CLOSED" });
  await clock.pass(1_000);
  await closing;
});

test.each(["a stream", "a cursor", "a loop"])("%s must be finished before another call", async (what) => {
  const session = await letInKnowing();
  const consumers = {
    "a stream": async () => void (await new Response(await client.stream("select n")).text()),
    "a cursor": async () => {
      for await (const _ of client.cursor("select n", 5));
    },
    "a loop": async () => {
      for await (const _ of client.rows("select n"));
    },
  };
  const reading = consumers[what as "a loop"]();
  await quiet();
  await expect(client.query("select n")).rejects.toMatchObject({
    name: "UsageError",
    code: "STREAM_OPEN",
    message: expect.stringContaining('of "select n" is unfinished'),
  });
  await expect(client.transaction(() => 1)).rejects.toMatchObject({ code: "STREAM_OPEN" });
  await session.flight();
  if (what === "a cursor") {
    session.send(ran("BEGIN"), executedInside());
    await answers(session, "COMMIT");
  } else session.send(executed());
  await reading;
  await answered(session, client.query("select n"));
});

test("an open stream keeps its runtime awake, and other calls do not", async () => {
  const session = await letInKnowing();
  const kept: Promise<unknown>[] = [];
  installRuntime({ ...runtime(), background: (work) => void kept.push(work) });
  await answered(session, client.query("select n"));
  expect(kept).toEqual([]);
  const stream = await streamed(session);
  expect(kept.length).toBe(1);
  expect(await isPending(kept[0]!)).toBe(true);
  session.send(ended(1));
  await new Response(stream).text();
  await Promise.all(kept);
});

// -- calls that end with their owner ----------------------------------------------------------------------------------

test("the end of a lease ends its present and future calls, but no stream that the user has", async () => {
  const { pool } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  const stream = await lease.stream("select n");
  await lease.release();
  await expect(lease.query("select n")).rejects.toMatchObject({ code: "LEASE_RELEASED" });
  expect(await new Response(stream).text()).toBe('{"n":0}\n');
  await pool.close();
});

test("the end of a pool ends running and waiting calls, but no stream that the user has", async () => {
  const { pool, server } = memoryPool({ max: 2 });
  const stream = await pool.stream("select n");
  const { closed, open } = gate();
  server.gate = closed;
  const calls = [pool.query("select n"), pool.query("select n"), pool.query("select n")].map(failure);
  await quiet();
  const closing = pool.close({ timeout: 0 });
  for (const call of calls) expect(await call).toMatchObject({ code: "POOL_CLOSED" });
  open();
  await closing;
  expect(await new Response(stream).text()).toBe('{"n":0}\n');
});

test("the end of a transaction ends its streams too, and calls that are made in the same turn", async () => {
  const session = await letInKnowing();
  const stop = new AbortController();
  const seen: unknown[] = [];
  const call = failure(
    client.transaction(
      async (tx) => {
        const stream = await tx.stream("select n");
        seen.push(failure(stream.getReader().closed), inspect(tx));
        stop.signal.addEventListener("abort", () => seen.push(failure(tx.query("select n"))));
        await new Promise(() => {});
      },
      { signal: stop.signal },
    ),
  );
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  session.send(ran("BEGIN"), begun(), rows(1, 2));
  await quiet();
  stop.abort("enough");
  expect(await call).toMatchObject({ code: "ABORTED", cause: "enough" });
  expect(await seen[0]).toMatchObject({ code: "ABORTED", cause: { cause: "enough" } });
  expect(await seen[2]).toMatchObject({ code: "ABORTED", cause: { cause: "enough" }, hasNoEffect: true });
  // The transaction stays open, because no running call would end it.
  expect(seen[1]).toContain("state: 'open'");
});

test("a call that is made in the same turn after the end of its transaction is not sent", async () => {
  const stop = new AbortController();
  let late: unknown;
  const { session, call } = await running(
    async (tx) => {
      stop.signal.addEventListener("abort", () => (late = failure(tx.query("select n"))));
      await new Promise(() => {});
    },
    { signal: stop.signal },
  );
  stop.abort();
  await answers(session, "ROLLBACK");
  expect(await failure(call)).toMatchObject({ code: "ABORTED" });
  expect(await late).toMatchObject({ code: "ABORTED", hasNoEffect: true });
});

// -- observers --------------------------------------------------------------------------------------------------------

test("an observer is told of a call's start and end, and a call's own observer replaces the client's", async () => {
  const [all, own] = [0, 1].map(() => ({ onQueryStart: vi.fn(), onQueryEnd: vi.fn() }));
  newClient({ prepare: "unnamed", observer: all! });
  const session = await letInKnowing();
  expect([all!.onQueryStart.mock.calls.length, all!.onQueryEnd.mock.calls.length]).toEqual([1, 1]);
  const call = client.query("select n", { observer: own! });
  await runs(session, 1, 3);
  await call;
  expect(all!.onQueryStart).toHaveBeenCalledTimes(1);
  expect(own!.onQueryStart.mock.calls[0]![0]).toMatchObject({ text: "select n" });
  expect(own!.onQueryEnd.mock.calls[0]![0]).toMatchObject({ rows: 2, command: "SELECT" });
});

test("a call counts as slow from the client's threshold on, or from its own", async () => {
  const onSlowQuery = vi.fn();
  newClient({ prepare: "unnamed", observer: { onSlowQuery }, slowQueryThreshold: 60_000 });
  const session = await letInKnowing();
  for (const [options, times] of [
    [{}, 0],
    [{ slowQueryThreshold: 1 }, 1],
  ] as const) {
    const call = client.query("select n", options);
    const { now } = performance;
    const later = vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) + 1_000);
    await answered(session, call);
    later.mockRestore();
    expect(onSlowQuery).toHaveBeenCalledTimes(times);
  }
});

test("a call begins in the context that its observer returns", async () => {
  const context = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  const observer = { onQueryStart: () => (work: () => void) => context.run("the observer's", work) };
  const sqlComment = () => (seen.push(context.getStore()), {});
  newClient({ prepare: "unnamed", observer, sqlComment });
  await letInKnowing();
  expect(seen).toEqual(["the observer's"]);
});

// -- errors and the place of the call ---------------------------------------------------------------------------------

test.each([
  ["node", "who awaits it", {}],
  ["bun", "who awaits it", {}],
  ["node", "where it was made, with debug", { debug: () => {} }],
] as const)("the stack of a call's error shows (%s) %s", async (name, _, options) => {
  installRuntime({ ...runtime(), name });
  newClient({ prepare: "unnamed", ...options });
  const session = await letInKnowing();
  const query = () => client.query("select n");
  async function awaitedHere() {
    return await query();
  }
  function madeHere() {
    return query();
  }
  const call = failure("debug" in options ? madeHere() : awaitedHere());
  await session.flight();
  session.send(begun(), division(), wire.readyForQuery());
  expect(((await call) as Error).stack).toContain("debug" in options ? "madeHere" : "awaitedHere");
});
