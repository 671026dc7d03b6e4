// libpq's target_session_attrs: checks whether a server is of the kind that was asked for.
//
// Knows what servers report of themselves (from PostgreSQL 14 on), and the queries for older ones. Must not know which
// hosts there are, or which one is next.
import type { TargetSessionAttrs } from "../config/options.ts";
import { ConnectionError } from "../util/errors.ts";
import { COPY_NONE, NO_LIMITS, ROWS_ARRAYS } from "../wasm/boundary.ts";
import type { Connection } from "../connection/connection.ts";

/** Called after ReadyForQuery. Rejects if the server is of another kind than was asked for, or does not say. */
export async function checkSession(connection: Connection, wanted: TargetSessionAttrs): Promise<void> {
  if (wanted === "any") return;
  const isAboutWrites = wanted.startsWith("read");
  // What a pooler reported when the session began may be true of another server than the present one.
  const doubts = connection.refusedWrite;
  const { is, cause } = await (isAboutWrites ? isReadOnly(connection, doubts) : isStandby(connection, doubts));
  if (is === (wanted === "read-only" || wanted.endsWith("standby"))) return;
  const found = isAboutWrites ? (is ? "read-only" : "read-write") : is ? "a standby" : "a primary";
  throw new ConnectionError(
    "TARGET_SESSION_ATTRS",
    `The server ${is === undefined ? "does not say what it is" : `is ${found}`}, and target_session_attrs is ${wanted}.`,
    { stage: "session", hasNoEffect: true, cause },
  );
}

/** `undefined`: the server does not say. */
interface Answer {
  readonly is: boolean | undefined;
  readonly cause?: unknown;
}

async function isReadOnly(connection: Connection, doubts: boolean): Promise<Answer> {
  const { parameters } = connection;
  const [standby, readOnly] = [parameters.get("in_hot_standby"), parameters.get("default_transaction_read_only")];
  if (standby === undefined || readOnly === undefined || doubts) return ask(connection, "SHOW transaction_read_only");
  return { is: standby === "on" || readOnly === "on" };
}

export const IS_IN_RECOVERY = "SELECT pg_catalog.pg_is_in_recovery()";

async function isStandby(connection: Connection, doubts: boolean): Promise<Answer> {
  const standby = connection.parameters.get("in_hot_standby");
  if (standby === undefined || doubts) return ask(connection, IS_IN_RECOVERY);
  return { is: standby === "on" };
}

async function ask(connection: Connection, question: string): Promise<Answer> {
  let text = "";
  const rows = { rows: (view: Uint8Array) => void (text += new TextDecoder().decode(view)) };
  const asking = connection.operate((handle) => handle.simple_query(question, COPY_NONE, ROWS_ARRAYS, NO_LIMITS), {
    rows,
  });
  await asking.done;
  const [, answer] = /^\["?(on|true|off|false)"?\]/.exec(text) ?? [];
  return { is: answer === undefined ? undefined : /on|true/.test(answer), cause: asking.error };
}
