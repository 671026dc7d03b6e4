// What a user waits for: one call with its promise (or stream), its deadline and its signals. It settles once and
// immediately, even if the connection still has to clean up.
//
// Knows the connection only as something that runs and abandons operations. Must not know SQL or result formats.
import { AbortError, MAY_HAVE_RUN, PgzError, TimeoutError, type Facts } from "../util/errors.ts";
import type { CallSubject, Observation, Truncation } from "../util/observer.ts";
import { onAbort } from "../util/abort.ts";
import { errorOf, rejecting } from "../util/trace.ts";
import type { CoreConnection } from "../wasm/boundary.ts";
import type { Connection } from "../connection/connection.ts";
import type { Conversation, Operation } from "../connection/operation.ts";
import type { Earlier } from "./earlier.ts";

/** The outcome of a call. */
export interface Outcome {
  readonly rows: number | null;
  readonly bytes: number;
  readonly command: string;
  readonly truncated?: Truncation | undefined;
  readonly error?: PgzError | undefined;
}

/** The part of a call that operations for it need, whatever it resolves with. */
export type AnyCall = Pick<
  Call<unknown>,
  "finished" | "whenOver" | "operate" | "sent" | "comment" | "parsesAnew" | "copying" | "operation"
>;

/** A settled call, as its maker sees it. */
export type Settled = Pick<Call<never>, "index" | "observation">;

/** The maker of calls. `ended` is called once for each call that has settled. */
export interface Maker {
  ended(call: Settled, outcome: Outcome): void;
}

/**
 * The object that gives a call its connection, or looks for one. One of its methods is called once when the call has
 * settled, before the caller continues: on success after the maker's `ended`, on failure before it. (This is an object
 * that exists anyway: calls wait by the thousand, and a closure would cost 100 bytes for each.)
 */
export interface Holder {
  /** Why the call fails although what it ran has succeeded. */
  refusal?(operation: Operation | undefined): PgzError | undefined;
  onSuccess?(operation: Operation | undefined): void;
  onFailure?(error: unknown): void;
  /** What the call waits for, if it has no connection yet. */
  waitsFor?(): Wait | undefined;
}

/** What a call without a connection waits for. */
export interface Wait {
  /** The end of a sentence about the call's deadline. */
  readonly text: string;
  /** Why it has to wait, if that is an error. */
  readonly cause: unknown;
}

/** Receives, once, how the work of a call on its session ended. */
export interface Ending {
  /** The call has nothing more to do on its session. */
  over(): void;
  /** The call must fail with this error, unless it begins again. */
  failed(error: unknown): void;
}

/** Lets the next message follow a call on the wire: the next call, or a COMMIT. */
export interface Follower {
  /**
   * Called once, when the call has sent everything that it has to send: so many bytes. `isFirstRun`: the server may
   * refuse it, and then it is sent again, behind what has followed it.
   */
  sent(bytes: number, isFirstRun?: boolean): void;
}

/**
 * The object that a call's failure must reach besides its promise: a stream, a cursor, a transaction, facts of its
 * error.
 */
export interface Consumer {
  fail(error: PgzError): void;
  /** For a stream: whether written data waits for its reader. */
  isUnread?(): boolean;
  /** For a loop: whether its body still runs, although all rows may have come. */
  isLooping?(): boolean;
}

/** The facts of a call that are given when it is made. */
export interface Made {
  /** Milliseconds; 0: the call has no deadline of its own. */
  readonly timeout: number;
  readonly maker?: Maker | undefined;
  readonly observation?: Observation | undefined;
  /** What the call runs; undefined for a transaction. */
  readonly subject?: CallSubject;
  /** Whether the call's error includes its parameters. */
  readonly isDebug?: boolean;
  /** Whether the user awaits the call's promise, so that its error gets the user's stack. */
  readonly isOfUser?: boolean;
}

/** What a failing call cannot take back. Its error must not read as if nothing had happened. */
type Reached =
  /** Nothing except what its operations do. */
  | "nothing"
  /** Other calls work for it: something may have happened although it has no operation of its own. */
  | "calls"
  /** Some of its statements have committed, so it cannot be repeated as a whole. */
  | "commits"
  /** Rows of operations that are over have reached the user. */
  | "rows";

export class Call<T> {
  readonly promise: Promise<T>;
  readonly subject: CallSubject | undefined;
  readonly observation: Observation | undefined;
  consumer: Consumer | undefined;
  /** The holder of the call's connection, or of the search for one; undefined for calls of a client. */
  holder: Holder | undefined;
  follower: Follower | undefined;
  /** The COPY whose source is being read. */
  copying: Earlier | undefined;
  /** Where the call was made, if that is recorded. */
  trace: Error | undefined;
  /** The call's index in its maker's list. */
  index = 0;
  /**
   * A comment after the text of the call's statements: option `sqlComment`, evaluated in the context in which the call
   * was made.
   */
  comment = "";
  /**
   * Whether the server must parse its statement for this run. A statement that it has parsed before keeps its tables
   * when another table takes the name of one, in a schema that comes first (pgz-edge/cache).
   */
  parsesAnew = false;
  /** What its error must say of the transaction in which it ran when the connection was lost. */
  lost: Partial<Pick<PgzError, "transaction" | "retryable" | "hasNoEffect">> | undefined;
  /** `handed`: the user has the result, or its beginning. `over`: nothing that happens from now on reaches the user. */
  #state: "open" | "handed" | "over" = "open";
  #reached: Reached = "nothing";
  /** The operation on the wire, or the last one that was. */
  #operation: Operation | undefined;
  /**
   * Totals of the operations before the current one (`#rows`, `#bytes`), and those of them that were not over when the
   * next one was put on the wire (`#earlier`).
   */
  #rows: number | null = null;
  #bytes = 0;
  #earlier: Operation[] | undefined;
  #connection: Connection | undefined;
  #resolve!: (value: T | Promise<never>) => void;
  #reject!: (error: unknown) => void;
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  #stops: (() => void)[] | undefined;
  #listeners: (() => void)[] | undefined;
  readonly #maker: Maker | undefined;
  readonly #isDebug: boolean;
  readonly #isOfUser: boolean;

  constructor({ timeout, maker, observation, subject, isDebug = false, isOfUser = false }: Made) {
    this.subject = subject;
    this.observation = observation;
    this.trace = isDebug ? new Error() : undefined;
    this.#maker = maker;
    this.#isDebug = isDebug;
    this.#isOfUser = isOfUser;
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.#timer = timeout
      ? setTimeout(() => {
          const waiting = this.holder?.waitsFor?.();
          this.interrupt((facts) => tookTooLong(timeout, facts, waiting));
        }, timeout)
      : undefined;
  }

  get finished(): boolean {
    return this.#state === "over";
  }

  get operation(): Operation | undefined {
    return this.#operation;
  }

  get reached(): Reached {
    return this.#reached;
  }

  /** Notes what the call cannot take back from now on. */
  reaches(reached: Exclude<Reached, "nothing">): void {
    this.#reached = reached;
  }

  /** Ends the call when the signal aborts, or has already aborted. */
  abortOn(signal: AbortSignal | undefined): void {
    if (signal && !this.finished) (this.#stops ??= []).push(this.#interruptOn(signal));
  }

  #interruptOn(signal: AbortSignal): () => void {
    return onAbort(signal, () => this.interrupt((facts) => new AbortError(signal.reason, facts)));
  }

  /** Puts an operation of this call on the wire. */
  operate(connection: Connection, command: (handle: CoreConnection) => number, conversation?: Conversation): Operation {
    // No code would end such an operation.
    if (this.finished) throw new Error("an operation of a call that is over");
    this.#connection = connection;
    if (this.#operation?.ended) this.#count(this.#operation);
    else if (this.#operation) (this.#earlier ??= []).push(this.#operation);
    // A trap or a lost socket may have ended the operation already; the next await reports that.
    return (this.#operation = connection.operate(command, conversation, this));
  }

  /** Calls `listener` when the call has settled, in the same turn. */
  whenOver(listener: () => void): void {
    if (this.finished) listener();
    else (this.#listeners ??= []).push(listener);
  }

  /** Whether the call ends by itself after a `timeout`. */
  get isTimed(): boolean {
    return this.#timer !== undefined;
  }

  /** For a stream: whether written data waits for its reader. */
  isUnread(): boolean {
    return this.consumer?.isUnread?.() ?? false;
  }

  /** For a loop: whether its body still runs, although all rows may have come. */
  isLooping(): boolean {
    return this.consumer?.isLooping?.() ?? false;
  }

  /** Bytes received so far by the connection that the call's operations run on; 0 before the first operation. */
  get receivedBytes(): number {
    return this.#connection?.core.stats.receivedBytes ?? 0;
  }

  /**
   * Called when the call has put everything that it has to send on the wire. It sends more only if it must be run
   * again. Another call may follow it on the wire now; only one that reads, if this was a first run.
   */
  sent(bytes: number, isFirstRun = false): void {
    this.follower?.sent(bytes, isFirstRun);
    this.follower = undefined;
  }

  /** Gives the user the result, or its beginning: a stream continues after this until `succeed` or `fail`. */
  hand(value: T): void {
    if (this.#state === "open") this.#state = "handed";
    this.#resolve(value);
  }

  succeed(value: T): void {
    if (this.finished) return;
    const refusal = this.holder?.refusal?.(this.#operation);
    if (refusal) return this.fail(refusal);
    this.#resolve(value);
    this.#finish();
    this.holder?.onSuccess?.(this.#operation);
  }

  fail(cause: unknown): void {
    if (this.finished) return;
    const isHanded = this.#state === "handed";
    this.#state = "over";
    const { subject, trace } = this;
    const facts = { isDebug: this.#isDebug, trace, isInTransaction: this.#operation?.status === "E" };
    const error = subject && cause instanceof PgzError ? errorOf(cause, subject, facts) : cause;
    // The code that made the error did not know what had happened before.
    if (error instanceof PgzError) Object.assign(error, FACTS[this.#reached], this.lost);
    if (!isHanded) this.#rejectWith(error);
    this.holder?.onFailure?.(error);
    this.consumer?.fail(error as PgzError);
    this.#finish(error as PgzError);
  }

  #rejectWith(error: unknown): void {
    // No other code may wait for the promise: V8 does not follow a promise that has two waiters.
    if (this.#isOfUser) this.#resolve(rejecting(error));
    else this.#reject(error);
  }

  /** Ends the call from the driver's side, at once. An unsent call was only removed, so trying again is safe. */
  interrupt(error: (facts: Facts) => PgzError): void {
    if (this.finished) return;
    const operation = this.#operation;
    this.fail(error({ hasNoEffect: !operation && this.#reached === "nothing", committed: operation?.committed }));
    // Abandon every operation that the call has on the wire: one that kept running would make other calls wait for a
    // silent server.
    if (operation) for (const one of [...(this.#earlier ?? []), operation]) this.#connection?.abandon(one);
  }

  #finish(error?: PgzError): void {
    this.#state = "over";
    clearTimeout(this.#timer);
    this.#stops?.forEach((stop) => stop());
    this.#earlier?.forEach((operation) => this.#count(operation));
    if (this.#operation) this.#count(this.#operation);
    const { command = "", truncated } = (!error && this.#operation) || {};
    const outcome = { rows: this.#rows, bytes: this.#bytes, command, error };
    this.#maker?.ended(this, truncated ? { ...outcome, truncated } : outcome);
    this.#listeners?.forEach((listener) => listener());
  }

  #count({ rowCount, bytes }: Operation): void {
    if (rowCount !== null) this.#rows = (this.#rows ?? 0) + rowCount;
    this.#bytes += bytes;
  }
}

/** The facts that an error gets for each of these. */
const FACTS: Readonly<Record<Reached, object>> = {
  nothing: {},
  calls: {},
  commits: MAY_HAVE_RUN,
  rows: { committed: true, ...MAY_HAVE_RUN },
};

/** Returns the error of a deadline that has passed. `waiting`: what the call waited for. */
export function tookTooLong(timeout: number, facts?: Facts, waiting?: Wait): TimeoutError {
  const where = waiting ? `, ${waiting.text}` : "";
  const message = `The call took longer than ${timeout} ms (timeout)${where}.`;
  return new TimeoutError("QUERY_TIMEOUT", message, { ...facts, cause: waiting?.cause });
}
