// Asks a server's catalog, on a call's connection, for types and names that are not known yet.
//
// Knows how a question of the driver's own travels and what its failure means. Must not know the questions
// (catalog.ts).
import type { Connection } from "../connection/connection.ts";
import type { Catalog } from "../server/catalog.ts";
import { ProtocolError, UsageError, type PgzError } from "../util/errors.ts";
import type { ValuePolicy } from "../values/converters.ts";
import { COPY_NONE, NO_LIMITS, ROWS_ARRAYS, type Column } from "../wasm/boundary.ts";
import { mayAskAgain } from "./again.ts";
import type { AnyCall } from "./call.ts";

/**
 * Learns the definitions of these columns' types; `false` if the call ended meanwhile. Costs one flight if the catalog
 * must be asked.
 */
export async function learnTypes(
  call: AnyCall,
  connection: Connection,
  catalog: Catalog,
  columns: readonly Column[],
): Promise<boolean> {
  const question = catalog.question(columns);
  if (question === undefined) return true;
  const error = await ask<never[] | null>(call, connection, question, (answer) => catalog.learn(columns, answer ?? []));
  if (call.finished) return false;
  if (!error) return true;
  // A server without such a catalog: its types stay text. A cancel, a timeout or a lock does not show that, and would
  // make them text for good.
  if (connection.transactionStatus === "E" || !/^(0A|42|XX|PROTOCOL)/.test(error.code)) throw error;
  catalog.learnNothing(columns);
  return true;
}

/**
 * Resolves the parsers' names to types; `false` if the call ended meanwhile. Costs one flight if the catalog has not
 * been asked yet.
 */
export async function learnNames(
  call: AnyCall,
  connection: Connection,
  catalog: Catalog,
  policy: ValuePolicy | undefined,
): Promise<boolean> {
  const parsers = policy?.parsers;
  if (!parsers) return true;
  const question = catalog.nameQuestion(parsers.keys());
  if (question !== undefined) {
    const error = await ask<Record<string, number | null>>(call, connection, question, (answer) =>
      catalog.learnNames(answer),
    );
    if (call.finished) return false;
    if (error) throw error;
  }
  const unknown = catalog.resolve(parsers);
  if (unknown === undefined) return true;
  throw new UsageError(
    "INVALID_OPTION",
    `Option "types" names "${unknown}", which is no type, or none on the search_path: create it first, or write its schema.`,
  );
}

/**
 * Sends a question of the driver's own, whose answer is one JSON value, and passes the answer to `take`. Returns the
 * error, if there was one.
 */
async function ask<Answer>(
  call: AnyCall,
  connection: Connection,
  question: string,
  take: (answer: Answer) => void,
): Promise<PgzError | undefined> {
  for (;;) {
    const error = await askOnce(call, connection, question, take);
    if (error !== AGAIN) return error;
    await connection.stopping;
    if (call.finished) return undefined;
  }
}

/** A CancelRequest for another call ended the question. */
const AGAIN = Symbol("again");

async function askOnce<Answer>(
  call: AnyCall,
  connection: Connection,
  question: string,
  take: (answer: Answer) => void,
): Promise<PgzError | undefined | typeof AGAIN> {
  let text = "";
  let unreadable: ProtocolError | undefined;
  const complete = () => {
    try {
      take((JSON.parse(text) as [Answer])[0]);
    } catch (cause) {
      unreadable = new ProtocolError("PROTOCOL_VIOLATION", "The catalog's answer cannot be read.", { cause });
    }
  };
  const asking = call.operate(
    connection,
    (handle) => handle.simple_query(question, COPY_NONE, ROWS_ARRAYS, NO_LIMITS),
    {
      rows: { rows: (view) => void (text += new TextDecoder().decode(view)) },
      // With this the rows have been delivered when `complete` is called.
      severalResults: true,
      on: { complete },
    },
  );
  await asking.done;
  // The user did not ask this, so it does not count for observers.
  Object.assign(asking, { rowCount: null, bytes: 0, command: "" });
  if (asking.wasHitByOtherCancel && !call.finished && mayAskAgain(connection.transactionStatus)) return AGAIN;
  return asking.error ?? unreadable;
}
