// Orders the calls on one connection.
//
// A pipelined (`shared`) call is sent as soon as the previous call has sent its last message. Responses arrive in the
// same order. Any other call waits until all earlier calls are over, and later calls wait for its end:
//
//   shared:  ──sent──┐············over      alone:  waits for all before it ──────────over──┐
//                    └──sent──┐········over                                                 └── next
//
// Knows turns, and what is on the wire. Must not know SQL, options, or where the connection comes from.
import type { Call, Follower } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { PIECE } from "../util/limits.ts";

/** A one-shot event. */
class OneShot {
  hasFired = false;
  #listeners: (() => void)[] | undefined;

  /** Calls `listener` when the event fires, from within `fire`; at once if it has fired. */
  whenFired(listener: () => void): void {
    if (this.hasFired) listener();
    else (this.#listeners ??= []).push(listener);
  }

  fire(): void {
    this.hasFired = true;
    const listeners = this.#listeners;
    this.#listeners = undefined;
    if (listeners) for (const listener of listeners) listener();
  }
}

/** A call's place in the queue. It ends once this call and every earlier one have finished with the connection. */
class Turn {
  /** The call has sent its last message. */
  hasSent = false;
  /** Fires when the next call may be sent. */
  readonly sent = new OneShot();
  readonly over = new OneShot();

  pass(): void {
    this.sent.fire();
    this.over.fire();
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

/** Receives, once, how the body of a call ended. */
export interface Ending {
  /** The call has nothing more to do on its session. */
  over(): void;
  /** The body failed with this error. */
  failed(error: unknown): void;
}

/** Bytes of parameters after which the next call waits until the socket has taken what was sent. */
const MOST_SENT = PIECE;

/** What runs for a call on its session. Reports once how it ended. Throwing an error is the same as failing with it. */
export type Body<T> = (call: Call<T>, session: Session, ending: Ending) => void;

/** A call that has a turn on a connection. */
export interface QueuedCall<T> {
  readonly job: { readonly call: Call<T>; readonly use: WireUse; readonly body: Body<T> };
  /** The session on which the call runs. */
  connected(): Session | Promise<Session>;
  /**
   * What follows when its body has failed. `fail`: the call fails with this error. The other two are for a session that
   * could not start the call. `begin again`: the body begins again on the session that `connected` returns now.
   * `leave`: the call leaves the queue, and `free` decides where it goes.
   */
  failed(error: unknown, session: Session): "fail" | "begin again" | "leave";
  /** Called when the connection is free again. */
  free(): void;
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
  /** The entries whose turn has come. Empty unless one of them is beginning. */
  readonly #next: Pick<QueueEntry<never>, "begin">[] = [];
  #isBeginning = false;

  constructor(pipelining: number) {
    this.#pipelining = pipelining;
  }

  /** Resolves when everything queued so far is over; `undefined`: it is over now. */
  end(): Promise<void> | undefined {
    const last = this.#last;
    return last && new Promise((resolve) => last.over.whenFired(resolve));
  }

  /** Queues a turn last. The caller waits for the `end()` of the turns before it. */
  take(): Turn {
    return (this.#last = new Turn());
  }

  /** Ends the turn. */
  pass(turn: Turn): void {
    if (this.#last === turn) this.#last = undefined;
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
    const turn = this.take();
    const isShared = queued.job.use === "shared" && this.#pipelining > 1;
    const entry = new QueueEntry(this, queued, turn, isShared, before);
    const moment = isShared ? before?.sent : before?.over;
    if (moment) moment.whenFired(() => this.#begin(entry));
    else entry.begin();
  }

  /**
   * Begins the entries now, so that the messages of all of them leave in one write. Begins them one after the other, so
   * that a thousand waiting calls do not need a stack of a thousand calls.
   */
  #begin(entry: Pick<QueueEntry<never>, "begin">): void {
    this.#next.push(entry);
    if (this.#isBeginning) return;
    this.#isBeginning = true;
    try {
      for (let next; (next = this.#next.shift());) next.begin();
    } finally {
      this.#isBeginning = false;
    }
  }

  /** The call has sent its last message. The next one may go, unless too much is on the wire. */
  send(turn: Turn, bytes: number, { connection }: Session): void {
    turn.hasSent = true;
    this.#onWire++;
    this.#sentBytes += bytes;
    if (this.#onWire >= this.#pipelining) this.#held = turn;
    else if (this.#sentBytes < MOST_SENT) turn.sent.fire();
    else {
      this.#sentBytes = 0;
      void connection.written.then(() => turn.sent.fire());
    }
  }

  /** A call that had sent its last message is over. */
  leave(): void {
    this.#onWire--;
    this.#held?.sent.fire();
    this.#held = undefined;
  }
}

/**
 * One call in its turn:
 *
 *   begin ──> session ──> body ──> over ──> what it abandoned is cleaned up ──> earlier calls are over ──> passed on
 *     ^                     │
 *     └──── begin again ────┘  the session had ended before it started the call
 */
class QueueEntry<T> implements Ending, Follower {
  readonly #queue: TurnQueue;
  readonly #queued: QueuedCall<T>;
  readonly #turn: Turn;
  readonly #isShared: boolean;
  /** The turn of the previous call, whose responses arrive first. */
  readonly #before: Turn | undefined;
  /** The session on which the body has begun. */
  #session: Session | undefined;
  #isOver = false;

  constructor(queue: TurnQueue, queued: QueuedCall<T>, turn: Turn, isShared: boolean, before: Turn | undefined) {
    this.#queue = queue;
    this.#queued = queued;
    this.#turn = turn;
    this.#isShared = isShared;
    this.#before = before;
  }

  /** Never throws. */
  begin(): void {
    if (this.#queued.job.call.finished) return this.#leave();
    try {
      const session = this.#queued.connected();
      if (!(session instanceof Promise)) return this.#work(session);
      session.then(
        (connected) => this.#work(connected),
        (error: unknown) => this.failed(error),
      );
    } catch (error) {
      this.failed(error);
    }
  }

  #work(session: Session): void {
    const { job } = this.#queued;
    const { call } = job;
    if (call.finished) return this.#leave();
    const { subject, observation } = call;
    this.#session = session;
    try {
      observation?.begin(session.connection.config);
      if (this.#isShared && !this.#turn.hasSent) call.follower = this;
      if (session.sessionChanges && subject)
        for (const text of subject.texts ?? [subject.text]) session.sessionChanges.note(text);
      job.body(call, session, this); // as a method, so that a stack names it
    } catch (error) {
      this.failed(error);
    }
  }

  sent(bytes: number): void {
    if (this.#session) this.#queue.send(this.#turn, bytes, this.#session);
  }

  over(): void {
    this.#leave();
  }

  failed(error: unknown): void {
    const session = this.#session;
    this.#session = undefined;
    const next = session ? this.#queued.failed(error, session) : "fail";
    if (next === "begin again") return this.begin();
    if (next === "fail") this.#queued.job.call.fail(error);
    this.#leave();
  }

  #leave(): void {
    // Passing a turn on twice would count another call as over.
    if (this.#isOver) return;
    this.#isOver = true;
    const cleanup = this.#queued.job.call.operation?.cleanup;
    if (cleanup) void cleanup.then(() => this.#pass());
    else this.#pass();
  }

  #pass(): void {
    // In a microtask, since a thousand aborted calls may each wait for the one before.
    if (this.#before && !this.#before.over.hasFired)
      return this.#before.over.whenFired(() => queueMicrotask(() => this.#pass()));
    this.#queue.pass(this.#turn);
    if (this.#turn.hasSent) this.#queue.leave();
    this.#queued.free();
  }
}
