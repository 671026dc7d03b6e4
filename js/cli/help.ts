// The texts of `pgz-edge help` and `pgz-edge help <command>`, with the exit codes below them.
import { firstWord } from "../util/sql-reader.ts";
import { COMMON_HELP } from "./arguments.ts";
import type { Command } from "./command.ts";
import { commands } from "./commands.ts";
import { Misuse, nearest } from "./misuse.ts";

/** The exit codes, as docs/cli.md lists them. */
const EXIT_HELP = `Exit codes: 0 done; 1 refused by the server or the driver; 2 not connected; 64 wrong usage;
  130 Ctrl-C (143 SIGTERM, 129 SIGHUP); 141 the reader left (| head).`;

export async function overview(): Promise<string> {
  const names = Object.keys(commands);
  const width = Math.max(...names.map((name) => name.length), "help".length);
  const all = await Promise.all(names.map(async (name) => [name, (await commands[name]!()).summary] as const));
  const lines = [...all, ["help", "says what a command does and takes: pgz-edge help query"] as const];
  return [
    "pgz-edge: PostgreSQL on the command line.",
    "",
    "Usage: pgz-edge <command> [value …] [--option …]",
    "",
    ...lines.map(([name, summary]) => `  ${name.padEnd(width)}  ${summary}`),
    "",
    COMMON_HELP,
    "  --version          show the version",
    "",
    EXIT_HELP,
    "",
  ].join("\n");
}

export function helpOf({ usage }: Command): string {
  return [usage.trimEnd(), "", COMMON_HELP, "", EXIT_HELP, ""].join("\n");
}

export async function commandOf(name: string): Promise<Command> {
  if (/\s/.test(name) && STATEMENTS.has(firstWord(name)))
    throw new Misuse(`SQL comes after a command: pgz-edge ${firstWord(name) === "copy" ? "copy-out" : "query"} "…".`);
  // Only a plain word is shown: anything else may be a URL, which may contain a password.
  const shown = /^[a-z-]{1,20}$/i.test(name) ? ` "${name}"` : "";
  const names = Object.keys(commands);
  if (!Object.hasOwn(commands, name)) {
    const advice = (name.length <= 20 && nearest(name, names)) || `the commands are ${names.join(", ")}.`;
    throw new Misuse(`Unknown command${shown}: ${advice}`);
  }
  return await commands[name]!();
}

/** First words of SQL, by which a forgotten command is recognized. */
const STATEMENTS = new Set(
  (
    "select insert update delete merge with values table show explain create alter drop truncate copy call do set " +
    "grant revoke vacuum analyze refresh begin"
  ).split(" "),
);
