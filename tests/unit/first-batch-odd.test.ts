// An atomic batch of statements without descriptions, on servers and poolers that answer unlike PostgreSQL
// (js/statement/first-batch.ts), over sockets in memory: what is then described and run, and what is remembered. The
// answers of SPQR's router are those that it gave to this driver (SPQR of August 2026 over PostgreSQL 18 and 15).
import { beforeEach, expect, test } from "vitest";
import { behindPrelude, checked, described, firstFlight, over, texts } from "../support/first-runs.ts";
import { client, execution, int4, letIn, newClient, useMemoryServer, type Session } from "../support/memory-session.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ firstRun: "text" }));

const failing = (C: string, M = "no", S = "ERROR") => wire.errorResponse({ S, C, M });
/** The answer to the first item, or to a later one, with one row. */
const item = (value: string, prelude = "SAVEPOINT") =>
  Buffer.concat([checked([int4], [], prelude), wire.bindComplete(), texts(value), over(1, "T")]);
const ending = (tag: string) =>
  Buffer.concat([
    ...[wire.parseComplete(), wire.bindComplete(), wire.noData()],
    ...[wire.commandComplete(tag), wire.readyForQuery()],
  ]);

/** Sends a batch of two new statements, on the next session or on this one. */
async function sent(session?: Session): Promise<{ call: Promise<unknown>; session: Session }> {
  const call = client.batch(["select n", "select m"]);
  call.catch(() => {});
  const next = session ?? (await letIn());
  for (const _ of "12") expect(await next.flight()).toEqual(behindPrelude);
  expect(await next.flight()).toEqual(execution);
  return { call, session: next };
}

async function nextBatchIsDescribed(): Promise<Session> {
  const call = client.batch(["select n", "select m"]);
  const session = await letIn();
  await answersDescribedBatch(session);
  await call;
  return session;
}

/** Expects that two statements are described, and then run without rows. */
async function answersDescribedBatch(session: Session): Promise<void> {
  const shape = [wire.parameterDescription([]), wire.rowDescription([int4]), wire.readyForQuery()];
  for (const _ of "12") {
    expect(await session.flight()).toEqual(described);
    session.send(wire.parseComplete(), ...shape);
  }
  await session.flight();
  const bound = [wire.bindComplete(), wire.rowDescription([int4], [1])];
  for (const _ of "12") session.send(...bound, wire.commandComplete("SELECT 0"));
  session.send(wire.readyForQuery());
}

async function runsFirst(session: Session): Promise<void> {
  const call = client.query("select alone");
  expect(await session.flight()).toEqual(firstFlight);
  session.send(checked(), wire.bindComplete(), texts("1"), over(1));
  expect((await call).rows).toEqual([{ n: 1 }]);
}

test.each([
  ["outside of a transaction", "I"],
  ["within one that continues", "T"],
] as const)(
  "a batch whose items are all refused before they run, %s, is described, even if COMMIT succeeds",
  async (_, status) => {
    const { call, session } = await sent();
    for (const _ of "12") session.send(failing("08P01"), wire.readyForQuery(status));
    session.send(ending("COMMIT"));
    await answersDescribedBatch(session);
    await call;
  },
);

// -- savepoints ------------------------------------------------------------------------------------------------------

/**
 * Refuses SAVEPOINT as a server that has committed or not by the end. `status` is the transaction status after that
 * error.
 */
async function withoutSavepoint(status: "I" | "T" | "E", tag: string, code = "SPQRU") {
  const { call, session } = await sent();
  session.send(item("1", "BEGIN"), wire.closeComplete(), failing(code, "unknown transaction statement kind: 6"));
  session.send(wire.readyForQuery(status), ending(tag));
  return { call, session };
}

test.each([
  ["E", "ROLLBACK"],
  ["I", "COMMIT"], // SPQR's router: the error has ended the transaction
] as const)(
  "after a refused SAVEPOINT (%s, %s) nothing is left of the batch, which is then described",
  async (status, tag) => {
    const { call, session } = await withoutSavepoint(status, tag);
    await answersDescribedBatch(session);
    await call;
    const next = client.batch(["select o", "select p"]);
    await answersDescribedBatch(session);
    await next;
  },
);

test("after a refused SAVEPOINT in a transaction that commits, the error says so", async () => {
  const { call } = await withoutSavepoint("T", "COMMIT");
  await expect(call).rejects.toMatchObject({ code: "SPQRU", transaction: "committed", retryable: false });
});

test("a SAVEPOINT that is refused for lack of memory does not count against the server", async () => {
  const { call, session } = await withoutSavepoint("E", "ROLLBACK", "53200");
  await expect(call).rejects.toMatchObject({ code: "53200", batch: { index: 1, rolledBack: [0], skipped: [] } });
  await runsFirst(session);
});

test("after an error that ends the transaction, a batch of which a later item has run is not repeated", async () => {
  newClient({ firstRun: "text", prepare: "unnamed" }); // so that its check has no name
  const call = client.batch(["select n", "select m", "select o"]);
  const session = await letIn();
  for (const _ of "123") await session.flight();
  await session.flight();
  session.send(item("1", "BEGIN"), wire.closeComplete(), failing("SPQRU"), wire.readyForQuery());
  session.send(item("3"), ending("COMMIT"));
  await expect(call).rejects.toMatchObject({ code: "SPQRU", transaction: "committed", retryable: false });
});

test("a first item whose failure ends the transaction fails alone, and nothing is committed", async () => {
  const { call, session } = await sent();
  session.send(checked([int4], [], "BEGIN"), wire.bindComplete(), failing("22012"), wire.readyForQuery());
  session.send(wire.closeComplete(), failing("SPQRU"), wire.readyForQuery(), ending("COMMIT"));
  const error = await call.catch((reason: unknown) => reason);
  expect(error).toMatchObject({ code: "22012", batch: { index: 0, rolledBack: [], skipped: [1] } });
  expect(error).not.toHaveProperty("transaction", "committed");
});

// -- lost connections ------------------------------------------------------------------------------------------------

/** PgBouncer with `pool_mode = statement`. */
const noTransactions = () => failing("08P01", "transaction blocks not allowed in statement pooling mode", "FATAL");

test("after a pooler refused a batch's BEGIN, the next batch is described, and single statements are not", async () => {
  const { call, session } = await sent();
  session.send(wire.closeComplete(), noTransactions());
  await expect(call).rejects.toMatchObject({ code: "08P01", retryable: false });
  await runsFirst(await nextBatchIsDescribed());
});

test("a connection lost during a batch does not count against a server where a batch has succeeded", async () => {
  const first = client.batch(["select a", "select b"]);
  const session = await letIn();
  for (const _ of "123") await session.flight();
  session.send(item("1", "BEGIN"), item("2"), ending("COMMIT"));
  await first;
  const { call } = await sent(session);
  session.peer.end();
  await expect(call).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
  const next = await sent();
  next.session.send(item("1", "BEGIN"), item("2"), ending("COMMIT"));
  await next.call;
});

test("after answers that PostgreSQL never gives, single statements are described first too", async () => {
  const { call, session } = await sent();
  session.send(item("1", "BEGIN"), item("2"), wire.parseComplete(), wire.parseComplete());
  await expect(call).rejects.toMatchObject({ name: "ProtocolError", code: "UNEXPECTED_MESSAGE", retryable: false });
  const alone = client.query("select alone").catch(() => {});
  const next = await letIn();
  expect(await next.flight()).toEqual(described);
  next.peer.end();
  await alone;
});
