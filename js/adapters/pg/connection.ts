// `client.connection`: sends messages by its methods and emits received messages as events. pg-cursor, pg-query-stream
// and others use it directly.
//
// Knows the protocol's messages and the driver's socket. Must not know which query runs: its owner knows.
import type { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import { logIn, type Handover, type LogInOptions } from "../../index.ts";
import { Frames } from "./frames.ts";
import { DATA_ROW } from "../../wasm/messages.ts";
import { messageOf, type Message } from "./messages.ts";
import type { RowReader } from "./rows.ts";
import { WireStream } from "./wire-stream.ts";
import { Writer, type BindConfig } from "./writer.ts";

/** Reads rows directly from the socket's bytes, while there is no listener for messages. */
export interface RowTaker {
  readonly reader: RowReader | undefined;
  takeRow(bytes: Buffer, ascii: string, at: number, end: number): void;
}

/** The client, as far as its connection needs it. */
export interface ConnectionOwner {
  /** Returns the reader of rows, if the active query is the facade's own. */
  rowTaker(): RowTaker | undefined;
  /** Whether a response is pending, or a listener waits for notifications. */
  wantsToRead(): boolean;
}

export class Connection extends EventEmitter {
  static {
    Object.defineProperty(this, "name", { value: "Connection" });
  }

  readonly stream: WireStream;
  /** Named statements that the server has: their texts by name. */
  parsedStatements: Record<string, string> = {};
  /** Named statements whose Parse has been sent. */
  submittedNamedStatements: Record<string, string> = {};
  _ending = false;
  _connecting = false;
  #owner: ConnectionOwner | undefined;
  #isDirect = false;
  #handover: Handover | undefined;
  #isOver = false;
  readonly #giveUp = new AbortController();
  readonly #writer = new Writer();
  readonly #frames = new Frames();
  /** Settles when every CancelRequest that was sent has reached its session, or is known not to reach it. */
  cancelling: Promise<unknown> | undefined;
  #willFlush = false;
  #writes: Promise<void> = Promise.resolve();
  #reading = false;
  /** A chunk's bytes as characters, and the chunk that they are from. */
  #ascii = "";
  #asciiOf: Buffer | undefined;

  constructor(owner?: ConnectionOwner) {
    super();
    this.#owner = owner;
    this.stream = new WireStream({
      write: (bytes, done) => this.#writeRaw(bytes, done),
      destroy: (error) => this.#destroy(error),
      ref: () => this.#handover?.socket.ref?.(),
      unref: () => this.#handover?.socket.unref?.(),
      isWritable: () => this.#handover !== undefined && !this.#isOver,
      isDestroyed: () => this.#isOver,
      isEncrypted: () => this.#handover?.encrypted ?? false,
      isDirect: () => this.#isDirect,
    });
    this.stream.on("error", (error: Error) => this.emit("error", error));
  }

  /**
   * Connects and logs in. Resolves with `undefined` if the connection was destroyed meanwhile. Rejects with the
   * driver's error.
   */
  async open(options: LogInOptions): Promise<Handover | undefined> {
    this._connecting = true;
    this.#isDirect = options.sslnegotiation === "direct";
    const handover = await logIn({}, { ...options, signal: this.#giveUp.signal });
    if (this.#isOver) {
      void handover.socket.close();
      return undefined;
    }
    this.#handover = handover;
    this.emit("connect");
    for (const [parameterName, parameterValue] of handover.parameters)
      this.#emitMessage({ name: "parameterStatus", length: 0, parameterName, parameterValue });
    const key = handover.backendKey;
    const view = new DataView(key.buffer, key.byteOffset, key.byteLength);
    if (key.length >= 8)
      this.#emitMessage({
        name: "backendKeyData",
        length: 12,
        processID: view.getInt32(0),
        secretKey: view.getInt32(4),
      });
    this.#emitMessage({ name: "readyForQuery", length: 5, status: "I" });
    this.read();
    return handover;
  }

  /** Whether the current request may use the connection: on Workers a socket belongs to its request. */
  get isHome(): boolean {
    return this.#handover?.isHome() ?? true;
  }

  /** Sends a CancelRequest for the running query. Never rejects. */
  cancel(): Promise<void> {
    const sent = this.#handover?.cancel() ?? Promise.resolve();
    const all = Promise.all([this.cancelling, sent]).then(() => {
      if (this.cancelling === all) this.cancelling = undefined;
    });
    this.cancelling = all;
    return sent;
  }

  // -- messages out ---------------------------------------------------------------------------------------------------

  parse({ name, text, types }: { name?: string | undefined; text: string; types?: unknown }): void {
    this.#writer.parse(name ?? "", text, Array.isArray(types) ? (types as number[]) : []);
    this.#later();
  }

  bind(config: BindConfig = {}): void {
    this.#writer.bind(config);
    this.#later();
  }

  describe({ type, name }: { type: string; name?: string }): void {
    this.#writer.describe(type, name ?? "");
    this.#later();
  }

  execute({ portal, rows }: { portal?: string; rows?: number | undefined } = {}): void {
    this.#writer.execute(portal ?? "", rows ?? 0);
    this.#later();
  }

  close({ type, name }: { type: string; name?: string | undefined }): void {
    this.#writer.close(type, name ?? "");
    this.#later();
  }

  query(text: string): void {
    this.#writer.query(text);
    this.#later();
  }

  flush(): void {
    this.#writer.flush();
    this.#later();
  }

  sync(): void {
    this.#writer.sync();
    this.#later();
  }

  sendCopyFromChunk(chunk: Uint8Array): void {
    this.#writer.copyData(chunk);
    this.#later();
  }

  endCopyFrom(): void {
    this.#writer.copyDone();
    this.#later();
  }

  sendCopyFail(reason: string): void {
    this.#writer.copyFail(reason);
    this.#later();
  }

  /** Sends Terminate and ends the connection. */
  end(): void {
    this._ending = true;
    if (!this.#handover) return this.#destroy();
    this.#writer.terminate();
    this.#flush();
    void this.#writes.then(() => this.#destroy());
  }

  ref(): void {
    this.stream.ref();
  }

  unref(): void {
    this.stream.unref();
  }

  /** Sends all messages of one turn together. */
  #later(): void {
    if (this.#willFlush) return;
    this.#willFlush = true;
    queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    this.#willFlush = false;
    if (this.#writer.isEmpty) return;
    this.#writeRaw(this.#writer.take());
    this.read();
  }

  #writeRaw(bytes: Uint8Array, done?: (error?: Error) => void): void {
    const socket = this.#handover?.socket;
    if (!socket || this.#isOver) return done?.(new Error("This socket has been ended by the other party"));
    const write = socket.write(bytes) ?? socket.flushed?.();
    this.#writes = Promise.all([this.#writes, write]).then(
      () => done?.(),
      (error: Error) => (done?.(error), this.#fail(error)),
    );
  }

  // -- messages in ----------------------------------------------------------------------------------------------------

  /**
   * Reads as long as a response or a notification is awaited. If the runtime allows reads while idle, it always reads.
   */
  read(): void {
    if (!this.#reading && !this.#isOver && this.#handover) void this.#pump(this.#handover.socket);
  }

  async #pump(socket: Handover["socket"]): Promise<void> {
    this.#reading = true;
    try {
      while (!this.#isOver && (socket.readsWhileIdle || this.#owner?.wantsToRead())) {
        const paused = this.stream.paused;
        if (paused) await paused;
        const chunk = await socket.read();
        if (this.#isOver) return;
        if (!chunk) {
          await nextTurn();
          return this.#destroy();
        }
        this.#frames.push(chunk, this.#onFrame);
      }
    } catch (error) {
      await nextTurn();
      this.#fail(error as Error);
    } finally {
      this.#reading = false;
    }
  }

  readonly #onFrame = (type: number, bytes: Buffer, at: number, end: number): void => {
    if (this.#isOver) return;
    const taker = type === DATA_ROW ? this.#owner?.rowTaker() : undefined;
    if (taker) return taker.takeRow(bytes, this.#characters(bytes), at, end);
    this.#emitMessage(messageOf(type, bytes, at, end) as Message);
  };

  #characters(bytes: Buffer): string {
    if (this.#asciiOf !== bytes) {
      this.#asciiOf = bytes;
      this.#ascii = bytes.toString("latin1");
    }
    return this.#ascii;
  }

  /** Emits a message. An error that a listener throws is the application's, and ends nothing here. */
  #emitMessage(message: Message): void {
    const event = message.name === "error" ? "errorMessage" : message.name;
    try {
      if (this.listenerCount("message")) this.emit("message", message);
      this.emit(event, message);
    } catch (error) {
      queueMicrotask(() => {
        throw error;
      });
    }
  }

  // -- the end --------------------------------------------------------------------------------------------------------

  #fail(error: Error): void {
    if (this.#isOver) return;
    if (!this._ending) this.emit("error", nodeErrorOf(error));
    this.#destroy();
  }

  #destroy(error?: Error): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#giveUp.abort(error);
    void this.#handover?.socket.close();
    queueMicrotask(() => {
      if (error) this.stream.emit("error", error);
      this.stream.emit("end");
      this.stream.emit("close");
      this.emit("end");
    });
  }
}

/**
 * Returns the runtime's own error if there is one, because applications check its `code`. Otherwise a lost connection
 * becomes an error with pg's text, and any other error stays.
 */
export function nodeErrorOf(error: Error): Error {
  const { cause, code } = error as { cause?: { code?: unknown }; code?: unknown };
  if (cause instanceof Error && typeof cause.code === "string") return cause;
  return code === "CONNECTION_LOST" ? new Error("Connection terminated unexpectedly", { cause: error }) : error;
}

/**
 * Waits one turn, so that the end of a connection is reported in a turn of its own, as by a socket of Node. An end in
 * the turn of the login would otherwise be reported before the code after `await pool.connect()` has added its error
 * listener.
 */
function nextTurn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}
