// An atomic batch in one flight, with statements that have not been described:
//
//   BEGIN item Sync   SAVEPOINT item Sync   …   COMMIT
//
// The server refuses SAVEPOINT outside a transaction. So if BEGIN was not reached, because of a cancel, no later item
// can run by itself. Knows the order of these messages and what their ends mean for the batch. Must not know how one
// item runs as text (first-execution.ts), nor batches of described statements (batch.ts).
import type { Operation, Reached, RowSink } from "../connection/operation.ts";
import { Collector, type ParserNames } from "../rows/collect.ts";
import { checkNames } from "../rows/form.ts";
import type { Call } from "../session/call.ts";
import type { TypesInFront } from "../session/catalog-questions.ts";
import { isPipelinable, type FirstRun } from "../session/first-run.ts";
import { isCitusError, rememberCitus } from "../session/citus.ts";
import { isOdd, noteLoss, noteOddResponse, noteSuccess } from "../session/odd-servers.ts";
import type { Session } from "../session/session.ts";
import type { BoundStatement } from "../session/statements.ts";
import { commit, type Front } from "../session/transaction-block.ts";
import { leavesOutcomeOpen, rolledBack, type PgzError } from "../util/errors.ts";
import { encodeParameters } from "../values/parameters.ts";
import { joined } from "../util/bytes.ts";
import { ROWS_COLUMNS, ROWS_FORMAT, ROWS_NONE, type Column } from "../wasm/boundary.ts";
import { mayBeOutdated, mayBeUnsupported, OutdatedAttempt } from "./attempts.ts";
import { tellIfUnfinished, unread, type BatchItem, type BatchPlan, type Settled } from "./batch-run.ts";
import { FirstExecution } from "./first-execution.ts";
import type { Query } from "./sql.ts";

/** Each item adds messages and a savepoint, so larger batches are better described first. */
const MOST_ITEMS = 25;

/** How an item is sent: as text, or as its known shape says. */
type Item = { readonly first: FirstRun } | { readonly bound: BoundStatement };
export type FirstItems = readonly Item[];

/**
 * The items of a batch that runs this way. `undefined`: the batch must be described first, or all of it is known.
 * `askedTypes`: types of columns that are asked for in front of it.
 */
export function firstItems(
  session: Session,
  queries: readonly Query[],
  plan: BatchPlan,
  askedTypes?: readonly number[],
): FirstItems | undefined {
  const { config, statements, transaction } = session;
  const { atomic, form } = plan;
  if (!atomic || config.firstRun !== "text" || !transaction.isNone || form.limits.length) return undefined;
  if (isOdd(config, "batch")) return undefined;
  if (queries.length > MOST_ITEMS || queries.every(({ text }) => statements.known(text))) return undefined;
  // Behind a COMMIT there would be no transaction for the next item's savepoint.
  if (!queries.every(({ text }) => isPipelinable(text))) return undefined;
  const items: Item[] = [];
  for (const { text, values } of queries) {
    const shape = statements.known(text);
    const first = shape ? undefined : statements.firstRun(text, values, form, askedTypes);
    if (first) items.push({ first });
    else if (shape)
      items.push({ bound: { shape, parameters: encodeParameters(values, shape.parameterTypes).slice() } });
    else return undefined;
  }
  return items;
}

/** One item on the wire. */
interface Sent<Row> {
  readonly operation: Operation;
  /** Whether nothing of it ran, and it may succeed if it is described first. */
  readonly mayBeDescribed: () => boolean;
  /** Resolves with the operation that had the rows. */
  readonly ended: Promise<Operation | undefined>;
  readonly output: Output<Row>;
}

/** Where an item's rows go, and the part of its result that they become. */
interface Output<Row> {
  readonly sink: RowSink;
  take(): Pick<BatchItem<Row>, "rows" | "bytes" | "fields">;
}

function outputOf<Row>({ form, mode }: BatchPlan, catalog: ParserNames): Output<Row> {
  if (form.form === ROWS_NONE) return { sink: { rows: () => {} }, take: () => ({}) };
  if ((form.form & ROWS_FORMAT) === ROWS_COLUMNS) {
    const rows = new Collector<Row>(form, mode, catalog);
    return { sink: rows.sink, take: () => ({ rows: rows.take(), fields: rows.fields }) };
  }
  const pieces: Uint8Array[] = [];
  let fields: readonly Column[] = [];
  const sink: RowSink = {
    columns: (columns) => {
      checkNames(form, columns);
      fields = columns;
    },
    rows: (view) => void pieces.push(view.slice()),
  };
  return { sink, take: () => ({ bytes: joined(pieces), fields }) };
}

/** The same sink, whose errors name the item. */
function ofItem(at: number, { columns, rows }: RowSink): RowSink {
  const naming =
    <Given>(take: ((given: Given) => void) | undefined) =>
    (given: Given) => {
      try {
        take?.(given);
      } catch (cause) {
        throw unread(cause, at);
      }
    };
  return { columns: naming(columns), rows: naming(rows) };
}

export class FirstBatch<Row> {
  readonly #call: Call<Settled<Row>[]>;
  readonly #session: Session;
  readonly #plan: BatchPlan;
  readonly #items: FirstItems;
  readonly #typesInFront: TypesInFront | undefined;

  constructor(
    call: Call<Settled<Row>[]>,
    session: Session,
    plan: BatchPlan,
    items: FirstItems,
    typesInFront?: TypesInFront,
  ) {
    this.#call = call;
    this.#session = session;
    this.#plan = plan;
    this.#items = items;
    this.#typesInFront = typesInFront;
  }

  /**
   * Resolves with the results; with `OutdatedAttempt` if nothing took effect and the batch should be described first;
   * with `undefined` if the call ended meanwhile. Rejects with the call's error, whose `batch` tells about the other
   * items.
   */
  async run(): Promise<Settled<Row>[] | OutdatedAttempt | undefined> {
    const call = this.#call;
    const { connection, statements } = this.#session;
    const sent = this.#items.map((item, at) => this.#send(item, at));
    const ending = call.operate(connection, commit);
    ending.carriesEnd = true;
    tellIfUnfinished(call, ending);
    call.whenOver(() => sent.forEach(({ operation }) => connection.abandon(operation)));
    const outcomes = await Promise.allSettled(sent.map(({ ended }) => ended));
    await ending.done.catch((lost: unknown) => {
      noteLoss(connection.config, "batch", lost, false);
      statements.firstRunLost(lost, true);
      throw lost;
    });
    await this.#rollBackIfOpen();
    if (call.finished) return undefined;

    const failures = outcomes.map((outcome) =>
      // There is an operation, because the call is not over.
      outcome.status === "rejected" ? (outcome.reason as PgzError) : outcome.value!.error,
    );
    const index = failures.findIndex((failure) => failure !== undefined);
    const error = failures[index] ?? ending.error ?? (ending.command === "ROLLBACK" ? rolledBack() : undefined);
    if (!error) {
      noteSuccess(connection.config, "batch");
      ending.wasOutside = false; // an item has ended the transaction, and nobody asked for this COMMIT
      return outcomes.map((outcome, at) => this.#settled(outcome, sent[at]!));
    }
    const failed = sent[index];
    const isUndone = ending.command !== "COMMIT" || this.#isUndone(sent, index);
    if (failed && isUndone && (failed.mayBeDescribed() || this.#refusesSavepoint(failed.operation, error, index))) {
      if (isCitusError(error)) rememberCitus(connection.config);
      else statements.noteFailureInFront(failedPartOf(failed.operation), error);
      return new OutdatedAttempt(error);
    }
    if (leavesOutcomeOpen(error))
      throw Object.assign(error, { transaction: "unknown", batch: { index: undefined, rolledBack: [], skipped: [] } });
    throw failedAt(error, index, sent.length, !isUndone);
  }

  /**
   * Rolls back if the transaction is still open: a cancel may have hit COMMIT. Waits first for cancels in flight, so
   * that none of them hits ROLLBACK.
   */
  async #rollBackIfOpen(): Promise<void> {
    const { connection, transaction } = this.#session;
    if (transaction.status === "I") return;
    await connection.stopping;
    await transaction.rollBack();
  }

  /**
   * Called when COMMIT has succeeded. Returns whether it found nothing to commit: either no item was reached, because
   * BEGIN was not reached; or the failure ended the transaction, as some routers do, and no later item ran by itself.
   */
  #isUndone(sent: readonly Sent<Row>[], index: number): boolean {
    const failedBeforeItem = ({ operation }: Sent<Row>) => failedPartOf(operation) !== undefined;
    if (sent.every(failedBeforeItem)) return true;
    // The flight of the first item begins the transaction.
    const wasOpen = index === 0 || sent[index - 1]?.operation.status === "T";
    return wasOpen && sent[index]!.operation.status === "I" && sent.slice(index + 1).every(failedBeforeItem);
  }

  /** SPQR's router does not know SAVEPOINT. */
  #refusesSavepoint(operation: Operation, error: PgzError, index: number): boolean {
    const refuses = index > 0 && failedPartOf(operation) === "prelude" && mayBeUnsupported(error);
    if (refuses) noteOddResponse(this.#session.config, "batch");
    return refuses;
  }

  #send(item: Item, at: number): Sent<Row> {
    const { form } = this.#plan;
    const call = this.#call;
    const session = this.#session;
    const output = outputOf<Row>(this.#plan, this.#session.catalog);
    const sink = ofItem(at, output.sink);
    const preludes = at ? [`SAVEPOINT pgz_${at}`] : ["BEGIN", ...session.transaction.settings];
    const front: Front = { preludes, carried: (operation) => operation };
    if ("first" in item) {
      const run = new FirstExecution(call, session, item.first, form, sink, this.#typesInFront, front);
      const mayBeDescribed = () => run.mayBeDescribed;
      return { operation: run.operation, mayBeDescribed, ended: run.ended(), output };
    }
    const operation = session.statements.execute(call, front, item.bound, form, sink);
    const mayBeDescribed = () => {
      const { outcome } = operation;
      if (outcome.is !== "failed" || outcome.hasBound) return false;
      return outcome.failedPart ? isCitusError(outcome.error) : mayBeOutdated(outcome.error, true);
    };
    return { operation, mayBeDescribed, ended: operation.done.then(() => operation), output };
  }

  #settled(outcome: PromiseSettledResult<Operation | undefined>, { output }: Sent<Row>): Settled<Row> {
    const { command, rowCount } = (outcome as PromiseFulfilledResult<Operation>).value;
    return { status: "fulfilled", value: { command, rowCount, ...output.take() } };
  }
}

function failedPartOf({ outcome }: Operation): Reached["failedPart"] {
  return outcome.is === "failed" ? outcome.failedPart : undefined;
}

/**
 * Adds to the error which other items were rolled back or skipped, or that the batch had already committed. `at`: -1 if
 * no item failed.
 */
function failedAt(error: PgzError, at: number, count: number, hasCommitted: boolean): PgzError {
  const index = at < 0 ? undefined : at;
  if (hasCommitted)
    return Object.assign(error, { transaction: "committed", batch: { index, rolledBack: [], skipped: [] } });
  const all = [...Array(count).keys()];
  const batch = { index, rolledBack: all.slice(0, index), skipped: all.slice((index ?? count) + 1) };
  return Object.assign(error, { batch });
}
