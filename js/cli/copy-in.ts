// `pgz-edge copy-in`: stores a file or standard input in a table by COPY.
//
// Knows the progress line, and what is stored if the command ends early: nothing, unless the end of the data was sent.
import { existsSync, statSync } from "node:fs";
import { PostgresError } from "../index.ts";
import { choice, refuseUrls } from "./arguments.ts";
import type { Command, Task } from "./command.ts";
import { withClient } from "./connect.ts";
import { COPY_FORMATS, copyInText } from "./copy-text.ts";
import { readHeader } from "./csv.ts";
import { abortable, source } from "./files.ts";
import { Misuse } from "./misuse.ts";
import { Progress, PROGRESS_HELP, PROGRESS_OPTIONS, wantsProgress } from "./progress.ts";
import { say } from "./terminal.ts";

const OTHER_SEPARATOR =
  "The first line has no comma. Pass a COPY statement for data with another separator: " +
  `pgz-edge copy-in "copy t from stdin (format csv, header, delimiter ';')".`;

export const copyIn: Command = {
  summary: "stores a file, or standard input, in a table by COPY",
  usage: `Usage: pgz-edge copy-in <table | table(column, …) | COPY … FROM STDIN> [file] [--format csv]

Stores all of the data or nothing. The first line of csv names the columns that the values are for, in any order; with
columns after the table's name it must name these. A COPY statement runs unchanged. Bytes, rate and, of a file, the time
left are shown on standard error.

  -f, --format WORD  csv (the default), text or binary
  --no-header        the first line of csv is a row
${PROGRESS_HELP}`,
  options: {
    format: { type: "string", short: "f" },
    "no-header": { type: "boolean" },
    ...PROGRESS_OPTIONS,
  },
  run,
};

/** False for a text that cannot be a path, such as a long COPY statement. */
const isFile = (path: string) => existsSync(path) && statSync(path).isFile();

async function run(task: Task): Promise<void> {
  const { values, options, signal } = task;
  refuseUrls(...values);
  const [given, file, ...others] = values;
  if (given === undefined || others.length) throw new Misuse("Pass one table, and one file or none.");
  if (file !== undefined && file !== "-" && isFile(given) && !existsSync(file))
    throw new Misuse("The first value is a file, the second one is none: pass the table, and then the file.");
  const format = choice(task, "format", COPY_FORMATS) ?? "csv";
  const hasHeader = format === "csv" && options["no-header"] !== true;
  const isShown = wantsProgress(options, true);
  const { bytes, data: all } = await source(file, "a file", signal);
  let data = all;
  let isSent = false;
  let progress: Progress | undefined;

  /** Reads the column names from the first line. */
  async function namesOf(): Promise<readonly string[]> {
    const headed = await abortable(readHeader(all), signal);
    data = headed.data;
    const [only = "", ...more] = headed.names;
    if (!more.length && /[;\t|]/.test(only)) throw new Misuse(OTHER_SEPARATOR);
    return headed.names;
  }

  async function* sent(): AsyncIterable<Uint8Array> {
    yield* data;
    isSent = true;
  }

  try {
    const { text } = await copyInText(given, format, hasHeader ? namesOf : undefined);
    if (isShown) progress = new Progress({ bytes });
    const onProgress = (so: { readonly bytes: number }) => void (progress!.bytes = so.bytes);
    const { rowCount } = await withClient(task, {}, (client) =>
      client.copyFrom(text, sent(), { signal, ...(isShown && { onProgress }) }),
    );
    if (progress) progress.end(rowCount);
    else say(`COPY ${rowCount ?? ""}`.trimEnd());
  } catch (error) {
    progress?.end();
    if (error instanceof Misuse) throw error;
    if (signal.aborted) say("Interrupted.");
    // After the end of the data was sent, only the server knows the outcome, unless it has reported an error.
    const isCertain = !isSent || error instanceof PostgresError;
    say(isCertain ? "Nothing was stored." : "All data were sent; it is not known whether they are stored.");
    throw error;
  }
}
