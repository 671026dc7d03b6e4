// A socket in memory whose writes take as long as a test says.
//
// Knows the socket contract. Must not know what a test expects to be written.
import { expect } from "vitest";
import { install, server, type Session } from "./memory-session.ts";

export interface SlowSocket {
  /** While true, new writes wait. */
  holds: boolean;
  /** Completes the waiting write. */
  goOn(): void;
}

/** Controls the sockets of all later connections. */
export function slowSockets(): SlowSocket {
  const slow: SlowSocket = { holds: false, goOn: () => {} };
  const { connect } = server;
  install(async (options) => {
    const socket = await connect(options);
    const write = async (bytes: Uint8Array) => {
      await socket.write(bytes);
      if (slow.holds) await new Promise<void>((resolve) => (slow.goOn = resolve));
    };
    return { ...socket, write };
  });
  return slow;
}

/** Returns the names of the messages in the next write. */
export async function written(session: Session): Promise<string[]> {
  const names: string[] = [];
  const bytes = await session.peer.received();
  session.reader.push(Buffer.from(bytes ?? []));
  for (let message = session.reader.next(); message; message = session.reader.next()) names.push(message.name);
  return names;
}

/** Expects this write, and answers it. */
export async function answerWrite(
  session: Session,
  names: readonly string[],
  ...messages: Uint8Array[]
): Promise<void> {
  expect(await written(session)).toEqual(names);
  if (messages.length > 0) session.send(...messages);
}
