// Many statements in one pipeline: what is unknown of them is learned, all of it encoded, then sent window by window while answers come;
// in the end each item has its result, or what went wrong with it.
//
// Knows shapes, parameters, the core's batch and which failures leave nothing behind. Must not know options, sockets or streams.
import { PgzError } from "../util/errors.ts";
import { PIECE } from "../util/limits.ts";
import type { Query } from "./sql.ts";
import { ROWS_COLUMNS, type Column } from "../wasm/boundary.ts";
import { joined } from "../util/bytes.ts";
import type { Call } from "../session/call.ts";
import { decoderOf, joinedRows } from "../rows/collect.ts";
import type { Connection } from "../connection/connection.ts";
import { define } from "../session/catalog.ts";
import type { ValueForm } from "../rows/form.ts";
import type { RowDecoder, RowMode } from "../values/objects.ts";
import type { Operation, Sink } from "../connection/operation.ts";
import { appendParameters, Block, encodedStatement } from "../values/parameters.ts";
import { serverKey, shapes as shapeCache, type Shape } from "../session/shapes.ts";
import { begun, isStale, knowsNames, mayBeTheShape, rollBack, shapesOf } from "./statement.ts";

/** What became of one item. */
export interface BatchItem<Row> {
  readonly command: string;
  readonly rowCount: number | null;
  readonly rows?: Row[];
  readonly fields?: readonly Column[];
  readonly bytes?: Uint8Array<ArrayBuffer>;
}

/** Which item of an atomic batch failed, and what became of the others. Items are numbered from 0. */
export interface BatchFailure {
  /** The item that failed; `undefined` if all items ran and the commit failed. */
  readonly index: number | undefined;
  /** The items that had run and were undone. */
  readonly rolledBack: readonly number[];
  /** The items that never ran. */
  readonly skipped: readonly number[];
}

export interface BatchPlan {
  readonly atomic: boolean;
  readonly form: ValueForm;
  readonly mode: RowMode;
}

type Settled<Row> = PromiseSettledResult<BatchItem<Row>>;

/** Settles the call with one result per query, in their order. Rejects with what it is to reject with. */
export async function runBatch<Row>(call: Call<Settled<Row>[]>, connection: Connection, queries: readonly Query[], plan: BatchPlan): Promise<void> {
  const { atomic, form } = plan;
  const settled: Settled<Row>[] = [];
  const reject = (index: number, reason: unknown) => void (settled[index] = { status: "rejected", reason });
  let waiting = queries.map((_, index) => index);
  let begin: string | undefined;
  let ran = false;
  for (let anew = false; ; anew = true) {
    if (!atomic && !(await begun(call, connection))) return;
    const texts = new Set(waiting.map((index) => queries[index]!.text));
    const shapes = await shapesOf(call, connection, texts, anew);
    if (!shapes || !(await knowsNames(call, connection, form.policy))) return;
    const { found, known } = shapes;
    const order = waiting.filter((index) => {
      const shape = found.get(queries[index]!.text);
      if (!(shape instanceof PgzError)) return true;
      if (atomic) throw failedAt(shape, index, [], queries.length);
      reject(index, shape);
      return false;
    });
    let encoded: Encoded;
    try {
      // Once some have run, a value is its item's matter alone.
      encoded = encode(queries, order, found as Map<string, Shape>, !atomic && ran ? reject : undefined);
    } catch (error) {
      if (anew) throw error;
      continue;
    }
    ran = true;
    if (call.finished) return; // a value's toJSON may abort
    if (!encoded.order.length) return call.succeed(settled);
    const outsideTransaction = connection.transactionStatus === "I";
    if (outsideTransaction) begin ??= connection.begin;

    const run = newRun<Row>(encoded, plan);
    const { error } = await send(call, connection, run, encoded, begin, plan);
    if (error?.code === "SHAPE_CHANGED") for (const { sql } of encoded.statements) shapeCache.forget(serverKey(connection.config), sql);
    if (begin && !error) connection.begin = undefined;
    if (begin && error) connection.beginFailed = true;
    if (call.finished) return;

    const outdated = run.outdated((index) => known.has(queries[index]!.text));
    const from = outsideTransaction && !anew ? run.again(outdated) : undefined;
    // What is not run again here is at least learned anew by the next call, else that would fail for ever.
    if (from === undefined) for (const at of outdated) {
      const { id, sql } = encoded.statements[encoded.numbers[at]!]!;
      connection.forget(id);
      shapeCache.forget(serverKey(connection.config), sql);
    }
    if (from === undefined && error) throw failedAt(error, run.failedIndex(), run.commands, queries.length);
    run.settle(settled);
    if (from === undefined) return call.succeed(settled);
    for (const { id } of encoded.statements) connection.forget(id);
    waiting = encoded.order.slice(from);
    if (begin) {
      await rollBack(connection);
      if (connection.closed) throw connection.closed;
      connection.begin = begin;
    }
  }
}

/** The whole of it, from the first window to the last answer. */
async function send<Row>(call: Call<Settled<Row>[]>, connection: Connection, run: Run<Row>, { windows, statements }: Encoded, begin: string | undefined, { atomic, form }: BatchPlan): Promise<Operation> {
  const last = windows.length - 1;
  const operation = (run.operation = call.operate(connection, (handle) => {
    if (begin) handle.prelude(begin);
    const types = statements.flatMap((shape) => shape.types);
    if (types.length) define(handle, connection.types, types);
    handle.batch(!atomic, form.form, form.limits);
    for (const shape of statements) {
      connection.executed.add(shape.id);
      handle.batch_statement(shape.id, encodedStatement(shape));
    }
    return handle.batch_items(windows[0]!, last ? 0 : 1);
  }, run.sink));
  for (let at = 1; at <= last; at++) {
    await connection.written;
    if (operation.ended) break;
    const over = call.finished || operation.error;
    // What has left already must not be committed by it.
    connection.command((handle) => handle.batch_items(over ? new Uint8Array() : windows[at]!, over ? 2 : at < last ? 0 : 1));
    if (over) break;
  }
  await operation.done;
  return operation;
}

interface Encoded {
  /** The items in it. */
  readonly order: readonly number[];
  /** For each of them the number of its statement. */
  readonly numbers: readonly number[];
  /** Items in the form of the core's `batch_items`, whole ones in each. */
  readonly windows: readonly Uint8Array[];
  /** By their numbers in the batch. */
  readonly statements: readonly Shape[];
}

/** All of it before anything is sent, so that a value that cannot be sent has undone nothing. */
function encode(queries: readonly Query[], indexes: readonly number[], shapes: ReadonlyMap<string, Shape>, refuse?: (index: number, reason: unknown) => void): Encoded {
  const order: number[] = [];
  const numbers: number[] = [];
  const windows: Uint8Array[] = [];
  const statements = new Map<Shape, number>();
  let block = new Block();
  const leave = () => void windows.push(block.bytes.subarray(0, block.length));
  for (const index of indexes) {
    const { text, values } = queries[index]!;
    const shape = shapes.get(text)!;
    let number = statements.get(shape);
    if (number === undefined) statements.set(shape, (number = statements.size));
    const start = block.reserve(8);
    try {
      appendParameters(block, values, shape.parameterTypes);
    } catch (error) {
      if (!refuse) throw failedAt(error as PgzError, index, [], queries.length);
      refuse(index, error);
      block.length = start;
      continue;
    }
    order.push(index);
    numbers.push(number);
    block.view.setUint32(start, number);
    block.view.setUint32(start + 4, block.length - start - 8);
    if (block.length < PIECE) continue;
    leave();
    block = new Block();
  }
  if (block.length || !windows.length) leave();
  return { order, numbers, windows, statements: [...statements.keys()] };
}

interface Ended {
  readonly command: string;
  readonly rowCount: number | null;
}

/** One way through the pipeline. */
interface Run<Row> {
  /** Is told of it. */
  readonly sink: Sink;
  operation: Operation | undefined;
  /** Of items that are over, in their order. */
  readonly commands: readonly string[];
  /** Of an atomic batch. */
  failedIndex(): number | undefined;
  /** Those that failed by what was known of them, which may be out of date. */
  outdated(known: (index: number) => boolean): number[];
  /** From which of its items on the run may be repeated with what the server says now: nothing of them has left a trace. */
  again(outdated: readonly number[]): number | undefined;
  /** Hands each item its part. */
  settle(settled: Settled<Row>[]): void;
}

function newRun<Row>({ order, numbers }: Encoded, { atomic, form, mode }: BatchPlan): Run<Row> {
  const commands: string[] = [];
  const ends: (PgzError | Ended)[] = [];
  const counts: number[] = [];
  /** Failed before they were bound, so that nothing of them ran. */
  const unbound = new Set<number>();
  /** What the first item of a statement failed with before it was bound. */
  const unparsed = new Map<number | undefined, PgzError>();
  const fields: (readonly Column[])[] = [];
  const decoders: RowDecoder[] = [];
  const batches: Row[][] = [];
  const pieces: Uint8Array[] = [];
  const isValues = (form.form & 0xff) === ROWS_COLUMNS;
  let decode: RowDecoder | undefined;
  let failure: PgzError | undefined;
  const sink: Sink = {
    duplex: true,
    isolated: !atomic,
    unique: form.unique,
    items(outcomes) {
      for (let at = 0; at < outcomes.length; at += 3) {
        const command = outcomes[at] as string | null;
        counts.push(outcomes[at + 2] as number);
        if (command === null) continue;
        ends.push({ command, rowCount: outcomes[at + 1] as number | null });
        commands.push(command);
      }
    },
    /** Behind an outcome without a command. */
    failed(error) {
      const at = ends.length;
      let reason;
      if (!run.operation!.bound) {
        unbound.add(at);
        // Nothing of it has run.
        if (isStale(error)) Object.assign(error, { retryable: true });
        else unparsed.set(numbers[at], error);
      }
      // Where a Parse has failed, what follows lacks the statement for the same reason.
      if (isStale(error)) reason = unparsed.get(numbers[at]);
      ends.push(reason ?? error);
      if (atomic) failure = error;
      return !atomic;
    },
    columns(columns) {
      const statement = numbers[ends.length]!;
      fields[statement] = columns;
      if (isValues) decode = decoders[statement] = decoderOf(columns, form, mode);
    },
    switched: (statement) => void (decode = decoders[statement]),
    rows: (view) => void (decode ? batches.push(decode(view) as Row[]) : pieces.push(view.slice())),
  };
  const run: Run<Row> = {
    sink,
    operation: undefined,
    commands,
    failedIndex: () => order[ends.length - 1],
    outdated: (known) => [...unbound].filter((at) => isStale(ends[at]) || (known(order[at]!) && mayBeTheShape(ends[at]))),
    again([from]) {
      // Its effects are gone with the transaction.
      const isUndone = (command: string) => /^(SELECT|INSERT|UPDATE|DELETE|MERGE|)$/.test(command);
      if (from === undefined) return undefined;
      if (failure) return commands.every(isUndone) ? 0 : undefined;
      // Those behind it must not have run: what they did could not be done after it.
      return ends.every((_, at) => at < from || unbound.has(at)) ? from : undefined;
    },
    settle(settled) {
      const rows = joinedRows(batches);
      const bytes = joined(pieces);
      let from = 0;
      ends.forEach((end, at) => {
        const first = from;
        from += counts[at]!;
        if (end instanceof PgzError) return void (settled[order[at]!] = { status: "rejected", reason: end });
        settled[order[at]!] = { status: "fulfilled", value: resultOf(end, fields[numbers[at]!] ?? [], first) };
      });
      // Property by property: an object of two spread ones costs more than all else of an item.
      function resultOf(end: Ended, fields: readonly Column[], first: number): BatchItem<Row> {
        const { command, rowCount } = end;
        if (!form.form) return end;
        if (isValues) return { rows: rows.slice(first, from), rowCount, command, fields };
        return { bytes: bytes.slice(first, from), rowCount, command, fields };
      }
    },
  };
  return run;
}

/** An item that ended a transaction by itself has committed those before it. */
function failedAt(error: PgzError, index: number | undefined, commands: readonly string[], count: number): PgzError {
  const { length } = commands;
  const all = [...Array(count).keys()];
  const skipped = index === undefined ? [] : all.slice(length).filter((number) => number !== index);
  const batch: BatchFailure = { index, rolledBack: all.slice(commands.lastIndexOf("COMMIT") + 1, length), skipped };
  return Object.assign(error, { batch });
}
