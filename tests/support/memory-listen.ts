// Listeners of memory-session.ts's client on the channel "jobs", and the server's side of their connections.
import { expect } from "vitest";
import type { Listener, ListenOptions } from "../../js/api/listen.ts";
import { complete, query } from "./memory-answers.ts";
import { accepted, client, letIn, quiet, type Session } from "./memory-session.ts";
import * as wire from "./wire.mjs";

export const notified = (payload: string): Buffer =>
  wire.message("A", wire.int32(9), Buffer.from(`jobs\0${payload}\0`));

/** Many notifications, with the payloads "0", "1" … */
export const notifiedOften = (count: number): Buffer =>
  Buffer.concat(Array.from({ length: count }, (_, at) => notified(String(at))));

/** Answers LISTEN on the next connection, or on this one. */
export async function letListen(next: Session | Promise<Session> = letIn()): Promise<Session> {
  const session = await next;
  expect(await query(session)).toBe('LISTEN "jobs"');
  session.send(complete("LISTEN"));
  await quiet();
  return session;
}

/** Answers the login of a connection and then its LISTEN. `processId`: that of the server's session. */
export async function letInToListen(next: Session | Promise<Session>, processId = 7): Promise<Session> {
  return letListen(logIn(await next, processId));
}

/** Answers the login of a connection. */
export async function logIn(session: Session, processId: number): Promise<Session> {
  expect(await session.flight()).toEqual(["StartupMessage"]);
  session.send(wire.authenticationOk(), wire.backendKeyData(processId, wire.int32(9)), wire.readyForQuery());
  return session;
}

/** Calls listen. LISTEN has been sent and is not answered when this returns. */
export async function asksToListen(options?: ListenOptions): Promise<{ pending: Promise<Listener>; session: Session }> {
  const pending = client.listen("jobs", options);
  pending.catch(() => {});
  const session = await letIn();
  expect(await query(session)).toBe('LISTEN "jobs"');
  return { pending, session };
}

/** Starts a listener. */
export async function listening(options?: ListenOptions): Promise<{ listener: Listener; session: Session }> {
  const { pending, session } = await asksToListen(options);
  session.send(complete("LISTEN"));
  return { listener: await pending, session };
}

/** Returns the names of the messages up to the session's end. */
export async function rest(session: Session): Promise<string[]> {
  const names: string[] = [];
  for (let message; (message = await session.message());) names.push(message.name);
  return names;
}

/** Refuses a connection in its login. */
export async function refuse(next: Session | Promise<Session> = accepted()): Promise<void> {
  const session = await next;
  await session.flight();
  session.send(wire.errorResponse({ S: "FATAL", V: "FATAL", C: "57P03", M: "starting up" }));
  session.peer.end();
  await quiet();
}
