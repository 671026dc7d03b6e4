// Sources and destinations of data: files, standard input and standard output.
//
// Knows that a file must be complete or absent: it is written next to its final place and renamed at the end. Anything
// but a plain file (a pipe, a device) is written in place (pipes.ts). Must not know the content.
import { randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { open, readlink, realpath, rename, stat, unlink } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import process from "node:process";
import { isatty } from "node:tty";
import { Misuse } from "./misuse.ts";
import { openPipe, piecesOf, writePipe } from "./pipes.ts";
import { PrintableData } from "./printable.ts";
import { write } from "./terminal.ts";

/** The destination of a command's data. */
export interface Destination {
  /** Whether it is a terminal, where a person sees the data as they are written. */
  readonly isTerminal: boolean;
  write(data: Uint8Array | string): Promise<void>;
  /** Called after the last write: a file gets its final name. */
  finish(): Promise<void>;
  /** Called after a failure, so that no file is left that would look complete. */
  discard(): Promise<void>;
}

/**
 * Opens a file by its path; without a path, or with `-`, returns standard output. `signal` ends the wait for a pipe's
 * reader.
 */
export async function destination(path: string | undefined, signal: AbortSignal): Promise<Destination> {
  if (path === undefined || path === "-") return standardOutput;
  if (path === "") throw new Misuse("The name of the output is empty: is a variable missing?");
  try {
    const found = await stat(path).catch(absent);
    const place = await placeOf(path);
    if (STANDARD_OUTPUT.test(place)) return standardOutput;
    const isOwnName = found !== undefined && (!found.isFile() || KERNEL.test(place));
    return isOwnName ? await inPlace(place, signal) : await beside(place, found);
  } catch (error) {
    throw signal.aborted ? error : new Misuse(`The file${shownPath(path)} cannot be written: ${reasonOf(error)}`);
  }
}

const standardOutput: Destination = {
  isTerminal: process.stdout.isTTY === true,
  write,
  async finish() {},
  async discard() {},
};

/** Paths of open files and of devices. They do not lead to a file that could be replaced. */
const KERNEL = /^\/(?:dev\/(?!shm\/)|proc\/)/;
const STANDARD_OUTPUT = /^\/(?:dev\/stdout|(?:dev|proc\/self)\/fd\/1)$/;

/** Follows links to their target, which need not exist yet. A rename onto a link would replace the link. */
async function placeOf(path: string): Promise<string> {
  for (let place = resolve(path); ;) {
    const next = KERNEL.test(place) ? undefined : await readlink(place).catch(() => undefined);
    if (next === undefined) return place;
    place = resolve(await realpath(dirname(place)), next);
  }
}

async function inPlace(place: string, signal: AbortSignal): Promise<Destination> {
  const pipe = await openPipe(place, constants.O_WRONLY | constants.O_TRUNC, signal);
  const screen = isatty(pipe.fd) ? new PrintableData() : undefined;
  return {
    isTerminal: screen !== undefined,
    write: (data) => writePipe(pipe, screen?.next(data) ?? data, signal),
    finish: () => pipe.close(),
    discard: () => pipe.close().catch(() => {}),
  };
}

/** Writes a new file in the same folder, which replaces `old` at the end. */
async function beside(place: string, old: Stats | undefined): Promise<Destination> {
  // The name is random, because processes in two containers may have the same process id. The flag is "wx", because
  // another user of the folder may have put a link there.
  const part = `${place}.${randomBytes(6).toString("base64url")}.part`;
  const mode = old && old.mode & 0o7777;
  const file = await open(part, "wx", mode); // never a wider mode: the file may be private
  if (old) await file.chown(old.uid, old.gid).catch(() => {}); // only root may do this
  if (mode !== undefined) await file.chmod(mode).catch(() => {}); // open() applied the umask
  return {
    isTerminal: false,
    async write(data) {
      await file.writeFile(data);
    },
    async finish() {
      await file.close();
      await rename(part, place);
    },
    async discard() {
      await file.close().catch(() => {});
      await unlink(part).catch(() => {});
    },
  };
}

/** Writes all of `data` to the destination. A failure on either side leaves no file. */
export async function pour(data: () => AsyncIterable<Uint8Array | string>, to: Destination): Promise<void> {
  try {
    for await (const piece of data()) await to.write(piece);
    await to.finish();
  } catch (error) {
    await to.discard();
    throw error;
  }
}

/** Data to read, and their size in bytes if it is known. */
export interface Source {
  readonly bytes: number | undefined;
  readonly data: AsyncIterable<Uint8Array>;
}

/**
 * Opens a file by its path; without a path, or with `-`, returns standard input. `signal` ends the wait for a pipe's
 * data. `what` names the data in the message for a terminal.
 */
export async function source(path: string | undefined, what: string, signal: AbortSignal): Promise<Source> {
  if (path === undefined || path === "-") {
    if (process.stdin.isTTY && path === undefined) throw new Misuse(`Pass ${what}, or send it to standard input.`);
    return { bytes: undefined, data: process.stdin };
  }
  if (path === "") throw new Misuse("The name of the file is empty: is a variable missing?");
  try {
    const file = await openPipe(path, constants.O_RDONLY, signal);
    const found = await file.stat();
    if (found.isDirectory()) throw new Error("EISDIR: it is a folder");
    // A pipe that is named by a descriptor, such as /dev/fd/3, has or had its writer already.
    const awaitsWriter = found.isFIFO() && !KERNEL.test(resolve(path));
    return { bytes: found.isFile() ? found.size : undefined, data: piecesOf(file, signal, awaitsWriter) };
  } catch (error) {
    throw signal.aborted ? error : new Misuse(`The file${shownPath(path)} cannot be read: ${reasonOf(error)}`);
  }
}

/** Reads a source to its end. */
export async function bytesFrom(path: string | undefined, what: string, signal: AbortSignal): Promise<Uint8Array> {
  const { data } = await source(path, what, signal);
  return await abortable(wholeOf(data), signal);
}

async function wholeOf(data: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of data) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Waits for `work`, but rejects at once when `signal` aborts: standard input may never deliver anything. */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => {}); // the wait for it may have ended
  signal.throwIfAborted();
  return await new Promise<T>((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    work.then(resolve, reject);
  });
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}

/**
 * Returns the path for a message, after a space; "" unless it is a plain path. Anything else may be other text that was
 * passed in its place, such as a password.
 */
function shownPath(path: string): string {
  const isPlain = path.split("/").every((name) => /^[\w.~-]{0,40}$/.test(name) && !name.startsWith("eyJ"));
  return isPlain && (/\.[a-z]{1,6}$/.test(path) || /^(\.{0,2}|~)\//.test(path)) ? ` ${path}` : "";
}

/** Returns Node's message without the path, which may be other text that was passed in its place. */
export function reasonOf(error: unknown): string {
  const { message, code = "it failed" } = error as NodeJS.ErrnoException;
  return /^[A-Z0-9]+: [^,']+/.exec(message)?.[0] ?? code;
}
