// Names that come twice in an object of JSON: readers keep the last of the two.
//
// Knows JSON's tokens. Must not know where the text comes from.

/** A string that does not end in this text is a token too, without its last quote. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"?|[{}[\]:]/gs;

/** The names that the first object in this text has more than once; `undefined`: it does not end in it. */
export function doubledIn(text: string): readonly string[] | undefined {
  const counts = new Map<string, number>();
  let depth = 0;
  let before = "";
  for (const [token] of text.matchAll(TOKEN)) {
    if (token.startsWith('"') && !isWhole(token)) return undefined;
    if (token === "{" || (token === "[" && depth)) depth++;
    else if (token === "}" || (token === "]" && depth)) depth--;
    else if (token === ":" && depth === 1) counts.set(before, (counts.get(before) ?? 0) + 1);
    if (token === "}" && !depth)
      return [...counts].filter(([, count]) => count > 1).map(([name]) => JSON.parse(name) as string);
    before = token;
  }
  return undefined;
}

/** Whether a string has its last quote, which no backslash stands in front of. */
function isWhole(token: string): boolean {
  return /^"[^"\\]*(?:\\.[^"\\]*)*"$/s.test(token);
}
