// What has a path and is read or written where it stands: pipes, devices, and files that are read.
//
// Knows that no thread may wait for the other side: Node's process does not end before its threads do, and one that
// waits in open(2), read(2) or write(2) of a pipe waits as long as the other side likes, whatever signal comes. So all
// is asked for without waiting (O_NONBLOCK), and again a little later. Must not know what the bytes are.
import { constants } from "node:fs";
import { open, stat, type FileHandle } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

/** Windows has no such flag, and no such pipes. */
const { O_NONBLOCK = 0 } = constants as { readonly O_NONBLOCK?: number };

/** `flags` of open(2). To write into a pipe it waits until somebody has it open to read. */
export async function openPipe(path: string, flags: number, signal: AbortSignal): Promise<FileHandle> {
  return await untilDone(signal, () =>
    open(path, flags | O_NONBLOCK).catch(async (error: NodeJS.ErrnoException): Promise<typeof NOT_NOW> => {
      if (error.code === "ENXIO" && (await stat(path)).isFIFO()) return NOT_NOW;
      throw error;
    }),
  );
}

/** Bytes for one read, as Node's streams of files have it. */
const PIECE = 65_536;

/** To its end, which closes it. `awaitsWriter`: an end before anything came means that nobody writes to it yet. */
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
        isAwaited = false; // one that has nothing to say now is there too
        return read === NOT_NOW ? read : read.bytesRead;
      });
      if (length === 0) return;
      yield piece.subarray(0, length);
    }
  } finally {
    await file.close();
  }
}

/** A pipe takes so many bytes together or none. Of more Deno does not say how many went before "not now". */
const PIPE_BUF = 4_096;

export async function writePipe(file: FileHandle, data: Uint8Array | string, signal: AbortSignal): Promise<void> {
  let rest = typeof data === "string" ? Buffer.from(data) : data;
  while (rest.length) {
    const { bytesWritten } = await untilDone(signal, () => orNotNow(file.write(rest.subarray(0, PIPE_BUF))));
    rest = rest.subarray(bytesWritten);
  }
}

/** Another attempt, later. */
const NOT_NOW: unique symbol = Symbol("not now");

/** The other side has written nothing, or read nothing. */
function orNotNow<T>(result: Promise<T>): Promise<T | typeof NOT_NOW> {
  return result.catch((error: NodeJS.ErrnoException) => {
    if (error.code === "EAGAIN") return NOT_NOW;
    throw error;
  });
}

/** Milliseconds from one attempt to the next, at most. */
const LONGEST_PAUSE = 25;

async function untilDone<T>(signal: AbortSignal, attempt: () => Promise<T | typeof NOT_NOW>): Promise<T> {
  for (let ms = 0; ; ms = Math.min(ms + 1, LONGEST_PAUSE)) {
    signal.throwIfAborted();
    const answer = await attempt();
    if (answer !== NOT_NOW) return answer as T;
    await pause(ms, undefined, { signal });
  }
}
