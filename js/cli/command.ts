// What a command is to main.ts, which finds, runs and ends it.
//
// Types only. Must not know any command.
import type { ParseArgsConfig } from "node:util";

export type ParseArgsOptionsConfig = NonNullable<ParseArgsConfig["options"]>;

/** What stands on the command line behind `--name`. */
export type OptionValues = Readonly<Record<string, string | boolean | undefined>>;

/** What one run of a command gets. */
export interface Task {
  /** What stands behind the command, in its order. */
  readonly values: readonly string[];
  readonly options: OptionValues;
  /** Aborts with Ctrl-C, SIGTERM and SIGHUP, and when nobody reads standard output any more. */
  readonly signal: AbortSignal;
}

export interface Command {
  /** One line for `pgz-edge help`. */
  readonly summary: string;
  /** What `pgz-edge help <command>` says in front of the common options. */
  readonly usage: string;
  /** Beside the common ones (arguments.ts). */
  readonly options: ParseArgsOptionsConfig;
  /** Does it. The exit code; none is 0. What it throws is shown and decides the code (failure.ts). */
  run(task: Task): Promise<number | void>;
}
