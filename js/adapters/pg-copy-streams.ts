// `pgz-edge/pg-copy-streams`: COPY as streams of Node, for `client.query(…)` of pgz-edge/pg (docs/pg.md).
//
// Knows the three directions of COPY and what ends each of them. Must not know messages' bytes but CopyData's header,
// or which query is next: the client does.
//
// A stream that is destroyed ends its COPY on the server, and closes when the server has said so: what the application
// asks the client next finds it ready.
import { Buffer } from "node:buffer";
import { addAbortSignal, Duplex, Readable, Writable } from "node:stream";
import type { DuplexOptions, ReadableOptions, WritableOptions } from "node:stream";
import type { Connection } from "./pg/connection.ts";
import type { Message } from "./pg/messages.ts";
import type { QueryCallback } from "./pg/query.ts";
import { COPY_DATA, HEADER } from "../wasm/messages.ts";

/** Options of {@link both}. */
export interface CopyBothOptions extends DuplexOptions {
  /** Each chunk is the payload of one CopyData message. Default false: as they came together. */
  alignOnCopyDataFrame?: boolean | undefined;
}

type Done = (error?: Error | null) => void;

/**
 * Writes into `COPY … FROM STDIN`; `finish` comes when the rows are in the table, with their number in `rowCount`.
 *
 * @example
 * await pipeline(createReadStream("users.tsv"), client.query(from("copy users from stdin")));
 */
export const from = (text: string, options?: WritableOptions): CopyFromStream => new CopyFromStream(text, options);

/**
 * Reads from `COPY … TO STDOUT`. A chunk is what came together: its ends are not the ends of rows.
 *
 * @example
 * await pipeline(client.query(to("copy users to stdout")), createWriteStream("users.tsv"));
 */
export const to = (text: string, options?: ReadableOptions): CopyToStream => new CopyToStream(text, options);

/** Reads and writes while the server streams its log: `START_REPLICATION …` of a client with `replication`. */
export const both = (text: string, options?: CopyBothOptions): CopyBothStream => new CopyBothStream(text, options);

// -- what the directions share ----------------------------------------------------------------------------------------

/** Whether the server wants or sends data, and who waits to hear that it does, or that it is over. */
class Course {
  connection: Connection | undefined;
  isOpen = false;
  isOver = false;
  rowCount = 0;
  #whenOpen: (() => void)[] = [];
  #whenOver: (() => void)[] = [];

  /** Whether nothing has been asked of the server, or all has been answered. */
  get isIdle(): boolean {
    return !this.connection || this.isOver;
  }

  submit(connection: Connection, text: string, isDestroyed: boolean): Error | null {
    if (typeof connection.cancel !== "function")
      return new Error("pgz-edge/pg-copy-streams needs a client of pgz-edge/pg; with pg itself use pg-copy-streams");
    if (isDestroyed) return new Error("The stream was destroyed before its query ran");
    this.connection = connection;
    connection.query(text);
    return null;
  }

  open(): void {
    this.isOpen = true;
    for (const then of this.#whenOpen.splice(0)) then();
  }

  whenOpen(then: () => void): void {
    if (this.isOver) return;
    if (this.isOpen) then();
    else this.#whenOpen.push(then);
  }

  /** Nothing that waited for data to flow happens any more. */
  over(): void {
    this.isOver = true;
    this.#whenOpen = [];
    for (const then of this.#whenOver.splice(0)) then();
  }

  whenOver(then: () => void): void {
    this.#whenOver.push(then);
  }

  /** Cancels, and again until it is over: one may be lost where a pooler or this process is busy. */
  cancel(): void {
    const { connection } = this;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const send = async () => {
      if (this.isOver || connection!.stream.destroyed) return;
      await connection!.cancel();
      if (!this.isOver) timer = setTimeout(() => void send(), CANCEL_AGAIN);
    };
    this.whenOver(() => clearTimeout(timer));
    void send();
  }

  /** `COPY 5` */
  completed({ text }: { text: string }): void {
    const [, count] = /^COPY (\d+)/.exec(text) ?? [];
    if (count !== undefined) this.rowCount = Number(count);
  }
}

/** The server's own, or the connection's end. Any other comes from this side, while the COPY goes on. */
function isLast(error: Error, { connection }: Course): boolean {
  return "severity" in error || connection === undefined || connection.stream.destroyed;
}

/** The options without the signal: a stream whose signal is aborted is destroyed before its fields are there. */
function withoutSignal<T extends { signal?: AbortSignal | undefined }>(options: T | undefined): T {
  return { ...options, signal: undefined } as T;
}

/** Milliseconds for a server to hear CopyFail behind the data that it has not read; then it is told by a cancel. */
const PATIENCE = 500;
/** Milliseconds from the end of one cancel to the next: one should do. */
const CANCEL_AGAIN = 300;

// -- CopyData out -----------------------------------------------------------------------------------------------------

/** Bytes of one CopyData message, whose ends mean nothing to the server. */
const PIECE = 1 << 18;

/** Chunks as CopyData messages, one behind another, each when the socket has taken the one before. */
async function sendAll(stream: Writable, connection: Connection, chunks: readonly Buffer[]): Promise<void> {
  for (const piece of piecesOf(chunks)) {
    if (stream.destroyed) return;
    // A write that fails ends the connection, which tells the stream why.
    await new Promise<void>((resolve) => connection.stream.write(copyData(piece), () => resolve()));
  }
}

function* piecesOf(chunks: readonly Buffer[]): Generator<Buffer[]> {
  let piece: Buffer[] = [];
  let size = 0;
  for (const chunk of chunks) {
    for (let at = 0; at < chunk.length; at += PIECE) {
      const part = chunk.subarray(at, at + PIECE);
      if (size + part.length > PIECE) {
        yield piece;
        [piece, size] = [[], 0];
      }
      piece.push(part);
      size += part.length;
    }
  }
  if (size) yield piece;
}

function copyData(parts: readonly Buffer[]): Buffer {
  const size = parts.reduce((sum, { length }) => sum + length, 0);
  const header = Buffer.alloc(HEADER);
  header[0] = COPY_DATA;
  header.writeUInt32BE(size + 4, 1);
  return Buffer.concat([header, ...parts], HEADER + size);
}

/** With `decodeStrings: false` and `objectMode` texts arrive as they are. */
function bytesOf(chunk: unknown, encoding: BufferEncoding): Buffer {
  if (typeof chunk === "string") return Buffer.from(chunk, encoding);
  if (!(chunk instanceof Uint8Array)) throw new TypeError("COPY takes texts and bytes");
  return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}

interface Chunk {
  readonly chunk: unknown;
  readonly encoding: BufferEncoding;
}

/** What `_write` and `_writev` do. */
function write(stream: Writable, course: Course, chunks: readonly Chunk[], done: Done): void {
  let bytes: Buffer[];
  try {
    bytes = chunks.map(({ chunk, encoding }) => bytesOf(chunk, encoding));
  } catch (error) {
    return done(error as Error);
  }
  course.whenOpen(() => void sendAll(stream, course.connection!, bytes).then(() => done()));
}

// -- CopyData in ------------------------------------------------------------------------------------------------------

/** CopyData messages of one read, pushed together; nothing more is read while the stream is full. */
class Inflow {
  readonly #stream: Readable;
  readonly #course: Course;
  #parts: Buffer[] = [];
  #hasEnded = false;

  constructor(stream: Readable, course: Course) {
    this.#stream = stream;
    this.#course = course;
  }

  take(chunk: Buffer): void {
    this.#parts.push(chunk);
    if (this.#parts.length === 1) queueMicrotask(() => this.flush());
  }

  flush(): void {
    const parts = this.#parts;
    this.#parts = [];
    if (parts.length) this.push(parts.length === 1 ? parts[0]! : Buffer.concat(parts));
  }

  push(chunk: Buffer): void {
    if (this.#stream.destroyed || this.#stream.push(chunk) || this.#hasEnded) return;
    this.#course.connection!.stream.pause();
  }

  /** A stream at its end asks for nothing more: it must not leave the connection paused. */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.flush();
    readOn(this.#course);
    if (!this.#stream.destroyed) this.#stream.push(null);
  }
}

const readOn = ({ connection }: Course): void => void connection?.stream.resume();

// -- the directions ---------------------------------------------------------------------------------------------------

export class CopyFromStream extends Writable {
  readonly text: string;
  callback: QueryCallback | undefined;
  readonly #course = new Course();
  #hasEnded = false;
  #finished: Done | undefined;
  /** What the server said to CopyFail: as in pg-copy-streams that is the error, unless a signal aborted. */
  #refusal: Error | undefined;

  constructor(text: string, options?: WritableOptions) {
    super(withoutSignal(options));
    this.text = text;
    if (options?.signal) addAbortSignal(options.signal, this);
  }

  get rowCount(): number {
    return this.#course.rowCount;
  }

  submit(connection: Connection): Error | null {
    return this.#course.submit(connection, this.text, this.destroyed);
  }

  override _write(chunk: unknown, encoding: BufferEncoding, done: Done): void {
    write(this, this.#course, [{ chunk, encoding }], done);
  }

  override _writev(chunks: Chunk[], done: Done): void {
    write(this, this.#course, chunks, done);
  }

  override _final(done: Done): void {
    this.#finished = done;
    this.#course.whenOpen(() => {
      this.#hasEnded = true;
      this.#course.connection!.endCopyFrom();
    });
  }

  /** CopyFail, which undoes what was copied. Behind CopyDone only a cancel may come in time. */
  override _destroy(error: Error | null, done: Done): void {
    const course = this.#course;
    if (course.isIdle) return done(error);
    const timer = setTimeout(() => course.cancel(), this.#hasEnded ? 0 : PATIENCE);
    course.whenOver(() => {
      clearTimeout(timer);
      const refusal = this.#refusal;
      if (!error || !refusal || error.name === "AbortError") return done(error);
      refusal.cause = error;
      done(refusal);
    });
    if (this.#hasEnded) return;
    course.whenOpen(() => course.connection!.sendCopyFail(error?.message ?? "the stream was destroyed"));
  }

  handleCopyInResponse(connection: Connection): void {
    // A second COPY of the same text would wait for data that nobody has.
    if (this.#hasEnded) connection.sendCopyFail("from() writes into one COPY");
    else this.#course.open();
  }

  handleCommandComplete(message: { text: string }): void {
    this.#course.completed(message);
  }

  handleReadyForQuery(): void {
    const { isOpen } = this.#course;
    this.#course.over();
    this.callback?.(null);
    if (!isOpen) this.destroy(new Error(`from() wants a COPY … FROM STDIN, which this is not: ${this.text}`));
    else if (!this.destroyed) this.#finished?.();
  }

  handleError(error: Error): void {
    if (!isLast(error, this.#course)) return void this.destroy(error);
    if (this.#course.connection) this.#refusal = error;
    this.#course.over();
    this.callback?.(error);
    this.destroy(error);
  }

  handleRowDescription(): void {}
  handleDataRow(): void {}
  handlePortalSuspended(): void {}
  handleEmptyQuery(): void {}
  handleCopyData(): void {}
}

export class CopyToStream extends Readable {
  readonly text: string;
  callback: QueryCallback | undefined;
  readonly #course = new Course();
  readonly #inflow = new Inflow(this, this.#course);

  constructor(text: string, options?: ReadableOptions) {
    super(withoutSignal(options));
    this.text = text;
    if (options?.signal) addAbortSignal(options.signal, this);
  }

  get rowCount(): number {
    return this.#course.rowCount;
  }

  submit(connection: Connection): Error | null {
    return this.#course.submit(connection, this.text, this.destroyed);
  }

  override _read(): void {
    readOn(this.#course);
  }

  /** A cancel, and what comes until it arrives is dropped. */
  override _destroy(error: Error | null, done: Done): void {
    const course = this.#course;
    if (course.isIdle) return done(error);
    course.whenOver(() => done(error));
    readOn(course);
    course.cancel();
  }

  handleCopyOutResponse(): void {
    this.#course.open();
  }

  handleCopyData({ chunk }: Message): void {
    this.#inflow.take(chunk as Buffer);
  }

  handleCommandComplete(message: { text: string }): void {
    this.#course.completed(message);
  }

  handleReadyForQuery(): void {
    const { isOpen } = this.#course;
    this.#course.over();
    this.callback?.(null);
    if (!isOpen) this.destroy(new Error(`to() wants a COPY … TO STDOUT, which this is not: ${this.text}`));
    else this.#inflow.end();
  }

  handleError(error: Error): void {
    if (!isLast(error, this.#course)) return void this.destroy(error);
    readOn(this.#course);
    this.#course.over();
    this.callback?.(error);
    this.destroy(error);
  }

  handleCopyInResponse(connection: Connection): void {
    connection.sendCopyFail("to() reads; from() writes into a COPY … FROM STDIN");
  }

  handleRowDescription(): void {}
  handleDataRow(): void {}
  handlePortalSuspended(): void {}
  handleEmptyQuery(): void {}
}

export class CopyBothStream extends Duplex {
  readonly text: string;
  readonly alignOnCopyDataFrame: boolean;
  callback: QueryCallback | undefined;
  readonly #course = new Course();
  readonly #inflow = new Inflow(this, this.#course);
  #hasEnded = false;
  #finished: Done | undefined;

  constructor(text: string, options?: CopyBothOptions) {
    super(withoutSignal(options));
    this.text = text;
    this.alignOnCopyDataFrame = options?.alignOnCopyDataFrame === true;
    if (options?.signal) addAbortSignal(options.signal, this);
  }

  submit(connection: Connection): Error | null {
    return this.#course.submit(connection, this.text, this.destroyed);
  }

  override _read(): void {
    readOn(this.#course);
  }

  override _write(chunk: unknown, encoding: BufferEncoding, done: Done): void {
    write(this, this.#course, [{ chunk, encoding }], done);
  }

  override _writev(chunks: Chunk[], done: Done): void {
    write(this, this.#course, chunks, done);
  }

  override _final(done: Done): void {
    this.#finished = done;
    this.#course.whenOpen(() => this.#endCopy());
  }

  /** CopyDone: a WAL sender ends the session at CopyFail. */
  override _destroy(error: Error | null, done: Done): void {
    const course = this.#course;
    if (course.isIdle) return done(error);
    course.whenOver(() => done(error));
    readOn(course);
    course.whenOpen(() => this.#endCopy());
  }

  #endCopy(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#course.connection!.endCopyFrom();
  }

  handleCopyBothResponse(): void {
    this.#course.open();
  }

  handleCopyData({ chunk }: Message): void {
    if (this.alignOnCopyDataFrame) this.#inflow.push(chunk as Buffer);
    else this.#inflow.take(chunk as Buffer);
  }

  /** The server sends no more; it waits for this side's end. */
  handleCopyDone(): void {
    this.#inflow.end();
  }

  handleReadyForQuery(): void {
    const { isOpen } = this.#course;
    this.#course.over();
    this.callback?.(null);
    if (!isOpen) this.destroy(new Error(`both() wants a START_REPLICATION, which this is not: ${this.text}`));
    else if (!this.destroyed) {
      this.#inflow.end();
      this.#finished?.();
    }
  }

  handleError(error: Error): void {
    if (!isLast(error, this.#course)) return void this.destroy(error);
    readOn(this.#course);
    this.#course.over();
    this.callback?.(error);
    this.destroy(error);
  }

  handleCopyInResponse(connection: Connection): void {
    connection.sendCopyFail("both() is for replication; from() writes into a COPY … FROM STDIN");
  }

  handleCommandComplete(): void {}
  handleRowDescription(): void {}
  handleDataRow(): void {}
  handlePortalSuspended(): void {}
  handleEmptyQuery(): void {}
}
