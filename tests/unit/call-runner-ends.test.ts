// What happens to calls when their owner, their session or an earlier call ends: which begin again, which end too, and
// which continue. Over sockets in memory.
import { AsyncLocalStorage } from "node:async_hooks";
import { tracingChannel } from "node:diagnostics_channel";
import { inspect } from "node:util";
import { beforeEach, expect, test } from "vitest";
import type { Transaction } from "../../js/api/transaction.ts";
import { gate, memoryPool } from "../support/memory-pool.ts";
import {
  accepted,
  begun,
  client,
  division,
  ended,
  execution,
  failure,
  fakeClock,
  isPending,
  letIn,
  letInKnowing,
  newClient,
  otherClient,
  quiet,
  rows,
  shutdown,
  texts,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { BEGUN, inside } from "../support/memory-transaction.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

/** A loop over "select n" that has its first row and waits for more. */
async function openLoop(session: Session) {
  const seen: unknown[] = [];
  async function loopsHere() {
    for await (const row of client.rows("select n")) seen.push(row);
  }
  const looping = failure(loopsHere());
  await session.flight();
  session.send(begun(), rows(1, 2));
  await quiet();
  expect(seen.length).toBe(1);
  return { looping };
}

// -- which session ----------------------------------------------------------------------------------------------------

test("after its session ended unused, a client's call begins again, and a transaction's does not", async () => {
  const session = await letInKnowing();
  const call = client.query("select n");
  await session.flight();
  session.send(shutdown());
  const next = await letIn();
  await next.flight();
  next.send(begun(), rows(7, 8), ended(1));
  expect((await call).rows).toEqual([{ n: 7 }]);
  let inner: unknown;
  const transaction = failure(client.transaction(async (tx) => (inner = await failure(tx.query("select n")))));
  await next.flight();
  next.send(shutdown());
  expect(await transaction).toMatchObject({ code: "57P01" });
  expect(inner).toMatchObject({ code: "57P01" });
  expect(await isPending(accepted())).toBe(true);
});

test("a call is sent in the turn in which it is made, or after the end of a cancel in flight", async () => {
  const session = await letInKnowing();
  const { writes } = client.stats();
  const stop = new AbortController();
  const stopped = failure(client.query("select n", { signal: stop.signal }));
  await undefined;
  expect(client.stats().writes).toBe(writes + 1);
  await session.flight();
  stop.abort();
  await stopped;
  const next = client.query("select n");
  const left = session.flight();
  const cancel = await accepted();
  await cancel.flight();
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57014", M: "canceled" }), wire.readyForQuery());
  expect(await isPending(left)).toBe(true);
  cancel.peer.end();
  expect(await left).toEqual(execution);
  session.send(begun(), rows(7, 8), ended(1));
  expect((await next).rows).toEqual([{ n: 7 }]);
});

// -- calls that end with their owner ----------------------------------------------------------------------------------

test("close ends a loop after the time that it gives to any call", async () => {
  const session = await letInKnowing();
  using clock = fakeClock();
  const { looping } = await openLoop(session);
  const closing = client.close();
  await clock.pass(399);
  expect(await isPending(closing)).toBe(true);
  await clock.pass(1);
  expect(await looping).toMatchObject({ code: "CLIENT_CLOSED" });
  await clock.pass(1_000);
  await closing;
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
  session.send(BEGUN, begun(), rows(1, 2));
  await quiet();
  stop.abort("enough");
  expect(await call).toMatchObject({ code: "ABORTED", cause: "enough" });
  expect(await seen[0]).toMatchObject({ code: "ABORTED", cause: { cause: "enough" } });
  expect(await seen[2]).toMatchObject({ code: "ABORTED", cause: { cause: "enough" }, retryable: true });
  // The transaction stays open, because no running call would end it.
  expect(seen[1]).toContain("state: 'open'");
});

test("a call that is made in the same turn after the end of its transaction is not sent", async () => {
  const session = await letInKnowing();
  const stop = new AbortController();
  let late: unknown;
  const work = async (tx: Transaction) => {
    await tx.query("select n");
    stop.signal.addEventListener("abort", () => (late = failure(tx.query("select n"))));
    await new Promise(() => {});
  };
  const call = failure(client.transaction(work, { signal: stop.signal }));
  await session.flight();
  session.send(BEGUN, ...inside());
  await quiet();
  stop.abort();
  expect(await texts(session)).toEqual(["ROLLBACK"]);
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  expect(await call).toMatchObject({ code: "ABORTED" });
  expect(await late).toMatchObject({ code: "ABORTED", retryable: true });
});

test("a failed COMMIT is an error of the transaction's call, whose stack shows who awaits it", async () => {
  const session = await letInKnowing();
  async function transactsHere() {
    return await client.transaction(async (tx) => void (await tx.query("select n")));
  }
  const call = failure(transactsHere());
  await session.flight();
  session.send(BEGUN, ...inside());
  expect(await texts(session)).toEqual(["COMMIT"]);
  session.send(wire.errorResponse({ S: "ERROR", V: "ERROR", C: "23505", M: "no" }), wire.readyForQuery());
  expect(await call).toMatchObject({
    ...{ code: "23505", query: "COMMIT", stack: expect.stringContaining("transactsHere") },
  });
});

test("a stream with closeWhenDone closes its client once it is read", async () => {
  const session = await letInKnowing();
  const opening = client.stream("select n", { closeWhenDone: true });
  await session.flight();
  session.send(begun(), rows(1, 2), ended(1));
  await new Response(await opening).text();
  expect(await session.flight()).toEqual(["Terminate"]);
  await expect(client.query("select n")).rejects.toMatchObject({ code: "CLIENT_CLOSED" });
});

test("a stream whose client still connects ends closeTimeout after the close", async () => {
  using clock = fakeClock();
  const one = otherClient({ closeTimeout: 5_000, connectTimeout: 60_000 });
  const opening = failure(one.stream("select n"));
  await (await accepted()).flight();
  await one.close();
  await clock.pass(4_900);
  expect(await isPending(opening)).toBe(true);
  await clock.pass(1_000);
  expect(await opening).toMatchObject({ code: "CLIENT_CLOSED" });
});

// -- what observers are told ------------------------------------------------------------------------------------------

test("a call begins in the context that its observer returns", async () => {
  const context = new AsyncLocalStorage<string>();
  const seen: unknown[] = [];
  const observer = { onQueryStart: () => (work: () => void) => context.run("the observer's", work) };
  const sqlComment = () => (seen.push(context.getStore()), {});
  newClient({ prepare: "unnamed", observer, sqlComment });
  await letInKnowing();
  expect(seen).toEqual(["the observer's"]);
});

test("tracing channels are told of each kind of call under its name", async () => {
  const one = otherClient({ connect: () => Promise.reject(new Error("no server")) });
  const seen: string[] = [];
  const channels = (["query", "batch", "copy"] as const).map((kind) => {
    const start = () => void seen.push(kind);
    const channel = tracingChannel(`pgz-edge:${kind}`);
    channel.start.subscribe(start);
    return () => channel.start.unsubscribe(start);
  });
  const calls = [one.query("select n"), one.batch(["select n"]), one.copyFrom("copy t from stdin", [])].map(failure);
  for (const stop of channels) stop();
  expect(seen).toEqual(["query", "batch", "copy"]);
  for (const call of calls) expect(await call).toMatchObject({ message: "no server" });
});

test("the stack of a loop's error shows who awaits its rows", async () => {
  const session = await letInKnowing();
  const { looping } = await openLoop(session);
  session.send(division(), wire.readyForQuery());
  expect(await looping).toMatchObject({ code: "22012", stack: expect.stringContaining("loopsHere") });
});

test("a client is printed with its name, its state and its place", () => {
  expect(inspect(client)).toMatch(/^Client \{[^]*state: 'new'[^]*host: 'memory'[^]*port: 5432[^]*database: 'd\d+'/);
});
