// SQL as an error shows it: shortened, without passwords, and with the place that the server found wrong.
//
//   LINE 2: select nme from users
//                  ^
//
// Knows which statements set passwords, and how the server counts characters. Must not know errors.
import { SqlReader } from "./sql-reader.ts";

/** Characters of a statement that are shown. */
const LONGEST = 1_000;
/** Characters of a line, on each side of the place in it. */
const AROUND = 60;
/** Bodies in bodies, such as that of a function in DO, that are read. A text that goes deeper is hidden. */
const DEEPEST = 4;

const DEFINES = new Set(["create", "alter"]);
/** What has a password of its own, or options that may be one. */
const WITH_PASSWORD = new Set(["role", "user", "group", "server", "subscription"]);
/** A string behind one of these is SQL, as one in dollar quotes may be. */
const BEFORE_SQL = new Set(["do", "as", "execute"]);

/**
 * CREATE and ALTER of roles, user mappings, servers and subscriptions, and any other text that has a literal beside the
 * word password, or a connection string in one. The bodies of DO and of functions are read too. Rather too many than one
 * too few.
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

/** Where the server was when it failed, which repeats statements between double quotes. */
export function shownContext(context: string): string {
  return mayHoldPassword(context.replaceAll('"', " ")) ? HIDDEN : context;
}

/** The statement, shortened; without its text where that may hold a password. */
export function shownSql(text: string): string {
  if (mayHoldPassword(text)) return HIDDEN;
  return text.length <= LONGEST ? text : `${cut(text, LONGEST)}… (${text.length} characters)`;
}

const HIDDEN = "(hidden: it may hold a password)";

/** Not through a surrogate pair. */
function cut(text: string, length: number): string {
  return text.slice(0, length).replace(/[\ud800-\udbff]$/, "");
}

/**
 * The line of the place and a mark below it, as psql shows them; `undefined` where the text does not have that place,
 * or may hold a password. `position` counts characters from 1, not UTF-16's units.
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
