// What the words of a statement say it may do to transactions and to what is stored, in one place, so that no two
// places differ. What a statement leaves in its session (pool/session-changes.ts) and whether a scope can run it
// (statement/scoped-statement.ts) take more than its words, and a file each.
//
// Words do not show what functions, rules and triggers do. So nothing here is a promise about a statement's effects:
// each function says what the callers may conclude.
//
// Nothing is cached. To find the first word takes less time than to look the text up. Knows words. Must not know who
// asks.
import { firstWord, firstWords, readings, SqlReader, type Kind } from "./sql-reader.ts";

/** Statements that can neither begin nor end a transaction, and that can also run after a snapshot was taken. */
const PLAIN = new Set(["select", "insert", "update", "delete", "merge", "with", "values", "table"]);
/** Commands whose effects are undone with their transaction. The empty one is a statement of comments alone. */
const UNDONE = new Set(["select", "insert", "update", "delete", "merge", ""]);
/** First words of statements that may be reads. With one of `WRITES` in them they are not. */
const READS = new Set(["select", "values", "table", "with"]);
const WRITES = new Set(["insert", "update", "delete", "merge", "into"]);
/** They may run COMMIT, or commit a part of their work by themselves. In a transaction neither happens. */
const COMMITS = /^(call|do|vacuum|analyze|reindex|cluster|repack)$/;

/**
 * Whether other calls may be on the wire together with this statement: it cannot change which transaction they are part
 * of.
 */
export function isPipelinable(text: string): boolean {
  return PLAIN.has(firstWord(text));
}

/** Whether none of the statement's own words writes; FOR UPDATE counts as one that does. */
export function isRead(text: string): boolean {
  return READS.has(firstWord(text)) && !readings(text).some(hasWrite);
}

function hasWrite(reader: SqlReader): boolean {
  while (reader.next() !== "end") if (reader.kind === "word" && WRITES.has(reader.name)) return true;
  return false;
}

/**
 * Whether a part of these texts' effects may be committed although the last of them failed: by a routine or command
 * that commits, which it can outside a transaction only, or by a COMMIT before the end. A COMMIT that fails has stored
 * nothing.
 */
export function mayCommitApart(texts: readonly string[], isInTransaction = false): boolean {
  const words = texts.flatMap(firstWords);
  const commits = () => words.some((word) => COMMITS.test(word)) || texts.some(isConcurrent);
  return (!isInTransaction && commits()) || words.slice(0, -1).some(ends);
}

/** CREATE INDEX CONCURRENTLY and its kind leave an invalid index, or a partition that is half detached. */
function isConcurrent(text: string): boolean {
  return /\bconcurrently\b/i.test(text) && /^(create|drop|alter)$/.test(firstWord(text));
}

function ends(word: string): boolean {
  return /^(commit|end|prepare)$/.test(word);
}

/** Whether the server undoes the effects of this command if their transaction is not committed. VACUUM's stay. */
export function isUndone(command: string): boolean {
  return UNDONE.has(command.toLowerCase());
}

/** Whether a statement of the text begins a transaction, which another statement may end. */
export function mayBegin(text: string): boolean {
  return firstWords(text).some((word) => word === "begin" || word === "start");
}

/**
 * Whether something of the open transaction, or of what follows it, may be stored once these texts have run. PREPARE
 * TRANSACTION keeps a transaction too. After ROLLBACK a statement is a transaction of its own.
 */
export function mayKeep(texts: readonly string[]): boolean {
  const words = texts.flatMap(firstWords);
  return words.some(ends) || (words.length > 1 && texts.some(rollsBack));
}

/** Whether a statement of the text ends a transaction by ROLLBACK or ABORT, and not only goes back to a savepoint. */
export function rollsBack(text: string): boolean {
  return readings(text).some(hasRollback);
}

function hasRollback(reader: SqlReader): boolean {
  let isRollback = false;
  for (let before: Kind = "semicolon"; ; before = reader.kind) {
    const kind = reader.next();
    if (isRollback && (kind === "semicolon" || kind === "end")) return true;
    if (kind === "end") return false;
    if (before === "semicolon") isRollback = kind === "word" && /^(rollback|abort)$/.test(reader.name);
    else if (kind === "word" && reader.name === "to") isRollback = false;
  }
}

/** Whether it is a COPY whose data travel over this connection. */
export function isClientCopy(text: string): boolean {
  if (firstWord(text) !== "copy") return false;
  const reader = new SqlReader(text);
  while (reader.next() !== "end")
    if (reader.kind === "word" && (reader.name === "stdin" || reader.name === "stdout")) return true;
  return false;
}
