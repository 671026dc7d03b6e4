// Many statements in one pipeline: what is unknown of them is learned, all of it encoded, then sent window by window while answers come;
// in the end each item has its result, or what went wrong with it.
//
// Knows shapes, parameters, the core's batch and which failures leave nothing behind. Must not know options, sockets or streams.
import { PgzError } from "../errors.ts";
import type { Query } from "../sql.ts";
import { ROWS_COLUMNS, type Column, type Outcomes } from "./boundary.ts";
import { joined } from "./bytes.ts";
import type { Call } from "./call.ts";
import { decoderOf, joinedRows } from "./collect.ts";
import type { Connection } from "./connection.ts";
import { define } from "./catalog.ts";
import type { ValueForm } from "./form.ts";
import type { RowDecoder, RowMode } from "./objects.ts";
import type { Operation, Sink } from "./operation.ts";
import { appendParameters, Block, declaredTypes } from "./parameters.ts";
import { serverKey, shapes as shapeCache, type Shape } from "./shapes.ts";
import { begun, isStale, knowsNames, mayBeTheShape, rollBack, shapesOf } from "./statement.ts";

/** What became of one item. */
export interface BatchItem<Row> {
  readonly command: string;
  readonly rowCount: number | null;
  readonly rows?: Row[];
  readonly fields?: readonly Column[];
  readonly bytes?: Uint8Array<ArrayBuffer>;
}

/** Which item of an atomic batch failed, and what that did to the others. */
export interface BatchFailure {
  /** From 0; `undefined`: all ran, and then the transaction could not be committed. */
  readonly index: number | undefined;
  /** Those that had run, and have been undone with it. */
  readonly rolledBack: readonly number[];
  /** Those that have not run. */
  readonly skipped: readonly number[];
}

export interface BatchPlan {
  readonly atomic: boolean;
  readonly form: ValueForm;
  readonly mode: RowMode;
}

type Settled<Row> = PromiseSettledResult<BatchItem<Row>>;

/** Bytes of items that leave together. Between two windows answers are read, so neither side waits for the other for ever. */
const WINDOW = 64 << 10;
const NOTHING = new Uint8Array();
/** Their effects are gone with the transaction. */
const UNDONE = /^(SELECT|INSERT|UPDATE|DELETE|MERGE|)$/;

/** Settles the call with one result per query, in their order. Rejects with what it is to reject with. */
export async function runBatch<Row>(call: Call<Settled<Row>[]>, connection: Connection, queries: readonly Query[], plan: BatchPlan): Promise<void> {
  const { atomic, form } = plan;
  const settled: Settled<Row>[] = [];
  let waiting = queries.map((_, index) => index);
  let begin: string | undefined;
  let ran = false;
  for (let anew = false; ; anew = true) {
    if (!atomic && !(await begun(call, connection))) return;
    const texts = new Set(waiting.map((index) => queries[index]!.text));
    const shapes = await shapesOf(call, connection, texts, anew);
    if (!shapes || !(await knowsNames(call, connection, form.policy))) return;
    const order = waiting.filter((index) => {
      const shape = shapes.found.get(queries[index]!.text);
      if (!(shape instanceof PgzError)) return true;
      if (atomic) throw failedAt(shape, index, [], queries.length);
      settled[index] = { status: "rejected", reason: shape };
      return false;
    });
    let encoded: Encoded;
    try {
      // Once some have run, a value is its item's matter alone.
      const refuse = !atomic && ran ? (index: number, reason: unknown) => void (settled[index] = { status: "rejected", reason }) : undefined;
      encoded = encode(queries, order, shapes.found as Map<string, Shape>, refuse);
    } catch (error) {
      if (anew) throw error;
      continue;
    }
    ran = true;
    if (call.finished) return; // a value's toJSON may abort
    if (!encoded.order.length) return call.succeed(settled);
    const outsideTransaction = connection.transactionStatus === "I";
    if (outsideTransaction) begin ??= connection.begin;

    const run = new Run<Row>(encoded.order, encoded, plan);
    const operation = await send(call, connection, run, encoded, begin, plan);
    if (operation.error?.code === "SHAPE_CHANGED") for (const { sql } of encoded.statements) shapeCache.forget(serverKey(connection.config), sql);
    if (begin && !operation.error) connection.begin = undefined;
    if (begin && operation.error) connection.beginFailed = true;
    if (call.finished) return;

    const from = run.again(outsideTransaction && !anew, shapes.known, queries);
    if (from === undefined) {
      if (operation.error) throw failedAt(operation.error, run.failedIndex, run.commands, queries.length);
      run.settle(settled);
      return call.succeed(settled);
    }
    for (const shape of encoded.statements) connection.forget(shape.id);
    run.settle(settled);
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
  const operation = call.operate(connection, (handle) => {
    if (begin) handle.prelude(begin);
    const types = statements.flatMap((shape) => shape.types);
    if (types.length) define(handle, connection.types, types);
    handle.batch(!atomic, form.form, form.limits);
    for (const { id, sql, parameterTypes, resultFormats } of statements) {
      connection.executed.add(id);
      handle.batch_statement(id, sql, declaredTypes(parameterTypes), resultFormats);
    }
    return handle.batch_items(windows[0]!, last === 0 ? 1 : 0);
  }, run.sink);
  run.operation = operation;
  for (let at = 1; at <= last; at++) {
    await connection.written;
    if (operation.ended) break;
    const over = call.finished || operation.error !== undefined;
    // What has left already must not be committed by it.
    connection.command((handle) => handle.batch_items(over ? NOTHING : windows[at]!, over ? 2 : at === last ? 1 : 0));
    if (over) break;
  }
  await operation.done;
  return operation;
}

interface Encoded {
  /** The items in it. */
  readonly order: readonly number[];
  /** Items in the form of the core's `batch_items`, whole ones in each. */
  readonly windows: readonly Uint8Array[];
  /** By their numbers in the batch. */
  readonly statements: readonly Shape[];
  readonly statementOf: ReadonlyMap<number, number>;
}

/** All of it before anything is sent, so that a value that cannot be sent has undone nothing. */
function encode(queries: readonly Query[], order: readonly number[], shapes: ReadonlyMap<string, Shape>, refuse?: (index: number, reason: unknown) => void): Encoded {
  const accepted: number[] = [];
  const windows: Uint8Array[] = [];
  const statements: Shape[] = [];
  const numbers = new Map<Shape, number>();
  const statementOf = new Map<number, number>();
  let block = new Block();
  for (const index of order) {
    const { text, values } = queries[index]!;
    const shape = shapes.get(text)!;
    let number = numbers.get(shape);
    if (number === undefined) numbers.set(shape, (number = statements.push(shape) - 1));
    statementOf.set(index, number);
    accepted.push(index);
    const start = block.reserve(8);
    try {
      appendParameters(block, values, shape.parameterTypes);
    } catch (error) {
      if (!refuse) throw failedAt(error as PgzError, index, [], queries.length);
      refuse(index, error);
      accepted.pop();
      block.length = start;
      continue;
    }
    block.view.setUint32(start, number);
    block.view.setUint32(start + 4, block.length - start - 8);
    if (block.length < WINDOW) continue;
    windows.push(block.bytes.subarray(0, block.length));
    block = new Block();
  }
  if (block.length || !windows.length) windows.push(block.bytes.subarray(0, block.length));
  return { order: accepted, windows, statements, statementOf };
}

/** One way through the pipeline: what its sink is told. */
class Run<Row> {
  readonly sink: Sink;
  operation!: Operation;
  /** Of items that are over, in their order. */
  readonly commands: string[] = [];
  readonly #order: readonly number[];
  readonly #encoded: Encoded;
  readonly #plan: BatchPlan;
  readonly #ends: (PgzError | { readonly command: string; readonly rowCount: number | null })[] = [];
  readonly #counts: number[] = [];
  /** Failed before they were bound, so that nothing of them ran. */
  readonly #unbound = new Set<number>();
  /** What the first item of a statement failed with before it was bound. */
  readonly #unparsed = new Map<number, PgzError>();
  readonly #fields: (readonly Column[])[] = [];
  readonly #decoders: RowDecoder[] = [];
  #decode: RowDecoder | undefined;
  #rows: Row[][] = [];
  #pieces: Uint8Array[] = [];
  #error: PgzError | undefined;

  constructor(order: readonly number[], encoded: Encoded, plan: BatchPlan) {
    this.#order = order;
    this.#encoded = encoded;
    this.#plan = plan;
    this.sink = {
      duplex: true,
      isolated: !plan.atomic,
      unique: plan.form.unique,
      items: (outcomes) => this.#items(outcomes),
      failed: (error) => this.#failed(error),
      columns: (columns) => this.#columns(columns),
      switched: (statement) => void (this.#decode = this.#decoders[statement]),
      rows: (view) => void (this.#decode ? this.#rows.push(this.#decode(view) as Row[]) : this.#pieces.push(view.slice())),
    };
  }

  /** Of an atomic batch. */
  get failedIndex(): number | undefined {
    return this.#order[this.#ends.length - 1];
  }

  get #isValues(): boolean {
    return (this.#plan.form.form & 0xff) === ROWS_COLUMNS;
  }

  #items(outcomes: Outcomes): void {
    for (let at = 0; at < outcomes.length; at += 3) {
      const [command, rowCount, counted] = outcomes.slice(at, at + 3) as [string | null, number | null, number];
      this.#counts.push(counted);
      if (command === null) continue;
      this.#ends.push({ command, rowCount });
      this.commands.push(command);
    }
  }

  /** Behind an outcome without a command. */
  #failed(error: PgzError): boolean {
    const { operation } = this;
    if (!operation.bound) this.#unbound.add(this.#ends.length);
    // Nothing of it has run.
    if (!operation.bound && isStale(error)) Object.assign(error, { retryable: true });
    const statement = this.#encoded.statementOf.get(this.#order[this.#ends.length]!);
    // Where a Parse has failed, what follows lacks the statement for the same reason.
    const reason = (statement !== undefined && isStale(error) && this.#unparsed.get(statement)) || error;
    if (statement !== undefined && !operation.bound && !isStale(error)) this.#unparsed.set(statement, error);
    this.#ends.push(reason);
    if (this.#plan.atomic) this.#error = error;
    return !this.#plan.atomic;
  }

  #columns(columns: readonly Column[]): void {
    const statement = this.#encoded.statementOf.get(this.#order[this.#ends.length]!)!;
    this.#fields[statement] = columns;
    const { form, mode } = this.#plan;
    if (this.#isValues) this.#decode = this.#decoders[statement] = decoderOf(columns, form, mode);
  }

  /** From which of its items on the run may be repeated with what the server says now: nothing of them has left a trace. */
  again(mayRepeat: boolean, known: ReadonlySet<string>, queries: readonly Query[]): number | undefined {
    if (!mayRepeat) return undefined;
    const isOutdated = (at: number) => {
      const error = this.#ends[at];
      return this.#unbound.has(at) && (isStale(error) || (known.has(queries[this.#order[at]!]!.text) && mayBeTheShape(error)));
    };
    if (this.#error) return isOutdated(this.#ends.length - 1) && this.commands.every((command) => UNDONE.test(command)) ? 0 : undefined;
    const from = this.#ends.findIndex((_, at) => isOutdated(at));
    // Those behind it must not have run: what they did could not be done after it.
    return from >= 0 && this.#ends.every((_, at) => at < from || this.#unbound.has(at)) ? from : undefined;
  }

  /** Hands each item its part. */
  settle(settled: Settled<Row>[]): void {
    const rows = joinedRows(this.#rows);
    const bytes = joined(this.#pieces);
    const results = this.#plan.form.form !== 0;
    let at = 0;
    this.#ends.forEach((end, number) => {
      const index = this.#order[number]!;
      const from = at;
      at += this.#counts[number]!;
      if (end instanceof PgzError) {
        settled[index] = { status: "rejected", reason: end };
        return;
      }
      const fields = this.#fields[this.#encoded.statementOf.get(index)!] ?? [];
      const value = !results ? end : this.#isValues ? { rows: rows.slice(from, at), ...end, fields } : { ...end, bytes: bytes.slice(from, at), fields };
      settled[index] = { status: "fulfilled", value };
    });
  }
}

/** An item that ended a transaction by itself has committed those before it. */
function failedAt(error: PgzError, index: number | undefined, commands: readonly string[], count: number): PgzError {
  const numbers = (from: number, to: number) => Array.from({ length: Math.max(to - from, 0) }, (_, at) => from + at);
  const skipped = numbers(commands.length, count).filter((number) => number !== index);
  const batch: BatchFailure = { index, rolledBack: numbers(commands.lastIndexOf("COMMIT") + 1, commands.length), skipped: index === undefined ? [] : skipped };
  return Object.assign(error, { batch });
}
