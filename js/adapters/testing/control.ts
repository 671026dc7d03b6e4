// Which statements of a text begin or end a transaction. Inside of a test they must not reach the server as they are: a
// COMMIT would store what the test has written.
//
// Knows the words of transaction control. Must not know what is done instead of them (driver.ts, facade.ts).
import { readings, type SqlReader } from "../../util/sql-reader.ts";

/** `characteristics`: SET TRANSACTION. `prepare`: PREPARE TRANSACTION, for which a savepoint can do nothing. */
export type Control = "begin" | "commit" | "rollback" | "characteristics" | "prepare";

/** One statement of a text. */
export interface Statement {
  readonly text: string;
  /** `undefined`: it goes to the server as it is. */
  readonly control: Control | undefined;
  /** BEGIN or SET TRANSACTION asks for READ ONLY. */
  readonly isReadOnly: boolean;
  /** COMMIT or ROLLBACK with AND CHAIN begins the next transaction. */
  readonly chains: boolean;
}

/** Words of a statement that decide; more of it are not read. */
const MOST_WORDS = 16;

/** The statements of a text, as the server reads it by default. Empty ones are left out. */
export function statementsOf(text: string): Statement[] {
  return statements(text, readings(text)[0]!);
}

/**
 * The first statement that begins or ends a transaction, in any reading of the text: whether a backslash escapes is a
 * setting of the session.
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
    // A name in quotes is no keyword, so it must not be taken for one.
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
