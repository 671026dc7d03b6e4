#!/usr/bin/env node
// The entry point of the command line: finds the command, runs it, shows its error, and sets the exit code.
//
// Knows signals and the process. Must not know servers. The first Ctrl-C aborts the command, which cancels its
// statement on the server; a second Ctrl-C ends the process at once.
import process from "node:process";
import { readWords } from "./arguments.ts";
import type { Command } from "./command.ts";
import { commands } from "./commands.ts";
import { EXIT, exitCodeOf, textOf } from "./failure.ts";
import { commandOf, helpOf, overview } from "./help.ts";
import { Misuse } from "./misuse.ts";
import { flush, ReaderLeft, say, stopWriting, watchReader, write } from "./terminal.ts";
import { version } from "./version.ts";

/** Exit codes by signal, as in shells: 128 plus the signal's number. */
const SIGNALS = { SIGINT: 130, SIGTERM: 143, SIGHUP: 129 } as const;

class Interrupted extends Error {
  constructor(readonly signal: keyof typeof SIGNALS) {
    super(`${signal} came.`);
  }
}

const ending = new AbortController();
/** The command that runs. */
let running: Command | undefined;

async function main([name, ...words]: readonly string[]): Promise<number | void> {
  if (name === undefined) return write(await overview());
  if (name === "--version" || name === "-V") return write(`${version()}\n`);
  if (name === "--help" || name === "-h") return write(await overview());
  if (name === "help") return write(words[0] === undefined ? await overview() : helpOf(await commandOf(words[0])));
  if (name.startsWith("-")) throw new Misuse("The command comes first, its options after it.");
  const command = (running = await commandOf(name));
  const { values, options } = readWords(words, command.options);
  if (options["help"]) return write(helpOf(command));
  return command.run({ values, options, signal: ending.signal });
}

/** Reports the failure on standard error and returns the exit code. */
function failed(error: unknown): number {
  const reason: unknown = ending.signal.aborted ? ending.signal.reason : error;
  if (reason instanceof Interrupted) return SIGNALS[reason.signal];
  if (reason instanceof ReaderLeft) {
    if (reason.cause === undefined) return EXIT.readerLeft;
    say(`ERROR:  Standard output cannot be written: ${(reason.cause as Error).message}`);
    return EXIT.refused;
  }
  say(textOf(error, process.argv.includes("--debug"), running?.inFlags));
  if (error instanceof Misuse) say(`Try "pgz-edge help${hasCommand() ? ` ${process.argv[2]}` : ""}".`);
  return exitCodeOf(error);
}

/** Whether the first word is a command. Any other word is not repeated, because it may be a URL with a password. */
const hasCommand = () => Object.hasOwn(commands, process.argv[2] ?? "");

/**
 * Milliseconds within which a second signal counts as the first one. The terminal sends a signal to all processes, and
 * a launcher (npx, bunx) then passes it on again.
 */
const SAME = 300;

function watchSignals(): void {
  let first: number | undefined;
  for (const signal of Object.keys(SIGNALS) as (keyof typeof SIGNALS)[])
    process.on(signal, () => {
      if (first !== undefined && performance.now() - first < SAME) return;
      if (ending.signal.aborted) process.exit(SIGNALS[signal]);
      first = performance.now();
      end(new Interrupted(signal));
    });
}

function end(reason: Error): void {
  stopWriting(reason);
  ending.abort(reason);
}

watchSignals();
watchReader(end);
const code = await main(process.argv.slice(2)).catch(failed);
await flush();
// Exit even if something keeps the process alive, such as an open standard input: it is no longer needed.
process.exit(code ?? EXIT.done);
