// Which statements cannot run in a scope, whose settings apply until the transaction around a statement ends.
//
// Knows how such statements begin. Must not know how a statement runs. One text is one statement: the extended query
// protocol refuses a second one.
import { UsageError } from "../util/errors.ts";
import { isNoRole } from "../util/no-role.ts";
import { firstWord, SqlReader } from "../util/sql-reader.ts";

const TRANSACTIONS = wordsOf("begin start commit end rollback abort savepoint release prepare");
/** They may commit by themselves, and what they run afterwards runs without the settings. */
const COMMITTING = wordsOf("call do vacuum cluster");
/** What they set would outlive the call, for the next user of the connection, or would undo the scope's settings. */
const SESSION = wordsOf("set reset discard listen unlisten load deallocate");

function wordsOf(list: string): ReadonlySet<string> {
  return new Set(list.split(" "));
}

/** Throws if a scope cannot guarantee its settings for the statement. */
export function checkInScope(text: string): void {
  const first = firstWord(text);
  const shown = first.toUpperCase();
  if (TRANSACTIONS.has(first))
    throw notInScope(
      `${shown} cannot run in a scope, whose settings end with the transaction: use scope.transaction().`,
    );
  if (COMMITTING.has(first))
    throw notInScope(`${shown} cannot run in a scope: it may commit, and the settings would end there.`);
  if (SESSION.has(first) && !(first === "set" && endsWithTransaction(text)))
    throw notInScope(`${shown} cannot run in a scope: its effect would outlive the call. Use the client.`);
}

/** Whether it is SET LOCAL or SET CONSTRAINTS. Throws for a SET LOCAL that would restore the login's role. */
function endsWithTransaction(text: string): boolean {
  const reader = new SqlReader(text);
  while (reader.next() !== "word"); // there may be empty statements in front of it
  reader.next();
  const second = reader.kind === "word" ? reader.name : "";
  reader.next();
  // `set local.tenant = …` sets a setting of that name, for the session.
  if (reader.text === ".") return false;
  if (second !== "local") return second === "constraints";
  const setting = reader.name.toLowerCase(); // the server ignores the case, even in quotes
  const setsRole = setting === "role" || setting === "session" || setting === "session_authorization";
  if (setsRole && givesLoginBack(reader))
    throw notInScope("SET LOCAL cannot give the login's own role back in a scope. Use the client.");
  return true;
}

/** Whether the value of this SET may be the login's own role. The reader is at the setting's name. */
function givesLoginBack(reader: SqlReader): boolean {
  let value = "";
  for (let kind = reader.next(); kind !== "end"; kind = reader.next()) {
    if (kind === "text") {
      // An escape could spell anything.
      if (!/^['$][^\\]*$/.test(reader.text)) return true;
      // A string may continue on the next line.
      value += reader.content;
    } else if (isNoRole(reader.name) || reader.name === "default") return true;
  }
  return isNoRole(value);
}

export function notInScope(message: string): UsageError {
  return new UsageError("NOT_IN_SCOPE", message);
}
