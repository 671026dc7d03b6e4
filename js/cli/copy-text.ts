// The COPY statement that a command's first value means: a table, a query, or a COPY as it stands.
//
// Knows how these begin. The text becomes SQL as it is, since whoever wrote it may run any.
import { Misuse } from "./misuse.ts";
import { BEGIN } from "./statement.ts";

export const COPY_FORMATS = ["csv", "text", "binary"] as const;
export type CopyFormat = (typeof COPY_FORMATS)[number];

export interface CopyText {
  readonly text: string;
  /** The table, if it is one. */
  readonly table?: string;
  /** Unknown of a COPY that was passed as it stands. */
  readonly format?: CopyFormat;
}

const COPY = new RegExp(`${BEGIN}copy\\b`, "i");
const QUERY = new RegExp(
  `${BEGIN}(?:select|with|values|table|insert|update|delete|merge)\\b(?=[^]*\\S)|${BEGIN}\\(`,
  "i",
);
const NAME = String.raw`(?:[\p{L}_][\p{L}\p{N}_$]*|"(?:[^"]|"")+")`;
const TABLE = new RegExp(String.raw`^\s*(${NAME}(?:\.${NAME}){0,2})\s*(\([^]*\))?\s*;?\s*$`, "u");

export function copyOutText(given: string, format: CopyFormat, header: boolean): CopyText {
  if (COPY.test(given)) return { text: given };
  const how = `to stdout ${optionsOf(format, header)}`;
  const table = TABLE.exec(given);
  if (table) return { text: `copy ${table[1]}${table[2] ?? ""} ${how}`, table: table[1]!, format };
  if (!QUERY.test(given)) throw new Misuse("Pass a table, a query, or a COPY … TO STDOUT.");
  // A comment at its end must not swallow the rest.
  return { text: `copy (${given.replace(/[\s;]+$/, "")}\n) ${how}`, format };
}

/** `columns`: those that the data name, where the table's own are not listed. */
export function copyInText(
  given: string,
  format: CopyFormat,
  header: boolean,
  columns?: () => Promise<readonly string[]>,
): Promise<CopyText> | CopyText {
  if (COPY.test(given)) return { text: given };
  const table = TABLE.exec(given);
  if (!table) throw new Misuse("Pass a table, with its columns if you like, or a COPY … FROM STDIN.");
  const [, name = "", list] = table;
  const how = `from stdin ${optionsOf(format, header)}`;
  const withList = (columnList: string): CopyText => ({
    text: `copy ${name}${columnList} ${how}`,
    table: name,
    format,
  });
  if (list !== undefined || columns === undefined) return withList(list ?? "");
  return columns().then((names) => withList(` (${names.map((one) => `"${one.replaceAll('"', '""')}"`).join(", ")})`));
}

function optionsOf(format: CopyFormat, header: boolean): string {
  return header ? `(format ${format}, header)` : `(format ${format})`;
}
