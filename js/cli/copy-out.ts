// `pgz-edge copy-out`: writes a table, a query or a COPY to standard output or a file.
//
// Knows the progress line. Rows are counted in the data if their format shows them; the final count is the server's.
import type { Client, QueryEnd } from "../index.ts";
import { choice, refuseUrls } from "./arguments.ts";
import type { Command, Task } from "./command.ts";
import { withClient } from "./connect.ts";
import { COPY_FORMATS, copyOutText, type CopyText } from "./copy-text.ts";
import { RowCount } from "./csv.ts";
import { destination, pour } from "./files.ts";
import { Misuse } from "./misuse.ts";
import { Progress, PROGRESS_HELP, PROGRESS_OPTIONS, wantsProgress } from "./progress.ts";
import { iterate } from "./streams.ts";
import { say } from "./terminal.ts";
import { EQ } from "../util/operators.ts";

export const copyOut: Command = {
  summary: "writes a table, or what a query returns, by COPY",
  usage: `Usage: pgz-edge copy-out <table | query | COPY … TO STDOUT> [--format csv] [-o file]

Writes the rows of a table or a query to standard output or a file, as fast as the server can: by COPY. A COPY statement
runs unchanged. Rows, bytes, rate and the time left, where it can be known, are shown on standard error.

  -f, --format WORD  csv (the default), text or binary
  --no-header        csv without its header
  -o, --output FILE  write there; the file is there whole or not at all
${PROGRESS_HELP}`,
  options: {
    format: { type: "string", short: "f" },
    "no-header": { type: "boolean" },
    output: { type: "string", short: "o" },
    ...PROGRESS_OPTIONS,
  },
  run,
};

async function run(task: Task): Promise<void> {
  const { values, options, signal } = task;
  refuseUrls(...values, options["output"]);
  const [given, ...others] = values;
  if (given === undefined || others.length) throw new Misuse("Pass one table, one query in quotes, or one COPY.");
  const format = choice(task, "format", COPY_FORMATS) ?? "csv";
  const hasHeader = format === "csv" && options["no-header"] !== true;
  const copy = copyOutText(given, format, hasHeader);
  let end: QueryEnd | undefined;
  const more = { observer: { onQueryEnd: (event: QueryEnd) => void (end = event) } };
  let progress: Progress | undefined;
  try {
    await withClient(task, more, async (client) => {
      const to = await destination(options["output"] as string | undefined, signal);
      await pour(async function* () {
        if (wantsProgress(options, !to.isTerminal))
          progress = new Progress({ aboutRows: await rowsAbout(client, copy) });
        const data = iterate(await client.copyTo(copy.text, { signal }));
        yield* progress ? counted(data, copy, hasHeader, progress) : data;
      }, to);
    });
  } catch (error) {
    progress?.end();
    throw error;
  }
  if (progress) progress.end(end?.rows ?? 0);
  else say(`COPY ${end?.rows ?? 0}`);
}

async function* counted(
  data: AsyncIterable<Uint8Array>,
  { format }: CopyText,
  hasHeader: boolean,
  progress: Progress,
): AsyncIterable<Uint8Array> {
  const count = format === "csv" || format === "text" ? new RowCount({ hasQuotes: format === "csv" }) : undefined;
  for await (const piece of data) {
    progress.bytes += piece.length;
    count?.add(piece);
    if (count) progress.rows = Math.max(0, count.rows - (hasHeader ? 1 : 0));
    yield piece;
  }
}

export const ROWS_ABOUT = `select reltuples::pg_catalog.float8 as rows from pg_catalog.pg_class
  where oid ${EQ} pg_catalog.to_regclass($1)`;

/**
 * The number of rows by the statistics of the last ANALYZE or VACUUM; `undefined` for a query, for a view, and without
 * statistics.
 */
async function rowsAbout(client: Client, { table }: CopyText): Promise<number | undefined> {
  if (table === undefined) return undefined;
  const { rows } = await client
    .query<{ rows: number }>({ text: ROWS_ABOUT, values: [table] }, { timeout: 5_000 })
    .catch(() => ({ rows: [] }));
  const [found] = rows;
  return found && found.rows > 0 ? found.rows : undefined;
}
