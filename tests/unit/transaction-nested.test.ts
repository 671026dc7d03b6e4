// Nested and consecutive transactions, over sockets in memory: savepoints and what ends them, and which transaction
// waits for which.
import { beforeEach, expect, test, vi } from "vitest";
import { gate } from "../support/memory-pool.ts";
import {
  accepted,
  client,
  failure,
  fakeTimers,
  isPending,
  letInKnowing,
  newClient,
  quiet,
  texts,
  useMemoryServer,
} from "../support/memory-session.ts";
import { answers, running, sent } from "../support/memory-transaction.ts";
import { completeAndReady, errorAndReady, executedInside, ran } from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

// -- savepoints -------------------------------------------------------------------------------------------------------

test("nested savepoints have unique names, which are used again one after the other", async () => {
  const { session, call } = await running(async (tx) => {
    await tx.transaction((one) => one.transaction((two) => two.transaction(() => 1)));
    return await tx.transaction(() => "behind");
  });
  for (const number of [1, 2, 3]) await answers(session, `SAVEPOINT pgz_${number}`, "SAVEPOINT", "T");
  for (const number of [3, 2, 1]) await answers(session, `RELEASE SAVEPOINT pgz_${number}`, "RELEASE", "T");
  await answers(session, "SAVEPOINT pgz_2", "SAVEPOINT", "T");
  await answers(session, "RELEASE SAVEPOINT pgz_2", "RELEASE", "T");
  await answers(session, "COMMIT");
  expect(await call).toBe("behind");
});

test("a savepoint that cannot be made fails the nested transaction, whose callback does not run", async () => {
  let hasRun = false;
  const { session, call } = await running((tx) => failure(tx.transaction(() => (hasRun = true))));
  expect(await texts(session)).toEqual(["SAVEPOINT pgz_1"]);
  session.send(errorAndReady("25P02", "E"));
  await answers(session, "COMMIT", "ROLLBACK");
  await expect(call).rejects.toMatchObject({ code: "TRANSACTION_ROLLED_BACK" });
  expect(hasRun).toBe(false);
});

test("if ROLLBACK TO SAVEPOINT fails, the original error is kept, and COMMIT reports the rollback", async () => {
  let inner: unknown;
  const { session, call } = await running(async (tx) => {
    inner = await failure(tx.transaction(() => Promise.reject(new Error("mine"))));
  });
  await answers(session, "SAVEPOINT pgz_1", "SAVEPOINT", "T");
  expect(await texts(session)).toEqual(["ROLLBACK TO SAVEPOINT pgz_1; RELEASE SAVEPOINT pgz_1"]);
  session.send(errorAndReady("3B001", "E"));
  await answers(session, "COMMIT", "ROLLBACK");
  await expect(call).rejects.toMatchObject({ code: "TRANSACTION_ROLLED_BACK" });
  expect(inner).toMatchObject({ message: "mine" });
});

test("a nested transaction that fails is rolled back once its own calls are over", async () => {
  const { session, call } = await running(async (tx) => {
    await failure(
      tx.transaction((inner) => {
        inner.query("select n").catch(() => {});
        return Promise.reject(new Error("mine"));
      }),
    );
    return "returned";
  });
  await answers(session, "SAVEPOINT pgz_1", "SAVEPOINT", "T");
  expect(await texts(session)).toEqual(["select n"]);
  const cancel = await accepted();
  await cancel.flight();
  const rollback = texts(session);
  expect(await isPending(rollback)).toBe(true);
  cancel.peer.end();
  session.send(errorAndReady("57014", "E"));
  expect(await rollback).toEqual(["ROLLBACK TO SAVEPOINT pgz_1; RELEASE SAVEPOINT pgz_1"]);
  session.send(wire.commandComplete("ROLLBACK"), completeAndReady("RELEASE", "T"));
  await answers(session, "COMMIT");
  expect(await call).toBe("returned");
});

test("ROLLBACK waits for a nested transaction that was abandoned", async () => {
  const stop = new AbortController();
  let nested: unknown;
  const { session, call } = await running(
    async (tx) => {
      nested = await failure(tx.transaction((inner) => inner.query("select n")));
    },
    { signal: stop.signal },
  );
  await answers(session, "SAVEPOINT pgz_1", "SAVEPOINT", "T");
  expect(await texts(session)).toEqual(["select n"]);
  stop.abort("enough");
  await expect(call).rejects.toMatchObject({ code: "ABORTED", cause: "enough" });
  const cancel = await accepted();
  await cancel.flight();
  const rollback = texts(session);
  session.send(errorAndReady("57014", "E"));
  expect(await isPending(rollback)).toBe(true);
  cancel.peer.end();
  // The savepoint goes with the whole transaction.
  expect(await rollback).toEqual(["ROLLBACK"]);
  session.send(completeAndReady("ROLLBACK"));
  await quiet();
  expect(nested).toMatchObject({ code: "ABORTED", cause: "enough" });
  expect(client.stats().state).toBe("idle");
});

// -- waiting for another transaction ----------------------------------------------------------------------------------

test("a waiting transaction is not ended when the one before it ends, and leaves no timer", async () => {
  await letInKnowing();
  using clock = fakeTimers();
  const { closed, open: goOn } = gate();
  const first = client.transaction(() => closed);
  await quiet();
  const second = client.transaction(() => "second");
  await clock.pass(2_999);
  expect(vi.getTimerCount()).toBe(1);
  goOn();
  await first;
  expect(await second).toBe("second");
  await clock.pass(0);
  expect(vi.getTimerCount()).toBe(0);
});

test("a transaction continues to wait for one that runs a statement within each 3 s", async () => {
  const session = await letInKnowing();
  using clock = fakeTimers();
  const gates = [gate(), gate()];
  const first = client.transaction(async (tx) => {
    for (const { closed } of gates) {
      await closed;
      await tx.query("select n");
    }
  });
  await quiet();
  const second = client.transaction(() => "second");
  for (const [at, { open: goOn }] of gates.entries()) {
    await clock.pass(1_000);
    goOn();
    await texts(session);
    session.send(...(at === 0 ? [ran("BEGIN")] : []), executedInside());
    await clock.pass(2_000);
    expect(await isPending(second)).toBe(true);
  }
  await answers(session, "COMMIT");
  await first;
  expect(await second).toBe("second");
});

test("a waiting transaction fails after 3 s in which the one before it has run nothing", async () => {
  using clock = fakeTimers();
  const { closed, open: goOn } = gate();
  const { session, call: first } = await sent(async (tx) => {
    await tx.query("select n");
    await closed;
  });
  const second = failure(client.transaction(() => "second"));
  // It waits for the server, however long that takes.
  await clock.pass(7_000);
  session.send(ran("BEGIN"), executedInside());
  // An idle time that begins between two looks does not count for the whole interval.
  await clock.pass(2_000);
  expect(await isPending(second)).toBe(true);
  await clock.pass(3_000);
  expect(await second).toMatchObject({ code: "TRANSACTION_OPEN", retryable: true });
  goOn();
  await answers(session, "COMMIT");
  await first;
});

test("a nested transaction that waits for the server makes the outer one busy", async () => {
  const busy: unknown[] = [];
  const { session, call } = await running(async (tx) => {
    const nested = tx.transaction(async (inner) => {
      busy.push(tx.isBusy);
      const query = inner.query("select n");
      busy.push(tx.isBusy);
      await query;
    });
    await nested;
    busy.push(tx.isBusy);
  });
  await answers(session, "SAVEPOINT pgz_1", "SAVEPOINT", "T");
  await texts(session);
  session.send(executedInside());
  await answers(session, "RELEASE SAVEPOINT pgz_1", "RELEASE", "T");
  await answers(session, "COMMIT");
  await call;
  expect(busy).toEqual([false, true, false]);
});
