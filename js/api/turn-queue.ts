// Orders the calls on one connection.
//
// A pipelined (`shared`) call is sent as soon as the previous call has sent its last message. Responses arrive in the
// same order. Any other call waits until all earlier calls are over, and later calls wait for its end:
//
//   shared:  ──sent──┐············over      alone:  waits for all before it ──────────over──┐
//                    └──sent──┐········over                                                 └── next
//
// A first run may be refused, and is then sent again, behind what has followed it. So a shared call that writes waits
// until the first runs before it are over.
//
// Knows turns, what is on the wire, and when a call that its session could not start may begin again. Must not know
// options, where the connection comes from, or of SQL more than whether a statement reads.
import { nextAfter, type Place } from "../session/again.ts";
import type { Call, Ending, Follower } from "../session/call.ts";
import { becomesIdle, type Earlier } from "../session/earlier.ts";
import type { Session } from "../session/session.ts";
import { UsageError, type PgzError } from "../util/errors.ts";
import { LONGEST_IDLE, PIECE } from "../util/limits.ts";
import { textsOf } from "../util/observer.ts";
import { isRead } from "../util/statement-words.ts";

/** The place of one call or transaction on a connection. It ends once this one and every earlier one have finished. */
class Turn {
  /** The last COPY that is before this turn, or that this turn is. */
  lastCopy: Earlier | undefined;
  #hasPassed = false;
  /** The next call that shares the wire may be sent. */
  #isSent = false;
  #whenSent: (() => void)[] | undefined;
  #whenPassed: (() => void)[] | undefined;
  /** The call after this turn. */
  #after: Pick<QueuedCall<never>, "forgetBefore"> | undefined;

  /** Notes the call after this turn, which forgets this turn when it is over. */
  isBefore(after: Pick<QueuedCall<never>, "forgetBefore">): void {
    this.#after = after;
  }

  /** Whether it is over. */
  get hasPassed(): boolean {
    return this.#hasPassed;
  }

  /** Calls `listener` when the next call may share the wire, from within `letNextShare`; at once if it may now. */
  whenSent(listener: () => void): void {
    if (this.#isSent) listener();
    else (this.#whenSent ??= []).push(listener);
  }

  /** Calls `listener` when the turn is over, from within `pass`; at once if it is over. */
  whenPassed(listener: () => void): void {
    if (this.#hasPassed) listener();
    else (this.#whenPassed ??= []).push(listener);
  }

  letNextShare(): void {
    this.#isSent = true;
    const listeners = this.#whenSent;
    this.#whenSent = undefined;
    listeners?.forEach((listener) => listener());
  }

  pass(): void {
    this.letNextShare();
    this.#hasPassed = true;
    this.#after?.forgetBefore();
    this.#after = undefined;
    const listeners = this.#whenPassed;
    this.#whenPassed = undefined;
    listeners?.forEach((listener) => listener());
  }
}

/**
 * How a call uses the connection.
 *
 * - `alone`: nothing else is on the wire meanwhile.
 * - `shared`: earlier and later calls may be on the wire too.
 * - `loop`: alone, and its consumer must finish it before another call can run.
 * - `stream`: as `loop`, but it continues when the client is closed, because the user holds it.
 */
export type WireUse = "alone" | "shared" | "loop" | "stream";

/** Bytes of parameters after which the next call waits until the socket has taken what was sent. */
const MOST_SENT = PIECE;

/** What runs for a call on its session. Reports once how it ended. Throwing an error is the same as failing with it. */
export type Body<T> = (call: Call<T>, session: Session, ending: Ending) => void;

/**
 * Why the session could not start a call: it had ended, or the server refused its login. `undefined`: the error is
 * another one, or cannot be retried.
 */
export function sessionFailure(error: unknown, { connection }: Session): "ended session" | "refused login" | undefined {
  if (error !== connection.closed || !(error as PgzError).hasNoEffect) return undefined;
  return connection.established ? "ended session" : "refused login";
}

/**
 * One call in its turn:
 *
 *   begin ──> session ──> body ──> over ──> what it abandoned is cleaned up ──> earlier calls are over ──> passed on
 *     ^                     │
 *     └──── begin again ────┘  the session had ended before it started the call
 */
export abstract class QueuedCall<T> extends Turn implements Earlier, Ending, Follower {
  readonly call: Call<T>;
  readonly use: WireUse;
  readonly body: Body<T>;
  /** Called when the connection is free again, or when the call has ended without a connection. */
  readonly whenFree: () => void;
  /** How many sessions ended before they started the call. */
  #repeats: number;
  #queue!: TurnQueue;
  /** The turn before, whose responses arrive first. */
  #before: Turn | undefined;
  #isShared = false;
  /** The call has sent its last message. */
  #hasSent = false;
  /** The session on which the body has begun. */
  #session: Session | undefined;
  #isOver = false;

  constructor(call: Call<T>, use: WireUse, body: Body<T>, whenFree: () => void, repeats = 0) {
    super();
    this.call = call;
    this.use = use;
    this.body = body;
    this.whenFree = whenFree;
    this.#repeats = repeats;
  }

  /** The session on which the call runs. */
  protected abstract connected(): Session | Promise<Session>;

  /**
   * What follows when the body has failed. `fail`: the call fails with this error. The other two are for a session that
   * could not start the call. `begin again`: the body begins again on the session that `connected` returns now.
   * `leave`: the call leaves the queue, and `free` decides where it goes.
   */
  protected abstract failedOn(session: Session, error: unknown): "fail" | "begin again" | "leave";

  /** Called when the connection is free again. */
  protected abstract free(): void;

  protected get repeats(): number {
    return this.#repeats;
  }

  /** Whether the call may go to another session after this one failed. `most`: how often that may happen. */
  goesElsewhere(cause: NonNullable<ReturnType<typeof sessionFailure>>, place: Place, most: number): boolean {
    const { reached } = this.call;
    const effect = reached === "nothing" ? "none" : "unknown";
    const attempt = { effect, place, userHasRows: reached === "rows", repeats: this.#repeats, most } as const;
    if (nextAfter(cause, attempt) !== "elsewhere") return false;
    if (cause === "ended session") this.#repeats++;
    return true;
  }

  get isCopy(): boolean {
    return this.call.subject?.kind === "copy";
  }

  /** Of a COPY: `undefined` while it does not read its source. */
  get idleMark(): number | undefined {
    return this.call.copying?.idleMark;
  }

  /** Whether it may run before a call that was made earlier. */
  get isRead(): boolean {
    const { subject } = this.call;
    return subject !== undefined && textsOf(subject).every(isRead);
  }

  /** Called by its queue. */
  enter(queue: TurnQueue, before: Turn | undefined, isShared: boolean): void {
    this.#queue = queue;
    this.#before = before;
    this.#isShared = isShared;
    before?.isBefore(this);
  }

  /** The turn before is over. It is a call with its result, which would stay alive. */
  forgetBefore(): void {
    this.#before = undefined;
  }

  /** `session`: the one that `connected` had promised. Never throws. */
  begin(session: Session | Promise<Session> | undefined = undefined): void {
    const { call } = this;
    if (call.finished) return this.#leave();
    try {
      session ??= this.connected();
      if (session instanceof Promise) {
        session.then(
          (connected) => this.begin(connected),
          (error: unknown) => this.failed(error),
        );
        return;
      }
      const { subject, observation } = call;
      this.#session = session;
      observation?.begin(session.connection.config);
      if (this.#isShared && !this.#hasSent) call.follower = this;
      if (session.sessionChanges && subject) for (const text of textsOf(subject)) session.sessionChanges.note(text);
      this.body(call, session, this); // as a method, so that a stack names it
    } catch (error) {
      this.failed(error);
    }
  }

  sent(bytes: number, isFirstRun = false): void {
    if (!this.#session) return;
    this.#hasSent = true;
    if (isFirstRun) this.#queue.noteFirstRun(this);
    this.#queue.send(this, bytes, this.#session);
  }

  over(): void {
    this.#leave();
  }

  failed(error: unknown): void {
    const session = this.#session;
    this.#session = undefined;
    const next = session ? this.failedOn(session, error) : "fail";
    if (next === "begin again") return this.begin();
    if (next === "fail") this.call.fail(error);
    this.#leave();
  }

  #leave(): void {
    // Passing a turn on twice would count another call as over.
    if (this.#isOver) return;
    this.#isOver = true;
    const cleanup = this.call.operation?.cleanup;
    if (cleanup) void cleanup.then(() => this.#pass());
    else this.#pass();
  }

  #pass(): void {
    // In a microtask, since a thousand aborted calls may each wait for the one before.
    if (this.#before && !this.#before.hasPassed)
      return this.#before.whenPassed(() => queueMicrotask(() => this.#pass()));
    this.#queue.pass(this);
    if (this.#hasSent) this.#queue.leave();
    this.free();
  }
}

export class TurnQueue {
  /** Maximum number of calls that share the wire. */
  readonly #pipelining: number;
  /** The turn of the call or transaction that was made last; `undefined`: none is on the connection. */
  #last: Turn | undefined;
  /** Number of calls that share the wire and are not over. */
  #onWire = 0;
  /** Bytes that these calls have sent since a call last waited for the socket. */
  #sentBytes = 0;
  /** The turn that is not passed on until another call is over, because `pipelining` calls are on the wire. */
  #held: Turn | undefined;
  /** The turn of the call that was the last one to send a first run. */
  #firstRun: Turn | undefined;
  /** The calls whose turn has come. Empty unless one of them is beginning. */
  readonly #next: Pick<QueuedCall<never>, "begin">[] = [];
  #isBeginning = false;

  constructor(pipelining: number) {
    this.#pipelining = pipelining;
  }

  /** The last COPY that has been queued and is not over. */
  get lastCopy(): Earlier | undefined {
    return openCopy(this.#last);
  }

  /** Resolves when everything queued so far is over; `undefined`: it is over now. */
  end(): Promise<void> | undefined {
    const last = this.#last;
    return last && new Promise((resolve) => last.whenPassed(resolve));
  }

  /** Queues a turn last. The caller waits for the `end()` of the turns before it. */
  take(): Turn {
    const turn = new Turn();
    turn.lastCopy = this.lastCopy;
    return (this.#last = turn);
  }

  /** Ends the turn. */
  pass(turn: Turn): void {
    if (this.#last === turn) this.#last = undefined;
    if (this.#firstRun === turn) this.#firstRun = undefined;
    turn.pass();
  }

  /**
   * Runs one call in its turn: after the earlier calls, on the session, until the connection is free again. If there is
   * nothing to wait for, the body begins and sends its messages before this returns, and no promise is made. Never
   * throws.
   */
  run<T>(queued: QueuedCall<T>): void {
    // Taken first: a value's own code may make a call while the body begins, and that call must come later.
    const before = this.#last;
    this.#last = queued;
    const earlier = openCopy(before);
    queued.lastCopy = queued.isCopy ? queued : earlier;
    if (earlier) void failIfIdle(queued.call, earlier);
    const isShared = queued.use === "shared" && this.#pipelining > 1;
    queued.enter(this, before, isShared);
    if (!before) return queued.begin();
    if (isShared) before.whenSent(() => this.#share(queued));
    else before.whenPassed(() => this.#begin(queued));
  }

  /** Begins a call that shares the wire, unless it must keep its place behind a first run. */
  #share(queued: Pick<QueuedCall<never>, "begin" | "isRead">): void {
    if (this.#firstRun && !queued.isRead) this.#firstRun.whenPassed(() => this.#begin(queued));
    else this.#begin(queued);
  }

  /**
   * Begins the calls now, so that the messages of all of them leave in one write. Begins them one after the other, so
   * that a thousand waiting calls do not need a stack of a thousand calls.
   */
  #begin(queued: Pick<QueuedCall<never>, "begin">): void {
    this.#next.push(queued);
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    try {
      for (let next; (next = this.#next.shift());) next.begin();
    } finally {
      this.#isBeginning = false;
    }
  }

  /** The call has sent a first run. Noted before `send`, which may begin the next call. */
  noteFirstRun(turn: Turn): void {
    this.#firstRun = turn;
  }

  /** The call has sent its last message. The next one may go, unless too much is on the wire. */
  send(turn: Turn, bytes: number, { connection }: Session): void {
    this.#onWire++;
    this.#sentBytes += bytes;
    if (this.#onWire >= this.#pipelining) this.#held = turn;
    else if (this.#sentBytes < MOST_SENT) turn.letNextShare();
    else {
      this.#sentBytes = 0;
      void connection.written.then(() => turn.letNextShare());
    }
  }

  /** A call that had sent its last message is over. */
  leave(): void {
    this.#onWire--;
    this.#held?.letNextShare();
    this.#held = undefined;
  }
}

function openCopy(turn: Turn | undefined): Earlier | undefined {
  return turn?.lastCopy?.call.finished === false ? turn.lastCopy : undefined;
}

/** Fails the call, which waits for a COPY, once its source has been idle: perhaps the source waits for the call. */
async function failIfIdle(call: Pick<Call<unknown>, "finished" | "whenOver" | "interrupt">, copy: Earlier) {
  if (await becomesIdle(copy, call)) call.interrupt(stuckBehindCopy);
}

/** The error of a call that waits for a COPY whose source has been idle. */
export function stuckBehindCopy(): UsageError {
  return new UsageError(
    "STREAM_OPEN",
    `The source of a COPY that runs before this call has given nothing for ${LONGEST_IDLE} ms: if it waits for this ` +
      "call, make the call with another client; else let the COPY end.",
    { hasNoEffect: true },
  );
}
