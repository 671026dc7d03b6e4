// Option `sqlComment`: what is said behind a statement for who reads the server's logs, in the form of sqlcommenter.
//
// Knows how a comment is written so that nothing in it can end it. Must not know statements.
import type { Config } from "../config/options.ts";

/** Characters of a comment. A longer one is left out. */
const LONGEST = 1_000;

/**
 * What is to stand behind the text of a statement: a line of its own, since the text may end with a comment that goes to
 * the end of the line. Whatever the function does wrong, nothing does: telemetry must not break a call.
 */
export function commentOf({ sqlComment }: Pick<Config, "sqlComment">): string {
  if (!sqlComment) return "";
  try {
    const comment = written(sqlComment() ?? {});
    return comment && comment.length <= LONGEST ? `\n/*${comment}*/` : "";
  } catch {
    return "";
  }
}

function written(facts: Readonly<Record<string, string | undefined>>): string {
  return Object.entries(facts)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${encoded(name)}='${encoded(value!)}'`)
    .sort()
    .join(",");
}

/** Without a slash no comment ends or begins, and without a quote no value ends. */
function encoded(text: string): string {
  return encodeURIComponent(text).replaceAll("'", "%27");
}
