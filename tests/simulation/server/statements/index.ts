// The catalogue: the statements that the programs, the scripts and the driver itself send, by their texts.
//
// Knows which file reads which statement. Numbers, names and values may differ; any other text is unknown, and is
// refused as a syntax error. The model keeps the unknown texts that look like SQL, so that a test fails for them. To
// add a statement, extend the file that has a similar one, and add it to ../../catalogue.ts, which compares it with
// real servers.
import { syntaxError } from "../errors.ts";
import { readCopy } from "./copy.ts";
import { driversOwn } from "./driver.ts";
import { readSchema } from "./schema.ts";
import { selectStatement } from "./select.ts";
import { readOfSession } from "./sessions.ts";
import type { Statement } from "./statement.ts";
import { plain, split, Unknown } from "./text.ts";
import { readChange, readInsert, readTruncate } from "./write.ts";

/** First words of statements that PostgreSQL has. */
const WORDS = new Set(
  `select values table insert update delete truncate begin start commit end rollback abort savepoint release set reset
  show copy declare fetch move close listen unlisten notify discard prepare execute deallocate do create alter drop lock
  with merge explain analyze vacuum call comment grant revoke security import refresh reindex cluster checkpoint load
  reassign wait`.split(/\s+/),
);

/** Returns the statements of a text. Calls `unknown` with a text that looks right and is not in the catalogue. */
export function parseStatements(text: string, unknown: (text: string) => void): readonly Statement[] {
  const seen = parsed.get(text);
  if (seen) return seen;
  const statements = parse(text, unknown);
  if (parsed.size >= MOST_PARSED) parsed.clear();
  parsed.set(text, statements);
  return statements;
}

/** A parsed statement does not depend on a session or a server, so each text is parsed once in a process. */
const parsed = new Map<string, readonly Statement[]>();
const MOST_PARSED = 1_000;

function parse(text: string, unknown: (text: string) => void): Statement[] {
  return split(text, ";").flatMap((part) => {
    const source = part.trim();
    const form = plain(source);
    if (form === "") return [];
    const [word = ""] = /^\w+/.exec(form) ?? [];
    try {
      const read = driversOwn(source, form) ?? readOfSession(form, source) ?? readSchema(form, text);
      return [{ text: source, ...(read ?? readOfTables(word, form, text)) }];
    } catch (error) {
      if (!(error instanceof Unknown)) throw error;
      if (WORDS.has(word)) unknown(source);
      throw syntaxError(word, text.indexOf(source));
    }
  });
}

function readOfTables(word: string, form: string, text: string): Omit<Statement, "text"> {
  switch (word) {
    case "select":
      return selectStatement(form, text);
    case "insert":
      return readInsert(form, text);
    case "update":
    case "delete":
      return readChange(form, text);
    case "truncate":
      return readTruncate(form, text);
    case "copy":
      return readCopy(form, text);
    default:
      throw new Unknown();
  }
}
