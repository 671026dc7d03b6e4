// Steps that many conversations of memory-session.ts's client have: a statement is described and runs, a call is
// cancelled, a login is completed or refused.
//
// Knows messages and their order. Must not know what a test is about.
import { expect } from "vitest";
import type { StreamOptions } from "../../js/api/options.ts";
import { accepted, begun, client, ended, int4, learn, letIn, rows, type Session } from "./memory-session.ts";
import * as wire from "./wire.mjs";

// -- statements ------------------------------------------------------------------------------------------------------

/** The answer to the flight of a description. */
export function description(columns = [int4], parameters: number[] = [], status: "I" | "T" = "I"): Buffer {
  return Buffer.concat([
    wire.parseComplete(),
    wire.parameterDescription(parameters),
    wire.rowDescription(columns),
    wire.readyForQuery(status),
  ]);
}

/** The answer to an execution of "select n" with rows from `from` to before `to`. */
export function executed(from = 7, to = from + 1): Buffer {
  return Buffer.concat([begun(), rows(from, to), ended(to - from)]);
}

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

/** The end of a flight that a cancel has hit. */
export function canceled(): Buffer {
  return Buffer.concat([
    wire.errorResponse({ S: "ERROR", V: "ERROR", C: "57014", M: "canceled" }),
    wire.readyForQuery(),
  ]);
}

/** The next connection, which must send a CancelRequest. */
export async function cancelRequest(): Promise<Session> {
  const session = await accepted();
  expect(await session.flight()).toEqual(["CancelRequest"]);
  return session;
}

// -- logins ----------------------------------------------------------------------------------------------------------

/** Completes a login whose StartupMessage has been read. */
export function letInNow(session: Session): void {
  session.send(wire.authenticationOk(), wire.parameterStatus("integer_datetimes", "on"));
  session.send(wire.backendKeyData(7, wire.int32(9)), wire.readyForQuery());
}

/** Refuses the next login. */
export async function refuseLogin(code = "53300"): Promise<void> {
  const session = await accepted();
  await session.flight();
  session.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: code, M: "no" }));
  session.peer.end();
}

/** Answers the first call of a known statement on the next session. Returns the session. */
export async function answeredNext(call: Promise<Result>, n = 7): Promise<Session> {
  const session = await letIn();
  await answered(session, call, n);
  return session;
}
