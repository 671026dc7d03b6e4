// What to write instead, where an error and the SQL show the mistake.
//
// Knows mistakes that users of every driver make with parameters. Must not know how a statement runs. No advice repeats
// what stands in the SQL.

import { firstWord, SqlReader } from "./sql-reader.ts";

/** What the server said, and where; or that values and placeholders are not as many (`INVALID_QUERY`). */
interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly position?: string | undefined;
}

/** What takes parameters, besides CREATE TABLE AS and CREATE VIEW. */
const TAKES_PARAMETERS = new Set([
  "",
  "select",
  "insert",
  "update",
  "delete",
  "merge",
  "values",
  "with",
  "table",
  "explain",
  "declare",
]);

const NO_PARAMETERS = "This kind of statement takes no parameters: only SELECT, INSERT, UPDATE and the like do.";

/** A sentence for the user; `undefined` where the error says all that is known. `values`: how many were given. */
export function adviceFor({ code, message, position }: Refusal, text: string, values: number): string | undefined {
  if (code === "INVALID_QUERY")
    return hasQuotedParameter(text, values)
      ? "Within quotes $1 is text: write $1 without them, and put words around it with ||, as in '%' || $1 || '%'."
      : undefined;
  if (code === "42P02") return NO_PARAMETERS;
  if (code === "42P18") return "Say the parameter's type, as in $1::text.";
  if (code !== "42601") return undefined;
  if (/multiple commands/.test(message))
    return "Several statements in one text need simple(), or batch([…]) for values.";
  if (values && isAtQuestionMark(text, position)) return "Placeholders are $1, $2 …, or ${value} in sql`…`: ? is none.";
  if (!/"\$\d+"/.test(message)) return undefined;
  const before = wordBefore(text, Number(position));
  if (before === "in") return "A list is one parameter: write = any($1) with an array, or in ${sql.in(list)}.";
  if (TYPED.has(before)) return "Put the type behind it: $1::interval.";
  const first = firstWord(text);
  if (first === "set") return "SET takes no parameters: select set_config('name', $1, false).";
  if (!TAKES_PARAMETERS.has(first) && !(first === "create" && makesRelation(text))) return NO_PARAMETERS;
  return "A parameter stands for a value: names of tables and columns are sql.identifier(name), other SQL is sql`…`.";
}

const TYPED = new Set(["interval", "date", "time", "timestamp", "timestamptz"]);

/** A placeholder where it is none: within quotes, but not in the body of a function. */
function hasQuotedParameter(text: string, values: number): boolean {
  const reader = new SqlReader(text);
  while (reader.next() !== "end") {
    if (reader.kind !== "text" || reader.text.startsWith("$")) continue;
    for (const [, number] of reader.text.matchAll(/\$(\d+)/g)) if (Number(number) <= values) return true;
  }
  return false;
}

/**
 * The server stumbles right behind a `?` that is outside of quotes and comments, and there is no `$1`, with which it
 * would be an operator of jsonb. Without a position it is at the end.
 */
function isAtQuestionMark(text: string, position: string | undefined): boolean {
  const end = position === undefined ? text.length : [...text].slice(0, Number(position) - 1).join("").length;
  const reader = new SqlReader(text);
  let before = "";
  while (reader.next() !== "end") {
    if (reader.kind === "parameter") return false;
    if (reader.start < end) before = reader.kind === "symbol" ? reader.text : "";
  }
  return before === "?";
}

/** The word in front of a place, which is counted in characters from 1. */
function wordBefore(text: string, position: number): string {
  const end = [...text].slice(0, position - 1).join("").length;
  const reader = new SqlReader(text);
  let before = "";
  while (reader.next() !== "end" && reader.start < end) before = reader.kind === "word" ? reader.name : "";
  return before;
}

/** CREATE TABLE or VIEW, with whatever words in between. */
function makesRelation(text: string): boolean {
  const reader = new SqlReader(text);
  while (reader.next() === "word" || reader.kind === "semicolon")
    if (reader.name === "table" || reader.name === "view") return true;
  return false;
}
