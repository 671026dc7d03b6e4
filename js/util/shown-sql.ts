// SQL as an error shows it: shortened, without passwords, and with the place that the server found wrong.
//
//   LINE 2: select nme from users
//                  ^
//
// Knows which statements set passwords, and how the server counts characters. Must not know errors.

/** Characters of a statement that are shown. */
const LONGEST = 1_000;
/** Characters of a line, on each side of the place in it. */
const AROUND = 60;

const SPACE = String.raw`(?:\s|--[^\n]*(?:\n|$)|\/\*[^]*?\*\/)+`;
const ROLE = new RegExp(String.raw`\b(?:create|alter)${SPACE}(?:role|user|group)\b`, "i");

/**
 * Roles and user mappings, and any other text that has a literal beside the word: `OPTIONS (password '…')`,
 * `CONNECTION 'password=…'`, `SET password = '…'`. Rather too many than one too few.
 */
export function mayHoldPassword(text: string): boolean {
  return ROLE.test(text) || (/passw(?:or)?d/i.test(text) && /'|\$[^\d]/.test(text));
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
