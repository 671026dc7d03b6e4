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

/** A list of columns, as it is written, and the names in it. Both are empty if there is none. */
interface ColumnList {
  readonly list: string;
  readonly names: readonly string[];
}

/**
 * Returns a table's name as it is written, and its list of columns: `app."Users" (id, name);`. `undefined` for
 * anything else.
 */
function tableIn(given: string): (ColumnList & { readonly name: string }) | undefined {
  const reader = new SqlReader(given);
  const isName = () => reader.next() === "word" || reader.kind === "name";
  if (!isName()) return undefined;
  const { start } = reader;
  let { end } = reader;
  for (let names = 1; reader.next() === "symbol" && reader.text === "."; end = reader.end)
    if (++names > 3 || !isName()) return undefined;
  const name = given.slice(start, end);
  const columns = reader.text === "(" ? listIn(given, reader) : { list: "", names: [] };
  if (reader.kind === "semicolon") reader.next();
  return columns !== undefined && reader.kind === "end" ? { name, ...columns } : undefined;
}

/** Returns what is from the reader's parenthesis to the closing one, which must be the last token of the statement. */
function listIn(given: string, reader: SqlReader): ColumnList | undefined {
  const { start } = reader;
  const names: string[] = [];
  let { end, text } = reader;
  for (let kind = reader.next(); kind !== "end" && kind !== "semicolon"; kind = reader.next()) {
    ({ end, text } = reader);
    if (kind === "word" || kind === "name") names.push(reader.name);
  }
  return text === ")" ? { list: given.slice(start, end), names } : undefined;
}

export function copyOutText(given: string, format: CopyFormat, header: boolean): CopyText {
  if (isCopy(given)) return { text: given };
  const how = `to stdout ${optionsOf(format, header)}`;
  const table = tableIn(given);
  if (table) return { text: `copy ${table.name} ${table.list} ${how}`, table: table.name, format };
  if (!isQuery(given)) throw new Misuse("Pass a table, a query, or a COPY … TO STDOUT.");
  // The newline keeps a comment at the end of the query from swallowing the rest.
  return { text: `copy (${withoutEnd(given)}\n) ${how}`, format };
}

/** `readHeader` reads the names in the data, if their first line has some. It is not called for a COPY statement. */
export async function copyInText(
  given: string,
  format: CopyFormat,
  readHeader?: () => Promise<readonly string[]>,
): Promise<CopyText> {
  if (isCopy(given)) return { text: given };
  const table = tableIn(given);
  if (!table) throw new Misuse("Pass a table, with its columns if you like, or a COPY … FROM STDIN.");
  const { name, names } = table;
  const header = await readHeader?.();
  if (header && names.length) refuseOtherNames(header, names);
  const list = table.list || (header ? `(${header.map((one) => `"${one.replaceAll('"', '""')}"`).join(", ")})` : "");
  return { text: `copy ${name} ${list} from stdin ${optionsOf(format, header !== undefined)}`, table: name, format };
}

/**
 * Values go by the list. So a first line that says something else is either a row, which would be lost, or the header
 * of other columns, whose values would be stored under wrong names.
 */
function refuseOtherNames(header: readonly string[], list: readonly string[]): void {
  if (areSame(header, list)) return;
  throw new Misuse(
    `The first line of the data is not "${list.join(",")}": pass --no-header if it is a row, or leave the columns out ` +
      `if it names them.`,
  );
}

/** In any case of letters, unless that is what distinguishes two columns. */
function areSame(header: readonly string[], list: readonly string[]): boolean {
  const folded = (names: readonly string[]) => names.map((name) => name.trim().toLowerCase());
  const fold = new Set(folded(list)).size === list.length ? folded : (names: readonly string[]) => names;
  return fold(header).join("\0") === fold(list).join("\0");
}

function optionsOf(format: CopyFormat, header: boolean): string {
  return header ? `(format ${format}, header)` : `(format ${format})`;
}
