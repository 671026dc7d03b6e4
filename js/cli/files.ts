// Where data come from and go to: files, standard input and output.
//
// Knows that a file is there whole or not at all: it is written beside its place and takes its name at the end. What is
// no plain file has a name of its own and keeps it (pipes.ts). Must not know what is in it.
import { randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { open, readlink, realpath, rename, stat, unlink } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import process from "node:process";
import { Misuse } from "./misuse.ts";
import { openPipe, piecesOf, writePipe } from "./pipes.ts";
import { write } from "./terminal.ts";

/** What takes a command's data. */
export interface Destination {
  /** Whether a person sees it as it is written. */
  readonly isTerminal: boolean;
  write(data: Uint8Array | string): Promise<void>;
  /** All is written. */
  finish(): Promise<void>;
  /** It failed: nothing is left of it where it would look complete. */
  discard(): Promise<void>;
}

/** A file by its path; standard output without one, or with `-`. `signal` ends the wait for a pipe's reader. */
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

/** Names of what is open, and of devices: what they lead to is no file that could be replaced. */
const KERNEL = /^\/(?:dev\/(?!shm\/)|proc\/)/;
const STANDARD_OUTPUT = /^\/(?:dev\/stdout|(?:dev|proc\/self)\/fd\/1)$/;

/** Where links lead, to a file that need not be there yet: a rename would replace the link. */
async function placeOf(path: string): Promise<string> {
  for (let place = resolve(path); ;) {
    const next = KERNEL.test(place) ? undefined : await readlink(place).catch(() => undefined);
    if (next === undefined) return place;
    place = resolve(await realpath(dirname(place)), next);
  }
}

async function inPlace(place: string, signal: AbortSignal): Promise<Destination> {
  const pipe = await openPipe(place, constants.O_WRONLY | constants.O_TRUNC, signal);
  return {
    isTerminal: false,
    write: (data) => writePipe(pipe, data, signal),
    finish: () => pipe.close(),
    discard: () => pipe.close().catch(() => {}),
  };
}

/** `old` is replaced at the end. */
async function beside(place: string, old: Stats | undefined): Promise<Destination> {
  // Random, because processes in two containers may have the same number; "wx", because another user of the folder may
  // have put a link there.
  const part = `${place}.${randomBytes(6).toString("base64url")}.part`;
  const mode = old && old.mode & 0o7777;
  const file = await open(part, "wx", mode); // never more than that: it may be for its owner's eyes only
  if (old) await file.chown(old.uid, old.gid).catch(() => {}); // only root may
  if (mode !== undefined) await file.chmod(mode).catch(() => {}); // without what the umask takes away
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

/** Sends `data` there. Whatever goes wrong on either side leaves no file behind. */
export async function pour(data: () => AsyncIterable<Uint8Array | string>, to: Destination): Promise<void> {
  try {
    for await (const piece of data()) await to.write(piece);
    await to.finish();
  } catch (error) {
    await to.discard();
    throw error;
  }
}

/** What is read, and how much that will be where it is known. */
export interface Source {
  readonly bytes: number | undefined;
  readonly data: AsyncIterable<Uint8Array>;
}

/** A file by its path; standard input without one, or with `-`. `signal` ends the wait for a pipe's data. */
export async function source(path: string | undefined, what: string, signal: AbortSignal): Promise<Source> {
  if (path === undefined || path === "-") {
    if (process.stdin.isTTY && path === undefined) throw new Misuse(`Pass ${what}, or send it to standard input.`);
    return { bytes: undefined, data: process.stdin };
  }
  try {
    const file = await openPipe(path, constants.O_RDONLY, signal);
    const found = await file.stat();
    if (found.isDirectory()) throw new Error("EISDIR: it is a folder");
    // What has a number is open at its other end, or was.
    const awaitsWriter = found.isFIFO() && !KERNEL.test(resolve(path));
    return { bytes: found.isFile() ? found.size : undefined, data: piecesOf(file, signal, awaitsWriter) };
  } catch (error) {
    throw signal.aborted ? error : new Misuse(`The file${shownPath(path)} cannot be read: ${reasonOf(error)}`);
  }
}

/** The whole of it. */
export async function bytesFrom(path: string | undefined, what: string, signal: AbortSignal): Promise<Uint8Array> {
  const { data } = await source(path, what, signal);
  return await abortable(wholeOf(data), signal);
}

async function wholeOf(data: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  for await (const piece of data) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Standard input that never comes is left at once. */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => {}); // of a wait that was left
  signal.throwIfAborted();
  return await new Promise<T>((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true });
    work.then(resolve, reject);
  });
}

function absent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== "ENOENT") throw error;
}

/** What is no plain path is not repeated: it may be whatever was passed in its place, such as a password. */
function shownPath(path: string): string {
  const isPlain = path.split("/").every((name) => /^[\w.~-]{0,40}$/.test(name) && !name.startsWith("eyJ"));
  return isPlain && (/\.[a-z]{1,6}$/.test(path) || /^(\.{0,2}|~)\//.test(path)) ? ` ${path}` : "";
}

/** Node's text without the path, which may hold whatever was passed in its place. */
export function reasonOf(error: unknown): string {
  const { message, code = "it failed" } = error as NodeJS.ErrnoException;
  return /^[A-Z0-9]+: [^,']+/.exec(message)?.[0] ?? code;
}
