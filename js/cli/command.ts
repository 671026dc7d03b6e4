// The interface between main.ts and a command: main.ts finds the command, runs it and ends it.
//
// Types only. Must not know any command.
import type { ParseArgsConfig } from "node:util";

export type ParseArgsOptionsConfig = NonNullable<ParseArgsConfig["options"]>;

/** The values of the options on the command line, by name without `--`. */
export type OptionValues = Readonly<Record<string, string | boolean | undefined>>;

/** The input of one run of a command. */
export interface Task {
  /** The words after the command that are no options, in order. */
  readonly values: readonly string[];
  readonly options: OptionValues;
  /**
   * Aborts on Ctrl-C, SIGTERM and SIGHUP, and when standard output can no longer be written: its reader is gone, or the
   * disk is full.
   */
  readonly signal: AbortSignal;
}

/** Returns a text of the driver with the command's flags in place of the names of the driver's options. */
export type InFlags = (text: string) => string;

export interface Command {
  /** One line for `pgz-edge help`. */
  readonly summary: string;
  /** The text of `pgz-edge help <command>` above the common options. */
  readonly usage: string;
  /** The command's own options, besides the common ones (arguments.ts). */
  readonly options: ParseArgsOptionsConfig;
  /**
   * Runs the command and resolves with the exit code, or with nothing for 0. An error that it throws is shown and
   * decides the exit code (failure.ts).
   */
  run(task: Task): Promise<number | void>;
  /** For a command whose options are those of the driver's call. */
  readonly inFlags?: InFlags;
}
