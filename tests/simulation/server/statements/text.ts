// Reads SQL only as far as the catalogue needs: where statements and items end, and one form for texts that mean the
// same.
//
// Knows strings, names in quotes, comments and parentheses. Must not know what words mean. This reader is the model's
// own, because the driver's reader of SQL may be wrong.

/** What a separator cannot be in: a string, a name in quotes, a text between `$$`, a comment. */
const WHOLE = /'(?:[^']|'')*'|"(?:[^"]|"")+"|\$\$[^]*?\$\$|\/\*[^]*?\*\//y;
const PIECE = new RegExp(`${WHOLE.source}|(?:[^'"$/]|/(?!\\*)|\\$(?!\\$))+|[^]`, "g");

/** A text that may be valid, and that the catalogue does not have. */
export class Unknown {}

/** Splits outside of quotes, comments and parentheses. */
export function split(text: string, separator: string): string[] {
  const parts = [""];
  let depth = 0;
  for (let at = 0; at < text.length;) {
    if (depth === 0 && text.startsWith(separator, at)) {
      parts.push("");
      at += separator.length;
      continue;
    }
    WHOLE.lastIndex = at;
    const piece = WHOLE.exec(text)?.[0] ?? text[at]!;
    if (piece === "(" || piece === "[") depth++;
    if (piece === ")" || piece === "]") depth--;
    parts.push(parts.pop()! + piece);
    at += piece.length;
  }
  return parts;
}

/** Splits in two. The second part is `undefined` if there is no separator. */
export function halves(text: string, separator: string): [string, string | undefined] {
  const [first, ...others] = split(text, separator);
  return [first!, others.length ? others.join(separator) : undefined];
}

/**
 * Returns the text in the form of the catalogue: small letters, no comments, no `pg_catalog.`, no quotes around plain
 * names, and no space but one between words.
 */
export function plain(text: string): string {
  const pieces = (text.match(PIECE) ?? []).map((piece) => {
    if (piece.startsWith("/*")) return " ";
    if (piece[0] === '"') return /^"[a-z_]\w*"$/.test(piece) ? piece.slice(1, -1) : piece;
    if (piece.length > 1 && (piece[0] === "'" || piece.startsWith("$$"))) return piece;
    const spaced = piece.toLowerCase().replaceAll("pg_catalog.", "").replace(/\s+/g, " ");
    return spaced
      .replace(/ ?(::|[,=<>+/]| - ) ?/g, (_, symbol: string) => symbol.trim())
      .replace(/(?<=\() | (?=\))/g, "");
  });
  return pieces.join("").trim();
}

/** Returns the content of a string. Only `E'…'` has escapes. */
export function unquoted(string: string): string {
  const inner = string.slice(string.indexOf("'") + 1, -1);
  const isEscaped = /^e/i.test(string);
  return inner.replace(isEscaped ? /''|\\([^])/g : /''/g, (_, escaped?: string) => (isEscaped && escaped) || "'");
}

/** Returns a name without its schema. */
export const bare = (name: string): string => name.slice(name.lastIndexOf(".") + 1);
