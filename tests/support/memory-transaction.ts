// Transactions of memory-session.ts's client: what the server answers to their statements.
import { expect } from "vitest";
import type { Transaction, TransactionOptions } from "../../js/api/transaction.ts";
import { begun, client, ended, letInKnowing, quiet, rows, texts, type Session } from "./memory-session.ts";
import * as wire from "./wire.mjs";

/** The answer to BEGIN in the flight of the first statement. */
export const BEGUN = Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.commandComplete("BEGIN")]);

/** The answer to "select n" with rows from `from` to before `to`. */
export const inside = (from = 1, to = from + 1): Buffer[] => [
  begun(),
  rows(from, to),
  wire.commandComplete(`SELECT ${to - from}`),
  wire.readyForQuery("T"),
];

export const error = (C: string, S = "ERROR"): Buffer => wire.errorResponse({ S, V: S, C, M: "no" });

/** Expects a statement of the driver's own, and answers it. */
export async function answers(
  session: Session,
  text: string,
  tag = text.split(" ")[0]!,
  status: "I" | "T" = "I",
): Promise<void> {
  expect(await texts(session)).toEqual([text]);
  session.send(wire.commandComplete(tag), wire.readyForQuery(status));
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
  session.send(BEGUN, ...inside());
  await quiet();
  return { session, call };
}

/** Expects the first flight of a transaction, with "select n", and answers it. */
export async function begins(session: Session): Promise<void> {
  expect(await texts(session)).toEqual(["BEGIN", "select n"]);
  session.send(BEGUN, ...inside());
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

/** The answer to "select n" whose execution fails, and with it the transaction. */
export const failedInside = (C: string): Buffer[] => [begun(), error(C), wire.readyForQuery("E")];

/** Runs "select n" outside of a transaction, and expects nothing else before it. */
export async function runsOutside(session: Session): Promise<void> {
  const next = client.query("select n");
  expect(await texts(session)).toEqual(["select n"]);
  session.send(begun(), rows(7, 8), ended(1));
  expect((await next).rows).toEqual([{ n: 7 }]);
}
