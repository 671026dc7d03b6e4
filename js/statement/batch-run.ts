// One run through the pipeline of a batch: what the responses say about each item, and which rows belong to it.
//
// Knows the events of a batch and the order of its items. Must not know the wire, or what runs the batch again.
import type { Conversation, Handlers, Operation, Reached } from "../connection/operation.ts";
import { decoderOf, joinedRows, type ParserNames } from "../rows/collect.ts";
import { checkNames, type ValueForm } from "../rows/form.ts";
import type { Place } from "../session/again.ts";
import type { Call } from "../session/call.ts";
import { isCitusError } from "../session/citus.ts";
import { joined, type OwnBytes } from "../util/bytes.ts";
import { HAS_NOT_RUN, PgzError, undecodable, type BatchFailure } from "../util/errors.ts";
import { isUndone, mayBegin } from "../util/statement-words.ts";
import { ownError } from "../util/trace.ts";
import { countOf, type RowDecoder, type RowMode } from "../values/objects.ts";
import { ROWS_COLUMNS, ROWS_FORMAT, ROWS_NONE, type Column, type ItemOutcome } from "../wasm/boundary.ts";
import { isStale } from "./attempts.ts";
import type { EncodedBatch } from "./batch-encoding.ts";

/** The result of one item. */
export interface BatchItem<Row> {
  readonly command: string;
  readonly rowCount: number | null;
  readonly rows?: Row[];
  readonly fields?: readonly Column[];
  readonly bytes?: OwnBytes;
}

export type Settled<Row> = PromiseSettledResult<BatchItem<Row>>;

/** How all items are requested. */
export interface BatchPlan {
  readonly atomic: boolean;
  readonly form: ValueForm;
  readonly mode: RowMode;
}

/** The error of an atomic batch, one of whose items has rows that cannot be read. It says nothing of the others. */
function unread(cause: unknown, index: number): PgzError {
  const batch: BatchFailure = { index, rolledBack: [], skipped: [] };
  return Object.assign(readingError(cause), { batch });
}

const readingError = (cause: unknown) => (cause instanceof PgzError ? cause : undecodable(cause));

interface Ended {
  readonly command: string;
  readonly rowCount: number | null;
}

/**
 * For an atomic batch outside a transaction: with the answer to `last` it is stored or undone. An error that ends the
 * call before that says that the outcome is unknown: a deadline, a signal, rows that cannot be read, a lost connection.
 * `isUndone`: whether not all of it has been sent, and the server undoes the part that it has.
 */
export function noteIfUnfinished(
  call: Pick<Call<unknown>, "consumer">,
  last: Operation,
  isUndone: () => boolean,
): void {
  const fail = (error: unknown) => {
    const isOpen = !last.ended || (last.lost && !last.lost.hasNoEffect);
    if (error instanceof PgzError && isOpen)
      Object.assign(error, { transaction: isUndone() ? "rolled back" : "unknown" });
  };
  call.consumer = { fail };
}

export class BatchRun<Row> {
  readonly conversation: Conversation;
  operation: Operation | undefined;
  /** The commands of the items that succeeded, in their order. */
  readonly commands: string[] = [];
  readonly #encoded: EncodedBatch;
  readonly #atomic: boolean;
  readonly #form: ValueForm;
  readonly #mode: RowMode;
  readonly #catalog: ParserNames;
  /** How the items that are over ended, in their order. */
  readonly #ends: (PgzError | Ended)[] = [];
  /** Number of rows or bytes that each of them has produced. */
  readonly #outputs: number[] = [];
  /** Items that failed before they were bound, so that nothing of them ran. */
  readonly #unbound = new Set<number>();
  /** Those of them that failed in front of their statement. A newer description would not help. */
  readonly #failedInFront = new Set<number>();
  /** What the first item of a statement failed with before it was bound. */
  readonly #unparsed = new Map<number | undefined, PgzError>();
  readonly #fields: (readonly Column[])[] = [];
  readonly #decoders: RowDecoder[] = [];
  /** The decoder of the statement whose rows are arriving. */
  #decode: RowDecoder | undefined;
  readonly #batches: Row[][] = [];
  readonly #pieces: Uint8Array[] = [];
  /** Number of rows in `#batches`. */
  #rowCount = 0;
  /** Why the rows of a statement cannot be read. */
  readonly #unreadable = new Map<number, PgzError>();
  /** The rows that could not be decoded, by their places among all rows of the run, in order. */
  readonly #undecoded: { readonly at: number; readonly error: PgzError }[] = [];

  /** `learning`: handlers that store what responses say about statements. */
  constructor(encoded: EncodedBatch, { atomic, form, mode }: BatchPlan, learning: Handlers, catalog: ParserNames) {
    this.#encoded = encoded;
    this.#catalog = catalog;
    this.#atomic = atomic;
    this.#form = form;
    this.#mode = mode;
    this.conversation = {
      duplex: true,
      isolated: !atomic,
      severalResults: true,
      rows: {
        columns: (columns) => this.#columns(columns),
        rows: (view) => (this.#decode ? this.#rows(view, this.#decode) : void this.#pieces.push(view.slice())),
      },
      on: {
        ...learning,
        items: (outcomes) => this.#items(outcomes),
        switch: ({ statement }) => void (this.#decode = this.#decoders[statement]),
        error: (error, reached) => this.#failed(error, reached),
      },
    };
  }

  /** Number of items that are over. It is also the place of the item that failed an atomic batch. */
  get ended(): number {
    return this.#failure ? this.#ends.length - 1 : this.#ends.length;
  }

  /** The places of items of which nothing ran, except those that failed because of something in front of them. */
  get unbound(): number[] {
    return [...this.#unbound].filter((at) => !this.#failedInFront.has(at));
  }

  /** The error of the item at this place. */
  failure(at: number): unknown {
    return this.#ends[at];
  }

  // -- what responses say ---------------------------------------------------------------------------------------------

  #items(outcomes: readonly ItemOutcome[]): void {
    for (const { command, rowCount, output } of outcomes) {
      this.#outputs.push(output);
      if (command === null) continue;
      this.#ends.push({ command, rowCount });
      this.commands.push(command);
    }
  }

  /** Called after an outcome without a command. */
  #failed(error: PgzError, { hasBound, failedPart }: Reached): boolean {
    const at = this.#ends.length;
    const number = this.#encoded.numbers[at];
    let reason;
    if (failedPart && !isCitusError(error)) this.#failedInFront.add(at);
    if (!hasBound) {
      this.#unbound.add(at);
      // Nothing of it has run.
      if (isStale(error)) Object.assign(error, HAS_NOT_RUN);
      else this.#unparsed.set(number, error);
    }
    // If a Parse failed, later items lack the statement for the same reason.
    if (isStale(error)) reason = this.#unparsed.get(number);
    this.#ends.push(reason ?? error);
    if (this.#atomic) this.#failure = error;
    return !this.#atomic;
  }

  /** The error of an atomic batch. */
  #failure: PgzError | undefined;

  /** What is thrown here ends an atomic batch. Of an isolated one, it is the error of the statement's items only. */
  #columns(columns: readonly Column[]): void {
    const at = this.#ends.length;
    const statement = this.#encoded.numbers[at]!;
    this.#fields[statement] = columns;
    if (this.#isValues)
      this.#decode = this.#decoders[statement] = decoderOf(columns, this.#form, this.#mode, this.#catalog);
    try {
      checkNames(this.#form, columns);
    } catch (cause) {
      if (this.#atomic) throw unread(cause, this.#encoded.order[at]!);
      this.#unreadable.set(statement, cause as PgzError);
    }
  }

  /** As {@link #columns}, for a parser that throws. A batch of rows may be those of several items. */
  #rows(view: Uint8Array, decode: RowDecoder): void {
    const from = this.#rowCount;
    this.#rowCount += countOf(view);
    try {
      this.#batches.push(decode(view) as Row[]);
    } catch {
      // Once more, row by row: this says which rows are refused.
      this.#batches.push(decode(view, (at, cause) => this.#refuseRow(from + at, cause)) as Row[]);
    }
  }

  #refuseRow(at: number, cause: unknown): void {
    if (this.#atomic) throw unread(cause, this.#itemOf(at));
    this.#undecoded.push({ at, error: readingError(cause) });
  }

  /** The index of the query whose row this is. */
  #itemOf(row: number): number {
    let to = 0;
    const item = this.#outputs.findIndex((output) => row < (to += output));
    return this.#encoded.order[item < 0 ? this.#ends.length : item]!;
  }

  get #isValues(): boolean {
    return (this.#form.code & ROWS_FORMAT) === ROWS_COLUMNS;
  }

  // -- the outcome ----------------------------------------------------------------------------------------------------

  /**
   * Returns the item from which on the batch may be repeated after a failure at `from`: no item from there on has left
   * a trace. `undefined`: it may not be repeated.
   */
  repeatableFrom(from: number | undefined): number | undefined {
    if (from === undefined) return undefined;
    if (this.#failure) return this.commands.every(isUndone) ? 0 : undefined;
    // The later items must not have run: what they did could not be done after the repeated one.
    return this.#ends.every((_, at) => at < from || this.#unbound.has(at)) ? from : undefined;
  }

  /** Gives each item its part. `place`: where the batch ran. */
  settle(settled: PromiseSettledResult<BatchItem<Row>>[], place: Place): void {
    const { order, numbers } = this.#encoded;
    const rows = joinedRows(this.#batches);
    const bytes = joined(this.#pieces);
    const undecoded = this.#undecoded.values();
    let next = undecoded.next().value;
    let to = 0;
    this.#ends.forEach((end, at) => {
      const from = to;
      to += this.#outputs[at]!;
      const statement = numbers[at]!;
      let reason = this.#unreadable.get(statement);
      for (; next && next.at < to; next = undecoded.next().value) reason ??= next.error;
      if (end instanceof PgzError) settled[order[at]!] = { status: "rejected", reason: end };
      else if (reason) settled[order[at]!] = { status: "rejected", reason: this.#hasRun(reason, place) };
      else {
        const value = this.#item(end, this.#fields[statement] ?? [], { rows, bytes, from, to });
        settled[order[at]!] = { status: "fulfilled", value };
      }
    });
  }

  /** The error of an isolated item that has run, and whose rows cannot be read: outside a transaction, "committed". */
  #hasRun(error: PgzError, place: Place): PgzError {
    const isCommitted = place === "alone" && !this.#encoded.statements.some(({ sql }) => mayBegin(sql));
    return Object.assign(ownError(error), isCommitted && { transaction: "committed" });
  }

  /** Property by property, because an object made of two spread objects costs more than everything else of an item. */
  #item(
    { command, rowCount }: Ended,
    fields: readonly Column[],
    part: { rows: Row[]; bytes: OwnBytes; from: number; to: number },
  ): BatchItem<Row> {
    const { rows, bytes, from, to } = part;
    if (this.#form.code === ROWS_NONE) return { command, rowCount };
    if (this.#isValues) return { rows: rows.slice(from, to), rowCount, command, fields };
    return { bytes: bytes.slice(from, to), rowCount, command, fields };
  }
}
