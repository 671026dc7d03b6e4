// `pgz-edge/pg-copy-streams`: COPY as streams of Node, for `client.query(…)` of pgz-edge/pg (docs/pg.md).
//
// Knows the three directions of COPY and what ends each of them. Must not know the bytes of messages except CopyData's
// header, or which query is next: the client knows that.
//
// A destroyed stream ends its COPY on the server, and closes when the server has confirmed the end. The client is then
// ready for the application's next query.
import { Buffer } from "node:buffer";
import { addAbortSignal, Duplex, Readable, Writable } from "node:stream";
import type { DuplexOptions, ReadableOptions, WritableOptions } from "node:stream";
import type { Connection } from "./pg/connection.ts";
import type { Message } from "./pg/messages.ts";
import type { QueryCallback } from "./pg/query.ts";
import { COPY_DATA, HEADER } from "../wasm/messages.ts";

/** Options of {@link both}. */
export interface CopyBothOptions extends DuplexOptions {
  /**
   * Makes each chunk the payload of one CopyData message. Default false: a chunk has all messages that arrived
   * together.
   */
  alignOnCopyDataFrame?: boolean | undefined;
}

type Done = (error?: Error | null) => void;

/**
 * Writes into `COPY … FROM STDIN`. Emits `finish` when the rows are in the table; `rowCount` is then their number.
 *
 * @example
 * await pipeline(createReadStream("users.tsv"), client.query(from("copy users from stdin")));
 */
export const from = (text: string, options?: WritableOptions): CopyFromStream => new CopyFromStream(text, options);

/**
 * Reads from `COPY … TO STDOUT`. A chunk is the data that arrived together: it may begin and end within a row.
 *
 * @example
 * await pipeline(client.query(to("copy users to stdout")), createWriteStream("users.tsv"));
 */
export const to = (text: string, options?: ReadableOptions): CopyToStream => new CopyToStream(text, options);

/** Reads and writes while the server streams its log: `START_REPLICATION …` of a client with `replication`. */
export const both = (text: string, options?: CopyBothOptions): CopyBothStream => new CopyBothStream(text, options);

// -- what the directions share ----------------------------------------------------------------------------------------

/**
 * The state of one COPY: whether the server accepts or sends data, and the callbacks that wait for that or for the end.
 */
class CopyState {
  connection: Connection | undefined;
  isOpen = false;
  isOver = false;
  rowCount = 0;
  #whenOpen: (() => void)[] = [];
  #whenOver: (() => void)[] = [];

  /** Whether nothing has been sent to the server yet, or everything has been answered. */
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

  /** Ends the COPY. Callbacks that still wait for data to flow are dropped. */
  over(): void {
    this.isOver = true;
    this.#whenOpen = [];
    for (const then of this.#whenOver.splice(0)) then();
  }

  whenOver(then: () => void): void {
    this.#whenOver.push(then);
  }

  /** Sends CancelRequests until the COPY is over. A single one may be lost when a pooler or this process is busy. */
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

/**
 * Whether the error ends the COPY: it is the server's own, or the connection has ended. Any other error comes from this
 * side while the COPY continues.
 */
function isLast(error: Error, { connection }: CopyState): boolean {
  return "severity" in error || connection === undefined || connection.stream.destroyed;
}

/**
 * Returns the options without the signal. A stream with an aborted signal would be destroyed before its fields exist.
 */
function withoutSignal<T extends { signal?: AbortSignal | undefined }>(options: T | undefined): T {
  return { ...options, signal: undefined } as T;
}

/**
 * Milliseconds for the server to reach CopyFail, which is queued behind data that the server has not read. After that a
 * CancelRequest is sent.
 */
const PATIENCE = 500;
/** Milliseconds from the end of one CancelRequest to the next. One should be enough. */
const CANCEL_AGAIN = 300;

// -- CopyData out -----------------------------------------------------------------------------------------------------

/** Maximum number of bytes in one CopyData message. Its boundaries mean nothing to the server. */
const PIECE = 1 << 18;

/** Sends the chunks as CopyData messages, each after the socket has taken the previous one. */
async function sendAll(stream: Writable, connection: Connection, chunks: readonly Buffer[]): Promise<void> {
  for (const piece of piecesOf(chunks)) {
    if (stream.destroyed) return;
    // A failed write ends the connection, which reports the reason to the stream.
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

/** With `decodeStrings: false` and with `objectMode`, texts arrive unconverted. */
function bytesOf(chunk: unknown, encoding: BufferEncoding): Buffer {
  if (typeof chunk === "string") return Buffer.from(chunk, encoding);
  if (!(chunk instanceof Uint8Array)) throw new TypeError("COPY takes texts and bytes");
  return Buffer.from(chunk.buffer, chunk.byteOffset, chunk.byteLength);
}

interface Chunk {
  readonly chunk: unknown;
  readonly encoding: BufferEncoding;
}

/** Implements `_write` and `_writev`. */
function write(stream: Writable, state: CopyState, chunks: readonly Chunk[], done: Done): void {
  let bytes: Buffer[];
  try {
    bytes = chunks.map(({ chunk, encoding }) => bytesOf(chunk, encoding));
  } catch (error) {
    return done(error as Error);
  }
  state.whenOpen(() => void sendAll(stream, state.connection!, bytes).then(() => done()));
}

// -- CopyData in ------------------------------------------------------------------------------------------------------

/** Pushes the CopyData messages of one read together. Nothing more is read while the stream is full. */
class Inflow {
  readonly #stream: Readable;
  readonly #state: CopyState;
  #parts: Buffer[] = [];
  #hasEnded = false;

  constructor(stream: Readable, state: CopyState) {
    this.#stream = stream;
    this.#state = state;
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
    this.#state.connection!.stream.pause();
  }

  /**
   * Ends the stream, and resumes the connection: an ended stream reads nothing more, so the connection would stay
   * paused.
   */
  end(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.flush();
    readOn(this.#state);
    if (!this.#stream.destroyed) this.#stream.push(null);
  }
}

const readOn = ({ connection }: CopyState): void => void connection?.stream.resume();

// -- the directions ---------------------------------------------------------------------------------------------------

export class CopyFromStream extends Writable {
  readonly text: string;
  callback: QueryCallback | undefined;
  readonly #state = new CopyState();
  #hasEnded = false;
  #finished: Done | undefined;
  /** The server's response to CopyFail. As in pg-copy-streams this is the stream's error, unless a signal aborted. */
  #refusal: Error | undefined;

  constructor(text: string, options?: WritableOptions) {
    super(withoutSignal(options));
    this.text = text;
    if (options?.signal) addAbortSignal(options.signal, this);
  }

  get rowCount(): number {
    return this.#state.rowCount;
  }

  submit(connection: Connection): Error | null {
    return this.#state.submit(connection, this.text, this.destroyed);
  }

  override _write(chunk: unknown, encoding: BufferEncoding, done: Done): void {
    write(this, this.#state, [{ chunk, encoding }], done);
  }

  override _writev(chunks: Chunk[], done: Done): void {
    write(this, this.#state, chunks, done);
  }

  override _final(done: Done): void {
    this.#finished = done;
    this.#state.whenOpen(() => {
      this.#hasEnded = true;
      this.#state.connection!.endCopyFrom();
    });
  }

  /** Sends CopyFail, which undoes what was copied. After CopyDone only a CancelRequest may still come in time. */
  override _destroy(error: Error | null, done: Done): void {
    const state = this.#state;
    if (state.isIdle) return done(error);
    const timer = setTimeout(() => state.cancel(), this.#hasEnded ? 0 : PATIENCE);
    state.whenOver(() => {
      clearTimeout(timer);
      const refusal = this.#refusal;
      if (!error || !refusal || error.name === "AbortError") return done(error);
      refusal.cause = error;
      done(refusal);
    });
    if (this.#hasEnded) return;
    state.whenOpen(() => state.connection!.sendCopyFail(error?.message ?? "the stream was destroyed"));
  }

  handleCopyInResponse(connection: Connection): void {
    // A second COPY in the same text would wait for data that does not exist.
    if (this.#hasEnded) connection.sendCopyFail("from() writes into one COPY");
    else this.#state.open();
  }

  handleCommandComplete(message: { text: string }): void {
    this.#state.completed(message);
  }

  handleReadyForQuery(): void {
    const { isOpen } = this.#state;
    this.#state.over();
    this.callback?.(null);
    if (!isOpen) this.destroy(new Error(`from() wants a COPY … FROM STDIN, which this is not: ${this.text}`));
    else if (!this.destroyed) this.#finished?.();
  }

  handleError(error: Error): void {
    if (!isLast(error, this.#state)) return void this.destroy(error);
    if (this.#state.connection) this.#refusal = error;
    this.#state.over();
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
  readonly #state = new CopyState();
  readonly #inflow = new Inflow(this, this.#state);

  constructor(text: string, options?: ReadableOptions) {
    super(withoutSignal(options));
    this.text = text;
    if (options?.signal) addAbortSignal(options.signal, this);
  }

  get rowCount(): number {
    return this.#state.rowCount;
  }

  submit(connection: Connection): Error | null {
    return this.#state.submit(connection, this.text, this.destroyed);
  }

  override _read(): void {
    readOn(this.#state);
  }

  /** Cancels the COPY. Data that arrives until then is dropped. */
  override _destroy(error: Error | null, done: Done): void {
    const state = this.#state;
    if (state.isIdle) return done(error);
    state.whenOver(() => done(error));
    readOn(state);
    state.cancel();
  }

  handleCopyOutResponse(): void {
    this.#state.open();
  }

  handleCopyData({ chunk }: Message): void {
    this.#inflow.take(chunk as Buffer);
  }

  handleCommandComplete(message: { text: string }): void {
    this.#state.completed(message);
  }

  handleReadyForQuery(): void {
    const { isOpen } = this.#state;
    this.#state.over();
    this.callback?.(null);
    if (!isOpen) this.destroy(new Error(`to() wants a COPY … TO STDOUT, which this is not: ${this.text}`));
    else this.#inflow.end();
  }

  handleError(error: Error): void {
    if (!isLast(error, this.#state)) return void this.destroy(error);
    readOn(this.#state);
    this.#state.over();
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
  readonly #state = new CopyState();
  readonly #inflow = new Inflow(this, this.#state);
  #hasEnded = false;
  #finished: Done | undefined;

  constructor(text: string, options?: CopyBothOptions) {
    super(withoutSignal(options));
    this.text = text;
    this.alignOnCopyDataFrame = options?.alignOnCopyDataFrame === true;
    if (options?.signal) addAbortSignal(options.signal, this);
  }

  submit(connection: Connection): Error | null {
    return this.#state.submit(connection, this.text, this.destroyed);
  }

  override _read(): void {
    readOn(this.#state);
  }

  override _write(chunk: unknown, encoding: BufferEncoding, done: Done): void {
    write(this, this.#state, [{ chunk, encoding }], done);
  }

  override _writev(chunks: Chunk[], done: Done): void {
    write(this, this.#state, chunks, done);
  }

  override _final(done: Done): void {
    this.#finished = done;
    this.#state.whenOpen(() => this.#endCopy());
  }

  /** Sends CopyDone, because a WAL sender ends the session at CopyFail. */
  override _destroy(error: Error | null, done: Done): void {
    const state = this.#state;
    if (state.isIdle) return done(error);
    state.whenOver(() => done(error));
    readOn(state);
    state.whenOpen(() => this.#endCopy());
  }

  #endCopy(): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    this.#state.connection!.endCopyFrom();
  }

  handleCopyBothResponse(): void {
    this.#state.open();
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
    const { isOpen } = this.#state;
    this.#state.over();
    this.callback?.(null);
    if (!isOpen) this.destroy(new Error(`both() wants a START_REPLICATION, which this is not: ${this.text}`));
    else if (!this.destroyed) {
      this.#inflow.end();
      this.#finished?.();
    }
  }

  handleError(error: Error): void {
    if (!isLast(error, this.#state)) return void this.destroy(error);
    readOn(this.#state);
    this.#state.over();
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
