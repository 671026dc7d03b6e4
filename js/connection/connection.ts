// The pump of one connection: socket <-> core, by the drain rule of docs/architecture.md, and how a connection ends.
//
// It reads while operations are in flight, and in between where the socket allows that (`readsWhileIdle`), so that it notices at once
// when an idle connection ends. On Workers a read belongs to its request, so there no read may outlive the last operation.
// Knows the socket contract, the core and its events. Must not know SQL, parameters, users' promises or how streams work.
import type { Config } from "../config/config.ts";
import { fromErrorResponse, fromFailure, PgzError, ProtocolError, ResponseTooLargeError, UsageError } from "../util/errors.ts";
import { emit, type Observation } from "../util/observer.ts";
import { connectionLost, reasonOf, tlsFailed } from "../sockets/contract.ts";
import { within } from "../util/within.ts";
import { EVENT, MORE, OUTPUT, ROWS, ROWS_FULL, type Column, type Core, type CoreConnection, type Event, type Outcomes } from "../wasm/boundary.ts";
import { sendCancelRequest } from "./cancel.ts";
import { catalogOf, type Definition } from "../session/catalog.ts";
import type { Link } from "./dial.ts";
import { freeze, Operation, takeColumns, type NotificationListener, type Sink } from "./operation.ts";
import { runtime } from "../sockets/runtime.ts";
import { serverKey } from "../session/shapes.ts";

/** From an abort to the next ReadyForQuery, and to the end of the cancel socket; after that the connection is in doubt. */
const CANCEL_DEADLINE = 2_000;
/** Of CopyData: type byte and int32 length. */
export const HEADER = 5;
/** Until the next cancel, of several transactions and of one. */
const CANCEL_NEXT = 20, CANCEL_AGAIN = 300;
/** Shapes that are known to have run, and settings, of which a server reports some twenty. */
const MOST_EXECUTED = 1_000, MOST_PARAMETERS = 100;
const NONE = new Uint8Array();
/** For Terminate to leave. `close()` promises less than a second in all. */
const TERMINATE_DEADLINE = 400;

/** Answers what the core asks for while it logs in: SCRAM's SaltedPassword, or the text of PasswordMessage for MD5. */
export type Prove = (question: Extract<Event, { kind: "keyDerivation" | "md5" }>) => Promise<Uint8Array>;

export class Connection {
  readonly core: Core;
  listener: NotificationListener | undefined;
  readonly config: Config;
  /** Why it is over; `undefined` while it is usable. */
  closed: PgzError | undefined;
  transactionStatus = "I";
  /** What begins a transaction in front of the next statement; gone when it has begun. */
  begin: string | undefined;
  /** A flight with it has failed before the transaction had begun. */
  beginFailed = false;
  /** What the server reports of its settings. */
  readonly parameters = new Map<string, string>();
  processId: number | undefined;
  /** CancelRequests sent. */
  cancels = 0;
  /** Writes to the socket. */
  writes = 0;
  /** Told when it is over, for what waits between two operations. */
  onClosed: ((error: PgzError) => void) | undefined;
  /** Shapes that have run here, so that there may be a prepared statement for them. */
  readonly executed = new Set<number>();
  /** Of shapes that have run here: the core need not repeat them. */
  readonly columns = new Map<number, readonly Column[]>();
  /** What the core has been told of the database's types. */
  readonly types = new Map<number, Definition>();
  /** The first ReadyForQuery has come. */
  established = false;
  /** StartupMessage to the first ReadyForQuery. */
  readonly startup: Operation;
  readonly #answer: Prove;
  readonly #link: Link;
  readonly #inflight: Operation[] = [];
  #pumping = false;
  /** Input is parked behind rows that go first. */
  #parked = false;
  /** What says the bytes to write, in order. */
  readonly #outbox: (() => Uint8Array)[] = [];
  #writing: Promise<void> | undefined;
  #flushTimer: ReturnType<typeof setTimeout> | undefined;
  /** A byte has come (over TLS, when it is on): before that a failure is one of the handshake, whatever workerd calls it. */
  #heard = false;

  constructor(link: Link, core: Core, config: Config, start: (handle: CoreConnection) => number, answer: Prove) {
    this.#link = link;
    this.core = core;
    this.config = config;
    this.#answer = answer;
    core.onTrap = (error) => this.destroy(error);
    this.startup = this.operate(start);
  }

  /** Asks the core for an operation and answers for it until it has ended. */
  operate(command: (handle: CoreConnection) => number, sink?: Sink, interrupted?: (error: PgzError) => void, observation?: Observation): Operation {
    const operation = new Operation(sink, interrupted);
    operation.observation = observation;
    if (this.closed) {
      operation.end(this.closed);
      return operation;
    }
    this.#inflight.push(operation);
    if (this.executed.size > MOST_EXECUTED) {
      this.executed.clear();
      this.columns.clear();
    }
    this.command(command);
    if (!this.#pumping) void this.#pump();
    return operation;
  }

  /** Data of COPY, up to `end` in `buffer`, whose first `HEADER` bytes are free. They may not change before `written`. */
  copyData(buffer: Uint8Array, end: number): void {
    this.#next(() => {
      this.core.call((handle) => handle.copy_data(end - HEADER));
      const header = this.core.takeOutput();
      // The server wants no data any more; what stands here ends them.
      if (header.length !== HEADER) return header;
      buffer.set(header);
      return buffer.subarray(0, end);
    });
  }

  /** Resolves when all that was said has left. Never rejects. */
  get written(): Promise<void> {
    return this.#writing ?? Promise.resolve();
  }

  /** The shape's prepared statement is not to be used again. */
  forget(shapeId: number): void {
    if (!this.closed) this.#guarded(() => this.core.call((handle) => handle.forget(shapeId)));
  }

  /**
   * Nobody wants the operation's rows any more: they are read and dropped until ReadyForQuery, and the server is asked to stop.
   * Within a bound, else the connection goes. `operation.cleanup` tells when the next operation may start.
   */
  abandon(operation: Operation, cancel = true): void {
    if (operation.ended || operation.abandoned || this.closed) return;
    operation.abandoned = true;
    if (this.#inflight[0] === operation) this.#discard();
    operation.wake();
    operation.cleanup = this.#stop(operation, cancel);
    runtime().background(operation.cleanup);
  }

  /** The operation is not what its call was for. */
  refuse(operation: Operation, error: PgzError, cancel = true): void {
    this.#interrupt(operation, error, cancel);
  }

  /** Ends the connection now. Every operation in flight rejects with `error`. */
  destroy(error: PgzError): void {
    if (this.closed) return;
    this.closed = error;
    clearTimeout(this.#flushTimer);
    this.core.free(error);
    void this.#link.socket.close();
    for (const operation of this.#inflight.splice(0)) operation.end(error);
    this.onClosed?.(error);
  }

  /** Ends it politely: Terminate, and a CancelRequest for what still runs. Never rejects, within half a second. */
  async close(): Promise<void> {
    this.#guarded(() => {
      if (this.closed || !this.#inflight.length) return;
      const key = this.core.call((handle) => handle.cancel_request());
      this.cancels++;
      runtime().background(sendCancelRequest(this.#link, () => key, AbortSignal.timeout(CANCEL_DEADLINE)));
    });
    this.command((handle) => handle.terminate());
    if (this.#writing) await within(TERMINATE_DEADLINE, this.#writing);
    this.destroy(new UsageError("CLIENT_CLOSED", "The client was closed under this call."));
  }

  // -- the pump ----------------------------------------------------------------------------------------------------------

  async #pump(): Promise<void> {
    this.#pumping = true;
    try {
      while (this.#reads() && !this.closed) {
        if (this.#writing && !this.#inflight[0]?.sink.duplex) await this.#writing;
        const full = this.#inflight[0]?.abandoned ? undefined : this.#inflight[0]?.sink.full?.();
        if (full) await this.#settled(full, this.#inflight[0]!);
        const enough = this.listener?.full();
        if (enough) await enough;
        if (this.closed) break;
        const chunk = this.#parked ? NONE : await this.#link.socket.read();
        if (this.closed) break;
        // Without a Terminate of ours an end is a loss; the old workerd shows even an RST as an end.
        if (!chunk) throw this.#lost("the server closed it");
        this.#heard = true;
        this.#drain(this.core.receive(chunk));
      }
    } catch (cause) {
      this.#fail(cause);
    } finally {
      this.#pumping = false;
    }
  }

  #reads(): boolean {
    return this.#parked || this.#inflight.length > 0 || this.listener !== undefined || this.#link.socket.readsWhileIdle === true;
  }

  /** Waits until the sink wants more, or until nobody cares. */
  #settled(full: Promise<unknown>, operation: Operation): Promise<void> {
    return new Promise((resolve) => {
      operation.wake = resolve;
      full.then(() => resolve(), () => resolve());
    });
  }

  /**
   * Events, and more of the parked input, until the core has nothing left. Rows stay in the core until then, so that an error in
   * the same chunk still finds nothing committed; unless they are many: then their consumer takes them before there are more.
   */
  #drain(status: number): void {
    let output = 0;
    for (;;) {
      output |= status & OUTPUT;
      if (status & EVENT) this.#events();
      if (this.closed) return;
      this.#parked = (status & MORE) !== 0;
      if (!this.#parked || status & ROWS_FULL) break;
      status = this.core.receiveMore();
    }
    const operation = this.#inflight[0];
    if (status & ROWS && operation) this.#rows(operation, (status & ROWS_FULL) !== 0);
    if (output && !this.closed) this.#write();
  }

  #events(): void {
    for (const event of this.core.takeEvents()) {
      if (this.closed) return;
      this.#event(event);
    }
  }

  /** Asks the core for something that goes on, such as more items of a batch, and handles what that brings. */
  command(command: (handle: CoreConnection) => number): void {
    if (!this.closed) this.#guarded(() => this.#drain(this.core.call(command)));
  }

  /** Nothing thrown below may reach a caller as if it were theirs: it ends the connection. */
  #guarded(work: () => void): void {
    try {
      work();
    } catch (cause) {
      this.#fail(cause);
    }
  }

  /** One write for all that waits, of several commands too. Writes follow one another; the pump waits for them, since that is workerd's only back-pressure. */
  #write(): void {
    this.#next(() => this.core.takeOutput());
  }

  /** Behind what is being written; `bytes` says what then. */
  #next(bytes: () => Uint8Array): void {
    this.#outbox.push(bytes);
    this.#writing ??= this.#send();
  }

  async #send(): Promise<void> {
    try {
      // What else is said in this turn goes with it.
      await undefined;
      for (const bytes of this.#outbox) {
        const output = this.closed ? NONE : bytes();
        if (!output.length) continue;
        this.writes++;
        // A user's socket may give it away, and small outputs share memory.
        await this.#link.socket.write(this.config.connect ? output.slice() : output);
      }
    } catch (cause) {
      this.#fail(cause);
    }
    this.#outbox.length = 0;
    this.#writing = undefined;
  }

  // -- rows --------------------------------------------------------------------------------------------------------------

  #rows(operation: Operation, full: boolean): void {
    const { sink } = operation;
    if (operation.error || operation.abandoned) return this.core.dropRows();
    if (full || (sink.streams && !sink.unhurried && !operation.committed)) return this.#deliver(operation);
    if (sink.streams && !sink.unhurried) this.#flushTimer ??= setTimeout(() => this.#flush(operation), this.config.flushInterval);
  }

  /** Rows that come slower than `flushBytes` do not wait for ever. */
  #flush(operation: Operation): void {
    this.#flushTimer = undefined;
    if (this.closed || operation.ended || operation.abandoned || operation.error) return;
    if (operation.sink.full?.()) this.#flushTimer = setTimeout(() => this.#flush(operation), this.config.flushInterval);
    else this.#guarded(() => this.#deliver(operation));
  }

  #deliver(operation: Operation): void {
    const { sink } = operation;
    this.core.takeRows((view) => {
      if (sink.streams) operation.committed = true;
      operation.bytes += view.length;
      try {
        sink.rows?.(view);
      } catch (cause) {
        this.#interrupt(operation, cause instanceof PgzError ? cause : fromFailure({ code: "INVALID_VALUE", message: `The rows could not be decoded: ${String(cause)}` }, { cause }));
      }
    });
  }

  #discard(): void {
    this.#guarded(() => {
      this.core.call((handle) => handle.discard());
      this.core.dropRows();
    });
  }

  // -- events ------------------------------------------------------------------------------------------------------------

  #event(event: Event): void {
    const operation = this.#inflight[0];
    switch (event.kind) {
      case "parameterStatus": {
        const { name, value } = event;
        if (this.parameters.size < MOST_PARAMETERS || this.parameters.has(name)) this.parameters.set(name, value);
        if (this.established) emit(this.config.observer, "onParameterChange", { name, value });
        break;
      }
      case "notice": {
        const { observer = this.config.observer, id: queryId } = operation?.observation ?? {};
        emit(observer, "onNotice", { ...event.fields, queryId });
        break;
      }
      case "notification":
        this.listener?.notify(event);
        break;
      case "backendKeyData":
        this.processId = event.processId;
        break;
      case "keyDerivation":
      case "md5":
        void this.#prove(event);
        break;
      case "shape":
        freeze(event.columns);
        if (operation) operation.shape = event;
        break;
      case "columns":
        if (operation) this.#columns(operation, event);
        break;
      case "complete":
        if (operation) this.#complete(operation, event.command, event.rowCount);
        break;
      case "suspended":
        if (operation) operation.suspended = true;
        break;
      case "items":
        if (operation) this.#items(operation, event.items);
        break;
      case "switch":
        if (!operation || operation.abandoned) break;
        this.#deliver(operation);
        operation.sink.switched?.(event.statement);
        break;
      case "error": {
        const error = fromErrorResponse(event.fields, !this.established, { committed: operation?.committed });
        if (operation) {
          operation.bound = event.bound || (operation.bound && !operation.sink.items);
          if (!operation.truncated && !operation.sink.failed?.(error)) operation.error ??= error;
          operation.canceled ||= error.code === "57014";
        }
        // The server goes after these, and after any error of a startup.
        if (!this.established || /^(FATAL|PANIC)$/.test(event.fields.severity ?? "")) this.destroy(error);
        break;
      }
      case "limit":
        if (operation) this.#limit(operation, event);
        break;
      case "copy":
        if (operation?.sink.copy) operation.sink.copy(event.direction);
        else if (operation) {
          const error = new UsageError("COPY_NEEDS_COPY_CALL", "COPY data cannot be returned as rows: use copyFrom or copyTo.");
          // The core has refused COPY FROM by itself: the server's answer is on its way, a cancel could only meet the next call.
          this.#interrupt(operation, error, event.direction === "out");
        }
        break;
      case "shapeChanged":
        if (operation) {
          catalogOf(serverKey(this.config)).forget(event.typeOid);
          const what = `The columns of this query, or the types in them, are not those that were learned (type ${event.typeOid}): run it again, or cast the column to text.`;
          this.#interrupt(operation, new ProtocolError("SHAPE_CHANGED", what));
        }
        break;
      case "ready":
        this.transactionStatus = event.status;
        if (event.status !== "I") this.begin = undefined;
        this.established = true;
        if (operation && event.command !== undefined) this.#complete(operation, event.command, event.rowCount!);
        if (operation) this.#ended(operation);
        break;
      case "failure":
        this.destroy(fromFailure(event, { committed: operation?.committed }));
    }
  }

  #columns(operation: Operation, { shape, columns }: Event & { kind: "columns" }): void {
    if (shape) this.columns.set(shape, columns);
    freeze(columns);
    if (operation.abandoned) return;
    const { sink } = operation;
    // Rows of a batch that stand before these columns are of others.
    if (sink.items) this.#deliver(operation);
    try {
      takeColumns(sink, columns);
    } catch (cause) {
      this.#interrupt(operation, cause as PgzError);
    }
  }

  #items(operation: Operation, outcomes: Outcomes): void {
    for (let at = 1; at < outcomes.length; at += 3) operation.count(outcomes[at] as number | null);
    operation.sink.items?.(outcomes);
  }

  #complete(operation: Operation, command: string, rowCount: number | null): void {
    operation.command = command;
    operation.count(rowCount);
    if (!operation.sink.complete || operation.error || operation.abandoned) return;
    this.#deliver(operation);
    operation.sink.complete(command, rowCount);
  }

  #limit(operation: Operation, { limit, value, observed, truncated }: Event & { kind: "limit" }): void {
    if (!truncated) return this.#interrupt(operation, new ResponseTooLargeError({ limit, value, observed, committed: operation.committed }));
    operation.truncated = { limit, value, observed };
    this.#deliver(operation);
    this.abandon(operation);
  }

  #interrupt(operation: Operation, error: PgzError, cancel = true): void {
    operation.error ??= error;
    this.abandon(operation, cancel);
    operation.interrupted(error);
  }

  /** ReadyForQuery: what still waits in the core is this operation's. */
  #ended(operation: Operation): void {
    clearTimeout(this.#flushTimer);
    this.#flushTimer = undefined;
    if (operation.error || operation.abandoned) this.core.dropRows();
    else this.#deliver(operation);
    this.#inflight.shift();
    operation.end();
    if (this.#inflight[0]?.abandoned) this.#discard();
  }

  async #prove(question: Parameters<Prove>[0]): Promise<void> {
    try {
      const answer = await this.#answer(question);
      this.command((handle) => handle.prove(answer));
    } catch (cause) {
      this.#fail(cause);
    }
  }

  // -- ends --------------------------------------------------------------------------------------------------------------

  async #stop(operation: Operation, cancel: boolean): Promise<void> {
    const giveUp = new AbortController();
    const timer = setTimeout(() => {
      this.destroy(connectionLost("it was not ready in time after a cancelled call"));
      giveUp.abort();
    }, CANCEL_DEADLINE);
    let sent = false;
    // Once the operation has ended no cancel may be sent; one that was sent is waited for, else it could meet the next call.
    const ended = operation.done.catch(() => {}).then(() => sent || giveUp.abort());
    const key = (): Uint8Array | undefined => {
      if (operation.ended || this.closed) return undefined;
      sent = true;
      this.cancels++;
      return this.core.call((handle) => handle.cancel_request());
    };
    // An early query can be abandoned before BackendKeyData has come.
    let over = !cancel || (await this.startup.done.then(() => sendCancelRequest(this.#link, key, giveUp.signal)).catch(() => true));
    // A batch of several transactions goes on behind a cancel, and a pooler may have dropped one for a client that waited for a server.
    while (cancel && !operation.ended && !this.closed) {
      await within(operation.sink.isolated ? CANCEL_NEXT : CANCEL_AGAIN, ended);
      if (operation.ended || this.closed) break;
      over = (await sendCancelRequest(this.#link, key, giveUp.signal).catch(() => true)) && over;
    }
    await ended;
    clearTimeout(timer);
    // A cancel that has not been seen to end may be under way still, unless it is what ended the operation.
    if (!over && !operation.canceled) this.destroy(connectionLost("a cancel request may still reach it"));
  }

  #fail(cause: unknown): void {
    if (this.closed) return;
    const known = cause instanceof PgzError;
    if (known && cause.code !== "CONNECTION_LOST") return this.destroy(cause);
    // A socket knows neither how far the session had come nor what has gone downstream.
    this.destroy(this.#lost(reasonOf(cause), known ? cause.cause : cause));
  }

  #lost(reason: string, cause?: unknown): PgzError {
    if (this.#link.encrypted && !this.#heard) return tlsFailed(reason, cause);
    if (!this.established) return connectionLost(reason, { retryable: this.#inflight.length < 2, cause }, "auth");
    return connectionLost(reason, { cause, committed: this.#inflight[0]?.committed });
  }
}
