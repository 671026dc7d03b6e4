// What a user may watch: connects, calls, notices, changed settings. Plain data, given to methods of the user's own
// object.
//
// Knows the events and that an observer may be wrong: whatever it throws is dropped, since watching must never break
// what is watched. No event holds a parameter's value, a password or a URL. Must not know connections or calls.
import type { ErrorFields, PgzError } from "./errors.ts";

/** A connection attempt to one host is over. */
export interface ConnectEvent {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly durationMs: number;
  /** The process id of the session; `undefined` if the server did not send one. */
  readonly processId?: number | undefined;
  /** Why it failed; `undefined` if it succeeded. */
  readonly error?: PgzError | undefined;
}

/** A connection was lost that had been made. */
export interface DisconnectEvent {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly processId?: number | undefined;
  /** What ended it. */
  readonly error: PgzError;
}

/** A pool gave a connection to a call, a transaction or a lease. */
export interface AcquireEvent {
  /** Milliseconds that it was waited for. */
  readonly waitMs: number;
}

/** It came back. */
export interface ReleaseEvent {
  /** Milliseconds that it was in use. */
  readonly useMs: number;
}

/** A lease has not been released for `leakThreshold`, or nothing refers to it any more. */
export interface LeaseLeak {
  readonly heldMs: number;
  /** Where it was acquired. */
  readonly stack: string;
}

/** A call was made. It may wait for its turn. */
export interface QueryStart {
  /** The same for all events of one call, and unique in the isolate. */
  readonly id: number;
  /** The SQL as written, with `$1` for parameters. */
  readonly text: string;
  /** `Date.now()` at the call. */
  readonly startedAt: number;
}

/** A call is over, however it ended. */
export interface QueryEnd extends QueryStart {
  /** Milliseconds from its turn on the connection to its end. A stream's includes the time that its reader took. */
  readonly durationMs: number;
  /** Milliseconds before that: connecting, and the calls in front. */
  readonly waitMs: number;
  /** Rows returned or changed, as the command tags say; `null` if no tag came, as after an error. */
  readonly rows: number | null;
  /** Bytes of encoded output; for objects, of the JSON that they were made from. */
  readonly bytes: number;
  /** The words of the command tag; `""` for an empty query, and if the statement did not complete. */
  readonly command: string;
  /** What the call rejected with, or what its stream errored with. */
  readonly error?: PgzError | undefined;
}

/** A call has run for `slowQueryThreshold`. */
export interface SlowQuery extends QueryStart {
  /** Milliseconds since its turn on the connection. */
  readonly durationMs: number;
}

/** A NoticeResponse, by the manual's names. */
export interface Notice extends ErrorFields {
  /** The `id` of the call that runs, if one does. */
  readonly queryId?: number | undefined;
}

/** A setting that the server reports changed after startup. */
export interface ParameterChange {
  readonly name: string;
  readonly value: string;
}

/** A transaction failed because of a conflict and will run again. */
export interface Retry {
  /** The number of the attempt that failed, from 1. */
  readonly attempt: number;
  /** Milliseconds until the next attempt. */
  readonly delayMs: number;
  readonly error: PgzError;
}

/**
 * Your object with any of these methods (docs/observer.md). They are called synchronously: keep them short. What they
 * throw or reject with is dropped.
 *
 * @example
 * const observer = { onQueryEnd: ({ text, durationMs, error }) => console.log(text, durationMs, error?.code) };
 */
export interface Observer {
  /** Connecting to a host succeeded or failed, after all attempts of an `sslmode`. Of several hosts, each that was tried. */
  onConnect?(event: ConnectEvent): void;
  /** A connection was lost; one that you close is not. A client connects again with its next call. */
  onDisconnect?(event: DisconnectEvent): void;
  /** A pool gave a connection. */
  onAcquire?(event: AcquireEvent): void;
  /** A connection came back to its pool. */
  onRelease?(event: ReleaseEvent): void;
  /** A lease was not released in time, or lost; without this method a warning is printed. Called once per lease. */
  onLeaseLeak?(event: LeaseLeak): void;
  /** A call was made; it may wait for its turn. */
  onQueryStart?(event: QueryStart): void;
  /** A call is over, whatever happened. Called exactly once per start. */
  onQueryEnd?(event: QueryEnd): void;
  /**
   * A call has run for `slowQueryThreshold` and still runs. Called at most once, at the latest right before its end.
   */
  onSlowQuery?(event: SlowQuery): void;
  /** The server sent a NoticeResponse; or a parameter of the connection string is ignored. */
  onNotice?(event: Notice): void;
  /** A setting that the server reports changed after startup. */
  onParameterChange?(event: ParameterChange): void;
  /** A transaction with `retry` failed because of a conflict and will run again. */
  onRetry?(event: Retry): void;
}

/** Functions where functions are awaited; other members are the user's business. */
export function isObserver(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    Object.entries(value).every(([name, member]) => !/^on[A-Z]/.test(name) || /undefined|function/.test(typeof member))
  );
}

export function emit<Name extends keyof Observer>(
  observer: Observer | undefined,
  name: Name,
  event: Parameters<NonNullable<Observer[Name]>>[0],
): void {
  try {
    // An async method's rejection would be nobody's.
    (observer?.[name] as ((event: unknown) => void | Promise<void>) | undefined)
      ?.call(observer, event)
      ?.catch(() => {});
  } catch {
    // As promised.
  }
}

let lastId = 0;

/** One call, as its observer sees it. */
export class Observation {
  readonly id = ++lastId;
  readonly observer: Observer;
  readonly #start: QueryStart;
  readonly #called = performance.now();
  /** Its turn. */
  #began: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #threshold: number;
  #slow = false;

  constructor(observer: Observer, text: string, threshold: number) {
    this.observer = observer;
    this.#threshold = threshold;
    this.#start = { id: this.id, text, startedAt: Date.now() };
    emit(observer, "onQueryStart", this.#start);
  }

  /** It is the call's turn. */
  begin(): void {
    this.#began = performance.now();
    if (this.#threshold) this.#timer = setTimeout(() => this.#tooSlow(), this.#threshold);
  }

  end(result: Pick<QueryEnd, "rows" | "bytes" | "command" | "error">): void {
    clearTimeout(this.#timer);
    const durationMs = this.#duration();
    // A busy isolate's timers are late.
    if (this.#threshold && durationMs >= this.#threshold && !this.#slow) this.#tooSlow();
    emit(this.observer, "onQueryEnd", {
      ...this.#start,
      durationMs,
      waitMs: performance.now() - this.#called - durationMs,
      ...result,
    });
  }

  #tooSlow(): void {
    this.#slow = true;
    emit(this.observer, "onSlowQuery", { ...this.#start, durationMs: this.#duration() });
  }

  #duration(): number {
    return this.#began === undefined ? 0 : performance.now() - this.#began;
  }
}
