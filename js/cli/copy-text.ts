// Makes the COPY statement from a command's first value: a table, a query, or a complete COPY statement.
//
// Knows how these begin. The value becomes part of the SQL unescaped, because its author may run any SQL.
import { firstWord, SqlReader, withoutEnd } from "../util/sql-reader.ts";
import { Misuse } from "./misuse.ts";

export const COPY_FORMATS = ["csv", "text", "binary"] as const;
type CopyFormat = (typeof COPY_FORMATS)[number];

export interface CopyText {
  readonly text: string;
  /** The table's name, if the value was a table. */
  readonly table?: string;
  /** Unknown if the value was a COPY statement. */
  readonly format?: CopyFormat;
}

const QUERIES = new Set(["select", "with", "values", "table", "insert", "update", "delete", "merge"]);

const isCopy = (given: string) => firstWord(given) === "copy";

/** Whether the text is a query. The first word of a query alone is not one: a table of that name needs quotes. */
function isQuery(given: string): boolean {
  const reader = new SqlReader(given);
  const isWord = reader.next() === "word" && QUERIES.has(reader.name);
  return reader.text === "(" || (isWord && reader.next() !== "end");
}

/**
 * Returns a table's name and its list of columns, as they are written: `app."Users" (id, name);`. `undefined` for
 * anything else.
 */
function tableIn(given: string): { readonly name: string; readonly columns: string } | undefined {
  const reader = new SqlReader(given);
  const isName = () => reader.next() === "word" || reader.kind === "name";
  if (!isName()) return undefined;
  const { start } = reader;
  let { end } = reader;
  for (let names = 1; reader.next() === "symbol" && reader.text === "."; end = reader.end)
    if (++names > 3 || !isName()) return undefined;
  const name = given.slice(start, end);
  const columns = reader.text === "(" ? listIn(given, reader) : "";
  if (reader.kind === "semicolon") reader.next();
  return columns !== undefined && reader.kind === "end" ? { name, columns } : undefined;
}

/** Returns the text from the reader's parenthesis to the closing one, which must be the last token of the statement. */
function listIn(given: string, reader: SqlReader): string | undefined {
  const { start } = reader;
  let { end, text } = reader;
  for (let kind = reader.next(); kind !== "end" && kind !== "semicolon"; kind = reader.next()) ({ end, text } = reader);
  return text === ")" ? given.slice(start, end) : undefined;
}

export function copyOutText(given: string, format: CopyFormat, header: boolean): CopyText {
  if (isCopy(given)) return { text: given };
  const how = `to stdout ${optionsOf(format, header)}`;
  const table = tableIn(given);
  if (table) return { text: `copy ${table.name} ${table.columns} ${how}`, table: table.name, format };
  if (!isQuery(given)) throw new Misuse("Pass a table, a query, or a COPY … TO STDOUT.");
  // The newline keeps a comment at the end of the query from swallowing the rest.
  return { text: `copy (${withoutEnd(given)}\n) ${how}`, format };
}

/** `columns` reads the names in the data. It is called only if the value lists no columns. */
export function copyInText(
  given: string,
  format: CopyFormat,
  header: boolean,
  columns?: () => Promise<readonly string[]>,
): Promise<CopyText> | CopyText {
  if (isCopy(given)) return { text: given };
  const table = tableIn(given);
  if (!table) throw new Misuse("Pass a table, with its columns if you like, or a COPY … FROM STDIN.");
  const { name, columns: list } = table;
  const how = `from stdin ${optionsOf(format, header)}`;
  const withList = (columnList: string): CopyText => ({
    text: `copy ${name} ${columnList} ${how}`,
    table: name,
    format,
  });
  if (list || columns === undefined) return withList(list);
  return columns().then((names) => withList(`(${names.map((one) => `"${one.replaceAll('"', '""')}"`).join(", ")})`));
}

function optionsOf(format: CopyFormat, header: boolean): string {
  return header ? `(format ${format}, header)` : `(format ${format})`;
}
