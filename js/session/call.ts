// What a user waits for: one call, its promise (or stream), its deadline and its signals. It settles once, at once,
// whatever the connection still has to clean up.
//
// Knows the connection only as something that runs and abandons operations. Must not know SQL or result formats.
import { AbortError, PgzError, TimeoutError, type Facts } from "../util/errors.ts";
import type { Asked, Observation, Truncation } from "../util/observer.ts";
import { onAbort } from "../util/abort.ts";
import { errorOf, rejecting } from "../util/trace.ts";
import type { CoreConnection } from "../wasm/boundary.ts";
import type { Connection } from "../connection/connection.ts";
import type { Conversation, Operation } from "../connection/operation.ts";

/** What a call came to. */
export interface Outcome {
  readonly rows: number | null;
  readonly bytes: number;
  readonly command: string;
  readonly truncated?: Truncation | undefined;
  readonly error?: PgzError | undefined;
}

/** A call, whatever it resolves with: what runs for it needs no more. */
export type AnyCall = Pick<Call<unknown>, "finished" | "whenOver" | "operate" | "said">;

export class Call<T> {
  readonly promise: Promise<T>;
  /** Nothing that happens from now on reaches the user. */
  finished = false;
  /** The operation on the wire, or the last one that was. */
  operation: Operation | undefined;
  /** How a failure reaches what the user already holds, such as a stream. */
  onFailure: ((error: PgzError) => void) | undefined;
  /** Is called once, when the call has succeeded, before its caller goes on. */
  onSuccess: (() => void) | undefined;
  /** Is called once: all that the call has to say is on the wire, and it is so many bytes. */
  onSaid: ((bytes: number) => void) | undefined;
  readonly observation: Observation | undefined;
  /** Other calls work for it, so that something may have happened though it has no operation of its own. */
  delegated = false;
  /**
   * Rows of operations that are over have reached the user: no error of this call can be answered as if nothing had
   * happened.
   */
  delivered = false;
  /** Some of its statements have committed, so it cannot be made again as a whole. */
  hasCommitted = false;
  /** What it asks for; of a transaction nothing. */
  asked: Asked | undefined;
  /** Where it was made, if that is recorded. */
  trace: Error | undefined;
  /** Its error has its parameters. */
  isDebug = false;
  /** Who awaits its promise is the user, so that its error names him. */
  isOfUser = false;
  /** Of a stream: what was written waits for its reader. */
  isUnread: () => boolean = () => false;
  /** In its queue's list. */
  place = 0;
  /** Of the operations before this one; those that were not over when the next one was put on the wire. */
  #rows: number | null = null;
  #bytes = 0;
  readonly #ahead: Operation[] = [];
  #connection: Connection | undefined;
  #resolve!: (value: T | Promise<never>) => void;
  #reject!: (error: unknown) => void;
  /** The user has the result, or its beginning. */
  #isHanded = false;
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #stops: (() => void)[] = [];
  #listeners: (() => void)[] | undefined;
  readonly #ended: (result: Outcome) => void;

  /** `ended` is called once, when the call has settled. */
  constructor(timeout: number, ended: (result: Outcome) => void = () => {}, observation?: Observation) {
    this.#ended = ended;
    this.observation = observation;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#timer = timeout
      ? setTimeout(() => this.interrupt((facts) => tookTooLong(timeout, facts)), timeout)
      : undefined;
  }

  /** Any of these ends it, also when it has aborted before. */
  heed(...signals: (AbortSignal | undefined)[]): void {
    for (const signal of signals) {
      if (signal && !this.finished)
        this.#stops.push(onAbort(signal, () => this.interrupt((facts) => new AbortError(signal.reason, facts))));
    }
  }

  /** Puts an operation of this call on the wire. */
  operate(connection: Connection, command: (handle: CoreConnection) => number, conversation?: Conversation): Operation {
    // Nobody would end it.
    if (this.finished) throw new Error("an operation of a call that is over");
    this.#connection = connection;
    if (this.operation?.ended) this.#count(this.operation);
    else if (this.operation) this.#ahead.push(this.operation);
    this.operation = connection.operate(command, conversation, this);
    // A trap or a lost socket may have ended it already; the next await says so.
    return this.operation;
  }

  /** Calls `listener` when it has settled, in the same turn. */
  whenOver(listener: () => void): void {
    if (this.finished) listener();
    else (this.#listeners ??= []).push(listener);
  }

  /** It ends by itself when its `timeout` is over. */
  get isTimed(): boolean {
    return this.#timer !== undefined;
  }

  /** What the connection has received that its operations are on; 0 before the first one. */
  get receivedBytes(): number {
    return this.#connection?.core.stats.receivedBytes ?? 0;
  }

  /** All that the call has to say is on the wire, unless it has to be run again: another one may follow it there. */
  said(bytes: number): void {
    this.onSaid?.(bytes);
    this.onSaid = undefined;
  }

  /** The user has the result, or its beginning: a stream goes on after this until `succeed` or `fail`. */
  hand(value: T): void {
    this.#isHanded = true;
    this.#resolve(value);
  }

  succeed(value: T): void {
    if (this.finished) return;
    this.hand(value);
    this.#finish();
    this.onSuccess?.();
  }

  fail(cause: unknown): void {
    if (this.finished) return;
    this.finished = true;
    const { asked, isDebug, trace } = this;
    const error = asked && cause instanceof PgzError ? errorOf(cause, asked, isDebug, trace) : cause;
    // Where the error was made nothing was known of earlier rows.
    if (error instanceof PgzError) {
      if (this.hasCommitted) Object.assign(error, { retryable: false });
      if (this.delivered) Object.assign(error, { committed: true, retryable: false });
    }
    if (this.#isHanded) return this.#failed(error as PgzError);
    // Nobody else may wait for the promise: V8 does not follow one that two wait for.
    if (this.isOfUser) this.#resolve(rejecting(error));
    else this.#reject(error);
    this.#failed(error as PgzError);
  }

  #failed(error: PgzError): void {
    this.onFailure?.(error);
    this.#finish(error);
  }

  /** Ends the call from our side, at once. Unsent it was only removed, so trying again is safe. */
  interrupt(error: (facts: Facts) => PgzError): void {
    if (this.finished) return;
    const { operation } = this;
    this.fail(error({ retryable: !operation && !this.delegated, committed: operation?.committed }));
    // All that it has on the wire: one that nobody stops would keep the others waiting for a server that is silent.
    if (operation) for (const one of [...this.#ahead, operation]) this.#connection?.abandon(one);
  }

  #finish(error?: PgzError): void {
    this.finished = true;
    clearTimeout(this.#timer);
    for (const stop of this.#stops) stop();
    for (const operation of this.#ahead) this.#count(operation);
    if (this.operation) this.#count(this.operation);
    const { command = "", truncated } = (!error && this.operation) || {};
    const outcome = { rows: this.#rows, bytes: this.#bytes, command, error };
    this.#ended(truncated ? { ...outcome, truncated } : outcome);
    if (this.#listeners) for (const listener of this.#listeners) listener();
  }

  #count({ rowCount, bytes }: Operation): void {
    if (rowCount !== null) this.#rows = (this.#rows ?? 0) + rowCount;
    this.#bytes += bytes;
  }
}

/** The error of a deadline that has passed. */
export function tookTooLong(timeout: number, facts?: Facts): TimeoutError {
  return new TimeoutError("QUERY_TIMEOUT", `The call took longer than ${timeout} ms (timeout).`, facts);
}
