// Many statements in one pipeline. Those that are not known are described, everything is encoded, and then sent window
// by window while responses arrive. At the end each item has its result, or its error.
//
// Knows shapes, the core's batch and which failures leave nothing behind. Must not know options, sockets or streams.
import type { Operation } from "../connection/operation.ts";
import { nextAfter } from "../session/again.ts";
import type { Call } from "../session/call.ts";
import { learnNames } from "../session/catalog-questions.ts";
import type { Session } from "../session/session.ts";
import type { Shape } from "../server/shapes.ts";
import { putInFront } from "../session/transaction-block.ts";
import { PgzError, type BatchFailure } from "../util/errors.ts";
import { firstWord } from "../util/sql-reader.ts";
import { isUndone } from "../util/statement-words.ts";
import { BATCH_CONTINUES, BATCH_ENDS, BATCH_IS_UNDONE, type CoreConnection } from "../wasm/boundary.ts";
import { mayBeOutdated, OutdatedAttempt, refusesBinary } from "./attempts.ts";
import { encodeBatch, type EncodedBatch } from "./batch-encoding.ts";
import { BatchRun, noteIfUnfinished, type BatchPlan, type Settled } from "./batch-run.ts";
import type { Query } from "./sql.ts";

/** Settles the call with one result per query, in their order. Rejects with the call's error. */
export async function runBatch<Row>(
  call: Call<Settled<Row>[]>,
  session: Session,
  queries: readonly Query[],
  plan: BatchPlan,
): Promise<void> {
  const settled = await new Batch(call, session, queries, plan).run();
  if (settled) call.succeed(settled);
}

class Batch<Row> {
  readonly #call: Call<Settled<Row>[]>;
  readonly #session: Session;
  readonly #queries: readonly Query[];
  readonly #plan: BatchPlan;
  readonly #settled: Settled<Row>[] = [];
  /** The items that have not settled. */
  #waiting: readonly number[];
  #hasRun = false;
  /** The second attempt describes all statements again. */
  #ignoresCache = false;

  constructor(call: Call<Settled<Row>[]>, session: Session, queries: readonly Query[], plan: BatchPlan) {
    this.#call = call;
    this.#session = session;
    this.#queries = queries;
    this.#plan = plan;
    this.#waiting = queries.map((_, index) => index);
  }

  /**
   * Runs the batch with cached descriptions. If they were out of date, runs it once more with new ones from the server.
   * A transaction that was to begin with the first attempt then begins with the second. Resolves with `undefined` if
   * the call ended meanwhile.
   */
  async run(): Promise<Settled<Row>[] | undefined> {
    const first = await this.#attempt();
    if (!(first instanceof OutdatedAttempt)) return first;
    await this.#session.transaction.prepareRepeat(first.operation);
    this.#ignoresCache = true;
    const second = await this.#attempt();
    if (second instanceof OutdatedAttempt) throw second.error;
    return second;
  }

  async #attempt(): Promise<Settled<Row>[] | undefined | OutdatedAttempt> {
    const { connection, catalog, transaction } = this.#session;
    const { atomic, form } = this.#plan;
    const call = this.#call;
    if (!this.#ignoresCache && !(await learnNames(call, connection, catalog, form.policy))) return undefined;
    if (!atomic && !(await transaction.begun(call))) return undefined;
    const known = this.#ignoresCache ? new Map<string, Shape>() : this.#known();
    const shapes = await this.#shapes(known);
    if (!shapes || !(await learnNames(call, connection, catalog, form.policy))) return undefined;
    const described = this.#described(shapes);
    let encoded;
    try {
      encoded = encodeBatch(this.#queries, described, shapes as ReadonlyMap<string, Shape>, (index, error) =>
        this.#refuseValue(index, error),
      );
    } catch (error) {
      if (this.#ignoresCache) throw error;
      return new OutdatedAttempt(error);
    }
    if (call.finished) return undefined; // a value's toJSON may abort
    if (!encoded.order.length) return this.#settled;
    return this.#execute(encoded, known);
  }

  /** The cached shapes of the waiting items' statements. */
  #known(): Map<string, Shape> {
    const known = new Map<string, Shape>();
    for (const index of this.#waiting) {
      const { text } = this.#queries[index]!;
      const shape = this.#session.statements.known(text);
      if (shape) known.set(text, shape);
    }
    return known;
  }

  /**
   * The shapes of all waiting items; asks the server for those that are not cached. Resolves with `undefined` if the
   * call ended meanwhile.
   */
  async #shapes(known: ReadonlyMap<string, Shape>): Promise<ReadonlyMap<string, Shape | PgzError> | undefined> {
    const shapes = new Map<string, Shape | PgzError>(known);
    const texts = new Set(this.#waiting.map((index) => this.#queries[index]!.text));
    const unknown = [...texts].filter((text) => !known.has(text));
    const learned = await this.#session.statements.prepare(this.#call, unknown);
    learned?.forEach((shape, at) => shapes.set(unknown[at]!, shape));
    return learned && shapes;
  }

  /**
   * The waiting items whose statements the server has described. Any other item has failed: alone, or with all of an
   * atomic batch.
   */
  #described(shapes: ReadonlyMap<string, Shape | PgzError>): number[] {
    return this.#waiting.filter((index) => {
      const shape = shapes.get(this.#queries[index]!.text);
      if (shape instanceof PgzError) this.#refuse(index, shape);
      return !(shape instanceof PgzError);
    });
  }

  #refuse(index: number, error: unknown): void {
    if (this.#plan.atomic) throw failedAt(error as PgzError, index, [], this.#queries.length);
    this.#settled[index] = { status: "rejected", reason: error };
  }

  /**
   * Refuses a value that cannot be sent. As long as nothing has run, the whole batch fails; afterwards only the item.
   */
  #refuseValue(index: number, error: unknown): void {
    if (this.#hasRun) this.#refuse(index, error);
    else throw failedAt(error as PgzError, index, [], this.#queries.length);
  }

  async #execute(
    encoded: EncodedBatch,
    known: ReadonlyMap<string, Shape>,
  ): Promise<Settled<Row>[] | undefined | OutdatedAttempt> {
    const { catalog, statements, transaction } = this.#session;
    const place = transaction.placeOf(this.#call);
    const run = new BatchRun<Row>(encoded, this.#plan, statements.handlers, catalog);
    this.#hasRun = true;
    const { error } = await this.#send(encoded, run);
    const refused = [...encoded.numbers.keys()].filter(
      (at) => refusesBinary(run.failure(at)) && statements.refuseBinary(encoded.statements[encoded.numbers[at]!]!),
    );
    if (this.#call.finished) return undefined;

    const outdated = [
      ...refused,
      ...run.unbound.filter((at) => mayBeOutdated(run.failure(at), known.has(this.#queries[encoded.order[at]!]!.text))),
    ];
    const from = run.repeatableFrom(outdated[0]);
    const effect = from === undefined ? "unknown" : "undone";
    const attempt = { effect, place, userHasRows: false, repeats: this.#ignoresCache ? 1 : 0, most: 1 } as const;
    if (from === undefined || nextAfter("outdated", attempt) === "fail") {
      this.#forget(encoded, outdated);
      if (error) throw failedAt(error, encoded.order[run.ended], run.commands, this.#queries.length);
      run.settle(this.#settled, place);
      return this.#settled;
    }
    run.settle(this.#settled, place);
    for (const shape of encoded.statements) statements.forget(shape);
    if (!this.#plan.atomic && from > 0) this.#call.reaches("commits");
    this.#waiting = encoded.order.slice(from);
    return new OutdatedAttempt(run.failure(outdated[0]!), run.operation);
  }

  /**
   * A statement that is not repeated here is at least described again by the next call. Otherwise it would fail
   * forever.
   */
  #forget({ statements, numbers }: EncodedBatch, outdated: readonly number[]): void {
    for (const at of outdated) {
      const shape = statements[numbers[at]!]!;
      this.#session.statements.forget(shape);
      this.#session.statements.forgetShape(shape.sql);
    }
  }

  /** Sends the whole batch, and waits for the last response. */
  async #send({ windows, statements }: EncodedBatch, run: BatchRun<Row>): Promise<Operation> {
    const { connection, transaction } = this.#session;
    const { atomic, form } = this.#plan;
    const call = this.#call;
    const known = this.#session.statements;
    const last = windows.length - 1;
    const endsAlone = atomic && transaction.place === "alone";
    const { preludes } = transaction;
    const types = statements.flatMap((shape) => shape.types);
    const command = (handle: CoreConnection) => {
      putInFront(handle, preludes);
      known.define(handle, types);
      handle.batch(!atomic, form.code, form.limits);
      for (const shape of statements) known.addToBatch(handle, shape, call);
      return handle.batch_items(windows[0]!, last ? BATCH_CONTINUES : BATCH_ENDS);
    };
    const operation = transaction.carried(call.operate(connection, command, run.conversation));
    run.operation = operation;
    let isWhole = last === 0;
    const mayBeUndone = endsAlone && statements.every(({ sql }) => isUndone(firstWord(sql)));
    if (endsAlone) noteIfUnfinished(call, operation, () => mayBeUndone && !isWhole);
    for (let at = 1; at <= last; at++) {
      await connection.written;
      if (operation.ended) break;
      const over = call.finished || operation.error;
      // What was sent already must not be committed at the end.
      const items = over ? new Uint8Array() : windows[at]!;
      const end = over ? BATCH_IS_UNDONE : at < last ? BATCH_CONTINUES : BATCH_ENDS;
      isWhole = end === BATCH_ENDS;
      connection.command((handle) => handle.batch_items(items, end));
      if (over) break;
    }
    call.sent(0);
    await operation.done;
    return operation;
  }
}

/**
 * Adds to the error what the failure of an item did to the others. An item that ended a transaction by itself has
 * committed the items before it.
 */
function failedAt(error: PgzError, index: number | undefined, commands: readonly string[], count: number): PgzError {
  const { length } = commands;
  const all = [...Array(count).keys()];
  const skipped = index === undefined ? [] : all.slice(length).filter((number) => number !== index);
  const batch: BatchFailure = { index, rolledBack: all.slice(commands.lastIndexOf("COMMIT") + 1, length), skipped };
  return Object.assign(error, { batch });
}
