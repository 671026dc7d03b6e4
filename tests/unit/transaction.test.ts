// A transaction over sockets in memory: how it begins, how it ends, from outside or with something still open, and what
// is reported and shown of it meanwhile. transaction-last.test.ts has the last statement, with which COMMIT is sent.
import { inspect } from "node:util";
import { beforeEach, expect, test, vi } from "vitest";
import type { Transaction } from "../../js/api/transaction.ts";
import { beginStatement, type TransactionOptions } from "../../js/api/transaction-options.ts";
import { configured } from "../../js/api/configured.ts";
import { gate } from "../support/memory-pool.ts";
import {
  client,
  failure,
  fakeTimers,
  isPending,
  newClient,
  newServer,
  quiet,
  refuseLogin,
  texts,
  useMemoryServer,
} from "../support/memory-session.ts";
import { answers, running, sent } from "../support/memory-transaction.ts";
import {
  begun,
  completeAndReady,
  errorAndReady,
  executedInside,
  failedInside,
  ran,
  rows,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const finished = { name: "UsageError", code: "TRANSACTION_FINISHED" };

// -- how it begins ----------------------------------------------------------------------------------------------------

test.each<[TransactionOptions, string]>([
  [{}, "BEGIN"],
  [{ isolation: "read uncommitted" }, "BEGIN ISOLATION LEVEL READ UNCOMMITTED"],
  [{ isolation: "read committed" }, "BEGIN ISOLATION LEVEL READ COMMITTED"],
  [{ isolation: "repeatable read" }, "BEGIN ISOLATION LEVEL REPEATABLE READ"],
  [{ isolation: "serializable" }, "BEGIN ISOLATION LEVEL SERIALIZABLE"],
  [{ readOnly: true }, "BEGIN READ ONLY"],
  [{ readOnly: false }, "BEGIN READ WRITE"],
  [{ deferrable: true }, "BEGIN DEFERRABLE"],
  [{ deferrable: false }, "BEGIN NOT DEFERRABLE"],
  [
    { isolation: "serializable", readOnly: true, deferrable: true },
    "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
  ],
])("%o begins with %s", (options, text) => {
  expect(beginStatement(configured({ host: "h", user: "u" }), options)).toBe(text);
});

test.each([
  [{ isolation: "snapshot" }, "INVALID_OPTION"],
  [{ readOnly: 1 }, "INVALID_OPTION"],
  [{ deferrable: "yes" }, "INVALID_OPTION"],
  [{ retry: 0 }, "INVALID_OPTION"],
  [{ timeout: -1 }, "INVALID_OPTION"],
  [{ signal: 5 }, "INVALID_OPTION"],
  [{ readonly: true }, "UNKNOWN_OPTION"],
])("%o is refused", (options, code) => {
  const act = () => beginStatement(configured({ host: "h", user: "u" }), options as never);
  expect(act).toThrow(expect.objectContaining({ name: "UsageError", code }));
});

test("a transaction that is over before its turn connects nothing, and its callback does not run", async () => {
  let hasRun = false;
  const call = client.transaction(() => (hasRun = true), { signal: AbortSignal.abort("before") });
  await expect(call).rejects.toMatchObject({ code: "ABORTED", cause: "before", hasNoEffect: true });
  await quiet();
  expect([hasRun, client.stats().state]).toEqual([false, "new"]);
});

test("a call and a transaction that share a refused login have an error each", async () => {
  newClient({ prepare: "unnamed", earlyQuery: false });
  const calls = [client.query("select n"), client.transaction(() => 1)].map(failure);
  await refuseLogin();
  const [first, second] = await Promise.all(calls);
  expect([first, second]).toMatchObject([{ code: "53300" }, { code: "53300" }]);
  expect(first).not.toBe(second);
});

test("a BEGIN that the server refuses fails the transaction, even if the callback handles the error", async () => {
  const { session, call } = await sent((tx) => tx.query("select n").catch(() => "handled"));
  session.send(wire.parseComplete(), errorAndReady("0A000"));
  await expect(call).rejects.toMatchObject({ code: "TRANSACTION_ROLLED_BACK" });
  expect(await isPending(texts(session))).toBe(true);
});

// -- COMMIT ----------------------------------------------------------------------------------------------------------

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
  session.send(errorAndReady("23505"));
  expect(await failure(call)).toMatchObject({ code: "23505", query: "COMMIT", transaction: "rolled back" });
  expect(await isPending(texts(session))).toBe(true);
});

test("an error of COMMIT that leaves the outcome open says so, and may not be repeated", async () => {
  const { session, call } = await running(() => "returned");
  await texts(session);
  session.send(errorAndReady("40003"));
  expect(await failure(call)).toMatchObject({ code: "40003", transaction: "unknown", retryable: false });
});

test("a conflict with a lost ROLLBACK is the error, and is not retried", async () => {
  const onRetry = vi.fn();
  newClient({ prepare: "unnamed", observer: { onRetry } });
  const { session, call } = await sent((tx) => tx.query("select n"), { retry: true });
  session.send(ran("BEGIN"), failedInside("40001"));
  expect(await texts(session)).toEqual(["ROLLBACK"]);
  session.peer.reset();
  await expect(call).rejects.toMatchObject({ code: "40001" });
  expect(onRetry).not.toHaveBeenCalled();
});

// -- open calls ------------------------------------------------------------------------------------------------------

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
  session.send(completeAndReady("SELECT 1", "T"));
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
    session.send(executedInside(value));
  }
  await answers(session, "COMMIT");
  expect(await call).toEqual([{ n: 2 }]);
});

// -- ended from outside -----------------------------------------------------------------------------------------------

test("the timeout of a transaction counts from the call on, and ends running statements", async () => {
  using clock = fakeTimers();
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
  using clock = fakeTimers();
  const { closed, open: goOn } = gate();
  const { session, call } = await running(() => closed);
  await clock.pass(86_400_000);
  goOn();
  await answers(session, "COMMIT");
  await call;
});

test("the client's signal ends a transaction, and one that has sent nothing has had no effect", async () => {
  const stop = new AbortController();
  newClient({ prepare: "unnamed", signal: stop.signal });
  const { session, call } = await running(() => new Promise(() => {}));
  const waiting = client.transaction(() => 1);
  stop.abort("enough");
  await expect(waiting).rejects.toMatchObject({ code: "ABORTED", cause: "enough", hasNoEffect: true });
  await expect(call).rejects.toMatchObject({ code: "ABORTED", cause: "enough", hasNoEffect: false });
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
  await expect(call).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
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

// -- what is shown ---------------------------------------------------------------------------------------------------

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
  session.send(executedInside());
  await answers(session, "COMMIT");
  await call;
  seen.push(inspect(kept));
  for (const [at, state] of ["open", "busy", "finished"].entries()) {
    expect(seen[at]).toMatch(/^Transaction \{/);
    expect(seen[at]).toContain(`state: '${state}'`);
    expect(seen[at]).toContain("host: 'memory'");
  }
});

test("a transaction is finished once its callback has returned, even with calls in flight", async () => {
  let kept: Transaction | undefined;
  const { session, call } = await sent((tx) => void (kept = tx).query("select n"));
  await quiet();
  expect(inspect(kept)).toContain("state: 'finished'");
  session.send(ran("BEGIN"), executedInside());
  await answers(session, "COMMIT");
  await call;
});
