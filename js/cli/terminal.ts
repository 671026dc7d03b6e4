// Standard output and standard error: data go to the first, all that is said about them to the second.
//
// Knows back-pressure and a reader who leaves. Must not know commands.
import process from "node:process";

/** Standard output has no reader any more, as behind `| head`. */
export class ReaderLeft extends Error {
  constructor() {
    super("Nobody reads standard output any more.");
  }
}

/** Resolves when there is room for more. Rejects with what `stopWriting` was told. */
export async function write(data: Uint8Array | string): Promise<void> {
  if (stopped) throw stopped;
  if (process.stdout.write(data)) return;
  await new Promise<void>((resolve, reject) => {
    giveUp = reject;
    process.stdout.once("drain", resolve);
  });
}

/** Why nothing is written any more. */
let stopped: Error | undefined;
let giveUp: (reason: Error) => void = () => {};

/** Nothing more is written, and nobody waits for a reader who takes his time. */
export function stopWriting(reason: Error): void {
  stopped ??= reason;
  giveUp(stopped);
}

/** Calls `heard` when the reader has gone. */
export function watchReader(heard: (reason: ReaderLeft) => void): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    // Whatever else keeps it from being written ends it as well: a full disk.
    const reason = Object.assign(new ReaderLeft(), error.code !== "EPIPE" && { cause: error });
    stopWriting(reason);
    heard(reason);
  });
}

/** All of it has left the process. */
export async function flush(): Promise<void> {
  if (stopped || process.stdout.writableLength === 0) return;
  await new Promise<void>((resolve) => {
    giveUp = () => resolve();
    process.stdout.write("", () => resolve());
  });
}

/** One line to the user, on standard error. */
export function say(text: string): void {
  process.stderr.write(`${clearLine()}${text}\n`);
}

let clearLine = () => "";

/** What is to be written before a line is said, so that it does not stand behind a progress line. */
export function beforeLines(clear: () => string): void {
  clearLine = clear;
}
