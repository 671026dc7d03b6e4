// COPY: data from a source of the user's to the server, with back-pressure both ways and an end that each side may put to it; and what
// comes back.
//
// Knows the core's COPY, sources and pieces of data. Must not know formats of rows (copy-rows.ts), options or streams of results.
import { PgzError, UsageError } from "../errors.ts";
import { COPY_IN, COPY_OUT, COPY_ROWS, NO_LIMITS, type Limits } from "./boundary.ts";
import { HEADER, type Connection } from "./connection.ts";
import { checkNames, type Form } from "./form.ts";
import type { Operation, Sink } from "./operation.ts";
import { begun, knowsNames, learnHere, type Caller } from "./statement.ts";

type Bytes = string | ArrayBuffer | ArrayBufferView;

/** What COPY FROM takes: text (sent as UTF-8) or bytes, whole or in pieces of any length. */
export type CopySource = Bytes | Blob | ReadableStream<Bytes> | AsyncIterable<Bytes> | Iterable<Bytes>;

/** How far COPY FROM has come. */
export interface CopyProgress {
  /** Handed to the socket. */
  readonly bytes: number;
  /** Of `copyFromRows`. */
  readonly rows?: number;
}

/** Data that leave together: many pieces make one, and a long one makes many. */
const PIECE = 64 << 10;
/** Milliseconds of sending without a look at anything else. */
const LONGEST_TURN = 5;
const encoder = new TextEncoder();

/** Gathers pieces behind room for a header; `full` when they are worth a message. */
class Stage {
  readonly bytes = new Uint8Array(HEADER + PIECE);
  length = HEADER;

  /** What of `text` or `bytes` from `at` on had room; the rest is to be added behind a `take`. */
  add(data: string | Uint8Array, at: number): number {
    const room = this.bytes.subarray(this.length);
    if (typeof data === "string") {
      // No unit takes more than three bytes, so what is looked at is bounded too.
      const { read, written } = encoder.encodeInto(data.slice(at, at + PIECE), room);
      this.length += written;
      return at + read;
    }
    const piece = data.subarray(at, at + room.length);
    room.set(piece);
    this.length += piece.length;
    return at + piece.length;
  }

  /** An encoder of text leaves up to two bytes. */
  get full(): boolean {
    return this.length > this.bytes.length - 3;
  }
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
export async function copyIn(call: Caller, connection: Connection, text: string, feed: (target: CopyTarget) => Promise<void>): Promise<Operation | undefined> {
  if (!(await begun(call, connection))) return undefined;
  let ready!: () => void;
  const asked = new Promise<void>((resolve) => (ready = resolve));
  let mine = false;
  const wrong = notACopy("copyFrom", "COPY … FROM STDIN");
  const copy = (direction: "in" | "out") => {
    mine = direction === "in";
    if (!mine) connection.refuse(operation, wrong);
    ready();
  };
  const operation = call.operate(connection, (handle) => handle.simple_query(text, COPY_IN, 0, NO_LIMITS), { duplex: true, copy, columns: () => connection.refuse(operation, wrong) });
  operation.wake = ready;
  if (!operation.ended) await asked;
  if (mine && !operation.ended && !call.finished) await fed(call, connection, operation, feed);
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
  let reason: string | undefined;
  let failure: unknown;
  try {
    await feed(target);
  } catch (error) {
    failure = error;
    // Not the error's own words: the server would log them.
    reason = "the source of the data failed";
  }
  const wasOver = target.over;
  connection.command((handle) => handle.copy_end(reason));
  await operation.done;
  if (reason === undefined || wasOver) return;
  throw failure instanceof PgzError ? failure : new PgzError("COPY_SOURCE_FAILED", "The source of the data failed, so nothing of it was stored.", { cause: failure });
}

/** Sends all of a source. One that is left is told so. */
export async function sendSource(target: CopyTarget, source: CopySource, progress?: (progress: CopyProgress) => void): Promise<void> {
  const stage = new Stage();
  let sent = 0;
  const flush = async () => {
    const { bytes, length } = stage;
    sent += length - HEADER;
    const more = length === HEADER || (await target.write(bytes, length));
    stage.length = HEADER;
    await progress?.({ bytes: sent });
    return more;
  };
  const add = async (given: Bytes) => {
    const data = dataOf(given);
    for (let at = 0; at < data.length; ) {
      at = stage.add(data, at);
      if (stage.full && !(await flush())) return;
    }
  };
  const pieces = piecesOf(source);
  if (Array.isArray(pieces)) {
    for (const piece of pieces) {
      await add(piece as Bytes);
      if (target.over) return;
    }
  } else await each(target, pieces, add);
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
  if (typeof stream?.cancel === "function" && !stream.locked) void stream.cancel("nothing of it is wanted").catch(() => {});
}

function piecesOf(source: CopySource): Iterable<Bytes> | AsyncIterable<Bytes> {
  if (typeof source === "string" || source instanceof ArrayBuffer || ArrayBuffer.isView(source)) return [source];
  if (typeof Blob !== "undefined" && source instanceof Blob) return ofStream(source.stream());
  if (typeof (source as ReadableStream | undefined)?.getReader === "function") return ofStream(source as ReadableStream<Bytes>);
  const is = (symbol: symbol) => typeof (source as unknown as Record<symbol, unknown> | undefined)?.[symbol] === "function";
  if (is(Symbol.iterator) || is(Symbol.asyncIterator)) return source as Iterable<Bytes>;
  throw new UsageError("INVALID_OPTION", "The source of copyFrom must be text, bytes, a Blob, a ReadableStream or something to iterate over.");
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
  if (typeof given === "string" || given instanceof Uint8Array) return given;
  if (given instanceof ArrayBuffer) return new Uint8Array(given);
  if (ArrayBuffer.isView(given)) return new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
  throw new UsageError("INVALID_PARAMETER", "A source of COPY gives text or bytes: encode its other values, or use copyFromRows.");
}

/** Runs COPY TO STDOUT, whose data go to the sink as they come. */
export async function copyOut(call: Caller, connection: Connection, text: string, limits: Limits, sink: Sink): Promise<Operation | undefined> {
  return out(call, connection, text, COPY_OUT, 0, limits, sink, notACopy("copyTo", "COPY … TO STDOUT"));
}

/** Runs a query as COPY in binary; its rows are encoded or decoded as those of the query would be. */
export async function copyRows(call: Caller, connection: Connection, query: string, { form, limits, policy }: Pick<Form, "form" | "limits" | "policy">, sink: Sink): Promise<Operation | undefined> {
  if (!(await begun(call, connection))) return undefined;
  const shape = await learnHere(call, connection, query);
  if (!shape || !(await knowsNames(call, connection, policy))) return undefined;
  const { columns, parameterTypes, resultFormats } = shape;
  if (parameterTypes.length) throw new UsageError("INVALID_QUERY", "COPY has no parameters: write the values into the query, or use rows.");
  const unreadable = columns.find((_, index) => !resultFormats[index]);
  if (unreadable) throw new UsageError("INVALID_QUERY", `Column "${unreadable.name}" has a type that this driver reads as text only: cast it to text, or use rows.`);
  if (sink.unique) checkNames(columns);
  sink.columns?.(columns.map((column) => ({ ...column, formatCode: 1 })));
  // A comment at its end must not swallow the rest.
  const text = `copy (${query.replace(/[\s;]+$/, "")}\n) to stdout (format binary)`;
  return out(call, connection, text, COPY_ROWS, form, limits, sink, notACopy("copyToRows", "a query that returns rows"));
}

async function out(call: Caller, connection: Connection, text: string, kind: number, form: number, limits: Limits, sink: Sink, wrong: PgzError): Promise<Operation | undefined> {
  if (!(await begun(call, connection))) return undefined;
  let mine = false;
  const copy = (direction: "in" | "out") => {
    mine = direction === "out";
    // The core has refused COPY FROM by itself: the server's answer is on its way, a cancel could only meet the next call.
    if (!mine) connection.refuse(operation, wrong, false);
  };
  const columns = () => connection.refuse(operation, wrong);
  const operation = call.operate(connection, (handle) => handle.simple_query(text, kind, form, limits), { ...sink, copy, columns });
  await operation.done;
  if (call.finished) return undefined;
  if (operation.error) throw operation.error;
  if (!mine) throw wrong;
  return operation;
}

function notACopy(name: string, what: string): UsageError {
  return new UsageError("COPY_NEEDS_COPY_CALL", `${name} takes ${what}, and this is something else.`);
}
