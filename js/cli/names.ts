// Finds names that occur more than once in a JSON object: readers keep only the last of their values.
//
// Knows JSON's tokens. Must not know where the text comes from.

/** A string that is cut off by the end of the text is a token too, without its closing quote. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"?|[{}[\]:]/gs;

/**
 * Returns the names that occur more than once in the first object of the text; `undefined` if the text ends before the
 * object does.
 */
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

/** Whether a string token has its closing quote. A quote after a backslash does not close it. */
function isWhole(token: string): boolean {
  return /^"[^"\\]*(?:\\.[^"\\]*)*"$/s.test(token);
}
