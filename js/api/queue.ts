// Calls in front of one connection: each has its turn, behind those before it, and is counted and observed until it has
// settled.
//
// Calls that share the wire go when the call before them has said all it has to say; their answers come in that order.
// Any other call waits until those before it are over, and those behind it wait for its end:
//
//   shared:  ──said──┐············over      alone:  waits for all before it ──────────over──┐
//                    └──said──┐········over                                                 └── next
//
// Knows a call's life. Must not know SQL, or what becomes of rows.
import { callOption } from "../config/config.ts";
import type { Config } from "../config/options.ts";
import { checkOptions } from "../config/rules.ts";
import { Call, type Outcome } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { runtime } from "../sockets/runtime.ts";
import { PIECE } from "../util/limits.ts";
import { AbortError, UsageError, type Facts, type PgzError } from "../util/errors.ts";
import { Observation } from "../util/observer.ts";
import { CALL_OPTIONS, type CallOptions } from "./options.ts";

/** What a queue is given: SQL for the observer, options, what runs, and how it uses the connection. */
export type CallArguments<T> = [
  text: string,
  options: TurnOptions,
  body: (call: Call<T>, session: Session) => Promise<void>,
  way?: Way,
];

/** What a call says of its turn: `leaving` aborts when its consumer goes. */
type TurnOptions = CallOptions & { closeWhenDone?: boolean | undefined; leaving?: AbortSignal };

/** What a client counts, its transactions' calls included. */
export interface Counters {
  queries: number;
  errors: number;
  rows: number;
  bytes: number;
  /** Calls that wait or run. */
  running: number;
}

/** Something that happens once. Mostly nobody waits for it, so the promise is made when somebody does. */
class Moment {
  isPast = false;
  #promise: Promise<void> | undefined;
  #resolve: (() => void) | undefined;

  reached(): Promise<void> {
    return (this.#promise ??= this.isPast ? Promise.resolve() : new Promise((resolve) => (this.#resolve = resolve)));
  }

  reach(): void {
    this.isPast = true;
    this.#resolve?.();
  }
}

/** From when a call is made until it has left the connection, and all calls before it have. */
export class Turn {
  /** Its call has said all that it has to say. */
  hasSaid = false;
  readonly #said = new Moment();
  readonly #over = new Moment();

  /** The next call may go on the wire behind this one; `undefined`: at once. */
  said(): Promise<void> | undefined {
    return this.#said.isPast ? undefined : this.#said.reached();
  }

  end(): Promise<void> {
    return this.#over.reached();
  }

  say(): void {
    this.#said.reach();
  }

  pass(): void {
    this.#said.reach();
    this.#over.reach();
  }
}

/**
 * How a call uses the connection.
 *
 * - `alone`: nothing else is on the wire meanwhile.
 * - `shared`: other calls may be, before it and behind it.
 * - `stream`: alone, and its consumer has to finish it before another call can run.
 */
export type Way = "alone" | "shared" | "stream";

/** Bytes of parameters after which the next call waits until what was said has left. */
const MOST_SAID = PIECE;

/**
 * The server has ended the session before it began with what it was asked: it can be asked again on another one.
 * `error` is the connection's own end, not that of a statement.
 */
function isUntouched(error: unknown, { connection }: Session): boolean {
  return connection.established && error === connection.closed && (error as PgzError).retryable;
}

export abstract class Queue {
  /** @internal */
  protected readonly config: Config;
  /** @internal */
  protected readonly counters: Counters;
  /** Of the call or transaction that was made last; `undefined`: none is on the connection. @internal */
  protected turn: Turn | undefined;
  /** Those that wait or run, in no order. A Set of mostly one would grow and shrink with each call. */
  readonly #calls: Pick<Call<never>, "finished" | "interrupt" | "place">[] = [];
  /** Why all calls end, those to come too. */
  #stopped: ((facts: Facts) => PgzError) | undefined;
  /** The stream that its consumer has to finish before another call can run. */
  #stream: { readonly finished: boolean } | undefined;
  /** Calls that share the wire and are not over. */
  #onWire = 0;
  /** Bytes that they have said since a call last waited for the socket. */
  #said = 0;
  /** The turn that is not passed on before another call is over: `pipelining` calls are on the wire. */
  #held: Turn | undefined;

  /** @internal */
  constructor(config: Config, counters: Counters) {
    this.config = config;
    this.counters = counters;
  }

  /** Why no call may be made now. @internal */
  protected abstract refused(): UsageError | undefined;
  /** @internal */
  protected abstract connected(): Session | Promise<Session>;
  /** `connected` connects again when a connection was lost. @internal */
  protected get comesBack(): boolean {
    return false;
  }

  /** Ends all calls. @internal */
  protected abstract readonly signal: AbortSignal | undefined;
  /** Behind a call with `closeWhenDone`. @internal */
  protected abstract close(): Promise<void>;

  /** One call's turn: behind those before it, on the connection, until the connection is free again. */
  protected run<T>(...call: CallArguments<T>): Promise<T> {
    const refused = this.refused() ?? this.unfinished();
    if (refused) throw refused;
    return this.queue(...call);
  }

  /** The same for calls of our own, which nothing refuses. */
  protected queue<T>(...[text, options, body, way = "alone"]: CallArguments<T>): Promise<T> {
    const { config, counters } = this;
    checkOptions(options, CALL_OPTIONS);
    const signal = options.signal && callOption(config, options, "signal");
    const timeout = callOption(config, options, "timeout");
    const observer = callOption(config, options, "observer");
    const observation = observer && new Observation(observer, text, callOption(config, options, "slowQueryThreshold"));
    counters.queries++;
    counters.running++;
    const ended = (outcome: Outcome) => {
      const last = this.#calls.pop()!;
      if (last !== call) this.#calls[(last.place = call.place)] = last;
      counters.running--;
      counters.rows += outcome.rows ?? 0;
      counters.bytes += outcome.bytes;
      if (outcome.error) counters.errors++;
      observation?.end(outcome);
    };
    const call = new Call<T>(timeout, ended, observation);
    call.place = this.#calls.push(call) - 1;
    call.heed(signal, options.leaving, this.signal);
    if (this.#stopped) call.interrupt(this.#stopped);
    if (way === "stream") this.#stream = call;
    // At once: a value's own code may make a call while `body` begins, and that one comes behind.
    const before = this.turn;
    const turn = (this.turn = new Turn());
    void this.#take(turn, before, call, body, way === "shared" && config.pipelining > 1);
    // Whoever waits for a stream is not the handler that made it.
    if (way === "stream")
      runtime().background(options.closeWhenDone ? turn.end().then(() => this.close()) : turn.end());
    return call.promise;
  }

  /** Where nothing has to be waited for, `body` begins, and says what it has to say, within the call. */
  async #take<T>(
    turn: Turn,
    before: Turn | undefined,
    call: Call<T>,
    body: (call: Call<T>, session: Session) => Promise<void>,
    isShared: boolean,
  ): Promise<void> {
    try {
      const ahead = isShared ? before?.said() : before?.end();
      if (ahead) await ahead;
      if (call.finished) return;
      const first = this.#ready();
      const session = first instanceof Promise ? await first : first;
      if (call.finished) return;
      call.observation?.begin();
      if (isShared) call.onSaid = (bytes) => this.#say(turn, bytes, session);
      try {
        await body(call, session);
      } catch (error) {
        if (!this.comesBack || call.hasCommitted || !isUntouched(error, session)) throw error;
        const next = await this.#ready();
        if (!call.finished) await body(call, next);
      }
    } catch (error) {
      call.fail(error);
    } finally {
      const cleanup = call.operation?.cleanup;
      if (cleanup) await cleanup;
      if (isShared && before) await before.end();
      this.passed(turn);
      if (turn.hasSaid) this.#leave();
    }
  }

  /** The session, when nothing on it is being stopped: a cancel that is under way would meet the call. */
  #ready(): Session | Promise<Session> {
    const session = this.connected();
    return session instanceof Promise || session.connection.stopping ? this.#unstopped(session) : session;
  }

  async #unstopped(connected: Session | Promise<Session>): Promise<Session> {
    for (;;) {
      const { stopping } = (await connected).connection;
      if (!stopping) return connected;
      await stopping;
      connected = this.connected();
    }
  }

  /** The call has said all it has to say: the next one may go, unless there is too much on the wire. */
  #say(turn: Turn, bytes: number, { connection }: Session): void {
    turn.hasSaid = true;
    this.#onWire++;
    this.#said += bytes;
    if (this.#onWire >= this.config.pipelining) this.#held = turn;
    else if (this.#said < MOST_SAID) turn.say();
    else {
      this.#said = 0;
      void connection.written.then(() => turn.say());
    }
  }

  #leave(): void {
    this.#onWire--;
    this.#held?.say();
    this.#held = undefined;
  }

  /** The turn is over. */
  protected passed(turn: Turn): void {
    if (this.turn === turn) this.turn = undefined;
    turn.pass();
  }

  /** A call waits or runs that ends by itself: no consumer has to finish it. */
  protected get isBusy(): boolean {
    return this.#calls.some((call) => call !== this.#stream);
  }

  /** Ends all calls, those to come too. */
  protected stop(reason: unknown): void {
    this.#stopped ??= (facts) => new AbortError(reason, facts);
    for (const call of [...this.#calls]) call.interrupt(this.#stopped);
  }

  /** A stream or cursor that stands in the way, since its consumer has to finish it. */
  protected unfinished(): UsageError | undefined {
    if (!this.#stream || this.#stream.finished) return undefined;
    return new UsageError(
      "STREAM_OPEN",
      "A stream or cursor of this client is unfinished: read it to its end, leave it, or use another client.",
    );
  }
}
