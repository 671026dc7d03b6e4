// COPY: data from a source of the user's to the server, with back-pressure both ways and an end that each side may put to it; and what
// comes back.
//
// Knows the core's COPY, sources and pieces of data. Must not know formats of rows (copy-rows.ts), options or streams of results.
import { PgzError, UsageError } from "../util/errors.ts";
import { LONGEST_TURN, PIECE } from "../util/limits.ts";
import { COPY_IN, COPY_OUT, COPY_ROWS, NO_LIMITS, type Limits } from "../wasm/boundary.ts";
import { bytesOf, encoder, isBytes, type Bytes as Binary } from "../util/bytes.ts";
import { HEADER, type Connection } from "../connection/connection.ts";
import { checkNames, type Form } from "../rows/form.ts";
import type { Operation, Sink } from "../connection/operation.ts";
import { begun, knowsNames, learnHere, type Caller } from "./statement.ts";

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

/** Where data go, and whether any more are wanted. */
export interface CopyTarget {
  /** Sends what stands in `buffer` behind `HEADER` bytes, up to `end`; it may be overwritten then. Resolves to false when no more is wanted. */
  write(buffer: Uint8Array, end: number): Promise<boolean>;
  /** Nothing is wanted any more. */
  readonly over: boolean;
  /** Like `promise`, but `undefined` as soon as nothing is wanted any more. */
  orOver<T>(promise: Promise<T>): Promise<T | undefined>;
}

/** Runs COPY FROM STDIN; `feed` sends the data. What it throws ends the COPY, and nothing is stored. The ended operation, or `undefined` when the call was over before. */
export function copyIn(call: Caller, connection: Connection, text: string, feed: (target: CopyTarget) => Promise<void>): Promise<Operation | undefined> {
  return run(call, connection, text, COPY_IN, { form: 0, limits: NO_LIMITS }, { duplex: true }, "copyFrom takes COPY … FROM STDIN", feed);
}

/** Runs COPY TO STDOUT, whose data go to the sink as they come. */
export function copyOut(call: Caller, connection: Connection, text: string, limits: Limits, sink: Sink): Promise<Operation | undefined> {
  return run(call, connection, text, COPY_OUT, { form: 0, limits }, sink, "copyTo takes COPY … TO STDOUT");
}

/** Runs a query as COPY in binary; its rows are encoded or decoded as those of the query would be. */
export async function copyRows(call: Caller, connection: Connection, query: string, form: Pick<Form, "form" | "limits" | "policy">, sink: Sink): Promise<Operation | undefined> {
  if (!(await begun(call, connection))) return undefined;
  const shape = await learnHere(call, connection, query);
  if (!shape || !(await knowsNames(call, connection, form.policy))) return undefined;
  const { columns, parameterTypes, resultFormats } = shape;
  if (parameterTypes.length) throw new UsageError("INVALID_QUERY", "COPY cannot have parameters: write the values into the query, or use rows.");
  const unreadable = columns.find((_, index) => !resultFormats[index]);
  if (unreadable) throw new UsageError("INVALID_QUERY", `Column "${unreadable.name}" has no binary form here: cast it to text, or use rows.`);
  if (sink.unique) checkNames(columns);
  sink.columns?.(columns.map((column) => ({ ...column, formatCode: 1 })));
  // A comment at its end must not swallow the rest.
  const text = `copy (${query.replace(/[\s;]+$/, "")}\n) to stdout (format binary)`;
  return run(call, connection, text, COPY_ROWS, form, sink, "copyToRows takes a query that returns rows");
}

async function run(
  call: Caller, connection: Connection, text: string, kind: number, { form, limits }: Pick<Form, "form" | "limits">, sink: Sink, takes: string, feed?: (target: CopyTarget) => Promise<void>,
): Promise<Operation | undefined> {
  if (!(await begun(call, connection))) return undefined;
  let ready!: () => void;
  const asked = new Promise<void>((resolve) => (ready = resolve));
  let mine = false;
  const wrong = new UsageError("COPY_NEEDS_COPY_CALL", `${takes}, but the text is something else.`);
  const copy = (direction: "in" | "out") => {
    mine = (direction === "in") === (kind === COPY_IN);
    // COPY FROM that nobody feeds has been refused by the core: the server's answer is on its way, a cancel could only meet the next call.
    if (!mine) connection.refuse(operation, wrong, kind === COPY_IN);
    ready();
  };
  const columns = () => connection.refuse(operation, wrong);
  const operation = call.operate(connection, (handle) => handle.simple_query(text, kind, form, limits), { ...sink, copy, columns });
  if (feed) {
    operation.wake = ready;
    if (!operation.ended) await asked;
    if (mine && !operation.ended && !call.finished) await fed(call, connection, operation, feed);
  }
  await operation.done;
  if (call.finished) return undefined;
  if (operation.error) throw operation.error;
  if (!mine) throw wrong;
  return operation;
}

async function fed(call: { readonly finished: boolean }, connection: Connection, operation: Operation, feed: (target: CopyTarget) => Promise<void>): Promise<void> {
  let turn = Date.now();
  const target: CopyTarget = {
    get over() {
      return operation.ended || operation.error !== undefined || call.finished;
    },
    async write(buffer, end) {
      connection.copyData(buffer, end);
      await this.orOver(connection.written);
      // A socket that takes everything at once never lets its errors, or a timer, have a turn (seen in Node: 320 MB behind the server's refusal).
      if (Date.now() - turn > LONGEST_TURN) {
        await new Promise((resolve) => setTimeout(resolve));
        turn = Date.now();
      }
      return !this.over;
    },
    orOver: (promise) => new Promise((resolve, reject) => {
      operation.wake = () => resolve(undefined);
      promise.then(resolve, reject);
    }),
  };
  const failed = "The source of the data failed, so nothing was stored.";
  let failure: PgzError | undefined;
  try {
    await feed(target);
  } catch (cause) {
    failure = cause instanceof PgzError ? cause : new PgzError("COPY_SOURCE_FAILED", failed, { cause });
  }
  const wasOver = target.over;
  // Not the error's own words: the server would log them.
  connection.command((handle) => handle.copy_end(failure && failed));
  await operation.done;
  if (failure && !wasOver) throw failure;
}

/** Sends all of a source. One that is left is told so. */
export async function sendSource(target: CopyTarget, source: CopySource, progress?: (progress: CopyProgress) => void): Promise<void> {
  const bytes = new Uint8Array(HEADER + PIECE);
  let length = HEADER;
  let sent = 0;
  const flush = async () => {
    sent += length - HEADER;
    const more = length === HEADER || (await target.write(bytes, length));
    length = HEADER;
    await progress?.({ bytes: sent });
    return more;
  };
  await each(target, piecesOf(source), async (given) => {
    const data = dataOf(given);
    for (let at = 0; at < data.length; ) {
      const room = bytes.subarray(length);
      if (typeof data === "string") {
        // No unit takes more than three bytes, so what is looked at is bounded too.
        const { read, written } = encoder.encodeInto(data.slice(at, at + PIECE), room);
        at += read;
        length += written;
      } else {
        const piece = data.subarray(at, at + room.length);
        room.set(piece);
        at += piece.length;
        length += piece.length;
      }
      // Of text up to three bytes are left: a character of four does not fit, and nothing would go on.
      if (length > bytes.length - 4 && !(await flush())) return;
    }
  });
  if (!target.over) await flush();
}

/** Goes through an iterable, until its end or until nothing is wanted any more. */
export async function each<T>(target: CopyTarget, items: Iterable<T> | AsyncIterable<T>, use: (item: T) => Promise<void> | void): Promise<void> {
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
      const step = await target.orOver(Promise.resolve(iterator.next()).catch((error: unknown) => {
        over = true;
        throw error;
      }));
      if (step?.done) over = true;
      if (!step || over || target.over) return;
      const work = use(step.value);
      if (work) await work;
    }
  } finally {
    // It may wait for something that never comes: nobody waits for it.
    if (!over) void Promise.resolve(iterator.return?.()).catch(() => {});
  }
}

/** A stream that nobody has begun to read, since its COPY came to nothing. */
export function leave(source: unknown): void {
  const stream = source as Partial<ReadableStream> | null | undefined;
  if (typeof stream?.cancel === "function" && !stream.locked) void stream.cancel("nothing more is wanted").catch(() => {});
}

function piecesOf(source: CopySource): Iterable<Bytes> | AsyncIterable<Bytes> {
  if (typeof source === "string" || isBytes(source)) return [source];
  const has = (name: string | symbol, value: unknown = source) => typeof (value as Record<string | symbol, unknown> | undefined)?.[name] === "function";
  const stream = has("stream") ? (source as Blob).stream() : source;
  if (has("getReader", stream)) return ofStream(stream as ReadableStream<Bytes>);
  if (has(Symbol.iterator) || has(Symbol.asyncIterator)) return source as Iterable<Bytes>;
  throw new UsageError("INVALID_OPTION", "copyFrom takes text, bytes, a Blob, a ReadableStream or an iterable of text or bytes.");
}

/** Not every runtime's streams are iterable. */
function ofStream(stream: ReadableStream<Bytes>): AsyncIterable<Bytes> {
  return {
    [Symbol.asyncIterator]() {
      const reader = stream.getReader();
      return {
        next: () => reader.read() as Promise<IteratorResult<Bytes>>,
        async return() {
          await reader.cancel("nothing more is wanted");
          return { done: true, value: undefined };
        },
      };
    },
  };
}

function dataOf(given: unknown): string | Uint8Array {
  // Half a surrogate pair, as where a text was cut, would leave as U+FFFD. Not by `isText`, which takes as long as all the rest.
  if (typeof given === "string" && (given as string & { isWellFormed(): boolean }).isWellFormed()) return given;
  if (isBytes(given)) return bytesOf(given);
  throw new UsageError("INVALID_PARAMETER", "The source must yield bytes or text, in whole characters: encode other values, or use copyFromRows.");
}
