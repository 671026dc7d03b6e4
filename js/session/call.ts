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
export type AnyCall = Pick<Call<unknown>, "finished" | "whenOver" | "operate" | "sent" | "comment">;

/** A call that has settled, to who has made it. */
export type Settled = Pick<Call<never>, "place" | "observation">;

/** Who has made calls. Is told once of each of them that it has settled. */
export interface Maker {
  ended(call: Settled, outcome: Outcome): void;
}

/**
 * Who gives a call its connection, or looks for one. Is told once how it has settled, before its caller goes on: of a
 * success behind its maker, of a failure before. (An object that is there anyway, since calls wait by the thousand: a
 * closure takes 100 bytes of each.)
 */
export interface Holder {
  onSuccess?(): void;
  onFailure?(error: unknown): void;
}

/** Lets what comes after a call follow it on the wire: the next call, or a COMMIT. */
export interface Follower {
  /** Called once: the call has said all that it has to say, which was so many bytes. */
  sent(bytes: number): void;
}

/** What a failure of a call has to reach besides its promise: a stream, a cursor, a transaction, facts of its error. */
export interface Attached {
  fail(error: PgzError): void;
  /** Of a stream: what was written waits for its reader. */
  isUnread?(): boolean;
}

/** What is known of a call when it is made. */
export interface Made {
  /** Milliseconds; 0: it has no deadline of its own. */
  readonly timeout: number;
  readonly maker?: Maker | undefined;
  readonly observation?: Observation | undefined;
  /** What it asks for; of a transaction nothing. */
  readonly asked?: Asked;
  /** Its error has its parameters. */
  readonly isDebug?: boolean;
  /** Who awaits its promise is the user, so that its error names him. */
  readonly isOfUser?: boolean;
}

/** What cannot be taken back by a call that fails, so that no error of it reads as if nothing had happened. */
export type Beyond =
  /** Nothing but what its operations do. */
  | "nothing"
  /** Other calls work for it: something may have happened though it has no operation of its own. */
  | "calls"
  /** Some of its statements have committed, so it cannot be made again as a whole. */
  | "commits"
  /** Rows of operations that are over have reached the user. */
  | "rows";

export class Call<T> {
  readonly promise: Promise<T>;
  readonly asked: Asked | undefined;
  readonly observation: Observation | undefined;
  attached: Attached | undefined;
  /** Who has its connection, or looks for one; of a client's calls nobody. */
  holder: Holder | undefined;
  follower: Follower | undefined;
  /** Where it was made, if that is recorded. */
  trace: Error | undefined;
  /** In its maker's list. */
  place = 0;
  /** Stands behind the text of its statements: option `sqlComment`, in the context in which the call was made. */
  comment = "";
  /** `handed`: the user has the result, or its beginning. `over`: nothing that happens from now on reaches him. */
  #state: "open" | "handed" | "over" = "open";
  #beyond: Beyond = "nothing";
  /** The operation on the wire, or the last one that was. */
  #operation: Operation | undefined;
  /** Of the operations before this one; those that were not over when the next one was put on the wire. */
  #rows: number | null = null;
  #bytes = 0;
  #ahead: Operation[] | undefined;
  #connection: Connection | undefined;
  #resolve!: (value: T | Promise<never>) => void;
  #reject!: (error: unknown) => void;
  readonly #timer: ReturnType<typeof setTimeout> | undefined;
  #stops: (() => void)[] | undefined;
  #listeners: (() => void)[] | undefined;
  readonly #maker: Maker | undefined;
  readonly #isDebug: boolean;
  readonly #isOfUser: boolean;

  constructor({ timeout, maker, observation, asked, isDebug = false, isOfUser = false }: Made) {
    this.asked = asked;
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
      ? setTimeout(() => this.interrupt((facts) => tookTooLong(timeout, facts)), timeout)
      : undefined;
  }

  get finished(): boolean {
    return this.#state === "over";
  }

  get operation(): Operation | undefined {
    return this.#operation;
  }

  get beyond(): Beyond {
    return this.#beyond;
  }

  /** It cannot take back this from now on. */
  reaches(beyond: Exclude<Beyond, "nothing">): void {
    this.#beyond = beyond;
  }

  /** Any of these ends it, also when it has aborted before. */
  heed(...signals: (AbortSignal | undefined)[]): void {
    for (const signal of signals) {
      if (!signal || this.finished) continue;
      const stop = onAbort(signal, () => this.interrupt((facts) => new AbortError(signal.reason, facts)));
      (this.#stops ??= []).push(stop);
    }
  }

  /** Puts an operation of this call on the wire. */
  operate(connection: Connection, command: (handle: CoreConnection) => number, conversation?: Conversation): Operation {
    // Nobody would end it.
    if (this.finished) throw new Error("an operation of a call that is over");
    this.#connection = connection;
    if (this.#operation?.ended) this.#count(this.#operation);
    else if (this.#operation) (this.#ahead ??= []).push(this.#operation);
    // A trap or a lost socket may have ended it already; the next await says so.
    return (this.#operation = connection.operate(command, conversation, this));
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

  /** Of a stream: what was written waits for its reader. */
  isUnread(): boolean {
    return this.attached?.isUnread?.() ?? false;
  }

  /** What the connection has received that its operations are on; 0 before the first one. */
  get receivedBytes(): number {
    return this.#connection?.core.stats.receivedBytes ?? 0;
  }

  /** All that the call has to say is on the wire, unless it has to be run again: another one may follow it there. */
  sent(bytes: number): void {
    this.follower?.sent(bytes);
    this.follower = undefined;
  }

  /** The user has the result, or its beginning: a stream goes on after this until `succeed` or `fail`. */
  hand(value: T): void {
    if (this.#state === "open") this.#state = "handed";
    this.#resolve(value);
  }

  succeed(value: T): void {
    if (this.finished) return;
    this.#resolve(value);
    this.#finish();
    this.holder?.onSuccess?.();
  }

  fail(cause: unknown): void {
    if (this.finished) return;
    const isHanded = this.#state === "handed";
    this.#state = "over";
    const { asked, trace } = this;
    const error = asked && cause instanceof PgzError ? errorOf(cause, asked, this.#isDebug, trace) : cause;
    // Where the error was made nothing was known of what had gone before.
    if (error instanceof PgzError) Object.assign(error, FACTS[this.#beyond]);
    if (!isHanded) this.#rejectWith(error);
    this.holder?.onFailure?.(error);
    this.attached?.fail(error as PgzError);
    this.#finish(error as PgzError);
  }

  #rejectWith(error: unknown): void {
    // Nobody else may wait for the promise: V8 does not follow one that two wait for.
    if (this.#isOfUser) this.#resolve(rejecting(error));
    else this.#reject(error);
  }

  /** Ends the call from our side, at once. Unsent it was only removed, so trying again is safe. */
  interrupt(error: (facts: Facts) => PgzError): void {
    if (this.finished) return;
    const operation = this.#operation;
    this.fail(error({ retryable: !operation && this.#beyond === "nothing", committed: operation?.committed }));
    // All that it has on the wire: one that nobody stops would keep the others waiting for a server that is silent.
    if (operation) for (const one of [...(this.#ahead ?? []), operation]) this.#connection?.abandon(one);
  }

  #finish(error?: PgzError): void {
    this.#state = "over";
    clearTimeout(this.#timer);
    this.#stops?.forEach((stop) => stop());
    this.#ahead?.forEach((operation) => this.#count(operation));
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

/** What an error says behind that. */
const FACTS: Readonly<Record<Beyond, object>> = {
  nothing: {},
  calls: {},
  commits: { retryable: false },
  rows: { committed: true, retryable: false },
};

/** The error of a deadline that has passed. */
export function tookTooLong(timeout: number, facts?: Facts): TimeoutError {
  return new TimeoutError("QUERY_TIMEOUT", `The call took longer than ${timeout} ms (timeout).`, facts);
}
