// Steps that many conversations of memory-session.ts's client have: a statement is described and runs.
//
// Knows messages and their order. Must not know what a test is about.
import { expect } from "vitest";
import type { StreamOptions } from "../../js/api/options.ts";
import { client, learn, letIn, type Session } from "./memory-session.ts";
import { begun, executed, rows } from "./server-messages.ts";

/** Receives the flight of an execution, and answers it with these rows. */
export async function runs(session: Session, from = 7, to = from + 1): Promise<void> {
  expect((await session.flight()).at(-1)).toBe("Sync");
  session.send(executed(from, to));
}

interface Result {
  readonly rows: unknown[];
}

/** Answers the execution of `call`, which must return the row. */
export async function answered(session: Session, call: Promise<Result>, n = 7): Promise<void> {
  await runs(session, n);
  expect((await call).rows).toEqual([{ n }]);
}

/** The same for a call whose statement is described first. */
export async function learned(session: Session, call: Promise<Result>, n = 7): Promise<void> {
  await learn(session);
  session.send(executed(n));
  expect((await call).rows).toEqual([{ n }]);
}

/** A stream of `client` over a known statement, with rows up to before `to`. It has not ended. */
export async function streamed(session: Session, to = 1, options?: StreamOptions): Promise<ReadableStream<Uint8Array>> {
  const opening = client.stream("select n", options);
  await session.flight();
  session.send(begun(), rows(0, to));
  return await opening;
}

/** Answers the first call of a known statement on the next session. Returns the session. */
export async function answeredNext(call: Promise<Result>, n = 7): Promise<Session> {
  const session = await letIn();
  await answered(session, call, n);
  return session;
}
