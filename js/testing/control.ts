// Finds the statements of a text that begin or end a transaction. In a test they must not reach the server unchanged: a
// COMMIT would store what the test has written.
//
// Knows the words of transaction control. Must not know what runs instead of them (driver.ts, facade.ts).
import { readings, type SqlReader } from "../util/sql-reader.ts";

/** `characteristics`: SET TRANSACTION. `prepare`: PREPARE TRANSACTION, which a savepoint cannot replace. */
type Control = "begin" | "commit" | "rollback" | "characteristics" | "prepare";

/** One statement of a text. */
export interface Statement {
  readonly text: string;
  /** `undefined` if the statement goes to the server unchanged. */
  readonly control: Control | undefined;
  /** Whether BEGIN or SET TRANSACTION requests READ ONLY. */
  readonly isReadOnly: boolean;
  /** Whether COMMIT or ROLLBACK has AND CHAIN, which begins the next transaction. */
  readonly chains: boolean;
}

/** Maximum number of words that are read of a statement. They are enough to recognise it. */
const MOST_WORDS = 16;

/** Returns the statements of a text, as the server reads it by default. Empty ones are left out. */
export function statementsOf(text: string): Statement[] {
  return statements(text, readings(text)[0]!);
}

/**
 * Returns the first statement that begins or ends a transaction, in any reading of the text. A text has several
 * readings because a setting of the session decides whether a backslash escapes.
 */
export function controlIn(text: string): Statement | undefined {
  for (const reader of readings(text)) {
    const found = statements(text, reader).find(({ control }) => control);
    if (found) return found;
  }
  return undefined;
}

function statements(text: string, reader: SqlReader): Statement[] {
  const found: Statement[] = [];
  let words: string[] = [];
  let start = -1;
  let end = 0;
  const finish = () => {
    if (start >= 0) found.push(statementOf(text.slice(start, end), words));
    words = [];
    start = -1;
  };
  for (let kind = reader.next(); kind !== "end"; kind = reader.next()) {
    if (kind === "semicolon") {
      finish();
      continue;
    }
    if (start < 0) start = reader.start;
    end = reader.end;
    // A quoted name is not a keyword, and must not be taken for one.
    if (words.length < MOST_WORDS) words.push(kind === "word" ? reader.name : `<${kind}>`);
  }
  finish();
  return found;
}

function statementOf(text: string, words: readonly string[]): Statement {
  const isReadOnly = words.some((word, at) => word === "read" && words[at + 1] === "only");
  const chains = words.some((word, at) => word === "and" && words[at + 1] === "chain");
  return { text, control: controlOf(words), isReadOnly, chains };
}

function controlOf([first, second, third]: readonly string[]): Control | undefined {
  switch (first) {
    case "begin":
      return "begin";
    case "start":
      return second === "transaction" ? "begin" : undefined;
    case "commit":
    case "end":
      // COMMIT PREPARED is refused by the server within a transaction.
      return second === "prepared" ? undefined : "commit";
    case "abort":
      return "rollback";
    case "rollback":
      return second === "to" || third === "to" || second === "prepared" ? undefined : "rollback";
    case "prepare":
      return second === "transaction" ? "prepare" : undefined;
    case "set":
      return second === "transaction" || (second === "local" && third === "transaction")
        ? "characteristics"
        : undefined;
    default:
      return undefined;
  }
}
