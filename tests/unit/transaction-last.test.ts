// The last statement of a transaction, with which COMMIT is sent: the outcome of both, over sockets in memory, and what
// the error says about the transaction.
import { beforeEach, expect, test, vi } from "vitest";
import type { Transaction } from "../../js/api/transaction.ts";
import type { TransactionOptions } from "../../js/api/transaction-options.ts";
import { PostgresError, type PgzError } from "../../js/util/errors.ts";
import {
  accepted,
  client,
  failure,
  fakeTimers,
  isPending,
  newClient,
  quiet,
  texts,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { answers, running, sent } from "../support/memory-transaction.ts";
import {
  description,
  errorAndReady,
  errorResponse,
  executed,
  executedInside,
  executedWithoutRows,
  failedInside,
  fatal,
  ran,
  shutdown,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

/** A transaction whose last statement is its second. Both have been sent when this returns. */
async function lastOf(
  work: (tx: Transaction) => Promise<unknown>,
  options: TransactionOptions = {},
): Promise<{ session: Session; call: Promise<unknown> }> {
  const { session, call } = await running(work, options);
  expect(await texts(session)).toEqual(["select n"]);
  expect(await texts(session)).toEqual(["COMMIT"]);
  return { session, call };
}

// H2 answers a COMMIT with UPDATE 0.
test.each(["COMMIT", "UPDATE 0"])(
  "the transaction is over when last() and the COMMIT beside it are answered, with %s",
  async (tag) => {
    let given: unknown;
    let hasEnded = false;
    const { session, call } = await lastOf(async (tx) => {
      given = (await tx.last("select n").finally(() => (hasEnded = true))).rows;
      return "returned";
    });
    session.send(executedInside(1, 3));
    await quiet();
    expect(hasEnded).toBe(true);
    expect(await isPending(call)).toBe(true);
    session.send(executedWithoutRows(tag));
    expect(await call).toBe("returned");
    expect(given).toEqual([{ n: 1 }, { n: 2 }]);
    expect(client.stats()).toMatchObject({ state: "idle", errors: 0 });
  },
);

test("if the last statement is also the first and fails, ROLLBACK is sent and COMMIT is not", async () => {
  const { session, call } = await sent((tx) => tx.last("select n"));
  session.send(ran("BEGIN"), failedInside("22012"));
  await answers(session, "ROLLBACK");
  const reason = (await failure(call)) as PgzError;
  expect(reason).toMatchObject({ code: "22012" });
  expect(reason.transaction).toBeUndefined();
});

test("a last statement that cannot be pipelined is followed by COMMIT too", async () => {
  const { session, call } = await running(async (tx) => (await tx.last("set local a.b = 1")).command);
  expect(await texts(session)).toEqual(["set local a.b = 1"]);
  session.send(description([], [], "T"));
  expect([await texts(session), await texts(session)]).toEqual([["set local a.b = 1"], ["COMMIT"]]);
  session.send(executedWithoutRows("SET", "T"), executedWithoutRows("COMMIT"));
  expect(await call).toBe("SET");
});

test("a last statement with invalid arguments leaves the transaction unchanged", async () => {
  const seen: unknown[] = [];
  const { session, call } = await sent(async (tx) => {
    seen.push(await failure(tx.last("select n", { rowMode: "none" as never })));
    seen.push(await failure(tx.last(5 as never)));
    return (await tx.query("select n")).rows;
  });
  session.send(ran("BEGIN"), executedInside());
  await answers(session, "COMMIT");
  expect(await call).toEqual([{ n: 1 }]);
  expect(seen).toMatchObject([{ name: "UsageError" }, { name: "UsageError" }]);
});

// -- the outcome of the transaction -----------------------------------------------------------------------------------

const aborted = failedInside("40001");

test.each([
  ["fails", [aborted, executedWithoutRows("ROLLBACK")], "40001", "rolled back", true],
  ["passes a limit", [executedInside(1, 3), executedWithoutRows("COMMIT")], "RESPONSE_TOO_LARGE", "committed", false],
  ["fails, and all is said to be committed", [aborted, executedWithoutRows("COMMIT")], "40001", "committed", false],
  ["has run, and COMMIT is refused", [executedInside(), errorAndReady("40001")], "40001", "rolled back", true],
  ["has run, and the session ends", [executedInside(), fatal("57P01")], "57P01", "unknown", false],
  ["has run, and the connection is lost", [executedInside()], "CONNECTION_LOST", "unknown", false],
] as const)("where it %s, its error says so", async (_, answer, code, transaction, retryable) => {
  const { session, call } = await lastOf((tx) => tx.last("select n", { maxRows: 1 }));
  const reason = failure(call);
  session.send(...answer);
  await quiet();
  if (code === "CONNECTION_LOST") session.peer.reset();
  expect(await reason).toMatchObject({ code, transaction, retryable });
});

test("an error of the callback after last() undoes nothing, and says so if it is the driver's", async () => {
  const mine = new Error("mine");
  const { session, call } = await lastOf(async (tx) => {
    await tx.last("select n");
    throw mine;
  });
  const reason = failure(call);
  session.send(executedInside(), executedWithoutRows("COMMIT"));
  expect(await reason).toBe(mine);
  expect(mine).not.toHaveProperty("transaction");
  expect(await isPending(texts(session))).toBe(true);
});

test.each(["COMMIT", "UPDATE 0"])(
  "a conflict after last() is not retried if its transaction has committed, with %s",
  async (tag) => {
    const elsewhere = new PostgresError({ code: "40001", message: "of another database" });
    let runs = 0;
    const { session, call } = await lastOf(
      async (tx) => {
        runs++;
        await tx.last("select n");
        throw new Error("mine", { cause: elsewhere });
      },
      { retry: true },
    );
    const reason = failure(call);
    session.send(executedInside(), executedWithoutRows(tag));
    expect(await reason).toMatchObject({ message: "mine", cause: elsewhere });
    expect(await isPending(texts(session))).toBe(true);
    expect(runs).toBe(1);
  },
);

test("the error of a later loss says nothing about a transaction that was over", async () => {
  const { session, call } = await lastOf((tx) => tx.last("select n"));
  session.send(executedInside(), executedWithoutRows("COMMIT"));
  await call;
  const next = failure(client.query("select n"));
  await texts(session);
  session.peer.reset();
  const reason = (await next) as PgzError;
  expect(reason).toMatchObject({ code: "CONNECTION_LOST" });
  expect(reason.transaction).toBeUndefined();
});

// -- what ends it -----------------------------------------------------------------------------------------------------

test("the client's timeout applies to COMMIT anew", async () => {
  newClient({ prepare: "unnamed", timeout: 5_000 });
  using clock = fakeTimers();
  const { session, call } = await lastOf((tx) => tx.last("select n"));
  const reason = failure(call);
  await clock.pass(4_000);
  session.send(executedInside());
  await clock.pass(4_999);
  expect(await isPending(reason)).toBe(true);
  await clock.pass(1);
  // The answer may still arrive, within the time that a cancelled operation has.
  session.send(executedWithoutRows("COMMIT"));
  expect(await reason).toMatchObject({ code: "QUERY_TIMEOUT", transaction: "committed", retryable: false });
});

test("a COMMIT that is answered in time leaves no timer, and without a timeout there is none", async () => {
  for (const timeout of [5_000, 0]) {
    newClient({ prepare: "unnamed", timeout });
    using clock = fakeTimers();
    const { session, call } = await lastOf((tx) => tx.last("select n"));
    session.send(executedInside());
    await clock.pass(0);
    expect(vi.getTimerCount()).toBe(timeout ? 1 : 0);
    session.send(executedWithoutRows("COMMIT"));
    await call;
    await clock.pass(0);
    expect(vi.getTimerCount()).toBe(0);
    await client.close();
  }
});

test("a transaction that is ended during COMMIT waits for the answer, and its error states it", async () => {
  const stop = new AbortController();
  const { session, call } = await lastOf((tx) => tx.last("select n"), { signal: stop.signal });
  const reason = failure(call);
  session.send(executedInside());
  await quiet();
  stop.abort("enough");
  expect(await reason).toMatchObject({ code: "ABORTED", cause: "enough", transaction: "unknown", hasNoEffect: false });
  // No cancel is sent for COMMIT, and the next call waits for its answer.
  expect(await isPending(accepted())).toBe(true);
  const next = client.query("select n");
  const left = texts(session);
  expect(await isPending(left)).toBe(true);
  session.send(executedWithoutRows("COMMIT"));
  expect(await left).toEqual(["select n"]);
  session.send(executed(7));
  expect((await next).rows).toEqual([{ n: 7 }]);
});

test.each([
  ["COMMIT", [wire.parseComplete(), wire.bindComplete(), wire.noData(), wire.commandComplete("COMMIT")]],
  ["a refusal", [errorResponse("23505")]],
])("a transaction that is ended before %s is complete has an unknown outcome", async (_, part) => {
  const stop = new AbortController();
  const { session, call } = await lastOf((tx) => tx.last("select n"), { signal: stop.signal });
  const reason = failure(call);
  session.send(executedInside(), ...part);
  await quiet();
  stop.abort();
  expect(await reason).toMatchObject({ code: "ABORTED", transaction: "unknown" });
  session.send(wire.readyForQuery());
});

test("a session that ends after an answered COMMIT has committed", async () => {
  const { session, call } = await lastOf(async (tx) => (await tx.last("select n")).rows);
  session.send(executedInside());
  await quiet();
  session.send(executedWithoutRows("COMMIT"), shutdown());
  expect(await call).toEqual([{ n: 1 }]);
});

test("if the session ends before the callback got its rows, the error says that all is committed", async () => {
  const { session, call } = await lastOf((tx) => tx.last("select n"));
  session.send(executedInside(), executedWithoutRows("COMMIT"), shutdown());
  expect(await failure(call)).toMatchObject({ code: "57P01", transaction: "committed", retryable: false });
});
