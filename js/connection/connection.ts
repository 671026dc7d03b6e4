// The pump of one connection: moves bytes between socket and core by the drain rule of docs/architecture.md, and ends
// the connection.
//
// It reads while operations are in flight, and also while idle if the socket allows that (`readsWhileIdle`), so that it
// notices at once when an idle connection ends. On Workers a read belongs to its request, so no read may outlive the
// last operation. In a Durable Object a read may (`staysRead`). Knows the socket contract, the core and its events.
// Must not know SQL, parameters, users' promises or how streams work.
import type { Config } from "../config/options.ts";
import { explained } from "../config/tls.ts";
import { knownServer } from "../server/known-server.ts";
import { connectionLost, reasonOf, tlsFailed } from "../runtime/contract.ts";
import { runtime } from "../runtime/runtime.ts";
import {
  fromErrorResponse,
  shownFields,
  fromFailure,
  isFatal,
  MAY_HAVE_RUN,
  PgzError,
  UsageError,
} from "../util/errors.ts";
import { copyOf, ownError } from "../util/trace.ts";
import { CANCEL_DEADLINE, MOST_PARAMETERS, TERMINATE_DEADLINE } from "../util/limits.ts";
import { emit, hasMethod } from "../util/observer.ts";
import { withDeadline } from "../util/deadline.ts";
import { inMicrotask } from "../util/microtask.ts";
import {
  MORE,
  OUTPUT,
  ROWS,
  ROWS_FULL,
  TELLS,
  type Core,
  type CoreConnection,
  type Event,
  type EventOf,
} from "../wasm/boundary.ts";
import { sendCancelRequest } from "./cancel.ts";
import type { Link } from "./dial.ts";
import { Operation, ofPreludes, type Conversation, type NotificationListener, type Owner } from "./operation.ts";
import { OperationEvents } from "./operation-events.ts";
import { Outbox } from "./outbox.ts";
import { HEADER } from "../wasm/messages.ts";
import { RowDelivery } from "./row-delivery.ts";
import { stop, waitForEnd } from "./stop.ts";

const NONE = new Uint8Array();
const IN_FAILED_TRANSACTION = "25P02";

/** Handlers for the login. */
export interface LoginHandlers {
  /** The server requests SASL with one of these mechanisms. */
  offers(mechanisms: readonly string[]): void;
  /** Returns what the core asks for: SCRAM's SaltedPassword, or the text of PasswordMessage for MD5. */
  prove(question: EventOf<"keyDerivation" | "md5">): Promise<Uint8Array>;
}

export class Connection {
  readonly core: Core;
  readonly config: Config;
  /** The operation from StartupMessage to the first ReadyForQuery. */
  readonly startup: Operation;
  /** The listener for notifications. */
  listener: NotificationListener | undefined;
  /** The server has reported that this session cannot write (25006). */
  refusedWrite = false;
  /**
   * How often SQL of a caller has begun a transaction, or has ended one and may have stored something: BEGIN, COMMIT,
   * PREPARE TRANSACTION, also with AND CHAIN, and ROLLBACK with statements after it.
   */
  blockChanges = 0;
  /** Called for each completed command. */
  onCommand: ((command: string) => void) | undefined;
  /**
   * A read may stay pending while no operation is in flight, even where sockets belong to requests: set in a Durable
   * Object.
   */
  staysRead = false;
  /** The operations that were in flight when the connection ended, also abandoned ones. */
  unanswered: readonly Operation[] = [];
  /** A caller has been told that the connection is lost, and with it the transaction that was open. */
  lossIsReported = false;
  /** When the server will end the session, according to the source of the password. */
  expiresAt: number | undefined;
  /** The settings that the server reports in ParameterStatus. */
  readonly parameters = new Map<string, string>();
  /** Times in binary are integers, as every PostgreSQL from 10 on reports. Known after the first ReadyForQuery. */
  integerDatetimes = true;
  /** CancelRequests sent, writes to the socket, and writes that were the first after bytes from the server. */
  readonly counters = { cancels: 0, writes: 0, flights: 0 };
  #closed: PgzError | undefined;
  /** Set when Terminate has been sent: the server then closes the connection, and that is no loss. */
  #leaving: PgzError | undefined;
  /** The core passes on every notice. */
  #wantsNotices = false;
  #transactionStatus = "I";
  /** The first error of a transaction that has failed: the reason of each 25P02 until it ends. */
  #failedBy: PgzError | undefined;
  /** Why the connection ends as soon as nothing runs on it. */
  #spent: PgzError | undefined;
  #processId: number | undefined;
  #established = false;
  readonly #login: LoginHandlers;
  readonly #link: Link;
  readonly #inflight: Operation[] = [];
  /** The cleanups of abandoned operations. */
  readonly #cleanups = new Set<Promise<void>>();
  readonly #closeListeners = new Set<(error: PgzError) => void>();
  #pumping = false;
  /** Input waits in the core until the rows in front of it are taken. */
  #parked = false;
  readonly #outbox: Outbox;
  readonly #takeOutput = (): Uint8Array => this.core.takeOutput();
  readonly #delivery: RowDelivery;
  readonly #events: OperationEvents;
  /**
   * A byte has arrived (over TLS, if it is on). A failure before that belongs to the handshake, whatever workerd calls
   * it.
   */
  #hasReceived = false;
  /** Nothing has been written since the last bytes arrived. */
  #isAnswered = true;

  constructor(link: Link, core: Core, config: Config, start: (handle: CoreConnection) => number, login: LoginHandlers) {
    this.#link = link;
    this.core = core;
    this.config = config;
    this.#login = login;
    this.#outbox = new Outbox(
      (bytes) => this.#send(bytes),
      (cause) => this.#fail(cause),
    );
    this.#delivery = new RowDelivery(this, core, config.flushInterval);
    this.#events = new OperationEvents(this, this.#delivery);
    const trapped = (error: PgzError) => this.destroy(error);
    core.onTrap = trapped;
    this.startup = this.operate(start);
  }

  /** Why the connection is over; `undefined` while it is usable. */
  get closed(): PgzError | undefined {
    return this.#closed;
  }

  /** The status in the last ReadyForQuery: `I` outside a transaction, `T` inside, `E` inside one that failed. */
  get transactionStatus(): string {
    return this.#transactionStatus;
  }

  /** Whether the server is a pooler: the order of its responses proves nothing. */
  get isPooled(): boolean {
    return knownServer(this.config).database.isPooler;
  }

  /** How the connection reaches its server. */
  get link(): Link {
    return this.#link;
  }

  get processId(): number | undefined {
    return this.#processId;
  }

  /** Whether the first ReadyForQuery has arrived. */
  get established(): boolean {
    return this.#established;
  }

  /**
   * Calls `listener` when the connection is over, for code that waits between two operations. Returns a function that
   * removes it.
   */
  onClosed(listener: (error: PgzError) => void): () => void {
    this.#closeListeners.add(listener);
    return () => void this.#closeListeners.delete(listener);
  }

  /** Starts an operation in the core and is responsible for it until it has ended. */
  operate(command: (handle: CoreConnection) => number, conversation: Conversation = {}, owner?: Owner): Operation {
    const operation = new Operation(conversation, owner);
    if (this.#closed) {
      operation.end(this.#closed);
      return operation;
    }
    operation.mayBeHit = this.#cleanups.size > 0;
    this.#inflight.push(operation);
    if (!this.#wantsNotices) this.#askForNotices(owner);
    // As `command` does, without its two functions: every call passes here.
    try {
      this.#drain(this.core.call(command));
    } catch (cause) {
      this.#fail(cause);
    }
    if (!this.#pumping) this.#startPump();
    return operation;
  }

  /** Asks the core for notices once an observer takes them: without one, each would be read for nothing. */
  #askForNotices(owner: Owner | undefined): void {
    if (!hasMethod(owner?.observation?.observer ?? this.config.observer, "onNotice")) return;
    this.#wantsNotices = true;
    this.callCore((handle) => handle.want_notices());
  }

  /**
   * Sends COPY data, up to `end` in `buffer`, whose first `HEADER` bytes are free. The bytes may not change before
   * `written`.
   */
  copyData(buffer: Uint8Array, end: number): void {
    this.#outbox.push(() => {
      this.core.call((handle) => handle.copy_data(end - HEADER));
      const header = this.core.takeOutput();
      // The server wants no more data. The output is then the message that ends the data.
      if (header.length !== HEADER) return header;
      buffer.set(header);
      return buffer.subarray(0, end);
    });
  }

  /** Whether an operation is in flight. */
  get isBusy(): boolean {
    return this.#inflight.length > 0;
  }

  /** Resolves when everything pushed to the outbox has been written. Never rejects. */
  get written(): Promise<void> {
    return this.#outbox.writing ?? Promise.resolve();
  }

  /** Sends the core a command that causes no response and no event. */
  callCore(command: (handle: CoreConnection) => void): void {
    if (!this.#closed) this.guarded(() => this.core.call(command));
  }

  /**
   * Abandons the operation: its rows are read and dropped until ReadyForQuery, and the server is asked to stop. If that
   * takes too long, the connection is destroyed. `operation.cleanup` resolves when the next operation may start.
   */
  abandon(operation: Operation): void {
    this.#abandon(operation, stop);
  }

  /** As `abandon`, but the server is not asked to stop: its ReadyForQuery comes soon, with or without a cancel. */
  abandonWithoutCancel(operation: Operation): void {
    this.#abandon(operation, waitForEnd);
  }

  #abandon(operation: Operation, end: typeof stop): void {
    if (this.#closed) return;
    operation.abandon(() => {
      if (this.#inflight[0] === operation) this.#discard();
      const cleanup = this.#ended(operation, end);
      this.#cleanups.add(cleanup);
      void cleanup.then(() => this.#cleanups.delete(cleanup));
      runtime().background(cleanup);
      return cleanup;
    });
  }

  /**
   * Ends an operation once the operations in front of it are over: a CancelRequest ends whatever the server runs when
   * it arrives.
   */
  async #ended(operation: Operation, end: typeof stop): Promise<void> {
    const before = this.#inflight[this.#inflight.indexOf(operation) - 1];
    await before?.done.catch(() => {});
    if (!operation.ended) await end(operation, this, this.#link);
  }

  /**
   * Pending while an abandoned operation is being stopped. Calls that are not on the wire yet wait for it, so that no
   * cancel hits them.
   */
  get stopping(): Promise<unknown> | undefined {
    return this.#cleanups.size ? Promise.all(this.#cleanups) : undefined;
  }

  /** Ends the operation from the driver's side: it fails with `error`, and so does its call, at once. */
  interrupt(operation: Operation, error: PgzError): void {
    this.#interrupt(operation, error, stop);
  }

  /** As `interrupt`, but the server is not asked to stop. */
  interruptWithoutCancel(operation: Operation, error: PgzError): void {
    this.#interrupt(operation, error, waitForEnd);
  }

  #interrupt(operation: Operation, error: PgzError, end: typeof stop): void {
    operation.fail(error);
    this.#abandon(operation, end);
    operation.owner?.fail(error);
  }

  /** Ends an operation whose statement is a COPY that the call has no data or no place for. */
  refuseCopy(operation: Operation, direction: "in" | "out", error: PgzError): void {
    // The core has already refused COPY FROM with CopyFail, so the server's response is on its way. A cancel could only
    // hit the next call.
    if (direction === "in") this.interruptWithoutCancel(operation, error);
    else this.interrupt(operation, error);
  }

  /**
   * Runs `work`. An exception in it must not reach a caller as if it were the caller's error, so it ends the
   * connection.
   */
  guarded(work: () => void): void {
    try {
      work();
    } catch (cause) {
      this.#fail(cause);
    }
  }

  /** Returns the bytes of a CancelRequest, and counts it as sent. */
  cancelRequest(): Uint8Array {
    this.counters.cancels++;
    for (const operation of this.#inflight) operation.mayBeHit = true;
    return this.core.call((handle) => handle.cancel_request());
  }

  /** Ends a login that takes too long, or that no caller waits for any more. */
  giveUp(error: PgzError): void {
    if (!this.#closed) this.#endLogin(error);
  }

  /**
   * Ends a login that the server has not refused. A query that has already been sent after the login may still run, so
   * its call is not safe to repeat.
   */
  #endLogin(error: PgzError): void {
    const hasLeft = this.#inflight.length > 1 && !this.core.call((handle) => handle.holds_back());
    this.destroy(error, error.hasNoEffect && hasLeft ? Object.assign(copyOf(error), MAY_HAVE_RUN) : error);
  }

  /**
   * Ends the connection now. Every operation in flight rejects with `error`. `afterLogin`: operations that follow an
   * unfinished login reject with this error instead.
   */
  destroy(error: PgzError, afterLogin = error): void {
    if (this.#closed) return;
    this.#closed = error;
    if (this.#established) ownError(error); // each call gets a copy
    if (this.#established && !this.#leaving) this.#reportLoss(error);
    this.#delivery.stopTimer();
    this.#outbox.close();
    this.core.free(error);
    void this.#link.socket.close();
    this.unanswered = this.#inflight.splice(0);
    for (const operation of this.unanswered) operation.end(operation === this.startup ? error : afterLogin);
    for (const listener of this.#closeListeners) listener(error);
  }

  /**
   * Ends the connection when nothing runs on it and no transaction is open: later responses might belong to another
   * operation.
   */
  endWhenIdle(error: PgzError): void {
    this.#spent = error;
    this.#endIfSpent();
  }

  #endIfSpent(): void {
    if (this.#spent && !this.#inflight.length && this.#transactionStatus === "I") this.destroy(this.#spent);
  }

  #reportLoss(error: PgzError): void {
    const { host, port, database, user, observer } = this.config;
    emit(observer, "onDisconnect", { host, port, database, user, processId: this.#processId, error });
  }

  /**
   * Ends the connection politely: sends Terminate, and a CancelRequest for an operation that still runs. Never rejects,
   * and takes at most half a second.
   */
  async close(): Promise<void> {
    this.guarded(() => {
      if (this.#closed || !this.#inflight.length) return;
      const key = this.cancelRequest();
      if (!key.length) return; // without BackendKeyData there is no key to cancel with
      runtime().background(sendCancelRequest(this.#link, () => key, AbortSignal.timeout(CANCEL_DEADLINE)));
    });
    this.#leaving ??= new UsageError(
      "CLIENT_CLOSED",
      "The client was closed under this call: await its calls before close().",
    );
    this.command((handle) => handle.terminate());
    await withDeadline(TERMINATE_DEADLINE, this.#flushed());
    this.destroy(this.#leaving);
  }

  /** Lets the socket keep the process alive, as a new one does, where sockets do that. */
  ref(): void {
    this.#link.socket.ref?.();
  }

  unref(): void {
    this.#link.socket.unref?.();
  }

  /** Resolves when all output is on its way, so that closing the socket loses none of it. */
  async #flushed(): Promise<void> {
    await this.#outbox.writing;
    await this.#link.socket.flushed?.();
  }

  // -- the pump -------------------------------------------------------------------------------------------------------

  /** Starts in a microtask: output leaves at the end of this turn, and the pump then mostly need not wait for it. */
  #startPump(): void {
    this.#pumping = true;
    inMicrotask(() => void this.#pump());
  }

  async #pump(): Promise<void> {
    try {
      while (this.#mayRead()) {
        for (let obstacle = this.#obstacle(); obstacle; obstacle = this.#obstacle()) await obstacle;
        if (this.#closed) break;
        const isParked = this.#parked;
        const chunk = isParked ? NONE : await this.#link.socket.read(this.#take);
        if (this.#closed) break;
        // If the driver has not sent Terminate, an end is a loss. The old workerd reports even an RST as a clean end.
        if (!chunk) throw this.#lost("the server closed it");
        if (chunk.length || isParked) this.#drain(this.#received(chunk));
      }
    } catch (cause) {
      this.#fail(cause);
    } finally {
      this.#pumping = false;
    }
  }

  /** Takes bytes that the socket offers while a read is pending. Returns whether more may follow at once. */
  readonly #take = (bytes: Uint8Array): boolean => {
    if (this.#closed) return false;
    try {
      this.#drain(this.#received(bytes));
      return !this.#closed && !this.#parked && this.#mayRead() && !this.#obstacle();
    } catch (cause) {
      this.#fail(cause);
      return false;
    }
  };

  #received(bytes: Uint8Array): number {
    this.#hasReceived = true;
    this.#isAnswered = true;
    return this.core.receive(bytes);
  }

  /** What the pump waits for before it reads: a write, or a consumer that wants no more for now. */
  #obstacle(): Promise<unknown> | undefined {
    if (this.#closed) return;
    const { writing } = this.#outbox;
    if (writing && !this.#isDuplex()) return writing;
    const operation = this.#inflight[0];
    const full = operation?.abandoned ? undefined : operation?.conversation.rows?.full?.();
    return full ? this.#untilWanted(full, operation!) : this.listener?.full();
  }

  /** Responses arrive while more is written: neither side may wait until the other has read everything. */
  #isDuplex(): boolean {
    return this.#inflight.length > 1 || this.#inflight[0]?.conversation.duplex === true;
  }

  #mayRead(): boolean {
    return (
      this.#parked ||
      this.#inflight.length > 0 ||
      this.listener !== undefined ||
      this.staysRead ||
      this.#link.socket.readsWhileIdle === true
    );
  }

  /** Waits until the sink wants more, or until the operation is abandoned or over. */
  #untilWanted(full: Promise<unknown>, operation: Operation): Promise<void> {
    return new Promise((resolve) => {
      const goOn = () => resolve();
      operation.wake = goOn;
      full.then(goOn, goOn);
    });
  }

  /**
   * Handles events, and feeds the parked input, until the core has nothing left. Rows stay in the core until then, so
   * that an error in the same chunk still finds nothing committed. The exception is many rows: their consumer takes
   * them before more are made.
   */
  #drain(status: number): void {
    let output = 0;
    for (;;) {
      output |= status & OUTPUT;
      if (status & TELLS)
        for (const event of this.core.takeEvents(status)) {
          if (this.#closed) return;
          this.#event(event);
        }
      if (this.#closed) return;
      this.#parked = (status & MORE) !== 0;
      if (!this.#parked || status & ROWS_FULL) break;
      status = this.core.receiveMore();
    }
    const operation = this.#inflight[0];
    if (status & ROWS && operation) this.#delivery.offer(operation, (status & ROWS_FULL) !== 0);
    // One write takes all waiting output, even of several commands. The pump waits for it, because that is workerd's
    // only back-pressure.
    if (output && !this.#closed) this.#outbox.push(this.#takeOutput);
  }

  /**
   * Runs a command that continues an operation, such as more items of a batch, and handles the resulting events and
   * output.
   */
  command(command: (handle: CoreConnection) => number): void {
    if (!this.#closed) this.guarded(() => this.#drain(this.core.call(command)));
  }

  #send(bytes: Uint8Array): Promise<void> | undefined {
    this.counters.writes++;
    if (this.#isAnswered) this.counters.flights++;
    this.#isAnswered = false;
    // A user's socket may pass the bytes on, and small outputs share memory, so it gets a copy.
    return this.#link.socket.write(this.config.connect ? bytes.slice() : bytes);
  }

  #discard(): void {
    this.guarded(() => {
      this.core.call((handle) => handle.discard());
      this.core.dropRows();
    });
  }

  // -- events ---------------------------------------------------------------------------------------------------------

  /**
   * Handles events of the connection here and passes the others to the operation in front. Without an operation those
   * are too late, and are ignored.
   */
  #event(event: Event): void {
    const operation = this.#inflight[0];
    switch (event.kind) {
      case "parameterStatus":
        return this.#parameterStatus(event);
      case "notice":
        return this.#notice(event, operation);
      case "notification":
        return this.listener?.notify(event);
      case "backendKeyData":
        this.#processId = event.processId;
        knownServer(this.config).noteProcessId(event.processId);
        return;
      case "sasl":
        return this.#login.offers(event.mechanisms);
      case "keyDerivation":
      case "md5":
        return void this.#prove(event);
      case "error":
        return this.#error(event, operation);
      case "ready":
        return this.#ready(event, operation);
      case "failure":
        return this.destroy(fromFailure(event, { committed: operation?.committed, cause: operation?.error }));
      case "tls":
        return; // belongs to a socket that is not a session yet
    }
    if (operation) this.#events.handle(operation, event);
  }

  #parameterStatus({ name, value }: EventOf<"parameterStatus">): void {
    if (this.parameters.size < MOST_PARAMETERS || this.parameters.has(name)) this.parameters.set(name, value);
    if (this.#established) emit(this.config.observer, "onParameterChange", { name, value });
  }

  #notice({ fields }: EventOf<"notice">, operation: Operation | undefined): void {
    if (operation && fields.code === "25P01") operation.wasOutside = true;
    const { observer = this.config.observer, id: queryId } = operation?.owner?.observation ?? {};
    emit(observer, "onNotice", { ...shownFields(fields), queryId });
  }

  #error({ fields, bound, answered, part }: EventOf<"error">, operation: Operation | undefined): void {
    const error = fromErrorResponse(fields, {
      isStartup: !this.#established,
      // A backend responds to Parse or Bind before it runs anything, and its last message comes after its responses.
      // With nothing in flight, that message may follow a COMMIT whose response has not been seen yet.
      isUntouched: operation !== undefined && !bound && !answered && !this.isPooled,
      committed: operation?.committed,
      cause: fields.code === IN_FAILED_TRANSACTION ? this.#failedBy : undefined,
    });
    this.#failedBy ??= error;
    if (operation) {
      const reached = { hasBound: bound, failedPart: part === "statement" ? undefined : part };
      if (part === "prelude") ofPreludes.add(error);
      if (!operation.truncated && !operation.conversation.on?.error?.(error, reached)) operation.fail(error, reached);
      operation.canceled ||= error.code === "57014";
    }
    this.refusedWrite ||= error.code === "25006";
    // The server closes the connection after these, and after any error of a startup.
    if (!this.#established || isFatal(fields)) this.destroy(error);
  }

  /** Handles ReadyForQuery. Rows that still wait in the core belong to this operation. */
  #ready({ status }: EventOf<"ready">, operation: Operation | undefined): void {
    if (status === "I" && operation?.hasGoneOnAfterRollback) this.blockChanges++;
    this.#transactionStatus = status;
    if (status !== "E") this.#failedBy = undefined;
    if (!this.#established) this.#readTimes();
    this.#established = true;
    if (!operation) return;
    this.#delivery.stopTimer();
    if (operation.isUnwanted) this.core.dropRows();
    else this.#delivery.deliver(operation);
    this.#inflight.shift();
    operation.status = status;
    operation.end();
    const next = this.#inflight[0];
    if (next) this.#isNext(next);
    else this.#endIfSpent();
  }

  /** A server that does not report `integer_datetimes` as `on` may write times as seconds, a float8. */
  #readTimes(): void {
    this.integerDatetimes = this.parameters.get("integer_datetimes") === "on";
    if (!this.integerDatetimes) this.callCore((handle) => handle.float_times());
  }

  #isNext(operation: Operation): void {
    if (operation.abandoned) return this.#discard();
    try {
      operation.conversation.isNext?.();
    } catch (cause) {
      this.interrupt(operation, cause as PgzError);
    }
  }

  async #prove(question: EventOf<"keyDerivation" | "md5">): Promise<void> {
    try {
      const answer = await this.#login.prove(question);
      this.command((handle) => handle.prove(answer));
    } catch (cause) {
      this.#fail(cause);
    }
  }

  // -- ends -----------------------------------------------------------------------------------------------------------

  #fail(cause: unknown): void {
    if (this.#closed) return;
    const known = cause instanceof PgzError;
    if (known && cause.code !== "CONNECTION_LOST") return this.destroy(cause);
    // A socket knows neither how far the session had got nor which rows have gone downstream.
    const lost = this.#lost(reasonOf(cause), known ? cause.cause : cause);
    if (this.#established) this.destroy(lost);
    else this.#endLogin(lost);
  }

  #lost(reason: string, cause?: unknown): PgzError {
    if (this.#leaving) return this.#leaving;
    // If there is no cause, the server just closed the connection.
    if (this.#link.encrypted && !this.#hasReceived)
      return explained(
        cause === undefined ? tlsFailed(reason, cause, true) : tlsFailed(reason, cause),
        this.config,
        runtime(),
      );
    if (!this.#established) return connectionLost(reason, { hasNoEffect: true, cause }, "auth");
    return connectionLost(reason, { cause, committed: this.#inflight[0]?.committed });
  }
}
