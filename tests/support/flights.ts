// The driver's flights of statements and batches, for tests with sockets in memory: the names of their messages, and
// steps that expect such a flight and answer it.
//
// Must not know what a test is about. The server's messages are in server-messages.ts.
import { expect } from "vitest";
import type { PgzError } from "../../js/util/errors.ts";
import { client, execution, letIn, type Session } from "./memory-session.ts";
import { boundRow, description, executed, firstExecuted } from "./server-messages.ts";
import * as wire from "./wire.mjs";

/** The flight of a first run. */
export const firstFlight = ["Close", "Parse", "Describe", "Parse", "Bind", "Execute", "Bind", "Execute", "Sync"];
/** The flight of a description. */
export const described = ["Parse", "Describe", "Sync"];

/** The flight from the third first run on: the second has prepared the check. */
export const laterFlight = ["Close", "Parse", "Describe", "Bind", "Execute", "Bind", "Execute", "Sync"];

/** The flight with BEGIN or a similar statement before it. */
export const behindPrelude = ["Close", "Parse", "Bind", "Execute", ...firstFlight.slice(1)];

/** The flight of a known statement with BEGIN before it. */
export const behindBegin = ["Parse", "Bind", "Execute", ...execution];

/** Expects this flight, and then answers it. */
export async function answer(session: Session, flight: readonly string[], ...messages: Uint8Array[]): Promise<void> {
  expect(await session.flight()).toEqual(flight);
  if (messages.length > 0) session.send(...messages);
}

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
  await firstRun(session, firstExecuted("7"));
  expect((await call).rows).toEqual([{ n: 7 }]);
}

/** Expects that a statement is described, and then runs in binary with one row. */
export async function runsDescribed(session: Session, call?: Promise<{ rows: unknown[] }>): Promise<void> {
  await answer(session, described, description());
  await answer(session, execution, executed(5));
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

// -- batches of described statements ---------------------------------------------------------------------------------

/** An item's messages if its statement has a name, and if the name is prepared with it. */
export const item = ["Bind", "Describe", "Execute"];
export const parsed = ["Parse", ...item];

/** The answers to Close and Parse, which come first if a name is prepared again. */
export function inFront(flight: readonly string[]): Buffer[] {
  const answers: Record<string, Buffer> = { Close: wire.closeComplete(), Parse: wire.parseComplete() };
  return flight.flatMap((name) => answers[name] ?? []);
}

/** Expects that a statement is described, perhaps after the Close of its old name, and answers. */
export async function describedAgain(session: Session, messages: Uint8Array = description()): Promise<void> {
  const flight = await session.flight();
  expect(flight.filter((name) => name !== "Close")).toEqual(described);
  session.send(...inFront(flight.slice(0, -described.length)), messages);
}

/** Returns a session on which these statements have run in a batch, so that their descriptions are cached. */
export async function knowing(...statements: string[]): Promise<Session> {
  const call = client.batch(statements);
  const session = await letIn();
  for (const _ of statements) await answer(session, described, description());
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
    ({ code, batch, hasNoEffect, retryable, transaction }: PgzError) => ({
      ...{ code, batch, hasNoEffect, retryable, transaction },
    }),
  );
