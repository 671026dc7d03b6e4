// `pgz-edge query`: runs one statement and writes its rows to standard output or a file as they arrive.
//
// Knows formats and limits by name. The values after the SQL are sent as text, and the server reads them as the types
// of its parameters.
import process from "node:process";
import type { Format, QueryEnd } from "../index.ts";
import { choice, count, refuseUrls, size } from "./arguments.ts";
import type { Command, Task } from "./command.ts";
import { onNotice, withClient } from "./connect.ts";
import { arraysOf, withArrays } from "./csv-arrays.ts";
import { bytesFrom, destination, pour } from "./files.ts";
import { Misuse } from "./misuse.ts";
import { doubledIn } from "./names.ts";
import { SqlReader } from "../util/sql-reader.ts";
import { isWithoutEffect, reads } from "./statement.ts";
import { iterate } from "./streams.ts";
import { tableOf } from "./table.ts";
import { ReaderLeft, say } from "./terminal.ts";
import { utf8 } from "./utf8.ts";

const FORMATS = ["ndjson", "json", "csv", "columnar", "toon"] as const satisfies readonly Format[];
type Shown = Format | "table";

export const query: Command = {
  summary: "runs one statement and writes its rows",
  usage: `Usage: pgz-edge query 'select … where id = $1' [value …] [--format ndjson] [-o file]
       pgz-edge query - < file.sql
       pgz-edge query --file file.sql [value …]

Runs one statement. Its rows go to standard output as they come; the command tag of a statement that changes something
goes to standard error. The values are those of $1, $2 …: text, which the server takes for the parameters' types. Put
SQL with $1 in single quotes, because in double quotes the shell replaces it. A value that begins with a dash must come
after --.

  -f, --format WORD  table (the default on a terminal), ndjson (the default elsewhere), json, csv, columnar or toon
  --file FILE        read the SQL from this file
  --max-rows N       the most rows: a larger result fails with RESPONSE_TOO_LARGE
  --max-bytes SIZE   the most bytes of output, as 4096, 64kB or 10MB
  --truncate         end the output properly at a limit; standard error says so, and in ndjson, json and columnar a
                     mark "$truncated"
  --no-header        csv without its header
  -o, --output FILE  write there; the file is there whole or not at all`,
  options: {
    format: { type: "string", short: "f" },
    file: { type: "string" },
    "max-rows": { type: "string" },
    "max-bytes": { type: "string" },
    truncate: { type: "boolean" },
    "no-header": { type: "boolean" },
    output: { type: "string", short: "o" },
  },
  run,
};

async function run(task: Task): Promise<void> {
  const { options, signal } = task;
  const isToStandard = options["output"] === undefined || options["output"] === "-";
  const format: Shown =
    choice(task, "format", ["table", ...FORMATS], "--file reads the SQL of a file.") ??
    (isToStandard && process.stdout.isTTY === true ? "table" : "ndjson");
  const maxRows = count(task, "max-rows");
  const maxBytes = size(task, "max-bytes");
  if (options["no-header"] && format !== "csv") throw new Misuse("--no-header is for --format csv.");
  const { text, values } = await statement(task);
  let end: QueryEnd | undefined;
  let isAsked = false;
  const streamOptions = {
    format: format === "table" ? "columnar" : format,
    signal,
    // The observer is the call's own: csv and toon can be truncated only if the call has an onQueryEnd that reports it.
    observer: { onNotice, onQueryEnd: (event: QueryEnd) => void (end = event) },
    ...(maxRows !== undefined && { maxRows }),
    ...(maxBytes !== undefined && { maxBytes }),
    ...(options["truncate"] === true && { onLimit: "truncate" as const }),
    ...(options["no-header"] === true && { header: false }),
  };
  try {
    await withClient(task, {}, async (client) => {
      const to = await destination(options["output"] as string | undefined, signal);
      const arrays = format === "csv" ? await arraysOf(client, text) : undefined;
      await pour(async function* () {
        isAsked = true;
        const rows = iterate(await client.stream(values.length ? { text, values } : text, streamOptions));
        if (format === "table") return yield* tableOf(rows, isToStandard ? widthOfTerminal() : Infinity);
        const output = arrays ? withArrays(rows, arrays, options["no-header"] !== true) : tellingNames(rows, format);
        // A document of TOON has no newline at its end.
        yield* format === "toon" && !to.isTerminal ? output : ended(output);
      }, to);
    });
  } catch (error) {
    if (signal.aborted && !(signal.reason instanceof ReaderLeft)) say(isAsked ? STOPPED : NOTHING_SENT);
    const isDone = end?.command && !end.error;
    if (isAsked && !reads(text) && !isWithoutEffect(error)) say(isDone ? HAS_EFFECT : MAY_HAVE_EFFECT);
    throw error;
  }
  const tag = tagOf(end);
  if (tag !== undefined) say(tag);
  if (!end?.truncated) return;
  say(`Cut at ${end.truncated.value} ${end.truncated.limit}: there is more.`);
  if (!reads(text)) say(MAY_HAVE_EFFECT);
}

const STOPPED = "Interrupted: the server was told to stop.";
const NOTHING_SENT = "Interrupted: nothing was sent.";
/** Said if the statement has run to its end, but its output could not be written. */
const HAS_EFFECT = "The statement has taken effect.";
/** Said if the server was told to stop: it may have finished the statement before. */
const MAY_HAVE_EFFECT = "The statement may have taken effect: it is not known.";

const NO_PARAMETER =
  "The SQL has no $1 for the values after it. In double quotes the shell replaces $1: put the SQL in single quotes.";

function hasParameter(text: string): boolean {
  const reader = new SqlReader(text);
  while (reader.next() !== "end") if (reader.kind === "parameter") return true;
  return false;
}

async function statement({ values, options, signal }: Task): Promise<{ text: string; values: readonly string[] }> {
  const file = options["file"] as string | undefined;
  const first = file === undefined ? values[0] : undefined;
  const others = file === undefined ? values.slice(1) : values;
  refuseUrls(first, file, options["output"]);
  if (first !== undefined && first !== "-") {
    if (others.length && ONE_WORD.test(first)) throw new Misuse('Put the SQL in quotes: pgz-edge query "select 1".');
    if (others.length && !hasParameter(first)) throw new Misuse(NO_PARAMETER);
    return { text: notEmpty(first), values: others };
  }
  const bytes = await bytesFrom(file ?? first, 'the SQL: pgz-edge query "select 1"', signal);
  return { text: notEmpty(utf8(bytes, "The SQL")), values: others };
}

/**
 * SQL of one word. Such a statement takes no values, so further words mean that the quotes around the SQL are missing.
 */
const ONE_WORD = /^\s*\w+\s*$/;

/** Rejects empty SQL: a script whose variable is missing must not look as if its statement had run. */
function notEmpty(text: string): string {
  if (text.trim() === "") throw new Misuse("The SQL is empty.");
  if (/^\s*\\/.test(text))
    throw new Misuse(
      "\\d and other commands with a backslash are psql's. Here is SQL: the catalog has all that they show.",
    );
  return text;
}

/** A terminal may not know its width: then it is 80. Other output has no limit. */
const widthOfTerminal = () => (process.stdout.isTTY ? process.stdout.columns || 80 : Infinity);

/** Maximum number of characters of the first row that are searched for names. */
const LONGEST_FIRST = 1 << 20;

/** Passes the data on, and says which names a reader of the JSON objects will lose. */
async function* tellingNames(data: AsyncIterable<Uint8Array>, format: Format): AsyncIterable<Uint8Array> {
  const decoder = new TextDecoder();
  let first = "";
  let isOver = format !== "ndjson" && format !== "json";
  for await (const piece of data) {
    yield piece;
    if (isOver) continue;
    first += decoder.decode(piece, { stream: true });
    const doubled = doubledIn(first);
    if (doubled?.length)
      say(`Each row has two values named ${doubled.join(", ")}, and readers keep the last. Give one an alias.`);
    isOver = doubled !== undefined || first.length > LONGEST_FIRST;
  }
}

const NEWLINE = 10;

/** Ends the output with a newline, as a text ends: a prompt or the next command's output may follow. */
async function* ended(data: AsyncIterable<Uint8Array>): AsyncIterable<Uint8Array | string> {
  let last: number | undefined;
  for await (const piece of data) {
    last = piece.at(-1) ?? last;
    yield piece;
  }
  if (last !== undefined && last !== NEWLINE) yield "\n";
}

/** Returns the command tag as psql shows it; `undefined` if the statement only returns rows and has written some. */
function tagOf(end: QueryEnd | undefined): string | undefined {
  if (!end?.command || (end.bytes > 0 && ROWS_ONLY.test(end.command))) return undefined;
  if (end.rows === null) return end.command;
  return end.command === "INSERT" ? `INSERT 0 ${end.rows}` : `${end.command} ${end.rows}`;
}

/** Tags of statements that only return rows. CREATE TABLE AS has the tag SELECT too, but writes no bytes. */
const ROWS_ONLY = /^(SELECT|SHOW|FETCH|EXPLAIN)\b/;
