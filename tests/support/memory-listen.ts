// Listeners of memory-session.ts's client on the channel "jobs", and the server's side of their connections.
import { expect } from "vitest";
import type { Listener, ListenOptions } from "../../js/api/listen.ts";
import { client, letIn, logIn, queryText, quiet, type Session } from "./memory-session.ts";
import { completeAndReady } from "./server-messages.ts";

/** Answers LISTEN on the next connection, or on this one. */
export async function letListen(next: Session | Promise<Session> = letIn()): Promise<Session> {
  const session = await next;
  expect(await queryText(session)).toBe('LISTEN "jobs"');
  session.send(completeAndReady("LISTEN"));
  await quiet();
  return session;
}

/** Answers the login of a connection and then its LISTEN. */
export async function letInToListen(next: Session | Promise<Session>): Promise<Session> {
  return letListen(logIn(next));
}

/** Calls listen. LISTEN has been sent and is not answered when this returns. */
export async function asksToListen(options?: ListenOptions): Promise<{ pending: Promise<Listener>; session: Session }> {
  const pending = client.listen("jobs", options);
  pending.catch(() => {});
  const session = await letIn();
  expect(await queryText(session)).toBe('LISTEN "jobs"');
  return { pending, session };
}

/** Starts a listener. */
export async function listening(options?: ListenOptions): Promise<{ listener: Listener; session: Session }> {
  const { pending, session } = await asksToListen(options);
  session.send(completeAndReady("LISTEN"));
  return { listener: await pending, session };
}

/** Returns the names of the messages up to the session's end. */
export async function rest(session: Session): Promise<string[]> {
  const names: string[] = [];
  for (let message; (message = await session.message());) names.push(message.name);
  return names;
}
