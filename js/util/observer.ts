// The events that a user can observe: connects, calls, notices, changed settings. They are plain data, passed to
// methods of the user's own object.
//
// Knows the events. An error that an observer throws is dropped, since observing must never break the observed call. No
// event contains a parameter's value (except with `observeParameters`), a password or a URL. Must not know connections
// or calls.
import { UsageError, type ErrorFields, type LimitName, type PgzError } from "./errors.ts";

/** Which tracing channel reports a call. */
export type CallKind = "query" | "batch" | "copy";

/**
 * The server, and the database there. With several hosts it is the first one until the driver knows which one is used.
 */
export interface ServerAddress {
  readonly host: string;
  readonly port: number;
  readonly database: string;
}

/** A connection attempt to one host begins. */
export interface ConnectStart extends ServerAddress {
  /** The same for both events of one attempt, and unique in the isolate. */
  readonly id: number;
  readonly user: string;
}

/** A connection attempt to one host is over. */
export interface ConnectEvent extends ConnectStart {
  readonly durationMs: number;
  /** The process id of the session; `undefined` if the server did not send one. */
  readonly processId?: number | undefined;
  /** Why it failed; `undefined` if it succeeded. */
  readonly error?: PgzError | undefined;
}

/** A connection that had been made was lost. */
export interface DisconnectEvent {
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly processId?: number | undefined;
  /** Why it was lost. */
  readonly error: PgzError;
}

/** A call, a transaction or a lease wants a connection of a pool. */
export interface AcquireStart extends ServerAddress {
  /** The same for both events of one acquisition, and unique in the isolate. */
  readonly id: number;
}

/** A pool gave a connection, or failed to. */
export interface AcquireEvent extends AcquireStart {
  /** Milliseconds that the call waited for it. */
  readonly waitMs: number;
  /** Why there was none; `undefined` if there was. */
  readonly error?: PgzError | undefined;
}

/** The connection came back. */
export interface ReleaseEvent extends ServerAddress {
  /** Milliseconds that it was in use. */
  readonly useMs: number;
}

/** A lease has not been released for `leakThreshold`, or nothing refers to it any more. */
export interface LeaseLeak {
  readonly heldMs: number;
  /** Where it was acquired. */
  readonly stack: string;
}

/** A hook or a listener of a pool threw, and no call rejects with its error. */
export interface HookError extends ServerAddress {
  /** The name of the option, `beforeConnect` or `afterConnect`, or the listener's event: `on("release")`. */
  readonly hook: string;
  /** The error that it threw. */
  readonly error: unknown;
}

/** A call was made. It may wait for its turn. */
export interface QueryStart extends ServerAddress {
  /** The same for all events of one call, and unique in the isolate. */
  readonly id: number;
  readonly kind: CallKind;
  /** The SQL as written, with `$1` for parameters; for a batch that of the first statement, after a comment. */
  readonly text: string;
  /** For a batch, the SQL of all items. */
  readonly texts?: readonly string[] | undefined;
  /** The values of `$1`, `$2` …, only with option `observeParameters`, and not for a batch. */
  readonly parameters?: readonly unknown[] | undefined;
  /** `Date.now()` at the call. */
  readonly startedAt: number;
}

/** A call is over, however it ended. */
export interface QueryEnd extends QueryStart {
  /** Milliseconds from its turn on the connection to its end. A stream's includes the time that its reader took. */
  readonly durationMs: number;
  /** Milliseconds before that, for connecting and for earlier calls. */
  readonly waitMs: number;
  /** Rows returned or changed, by the command tags; `null` if no tag came, as after an error. */
  readonly rows: number | null;
  /** Bytes of encoded output; for objects, the bytes that they were made from. */
  readonly bytes: number;
  /** The words of the command tag; `""` for an empty query, and if the statement did not complete. */
  readonly command: string;
  /** The error that the call rejected with, or that its stream ended with. */
  readonly error?: PgzError | undefined;
  /** Only with `onLimit: "truncate"`, and only if rows are missing. */
  readonly truncated?: Truncation | undefined;
}

/** How a result was cut off by `onLimit: "truncate"`. */
export interface Truncation {
  /** Which limit was passed. */
  readonly limit: LimitName;
  /** The limit's value. */
  readonly value: number;
  /** The count including the first missing row. */
  readonly observed: number;
}

/** A call has run for `slowQueryThreshold`. */
export interface SlowQuery extends QueryStart {
  /** Milliseconds since its turn on the connection. */
  readonly durationMs: number;
}

/** A NoticeResponse, by the manual's names. */
export interface Notice extends ErrorFields {
  /** The `id` of the running call, if there is one. */
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

/** A stream of changes (`pgz-edge/changes`). */
export interface ChangesEvent {
  readonly slot: string;
  readonly state: "idle" | "connecting" | "snapshot" | "streaming" | "over";
  /** Why the state is `"connecting"` for longer: for people, not for code. */
  readonly reason?: string;
  /** Number of connections that were made. */
  readonly connections: number;
  /** A position in the server's log, as `pg_lsn`. The server need not keep the log before it for the slot. */
  readonly acknowledged: string;
  /** The end of the server's log, as far as the server has reported it. */
  readonly end: string;
  /** Bytes of log between `acknowledged` and `end`. */
  readonly lagBytes: number;
  /** Seconds since the oldest yielded commit that is not acknowledged yet. 0: all are acknowledged. */
  readonly lagSeconds: number;
}

/** A call of `reads` of a cluster goes to a server (`pgz-edge/cluster`). */
export interface RouteEvent extends ServerAddress {
  readonly role: "standby" | "primary";
  /**
   * Why: `nearest` of the standbys. Or why the primary answers: no standby is known (`none`), none can be reached
   * (`unreachable`), all lag by more than `maxLag` (`lag`), none has come as far as the position within `wait`
   * (`position`), position and server cannot be compared (`unknown`), a standby gave the call up (`conflict`) or does
   * not run such a call (`write`).
   */
  readonly reason: RouteReason;
  /** By how much the standby lags at most, in milliseconds. */
  readonly lagMs?: number | undefined;
  /**
   * Milliseconds that the call has waited for a standby to come as far as the position. Since PostgreSQL 19 the call
   * waits in the standby that it goes to, after this event: then this is 0.
   */
  readonly waitedMs: number;
}

/** Why a call of `reads` of a cluster goes where it goes: {@link RouteEvent}. */
export type RouteReason = "nearest" | "none" | "unreachable" | "lag" | "position" | "unknown" | "conflict" | "write";

/**
 * Runs `work` at once, in a context of its own, such as `(work) => storage.run(span, work)`. `work` begins the
 * operation. It runs exactly once, even if this function throws or does not call it.
 */
export type Enter = (work: () => void) => void;

/**
 * Your object with any of these methods (docs/observer.md). They are called synchronously: keep them short. An error
 * that they throw or reject with is dropped. The methods for a start may return a function, in which the operation then
 * runs.
 *
 * @example
 * const observer: Observer = { onQueryEnd: ({ text, durationMs }) => console.log(text, durationMs) };
 */
export interface Observer {
  /** Connecting to a host begins. */
  onConnectStart?(event: ConnectStart): void | Enter;
  /**
   * Connecting to a host succeeded or failed, after all attempts of an `sslmode`. Called for each host that was tried.
   */
  onConnect?(event: ConnectEvent): void;
  /** A connection was lost. Not called for one that you close. A client connects again with its next call. */
  onDisconnect?(event: DisconnectEvent): void;
  /** A connection of a pool is wanted. */
  onAcquireStart?(event: AcquireStart): void | Enter;
  /** A pool gave a connection, or failed to. */
  onAcquire?(event: AcquireEvent): void;
  /** A connection came back to its pool. */
  onRelease?(event: ReleaseEvent): void;
  /** A lease was not released in time, or lost. Without this method a warning is printed. Called once per lease. */
  onLeaseLeak?(event: LeaseLeak): void;
  /**
   * `afterConnect` threw while a connection was reset, or it or `beforeConnect` threw while no call waited for the
   * connection. Without this method a warning is printed.
   */
  onHookError?(event: HookError): void;
  /** A call was made. It may wait for its turn. */
  onQueryStart?(event: QueryStart): void | Enter;
  /** A call is over, whatever the outcome. Called exactly once per start. */
  onQueryEnd?(event: QueryEnd): void;
  /**
   * A call has run for `slowQueryThreshold` and still runs. Called at most once, at the latest right before its end.
   */
  onSlowQuery?(event: SlowQuery): void;
  /** The server sent a NoticeResponse, or a parameter of the connection string is ignored. */
  onNotice?(event: Notice): void;
  /** A setting that the server reports changed after startup. */
  onParameterChange?(event: ParameterChange): void;
  /** A transaction with `retry` failed because of a conflict and will run again. */
  onRetry?(event: Retry): void;
  /** For `pgz-edge/changes`, at each `statusInterval`: how far the stream lags. */
  onChanges?(event: ChangesEvent): void;
  /**
   * For `pgz-edge/cluster`: which server a call of `reads` goes to, and why. Called again if another server takes the
   * call.
   */
  onRoute?(event: RouteEvent): void;
}

/** Whether each `on…` member is a function or undefined. Other members are the user's business. */
export function isObserver(value: unknown): boolean {
  return (
    typeof value === "object" &&
    value !== null &&
    Object.entries(value).every(([name, member]) => !/^on[A-Z]/.test(name) || /undefined|function/.test(typeof member))
  );
}

/** Returns the name of an `on…` method that no event has, also of the observer's classes. */
export function strangerOf(observer: object): string | undefined {
  for (let at: object | null = observer; at && at !== Object.prototype; at = Object.getPrototypeOf(at) as object | null)
    for (const name of Object.getOwnPropertyNames(at))
      if (/^on[A-Z]/.test(name) && !observerMethods.includes(name)) return name;
  return undefined;
}

/** Calls the observer's method. Returns its result if that is a function, for {@link inside}. */
export function emit<Name extends keyof Observer>(
  observer: Observer | undefined,
  name: Name,
  event: Parameters<NonNullable<Observer[Name]>>[0],
): Enter | undefined {
  try {
    const method = observer?.[name] as ((event: unknown) => void | Promise<void> | Enter) | undefined;
    const result = method?.call(observer, event);
    if (typeof result === "function") return result;
    // A rejection of an async method would be unhandled.
    result?.catch(() => {});
  } catch {
    // Dropped, as promised.
  }
  return undefined;
}

/** Whether the observer has this method by now. */
export function hasMethod(observer: Observer | undefined, name: keyof Observer): boolean {
  try {
    return observer?.[name] !== undefined;
  } catch {
    return false;
  }
}

/** Runs `work` in the context that an observer gave, exactly once. Errors of the observer are dropped. */
export function inside<T>(enter: Enter | undefined, work: () => T): T {
  if (!enter) return work();
  let done: { result: T } | { error: unknown } | undefined;
  const once = () => {
    if (done) return;
    try {
      done = { result: work() };
    } catch (error) {
      done = { error };
    }
  };
  try {
    enter(once);
  } catch {
    // Dropped, as promised.
  }
  once();
  if ("error" in done!) throw done.error;
  return done!.result;
}

const METHODS: { readonly [Name in keyof Required<Observer>]: true } = {
  onConnectStart: true,
  onConnect: true,
  onDisconnect: true,
  onAcquireStart: true,
  onAcquire: true,
  onRelease: true,
  onLeaseLeak: true,
  onHookError: true,
  onQueryStart: true,
  onQueryEnd: true,
  onSlowQuery: true,
  onNotice: true,
  onParameterChange: true,
  onRetry: true,
  onChanges: true,
  onRoute: true,
};

/** The names of all methods. */
export const observerMethods: readonly string[] = Object.keys(METHODS);

/**
 * One observer that calls both.
 *
 * @example
 * const db = createClient(url, { observer: observers(openTelemetry(), { onSlowQuery: console.warn }) });
 */
export function observers(first: Observer, second: Observer): Observer {
  if (!isObserver(first) || !isObserver(second))
    throw new UsageError("INVALID_OPTION", "observers needs two objects whose on… methods are functions.");
  const both: Record<string, unknown> = {};
  for (const name of observerMethods as readonly (keyof Observer)[]) {
    // The presence of a method has a meaning: onLeaseLeak, onHookError.
    if (!first[name] && !second[name]) continue;
    both[name] = (event: never): Enter | undefined => {
      const outer = emit(first, name, event);
      const inner = emit(second, name, event);
      return outer && inner ? (work) => inside(outer, () => inside(inner, work)) : (outer ?? inner);
    };
  }
  return both;
}

let lastId = 0;

/** Returns a new `id`, for the events of one operation. */
export function newEventId(): number {
  return ++lastId;
}

/** What a call runs, as observers and its error show it: one statement, or several. */
export interface CallSubject {
  /** The SQL, for observers. */
  readonly text: string;
  readonly values?: readonly unknown[] | undefined;
  /** Default `"query"`. */
  readonly kind?: CallKind | undefined;
  /** The SQL of all statements, if there are several. */
  readonly texts?: readonly string[] | undefined;
  /** The server is sent a different text, so its positions do not apply to this one. */
  readonly isRewritten?: boolean | undefined;
}

/** Returns the SQL of each statement. */
export function textsOf({ text, texts }: CallSubject): readonly string[] {
  return texts ?? [text];
}

/** One call, as its observer sees it. */
export class Observation {
  readonly id = newEventId();
  readonly observer: Observer;
  readonly #enter: Enter | undefined;
  #start: QueryStart;
  readonly #called = performance.now();
  /** When the call's turn began. */
  #began: number | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  readonly #threshold: number;
  #slow = false;

  constructor(
    observer: Observer,
    { text, texts, values, kind = "query" }: CallSubject,
    { host, port, database, observeParameters }: ServerAddress & { readonly observeParameters: boolean },
    threshold: number,
  ) {
    this.observer = observer;
    this.#threshold = threshold;
    const more = { ...(texts && { texts }), ...(observeParameters && values && { parameters: values }) };
    this.#start = { id: this.id, kind, text, ...more, host, port, database, startedAt: Date.now() };
    this.#enter = emit(observer, "onQueryStart", this.#start);
  }

  /** Begins the call, in the observer's context. */
  run<T>(work: () => T): T {
    return inside(this.#enter, work);
  }

  /** Called when it is the call's turn, on a connection to this server. */
  begin({ host, port }: Pick<ServerAddress, "host" | "port">): void {
    this.#start = { ...this.#start, host, port };
    this.#began = performance.now();
    clearTimeout(this.#timer); // of a connection that was lost before the call began on it
    if (this.#threshold) this.#timer = setTimeout(() => this.#tooSlow(), this.#threshold);
  }

  end(result: Pick<QueryEnd, "rows" | "bytes" | "command" | "error" | "truncated">): void {
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
