// Standard output and standard error: data go to the first, all that is said about them to the second.
//
// Knows back-pressure, a reader who leaves and a disk that is full. Must not know commands.
import { fstatSync, writeSync } from "node:fs";
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
  if (isFile) return writeToFile(data);
  if (process.stdout.write(data)) return;
  await new Promise<void>((resolve, reject) => {
    giveUp = reject;
    process.stdout.once("drain", resolve);
  });
}

const STDOUT = 1;

/** `> file`. There process.stdout takes a write that a full disk has cut short for a whole one. */
const isFile = isRegular();

function isRegular(): boolean {
  try {
    // As bigint: Node's realpathSync takes the numbers of the last fstatSync for its own. Behind those of a pipe or a
    // socket it follows no link, and an import by a linked package finds nothing.
    return fstatSync(STDOUT, { bigint: true }).isFile();
  } catch {
    return false; // it is closed
  }
}

function writeToFile(data: Uint8Array | string): void {
  try {
    let rest = typeof data === "string" ? Buffer.from(data) : data;
    while (rest.length) rest = rest.subarray(writeSync(STDOUT, rest));
  } catch (error) {
    throw lost(error as NodeJS.ErrnoException);
  }
}

/** Why nothing is written any more. */
let stopped: Error | undefined;
let giveUp: (reason: Error) => void = () => {};
let tell: (reason: ReaderLeft) => void = () => {};

/** Nothing more is written, and nobody waits for a reader who takes his time. */
export function stopWriting(reason: Error): void {
  stopped ??= reason;
  giveUp(stopped);
}

/** Calls `heard` when standard output cannot be written any more. */
export function watchReader(heard: (reason: ReaderLeft) => void): void {
  tell = heard;
  process.stdout.on("error", lost);
  process.stderr.on("error", () => {}); // nobody is left to be told, and the data go on
}

function lost(error: NodeJS.ErrnoException): ReaderLeft {
  // Whatever else keeps it from being written ends it as well: a full disk.
  const reason = Object.assign(new ReaderLeft(), error.code !== "EPIPE" && { cause: error });
  stopWriting(reason);
  tell(reason);
  return reason;
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
