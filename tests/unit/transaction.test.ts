// A transaction's statements over sockets in memory: BEGIN, COMMIT, ROLLBACK and savepoints, and how each end affects
// the call. transaction-last.test.ts has the last statement, with which COMMIT is sent.
import { beforeEach, expect, test } from "vitest";
import type { Transaction, TransactionOptions } from "../../js/api/transaction.ts";
import { beginStatement } from "../../js/api/transaction.ts";
import { configured } from "../../js/api/configured.ts";
import {
  begun,
  client,
  division,
  fakeClock,
  letInKnowing,
  newClient,
  quiet,
  texts,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { answers, BEGUN, inside } from "../support/memory-transaction.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ prepare: "unnamed" }));

const open = { name: "UsageError", code: "TRANSACTION_OPEN" };
const finished = { name: "UsageError", code: "TRANSACTION_FINISHED" };
const conflict = () => wire.errorResponse({ S: "ERROR", V: "ERROR", C: "40001", M: "could not serialize access" });

// -- BEGIN ------------------------------------------------------------------------------------------------------------

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

// -- ends -------------------------------------------------------------------------------------------------------------

test("the callback's result is returned after COMMIT was answered, and no call can be made from then on", async () => {
  const session = await letInKnowing();
  let kept: Transaction | undefined;
  const call = client.transaction(async (tx) => {
    kept = tx;
    return (await tx.query("select n")).rows;
  });
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  session.send(BEGUN, ...inside());
  await answers(session, "COMMIT");
  expect(await call).toEqual([{ n: 1 }]);
  await expect(kept!.query("select n")).rejects.toMatchObject(finished);
  await expect(kept!.transaction(() => 1)).rejects.toMatchObject(finished);
});

test("the callback's error rejects the call, after ROLLBACK", async () => {
  const session = await letInKnowing();
  const error = new Error("mine");
  const call = client.transaction(async (tx) => {
    await tx.query("select n");
    throw error;
  });
  await texts(session);
  session.send(BEGUN, ...inside());
  await answers(session, "ROLLBACK");
  await expect(call).rejects.toBe(error);
  expect(client.stats()).toMatchObject({ state: "idle", transactionStatus: "I" });
});

test("a COMMIT that the server answers with ROLLBACK is an error", async () => {
  const session = await letInKnowing();
  const call = client.transaction((tx) => tx.query("select n").catch(() => "handled"));
  await texts(session);
  session.send(BEGUN, begun(), division(), wire.readyForQuery("E"));
  await answers(session, "COMMIT", "ROLLBACK");
  await expect(call).rejects.toMatchObject({ code: "TRANSACTION_ROLLED_BACK" });
});

test("a call that was not awaited still belongs to the transaction", async () => {
  const session = await letInKnowing();
  const call = client.transaction((tx) => void tx.query("select n"));
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  await quiet();
  session.send(BEGUN, ...inside());
  await answers(session, "COMMIT");
  expect(await call).toBeUndefined();
});

// -- savepoints -------------------------------------------------------------------------------------------------------

/** Answers the savepoint that begins a nested transaction. */
async function savepoint(session: Session): Promise<void> {
  expect(await texts(session)).toEqual(["BEGIN; SAVEPOINT pgz_1"]);
  session.send(wire.commandComplete("BEGIN"), wire.commandComplete("SAVEPOINT"), wire.readyForQuery("T"));
}

test("a nested transaction is a savepoint, and meanwhile the outer one refuses calls", async () => {
  const session = await letInKnowing();
  let meanwhile: unknown;
  let last: unknown;
  const call = client.transaction(async (tx) => {
    const nested = tx.transaction(async (inner) => {
      meanwhile = await tx.query("select n").catch((error: unknown) => error);
      last = await inner.last("select n").catch((error: unknown) => error);
      return (await inner.query("select n")).rows;
    });
    return [await nested, (await tx.query("select n")).rows];
  });
  await savepoint(session);
  expect(await texts(session)).toEqual(["select n"]);
  session.send(...inside(4));
  await answers(session, "RELEASE SAVEPOINT pgz_1", "RELEASE", "T");
  expect(await texts(session)).toEqual(["select n"]);
  session.send(...inside(5));
  await answers(session, "COMMIT");
  expect(await call).toEqual([[{ n: 4 }], [{ n: 5 }]]);
  expect(meanwhile).toMatchObject(open);
  expect(last).toMatchObject(open);
});

test("a nested transaction that fails is rolled back to its savepoint, and the outer one continues", async () => {
  const session = await letInKnowing();
  const call = client.transaction(async (tx) => {
    const failed = await tx.transaction(() => Promise.reject(new Error("mine"))).catch((error: Error) => error.message);
    const next = await tx.transaction(() => "next");
    return [failed, next];
  });
  await savepoint(session);
  await answers(session, "ROLLBACK TO SAVEPOINT pgz_1; RELEASE SAVEPOINT pgz_1", "RELEASE", "T");
  await answers(session, "SAVEPOINT pgz_2", "SAVEPOINT", "T");
  await answers(session, "RELEASE SAVEPOINT pgz_2", "RELEASE", "T");
  await answers(session, "COMMIT");
  expect(await call).toEqual(["mine", "next"]);
});

test("a nested transaction that is open when the callback returns is refused, and all is rolled back", async () => {
  const session = await letInKnowing();
  let nested: unknown;
  const call = client
    .transaction((tx) => {
      nested = tx.transaction(() => new Promise(() => {})).catch((error: unknown) => error);
    })
    .catch((error: unknown) => error);
  await savepoint(session);
  await answers(session, "ROLLBACK");
  expect(await call).toMatchObject(open);
  expect(await nested).toMatchObject({ code: "ABORTED" });
});

// -- what ends it from outside ----------------------------------------------------------------------------------------

test("a signal ends running statements, and the transaction is rolled back", async () => {
  const session = await letInKnowing();
  const stop = new AbortController();
  const call = client.transaction(
    async (tx) => {
      await tx.query("select n");
      await new Promise(() => {});
    },
    { signal: stop.signal },
  );
  await texts(session);
  session.send(BEGUN, ...inside());
  await quiet();
  stop.abort("enough");
  await answers(session, "ROLLBACK");
  await expect(call).rejects.toMatchObject({ name: "AbortError", cause: "enough", retryable: false });
});

test("a transaction that was begun in SQL makes another one fail", async () => {
  const session = await letInKnowing();
  const begins = client.simple("begin");
  await texts(session);
  session.send(wire.commandComplete("BEGIN"), wire.readyForQuery("T"));
  await begins;
  await expect(client.transaction(() => 1)).rejects.toMatchObject(open);
});

// -- repeats ----------------------------------------------------------------------------------------------------------

test.each([
  [undefined, 1],
  [false, 1],
  [true, 3],
  [2, 2],
])("after conflicts, retry: %s runs the callback %d times in total", async (retry, times) => {
  const session = await letInKnowing();
  using clock = fakeClock();
  let runs = 0;
  const call = client.transaction((tx) => (runs++, tx.query("select n")), { retry }).catch((error: unknown) => error);
  for (let run = 0; run < times; run++) {
    expect(await texts(session)).toEqual(["BEGIN", "select n"]);
    session.send(BEGUN, begun(), conflict(), wire.readyForQuery("E"));
    await answers(session, "ROLLBACK");
    await clock.pass(1_000);
  }
  expect(await call).toMatchObject({ code: "40001" });
  expect(runs).toBe(times);
});
