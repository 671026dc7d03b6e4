// SQL as an error shows it: shortened, without passwords, and with the position of the server's error.
//
//   LINE 2: select nme from users
//                  ^
//
// Knows which statements set passwords, and how the server counts characters. Must not know errors.
import { SqlReader } from "./sql-reader.ts";

/** Maximum characters of a statement that are shown. */
const LONGEST = 1_000;
/** Maximum characters of a line on each side of the position. */
const AROUND = 60;
/** Maximum depth of bodies that are read, such as a function's body in DO. A text with deeper bodies is hidden. */
const DEEPEST = 4;

const DEFINES = new Set(["create", "alter"]);
/** Objects with a password of their own, or with options that may be a password. */
const WITH_PASSWORD = new Set(["role", "user", "group", "server", "subscription"]);
/** A string after one of these words is SQL, as a string in dollar quotes may be. */
const BEFORE_SQL = new Set(["do", "as", "execute"]);

/**
 * Whether the text is CREATE or ALTER of a role, user mapping, server or subscription, or any other text that has a
 * literal and the word password, or a connection string in a literal. The bodies of DO and of functions are read too.
 * When in doubt, the answer is yes.
 */
export function mayHoldPassword(text: string): boolean {
  return new Search().finds(text);
}

class Search {
  #hasLiteral = false;
  #namesPassword = false;

  finds(text: string, depth = 0): boolean {
    if (depth > DEEPEST) return true;
    const reader = new SqlReader(text);
    let before = "";
    while (reader.next() !== "end") {
      if (reader.kind === "text" ? this.#isSecret(reader, before, depth) : isDefinition(before, reader.name))
        return true;
      this.#hasLiteral ||= reader.kind === "text";
      this.#namesPassword ||= /passw(?:or)?d/i.test(reader.text);
      if (this.#hasLiteral && this.#namesPassword) return true;
      before = reader.name;
    }
    return false;
  }

  #isSecret({ text, content }: SqlReader, before: string, depth: number): boolean {
    if (before === "connection" || /:\/\/[^\s/:]*:[^\s/]*@/.test(content)) return true;
    const isSql = text.startsWith("$") || BEFORE_SQL.has(before);
    return isSql && this.finds(content, depth + 1);
  }
}

function isDefinition(before: string, name: string): boolean {
  return DEFINES.has(before) && WITH_PASSWORD.has(name);
}

/** The `where` field of an error, in which the server quotes statements in double quotes. */
export function shownContext(context: string): string {
  return mayHoldPassword(context.replaceAll('"', " ")) ? HIDDEN : context;
}

/** The statement, shortened. Hidden if it may contain a password. */
export function shownSql(text: string): string {
  if (mayHoldPassword(text)) return HIDDEN;
  return text.length <= LONGEST ? text : `${cut(text, LONGEST)}… (${text.length} characters)`;
}

/** The statement within a message: on one line, and shorter still. */
export function shownInLine(text: string): string {
  const line = shownSql(text).replace(/\s+/g, " ").trim();
  return line.length <= LONGEST_IN_LINE ? line : `${cut(line, LONGEST_IN_LINE)}…`;
}

const LONGEST_IN_LINE = 80;

const HIDDEN = "(hidden: it may hold a password)";

/** Cuts a text, but not through a surrogate pair. */
function cut(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}

/**
 * The line with the position and a mark below it, as psql shows them. `undefined` if the text does not have that
 * position, or may contain a password. `position` counts characters from 1, not UTF-16 units.
 */
export function excerptOf(text: string, position: string): string | undefined {
  const number = Number(position);
  if (!(number >= 1) || mayHoldPassword(text)) return undefined;
  const characters = [...text.slice(0, 2 * number)];
  if (characters.length < number - 1) return undefined;
  const before = characters.slice(0, number - 1).join("");
  const lines = before.split("\n");
  const column = lines.at(-1)!;
  const rest = text.slice(before.length).split("\n", 1)[0]!;
  const left = column.length > AROUND ? `…${column.slice(-AROUND).replace(/^[\udc00-\udfff]/, "")}` : column;
  const right = rest.length > AROUND ? `${cut(rest, AROUND)}…` : rest;
  const label = `LINE ${lines.length}: `;
  const plain = (piece: string) => piece.replace(/[\t\r]/g, " ");
  return `${label}${plain(left + right)}\n${" ".repeat(label.length + [...left].length)}^`;
}
