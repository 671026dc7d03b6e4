// The words that PostgreSQL's date and time types read as the present: now, today, tomorrow and yesterday.
//
// The server evaluates such a literal while it parses, and the tree then has only a constant. So the words are looked
// for in the statement's own text. The text of a view or a policy was parsed when it was created: its constants do not
// change.
//
// Knows string constants and values of parameters. Must not know trees or types: a word alone does no harm.
import { readings, type SqlReader } from "../util/sql-reader.ts";

/**
 * Whether a date or time made from this value of a parameter may be the present: the value is a string with one of the
 * words, or has such a string in it. The server reads a word only where no letter is next to it.
 */
export function hasTimeWords(value: unknown): boolean {
  if (typeof value === "string") return WORDS.test(value);
  if (typeof value !== "object" || value === null || ArrayBuffer.isView(value)) return false;
  if (typeof (value as { toJSON?: unknown }).toJSON === "function") return hasTimeWords(JSON.stringify(value));
  // With symbols: sql.json() keeps its text under one.
  return Reflect.ownKeys(value).some((key) => hasTimeWords((value as Record<PropertyKey, unknown>)[key]));
}

const WORDS = /(?<![a-z])(?:now|today|tomorrow|yesterday)(?![a-z])/i;

/**
 * Whether a string constant of the statement may be one of the words. Escapes are not decoded: a constant that has one
 * may be anything.
 */
export function hasTimeLiteral(sql: string): boolean {
  return readings(sql).some((reader) => constantsOf(reader).some(mayBeTime));
}

/** Whether a string constant of the statement may be a path with a method that makes a date or time. */
export function hasTimePath(sql: string): boolean {
  return readings(sql).some((reader) =>
    constantsOf(reader).some((constant) => ESCAPE.test(constant) || METHOD.test(constant)),
  );
}

/** datetime(), date(), time(), time_tz(), timestamp(), timestamp_tz() */
const METHOD = /date|time/i;

const mayBeTime = (constant: string): boolean => ESCAPE.test(constant) || hasTimeWords(constant);

/** A backslash, or the beginning of U&'…', which may name another character as its escape. */
const ESCAPE = /\\|^u&'/i;

/** The string constants as they are written. A constant continues in the next one if only a line break is between. */
function constantsOf(reader: SqlReader): string[] {
  const constants: string[] = [];
  let isOpen = false;
  while (reader.next() !== "end") {
    const isText = reader.kind === "text";
    if (isText && isOpen) constants[constants.length - 1] += reader.content;
    else if (isText) constants.push(/^(e|u&)/i.test(reader.text) ? reader.text : `'${reader.content}`);
    isOpen = isText;
  }
  return constants;
}
