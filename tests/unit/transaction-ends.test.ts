// How a transaction ends, over sockets in memory: from outside, by its own statements, or with something still open.
// Also what is reported and shown of it meanwhile.
import { inspect } from "node:util";
import { beforeEach, expect, test, vi } from "vitest";
import type { Transaction } from "../../js/api/transaction.ts";
import type { PgzError } from "../../js/util/errors.ts";
import { gate } from "../support/memory-pool.ts";
import {
  accepted,
  begun,
  client,
  division,
  ended,
  failure,
  fakeClock,
  isPending,
  letInKnowing,
  newClient,
  newServer,
  quiet,
  rows,
  texts,
  useMemoryServer,
} from "../support/memory-session.ts";
import { answers, BEGUN, error, inside, running } from "../support/memory-transaction.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const finished = { name: "UsageError", code: "TRANSACTION_FINISHED" };

// -- calls that are open when the callback returns --------------------------------------------------------------------

test("a stream that is open when the callback returns is refused, and the transaction is rolled back", async () => {
  let stream: ReadableStream<Uint8Array> | undefined;
  const { session, call } = await running(async (tx) => void (stream = await tx.stream("select n")));
  await texts(session);
  session.send(begun(), rows(1, 2));
  await quiet();
  const cancel = await accepted();
  await cancel.flight();
  cancel.peer.end();
  session.send(error("57014"), wire.readyForQuery("E"));
  await answers(session, "ROLLBACK");
  await expect(call).rejects.toMatchObject({ code: "STREAM_OPEN" });
  await expect(stream!.getReader().closed).rejects.toMatchObject({ code: "ABORTED" });
});

test("a nested transaction is refused during an open stream, or without a function", async () => {
  const seen: unknown[] = [];
  const { session, call } = await running(async (tx) => {
    seen.push(await failure(tx.transaction("select 1" as never)));
    const stream = await tx.stream("select n");
    seen.push(await failure(tx.transaction(() => 1)));
    await new Response(stream).text();
  });
  await texts(session);
  session.send(begun(), rows(1, 2));
  await quiet();
  session.send(wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
  await answers(session, "COMMIT");
  await call;
  expect(seen).toMatchObject([{ code: "INVALID_OPTION" }, { code: "STREAM_OPEN" }]);
});

test("a stream with closeWhenDone leaves the transaction to its callback", async () => {
  const { session, call } = await running(async (tx) => {
    await new Response(await tx.stream("select n", { closeWhenDone: true })).text();
    return (await tx.query("select n")).rows;
  });
  for (const value of [1, 2]) {
    expect(await texts(session)).toEqual(["select n"]);
    session.send(...inside(value));
  }
  await answers(session, "COMMIT");
  expect(await call).toEqual([{ n: 2 }]);
});

// -- ended by its own statements --------------------------------------------------------------------------------------

test("a transaction that was ended in SQL refuses further calls, and no COMMIT is sent", async () => {
  let next: unknown;
  const { session, call } = await running(async (tx) => {
    await tx.simple("commit");
    next = await failure(tx.query("select n"));
  });
  expect(await texts(session)).toEqual(["commit"]);
  session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
  await expect(call).rejects.toMatchObject(finished);
  expect(next).toMatchObject(finished);
  expect(await isPending(texts(session))).toBe(true);
});

test("a BEGIN that the server refuses fails the transaction, even if the callback handles the error", async () => {
  const session = await letInKnowing();
  const call = client.transaction((tx) => tx.query("select n").catch(() => "handled"));
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  session.send(wire.parseComplete(), error("0A000"), wire.readyForQuery());
  await expect(call).rejects.toMatchObject({ code: "TRANSACTION_ROLLED_BACK" });
  expect(await isPending(texts(session))).toBe(true);
});

test.each([
  ["COMMIT", undefined],
  ["UPDATE 0", undefined],
  ["ROLLBACK", "TRANSACTION_ROLLED_BACK"],
])("COMMIT that is answered with %s has the error %s", async (tag, code) => {
  const { session, call } = await running(() => "returned");
  await answers(session, "COMMIT", tag);
  if (code) await expect(call).rejects.toMatchObject({ code });
  else expect(await call).toBe("returned");
});

test("a refused COMMIT is the call's error, and nothing is left to roll back", async () => {
  const { session, call } = await running(() => "returned");
  expect(await texts(session)).toEqual(["COMMIT"]);
  session.send(error("23505"), wire.readyForQuery());
  await expect(call).rejects.toMatchObject({ code: "23505", query: "COMMIT" });
  const reason = (await failure(call)) as PgzError;
  expect(reason.transaction).toBeUndefined();
  expect(await isPending(texts(session))).toBe(true);
});

test.each([true, false])(
  "a transaction without statements sends nothing, not even BEGIN later (returns: %s)",
  async (returns) => {
    const session = await letInKnowing();
    if (returns) expect(await client.transaction(() => "returned")).toBe("returned");
    else await expect(client.transaction(() => Promise.reject(new Error("mine")))).rejects.toThrow("mine");
    const next = client.query("select n");
    expect(await texts(session)).toEqual(["select n"]);
    session.send(begun(), rows(7, 8), ended(1));
    expect((await next).rows).toEqual([{ n: 7 }]);
  },
);

test("a transaction that is over before its turn connects nothing, and its callback does not run", async () => {
  let hasRun = false;
  const call = client.transaction(() => (hasRun = true), { signal: AbortSignal.abort("before") });
  await expect(call).rejects.toMatchObject({ code: "ABORTED", cause: "before", retryable: true });
  await quiet();
  expect([hasRun, client.stats().state]).toEqual([false, "new"]);
});

// -- ended from outside -----------------------------------------------------------------------------------------------

test("the timeout of a transaction counts from the call on, and ends running statements", async () => {
  using clock = fakeClock();
  let inner: unknown;
  const { session, call } = await running(async (tx) => (inner = await failure(tx.query("select n"))), {
    timeout: 5_000,
  });
  await texts(session);
  await clock.pass(4_999);
  expect(await isPending(call)).toBe(true);
  await clock.pass(1);
  await expect(call).rejects.toMatchObject({ code: "QUERY_TIMEOUT", retryable: false });
  expect(inner).toMatchObject({ code: "ABORTED", cause: { code: "QUERY_TIMEOUT" } });
});

test("without a timeout a transaction may take any time", async () => {
  using clock = fakeClock();
  const { closed, open: goOn } = gate();
  const { session, call } = await running(() => closed);
  await clock.pass(86_400_000);
  goOn();
  await answers(session, "COMMIT");
  await call;
});

test("the client's signal ends a transaction, and one that has sent nothing is retryable", async () => {
  const stop = new AbortController();
  newClient({ prepare: "unnamed", signal: stop.signal });
  const { session, call } = await running(() => new Promise(() => {}));
  const waiting = client.transaction(() => 1);
  stop.abort("enough");
  await expect(waiting).rejects.toMatchObject({ code: "ABORTED", cause: "enough", retryable: true });
  await expect(call).rejects.toMatchObject({ code: "ABORTED", cause: "enough", retryable: false });
  await answers(session, "ROLLBACK");
});

test("a callback that outlives its transaction gets the reason at first, and later that it is over", async () => {
  const stop = new AbortController();
  const { closed, open: goOn } = gate();
  const seen: unknown[] = [];
  let kept: Transaction | undefined;
  const { session, call } = await running(
    async (tx) => {
      kept = tx;
      // Called at once, before any code of the driver is told of the end.
      stop.signal.addEventListener("abort", () => void failure(tx.query("select n")).then((one) => seen.push(one)));
      await closed;
      seen.push(await failure(tx.query("select n")));
    },
    { signal: stop.signal },
  );
  stop.abort("enough");
  await expect(call).rejects.toMatchObject({ code: "ABORTED" });
  await answers(session, "ROLLBACK");
  goOn();
  await quiet();
  expect(seen).toMatchObject([{ code: "ABORTED", cause: { code: "ABORTED", cause: "enough" } }, finished]);
  await expect(kept!.query("select n")).rejects.toMatchObject(finished);
});

test("a call and a transaction that share a refused login have an error each", async () => {
  newClient({ prepare: "unnamed", earlyQuery: false });
  const calls = [client.query("select n"), client.transaction(() => 1)].map(failure);
  const refusing = await accepted();
  await refusing.flight();
  refusing.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "53300", M: "too many clients" }));
  refusing.peer.end();
  const [first, second] = await Promise.all(calls);
  expect([first, second]).toMatchObject([{ code: "53300" }, { code: "53300" }]);
  expect(first).not.toBe(second);
});

test("a callback whose connection is lost between two calls gets that error until it has returned", async () => {
  newServer({ readsWhileIdle: true });
  const { closed, open: goOn } = gate();
  let kept: Transaction | undefined;
  let inner: unknown;
  const { session, call } = await running(async (tx) => {
    kept = tx;
    await closed;
    inner = await failure(tx.query("select n"));
  });
  session.peer.reset();
  await expect(call).rejects.toMatchObject({ code: "CONNECTION_LOST" });
  goOn();
  await quiet();
  expect(inner).toMatchObject({
    ...{ code: "CONNECTION_LOST", message: expect.stringContaining("rolls back"), cause: { code: "CONNECTION_LOST" } },
  });
  await expect(kept!.query("select n")).rejects.toMatchObject(finished);
});

test("after a loss the transaction and its call have an error each", async () => {
  newServer({ readsWhileIdle: true });
  let inner: unknown;
  const { session, call } = await running(async (tx) => (inner = await failure(tx.query("select n"))));
  await texts(session);
  session.peer.reset();
  const reason = await failure(call);
  await quiet();
  expect([reason, inner]).toMatchObject([{ code: "CONNECTION_LOST" }, { code: "CONNECTION_LOST" }]);
  expect(reason).not.toBe(inner);
});

// -- repeats ----------------------------------------------------------------------------------------------------------

test("a conflict is retried after a pause, which the observer is told, and the second run may succeed", async () => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  const onRetry = vi.fn();
  newClient({ prepare: "unnamed", observer: { onRetry } });
  const session = await letInKnowing();
  using clock = fakeClock();
  let runs = 0;
  const call = client.transaction(async (tx) => (runs++, (await tx.query("select n")).rows), { retry: true });
  await texts(session);
  session.send(BEGUN, begun(), error("40P01"), wire.readyForQuery("E"));
  await answers(session, "ROLLBACK");
  await clock.pass(9);
  expect(runs).toBe(1);
  await clock.pass(1);
  expect(runs).toBe(2);
  expect(onRetry.mock.calls).toEqual([
    [expect.objectContaining({ attempt: 1, delayMs: 10, error: expect.objectContaining({ code: "40P01" }) })],
  ]);
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  session.send(BEGUN, ...inside());
  await answers(session, "COMMIT");
  expect(await call).toEqual([{ n: 1 }]);
  vi.restoreAllMocks();
});

test("a conflict with a lost ROLLBACK is the error, and is not retried", async () => {
  const onRetry = vi.fn();
  newClient({ prepare: "unnamed", observer: { onRetry } });
  const session = await letInKnowing();
  const call = failure(client.transaction((tx) => tx.query("select n"), { retry: true }));
  await texts(session);
  session.send(BEGUN, begun(), error("40001"), wire.readyForQuery("E"));
  expect(await texts(session)).toEqual(["ROLLBACK"]);
  session.peer.reset();
  expect(await call).toMatchObject({ code: "40001" });
  expect(onRetry).not.toHaveBeenCalled();
});

test("other errors are not retried, nor is a transaction that ends in its pause", async () => {
  const session = await letInKnowing();
  using clock = fakeClock();
  const stop = new AbortController();
  let runs = 0;
  const work = (tx: Transaction) => (runs++, tx.query("select n"));
  for (const isConflict of [false, true]) {
    const call = failure(client.transaction(work, { retry: 3, signal: stop.signal }));
    await texts(session);
    session.send(BEGUN, begun(), isConflict ? error("40001") : division(), wire.readyForQuery("E"));
    await answers(session, "ROLLBACK");
    await quiet();
    if (isConflict) stop.abort();
    await clock.pass(5_000);
    expect(await call).toMatchObject({ code: isConflict ? "ABORTED" : "22012" });
  }
  expect(runs).toBe(2);
  const next = client.query("select n");
  await texts(session);
  session.send(begun(), rows(7, 8), ended(1));
  expect((await next).rows).toEqual([{ n: 7 }]);
});

// -- what is reported and shown ---------------------------------------------------------------------------------------

test("a transaction is printed with its state and its server", async () => {
  const seen: string[] = [];
  let kept: Transaction | undefined;
  const { session, call } = await running(async (tx) => {
    kept = tx;
    seen.push(inspect(tx));
    const query = tx.query("select n");
    seen.push(inspect(tx));
    await query;
  });
  await texts(session);
  session.send(...inside());
  await answers(session, "COMMIT");
  await call;
  seen.push(inspect(kept));
  for (const [at, state] of ["open", "busy", "finished"].entries()) {
    expect(seen[at]).toMatch(/^Transaction \{/);
    expect(seen[at]).toContain(`state: '${state}'`);
    expect(seen[at]).toContain("host: 'memory'");
  }
});

test("in a scope a transaction refuses a text whose statements cannot be checked", async () => {
  await letInKnowing();
  const scope = client.scope({ settings: { "a.b": 1 } });
  await expect(scope.transaction((tx) => tx.simple("select 1"))).rejects.toMatchObject({ code: "NOT_IN_SCOPE" });
});

test("a transaction is finished once its callback has returned, even with calls in flight", async () => {
  const session = await letInKnowing();
  let kept: Transaction | undefined;
  const call = client.transaction((tx) => void (kept = tx).query("select n"));
  await texts(session);
  await quiet();
  expect(inspect(kept)).toContain("state: 'finished'");
  session.send(BEGUN, ...inside());
  await answers(session, "COMMIT");
  await call;
});
