// Transactions of memory-session.ts's client, on a session that knows "select n".
import { expect } from "vitest";
import type { Transaction } from "../../js/api/transaction.ts";
import type { TransactionOptions } from "../../js/api/transaction-options.ts";
import { client, letInKnowing, quiet, texts, type Session } from "./memory-session.ts";
import { completeAndReady, executedInside, ran } from "./server-messages.ts";

/** Expects a statement of the driver's own, and answers it. */
export async function answers(
  session: Session,
  text: string,
  tag = text.split(" ")[0]!,
  status: "I" | "T" = "I",
): Promise<void> {
  expect(await texts(session)).toEqual([text]);
  session.send(completeAndReady(tag, status));
}

/** A transaction whose first statement has run. */
export async function running(
  work: (tx: Transaction) => unknown,
  options?: TransactionOptions,
): Promise<{ session: Session; call: Promise<unknown> }> {
  const session = await letInKnowing();
  const call = client.transaction(async (tx) => {
    await tx.query("select n");
    return await work(tx);
  }, options);
  call.catch(() => {});
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  session.send(ran("BEGIN"), executedInside());
  await quiet();
  return { session, call };
}

/** Expects the first flight of a transaction, with "select n", and answers it. */
export async function begins(session: Session): Promise<void> {
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  session.send(ran("BEGIN"), executedInside());
}

/** A transaction whose first statement has been sent, with its BEGIN. */
export async function sent(
  work: (tx: Transaction) => unknown,
  options?: TransactionOptions,
): Promise<{ session: Session; call: Promise<unknown> }> {
  const session = await letInKnowing();
  const call = Promise.resolve(client.transaction(work, options));
  call.catch(() => {});
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  return { session, call };
}
