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

const NUMBERS = "Placeholders are numbered from $1 to $65535.";
const isNumber = (number: number) => number > 0 && number <= 0xffff;

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
  switch (code) {
    case "INVALID_QUERY":
      return ofCount(message, text, values);
    case "42P02":
      return isNumber(Number(/\$(\d+)/.exec(message)?.[1])) ? NO_PARAMETERS : NUMBERS;
    case "42P01":
      return hasDotInName(text, message, position)
        ? 'A dot is part of a quoted name: for a table of a schema write sql.identifier("schema", "table").'
        : undefined;
    case "42P18":
      return ofUntyped(message, text);
    case "22007":
    case "22P02":
      return ofInput(message, text, values, position);
    case "42883":
      return ofAtName(text, values);
    case "42703":
      return ofForeign(text, values, position) ?? ofColumn(message, text);
    case "42601":
      return ofSyntax(message, text, values, position);
  }
  return undefined;
}

/** Advice for another number of values than of placeholders. */
function ofCount(message: string, text: string, values: readonly unknown[]): string | undefined {
  const quoted = ofQuoted(text, (number) => number <= values.length);
  if (quoted) return quoted;
  if (/ 0 parameters/.test(message) && hasParameter(text)) return NO_PARAMETERS;
  return ofAtName(text, values);
}

/** Advice for a parameter of which the server cannot tell the type. */
function ofUntyped(message: string, text: string): string {
  const number = Number(/\$(\d+)/.exec(message)?.[1]);
  if (!number || hasParameter(text, number)) return "Say the parameter's type, as in $1::text.";
  const quoted = ofQuoted(text, (one) => one === number);
  return quoted ?? `The SQL has no $${number}: number the placeholders from $1 on, without a gap.`;
}

/** Advice for a value, or a constant at `position`, that the type cannot be read from. */
function ofInput(
  message: string,
  text: string,
  values: readonly unknown[],
  position: string | undefined,
): string | undefined {
  if (position !== undefined) return ofQuoted(text, (number) => number <= values.length, indexAt(text, position));
  if (message.startsWith("malformed array literal")) return ofArray(message, values);
  if (/\bjsonb?\b/.test(message) && values.some((value) => typeof value === "string"))
    return "A string is sent as JSON text: sql.json(value) sends it as a JSON string.";
  return undefined;
}

/** The message ends with the text that was sent. Where inner arrays differ in length, the server's DETAIL says so. */
function ofArray(message: string, values: readonly unknown[]): string | undefined {
  const isSent = values.some((value) => isScalar(value) && message.endsWith(`"${String(value)}"`));
  return isSent ? "This parameter takes an array." : undefined;
}

/** Advice for `@name`, which the server reads as the operator @ and a column. */
function ofAtName(text: string, values: readonly unknown[]): string | undefined {
  return values.length && hasAtName(text) ? notPlaceholder("@") : undefined;
}

function ofForeign(text: string, values: readonly unknown[], position: string | undefined): string | undefined {
  const foreign = values.length ? foreignPlaceholder(text, position) : undefined;
  return foreign && notPlaceholder(foreign);
}

const notPlaceholder = (symbol: string) => `${PLACEHOLDER}${symbol} is not a placeholder.`;

/** Advice for a column that an INSERT or UPDATE writes. Only of such a column the server names the relation. */
function ofColumn(message: string, text: string): string | undefined {
  if (!/^column "[a-z]+[A-Z]\w*" of relation /.test(message)) return undefined;
  if (!/^(insert|update|merge|with)$/.test(firstWord(text))) return undefined;
  return 'Columns are named by the members of a row: sql.snakeCase(row) writes "created_at" for createdAt.';
}

function ofSyntax(
  message: string,
  text: string,
  values: readonly unknown[],
  position: string | undefined,
): string | undefined {
  if (hasDoubleValues(text))
    return "sql.values writes the columns and VALUES itself, as in insert into t ${sql.values(rows)}.";
  const foreign = ofForeign(text, values, position);
  if (foreign) return foreign;
  if (/multiple commands/.test(message))
    return "Several statements in one text need simple(), or batch([…]) for values.";
  const [, number] = /"\$(\d+)"/.exec(message) ?? [];
  if (!number) return undefined;
  if (!isNumber(Number(number))) return NUMBERS;
  return ofPlace(text, values[Number(number) - 1], position);
}

/** Advice for a parameter where the grammar has none. */
function ofPlace(text: string, value: unknown, position: string | undefined): string {
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

/** Whether the text has this placeholder, or any, outside of quotes. */
function hasParameter(text: string, number?: number): boolean {
  const reader = new SqlReader(text);
  while (reader.next() !== "end")
    if (reader.kind === "parameter" && (number === undefined || Number(reader.text.slice(1)) === number)) return true;
  return false;
}

/**
 * Advice for a placeholder within quotes, where it is text, but not in the body of a function. `start`: only in the
 * quotes that begin there.
 */
function ofQuoted(text: string, isMeant: (number: number) => boolean, start?: number): string | undefined {
  const reader = new SqlReader(text);
  for (let before = ""; reader.next() !== "end"; before = reader.name) {
    if (reader.kind !== "text" || reader.text.startsWith("$") || (start ?? reader.start) !== reader.start) continue;
    const numbers = [...reader.text.matchAll(/\$(\d+)/g)].map(([, number]) => Number(number));
    if (!numbers.some(isMeant)) continue;
    if (before === "interval" || /^\s*::\s*interval\b/i.test(text.slice(reader.end)))
      return "Within quotes $1 is text: write $1 * interval '1 day', or $1::interval for a text such as '1 day'.";
    return "Within quotes $1 is text: write $1 without them, and put words around it with ||, as in '%' || $1 || '%'.";
  }
  return undefined;
}

/** With the character before it. */
const AT_NAME = /^[^-+*/<>=~!@#%^&|`?]?@[a-z_]$/i;

/** Whether the text has `@name` and no `$1`. After another character of an operator, @ is part of the operator. */
function hasAtName(text: string): boolean {
  const reader = new SqlReader(text);
  let found = false;
  while (reader.next() !== "end") {
    if (reader.kind === "parameter") return false;
    found ||= reader.text === "@" && AT_NAME.test(text.slice(Math.max(reader.start - 1, 0), reader.end + 1));
  }
  return found;
}

/**
 * Whether columns or VALUES are written before `sql.values`, which writes them too. Each token becomes one letter:
 * `insert into t (a, b) ("a", "b") values (` is `xxx(x,x)(n,n)v(`.
 */
function hasDoubleValues(text: string): boolean {
  const reader = new SqlReader(text);
  let tokens = "";
  while (reader.next() !== "end") {
    if (reader.kind === "word") tokens += reader.name === "values" ? "v" : "x";
    else if (reader.kind === "name") tokens += "n";
    else tokens += reader.kind === "symbol" ? reader.text : "x";
  }
  return /(?:v\(?|[v)]\(n(?:,n)*\))v/.test(tokens);
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
