// All statements that the model knows, by their first word.
//
// Knows which file reads which statement. To add a statement, add a line here and its file. A text that no file can
// read is a syntax error, as every unknown statement is to the real server. The model also keeps the texts that look
// like SQL, so that a test can fail for what the model does not know.
import { PgError, syntaxError } from "../errors.ts";
import { TokenReader, tokensOf, type Token } from "../tokens.ts";
import { parseCopy } from "./copy.ts";
import { parseClose, parseDeclare, parseFetch } from "./cursors.ts";
import { driversOwn } from "./driver.ts";
import { parseAlter, parseCreate, parseDrop, parseLock } from "./schema.ts";
import { parseSelect } from "./select.ts";
import {
  parseDeallocate,
  parseDiscard,
  parseDo,
  parseExecute,
  parseListen,
  parseNotify,
  parsePrepare,
  parseUnlisten,
} from "./sessions.ts";
import { parseReset, parseSet, parseShow } from "./settings.ts";
import type { Statement } from "./statement.ts";
import { parseBegin, parseCommit, parseRelease, parseRollback, parseSavepoint } from "./transaction.ts";
import { parseDelete, parseInsert, parseTruncate, parseUpdate } from "./write.ts";

type Parse = (reader: TokenReader, text: string) => Statement;

const STATEMENTS: Readonly<Record<string, Parse>> = {
  select: parseSelect,
  values: parseSelect,
  table: parseSelect,
  insert: parseInsert,
  update: parseUpdate,
  delete: parseDelete,
  truncate: parseTruncate,
  begin: parseBegin,
  start: parseBegin,
  commit: parseCommit,
  end: parseCommit,
  rollback: parseRollback,
  abort: parseRollback,
  savepoint: parseSavepoint,
  release: parseRelease,
  set: parseSet,
  reset: parseReset,
  show: parseShow,
  copy: parseCopy,
  declare: parseDeclare,
  fetch: parseFetch,
  move: parseFetch,
  close: parseClose,
  listen: parseListen,
  unlisten: parseUnlisten,
  notify: parseNotify,
  discard: parseDiscard,
  prepare: (reader, text) => parsePrepare(reader, text, (inner) => statementOf(inner, text)),
  execute: parseExecute,
  deallocate: parseDeallocate,
  do: parseDo,
  create: parseCreate,
  alter: parseAlter,
  drop: parseDrop,
  lock: parseLock,
};

/** First words of statements that PostgreSQL has and the model does not have. */
const OTHERS = new Set(
  `with merge explain analyze vacuum call comment grant revoke security import refresh reindex cluster checkpoint load
  reassign`
    .trim()
    .split(/\s+/),
);

/** Returns the statements of a text. Calls `unknown` with a text that may be valid and that the model cannot read. */
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
  const own = driversOwn(text);
  if (own) return [own];
  const statements: Statement[] = [];
  for (const { tokens, source } of split(text)) {
    const [first] = tokens as [Token];
    if (first.kind === "end") continue;
    try {
      statements.push(statementOf(new TokenReader(text, tokens), source));
    } catch (error) {
      const looksRight = Object.hasOwn(STATEMENTS, first.text) || OTHERS.has(first.text);
      if (error instanceof PgError && error.code === "42601" && looksRight) unknown(source);
      throw error;
    }
  }
  return statements;
}

function statementOf(reader: TokenReader, text: string): Statement {
  const { token } = reader;
  const parse = token.kind === "word" && Object.hasOwn(STATEMENTS, token.text) ? STATEMENTS[token.text] : undefined;
  const inParentheses = token.text === "(" ? parseSelect : undefined;
  if (!parse || inParentheses) throw syntaxError(token.raw, token.at);
  const statement = parse(reader, text);
  reader.end();
  return statement;
}

/** Splits at semicolons. The tokens keep their positions in the whole text. */
function split(text: string): { tokens: Token[]; source: string }[] {
  const parts: { tokens: Token[]; source: string }[] = [];
  let from = 0;
  let tokens: Token[] = [];
  for (const token of tokensOf(text)) {
    const isEnd = token.kind === "end" || (token.kind === "symbol" && token.text === ";");
    if (!isEnd) {
      tokens.push(token);
      continue;
    }
    // An incomplete statement ends at its semicolon, or at the end of the text.
    tokens.push({ ...token, kind: "end", ...(token.text === ";" && { raw: ";" }) });
    parts.push({ tokens, source: text.slice(from, token.at).trim() });
    tokens = [];
    from = token.at + 1;
  }
  return parts;
}
