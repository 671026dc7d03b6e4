// Notices that the reader of standard output has left, while nothing is written.
//
// A write tells it too (EPIPE), but a command that waits for the server may not write for hours. The system reports it
// to a program that polls the pipe for reading, which Node's streams cannot do with an end for writing. Its handle of
// TCP sockets polls any file descriptor, and Node has no public name for it.
//
// Knows Node's handles. Must not know what is written.
import { openSync } from "node:fs";
import process from "node:process";

interface Handle {
  open(fd: number): number;
  readStart(): number;
  unref(): void;
  onread: () => void;
}
interface Binding {
  readonly TCP: new (type: number) => Handle;
  readonly constants: { readonly SOCKET: number };
}

/** The handle must not be collected. */
let watched: Handle | undefined;

/**
 * Calls `left` once when the reader of the pipe has left. Where this cannot be noticed (another runtime, no pipe), the
 * next write notices it.
 */
export function watchPipe(left: () => void): void {
  try {
    const { TCP, constants } = (process as unknown as { binding(name: string): Binding }).binding("tcp_wrap");
    const handle = new TCP(constants.SOCKET);
    // A descriptor of its own: the event loop has one handle for each.
    if (handle.open(openSync("/dev/fd/1", "w")) !== 0) return;
    handle.onread = () => {
      if (watched) left();
      watched = undefined;
    };
    handle.unref();
    if (handle.readStart() === 0) watched = handle;
  } catch {
    // Standard output is no pipe, or this is not Node.
  }
}
