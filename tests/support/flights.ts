// The server's complete answers to flights of statements and batches, for tests with sockets in memory.
//
// Knows messages and their order. Must not know when the driver sends which flight.
import { expect } from "vitest";
import type { PgzError } from "../../js/util/errors.ts";
import { checked, described, firstFlight, over, texts } from "./first-runs.ts";
import { accepted, begun, client, execution, int4, letIn, rows, type Session } from "./memory-session.ts";
import * as wire from "./wire.mjs";

type Status = "I" | "T" | "E";

/** The flight of a known statement with BEGIN before it. */
export const behindBegin = ["Parse", "Bind", "Execute", ...execution];

/** Expects this flight, and then answers it. */
export async function answer(session: Session, flight: readonly string[], ...messages: Uint8Array[]): Promise<void> {
  expect(await session.flight()).toEqual(flight);
  if (messages.length > 0) session.send(...messages);
}

// -- complete answers ------------------------------------------------------------------------------------------------

/** An error. `more`: its other fields. */
export const error = (C: string, more: object = {}): Buffer =>
  wire.errorResponse({ S: "ERROR", V: "ERROR", C, M: "no", ...more });

/** An error that ends its flight. */
export const refused = (C: string, status: Status = "I", more: object = {}): Buffer =>
  Buffer.concat([error(C, more), wire.readyForQuery(status)]);

/** The answer to a statement without rows before another one in its flight: BEGIN, SAVEPOINT or a setting. */
export const ran = (tag: string): Buffer =>
  Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.commandComplete(tag)]);

/** The answer to a Query without rows, or the end of another flight. */
export const done = (tag: string, status: Status = "I"): Buffer =>
  Buffer.concat([wire.commandComplete(tag), wire.readyForQuery(status)]);

/** The server's description of a statement. */
export const shape = (columns = [int4], parameters: number[] = [], status: Status = "I"): Buffer =>
  Buffer.concat([
    ...[wire.parseComplete(), wire.parameterDescription(parameters)],
    ...[columns.length > 0 ? wire.rowDescription(columns) : wire.noData(), wire.readyForQuery(status)],
  ]);

/** A known statement's rows, from this number on. */
export const whole = (from: number, count = 1, status: Status = "I"): Buffer =>
  Buffer.concat([begun(), rows(from, from + count), over(count, status)]);

/** A first run's rows of one column. */
export const firstWhole = (...values: string[]): Buffer =>
  Buffer.concat([checked(), wire.bindComplete(), texts(...values), over(values.length)]);

// -- first runs ------------------------------------------------------------------------------------------------------

/** Expects a first run, on this session or on the next one, and answers it. */
export async function firstRun(session?: Session, ...messages: Uint8Array[]): Promise<Session> {
  const next = session ?? (await letIn());
  await answer(next, firstFlight, ...messages);
  return next;
}

/** Checks that the next statement runs first. */
export async function nextRunsFirst(session: Session): Promise<void> {
  const call = client.query("select next");
  await firstRun(session, firstWhole("7"));
  expect((await call).rows).toEqual([{ n: 7 }]);
}

/** Expects that a statement is described, and then runs in binary with one row. */
export async function runsDescribed(session: Session, call?: Promise<{ rows: unknown[] }>): Promise<void> {
  await answer(session, described, shape());
  await answer(session, execution, whole(5));
  if (call) expect((await call).rows).toEqual([{ n: 5 }]);
}

/** Checks that the next statement is described, on this session or on the next one. */
export async function nextIsDescribed(session?: Session, text = "select next"): Promise<void> {
  const call = client.query(text);
  await runsDescribed(session ?? (await letIn()), call);
}

/** Expects that a call's statement is described. Then ends the connection, which is the call's `outcome`. */
export async function isDescribed(session: Session, end: Promise<unknown>): Promise<void> {
  expect((await session.flight()).filter((name) => name !== "Close")).toEqual(described);
  session.peer.end();
  expect(await end).toMatchObject({ code: "CONNECTION_LOST" });
}

// -- batches of first runs -------------------------------------------------------------------------------------------

/** The answer to an item of a first batch, with one row. */
export const firstItem = (value: string, prelude = "SAVEPOINT", columns = [int4]): Buffer =>
  Buffer.concat([checked(columns, [], prelude), wire.bindComplete(), texts(value), over(1, "T")]);

/** The answer to the COMMIT of a first batch. */
export const ending = (tag: string): Buffer =>
  Buffer.concat([wire.parseComplete(), wire.bindComplete(), wire.noData(), done(tag)]);

// -- batches of described statements ---------------------------------------------------------------------------------

/** An item's messages if its statement has a name, and if the name is prepared with it. */
export const item = ["Bind", "Describe", "Execute"];
export const parsed = ["Parse", ...item];

/** The answer to an item up to its rows. */
export const bound = (): Buffer => Buffer.concat([wire.bindComplete(), wire.rowDescription([int4], [1])]);

/** The rest of an item's answer, with one row. */
export const row = (n: number): Buffer =>
  Buffer.concat([wire.dataRow([wire.int32(n)]), wire.commandComplete("SELECT 1")]);

/** The complete answer to an item with one row. */
export const boundRow = (n: number): Buffer => Buffer.concat([bound(), row(n)]);

/** The answers to Close and Parse, which come first if a name is prepared again. */
export function inFront(flight: readonly string[]): Buffer[] {
  const answers: Record<string, Buffer> = { Close: wire.closeComplete(), Parse: wire.parseComplete() };
  return flight.flatMap((name) => answers[name] ?? []);
}

/** Expects that a statement is described, perhaps after the Close of its old name, and answers. */
export async function describedAgain(session: Session, messages: Uint8Array = shape()): Promise<void> {
  const flight = await session.flight();
  expect(flight.filter((name) => name !== "Close")).toEqual(described);
  session.send(...inFront(flight.slice(0, -described.length)), messages);
}

/** Returns a session on which these statements have run in a batch, so that their descriptions are cached. */
export async function knowing(...statements: string[]): Promise<Session> {
  const call = client.batch(statements);
  const session = await letIn();
  for (const _ of statements) await answer(session, described, shape());
  const flight = [...statements.flatMap(() => item), "Sync"];
  await answer(session, flight, ...statements.map(() => boundRow(0)), wire.readyForQuery());
  await call;
  return session;
}

// -- ends of calls ---------------------------------------------------------------------------------------------------

/** Resolves with what the error of a call says. */
export const outcome = (call: Promise<unknown>): Promise<unknown> =>
  call.then(
    () => "well",
    ({ code, batch, retryable, transaction }: PgzError) => ({ code, batch, retryable, transaction }),
  );

/** Accepts the driver's CancelRequest, and ends its connection. */
export async function cancelled(): Promise<void> {
  const cancel = await accepted();
  expect(await cancel.flight()).toEqual(["CancelRequest"]);
  cancel.peer.end();
}
