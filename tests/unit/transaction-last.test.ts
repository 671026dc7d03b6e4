// The last statement of a transaction, with which COMMIT is sent: the outcome of both, over sockets in memory, and what
// the error says about the transaction.
import { beforeEach, expect, test, vi } from "vitest";
import type { Transaction, TransactionOptions } from "../../js/api/transaction.ts";
import { PostgresError, type PgzError } from "../../js/util/errors.ts";
import {
  accepted,
  begun,
  client,
  division,
  failure,
  fakeClock,
  isPending,
  letInKnowing,
  newClient,
  quiet,
  rows,
  shutdown,
  texts,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { BEGUN, error, inside } from "../support/memory-transaction.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

/** The answer to COMMIT, which is not a Query here. */
const tagged = (tag: string) => [wire.parseComplete(), wire.bindComplete(), wire.noData(), wire.commandComplete(tag)];

/** A transaction whose last statement is its second. Both have been sent when this returns. */
async function lastOf(
  work: (tx: Transaction) => Promise<unknown>,
  options: TransactionOptions = {},
): Promise<{ session: Session; call: Promise<unknown> }> {
  const session = await letInKnowing();
  const call = client.transaction(async (tx) => {
    await tx.query("select n");
    return await work(tx);
  }, options);
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  session.send(BEGUN, ...inside());
  expect(await texts(session)).toEqual(["select n"]);
  expect(await texts(session)).toEqual(["COMMIT"]);
  return { session, call };
}

test("COMMIT is sent with the last statement, and the transaction is over when both are answered", async () => {
  let given: unknown;
  let hasEnded = false;
  const { session, call } = await lastOf(async (tx) => {
    given = (await tx.last("select n").finally(() => (hasEnded = true))).rows;
    return "returned";
  });
  session.send(...inside(1, 3));
  await quiet();
  expect(hasEnded).toBe(true);
  expect(await isPending(call)).toBe(true);
  session.send(...tagged("COMMIT"), wire.readyForQuery());
  expect(await call).toBe("returned");
  expect(given).toEqual([{ n: 1 }, { n: 2 }]);
  expect(client.stats()).toMatchObject({ state: "idle", errors: 0 });
});

test("if the last statement is also the first, COMMIT follows its answer, because BEGIN may have failed", async () => {
  const session = await letInKnowing();
  const call = client.transaction((tx) => tx.last("select n"));
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  const next = texts(session);
  expect(await isPending(next)).toBe(true);
  session.send(BEGUN, ...inside());
  expect(await next).toEqual(["COMMIT"]);
  session.send(...tagged("COMMIT"), wire.readyForQuery());
  expect(await call).toMatchObject({ rows: [{ n: 1 }] });
});

test("if the last statement is also the first and fails, ROLLBACK is sent and COMMIT is not", async () => {
  const session = await letInKnowing();
  const call = failure(client.transaction((tx) => tx.last("select n")));
  await texts(session);
  session.send(BEGUN, begun(), division(), wire.readyForQuery("E"));
  expect(await texts(session)).toEqual(["ROLLBACK"]);
  session.send(wire.commandComplete("ROLLBACK"), wire.readyForQuery());
  const reason = (await call) as PgzError;
  expect(reason).toMatchObject({ code: "22012" });
  expect(reason.transaction).toBeUndefined();
});

test("after last() no call can be made, neither before its answer nor later", async () => {
  const finished = { name: "UsageError", code: "TRANSACTION_FINISHED" };
  const seen: unknown[] = [];
  const { session, call } = await lastOf(async (tx) => {
    const last = tx.last("select n");
    for (const make of [() => tx.query("select n"), () => tx.last("select n"), () => tx.transaction(() => 1)])
      seen.push(await failure(make() as Promise<unknown>));
    await last;
    seen.push(await failure(tx.query("select n")));
  });
  await quiet();
  // These calls are refused without waiting for the answer.
  expect(seen.length).toBe(3);
  session.send(...inside(), ...tagged("COMMIT"), wire.readyForQuery());
  await call;
  expect(seen).toEqual(Array.from({ length: 4 }, () => expect.objectContaining(finished)));
});

test("a last statement that cannot be pipelined is followed by COMMIT too", async () => {
  const session = await letInKnowing();
  const call = client.transaction(async (tx) => {
    await tx.query("select n");
    return (await tx.last("set local a.b = 1")).command;
  });
  await texts(session);
  session.send(BEGUN, ...inside());
  expect(await texts(session)).toEqual(["set local a.b = 1"]);
  session.send(wire.parseComplete(), wire.parameterDescription([]), wire.noData(), wire.readyForQuery("T"));
  expect([await texts(session), await texts(session)]).toEqual([["set local a.b = 1"], ["COMMIT"]]);
  session.send(...tagged("SET"), wire.readyForQuery("T"), ...tagged("COMMIT"), wire.readyForQuery());
  expect(await call).toBe("SET");
});

test("a last statement with invalid arguments leaves the transaction unchanged", async () => {
  const session = await letInKnowing();
  const seen: unknown[] = [];
  const call = client.transaction(async (tx) => {
    seen.push(await failure(tx.last("select n", { rowMode: "none" as never })));
    seen.push(await failure(tx.last(5 as never)));
    return (await tx.query("select n")).rows;
  });
  await texts(session);
  session.send(BEGUN, ...inside());
  expect(await texts(session)).toEqual(["COMMIT"]);
  session.send(wire.commandComplete("COMMIT"), wire.readyForQuery());
  expect(await call).toEqual([{ n: 1 }]);
  expect(seen).toMatchObject([{ name: "UsageError" }, { name: "UsageError" }]);
});

// -- the outcome of the transaction -----------------------------------------------------------------------------------

const aborted = [begun(), error("40001"), wire.readyForQuery("E")];

test.each([
  ["fails", [...aborted, ...tagged("ROLLBACK"), wire.readyForQuery()], "40001", "rolled back", true],
  [
    "passes a limit",
    [...inside(1, 3), ...tagged("COMMIT"), wire.readyForQuery()],
    "RESPONSE_TOO_LARGE",
    "committed",
    false,
  ],
  [
    "fails, and all is said to be committed",
    [...aborted, ...tagged("COMMIT"), wire.readyForQuery()],
    "40001",
    "committed",
    false,
  ],
  ["has run, and COMMIT is refused", [...inside(), error("40001"), wire.readyForQuery()], "40001", "rolled back", true],
  ["has run, and the session ends", [...inside(), error("57P01", "FATAL")], "57P01", "unknown", false],
] as const)("where it %s, its error says so", async (_, answer, code, transaction, retryable) => {
  const { session, call } = await lastOf((tx) => tx.last("select n", { maxRows: 1 }));
  const reason = failure(call);
  session.send(...answer);
  if (code === "57P01") session.peer.end();
  expect(await reason).toMatchObject({ code, transaction, retryable });
});

test("a connection that is lost during last() leaves the transaction unknown", async () => {
  const { session, call } = await lastOf((tx) => tx.last("select n"));
  const reason = failure(call);
  session.send(...inside());
  await quiet();
  session.peer.reset();
  expect(await reason).toMatchObject({ code: "CONNECTION_LOST", transaction: "unknown", retryable: false });
});

test("a callback that handles the failure of last() is told that nothing is committed", async () => {
  const { session, call } = await lastOf((tx) => tx.last("select n").catch(() => "handled"));
  const reason = failure(call);
  session.send(...aborted, ...tagged("ROLLBACK"), wire.readyForQuery());
  expect(await reason).toMatchObject({ code: "TRANSACTION_ROLLED_BACK", transaction: "rolled back" });
});

test("an error of the callback after last() undoes nothing, and says so if it is the driver's", async () => {
  const mine = new Error("mine");
  const { session, call } = await lastOf(async (tx) => {
    await tx.last("select n");
    throw mine;
  });
  const reason = failure(call);
  session.send(...inside(), ...tagged("COMMIT"), wire.readyForQuery());
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
    session.send(...inside(), ...tagged(tag), wire.readyForQuery());
    expect(await reason).toMatchObject({ message: "mine", cause: elsewhere });
    expect(await isPending(texts(session))).toBe(true);
    expect(runs).toBe(1);
  },
);

test("a COMMIT that a server answers with another tag has committed", async () => {
  const { session, call } = await lastOf(async (tx) => (await tx.last("select n")).rows);
  session.send(...inside(), ...tagged("UPDATE 0"), wire.readyForQuery());
  expect(await call).toEqual([{ n: 1 }]);
});

test("the error of a later loss says nothing about a transaction that was over", async () => {
  const { session, call } = await lastOf((tx) => tx.last("select n"));
  session.send(...inside(), ...tagged("COMMIT"), wire.readyForQuery());
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
  using clock = fakeClock();
  const { session, call } = await lastOf((tx) => tx.last("select n"));
  const reason = failure(call);
  await clock.pass(4_000);
  session.send(...inside());
  await clock.pass(4_999);
  expect(await isPending(reason)).toBe(true);
  await clock.pass(1);
  // The answer may still arrive, within the time that a cancelled operation has.
  session.send(...tagged("COMMIT"), wire.readyForQuery());
  expect(await reason).toMatchObject({ code: "QUERY_TIMEOUT", transaction: "committed", retryable: false });
});

test("a COMMIT that is answered in time leaves no timer, and without a timeout there is none", async () => {
  for (const timeout of [5_000, 0]) {
    newClient({ prepare: "unnamed", timeout });
    using clock = fakeClock();
    const { session, call } = await lastOf((tx) => tx.last("select n"));
    session.send(...inside());
    await clock.pass(0);
    expect(vi.getTimerCount()).toBe(timeout ? 1 : 0);
    session.send(...tagged("COMMIT"), wire.readyForQuery());
    await call;
    await clock.pass(0);
    expect(vi.getTimerCount()).toBe(0);
    await client.close();
  }
});

test("a transaction that is ended during COMMIT waits for the answer, and its error states it", async () => {
  const session = await letInKnowing();
  const stop = new AbortController();
  const work = async (tx: Transaction) => {
    await tx.query("select n");
    return await tx.last("select n");
  };
  const call = failure(client.transaction(work, { signal: stop.signal }));
  await texts(session);
  session.send(BEGUN, ...inside());
  await texts(session);
  await texts(session);
  session.send(...inside());
  await quiet();
  stop.abort("enough");
  const reason = await call;
  expect(reason).toMatchObject({ code: "ABORTED", cause: "enough", transaction: "unknown", retryable: false });
  // No cancel is sent for COMMIT, and the next call waits for its answer.
  expect(await isPending(accepted())).toBe(true);
  const next = client.query("select n");
  const left = texts(session);
  expect(await isPending(left)).toBe(true);
  session.send(...tagged("COMMIT"), wire.readyForQuery());
  expect(await left).toEqual(["select n"]);
  session.send(begun(), rows(7, 8), wire.commandComplete("SELECT 1"), wire.readyForQuery());
  expect((await next).rows).toEqual([{ n: 7 }]);
});

test.each([
  ["COMMIT", tagged("COMMIT")],
  ["a refusal", [error("23505")]],
])("a transaction that is ended before %s is complete has an unknown outcome", async (_, part) => {
  const stop = new AbortController();
  const session = await letInKnowing();
  const work = async (tx: Transaction) => {
    await tx.query("select n");
    return await tx.last("select n");
  };
  const call = failure(client.transaction(work, { signal: stop.signal }));
  await texts(session);
  session.send(BEGUN, ...inside());
  await texts(session);
  await texts(session);
  session.send(...inside(), ...part);
  await quiet();
  stop.abort();
  expect(await call).toMatchObject({ code: "ABORTED", transaction: "unknown" });
  session.send(wire.readyForQuery());
});

test("a session that ends after an answered COMMIT has committed", async () => {
  const { session, call } = await lastOf(async (tx) => (await tx.last("select n")).rows);
  session.send(...inside());
  await quiet();
  session.send(...tagged("COMMIT"), wire.readyForQuery(), shutdown());
  expect(await call).toEqual([{ n: 1 }]);
});

test("if the session ends before the callback got its rows, the error says that all is committed", async () => {
  const { session, call } = await lastOf((tx) => tx.last("select n"));
  session.send(...inside(), ...tagged("COMMIT"), wire.readyForQuery(), shutdown());
  expect(await failure(call)).toMatchObject({ code: "57P01", transaction: "committed", retryable: false });
});
