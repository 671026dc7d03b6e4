// An atomic batch of statements without descriptions, on servers and poolers that answer unlike PostgreSQL
// (js/statement/first-batch.ts), over sockets in memory: what is then described and run, and what is remembered. The
// answers of SPQR's router are those that it gave to this driver (SPQR of August 2026 over PostgreSQL 18 and 15).
import { beforeEach, expect, test } from "vitest";
import { answer, behindPrelude, described, nextIsDescribed, nextRunsFirst } from "../support/flights.ts";
import { client, execution, letIn, newClient, useMemoryServer, type Session } from "../support/memory-session.ts";
import {
  description,
  errorWithoutV,
  executedWithoutRows,
  firstBegun,
  firstItem,
  int4,
} from "../support/server-messages.ts";
import * as wire from "../support/wire.mjs";

useMemoryServer();
beforeEach(() => newClient({ firstRun: "text" }));

const first = () => firstItem("1", "BEGIN");
const succeeds = () => [first(), firstItem("2"), executedWithoutRows("COMMIT")];

/** Sends a batch of two new statements, on the next session or on this one, and answers it. */
async function sent(
  session?: Session,
  ...messages: Uint8Array[]
): Promise<{ call: Promise<unknown>; session: Session }> {
  const call = client.batch(["select n", "select m"]);
  call.catch(() => {});
  const next = session ?? (await letIn());
  for (const _ of "12") await answer(next, behindPrelude);
  await answer(next, execution, ...messages);
  return { call, session: next };
}

/** Expects that two statements are described, and then run without rows. */
async function answersDescribedBatch(session: Session): Promise<void> {
  for (const _ of "12") await answer(session, described, description());
  await session.flight();
  const rowless = [wire.bindComplete(), wire.rowDescription([int4], [1]), wire.commandComplete("SELECT 0")];
  session.send(...rowless, ...rowless, wire.readyForQuery());
}

test.each([
  ["outside of a transaction", "I"],
  ["within one that continues", "T"],
] as const)(
  "a batch whose items are all refused before they run, %s, is described, even if COMMIT succeeds",
  async (_, status) => {
    const refusal = [errorWithoutV("08P01"), wire.readyForQuery(status)];
    const { call, session } = await sent(undefined, ...refusal, ...refusal, executedWithoutRows("COMMIT"));
    await answersDescribedBatch(session);
    await call;
  },
);

// -- savepoints ------------------------------------------------------------------------------------------------------

/**
 * Refuses SAVEPOINT as a server that has committed or not by the end. `status` is the transaction status after that
 * error.
 */
const withoutSavepoint = (status: "I" | "T" | "E", tag: string, code = "SPQRU") =>
  sent(
    undefined,
    ...[first(), wire.closeComplete(), errorWithoutV(code, "unknown transaction statement kind: 6")],
    ...[wire.readyForQuery(status), executedWithoutRows(tag)],
  );

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
  await nextRunsFirst(session);
});

test("after an error that ends the transaction, a batch of which a later item has run is not repeated", async () => {
  newClient({ firstRun: "text", prepare: "unnamed" }); // so that its check has no name
  const call = client.batch(["select n", "select m", "select o"]);
  const session = await letIn();
  for (const _ of "1234") await session.flight();
  session.send(first(), wire.closeComplete(), errorWithoutV("SPQRU"), wire.readyForQuery());
  session.send(firstItem("3"), executedWithoutRows("COMMIT"));
  await expect(call).rejects.toMatchObject({ code: "SPQRU", transaction: "committed", retryable: false });
});

test("a first item whose failure ends the transaction fails alone, and nothing is committed", async () => {
  const { call } = await sent(
    undefined,
    ...[firstBegun([int4], [], "BEGIN"), errorWithoutV("22012"), wire.readyForQuery()],
    ...[wire.closeComplete(), errorWithoutV("SPQRU"), wire.readyForQuery(), executedWithoutRows("COMMIT")],
  );
  const error = await call.catch((reason: unknown) => reason);
  expect(error).toMatchObject({ code: "22012", batch: { index: 0, rolledBack: [], skipped: [1] } });
  expect(error).not.toHaveProperty("transaction", "committed");
});

// -- lost connections ------------------------------------------------------------------------------------------------

/** PgBouncer with `pool_mode = statement`. */
const noTransactions = () =>
  errorWithoutV("08P01", "transaction blocks not allowed in statement pooling mode", "FATAL");

test("after a pooler refused a batch's BEGIN, the next batch is described, and single statements are not", async () => {
  const refusal = await sent(undefined, wire.closeComplete(), noTransactions());
  await expect(refusal.call).rejects.toMatchObject({ code: "08P01", retryable: false });
  const call = client.batch(["select n", "select m"]);
  const session = await letIn();
  await answersDescribedBatch(session);
  await call;
  await nextRunsFirst(session);
});

test.each([
  ["the first item's", []],
  ["COMMIT's", [first()]],
])("a batch whose connection is lost before %s answer does not say that it was rolled back", async (_, messages) => {
  const { call, session } = await sent(undefined, ...messages);
  session.peer.end();
  await expect(call).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false, transaction: "unknown" });
});

test("an error of a batch's COMMIT that leaves the outcome open says of no item that it was rolled back", async () => {
  const { call } = await sent(undefined, first(), firstItem("2"), errorWithoutV("40003"), wire.readyForQuery());
  const batch = { rolledBack: [], skipped: [] };
  await expect(call).rejects.toMatchObject({ code: "40003", transaction: "unknown", batch });
});

test("a connection lost during a batch does not count against a server where a batch has succeeded", async () => {
  const before = client.batch(["select a", "select b"]);
  const session = await letIn();
  for (const _ of "123") await session.flight();
  session.send(...succeeds());
  await before;
  const { call } = await sent(session);
  session.peer.end();
  await expect(call).rejects.toMatchObject({ code: "CONNECTION_LOST", retryable: false });
  await (
    await sent(undefined, ...succeeds())
  ).call;
});

test("after answers that PostgreSQL never gives, single statements are described first too", async () => {
  const { call } = await sent(undefined, first(), firstItem("2"), wire.parseComplete(), wire.parseComplete());
  await expect(call).rejects.toMatchObject({ name: "ProtocolError", code: "UNEXPECTED_MESSAGE", retryable: false });
  await nextIsDescribed();
});
