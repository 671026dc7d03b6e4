// Asks a server's catalog, on a call's connection, for types and names that are not known yet.
//
// Knows how a question of the driver's own travels and what its failure means. Must not know the questions
// (catalog.ts).
import type { Connection } from "../connection/connection.ts";
import { ProtocolError, UsageError, type PgzError } from "../util/errors.ts";
import type { ValuePolicy } from "../values/converters.ts";
import { COPY_NONE, NO_LIMITS, ROWS_ARRAYS, type Column } from "../wasm/boundary.ts";
import type { Definition } from "../wasm/type-definitions.ts";
import { mayAskAgain } from "./again.ts";
import type { AnyCall } from "./call.ts";
import type { Catalog, Typed } from "./catalog.ts";

/**
 * Learns the definitions of these columns' types; `false` if the call ended meanwhile. Costs one flight if the catalog
 * has not been asked yet.
 */
export function learnTypes(
  call: AnyCall,
  connection: Connection,
  catalog: Catalog,
  columns: readonly Column[],
): Promise<boolean> {
  return askTypes(call, connection, catalog, columns, catalog.question(columns));
}

/** The same, even if the catalog has been asked before. */
export function learnTypesAnew(
  call: AnyCall,
  connection: Connection,
  catalog: Catalog,
  columns: readonly Typed[],
): Promise<boolean> {
  return askTypes(call, connection, catalog, columns, catalog.questionAnew(columns));
}

/** A question for types in front of statements whose columns have them, in the same flight. */
export class TypesInFront {
  readonly #catalog: Catalog;
  readonly #columns: readonly Typed[];
  #isAnswered = false;

  private constructor(catalog: Catalog, oids: readonly number[]) {
    this.#catalog = catalog;
    this.#columns = oids.map((typeOid) => ({ typeOid }));
  }

  /**
   * The question has been sent when this returns, and its answer is learned before the first response of the next
   * operation. If there is no answer, those statements ask after they have run. Without parsers this returns no
   * promise, so that what the caller sends at once leaves in the same write: a second write could arrive after the
   * answer, and would cost a round trip. The result is `undefined` if the call ended meanwhile.
   */
  static ask(
    call: AnyCall,
    connection: Connection,
    catalog: Catalog,
    oids: readonly number[],
    policy: ValuePolicy | undefined,
  ): TypesInFront | Promise<TypesInFront | undefined> {
    const types = new TypesInFront(catalog, oids);
    const question = catalog.questionAnew(types.#columns);
    const answered = () => void (types.#isAnswered = true);
    const asking = askTypes(call, connection, catalog, types.#columns, question, answered);
    asking.catch(() => {});
    if (!policy?.parsers) return types;
    // After the answer the parsers' names may mean other types.
    return (async () =>
      (await asking) && (await learnNames(call, connection, catalog, policy)) ? types : undefined)();
  }

  /** Whether the server has just said that the types are made of this definition. */
  include(definition: Definition): boolean {
    return this.#isAnswered && this.#catalog.definitions(this.#columns).includes(definition);
  }
}

async function askTypes(
  call: AnyCall,
  connection: Connection,
  catalog: Catalog,
  columns: readonly Typed[],
  question: string | undefined,
  answered = () => {},
): Promise<boolean> {
  if (question === undefined) return true;
  const error = await ask<never[] | null>(call, connection, question, (answer) => {
    catalog.learn(columns, answer ?? []);
    answered();
  });
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
  throw new UsageError("INVALID_OPTION", `Option "types" names "${unknown}", a type that this database does not have.`);
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
