// `pgz-edge query`: one statement, whose rows go to standard output or a file as they come.
//
// Knows formats and limits by name. The values behind the SQL are texts, which the server takes for the types that its
// parameters have.
import type { Format, QueryEnd } from "../index.ts";
import { choice, count, size } from "./arguments.ts";
import type { Command, Task } from "./command.ts";
import { onNotice, withClient } from "./connect.ts";
import { destination, pour, textFrom, type Destination } from "./files.ts";
import { Misuse } from "./misuse.ts";
import { iterate } from "./streams.ts";
import { say } from "./terminal.ts";

const FORMATS = ["ndjson", "json", "csv", "columnar", "toon"] as const satisfies readonly Format[];

export const query: Command = {
  summary: "runs one statement and writes its rows",
  usage: `Usage: pgz-edge query "select … where id = $1" [value …] [--format ndjson] [-o file]
       pgz-edge query - < file.sql
       pgz-edge query --file file.sql [value …]

Runs one statement. Its rows go to standard output as they come; the command tag of a statement that changes something
goes to standard error. The values are those of $1, $2 …: text, which the server takes for the parameters' types. A
value that begins with a dash stands behind --.

  -f, --format WORD  ndjson (the default), json, csv, columnar or toon
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
  const format = choice(task, "format", FORMATS) ?? "ndjson";
  const maxRows = count(task, "max-rows");
  const maxBytes = size(task, "max-bytes");
  if (options["no-header"] && format !== "csv") throw new Misuse("--no-header is for --format csv.");
  const { text, values } = await statement(task);
  let end: QueryEnd | undefined;
  const streamOptions = {
    format,
    signal,
    // Of the call itself: csv and toon are cut only for a call that is told.
    observer: { onNotice, onQueryEnd: (event: QueryEnd) => void (end = event) },
    ...(maxRows !== undefined && { maxRows }),
    ...(maxBytes !== undefined && { maxBytes }),
    ...(options["truncate"] === true && { onLimit: "truncate" as const }),
    ...(options["no-header"] === true && { header: false }),
  };
  await withClient(task, {}, async (client) => {
    const to = await destination(options["output"] as string | undefined);
    await pour(async function* () {
      const rows = await client.stream(values.length ? { text, values } : text, streamOptions);
      yield* endingIn(iterate(rows), to);
    }, to);
  });
  const tag = tagOf(end);
  if (tag !== undefined) say(tag);
  if (end?.truncated) say(`Cut at ${end.truncated.value} ${end.truncated.limit}: there is more.`);
}

async function statement({ values, options }: Task): Promise<{ text: string; values: readonly string[] }> {
  const file = options["file"];
  if (typeof file === "string") return { text: await textFrom(file, "the SQL"), values };
  const [first, ...others] = values;
  if (first !== undefined && first !== "-") return { text: first, values: others };
  return { text: await textFrom(first, 'the SQL: pgz-edge query "select 1"'), values: others };
}

const NEWLINE = 10;

/** A prompt does not stand behind the last row. */
async function* endingIn(data: AsyncIterable<Uint8Array>, to: Destination): AsyncIterable<Uint8Array | string> {
  let last: number | undefined;
  for await (const piece of data) {
    last = piece.at(-1) ?? last;
    yield piece;
  }
  if (to.isTerminal && last !== undefined && last !== NEWLINE) yield "\n";
}

/** As psql shows it, unless there are rows, which speak for themselves. */
function tagOf(end: QueryEnd | undefined): string | undefined {
  if (!end?.command || (end.bytes > 0 && ROWS_ONLY.test(end.command))) return undefined;
  if (end.rows === null) return end.command;
  return end.command === "INSERT" ? `INSERT 0 ${end.rows}` : `${end.command} ${end.rows}`;
}

/** CREATE TABLE AS says SELECT too, and writes nothing. */
const ROWS_ONLY = /^(SELECT|SHOW|FETCH|EXPLAIN)\b/;
