// COPY: data from the user's source to the server, with back-pressure in both directions and an end that either side
// may cause; and the data that the server returns.
//
// Knows the core's COPY, sources and pieces of data. Must not know formats of rows (copy-rows.ts), options or streams
// of results.
import { connectionLost } from "../runtime/contract.ts";
import { PgzError, UsageError } from "../util/errors.ts";
import { LONGEST_TURN, PIECE } from "../util/limits.ts";
import { COPY_IN, COPY_OUT, COPY_ROWS, NO_LIMITS, ROWS_NONE, type Limits } from "../wasm/boundary.ts";
import { HEADER } from "../wasm/messages.ts";
import { bytesOf, encoder, isBytes, type Bytes as Binary } from "../util/bytes.ts";
import { hasSeveral, withoutEnd } from "../util/sql-reader.ts";
import type { Operation, RowSink } from "../connection/operation.ts";
import type { Form } from "../rows/form.ts";
import type { AnyCall } from "../session/call.ts";
import type { Earlier } from "../session/earlier.ts";
import { learnNames } from "../session/catalog-questions.ts";
import type { Session } from "../session/session.ts";
import type { RowRequest } from "../session/statements.ts";
import { inTransaction } from "./own-transaction.ts";

type Bytes = string | Binary;

/** What `copyFrom` takes: text (sent as UTF-8) or bytes, whole or in pieces of any length. */
export type CopySource = Bytes | Blob | ReadableStream<Bytes> | AsyncIterable<Bytes> | Iterable<Bytes>;

/** How far `copyFrom` or `copyFromRows` has come. */
export interface CopyProgress {
  /** Bytes that were given to the socket. */
  readonly bytes: number;
  /** Rows that were encoded. Only `copyFromRows` sets it, because only the server parses other data. */
  readonly rows?: number;
}

/** Takes the data, and tells whether more is wanted. */
export interface CopyTarget {
  /**
   * Sends the bytes of `buffer` after the first `HEADER` bytes, up to `end`. The buffer may be overwritten afterwards.
   * Resolves with `false` when no more is wanted.
   */
  write(buffer: Uint8Array, end: number): Promise<boolean>;
  /** No more data is wanted. */
  readonly over: boolean;
  /** As `promise`, which is the caller's, but resolves with `undefined` as soon as no more data is wanted. */
  orOver<T>(promise: Promise<T>): Promise<T | undefined>;
}

/** Sends the data of COPY FROM STDIN. If it throws, the COPY ends and nothing is stored. */
type Feed = (target: CopyTarget) => Promise<void>;

/**
 * Runs COPY FROM STDIN. Resolves with the ended operation; with `undefined` if the call ended meanwhile. `isOwn`: the
 * transaction is the call's own, and is committed.
 */
export async function copyIn(
  call: AnyCall,
  session: Session,
  text: string,
  feed: Feed,
  isOwn = false,
): Promise<Operation | undefined> {
  if (!(await isOneStatement(call, session, text))) return undefined;
  return new Copy(call, session, COPY_IN, "copyFrom takes COPY … FROM STDIN", isOwn).run(
    text,
    { code: ROWS_NONE, limits: NO_LIMITS },
    { feed },
  );
}

/** Runs COPY TO STDOUT. Its data goes to the sink as it arrives. */
export async function copyOut(
  call: AnyCall,
  session: Session,
  text: string,
  limits: Limits,
  rows: RowSink,
): Promise<Operation | undefined> {
  if (!(await isOneStatement(call, session, text))) return undefined;
  return new Copy(call, session, COPY_OUT, "copyTo takes COPY … TO STDOUT").run(
    text,
    { code: ROWS_NONE, limits },
    { rows },
  );
}

/**
 * Runs a query as binary COPY. Its rows are encoded or decoded as those of the query would be. The columns are asked
 * for first, in the same transaction: the data of COPY name no types.
 */
export function copyRows(
  call: AnyCall,
  session: Session,
  query: string,
  form: RowRequest & Pick<Form, "policy">,
  rows: RowSink,
): Promise<Operation | undefined> {
  return inTransaction(call, session, (isOwn) => copyDescribed(call, session, query, form, rows, isOwn));
}

async function copyDescribed(
  call: AnyCall,
  session: Session,
  query: string,
  form: RowRequest & Pick<Form, "policy">,
  rows: RowSink,
  isOwn: boolean,
): Promise<Operation | undefined> {
  const { connection, catalog, statements } = session;
  const shape = await statements.learn(call, query);
  if (!shape || !(await learnNames(call, connection, catalog, form.policy))) return undefined;
  const { columns, parameterTypes } = shape;
  if (parameterTypes.length)
    throw new UsageError("INVALID_QUERY", "COPY cannot have parameters: write the values into the query, or use rows.");
  const unreadable = columns.find((column) => !statements.hasBinaryForm(column));
  if (unreadable)
    throw new UsageError(
      "INVALID_QUERY",
      `Column "${unreadable.name}" has no binary form here: cast it to text, or use rows.`,
    );
  rows.columns?.(columns.map((column) => ({ ...column, formatCode: 1 })));
  // A comment at the query's end must not swallow the rest.
  const text = `copy (${withoutEnd(query)}\n) to stdout (format binary)`;
  return new Copy(call, session, COPY_ROWS, "copyToRows takes a query that returns rows", isOwn).run(text, form, {
    rows,
  });
}

/**
 * COPY is sent as a Query message, which runs every statement of its text. If there may be two, the server first parses
 * the text as a prepared statement (once per isolate) and refuses a second one: only the server knows what a backslash
 * in quotes means. COPY by Bind and Execute would not need that question, but poolers and clients send Query, so Query
 * is known to work. Resolves with `undefined` if the call ended meanwhile.
 */
async function isOneStatement(
  call: AnyCall,
  { statements, transaction }: Session,
  text: string,
): Promise<boolean | undefined> {
  if (!hasSeveral(text)) return true;
  return (await transaction.begun(call)) && (await statements.shape(call, text)) && true;
}

/** One COPY, in either direction. */
class Copy implements CopyTarget, Earlier {
  readonly #call: AnyCall;
  readonly #session: Session;
  readonly #kind: number;
  readonly #isOwn: boolean;
  /** What the call is for, in words. */
  readonly #takes: string;
  #operation!: Operation;
  /** The server has confirmed that this is the COPY that was meant. */
  #isMine = false;
  #answered!: () => void;
  /** How often the caller's code was waited for. */
  #waits = 0;
  /** The socket or the server is waited for. */
  #isWriting = false;
  /** When the event loop last had a turn. */
  #turn = performance.now();

  /** `isOwn`: it commits the transaction in which it runs. */
  constructor(call: AnyCall, session: Session, kind: number, takes: string, isOwn = false) {
    this.#call = call;
    this.#session = session;
    this.#kind = kind;
    this.#isOwn = isOwn;
    this.#takes = takes;
  }

  async run(
    text: string,
    { code, limits }: RowRequest,
    { rows, feed }: { rows?: RowSink; feed?: Feed },
  ): Promise<Operation | undefined> {
    const { connection, transaction } = this.#session;
    if (!(await transaction.begun(this.#call))) return undefined;
    const answered = new Promise<void>((resolve) => (this.#answered = resolve));
    let tag: string | undefined;
    const operation = (this.#operation = this.#call.operate(
      connection,
      (handle) => handle.simple_query(this.#isOwn ? `${text}; commit` : text, this.#kind, code, limits),
      {
        duplex: feed !== undefined,
        rows,
        on: {
          copy: ({ direction }) => this.#begin(direction),
          // The response to a query begins with columns. The response to COPY does not.
          columns: () => connection.interrupt(this.#operation, this.#wrong()),
          complete: (command) => (tag ??= command),
        },
      },
    ));
    operation.carriesEnd = this.#isOwn && feed === undefined;
    if (feed) {
      operation.wake = this.#answered;
      if (!operation.ended) await answered;
      if (this.#isMine && !operation.ended && !this.#call.finished) await this.#feed(feed);
    }
    await operation.done;
    // PgBouncer 1.24 waits for a response to a CopyDone that crosses the server's error, and PostgreSQL sends none.
    // From then on PgBouncer would hold back each CloseComplete of this connection.
    if (feed && this.#isMine && operation.error && connection.isPooled)
      connection.endWhenIdle(connectionLost("its pooler may have lost count of its answers in a COPY that failed"));
    if (this.#call.finished) return undefined;
    if (operation.error) throw operation.error;
    if (!this.#isMine) throw this.#wrong();
    if (tag !== undefined) operation.command = tag; // the last one may be COMMIT's
    return operation;
  }

  #wrong(): UsageError {
    return new UsageError("COPY_NEEDS_COPY_CALL", `${this.#takes}, but the text is something else.`);
  }

  #begin(direction: "in" | "out"): void {
    this.#isMine = (direction === "in") === (this.#kind === COPY_IN);
    if (!this.#isMine) this.#session.connection.refuseCopy(this.#operation, direction, this.#wrong());
    this.#answered();
  }

  async #feed(feed: Feed): Promise<void> {
    const failed = "The source of the data failed, so nothing was stored.";
    let failure: PgzError | undefined;
    this.#call.copying = this;
    try {
      await feed(this);
    } catch (cause) {
      failure = cause instanceof PgzError ? cause : new PgzError("COPY_SOURCE_FAILED", failed, { cause });
    }
    this.#call.copying = undefined;
    this.#isWriting = true; // from now on the server is waited for
    const wasOver = this.over;
    // The server goes on to COMMIT only after the data have ended well.
    this.#operation.carriesEnd = this.#isOwn && failure === undefined;
    // Not the error's own message, because the server would log it.
    this.#session.connection.command((handle) => handle.copy_end(failure && failed));
    if (!this.#call.finished) this.#call.sent(0);
    await this.#operation.done;
    if (failure && !wasOver) throw failure;
  }

  // -- for the source -------------------------------------------------------------------------------------------------

  get over(): boolean {
    return this.#operation.ended || this.#operation.error !== undefined || this.#call.finished;
  }

  async write(buffer: Uint8Array, end: number): Promise<boolean> {
    const { connection } = this.#session;
    connection.copyData(buffer, end);
    this.#isWriting = true;
    await this.#orOver(connection.written);
    // A socket that takes everything at once never gives its errors, or a timer, a turn. (Seen in Node: 320 MB were
    // sent after the server had refused.)
    if (performance.now() - this.#turn > LONGEST_TURN) {
      await this.#orOver(new Promise((resolve) => setTimeout(resolve)));
      this.#turn = performance.now();
    }
    this.#isWriting = false;
    return !this.over;
  }

  orOver<T>(promise: Promise<T>): Promise<T | undefined> {
    this.#waits++;
    return this.#orOver(promise);
  }

  get call(): AnyCall {
    return this.#call;
  }

  get idleMark(): number | undefined {
    return this.#isWriting ? undefined : this.#waits;
  }

  #orOver<T>(promise: Promise<T>): Promise<T | undefined> {
    return new Promise((resolve, reject) => {
      promise.then(resolve, reject);
      if (this.over) resolve(undefined);
      else this.#operation.wake = resolve as () => void;
    });
  }
}

/** The buffer of the last COPY. Fresh memory was a tenth of the CPU of a small one, most of it page faults. */
let spare: Uint8Array | undefined;

/** Sends all of a source. A source that is not read to its end is told so. */
export async function sendSource(target: CopyTarget, source: CopySource, progress?: OnProgress): Promise<void> {
  const bytes = spare ?? new Uint8Array(HEADER + PIECE);
  spare = undefined;
  let length = HEADER;
  let sent = 0;
  const flush = async () => {
    sent += length - HEADER;
    const more = length === HEADER || (await target.write(bytes, length));
    length = HEADER;
    await report(target, progress, { bytes: sent });
    return more;
  };
  await each(target, piecesOf(source), async (given) => {
    const data = dataOf(given);
    const { length: all } = data;
    for (let at = 0; at < all;) {
      if (data.length !== all) throw new TypeError("the bytes were taken away while they were sent");
      const room = bytes.subarray(length);
      if (typeof data === "string") {
        // No code unit takes more than three bytes, so the slice that is looked at is bounded too.
        const { read, written } = encoder.encodeInto(data.slice(at, at + PIECE), room);
        at += read;
        length += written;
      } else {
        const piece = data.subarray(at, at + room.length);
        room.set(piece);
        at += piece.length;
        length += piece.length;
      }
      // A character of four bytes does not fit into the last three, so text may leave them empty. Without this flush
      // the loop would never end.
      if (length > bytes.length - 4 && !(await flush())) return;
    }
  });
  // Where no more is wanted the socket may still be reading from the buffer.
  if (!target.over && (await flush())) spare = bytes;
}

/** The user's `onProgress`, which may be an async function. */
export type OnProgress = (progress: CopyProgress) => unknown;

/** Calls `progress` and waits for the promise that it may return, but not longer than the COPY takes. */
export async function report(target: CopyTarget, progress: OnProgress | undefined, so: CopyProgress): Promise<void> {
  const told = progress?.(so);
  if (told) await target.orOver(Promise.resolve(told));
}

/** Reads an iterable to its end, or until no more data is wanted. */
export async function each<T>(
  target: CopyTarget,
  items: Iterable<T> | AsyncIterable<T>,
  use: (item: T) => Promise<void> | void,
): Promise<void> {
  if (Symbol.iterator in items) {
    for (const item of items) {
      const work = use(item);
      if (work) await work;
      if (target.over) return;
    }
    return;
  }
  const iterator = items[Symbol.asyncIterator]();
  let over = false;
  try {
    while (!target.over) {
      const step = await target.orOver(
        Promise.resolve(iterator.next()).catch((error: unknown) => {
          over = true;
          throw error;
        }),
      );
      if (step?.done) over = true;
      if (!step || over || target.over) return;
      const work = use(step.value);
      if (work) await work;
    }
  } finally {
    // Not awaited, because it may wait for something that never comes.
    if (!over) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

/**
 * Cancels a web stream that was never read, because its COPY did not begin and would not if it were tried again.
 * Nothing else is closed: a generator that has not begun holds nothing, and would be empty for the caller's next
 * attempt; a stream of Node may be a request, and to destroy it would take its response's socket.
 */
export function leave(source: unknown, reason: unknown): void {
  const { locked, getReader } = Object(source) as Partial<ReadableStream>;
  if (locked || !getReader || (reason as PgzError | undefined)?.retryable) return;
  (source as ReadableStream).cancel(UNWANTED).catch(() => {});
}

/** The reason for which streams are cancelled. */
const UNWANTED = "nothing more is wanted";

function piecesOf(source: CopySource): Iterable<Bytes> | AsyncIterable<Bytes> {
  if (typeof source === "string" || isBytes(source)) return [source];
  const has = (name: string | symbol, value: unknown = source) =>
    typeof (value as Record<string | symbol, unknown> | undefined)?.[name] === "function";
  const stream = has("stream") ? (source as Blob).stream() : source;
  if (has("getReader", stream)) return ofStream(stream as ReadableStream<Bytes>);
  if (has(Symbol.iterator) || has(Symbol.asyncIterator)) return source as Iterable<Bytes>;
  throw new UsageError(
    "INVALID_OPTION",
    "copyFrom takes text, bytes, a Blob, a ReadableStream or an iterable of text or bytes.",
  );
}

/** Not every runtime's streams are iterable. */
function ofStream(stream: ReadableStream<Bytes>): AsyncIterable<Bytes> {
  return {
    [Symbol.asyncIterator]() {
      const reader = stream.getReader();
      return {
        next: () => reader.read() as Promise<IteratorResult<Bytes>>,
        async return() {
          await reader.cancel(UNWANTED);
          return { done: true, value: undefined };
        },
      };
    },
  };
}

function dataOf(given: unknown): string | Uint8Array {
  // An unpaired surrogate, as where a text was cut, would be sent as U+FFFD. Not by `isText`, which takes as long as
  // all the rest.
  if (typeof given === "string" && (given as string & { isWellFormed(): boolean }).isWellFormed()) return given;
  if (isBytes(given)) return bytesOf(given);
  throw new UsageError(
    "INVALID_PARAMETER",
    "The source must yield bytes or text, in whole characters: encode other values, or use copyFromRows.",
  );
}
