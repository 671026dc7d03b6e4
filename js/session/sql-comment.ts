// Comments after a statement: those of option `sqlComment`, for readers of the server's logs, in the form of
// sqlcommenter; and one that makes a text unique, for poolers.
//
// Knows how a comment is written so that nothing in it can end it. Must not know statements.
import type { Config } from "../config/options.ts";

/** Maximum number of characters of a comment. A longer one is left out. */
const LONGEST = 1_000;

/**
 * Returns the text that must follow a statement. It begins a new line, because the statement may end with a comment
 * that reaches to the end of its line. If the user's function fails, it is empty: telemetry must not break a call.
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

/**
 * Makes the text unique. Since version 1.21, PgBouncer gives all clients that send the same text one statement of the
 * server. Its literals were read when another client parsed it: 'today' of another day, a timestamptz of another
 * TimeZone (docs/decisions/0020). Not every pooler is noticed, and some do the same for statements without a name
 * (PgDog's `extended_anonymous`).
 */
export function madeUnique(text: string): string {
  return `${text}\n/* ${Math.random().toString(36).slice(2)} */`;
}
