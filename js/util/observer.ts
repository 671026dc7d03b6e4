// What a user may watch: connects, calls, notices, changed settings. Plain data, given to methods of the user's own object.
//
// Knows the events and that an observer may be wrong: whatever it throws is dropped, since watching must never break what is watched.
// No event holds a parameter's value, a password or a URL. Must not know connections or calls.
import type { ErrorFields, PgzError } from "./errors.ts";

/** A connection attempt is over. */
export interface ConnectEvent {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly durationMs: number;
  /** The server process; `undefined` when it did not say. */
  readonly processId?: number | undefined;
  /** It failed. */
  readonly error?: PgzError | undefined;
}

/** A call has been made; it may wait for its turn. */
export interface QueryStart {
  /** Unique in the isolate: the same for all events of one call. */
  readonly id: number;
  /** The SQL as written, with `$1` for parameters. */
  readonly text: string;
  /** `Date.now()` at the call. */
  readonly startedAt: number;
}

/** A call is over, however it ended. */
export interface QueryEnd extends QueryStart {
  /** From its turn on the connection to its end; a stream's includes the time that its reader took. */
  readonly durationMs: number;
  /** Before that: for the calls in front and for connecting. */
  readonly waitMs: number;
  /** Returned or changed, as the command tags say; `null` where none did, as after an error. */
  readonly rows: number | null;
  /** Of encoded output; for objects, of the batches that they were made from. */
  readonly bytes: number;
  /** The command tag's words; `""` for an empty query, and where the statement did not come to its end. */
  readonly command: string;
  /** What the call rejected with, or its stream errored with. */
  readonly error?: PgzError | undefined;
}

/** A call runs for `slowQueryThreshold` now. */
export interface SlowQuery extends QueryStart {
  readonly durationMs: number;
}

/** NoticeResponse, by the manual's names. */
export interface Notice extends ErrorFields {
  /** Of the call that runs. */
  readonly queryId?: number | undefined;
}

export interface ParameterChange {
  readonly name: string;
  readonly value: string;
}

/** A transaction failed for a conflict with others, and will run again. */
export interface Retry {
  /** The one that failed, from 1 on. */
  readonly attempt: number;
  /** Until the next one. */
  readonly delayMs: number;
  readonly error: PgzError;
}

/** Each method may be missing. They are called at once, in between: keep them short. What they throw or reject with is dropped. */
export interface Observer {
  onConnect?(event: ConnectEvent): void;
  onQueryStart?(event: QueryStart): void;
  /** Exactly once for each start. */
  onQueryEnd?(event: QueryEnd): void;
  /** While the call still runs, once; at the latest right before its end. */
  onSlowQuery?(event: SlowQuery): void;
  onNotice?(event: Notice): void;
  /** A setting that the server reports has changed since the session began. */
  onParameterChange?(event: ParameterChange): void;
  /** A transaction with `retry` begins again. */
  onRetry?(event: Retry): void;
}

/** Functions where functions are awaited; other members are the user's business. */
export function isObserver(value: unknown): boolean {
  return typeof value === "object" && value !== null && Object.entries(value).every(([name, member]) => !/^on[A-Z]/.test(name) || /undefined|function/.test(typeof member));
}

export function emit<Name extends keyof Observer>(observer: Observer | undefined, name: Name, event: Parameters<NonNullable<Observer[Name]>>[0]): void {
  try {
    // An async method's rejection would be nobody's.
    (observer?.[name] as ((event: unknown) => void | Promise<void>) | undefined)?.call(observer, event)?.catch(() => {});
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
    emit(this.observer, "onQueryEnd", { ...this.#start, durationMs, waitMs: performance.now() - this.#called - durationMs, ...result });
  }

  #tooSlow(): void {
    this.#slow = true;
    emit(this.observer, "onSlowQuery", { ...this.#start, durationMs: this.#duration() });
  }

  #duration(): number {
    return this.#began === undefined ? 0 : performance.now() - this.#began;
  }
}
