// The life of a call: made, performed on a connection when it is its turn (line.ts), counted and observed until it has
// settled.
//
// Must not know SQL, or what becomes of rows.
import { callOption } from "../config/config.ts";
import type { Config } from "../config/options.ts";
import { checkOptions } from "../config/rules.ts";
import { Call, type Outcome } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { watched } from "../sockets/channels.ts";
import { runtime } from "../sockets/runtime.ts";
import { UsageError, type Facts, type PgzError } from "../util/errors.ts";
import { shownAs } from "../util/shown.ts";
import { Observation, type Asked } from "../util/observer.ts";
import { within } from "../util/within.ts";
import { Line, type Way } from "./line.ts";
import { CALL_OPTIONS, LEAVING, type CallOptions } from "./options.ts";

/** What a queue is given: what is asked, options, what runs, and how it uses the connection. */
export type CallArguments<T> = [asked: Asked, options: TurnOptions, body: Body<T>, way?: Way];

/** What runs for a call on its session. */
export type Body<T> = (call: Call<T>, session: Session) => Promise<void>;

/** What a call says of its turn. */
type TurnOptions = CallOptions & {
  closeWhenDone?: boolean | undefined;
  [LEAVING]?: AbortSignal;
};

/** What a client counts, its transactions' calls included. */
export interface Counters {
  queries: number;
  errors: number;
  rows: number;
  bytes: number;
  /** Calls that wait or run. */
  running: number;
}

/**
 * The server has ended the session before it began with what it was asked: it can be asked again on another one.
 * `error` is the connection's own end, not that of a statement.
 */
export function isUntouched(error: unknown, { connection }: Session): boolean {
  return connection.established && error === connection.closed && (error as PgzError).retryable;
}

/** What a close asks of a stream that the user has. */
type Handed = Pick<Call<never>, "finished" | "operation" | "receivedBytes" | "isUnread" | "isTimed" | "interrupt">;

/** Looks per `closeTimeout` at a stream that outlives a close: it ends at most a tenth late, and needs no clock. */
const LOOKS = 10;

export abstract class Queue {
  static {
    shownAs(this, (queue, inspect) => {
      const { name, ...members } = queue.shown;
      return `${name} ${inspect(members)}`;
    });
  }

  /** @internal */
  protected readonly config: Config;
  /** @internal */
  protected readonly counters: Counters;
  /** Whose turn it is on the connection. @internal */
  protected readonly line: Line;
  /** Those that wait or run, in no order. A Set of mostly one would grow and shrink with each call. */
  readonly #calls: (Handed & Pick<Call<never>, "place">)[] = [];
  /** Why all calls end, those to come too. */
  #stopped: ((facts: Facts) => PgzError) | undefined;
  /** The stream that its consumer has to finish before another call can run. */
  #stream: { readonly finished: boolean } | undefined;
  /** Streams that the user has, or waits for, each with when its connection is free again. They outlive `close()`. */
  readonly #handed = new Map<Handed, Promise<void>>();

  /** @internal */
  constructor(config: Config, counters: Counters) {
    this.config = config;
    this.counters = counters;
    this.line = new Line(config.pipelining);
  }

  /** What `console.log` shows: the class, which a minifier renames, its state and more. @internal */
  protected abstract get shown(): { readonly name: string };

  /** Where it is connected to, for that. @internal */
  protected get place(): object {
    const { host, port, database, user } = this.config;
    return { host, port, database, user };
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
  protected queue<T>(...[asked, options, body, way = "alone"]: CallArguments<T>): Promise<T> {
    const { config, counters } = this;
    checkOptions(options, CALL_OPTIONS);
    const signal = options.signal && callOption(config, options, "signal");
    const timeout = callOption(config, options, "timeout");
    const observer = watched(asked.kind ?? "query", callOption(config, options, "observer"));
    const observation =
      observer && new Observation(observer, asked, config, callOption(config, options, "slowQueryThreshold"));
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
    call.asked = asked;
    if (config.debug) {
      call.isDebug = true;
      call.trace = new Error();
    }
    const isOpen = way === "stream" || way === "loop";
    const begin = () => {
      call.heed(signal, options[LEAVING], this.signal);
      if (this.#stopped) call.interrupt(this.#stopped);
      if (isOpen) this.#stream = call;
      return this.perform(call, way, body);
    };
    const over = observation ? observation.run(begin) : begin();
    if (way === "stream") this.#handed.set(call, over);
    // Whoever waits for a stream is not the handler that made it.
    if (isOpen) runtime().background(this.#left(call, over, options.closeWhenDone));
    return call.promise;
  }

  /** What comes behind a stream or cursor. */
  async #left(call: Handed, over: Promise<void>, closeWhenDone: boolean | undefined): Promise<void> {
    await over;
    this.#handed.delete(call);
    if (closeWhenDone) await this.close();
  }

  /** Runs the call when it is its turn; resolves when the connection is free again. Never rejects. */
  protected perform<T>(call: Call<T>, way: Way, body: Body<T>): Promise<void> {
    // In a transaction without a detour: each `await` more, and what the caller asks next finds the turn still taken.
    const work = this.comesBack
      ? (session: Session) => this.#comingBack(call, body, session)
      : (session: Session) => body(call, session);
    return this.line.run(call, way, () => this.#ready(), work);
  }

  /** Once more on another session, where the first one ended before it began with the call. */
  async #comingBack<T>(call: Call<T>, body: Body<T>, session: Session): Promise<void> {
    try {
      await body(call, session);
    } catch (error) {
      if (call.hasCommitted || !isUntouched(error, session)) throw error;
      const next = await this.#ready();
      if (!call.finished) await body(call, next);
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

  /** A call waits or runs that ends by itself: no consumer has to finish it. */
  protected get isBusy(): boolean {
    return this.#calls.some((call) => call !== this.#stream);
  }

  /** A stream that the user has, or waits for. */
  protected get handed(): Handed | undefined {
    return [...this.#handed.keys()].find(({ finished }) => !finished);
  }

  /**
   * Resolves when those streams are over. One that has not moved for `closeTimeout` ends with this error; without one
   * this resolves then, and the caller closes the connection.
   */
  protected async streamed(stuck?: (facts: Facts) => PgzError): Promise<void> {
    const { closeTimeout } = this.config;
    const wait = async ([stream, over]: [Handed, Promise<void>]) => {
      if (closeTimeout && (await isStuck(stream, over, closeTimeout))) {
        if (!stuck) return;
        stream.interrupt(stuck);
      }
      await over;
    };
    await Promise.all([...this.#handed].map(wait));
  }

  /** Ends all calls, those to come too. `exceptStreams`: those that the user has go on. */
  protected stop(error: (facts: Facts) => PgzError, exceptStreams = false): void {
    this.#stopped ??= error;
    for (const call of [...this.#calls]) if (!exceptStreams || !this.#handed.has(call)) call.interrupt(this.#stopped);
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

/**
 * Resolves with `true` when the stream has not moved for `closeTimeout`: its server has sent nothing, and its reader
 * has read nothing. While the reader waits, a call with a `timeout` is left to that. `false`: it is over.
 */
async function isStuck(stream: Handed, over: Promise<void>, closeTimeout: number): Promise<boolean> {
  let seen = "";
  for (let left = LOOKS; !stream.finished; left--) {
    const isUnread = stream.isUnread();
    const sees = [isUnread, stream.operation?.bytes, stream.receivedBytes].join();
    if (sees !== seen || (stream.isTimed && !isUnread)) left = LOOKS;
    if (!left) return true;
    seen = sees;
    await within(closeTimeout / LOOKS, over);
  }
  return false;
}
