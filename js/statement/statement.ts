// One statement from its text and values to the end of its result: learn its shape, run it, and once more when what was known is stale.
//
// Knows shapes, parameters and the SQLSTATEs of stale statements and of conflicts. Must not know sockets, or what becomes of the rows.
import { PgzError, PostgresError, ProtocolError, UsageError } from "../util/errors.ts";
import { emit } from "../util/observer.ts";
import { within } from "../util/within.ts";
import type { Query } from "./sql.ts";
import { COLUMNS_KNOWN, COPY_NONE, NO_LIMITS, ROWS_ARRAYS, type CoreConnection } from "../wasm/boundary.ts";
import { catalogOf, define } from "../session/catalog.ts";
import type { Connection } from "../connection/connection.ts";
import type { Parser, ValuePolicy } from "../values/converters.ts";
import type { Form } from "../rows/form.ts";
import { takeColumns, type Operation, type Sink } from "../connection/operation.ts";
import { checkCount, encodedStatement, encodeParameters } from "../values/parameters.ts";
import { connectionLost } from "../sockets/contract.ts";
import { newShapeId, serverKey, shapes, type LearnedShape, type Shape } from "../session/shapes.ts";

/** The call that the statement is for. */
export interface Caller {
  readonly finished: boolean;
  readonly promise: Promise<unknown>;
  operate(connection: Connection, command: (handle: CoreConnection) => number, sink?: Sink): Operation;
}

/** `sink` gives a new one for each run: a second run starts from nothing. A transaction that waits to begin (`connection.begin`) does so in the flight. The ended operation, or `undefined` when the call was over before. Rejects with what the call is to reject with. */
export async function execute(
  call: Caller, connection: Connection, query: Query, { form, limits, policy }: Pick<Form, "form" | "limits" | "policy">, sink: () => Sink,
): Promise<Operation | undefined> {
  const { text, values } = query;
  checkCount(values);
  const server = serverKey(connection.config);
  /** What went wrong the first time, by what was known then. */
  let before: { readonly shape: Shape; readonly error: unknown; readonly prepared: boolean } | undefined;
  let begin: string | undefined;
  let attempt = 0;
  for (;;) {
    const known = before ? undefined : cached(server, text);
    const shape = known ?? (await learn(call, connection, server, text));
    if (!shape || (policy?.parsers && !(await knowsNames(call, connection, policy)))) return undefined;
    // Learned anew it is what it was, so it was not to blame; unless a prepared statement was, lost or made for other types.
    if (before?.shape === shape && !before.prepared && !isStale(before.error)) throw before.error;

    const { id, types } = shape;
    let parameters;
    try {
      parameters = encodeParameters(values, shape.parameterTypes);
    } catch (error) {
      if (!known) throw error;
      before = { shape, error, prepared: false };
      continue;
    }
    if (call.finished) return undefined; // a value's toJSON may abort
    const prepared = connection.executed.has(id);
    connection.executed.add(id);
    const outsideTransaction = connection.transactionStatus === "I";
    if (outsideTransaction) begin ??= connection.begin;
    const to = sink();
    let columns = connection.columns.get(id);
    try {
      if (columns) takeColumns(to, columns);
    } catch {
      // Their names clash, and may have been changed since: the server is asked again.
      columns = undefined;
    }
    const operation = call.operate(connection, (handle) => {
      if (begin) handle.prelude(begin);
      if (types.length) define(handle, connection.types, types);
      return handle.execute(id, encodedStatement(shape), parameters, columns ? form | COLUMNS_KNOWN : form, limits);
    }, to);
    // Cut off by a limit, the output is whole whatever becomes of the connection.
    try {
      await operation.done;
    } catch (lost) {
      if (!operation.truncated) throw lost;
    }
    const { error, bound } = operation;
    if (error?.code === "SHAPE_CHANGED") shapes.forget(server, text);
    // It has begun, even if the statement ended it: COMMIT and ROLLBACK do.
    if (begin && !error) connection.begin = undefined;
    if (begin && error) connection.beginFailed = true;
    if (call.finished) return undefined;
    if (!error) return operation;
    if (outsideTransaction && !begin && !operation.committed && isConflict(error) && !COMMITS.test(text) && ++attempt < attemptsOf(connection.config.retryOnSerialization)) {
      await pauseAfter(attempt, error, connection, call.promise);
      if (call.finished) return undefined;
      continue;
    }
    // Behind BindComplete something may have run, and been committed (DO and CALL can); before it nothing has.
    if (bound || before || !(isStale(error) || (known && mayBeTheShape(error)))) throw error;
    connection.forget(id);
    if (!outsideTransaction) {
      shapes.forget(server, text);
      throw error;
    }
    if (begin) {
      await rollBack(connection);
      if (connection.closed) throw connection.closed;
      connection.begin = begin;
    }
    before = { shape, error, prepared };
  }
}

/** How often something is tried, the first time included. */
export function attemptsOf(retry: boolean | number | undefined): number {
  return retry === true ? 3 : retry || 1;
}

/** The server has rolled back all of it, so that trying again may help. */
export function isConflict(error: unknown): error is PgzError {
  return error instanceof PgzError && /^40(001|P01)$/.test(error.code);
}

/** Statements that may have committed a part of what they did before they failed. */
const COMMITS = /^(?:\s|--.*\n|\/\*[^]*?\*\/)*(?:call|do)\b/i;

/** Milliseconds between two attempts, and as much again at random. */
const LONGEST_PAUSE = 500;

/** Tells of the next attempt and waits for its time, or until `over` settles. Throws when the connection is gone then. */
export async function pauseAfter(attempt: number, error: PgzError, connection: Connection, over: Promise<unknown>): Promise<void> {
  const delayMs = Math.min(10 * 2 ** (attempt - 1), LONGEST_PAUSE) * (1 + Math.random());
  emit(connection.config.observer, "onRetry", { attempt, delayMs, error });
  await within(delayMs, over.catch(() => {}));
  if (connection.closed) throw connection.closed;
}

/** Begins the transaction that waits to begin, for what has no flight for it; `false` when the call was over before. */
export async function begun(call: Caller, connection: Connection): Promise<boolean> {
  const { begin } = connection;
  if (begin === undefined) return !call.finished;
  const operation = call.operate(connection, plainly(begin));
  await operation.done;
  if (call.finished) return false;
  if (!operation.error) return true;
  connection.beginFailed = true;
  throw operation.error;
}

/** Statements of our own, of which nobody wants rows. */
export function plainly(text: string): (handle: CoreConnection) => number {
  return (handle) => handle.simple_query(text, COPY_NONE, 0, NO_LIMITS);
}

/** Within the bound that holds behind an abort too; who cannot roll back has no connection any more. Never rejects. */
export async function rollBack(connection: Connection): Promise<void> {
  if (connection.closed || connection.transactionStatus === "I") return;
  const ending = connection.operate(plainly("ROLLBACK"));
  connection.abandon(ending, false);
  await ending.cleanup;
  if (connection.transactionStatus !== "I") connection.destroy(connectionLost("its transaction could not be rolled back"));
}

/** What the isolate knows of the statement, or what the server says now; `undefined` when the call was over before. */
export async function describe(call: Caller, connection: Connection, text: string): Promise<Shape | undefined> {
  const server = serverKey(connection.config);
  return cached(server, text) ?? learn(call, connection, server, text);
}

/** The same, asked on this connection. */
export function learnHere(call: Caller, connection: Connection, text: string): Promise<Shape | undefined> {
  return learn(call, connection, serverKey(connection.config), text);
}

/** What is known of a statement, unless a type that it returns has turned out to be another by now. */
function cached(server: string, text: string): Shape | undefined {
  const shape = shapes.get(server, text);
  return shape?.types.length && !catalogOf(server).knows(shape.types) ? undefined : shape;
}

/** Asks the server for the statement's types; `undefined` when the call was over before. */
async function learn(call: Caller, connection: Connection, server: string, text: string): Promise<Shape | undefined> {
  const [shape] = (await learnAll(call, connection, server, [text])) ?? [];
  if (shape instanceof PgzError) throw shape;
  return shape;
}

/**
 * The same for any number of statements, in one flight (and one more for types of the database's own): a shape for each, or what was wrong with it.
 * `named`: they stay prepared.
 */
async function learnAll(call: Caller, connection: Connection, server: string, texts: readonly string[], named = false): Promise<(Shape | PgzError)[] | undefined> {
  const learning = texts.map((text) => {
    const id = cached(server, text)?.id ?? newShapeId();
    // A statement that is there already would tell of what was, not of what is.
    if (named) connection.forget(id);
    // Many at once: their answers may fill what lies between us before all of them have left.
    return { text, id, operation: call.operate(connection, (handle) => handle.describe(text, named ? id : 0), { duplex: true }) };
  });
  for (const { operation } of learning) await operation.done;
  const learned: (Shape | PgzError)[] = [];
  for (const { text, id, operation } of learning) {
    if (call.finished) return undefined;
    const found = operation.error ?? (await withTypes(call, connection, server, operation.shape!));
    if (!found) return undefined;
    const shape = found instanceof PgzError ? found : shapes.put(server, text, found, id);
    if (named && shape instanceof PgzError === false && shape.id !== id) connection.forget(id);
    learned.push(shape);
  }
  return learned;
}

/** What the isolate knows of these statements (`known`), or the server says now, under names that are there already then. `undefined` when the call was over before. */
export async function shapesOf(call: Caller, connection: Connection, texts: Iterable<string>, anew = false): Promise<{ found: Map<string, Shape | PgzError>; known: Set<string> } | undefined> {
  const server = serverKey(connection.config);
  const found = new Map<string, Shape | PgzError>();
  const unknown: string[] = [];
  for (const text of texts) {
    const shape = anew ? undefined : cached(server, text);
    if (shape) found.set(text, shape);
    else unknown.push(text);
  }
  const known = new Set(found.keys());
  const learned = await learnAll(call, connection, server, unknown, true);
  learned?.forEach((shape, index) => found.set(unknown[index]!, shape));
  return learned && { found, known };
}

/** The shape with what its columns' own types are made of, and binary wherever they can be read then. One more flight when nobody has asked yet. */
async function withTypes(call: Caller, connection: Connection, server: string, shape: LearnedShape): Promise<LearnedShape | undefined> {
  const { columns } = shape;
  const catalog = catalogOf(server);
  const question = catalog.question(columns);
  if (question !== undefined) {
    const error = await ask<never[] | null>(call, connection, question, (answer) => catalog.learn(columns, answer ?? []));
    if (call.finished) return undefined;
    if (error) {
      // A server without such a catalog: its types stay text. A cancel, a timeout or a lock says nothing of it, and would make them text for good.
      if (connection.transactionStatus === "E" || !/^(0A|42|XX|PROTOCOL)/.test(error.code)) throw error;
      catalog.learn(columns, []);
    }
  }
  const types = catalog.definitions(columns);
  if (!types.length) return shape;
  const resultFormats = connection.core.call((handle) => {
    define(handle, connection.types, types);
    return columns.map(({ typeOid }) => handle.result_format(typeOid));
  });
  return { ...shape, resultFormats, types };
}

/** Whether the parsers' names are known as types by now; `false` when the call was over before. One more flight when nobody has asked yet. */
export async function knowsNames(call: Caller, connection: Connection, policy: ValuePolicy | undefined): Promise<boolean> {
  const parsers = policy?.parsers;
  if (!parsers) return true;
  const catalog = catalogOf(serverKey(connection.config));
  const question = catalog.nameQuestion(parsers.byName.keys());
  if (question !== undefined) {
    const error = await ask<Record<string, number | null>>(call, connection, question, (answer) => catalog.learnNames(answer));
    if (call.finished) return false;
    if (error) throw error;
  }
  const byOid = new Map<number, Parser>();
  for (const [name, parser] of parsers.byName) {
    const oid = catalog.oid(name);
    if (oid === undefined) throw new UsageError("INVALID_OPTION", `Option "types" names "${name}", a type that this database does not have.`);
    byOid.set(oid, parser);
  }
  parsers.byOid = byOid;
  return true;
}

/** Hands on what the server says to a question of ours whose answer is one value of JSON; or what was wrong with it. */
async function ask<Answer>(call: Caller, connection: Connection, question: string, take: (answer: Answer) => void): Promise<PgzError | undefined> {
  let text = "";
  const rows = (view: Uint8Array) => void (text += new TextDecoder().decode(view));
  const asking = call.operate(connection, (handle) => handle.simple_query(question, COPY_NONE, ROWS_ARRAYS, NO_LIMITS), { rows });
  await asking.done;
  // Not what the user asked: it counts for no observer.
  Object.assign(asking, { rowCount: null, bytes: 0, command: "" });
  if (asking.error || call.finished) return asking.error;
  try {
    take((JSON.parse(text) as [Answer])[0]);
  } catch (cause) {
    return new ProtocolError("PROTOCOL_VIOLATION", "The catalog's answer cannot be read.", { cause });
  }
  return undefined;
}

/** Names, types and values that the server refused, and what it could not look up. Not timeouts, locks or a server that goes: again would only take longer. */
export function mayBeTheShape(error: unknown): boolean {
  return error instanceof PostgresError && /^(22|42|XX)/.test(error.code);
}

/** The server no longer has, or no longer accepts, what was prepared. */
export function isStale(error: unknown): boolean {
  if (!(error instanceof PostgresError)) return false;
  const { code, routine } = error;
  // Other 0A000 and 08P01 are the user's own; these two are "cached plan must not change result type", and formats for columns that are no more.
  if (code === "0A000") return routine === "RevalidateCachedQuery";
  if (code === "08P01") return routine === "PortalSetResultFormat";
  return code === "26000" || code === "42P05";
}
