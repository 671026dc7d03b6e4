// Says what to write instead, if an error and the SQL show the mistake.
//
// Knows mistakes that users of every driver make. Must not know how a statement runs. No advice repeats text of the
// SQL.

import { firstWord, SqlReader } from "./sql-reader.ts";

/** The server's error, with its position; or `INVALID_QUERY`, if the numbers of values and placeholders differ. */
interface Refusal {
  readonly code: string;
  readonly message: string;
  readonly position?: string | undefined;
}

/** First words of statements that take parameters. CREATE TABLE AS and CREATE VIEW do too. */
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

/** What stands in the place of `$1` in other drivers: `?`, `:name`, `%s` and `@p1`. */
const PLACEHOLDER = "Placeholders are $1, $2 …, or ${value} in sql`…`: ";

/** What the server says of a relation, a column, a type, a function or a schema that is not there. */
const MISSING = /^(42P01|42703|42704|42883|3F000)$/;

/**
 * Returns a sentence for the user, or `undefined` if there is nothing to add to the error. `others`: the SQL of all
 * statements of a batch.
 */
export function adviceFor(
  { code, message, position }: Refusal,
  text: string,
  values: readonly unknown[],
  others: readonly string[] = [],
): string | undefined {
  if (MISSING.test(code) && others.some((other) => other !== text && /^(create|alter)$/.test(firstWord(other))))
    return "A batch describes its statements before it runs: create things in an earlier call, or use simple().";
  if (code === "INVALID_QUERY")
    return hasQuotedParameter(text, values.length)
      ? "Within quotes $1 is text: write $1 without them, and put words around it with ||, as in '%' || $1 || '%'."
      : undefined;
  if (code === "42P02") return NO_PARAMETERS;
  if (code === "42P01" && hasDotInName(text, message, position))
    return 'A dot is part of a quoted name: for a table of a schema write sql.identifier("schema", "table").';
  if (code === "42P18") return "Say the parameter's type, as in $1::text.";
  if (code === "22P02" && message.startsWith("malformed array literal") && values.some(isScalar))
    return "This parameter takes an array.";
  if (code === "22P02" && /\bjsonb?\b/.test(message) && values.some((value) => typeof value === "string"))
    return "A string is sent as JSON text: sql.json(value) sends it as a JSON string.";
  if (code !== "42601" && code !== "42703") return undefined;
  const foreign = values.length ? foreignPlaceholder(text, position) : undefined;
  if (foreign) return `${PLACEHOLDER}${foreign} is not a placeholder.`;
  if (code === "42703") return undefined;
  if (/multiple commands/.test(message))
    return "Several statements in one text need simple(), or batch([…]) for values.";
  const [, number] = /"\$(\d+)"/.exec(message) ?? [];
  if (!number) return undefined;
  const value = values[Number(number) - 1];
  const before = position === undefined ? "" : wordBefore(text, position);
  if (before === "in") return "A list is one parameter: write = any($1) with an array, or in ${sql.in(list)}.";
  if (TYPED.has(before)) return "Put the type after it: $1::interval.";
  const first = firstWord(text);
  if (first === "set") return "SET takes no parameters: select set_config('name', $1, false).";
  if (!TAKES_PARAMETERS.has(first) && !(first === "create" && makesRelation(text))) return NO_PARAMETERS;
  if (value === null || typeof value === "boolean" || value === "")
    return "For SQL that may be absent write ${condition ? sql`…` : sql``}, without &&.";
  const row: unknown = Array.isArray(value) ? value[0] : value;
  if (Object.prototype.toString.call(row) === "[object Object]")
    return "Rows of an INSERT are ${sql.values(rows)}, and the columns of an UPDATE ${sql.set(row)}.";
  return "A parameter stands for a value: names of tables and columns are sql.identifier(name), other SQL is sql`…`.";
}

const isScalar = (value: unknown) => value !== null && typeof value !== "object";

const TYPED = new Set(["interval", "date", "time", "timestamp", "timestamptz"]);

/** Whether a placeholder is within quotes, where it is text, but not in the body of a function. */
function hasQuotedParameter(text: string, values: number): boolean {
  const reader = new SqlReader(text);
  while (reader.next() !== "end") {
    if (reader.kind !== "text" || reader.text.startsWith("$")) continue;
    for (const [, number] of reader.text.matchAll(/\$(\d+)/g)) if (Number(number) <= values) return true;
  }
  return false;
}

/**
 * Whether the relation that the message says does not exist is one quoted name with a dot in it. Without a position it
 * may be any: COPY gives none.
 */
function hasDotInName(text: string, message: string, position: string | undefined): boolean {
  const start = position && indexAt(text, position);
  const reader = new SqlReader(text);
  while (reader.next() !== "end") {
    const isMeant = start === undefined || start === reader.start;
    if (isMeant && reader.kind === "name" && reader.name.includes(".") && message.includes(`"${reader.name}"`))
      return true;
  }
  return false;
}

/**
 * Returns the `?`, `:`, `%` or `@` at which the server failed, or right after which, outside of quotes and comments.
 * With a `$1` in the text it would be an operator. Without a position the server failed at the end.
 */
function foreignPlaceholder(text: string, position: string | undefined): string | undefined {
  const end = position === undefined ? text.length : indexAt(text, position);
  const reader = new SqlReader(text);
  let found: string | undefined;
  while (reader.next() !== "end") {
    if (reader.kind === "parameter") return undefined;
    const symbol = reader.kind === "symbol" && /^[?:%@]/.test(reader.text) ? reader.text[0] : undefined;
    if (reader.start < end || (reader.start === end && symbol)) found = symbol;
  }
  return found;
}

/** The index of a server's position, which is counted in characters from 1. */
const indexAt = (text: string, position: string): number => [...text].slice(0, Number(position) - 1).join("").length;

/** Returns the word before a position. */
function wordBefore(text: string, position: string): string {
  const end = indexAt(text, position);
  const reader = new SqlReader(text);
  let before = "";
  while (reader.next() !== "end" && reader.start < end) before = reader.kind === "word" ? reader.name : "";
  return before;
}

/** Whether the text is CREATE TABLE or CREATE VIEW, with any words in between. */
function makesRelation(text: string): boolean {
  const reader = new SqlReader(text);
  while (reader.next() === "word" || reader.kind === "semicolon")
    if (reader.name === "table" || reader.name === "view") return true;
  return false;
}
