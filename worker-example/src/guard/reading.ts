// Decides which statements may pass: those that begin with a word that can only read.
//
// This does not try to understand SQL. A statement that begins with such a word and still writes (`with x as (delete
// …)`) is refused by the server: it runs in a read-only transaction, under a role without grants to write. This list
// keeps out the words that could end that transaction (`commit`, `do`, `call`) or change the session after it.

const READS = new Set(["select", "with", "values", "table", "show", "explain"]);

/** PostgreSQL's white space, and the semicolon of an empty statement. */
const BLANK = /[ \t\n\r\f\v;]/;

/** Whether the text may run. An empty text may: the server answers it with EmptyQueryResponse. */
export function mayPass(text: string): boolean {
  const rest = withoutComments(text);
  const word = /^[a-z]*/i.exec(rest)![0].toLowerCase();
  return rest === "" || (word === "" ? rest.startsWith("(") : READS.has(word));
}

/** Returns the text from its first word on. PostgreSQL's comments can be nested. */
function withoutComments(text: string): string {
  let at = 0;
  let depth = 0;
  while (at < text.length) {
    if (text.startsWith("/*", at)) {
      depth++;
      at += 2;
    } else if (depth && text.startsWith("*/", at)) {
      depth--;
      at += 2;
    } else if (!depth && text.startsWith("--", at)) {
      at = endOfLine(text, at);
    } else if (depth || BLANK.test(text[at]!)) {
      at++;
    } else {
      break;
    }
  }
  return text.slice(at);
}

function endOfLine(text: string, from: number): number {
  const end = text.slice(from).search(/[\r\n]/);
  return end < 0 ? text.length : from + end;
}
