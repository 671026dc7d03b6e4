// A socket in memory whose writes take as long as a test says.
//
// Knows the socket contract. Must not know what is written.
import { install, server, type Session } from "./memory-session.ts";

export interface SlowSocket {
  /** Writes wait from now on. */
  holds: boolean;
  /** Ends the write that waits. */
  goOn(): void;
}

/** The sockets of all connections to come. */
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

/** The names of the messages in the next write. */
export async function written(session: Session): Promise<string[]> {
  const names: string[] = [];
  const bytes = await session.peer.received();
  session.reader.push(Buffer.from(bytes ?? []));
  for (let message = session.reader.next(); message; message = session.reader.next()) names.push(message.name);
  return names;
}
