// SQL in forms that may be shown: without its literals, and as a short summary that is the same for statements that do
// the same.
//
// Knows SQL's words. Must not know OpenTelemetry, calls or connections. It only reads, and never decides what runs: a
// mistake here makes a name in a dashboard wrong, and nothing else.

import { SqlReader, type Kind } from "../util/sql-reader.ts";
import { TextCache } from "../util/text-cache.ts";

/** The forms of a text that telemetry shows. */
interface SqlText {
  /** The text that may be shown: unchanged if it has parameters, else with `?` for its literals. */
  readonly shown: string;
  /** Operations and their tables: `SELECT users orders`. `""` if the text has none. */
  readonly summary: string;
}

/** Maximum number of characters of a shown text, and of a summary. */
const LONGEST_SHOWN = 4_096,
  LONGEST_SUMMARY = 255;
/** Maximum number of cached texts, and of their characters in total. */
const MOST_TEXTS = 1_000,
  MOST_CHARACTERS = 1 << 20;

const known = new TextCache<SqlText>(MOST_TEXTS, MOST_CHARACTERS);

/** Cached by text, because programs run the same texts again and again. */
export function sqlText(text: string): SqlText {
  return known.get(text) ?? known.put(text, examined(text));
}

function examined(text: string): SqlText {
  const tokens = tokensOf(text);
  const hasParameters = tokens.some(({ kind }) => kind === "parameter");
  const shown = hasParameters ? text : withoutLiterals(text);
  return { shown: shown.trim().slice(0, LONGEST_SHOWN), summary: summaryOf(tokens) };
}

interface Token {
  readonly kind: Kind;
  /** The token as it is written. */
  readonly text: string;
  /** The name as the server reads it. */
  readonly name: string;
}

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  const reader = new SqlReader(text);
  while (reader.next() !== "end") tokens.push({ kind: reader.kind, text: reader.text, name: reader.name });
  return tokens;
}

/**
 * Removes comments too, because they may contain anything. An unclosed literal or comment extends to the end of the
 * text, so that no part of it is shown.
 */
function withoutLiterals(text: string): string {
  const reader = new SqlReader(text, { comments: true });
  let shown = "";
  for (let end = 0; reader.next() !== "end"; end = reader.end) {
    shown += text.slice(end, reader.start);
    if (reader.kind === "comment") shown += " ";
    else shown += reader.kind === "text" || reader.kind === "number" ? "?" : reader.text;
  }
  return shown;
}

// -- summary ---------------------------------------------------------------------------------------------------------

/** Words that begin a statement whose tables are part of the summary. */
const VERBS = new Set(["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"]);
/**
 * After these, or at the beginning, INSERT, UPDATE, DELETE and MERGE are verbs. Elsewhere they are parts of a clause.
 */
const IN_FRONT = new Set(["(", ")", ";", "EXPLAIN", "ANALYZE", "VERBOSE"]);
/** Words that are followed by a table. */
const TABLE_FOLLOWS = new Set(["FROM", "JOIN", "INTO", "USING"]);
/** Statements whose first name is a table. */
const OF_A_TABLE = new Set(["COPY", "TRUNCATE", "LOCK", "ANALYZE", "VACUUM"]);
/** Statements whose summary has the kind of the object too, and the name of a table. */
const DEFINES = new Set(["CREATE", "ALTER", "DROP"]);
const BEFORE_OBJECT = new Set(["OR", "REPLACE", "UNIQUE", "TEMP", "TEMPORARY", "UNLOGGED", "GLOBAL", "LOCAL"]);
/** Words that may come between a verb and its table. */
const SKIPPED = new Set(["ONLY", "LATERAL", "TABLE", "IF", "NOT", "EXISTS", "ROWS"]);
/** Words that end a list of tables. */
const ENDS_TABLES = /^(WHERE|GROUP|ORDER|HAVING|LIMIT|OFFSET|FETCH|UNION|EXCEPT|INTERSECT|RETURNING|SET|WINDOW|FOR)$/;

/** One pair of parentheses, or the text outside all parentheses. */
interface Level {
  /** Whether it contains a statement. Otherwise FROM belongs to an argument, as in `extract(year from at)`. */
  isStatement: boolean;
  /** Whether a comma is followed by a table. */
  isInTables: boolean;
}

function summaryOf(tokens: readonly Token[]): string {
  const parts: string[] = [];
  const levels: Level[] = [{ isStatement: true, isInTables: false }];
  let before = ";";
  let wantsTable = false;
  /** Whether the next name is a function if a parenthesis follows it. */
  let mayBeFunction = false;
  /** Whether CREATE, ALTER or DROP waits for the kind of its object. */
  let defines = false;
  for (let at = 0; at < tokens.length; at++) {
    const { kind, text } = tokens[at]!;
    const level = levels.at(-1)!;
    const word = kind === "word" ? text.toUpperCase() : text;
    const isFirst = before === ";";
    if (word === "(") {
      // JOIN … USING is followed by columns.
      if (before === "USING") wantsTable = false;
      levels.push({ isStatement: wantsTable, isInTables: wantsTable });
    } else if (word === ")") levels.length > 1 && levels.pop();
    else if (word === ";") {
      if (parts.length && at < tokens.length - 1) parts.push(";");
      levels.splice(0, levels.length, { isStatement: true, isInTables: false });
      wantsTable = defines = false;
    } else if (word === ",") wantsTable = mayBeFunction = level.isInTables;
    else if (defines) {
      if (!BEFORE_OBJECT.has(word)) {
        parts.push(word);
        wantsTable = word === "TABLE";
        defines = false;
      }
    } else if (wantsTable && !SKIPPED.has(word) && !VERBS.has(word) && word !== "VALUES") {
      wantsTable = false;
      const name = nameAt(tokens, at);
      // A function is not a table.
      if (name && !(mayBeFunction && tokens[name.end]?.text === "(")) parts.push(name.text);
      if (name) at = name.end - 1;
    } else if (kind !== "word" || SKIPPED.has(word)) {
      // Not part of the summary.
    } else if (word === "SELECT" || (VERBS.has(word) && IN_FRONT.has(before))) {
      parts.push(word);
      level.isStatement = true;
      level.isInTables = false;
      wantsTable = word === "UPDATE";
      mayBeFunction = false;
    } else if (TABLE_FOLLOWS.has(word)) {
      wantsTable = level.isStatement && before !== "DISTINCT";
      mayBeFunction = word !== "INTO";
      level.isInTables ||= wantsTable && word === "FROM";
    } else if (ENDS_TABLES.test(word)) level.isInTables = false;
    else if (isFirst && word !== "WITH" && word !== "EXPLAIN") {
      parts.push(word);
      defines = DEFINES.has(word);
      wantsTable = OF_A_TABLE.has(word);
      mayBeFunction = false;
      level.isStatement = false;
    }
    before = word;
  }
  return joined(parts);
}

/** Returns a name with its schema, without quotes. `end` is the index of the token after it. */
function nameAt(tokens: readonly Token[], from: number): { text: string; end: number } | undefined {
  const steps: string[] = [];
  let end = from;
  for (;;) {
    const token = tokens[end];
    if (token?.kind !== "word" && token?.kind !== "name") break;
    steps.push(token.kind === "name" ? token.name : token.text);
    end++;
    if (tokens[end]?.text !== ".") break;
    end++;
  }
  return steps.length ? { text: steps.join("."), end } : undefined;
}

/** Joins the parts up to the maximum length. A part is never cut. */
function joined(parts: readonly string[]): string {
  let summary = "";
  for (const part of parts) {
    const longer = part === ";" ? `${summary};` : summary ? `${summary} ${part}` : part;
    if (longer.length > LONGEST_SUMMARY) break;
    summary = longer;
  }
  return summary;
}
