// The life of a call: made, counted (ledger.ts) and observed until it has settled, and performed on a connection when it
// is its turn (turn-queue.ts).
//
// Must not know SQL, or what becomes of rows.
import { callOption } from "../config/config.ts";
import type { Config } from "../config/options.ts";
import { checkOptions } from "../config/rules.ts";
import { nextAfter } from "../session/again.ts";
import { Call } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { commentOf } from "../session/sql-comment.ts";
import { watched } from "../sockets/channels.ts";
import { runtime } from "../sockets/runtime.ts";
import { UsageError, type Facts, type PgzError } from "../util/errors.ts";
import { shownAs } from "../util/shown.ts";
import { Observation, type Asked } from "../util/observer.ts";
import { traced } from "../util/trace.ts";
import { withDeadline } from "../util/deadline.ts";
import { Ledger, type Counters, type OpenCall } from "./ledger.ts";
import { TurnQueue, type Body, type QueuedCall, type Way } from "./turn-queue.ts";
import { CALL_OPTIONS, LEAVING, type CallOptions } from "./options.ts";

/** What a queue is given: what is asked, options, what runs, and how it uses the connection. */
export type CallArguments<T> = [asked: Asked, options: TurnOptions, body: Body<T>, way?: Way];

/** What waits for several answers: it ends when the promise settles. */
export function waiting<T>(run: (call: Call<T>, session: Session) => Promise<void>): Body<T> {
  return (call, session, ending) => {
    run(call, session).then(
      () => ending.over(),
      (error: unknown) => ending.failed(error),
    );
  };
}

/** What a call says of its turn. */
type TurnOptions = CallOptions & {
  closeWhenDone?: boolean | undefined;
  [LEAVING]?: AbortSignal;
};

/** Why a session was of no use to a call: its own end, not that of a statement. */
export function uselessFor(error: unknown, { connection }: Session): "ended session" | "refused login" | undefined {
  if (error !== connection.closed || !(error as PgzError).retryable) return undefined;
  return connection.established ? "ended session" : "refused login";
}

/** A call on its way to a session: what runs there, and what comes when that is free again. */
export class Job<T> {
  readonly call: Call<T>;
  readonly way: Way;
  readonly body: Body<T>;
  /** The connection is free again, or the call has never had one. */
  readonly free: () => void;
  /** Of a pool's: when it began to wait for a member. */
  since: number | undefined;
  /** Sessions that had ended before they began with it. */
  #repeats = 0;

  constructor(call: Call<T>, way: Way, body: Body<T>, free: () => void) {
    this.call = call;
    this.way = way;
    this.body = body;
    this.free = free;
  }

  /** Whether another session takes the call, for which this one was useless. `most`: how often that may be. */
  goesElsewhere(cause: NonNullable<ReturnType<typeof uselessFor>>, most: number): boolean {
    const { beyond } = this.call;
    const effect = beyond === "nothing" ? "none" : "unknown";
    const attempt = { effect, place: "alone", isSeen: beyond === "rows", repeats: this.#repeats, most } as const;
    if (nextAfter(cause, attempt) !== "elsewhere") return false;
    if (cause === "ended session") this.#repeats++;
    return true;
  }
}

/** Looks per `closeTimeout` at a stream that outlives a close: it ends at most a tenth late, and needs no clock. */
const LOOKS = 10;

const NOTHING = () => {};

/** A call that is refused before it begins: its promise. */
export function refusal(error: unknown): Promise<never> {
  return Promise.reject(error as Error);
}

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
  protected readonly turns: TurnQueue;
  readonly #ledger: Ledger;
  /** Why all calls end, those to come too. */
  #stopped: ((facts: Facts) => PgzError) | undefined;
  /** The stream that its consumer has to finish before another call can run. */
  #stream: { readonly finished: boolean } | undefined;
  /** Streams that the user has, or waits for, each with when its connection is free again. They outlive `close()`. */
  readonly #handed = new Map<OpenCall, Promise<void>>();

  /** @internal */
  constructor(config: Config, counters: Counters) {
    this.config = config;
    this.counters = counters;
    this.#ledger = new Ledger(counters);
    this.turns = new TurnQueue(config.pipelining);
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
  protected get reconnects(): boolean {
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
    // Whoever awaits the next rows of a loop is named there.
    if (call[3] === "loop") return this.#make(false, ...call);
    // Its engine names who awaits an async function, and nobody else (util/trace.ts).
    return runtime().name === "bun" ? traced(this.#make(false, ...call)) : this.#make(true, ...call);
  }

  /** The same for calls of our own, which nothing refuses. */
  protected queue<T>(...call: CallArguments<T>): Promise<T> {
    return this.#make(false, ...call);
  }

  #make<T>(isOfUser: boolean, ...[asked, options, body, way = "alone"]: CallArguments<T>): Promise<T> {
    const { config } = this;
    checkOptions(options, CALL_OPTIONS);
    const signal = options.signal && callOption(config, options, "signal");
    const timeout = callOption(config, options, "timeout");
    const observer = watched(asked.kind ?? "query", callOption(config, options, "observer"));
    const observation =
      observer && new Observation(observer, asked, config, callOption(config, options, "slowQueryThreshold"));
    const maker = this.#ledger;
    const call = new Call<T>({ timeout, maker, observation, asked, isOfUser, isDebug: Boolean(config.debug) });
    maker.add(call);
    const isOpen = way === "stream" || way === "loop";
    let free = NOTHING;
    if (isOpen) {
      this.#stream = call;
      const over = new Promise<void>((resolve) => (free = resolve));
      if (way === "stream") this.#handed.set(call, over);
      // Whoever waits for a stream is not the handler that made it.
      runtime().background(this.#left(call, over, options.closeWhenDone));
    }
    const job = new Job(call, way, body, free);
    const signals = [signal, options[LEAVING], this.signal];
    if (observation) observation.run(() => this.#begin(job, signals));
    else this.#begin(job, signals);
    return call.promise;
  }

  #begin<T>(job: Job<T>, signals: readonly (AbortSignal | undefined)[]): void {
    job.call.comment = commentOf(this.config);
    job.call.heed(...signals);
    if (this.#stopped) job.call.interrupt(this.#stopped);
    this.perform(job);
  }

  /** What comes behind a stream or cursor. */
  async #left(call: OpenCall, over: Promise<void>, closeWhenDone: boolean | undefined): Promise<void> {
    await over;
    this.#handed.delete(call);
    if (closeWhenDone) await this.close();
  }

  /** Runs the call when it is its turn. Never throws. */
  protected perform<T>(job: Job<T>): void {
    this.turns.run(new QueuedJob(job, () => this.#ready(), this.reconnects));
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
    return this.#ledger.hasOther(this.#stream);
  }

  /** A stream that the user has, or waits for. */
  protected get handed(): OpenCall | undefined {
    return [...this.#handed.keys()].find(({ finished }) => !finished);
  }

  /**
   * Resolves when those streams are over. One that has not moved for `closeTimeout` ends with this error; without one
   * this resolves then, and the caller closes the connection.
   */
  protected async streamed(stuck?: (facts: Facts) => PgzError): Promise<void> {
    const { closeTimeout } = this.config;
    const wait = async ([stream, over]: [OpenCall, Promise<void>]) => {
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
    for (const call of this.#ledger.open) if (!exceptStreams || !this.#handed.has(call)) call.interrupt(this.#stopped);
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

/** A call in its turn on the connection of a client or a transaction. */
class QueuedJob<T> implements QueuedCall<T> {
  readonly job: Job<T>;
  readonly connected: () => Session | Promise<Session>;
  /** `connected` connects again where the session has ended. */
  readonly #reconnects: boolean;

  constructor(job: Job<T>, connected: () => Session | Promise<Session>, reconnects: boolean) {
    this.job = job;
    this.connected = connected;
    this.#reconnects = reconnects;
  }

  failed(error: unknown, session: Session): "fail" | "begin again" {
    // A server that lets nobody in has told whoever connected.
    const isUseless = this.#reconnects && uselessFor(error, session) === "ended session";
    return isUseless && this.job.goesElsewhere("ended session", 1) ? "begin again" : "fail";
  }

  free(): void {
    this.job.free();
  }
}

/**
 * Resolves with `true` when the stream has not moved for `closeTimeout`: its server has sent nothing, and its reader
 * has read nothing. While the reader waits, a call with a `timeout` is left to that. `false`: it is over.
 */
async function isStuck(stream: OpenCall, over: Promise<void>, closeTimeout: number): Promise<boolean> {
  let seen = "";
  for (let left = LOOKS; !stream.finished; left--) {
    const isUnread = stream.isUnread();
    const sees = [isUnread, stream.operation?.bytes, stream.receivedBytes].join();
    if (sees !== seen || (stream.isTimed && !isUnread)) left = LOOKS;
    if (!left) return true;
    seen = sees;
    await withDeadline(closeTimeout / LOOKS, over);
  }
  return false;
}
