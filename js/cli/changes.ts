// `pgz-edge changes`: writes the changes of a publication's tables as NDJSON when they commit.
//
// Knows that written lines are acknowledged, because the reader of the pipe then has them. Must not know what is in a
// line.
import process from "node:process";
import { changes as changesOf, type Changes, type ChangesStats } from "../changes.ts";
import { sql, UsageError } from "../index.ts";
import { choice, refuseUrls } from "./arguments.ts";
import type { Command, Task } from "./command.ts";
import { withClient } from "./connect.ts";
import { Misuse } from "./misuse.ts";
import { bytesText, Progress, PROGRESS_HELP, PROGRESS_OPTIONS, wantsProgress } from "./progress.ts";
import { iterate } from "./streams.ts";
import { say, write } from "./terminal.ts";

export const changes: Command = {
  summary: "writes the changes of tables as they commit, by logical replication",
  usage: `Usage: pgz-edge changes --slot NAME --publication NAME[,NAME …] [--create-slot permanent] [--snapshot]

Writes a line of NDJSON per change to standard output, until Ctrl-C. A commit is acknowledged when its lines have been
written, so the next run continues after it. The command reconnects by itself. A slot that is not read fills the
server's disk: pgz-edge doctor lists the slots.

  --slot NAME         the replication slot
  --publication NAME  the publication, or several with commas
  --tables NAME       in its place, tables, with commas: a publication is made for them and dropped at the end. Needs
                      --create-slot temporary, and a role that owns them
  --create-slot WORD  make the slot: permanent (one that exists is used) or temporary (it ends with the command)
  --snapshot          first all rows of the tables, as of the slot's beginning; needs --create-slot and a new slot
  --trust-tables      let a --snapshot of tables with row filters run functions in their indexes, whoever wrote them
  --from POSITION     begin after this position, such as 0/16B3748
  --messages          messages of pg_logical_emit_message too
  --peek              acknowledge nothing: the next run begins where this one has begun
${PROGRESS_HELP}`,
  options: {
    slot: { type: "string" },
    publication: { type: "string" },
    tables: { type: "string" },
    "create-slot": { type: "string" },
    snapshot: { type: "boolean" },
    "trust-tables": { type: "boolean" },
    from: { type: "string" },
    messages: { type: "boolean" },
    peek: { type: "boolean" },
    ...PROGRESS_OPTIONS,
  },
  run,
  inFlags,
};

/** The driver's options as its texts write them, and the flags in their place. */
const FLAGS: readonly (readonly [RegExp, string])[] = [
  [/createSlot: "(\w+)"/g, "--create-slot $1"],
  [/"createSlot"/g, "--create-slot"],
  [/"?trustTables"?(?:: true)?/g, "--trust-tables"],
  [/snapshot: true/g, "--snapshot"],
  [/(?<=\b(?:option|without|give|leave|as|of|another) )"(from|publication|slot|snapshot|tables)"/gi, "--$1"],
  [/, or one of fullPosition/, ""],
  [/Option --/g, "--"],
];

function inFlags(text: string): string {
  return FLAGS.reduce((said, [option, flag]) => said.replace(option, flag), text);
}

async function run(task: Task): Promise<void> {
  const { values, options, signal } = task;
  const { slot, publication, tables } = options as Partial<Record<string, string>>;
  refuseUrls(...values, slot, publication, tables);
  if (values.length) throw new Misuse("Pass the slot and the publication as --slot and --publication.");
  if (slot === undefined || (publication ?? tables) === undefined)
    throw new Misuse("Pass --slot, and --publication or --tables: what is read, and of which tables.");
  const publications = namesIn("publication", publication);
  const names = namesIn("tables", tables);
  const createSlot = choice(task, "create-slot", ["permanent", "temporary"] as const);
  await withClient(task, {}, async (client) => {
    const feed = orMisuse(() =>
      changesOf(client, {
        slot,
        publication: publications,
        tables: names?.map((name) => sql.identifier(...name.split("."))),
        createSlot,
        snapshot: options["snapshot"] === true,
        trustTables: options["trust-tables"] === true,
        from: options["from"] as string | undefined,
        messages: options["messages"] === true,
        acknowledge: options["peek"] === true ? "manual" : "commit",
        signal,
      }),
    );
    const isShown = wantsProgress(options, process.stdout.isTTY !== true);
    const progress = isShown ? new Progress({ unit: "change", more: () => behind(feed) }) : undefined;
    const timer = setInterval(sayWhyItWaits(feed), LOOK_INTERVAL);
    let isComplete = options["snapshot"] !== true;
    let hasLines = false;
    try {
      await writeAll(feed, progress, (state) => {
        hasLines = true;
        isComplete ||= !["snapshot", "over"].includes(state);
      });
    } finally {
      clearInterval(timer);
      progress?.end(progress.rows);
      const { acknowledged } = feed.stats();
      if (hasLines && isComplete && acknowledged !== "0/0") say(`Acknowledged up to ${acknowledged}.`);
      if (!isComplete && signal?.aborted)
        say("The snapshot broke off: discard the rows. Its slot was dropped, if the server could be reached.");
    }
  });
}

/** The names in the value of `--publication` or `--tables`. */
function namesIn(flag: string, list: string | undefined): string[] | undefined {
  const names = list?.split(",").map((name) => name.trim());
  if (names?.includes("")) throw new Misuse(`--${flag} needs a name before and after each comma.`);
  return names;
}

async function writeAll(
  feed: Changes,
  progress: Progress | undefined,
  onState: (state: ChangesStats["state"]) => void,
): Promise<void> {
  for await (const lines of iterate(feed.stream())) {
    onState(feed.stats().state);
    await write(lines);
    if (!progress) continue;
    progress.bytes += lines.length;
    progress.rows = (progress.rows ?? 0) + count(lines, NEWLINE);
  }
}

const NEWLINE = 10;

function count(bytes: Uint8Array, wanted: number): number {
  let found = 0;
  for (const byte of bytes) if (byte === wanted) found++;
  return found;
}

/** Milliseconds. */
const LOOK_INTERVAL = 500;

/** Returns a function that says once why nothing comes: another reader has the slot, or the server is away. */
function sayWhyItWaits(feed: Changes): () => void {
  let said: string | undefined;
  return () => {
    const { reason } = feed.stats();
    if (reason !== undefined && reason !== said) say(`Waiting: ${inFlags(reason).replace(/\.$/, "")}.`);
    said = reason;
  };
}

function behind(feed: Changes): string {
  const { state, lagBytes } = feed.stats();
  return state === "streaming" ? `${bytesText(lagBytes)} behind` : state;
}

/**
 * Runs `make` and turns a usage error into Misuse: options that the driver refuses are a mistake on the command line.
 */
function orMisuse<T>(make: () => T): T {
  try {
    return make();
  } catch (error) {
    throw error instanceof UsageError ? new Misuse(error.message) : error;
  }
}
