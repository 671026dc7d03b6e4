// Where data come from and go to: files, standard input and output.
//
// Knows that a file is there whole or not at all: it is written beside its place and takes its name at the end. Must
// not know what is in it.
import { createReadStream } from "node:fs";
import { open, rename, stat, unlink } from "node:fs/promises";
import process from "node:process";
import { Misuse } from "./misuse.ts";
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

/** A file by its path; standard output without one, or with `-`. */
export async function destination(path: string | undefined): Promise<Destination> {
  if (path === undefined || path === "-") return standardOutput;
  // A device or a pipe has a name, and keeps it.
  const isPlain = await stat(path).then(
    (found) => found.isFile(),
    () => true,
  );
  const written = isPlain ? `${path}.${process.pid}.part` : path;
  const file = await open(written, "w").catch((error: Error) => {
    throw new Misuse(`The file cannot be written: ${error.message}`);
  });
  return {
    isTerminal: false,
    async write(data) {
      await file.writeFile(data);
    },
    async finish() {
      await file.close();
      if (isPlain) await rename(written, path);
    },
    async discard() {
      await file.close().catch(() => {});
      if (isPlain) await unlink(written).catch(() => {});
    },
  };
}

const standardOutput: Destination = {
  isTerminal: process.stdout.isTTY === true,
  write,
  async finish() {},
  async discard() {},
};

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

/** A file by its path; standard input without one, or with `-`. */
export async function source(path: string | undefined, what: string): Promise<Source> {
  if (path !== undefined && path !== "-") {
    const found = await stat(path).catch((error: Error) => {
      throw new Misuse(`The file cannot be read: ${error.message}`);
    });
    if (found.isDirectory()) throw new Misuse("The file cannot be read: it is a folder.");
    return { bytes: found.isFile() ? found.size : undefined, data: createReadStream(path) };
  }
  if (process.stdin.isTTY && path === undefined) throw new Misuse(`Pass ${what}, or send it to standard input.`);
  return { bytes: undefined, data: process.stdin };
}

/** The whole of it as text. */
export async function textFrom(path: string | undefined, what: string): Promise<string> {
  const { data } = await source(path, what);
  const pieces: Uint8Array[] = [];
  for await (const piece of data) pieces.push(piece);
  return new TextDecoder().decode(Buffer.concat(pieces));
}
