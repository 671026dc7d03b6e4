// Which statements cannot run in a scope, whose settings hold until the transaction around a statement ends.
//
// Knows how such statements begin. Must not know settings, or how a statement runs.
import { UsageError } from "../util/errors.ts";

/** The first word, behind comments and empty statements. */
const FIRST_WORD = /^(?:[\s;]|--.*(?:\n|$)|\/\*[^]*?\*\/)*([a-z]+)(?:\s+([a-z]+))?/i;

const TRANSACTIONS = "begin start commit end rollback abort savepoint release prepare";
/** They may commit on their own, and what they run then runs without the settings. */
const COMMITTING = "call do vacuum cluster";
/** What they set would outlive the call, for whoever uses the connection next; or would undo the scope's. */
const SESSION = "set reset discard listen unlisten load deallocate";

/** Throws where a scope cannot answer for the statement. */
export function checkInScope(text: string): void {
  const [, first = "", second = ""] = FIRST_WORD.exec(text) ?? [];
  const word = first.toLowerCase();
  if (isOneOf(word, TRANSACTIONS))
    throw notInScope(
      `${first} cannot run in a scope, whose settings end with the transaction: use scope.transaction().`,
    );
  if (isOneOf(word, COMMITTING))
    throw notInScope(`${first} cannot run in a scope: it may commit, and the settings would end there.`);
  if (isOneOf(word, SESSION) && !(word === "set" && /^(local|constraints)$/i.test(second)))
    throw notInScope(`${first} cannot run in a scope: its effect would outlive the call. Use the client.`);
}

function isOneOf(word: string, words: string): boolean {
  return words.split(" ").includes(word);
}

export function notInScope(message: string): UsageError {
  return new UsageError("NOT_IN_SCOPE", message);
}
