// CockroachDB and Aurora DSQL according to their documents: what these servers answer about conflicts, savepoints, the
// end of a session and prepared statements, as conversations over sockets in memory. Neither server was run
// (docs/servers.md). Knows what the documents say. Must not know how the driver decides what is sent again
// (again.test.ts).
import { expect, test, vi } from "vitest";
import type { Transaction, TransactionOptions } from "../../js/api/transaction.ts";
import type { PgzError } from "../../js/util/errors.ts";
import {
  begun,
  client,
  ended,
  failure,
  fakeClock,
  learn,
  letIn,
  letInKnowing,
  newClient,
  rows,
  shutdown,
  texts,
  useMemoryServer,
  type Session,
} from "../support/memory-session.ts";
import { BEGUN } from "../support/memory-transaction.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();

const error = (C: string, M: string) => wire.errorResponse({ S: "ERROR", V: "ERROR", C, M });

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

/** Answers the statements of a Query, or of a flight with one statement without parameters. */
async function answers(session: Session, text: string, ...answer: Buffer[]) {
  expect(await texts(session)).toEqual([text]);
  session.send(...answer);
}
const done = (tag: string, status: "I" | "T" = "T") => [wire.commandComplete(tag), wire.readyForQuery(status)];

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

async function begins(session: Session) {
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  session.send(BEGUN, begun(), rows(1, 2), wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
}

// -- conflicts --------------------------------------------------------------------------------------------------------

test.each(Object.entries(CHANGED))(
  "a conflict that COMMIT reports, %s, runs the transaction again",
  async (_, said) => {
    using clock = fakeClock();
    const { session, call, state } = await retried(() => "kept");
    await begins(session);
    await answers(session, "COMMIT", said, wire.readyForQuery("I"));
    await clock.pass(1_000);
    await begins(session);
    await answers(session, "COMMIT", ...done("COMMIT", "I"));
    expect(await call).toBe("kept");
    expect(state.runs).toBe(2);
  },
);

test.each(["OC000", "OC001"])("without retry %s is the error, and is retryable", async (code) => {
  const { session, call } = await retried(() => "kept", {});
  await begins(session);
  await answers(session, "COMMIT", error(code, "change conflicts"), wire.readyForQuery("I"));
  expect(await failure(call)).toMatchObject({ code, retryable: true });
});

test("a conflict that DSQL reports after the command tag runs the statement again if retries are on", async () => {
  newClient({ retryOnSerialization: true });
  using clock = fakeClock();
  const call = client.query("select n");
  const session = await letIn();
  await learn(session);
  const late = [wire.commandComplete("SELECT 1"), CHANGED["a row, by DSQL's code"], wire.readyForQuery()];
  session.send(begun(), rows(1, 2), ...late);
  await clock.pass(1_000);
  expect((await session.flight()).at(-1)).toBe("Sync");
  session.send(begun(), rows(2, 3), ended(1));
  expect((await call).rows).toEqual([{ n: 2 }]);
});

// -- CockroachDB's savepoint ------------------------------------------------------------------------------------------

test("a conflict in RELEASE of cockroach_restart runs the whole transaction again, with its savepoint", async () => {
  using clock = fakeClock();
  const { session, call, state } = await retried(async (tx) => {
    await tx.simple("savepoint cockroach_restart");
    await tx.simple("release savepoint cockroach_restart");
  });
  await begins(session);
  await answers(session, "savepoint cockroach_restart", ...done("SAVEPOINT"));
  await answers(session, "release savepoint cockroach_restart", restart, wire.readyForQuery("E"));
  await answers(session, "ROLLBACK", ...done("ROLLBACK", "I"));
  await clock.pass(1_000);
  await begins(session);
  await answers(session, "savepoint cockroach_restart", ...done("SAVEPOINT"));
  await answers(session, "release savepoint cockroach_restart", ...done("RELEASE"));
  await answers(session, "COMMIT", ...done("COMMIT", "I"));
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
  await answers(session, "savepoint cockroach_restart", ...done("SAVEPOINT"));
  await answers(session, "release savepoint cockroach_restart", restart, wire.readyForQuery("E"));
  await answers(session, "rollback to savepoint cockroach_restart", ...done("ROLLBACK"));
  await answers(session, "release savepoint cockroach_restart", ...done("RELEASE"));
  await answers(session, "COMMIT", ...done("COMMIT", "I"));
  await call;
  expect([state.runs, runs]).toEqual([1, 2]);
});

test("a conflict that ends a nested transaction undoes all of it, so the outer one runs again", async () => {
  using clock = fakeClock();
  const { session, call, state } = await retried((tx) => tx.transaction(() => "inner"));
  await begins(session);
  await answers(session, "SAVEPOINT pgz_1", ...done("SAVEPOINT"));
  await answers(session, "RELEASE SAVEPOINT pgz_1", restart, wire.readyForQuery("E"));
  await answers(session, "ROLLBACK TO SAVEPOINT pgz_1; RELEASE SAVEPOINT pgz_1", aborted, wire.readyForQuery("E"));
  await answers(session, "ROLLBACK", ...done("ROLLBACK", "I"));
  await clock.pass(1_000);
  await begins(session);
  await answers(session, "SAVEPOINT pgz_1", ...done("SAVEPOINT"));
  await answers(session, "RELEASE SAVEPOINT pgz_1", ...done("RELEASE"));
  await answers(session, "COMMIT", ...done("COMMIT", "I"));
  expect(await call).toBe("inner");
  expect(state.runs).toBe(2);
});

// -- causes -----------------------------------------------------------------------------------------------------------

test.each([1, 3])("a conflict as a cause, %d deep, runs the transaction again", async (depth) => {
  using clock = fakeClock();
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
  session.send(BEGUN, begun(), restart, wire.readyForQuery("E"));
  await answers(session, "ROLLBACK", ...done("ROLLBACK", "I"));
  await clock.pass(1_000);
  await begins(session);
  await answers(session, "COMMIT", ...done("COMMIT", "I"));
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
    await answers(session, "ROLLBACK", ...done("ROLLBACK", "I"));
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

test("a transaction that last() has committed never runs again, whatever the callback throws then", async () => {
  using clock = fakeClock();
  const conflict = { ...(await someConflict()) };
  for (const wrapped of [true, false]) {
    newClient({ prepare: "unnamed" });
    const session = await letInKnowing();
    let runs = 0;
    let goOn = () => {};
    const committed = new Promise<void>((resolve) => (goOn = resolve));
    const call = client.transaction(
      async (tx) => {
        runs++;
        await tx.last("select n");
        await committed;
        throw wrapped ? new Error("elsewhere", { cause: conflict.error }) : conflict.error;
      },
      { retry: true },
    );
    call.catch(() => {});
    expect(await texts(session)).toEqual(["BEGIN", "select n"]);
    session.send(BEGUN, begun(), rows(1, 2), wire.commandComplete("SELECT 1"), wire.readyForQuery("T"));
    const tag = [wire.parseComplete(), wire.bindComplete(), wire.noData(), wire.commandComplete("COMMIT")];
    await answers(session, "COMMIT", ...tag, wire.readyForQuery());
    await clock.pass(0);
    goOn();
    await clock.pass(1_000);
    expect(runs).toBe(1);
    expect(client.stats().state).toBe("idle");
    await failure(call);
    await client.close();
  }
});

/** A conflict of another connection. */
async function someConflict(): Promise<{ error: PgzError }> {
  newClient({ prepare: "unnamed" });
  const session = await letInKnowing();
  const call = failure(client.query("select n"));
  await session.flight();
  session.send(begun(), restart, wire.readyForQuery());
  const found = (await call) as PgzError;
  await client.close();
  return { error: found };
}

// -- what Aurora DSQL does not have -----------------------------------------------------------------------------------

test("without savepoints a nested transaction rejects, and nothing is committed", async () => {
  const { session, call } = await retried((tx) => tx.transaction(() => "inner"), {});
  await begins(session);
  await answers(
    session,
    "SAVEPOINT pgz_1",
    error("0A000", "unsupported statement: Savepoint"),
    wire.readyForQuery("E"),
  );
  await answers(session, "ROLLBACK", ...done("ROLLBACK", "I"));
  expect(await failure(call)).toMatchObject({ code: "0A000", retryable: false });
});

test("without temporary tables or row-level security only the statement fails", async () => {
  newClient({ prepare: "unnamed" });
  const session = await letInKnowing();
  for (const text of ["create temporary table t (id int)", "alter table t enable row level security"]) {
    const call = failure(client.simple(text));
    await answers(session, text, error("0A000", "unsupported statement"), wire.readyForQuery());
    expect(await call).toMatchObject({ code: "0A000" });
  }
  expect(client.stats().state).toBe("idle");
});

// -- sessions and prepared statements ---------------------------------------------------------------------------------

test("a session whose hour is over ends instead of an answer, and the call runs on another one", async () => {
  const session = await letInKnowing();
  const call = client.query("select n");
  expect((await session.flight()).at(-1)).toBe("Sync");
  session.send(shutdown());
  session.peer.end();
  const next = await letIn();
  expect((await next.flight()).at(-1)).toBe("Sync");
  next.send(begun(), rows(4, 5), ended(1));
  expect((await call).rows).toEqual([{ n: 4 }]);
});

test("a statement whose name is gone is parsed again, and runs once", async () => {
  newClient({ prepare: "named" });
  const learning = client.query("select n");
  const session = await letIn();
  await learn(session);
  session.send(begun(), rows(0, 1), ended(1));
  await learning;
  const call = client.query("select n");
  const names = await session.flight();
  expect(names.at(-1)).toBe("Sync");
  session.send(error("26000", 'prepared statement "pgz_1" does not exist'), wire.readyForQuery());
  expect(await session.flight()).toEqual(["Parse", "Describe", "Sync"]);
  session.send(
    ...[wire.parseComplete(), wire.parameterDescription([]), wire.rowDescription([{ name: "n", oid: 23, size: 4 }])],
    wire.readyForQuery(),
  );
  expect((await session.flight()).at(-1)).toBe("Sync");
  session.send(begun(), rows(7, 8), ended(1));
  expect((await call).rows).toEqual([{ n: 7 }]);
});
