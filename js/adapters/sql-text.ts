// SQL as it may be shown: without its literals, and as a summary of few words that is the same for statements that do
// the same.
//
// Knows SQL's words and quotes. Must not know OpenTelemetry, calls or connections. It reads, and never decides what is
// run: where it is wrong a name in a dashboard is.

/** What telemetry says of a text. */
export interface SqlText {
  /** The text as it may be shown: as it is if it has parameters, else with `?` for its literals. */
  readonly shown: string;
  /** Operations and their tables: `SELECT users orders`. `""` if there is nothing to say. */
  readonly summary: string;
}

/** Characters of a text that are shown, and of a summary. */
const LONGEST_SHOWN = 4_096,
  LONGEST_SUMMARY = 255;
/** Texts that are kept, and the longest of them. */
const MOST_TEXTS = 1_000,
  LONGEST_KEPT = 10_000;

const known = new Map<string, SqlText>();

/** Kept by the text, since programs run the same ones again and again. */
export function sqlText(text: string): SqlText {
  const found = known.get(text);
  if (found) return found;
  const tokens = tokensOf(text);
  const shown = tokens.some(({ kind }) => kind === "parameter") ? text : tokens.map(hidden).join("");
  const result = { shown: shown.trim().slice(0, LONGEST_SHOWN), summary: summaryOf(tokens) };
  if (text.length <= LONGEST_KEPT) {
    if (known.size >= MOST_TEXTS) known.clear();
    known.set(text, result);
  }
  return result;
}

// -- tokens ----------------------------------------------------------------------------------------------------------

interface Token {
  readonly kind: "space" | "comment" | "literal" | "parameter" | "word" | "quoted" | "other";
  readonly text: string;
}

/** In this order at each place. What is not closed goes to the end of the text, so that nothing of it is shown. */
const KINDS: readonly (readonly [kind: Token["kind"], pattern: RegExp])[] = [
  ["space", /\s+/y],
  ["comment", /--[^\n]*/y],
  ["literal", /[eE]'(?:[^'\\]|''|\\[^])*(?:'|\\?$)/y],
  ["literal", /(?:[uU]&|[bBxXnN])?'(?:[^']|'')*(?:'|$)/y],
  ["parameter", /\$\d+/y],
  ["literal", /\$([A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?\$(?:[^]*?\$\1\$|[^]*$)/y],
  ["quoted", /(?:[uU]&)?"(?:[^"]|"")*(?:"|$)/y],
  ["word", /[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*/y],
  ["literal", /(?:\d|\.\d)[\w.]*(?:(?<=[eE])[+-]\d+)?/y],
];

function tokensOf(text: string): Token[] {
  const tokens: Token[] = [];
  for (let at = 0; at < text.length;) {
    const token = blockComment(text, at) ?? tokenAt(text, at);
    tokens.push(token);
    at += token.text.length;
  }
  return tokens;
}

function tokenAt(text: string, at: number): Token {
  for (const [kind, pattern] of KINDS) {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (found) return { kind, text: found[0] };
  }
  return { kind: "other", text: text[at]! };
}

/** They nest. */
function blockComment(text: string, from: number): Token | undefined {
  if (!text.startsWith("/*", from)) return undefined;
  const edge = /\/\*|\*\//g;
  edge.lastIndex = from;
  let depth = 0;
  for (let found = edge.exec(text); found; found = edge.exec(text)) {
    depth += found[0] === "/*" ? 1 : -1;
    if (!depth) return { kind: "comment", text: text.slice(from, edge.lastIndex) };
  }
  return { kind: "comment", text: text.slice(from) };
}

/** A comment may say anything too. */
function hidden({ kind, text }: Token): string {
  if (kind === "literal") return "?";
  return kind === "comment" ? " " : text;
}

// -- summary ---------------------------------------------------------------------------------------------------------

/** Words that begin a statement whose tables are named. */
const VERBS = new Set(["SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"]);
/** Behind these, or at the beginning, INSERT, UPDATE, DELETE and MERGE are verbs; elsewhere parts of a clause. */
const IN_FRONT = new Set(["(", ")", ";", "EXPLAIN", "ANALYZE", "VERBOSE"]);
/** Behind these stands a table. */
const TABLE_FOLLOWS = new Set(["FROM", "JOIN", "INTO", "USING"]);
/** Statements whose first name is a table. */
const OF_A_TABLE = new Set(["COPY", "TRUNCATE", "LOCK", "ANALYZE", "VACUUM"]);
/** What is made, changed or dropped has one of these words; a table's name is told too. */
const DEFINES = new Set(["CREATE", "ALTER", "DROP"]);
const BEFORE_OBJECT = new Set(["OR", "REPLACE", "UNIQUE", "TEMP", "TEMPORARY", "UNLOGGED", "GLOBAL", "LOCAL"]);
/** Between a verb and its table. */
const SKIPPED = new Set(["ONLY", "LATERAL", "TABLE", "IF", "NOT", "EXISTS", "ROWS"]);
/** The end of a list of tables. */
const ENDS_TABLES = /^(WHERE|GROUP|ORDER|HAVING|LIMIT|OFFSET|FETCH|UNION|EXCEPT|INTERSECT|RETURNING|SET|WINDOW|FOR)$/;

/** One pair of parentheses, or what is outside of all. */
interface Level {
  /** It is a statement, so that FROM is not an argument's, as in `extract(year from at)`. */
  isStatement: boolean;
  /** A comma is followed by a table. */
  isInTables: boolean;
}

function summaryOf(tokens: readonly Token[]): string {
  const parts: string[] = [];
  const levels: Level[] = [{ isStatement: true, isInTables: false }];
  let before = ";";
  let wantsTable = false;
  /** A name with a parenthesis behind it is a function. */
  let mayBeFunction = false;
  /** CREATE and the like wait for what they are about. */
  let defines = false;
  const read = tokens.filter(({ kind }) => kind !== "space" && kind !== "comment");
  for (let at = 0; at < read.length; at++) {
    const { kind, text } = read[at]!;
    const level = levels.at(-1)!;
    const word = kind === "word" ? text.toUpperCase() : text;
    const isFirst = before === ";";
    if (word === "(") {
      // Behind JOIN … USING stand columns.
      if (before === "USING") wantsTable = false;
      levels.push({ isStatement: wantsTable, isInTables: wantsTable });
    } else if (word === ")") levels.length > 1 && levels.pop();
    else if (word === ";") {
      if (parts.length && at < read.length - 1) parts.push(";");
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
      const name = nameAt(read, at);
      // A function's rows are no table.
      if (name && !(mayBeFunction && read[name.end]?.text === "(")) parts.push(name.text);
      if (name) at = name.end - 1;
    } else if (kind !== "word" || SKIPPED.has(word)) {
      // Nothing to say of it.
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

/** A name with its schema, without quotes; `end` is the token behind it. */
function nameAt(tokens: readonly Token[], from: number): { text: string; end: number } | undefined {
  const steps: string[] = [];
  let end = from;
  for (;;) {
    const token = tokens[end];
    if (token?.kind !== "word" && token?.kind !== "quoted") break;
    steps.push(token.kind === "quoted" ? token.text.replace(/^[^"]*"|"$/g, "") : token.text);
    end++;
    if (tokens[end]?.text !== ".") break;
    end++;
  }
  return steps.length ? { text: steps.join("."), end } : undefined;
}

/** Whole parts only. */
function joined(parts: readonly string[]): string {
  let summary = "";
  for (const part of parts) {
    const longer = part === ";" ? `${summary};` : summary ? `${summary} ${part}` : part;
    if (longer.length > LONGEST_SUMMARY) break;
    summary = longer;
  }
  return summary;
}
