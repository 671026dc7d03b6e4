// CockroachDB and Aurora DSQL according to their documents: what these servers answer about conflicts, savepoints and
// prepared statements, as conversations over sockets in memory. Neither server was run
// (docs/servers.md). Knows what the documents say. Must not know how the driver decides what is sent again
// (again.test.ts).
import { expect, test, vi } from "vitest";
import type { Transaction } from "../../js/api/transaction.ts";
import type { TransactionOptions } from "../../js/api/transaction-options.ts";
import type { PgzError } from "../../js/util/errors.ts";
import { answered, learned } from "../support/memory-calls.ts";
import { gate } from "../support/memory-pool.ts";
import {
  client,
  failure,
  fakeTimers,
  learn,
  letIn,
  letInKnowing,
  newClient,
  texts,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { answers, begins } from "../support/memory-transaction.ts";
import { begun, description, errorResponse, ran, rows } from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const error = (C: string, M: string) => errorResponse(C, { M });

// -- errors of the servers --------------------------------------------------------------------------------------------

/** CockroachDB's error for a transaction that must begin again. */
const restart = error("40001", "restart transaction: TransactionRetryWithProtoRefreshError: WriteTooOldError");
/** After that error the server accepts only ROLLBACK, or ROLLBACK TO SAVEPOINT cockroach_restart. */
const aborted = error("25P02", "current transaction is aborted, commands ignored until end of transaction block");
/** Aurora DSQL's errors, at COMMIT: another transaction has changed a row, or a table. */
const CHANGED = {
  "a row, by DSQL's code": error("OC000", "change conflicts with another transaction, please retry"),
  "a table, by DSQL's code": error("OC001", "schema has been updated by another transaction, please retry"),
  "a row, by PostgreSQL's code": error("40001", "change conflicts with another transaction, please retry: (OC000)"),
  "CockroachDB's": restart,
};

/** Answers the statement of a Query inside a transaction: it is done, or fails with this error. */
async function done(session: Session, text: string) {
  await answers(session, text, undefined, "T");
}
async function fails(session: Session, text: string, failed: Buffer) {
  expect(await texts(session)).toEqual([text]);
  session.send(failed, wire.readyForQuery(text === "COMMIT" ? "I" : "E"));
}

/** A transaction that may run three times: `select n` first, and then what `work` does. */
async function retried(work: (tx: Transaction) => unknown, options: TransactionOptions = { retry: true }) {
  newClient({ prepare: "unnamed" });
  const session = await letInKnowing();
  const state = { runs: 0 };
  const call = client.transaction(async (tx) => {
    state.runs++;
    await tx.query("select n");
    return await work(tx);
  }, options);
  call.catch(() => {});
  return { session, call, state };
}

// -- conflicts --------------------------------------------------------------------------------------------------------

test.each(Object.entries(CHANGED))(
  "a conflict that COMMIT reports, %s, runs the transaction again",
  async (_, said) => {
    using clock = fakeTimers();
    const { session, call, state } = await retried(() => "kept");
    await begins(session);
    await fails(session, "COMMIT", said);
    await clock.pass(1_000);
    await begins(session);
    await answers(session, "COMMIT");
    expect(await call).toBe("kept");
    expect(state.runs).toBe(2);
  },
);

test.each(["OC000", "OC001"])("without retry %s is the error, and is retryable", async (code) => {
  const { session, call } = await retried(() => "kept", {});
  await begins(session);
  await fails(session, "COMMIT", error(code, "change conflicts"));
  expect(await failure(call)).toMatchObject({ code, retryable: true });
});

test("a conflict that DSQL reports after the command tag runs the statement again if retries are on", async () => {
  newClient({ retryOnSerialization: true });
  using clock = fakeTimers();
  const call = client.query("select n");
  const session = await letIn();
  await learn(session);
  const late = [wire.commandComplete("SELECT 1"), CHANGED["a row, by DSQL's code"], wire.readyForQuery()];
  session.send(begun(), rows(1, 2), ...late);
  await clock.pass(1_000);
  await answered(session, call);
});

// -- CockroachDB's savepoint ------------------------------------------------------------------------------------------

test("a conflict in RELEASE of cockroach_restart runs the whole transaction again, with its savepoint", async () => {
  using clock = fakeTimers();
  const { session, call, state } = await retried(async (tx) => {
    await tx.simple("savepoint cockroach_restart");
    await tx.simple("release savepoint cockroach_restart");
  });
  await begins(session);
  await done(session, "savepoint cockroach_restart");
  await fails(session, "release savepoint cockroach_restart", restart);
  await answers(session, "ROLLBACK");
  await clock.pass(1_000);
  await begins(session);
  await done(session, "savepoint cockroach_restart");
  await done(session, "release savepoint cockroach_restart");
  await answers(session, "COMMIT");
  await call;
  expect(state.runs).toBe(2);
});

test("a callback that rolls back to cockroach_restart by hand continues in the same transaction", async () => {
  let runs = 0;
  const { session, call, state } = await retried(async (tx) => {
    await tx.simple("savepoint cockroach_restart");
    for (;;)
      try {
        runs++;
        return await tx.simple("release savepoint cockroach_restart");
      } catch (failed) {
        if ((failed as PgzError).code !== "40001") throw failed;
        await tx.simple("rollback to savepoint cockroach_restart");
      }
  });
  await begins(session);
  await done(session, "savepoint cockroach_restart");
  await fails(session, "release savepoint cockroach_restart", restart);
  await done(session, "rollback to savepoint cockroach_restart");
  await done(session, "release savepoint cockroach_restart");
  await answers(session, "COMMIT");
  await call;
  expect([state.runs, runs]).toEqual([1, 2]);
});

test("a conflict that ends a nested transaction undoes all of it, so the outer one runs again", async () => {
  using clock = fakeTimers();
  const { session, call, state } = await retried((tx) => tx.transaction(() => "inner"));
  await begins(session);
  await done(session, "SAVEPOINT pgz_1");
  await fails(session, "RELEASE SAVEPOINT pgz_1", restart);
  await fails(session, "ROLLBACK TO SAVEPOINT pgz_1; RELEASE SAVEPOINT pgz_1", aborted);
  await answers(session, "ROLLBACK");
  await clock.pass(1_000);
  await begins(session);
  await done(session, "SAVEPOINT pgz_1");
  await done(session, "RELEASE SAVEPOINT pgz_1");
  await answers(session, "COMMIT");
  expect(await call).toBe("inner");
  expect(state.runs).toBe(2);
});

// -- causes -----------------------------------------------------------------------------------------------------------

test.each([1, 3])("a conflict as a cause, %d deep, runs the transaction again", async (depth) => {
  using clock = fakeTimers();
  const onRetry = vi.fn();
  const wrap = (cause: unknown) => {
    for (let left = depth; left; left--) cause = new Error("Failed query", { cause });
    throw cause as Error;
  };
  newClient({ prepare: "unnamed", observer: { onRetry } });
  const session = await letInKnowing();
  let runs = 0;
  const call = client.transaction(async (tx) => (runs++, await tx.query("select n").catch(wrap)), { retry: true });
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  session.send(ran("BEGIN"), begun(), restart, wire.readyForQuery("E"));
  await answers(session, "ROLLBACK");
  await clock.pass(1_000);
  await begins(session);
  await answers(session, "COMMIT");
  await call;
  expect(runs).toBe(2);
  expect(onRetry.mock.calls).toEqual([
    [expect.objectContaining({ error: expect.objectContaining({ code: "40001" }) })],
  ]);
});

test("circular causes, and causes that are no errors, are no conflict", async () => {
  for (const thrown of [circle(), new Error("no", { cause: "40001" }), null, undefined, { cause: null }]) {
    const { session, call, state } = await retried(() => {
      throw thrown as Error;
    });
    await begins(session);
    await answers(session, "ROLLBACK");
    expect(await failure(call)).toBe(thrown);
    expect(state.runs).toBe(1);
    await client.close();
  }
});

function circle(): Error {
  const error: Error & { cause?: unknown } = new Error("a circle");
  error.cause = error;
  return error;
}

test.each([true, false])(
  "a transaction that last() has committed never runs again, whatever the callback throws then (wrapped: %s)",
  async (isWrapped) => {
    using clock = fakeTimers();
    const conflict = await someConflict();
    newClient({ prepare: "unnamed" });
    const session = await letInKnowing();
    let runs = 0;
    const { closed: committed, open: goOn } = gate();
    const call = failure(
      client.transaction(
        async (tx) => {
          runs++;
          await tx.last("select n");
          await committed;
          throw isWrapped ? new Error("elsewhere", { cause: conflict }) : conflict;
        },
        { retry: true },
      ),
    );
    await begins(session);
    expect(await texts(session)).toEqual(["COMMIT"]);
    const tag = [wire.parseComplete(), wire.bindComplete(), wire.noData(), wire.commandComplete("COMMIT")];
    session.send(...tag, wire.readyForQuery());
    await clock.pass(0);
    goOn();
    await clock.pass(1_000);
    expect(runs).toBe(1);
    expect(client.stats().state).toBe("idle");
    await call;
  },
);

/** A conflict of another connection. */
async function someConflict(): Promise<PgzError> {
  newClient({ prepare: "unnamed" });
  const session = await letInKnowing();
  const call = failure(client.query("select n"));
  await session.flight();
  session.send(begun(), restart, wire.readyForQuery());
  const found = (await call) as PgzError;
  await client.close();
  return found;
}

// -- what Aurora DSQL does not have -----------------------------------------------------------------------------------

test("without savepoints a nested transaction rejects, and nothing is committed", async () => {
  const { session, call } = await retried((tx) => tx.transaction(() => "inner"), {});
  await begins(session);
  await fails(session, "SAVEPOINT pgz_1", error("0A000", "unsupported statement: Savepoint"));
  await answers(session, "ROLLBACK");
  expect(await failure(call)).toMatchObject({ code: "0A000", retryable: false });
});

test("a statement whose name is gone is parsed again, and runs once", async () => {
  newClient({ prepare: "named" });
  const learning = client.query("select n");
  const session = await letIn();
  await learned(session, learning);
  const call = client.query("select n");
  expect((await session.flight()).at(-1)).toBe("Sync");
  session.send(error("26000", 'prepared statement "pgz_1" does not exist'), wire.readyForQuery());
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  session.send(description());
  await answered(session, call, 8);
});
