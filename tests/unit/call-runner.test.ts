// The life of a call apart from its turn: what is refused, what ends it, what its observer is told, and where it moves
// when its session was unusable.
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Job, refusal, sessionFailure } from "../../js/api/call-runner.ts";
import type { Call } from "../../js/session/call.ts";
import { installRuntime, runtime } from "../../js/sockets/runtime.ts";
import { memoryPool } from "../support/memory-pool.ts";
import {
  accepted,
  begun,
  client,
  division,
  ended,
  isPending,
  letInKnowing,
  newClient,
  quiet,
  rows,
  useMemoryServer,
} from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));
afterEach(() => vi.restoreAllMocks());

// -- unusable sessions ------------------------------------------------------------------------------------------------

test("a session was unusable if its own end failed the call in a retryable way", () => {
  const own = { retryable: true };
  const session = (closed: unknown, established: boolean) => ({ connection: { closed, established } }) as never;
  expect(sessionFailure(own, session(own, true))).toBe("ended session");
  expect(sessionFailure(own, session(own, false))).toBe("refused login");
  expect(sessionFailure({ retryable: true }, session(own, true))).toBeUndefined();
  expect(sessionFailure(own, session(undefined, true))).toBeUndefined();
  const unsafe = { retryable: false };
  expect(sessionFailure(unsafe, session(unsafe, true))).toBeUndefined();
});

test("a call moves to another session as often as allowed, and only if nothing of it can have happened", () => {
  const job = (beyond: string) =>
    new Job(
      { beyond } as Call<void>,
      "alone",
      () => {},
      () => {},
    );
  const one = job("nothing");
  expect([1, 2, 3].map(() => one.goesElsewhere("ended session", "alone", 2))).toEqual([true, true, false]);
  // A server that refuses the login has not had the call, so this does not count as a repeat.
  const other = job("nothing");
  expect([1, 2, 3].map(() => other.goesElsewhere("refused login", "alone", 1))).toEqual([true, true, true]);
  for (const beyond of ["calls", "commits", "rows"])
    expect(job(beyond).goesElsewhere("ended session", "alone", 9), beyond).toBe(false);
});

test("a refusal is a promise that rejects", async () => {
  const error = new Error("mine");
  await expect(refusal(error)).rejects.toBe(error);
});

// -- what is refused, and what ends a call ----------------------------------------------------------------------------

test("invalid options are refused, and no call is counted", async () => {
  for (const [options, code] of [
    [{ signal: 5 }, "INVALID_OPTION"],
    [{ timeout: -1 }, "INVALID_OPTION"],
    [{ observer: 5 }, "INVALID_OPTION"],
    [{ timeuot: 5 }, "UNKNOWN_OPTION"],
  ] as const)
    await expect(client.exec("select n", options as never)).rejects.toMatchObject({ name: "UsageError", code });
  expect(client.stats()).toMatchObject({ state: "new", queries: 0 });
});

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
    await expect(call).rejects.toMatchObject({ name: "AbortError", cause: "enough", retryable: false });
    const next = client.query("select n", options);
    await expect(next).rejects.toMatchObject({ name: "AbortError", cause: "enough", retryable: true });
    expect(client.stats()).toMatchObject({ queries: 3, errors: 2 });
  },
);

test("a loop that is left ends its query, and the next call runs", async () => {
  const session = await letInKnowing();
  const looping = (async () => {
    for await (const row of client.rows("select n")) return row;
    return undefined;
  })();
  await session.flight();
  session.send(begun(), rows(1, 3));
  expect(await looping).toEqual({ n: 1 });
  const next = client.query("select n");
  const cancel = await accepted();
  expect(await cancel.flight()).toEqual(["CancelRequest"]);
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57014", M: "canceled" }), wire.readyForQuery());
  cancel.peer.end();
  await session.flight();
  session.send(begun(), rows(5, 6), ended(1));
  expect((await next).rows).toEqual([{ n: 5 }]);
});

test.each(["a stream", "a cursor", "a loop"])("%s must be finished before another call", async (what) => {
  newClient({ prepare: "unnamed" });
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
  await expect(client.query("select n")).rejects.toMatchObject({ name: "UsageError", code: "STREAM_OPEN" });
  await expect(client.transaction(() => 1)).rejects.toMatchObject({ code: "STREAM_OPEN" });
  await session.flight();
  if (what === "a cursor") {
    session.send(wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN"));
    session.send(begun(), rows(1, 2), wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
    await session.flight();
    session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
  } else session.send(begun(), rows(1, 2), ended(1));
  await reading;
  const next = client.query("select n");
  await session.flight();
  session.send(begun(), rows(5, 6), ended(1));
  expect((await next).rows).toEqual([{ n: 5 }]);
});

test("an open stream keeps its runtime awake, and other calls do not", async () => {
  const session = await letInKnowing();
  const kept: Promise<unknown>[] = [];
  installRuntime({ ...runtime(), background: (work) => void kept.push(work) });
  const call = client.query("select n");
  await session.flight();
  session.send(begun(), rows(1, 2), ended(1));
  await call;
  expect(kept).toEqual([]);
  const opening = client.stream("select n");
  await session.flight();
  session.send(begun(), rows(1, 2));
  const stream = await opening;
  expect(kept.length).toBe(1);
  expect(await isPending(kept[0]!)).toBe(true);
  session.send(ended(1));
  await new Response(stream).text();
  await Promise.all(kept);
});

test("the end of a lease ends its present and future calls, but no stream that the user has", async () => {
  const { pool } = memoryPool({ max: 1 });
  const lease = await pool.acquire();
  const stream = await lease.stream("select n");
  await lease.release();
  await expect(lease.query("select n")).rejects.toMatchObject({ code: "LEASE_RELEASED" });
  expect(await new Response(stream).text()).toBe('{"n":0}\n');
  await pool.close();
});

// -- observers --------------------------------------------------------------------------------------------------------

test("an observer is told of a call's start and end, and a call's own observer replaces the client's", async () => {
  const [all, own] = [0, 1].map(() => ({ onQueryStart: vi.fn(), onQueryEnd: vi.fn() }));
  newClient({ prepare: "unnamed", observer: all! });
  const session = await letInKnowing();
  expect([all!.onQueryStart.mock.calls.length, all!.onQueryEnd.mock.calls.length]).toEqual([1, 1]);
  const call = client.query("select n", { observer: own! });
  await session.flight();
  session.send(begun(), rows(1, 3), ended(2));
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
    await session.flight();
    const { now } = performance;
    const later = vi.spyOn(performance, "now").mockImplementation(() => now.call(performance) + 1_000);
    session.send(begun(), rows(1, 2), ended(1));
    await call;
    later.mockRestore();
    expect(onSlowQuery).toHaveBeenCalledTimes(times);
  }
});

// -- errors and the place of the call ---------------------------------------------------------------------------------

test.each(["node", "bun"])("the stack of a call's error shows who awaits it (%s)", async (name) => {
  installRuntime({ ...runtime(), name });
  newClient({ prepare: "unnamed" });
  const session = await letInKnowing();
  async function askedHere() {
    return await client.query("select n");
  }
  const call = askedHere().catch((error: unknown) => error as Error);
  await session.flight();
  session.send(begun(), division(), wire.readyForQuery());
  expect(((await call) as Error).stack).toContain("askedHere");
});

test("with debug, an error has the call's parameters and the place of the call", async () => {
  newClient({ prepare: "unnamed", debug: () => {} });
  const session = await letInKnowing();
  function madeHere() {
    return client.query("select n");
  }
  const call = madeHere().catch((error: unknown) => error as Error);
  await session.flight();
  session.send(begun(), division(), wire.readyForQuery());
  expect(((await call) as Error).stack).toContain("madeHere");
});
