// Standard output and standard error: data go to the first, messages about them to the second. Only this file writes to
// them: messages, and data on a terminal, are made printable; in a pipe or a file data stay exact.
//
// Knows back-pressure, a reader that leaves and a full disk. Must not know commands.
import { fstatSync, writeSync } from "node:fs";
import process from "node:process";
import { Writable } from "node:stream";
import { printable, PrintableData } from "./printable.ts";

/**
 * The reader of standard output is gone, as with `| head`. With a `cause`, standard output fails for another reason.
 */
export class ReaderLeft extends Error {
  constructor() {
    super("The reader of standard output is gone.");
  }
}

/** Resolves when standard output has room for more. Rejects with the reason given to `stopWriting`. */
export async function write(data: Uint8Array | string): Promise<void> {
  if (stopped) throw stopped;
  if (isFile) return writeToFile(data);
  if (process.stdout.write(onTerminal?.next(data) ?? data)) return;
  await new Promise<void>((resolve, reject) => {
    giveUp = reject;
    process.stdout.once("drain", resolve);
  });
}

const STDOUT = 1;

/** Set if a person sees standard output. */
const onTerminal = process.stdout.isTTY ? new PrintableData() : undefined;
if (onTerminal) process.once("exit", () => void process.stdout.write(onTerminal.end()));

/**
 * Whether standard output is a file (`> file`). There process.stdout treats a write that a full disk has cut short as a
 * complete one.
 */
const isFile = isRegular();

function isRegular(): boolean {
  try {
    // With bigint, because Node's realpathSync takes the numbers of the last fstatSync for its own. After those of a
    // pipe or a socket it follows no link, and an import in a linked package finds no module.
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

/** Standard output for a library that writes there itself. */
export function protocolOutput(): Writable {
  if (!onTerminal) return process.stdout;
  return new Writable({
    write(data: Uint8Array, _encoding, done) {
      process.stdout.write(onTerminal.next(data), () => done());
    },
  });
}

/** The reason why writing has stopped. */
let stopped: Error | undefined;
let giveUp: (reason: Error) => void = () => {};
let onLeft: (reason: ReaderLeft) => void = () => {};

/** Ends all writing. A write that waits for a slow reader rejects with the reason. */
export function stopWriting(reason: Error): void {
  stopped ??= reason;
  giveUp(stopped);
}

/** Calls `listener` when standard output can no longer be written. */
export function watchReader(listener: (reason: ReaderLeft) => void): void {
  onLeft = listener;
  process.stdout.on("error", lost);
  process.stderr.on("error", () => {}); // messages have no reader, but data may still have one
}

function lost(error: NodeJS.ErrnoException): ReaderLeft {
  // Any other error ends the output as well, for example a full disk.
  const reason = Object.assign(new ReaderLeft(), error.code !== "EPIPE" && { cause: error });
  stopWriting(reason);
  onLeft(reason);
  return reason;
}

/** Resolves when all output has left the process, or when writing has stopped. */
export async function flush(): Promise<void> {
  if (stopped || process.stdout.writableLength === 0) return;
  await new Promise<void>((resolve) => {
    giveUp = () => resolve();
    process.stdout.write("", () => resolve());
  });
}

/** Writes one line to the user, on standard error. */
export function say(text: string): void {
  process.stderr.write(`${clearLine()}${printable(text)}\n`);
}

/** Replaces the current line of a terminal, on standard error. */
export function overwrite(text: string): void {
  process.stderr.write(`${CLEAR}${printable(text)}`);
}

/** Moves the cursor to the line's beginning, and clears the line. */
export const CLEAR = "\r\x1b[K";

let clearLine = () => "";

/** Sets the text that `say` writes first, so that its line does not follow a progress line. */
export function beforeLines(clear: () => string): void {
  clearLine = clear;
}
