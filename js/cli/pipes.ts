// Opens, reads and writes paths in place: pipes, devices, and files that are only read.
//
// Knows that no thread may block on the other side. Node's process does not end before its threads do, and a thread in
// open(2), read(2) or write(2) of a pipe stays blocked until the other side acts, whatever signal arrives. So every
// call is non-blocking (O_NONBLOCK) and is retried a little later. Must not know what the bytes are.
import { constants } from "node:fs";
import { open, stat, type FileHandle } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

/** Windows has neither this flag nor such pipes. */
const { O_NONBLOCK = 0 } = constants as { readonly O_NONBLOCK?: number };

/** Opens a path with these `flags` of open(2). To write to a pipe, it waits until a reader has opened the pipe. */
export async function openPipe(path: string, flags: number, signal: AbortSignal): Promise<FileHandle> {
  return await untilDone(signal, () =>
    open(path, flags | O_NONBLOCK).catch(async (error: NodeJS.ErrnoException): Promise<typeof NOT_NOW> => {
      if (error.code === "ENXIO" && (await stat(path)).isFIFO()) return NOT_NOW;
      throw error;
    }),
  );
}

/** Bytes per read, as in Node's file streams. */
const PIECE = 65_536;

/**
 * Yields the file's data up to its end, and closes the file. `awaitsWriter`: an end before any data means that no
 * writer has opened the pipe yet.
 */
export async function* piecesOf(
  file: FileHandle,
  signal: AbortSignal,
  awaitsWriter: boolean,
): AsyncGenerator<Uint8Array> {
  let isAwaited = awaitsWriter;
  try {
    for (;;) {
      const piece = Buffer.allocUnsafeSlow(PIECE);
      const length = await untilDone(signal, async () => {
        const read = await orNotNow(file.read(piece, 0, PIECE, null));
        if (read !== NOT_NOW && read.bytesRead === 0 && isAwaited) return NOT_NOW;
        isAwaited = false; // NOT_NOW shows that there is a writer too
        return read === NOT_NOW ? read : read.bytesRead;
      });
      if (length === 0) return;
      yield piece.subarray(0, length);
    }
  } finally {
    await file.close();
  }
}

/**
 * Bytes that a pipe takes together or not at all. For a longer write, Deno does not say how many bytes were written
 * before EAGAIN.
 */
const PIPE_BUF = 4_096;

export async function writePipe(file: FileHandle, data: Uint8Array | string, signal: AbortSignal): Promise<void> {
  let rest = typeof data === "string" ? Buffer.from(data) : data;
  while (rest.length) {
    const { bytesWritten } = await untilDone(signal, () => orNotNow(file.write(rest.subarray(0, PIPE_BUF))));
    rest = rest.subarray(bytesWritten);
  }
}

/** The result of an attempt that must be retried later. */
const NOT_NOW: unique symbol = Symbol("not now");

/** Turns EAGAIN into NOT_NOW: the other side has not written, or not read, anything yet. */
function orNotNow<T>(result: Promise<T>): Promise<T | typeof NOT_NOW> {
  return result.catch((error: NodeJS.ErrnoException) => {
    if (error.code === "EAGAIN") return NOT_NOW;
    throw error;
  });
}

/** Maximum number of milliseconds between two attempts. */
const LONGEST_PAUSE = 25;

async function untilDone<T>(signal: AbortSignal, attempt: () => Promise<T | typeof NOT_NOW>): Promise<T> {
  for (let ms = 0; ; ms = Math.min(ms + 1, LONGEST_PAUSE)) {
    signal.throwIfAborted();
    const answer = await attempt();
    if (answer !== NOT_NOW) return answer as T;
    await pause(ms, undefined, { signal });
  }
}
