// Runs calls. A call is made, then counted (ledger.ts) and observed until it settles. It runs on a connection when its
// turn comes (turn-queue.ts).
//
// Knows the life of a call. Must not know SQL, or what happens to rows.
import { callOption } from "../config/config.ts";
import type { Config } from "../config/options.ts";
import { checkOptions, unknownCallOption } from "../config/rules.ts";
import { Call } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { commentOf } from "../session/sql-comment.ts";
import { watched } from "../runtime/channels.ts";
import { connectionLost } from "../runtime/contract.ts";
import { runtime } from "../runtime/runtime.ts";
import { MAY_HAVE_RUN, UsageError, type Facts, type PgzError } from "../util/errors.ts";
import { shownAs } from "../util/shown.ts";
import { shownInLine } from "../util/shown-sql.ts";
import { Observation, type CallSubject } from "../util/observer.ts";
import { traced } from "../util/trace.ts";
import { withDeadline } from "../util/deadline.ts";
import { Ledger, type Counters, type OpenCall } from "./ledger.ts";
import { QueuedCall, sessionFailure, TurnQueue, type Body, type WireUse } from "./turn-queue.ts";
import { CALL_OPTIONS, LEAVING, type CallOptions } from "./options.ts";

/** The arguments of a queued call: what is asked, its options, the body that runs, and how it uses the connection. */
export type CallArguments<T> = [subject: CallSubject, options: InternalCallOptions, body: Body<T>, use?: WireUse];

/** Makes a body that waits for several responses. It ends when the promise of `body` settles. */
export function waiting<T>(body: (call: Call<T>, session: Session) => Promise<void>): Body<T> {
  return (call, session, ending) => {
    body(call, session).then(
      () => ending.over(),
      (error: unknown) => ending.failed(error),
    );
  };
}

/** The options of a call, with the driver's own. */
type InternalCallOptions = CallOptions & {
  closeWhenDone?: boolean | undefined;
  [LEAVING]?: AbortSignal;
};

/**
 * Checks per `closeTimeout` of a stream that outlives a close. A stuck stream is noticed at most a tenth of
 * `closeTimeout` late. Counting checks avoids reading a clock.
 */
const CHECKS_PER_TIMEOUT = 10;

const NOTHING = () => {};

/** The promise of a call that is refused before it begins. */
export function refusal(error: unknown): Promise<never> {
  return Promise.reject(error as Error);
}

export abstract class CallRunner {
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
  /** Orders the calls on the connection. @internal */
  protected readonly turns: TurnQueue;
  readonly #ledger: Ledger;
  /** Why all calls end, including those made later. */
  #stopped: ((facts: Facts) => PgzError) | undefined;
  /** The stream that its consumer must finish before another call can run. */
  #stream: Pick<Call<unknown>, "finished" | "isLooping" | "subject" | "trace"> | undefined;
  /**
   * The streams that the user has or waits for, which outlive `close()`. The promise resolves when the stream's
   * connection is free again.
   */
  readonly #userStreams = new Map<OpenCall, Promise<void>>();

  /** @internal */
  constructor(config: Config, counters: Counters) {
    this.config = config;
    this.counters = counters;
    this.#ledger = new Ledger(counters);
    this.turns = new TurnQueue(config.pipelining);
  }

  /** What `console.log` shows: the name of the class, which a minifier would change, its state and more. @internal */
  protected abstract get shown(): { readonly name: string };

  /** The server, for `shown`. @internal */
  protected get address(): object {
    const { host, port, database, user } = this.config;
    return { host, port, database, user };
  }

  /** Why no call may be made now; `undefined` if calls are allowed. @internal */
  protected abstract refused(): UsageError | undefined;
  /** @internal */
  protected abstract connected(): Session | Promise<Session>;
  /** Whether `connected` connects again after a connection was lost. @internal */
  protected get reconnects(): boolean {
    return false;
  }

  /** Ends all calls when it aborts. @internal */
  protected abstract readonly signal: AbortSignal | undefined;
  /** Called after a call with `closeWhenDone`. @internal */
  protected abstract close(): Promise<void>;

  /** Runs one call in its turn: after the earlier calls, on the connection, until the connection is free again. */
  protected run<T>(...[subject, options, body, use = "alone"]: CallArguments<T>): Promise<T> {
    const refused = this.refused() ?? this.unfinished();
    if (refused) throw refused;
    // The error of a loop names the caller that awaits its next rows (rows/rows.ts).
    if (use === "loop") return this.queue(subject, options, body, use);
    // The stacks of Bun's engine name only callers that await an async function (util/trace.ts).
    if (runtime().name === "bun") return traced(this.queue(subject, options, body, use));
    return this.queue(subject, options, body, use, "user");
  }

  /** As `run`, but never refused. `awaitedBy`: who awaits the promise itself, so that its error gets that stack. */
  protected queue<T>(
    subject: CallSubject,
    options: InternalCallOptions,
    body: Body<T>,
    use: WireUse = "alone",
    awaitedBy?: "user",
  ): Promise<T> {
    const { config } = this;
    checkOptions(options, CALL_OPTIONS, unknownCallOption);
    const signal = options.signal && callOption(config, options, "signal");
    const timeout = callOption(config, options, "timeout");
    const observer = watched(subject.kind ?? "query", callOption(config, options, "observer"));
    const observation =
      observer && new Observation(observer, subject, config, callOption(config, options, "slowQueryThreshold"));
    const maker = this.#ledger;
    const isOfUser = awaitedBy === "user";
    const call = new Call<T>({ timeout, maker, observation, subject, isOfUser, isDebug: Boolean(config.debug) });
    maker.add(call);
    const whenFree = use === "stream" || use === "loop" ? this.#opens(call, use, options.closeWhenDone) : NOTHING;
    const leaving = options[LEAVING];
    if (observation) {
      observation.run(() => {
        this.#prepare(call, signal, leaving);
        this.perform(call, use, body, whenFree);
      });
    } else {
      this.#prepare(call, signal, leaving);
      this.perform(call, use, body, whenFree);
    }
    return call.promise;
  }

  /** Called in the context of the call's observation, which the comment may name. */
  #prepare(
    call: Pick<Call<unknown>, "comment" | "abortOn" | "interrupt">,
    signal: AbortSignal | undefined,
    leaving: AbortSignal | undefined,
  ): void {
    call.comment = commentOf(this.config);
    call.abortOn(signal);
    call.abortOn(leaving);
    call.abortOn(this.signal);
    if (this.#stopped) call.interrupt(this.#stopped);
  }

  /** Notes a stream or a loop. Returns a function to call when its connection is free again. */
  #opens(
    call: OpenCall & Pick<Call<unknown>, "isLooping" | "subject" | "trace">,
    use: WireUse,
    closeWhenDone: boolean | undefined,
  ): () => void {
    let free = NOTHING;
    this.#stream = call;
    const over = new Promise<void>((resolve) => (free = resolve));
    if (use === "stream") this.#userStreams.set(call, over);
    // The handler that made the stream does not wait for its end; the runtime must.
    runtime().background(this.#afterStream(call, over, closeWhenDone));
    return free;
  }

  /** Waits for the end of a stream or loop, and then closes the client if the call asked for it. */
  async #afterStream(call: OpenCall, over: Promise<void>, closeWhenDone: boolean | undefined): Promise<void> {
    await over;
    this.#userStreams.delete(call);
    if (closeWhenDone) await this.close();
  }

  /** Runs the call when it is its turn. Never throws. */
  protected perform<T>(call: Call<T>, use: WireUse, body: Body<T>, whenFree: () => void): void {
    this.turns.run(new OwnCall(this, this.reconnects, call, use, body, whenFree));
  }

  /**
   * Returns the session once no operation on it is being stopped: a cancel in flight could hit this call.
   *
   * @internal
   */
  ready(call: Pick<Call<unknown>, "finished">): Session | Promise<Session> {
    const session = this.connected();
    return session instanceof Promise || session.connection.stopping ? this.#unstopped(session, call) : session;
  }

  /** A call that is over meanwhile needs no session, and must not be the one that is told of a loss. */
  async #unstopped(connected: Session | Promise<Session>, call: Pick<Call<unknown>, "finished">): Promise<Session> {
    for (;;) {
      const { stopping } = (await connected).connection;
      if (!stopping) return connected;
      await stopping;
      if (call.finished) return connected;
      connected = this.connected();
    }
  }

  /**
   * Rejects if a transaction, begun in SQL, was lost with the session and no call has said so: elsewhere the call would
   * run outside it. `undefined`: there is nothing to say.
   *
   * @internal
   */
  protected lossOfTransaction({ connection, transaction }: Session): Promise<never> | undefined {
    const outcome = transaction.outcomeOfLoss;
    if (!outcome || connection.lossIsReported) return undefined;
    connection.lossIsReported = true;
    return this.#refuseAsLost(connection.closed!, outcome);
  }

  async #refuseAsLost(cause: PgzError, outcome: PgzError["transaction"]): Promise<never> {
    await undefined; // calls that are made in this turn are of the same transaction
    this.loseWaiting(cause, outcome);
    throw lostWithTransaction(cause, outcome);
  }

  /** Ends the calls that wait: they may belong to the transaction that was lost. @internal */
  loseWaiting(cause: PgzError, transaction: PgzError["transaction"]): void {
    const waiting = this.#ledger.open.filter(({ operation }) => !operation);
    for (const call of waiting) call.interrupt(() => lostWithTransaction(cause, transaction));
  }

  /**
   * Whether any call is queued or running, except the open stream or loop: its consumer must end it, and other calls
   * end by themselves.
   */
  protected get isBusy(): boolean {
    return this.#ledger.hasOther(this.#stream);
  }

  /** An unfinished stream that the user has or waits for, if there is one. */
  protected get userStream(): OpenCall | undefined {
    return [...this.#userStreams.keys()].find(({ finished }) => !finished);
  }

  /**
   * Resolves when the streams that the user has or waits for have ended. A stream without progress for `closeTimeout`
   * ends with the error `stuck`. Without `stuck` this resolves at that time, and the caller closes the connection.
   */
  protected async whenStreamsEnd(stuck?: (facts: Facts) => PgzError): Promise<void> {
    const { closeTimeout } = this.config;
    const wait = async ([stream, over]: [OpenCall, Promise<void>]) => {
      if (closeTimeout && (await isStuck(stream, over, closeTimeout))) {
        if (!stuck) return;
        stream.interrupt(stuck);
      }
      await over;
    };
    await Promise.all([...this.#userStreams].map(wait));
  }

  /** Ends all calls, including those made later. */
  protected stop(error: (facts: Facts) => PgzError): void {
    this.#stopped ??= error;
    for (const call of this.#ledger.open) call.interrupt(this.#stopped);
  }

  /** As `stop`, but streams that the user has continue. */
  protected stopAllButStreams(error: (facts: Facts) => PgzError): void {
    this.#stopped ??= error;
    for (const call of this.#ledger.open) if (!this.#userStreams.has(call)) call.interrupt(this.#stopped);
  }

  /** Returns the refusal of a call while its consumer has not finished an earlier stream or cursor. */
  protected unfinished(): UsageError | undefined {
    // A loop whose rows have all come is open too: else it would depend on their number whether its body may call.
    if (!this.#stream || (this.#stream.finished && !this.#stream.isLooping())) return undefined;
    const { subject, trace } = this.#stream;
    const of = subject?.text === undefined ? "" : ` of "${shownInLine(subject.text)}"`;
    return new UsageError(
      "STREAM_OPEN",
      `A stream, loop or cursor${of} is unfinished: read it to its end, cancel or leave it, or use another client.`,
      trace && { cause: trace }, // with `debug`: where it was opened
    );
  }
}

/** The error of a call that was not sent, because it may belong to a transaction that was lost with its session. */
function lostWithTransaction(cause: PgzError, transaction: PgzError["transaction"]): PgzError {
  const error = connectionLost("this call was not sent, because a transaction was open", { cause });
  return Object.assign(error, transaction && { transaction });
}

/** A call of a client, a lease or a transaction, which have a connection to themselves. */
class OwnCall<T> extends QueuedCall<T> {
  readonly #runner: Pick<CallRunner, "ready" | "loseWaiting">;
  /** Whether the runner connects again after the session has ended. */
  readonly #reconnects: boolean;

  constructor(
    runner: Pick<CallRunner, "ready" | "loseWaiting">,
    reconnects: boolean,
    ...call: ConstructorParameters<typeof QueuedCall<T>>
  ) {
    super(...call);
    this.#runner = runner;
    this.#reconnects = reconnects;
  }

  protected override connected(): Session | Promise<Session> {
    return this.#runner.ready(this.call);
  }

  protected override failedOn(session: Session, error: unknown): "fail" | "begin again" {
    const { connection, transaction } = session;
    // Not after a refused login: its error is the answer to the call that connected.
    const mayRepeat = this.#reconnects && sessionFailure(error, session) === "ended session";
    if (mayRepeat && this.goesElsewhere("ended session", transaction.place, 1)) return "begin again";
    if (error === connection.closed) this.#isLost(session, error as PgzError);
    return "fail";
  }

  /** The call reports the loss, and what became of the transaction in which it was. */
  #isLost({ connection, transaction }: Session, cause: PgzError): void {
    const { call, use } = this;
    // The error of a loop or a stream may never be read.
    if (!call.finished && (use === "alone" || use === "shared")) connection.lossIsReported = true;
    const outcome = transaction.outcomeOfLoss;
    if (outcome) call.lost = { transaction: outcome, ...(transaction.wasEndedInSql && MAY_HAVE_RUN) };
    const isClosed = this.#reconnects && cause.code === "CLIENT_CLOSED"; // such a client refuses the calls that wait
    if (isClosed || !transaction.waitingAreLost) return;
    // Made again by itself, the call would run outside the transaction.
    call.lost = { ...call.lost, ...MAY_HAVE_RUN };
    this.#runner.loseWaiting(cause, outcome);
  }

  protected override free(): void {
    this.whenFree();
  }
}

/**
 * Resolves with `true` when the stream has made no progress for `closeTimeout`: the server has sent nothing, and the
 * reader has read nothing. While the reader waits for the server, a stream with a `timeout` never counts as stuck: its
 * timeout ends it. Resolves with `false` when the stream has ended.
 */
async function isStuck(stream: OpenCall, over: Promise<void>, closeTimeout: number): Promise<boolean> {
  let seen = "";
  for (let left = CHECKS_PER_TIMEOUT; !stream.finished; left--) {
    const isUnread = stream.isUnread();
    const sees = [isUnread, stream.operation?.bytes, stream.receivedBytes].join();
    if (sees !== seen || (stream.isTimed && !isUnread)) left = CHECKS_PER_TIMEOUT;
    if (!left) return true;
    seen = sees;
    await withDeadline(closeTimeout / CHECKS_PER_TIMEOUT, over);
  }
  return false;
}
