// Whose turn it is on one connection.
//
// Calls that share the wire go when the call before them has said all it has to say; their answers come in that order.
// Any other call waits until those before it are over, and those after it wait for its end:
//
//   shared:  ──said──┐············over      alone:  waits for all before it ──────────over──┐
//                    └──said──┐········over                                                 └── next
//
// Knows turns, and what is on the wire. Must not know SQL, options, or where the connection comes from.
import type { Call, Follower } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { PIECE } from "../util/limits.ts";

/** Something that happens once. */
class OneShot {
  hasFired = false;
  #listeners: (() => void)[] | undefined;

  /** Calls `listener` once it is past, from within `reach`. */
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

/** From when a call is made until it has left the connection, and all calls before it have. */
export class Turn {
  /** Its call has said all that it has to say. */
  hasSent = false;
  /** The next call may go on the wire. */
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
 * - `shared`: other calls may be, before it and after it.
 * - `loop`: alone, and its consumer has to finish it before another call can run.
 * - `stream`: the same, and the user has it in hands when the client is closed: it goes on.
 */
export type Way = "alone" | "shared" | "loop" | "stream";

/** Is told once how the work of a call ended. */
export interface Ending {
  /** The call has nothing more to do on its session. */
  over(): void;
  /** The call fails with this. */
  failed(error: unknown): void;
}

/** Bytes of parameters after which the next call waits until what was said has left. */
const MOST_SENT = PIECE;

/** What runs for a call on its session, and tells once how it ended. What it throws is as if it had failed with it. */
export type Body<T> = (call: Call<T>, session: Session, ending: Ending) => void;

/** Who has a turn on a connection. */
export interface QueuedCall<T> {
  readonly job: { readonly call: Call<T>; readonly way: Way; readonly body: Body<T> };
  /** The session that it runs on. */
  connected(): Session | Promise<Session>;
  /**
   * What comes behind a failure of its body: the call fails with it, or the session was of no use to the call. Then the
   * body begins again on the session that `connected` has now, or it leaves the line, and `free` says where it goes.
   */
  failed(error: unknown, session: Session): "fail" | "begin again" | "leave";
  /** The connection is free again. */
  free(): void;
}

export class TurnQueue {
  /** Calls that share the wire, at most. */
  readonly #pipelining: number;
  /** Of the call or transaction that was made last; `undefined`: none is on the connection. */
  #last: Turn | undefined;
  /** Calls that share the wire and are not over. */
  #onWire = 0;
  /** Bytes that they have said since a call last waited for the socket. */
  #sentBytes = 0;
  /** The turn that is not passed on before another call is over: `pipelining` calls are on the wire. */
  #held: Turn | undefined;
  /** Whose turn has come; empty unless one of them begins just now. */
  readonly #next: Pick<QueueEntry<never>, "begin">[] = [];
  #isBeginning = false;

  constructor(pipelining: number) {
    this.#pipelining = pipelining;
  }

  /** When all that was made so far is over; `undefined`: it is. */
  end(): Promise<void> | undefined {
    const last = this.#last;
    return last && new Promise((resolve) => last.over.whenFired(resolve));
  }

  /** A turn after all others, for who waits for `end` of the line before it. */
  take(): Turn {
    return (this.#last = new Turn());
  }

  /** The turn is over. */
  pass(turn: Turn): void {
    if (this.#last === turn) this.#last = undefined;
    turn.pass();
  }

  /**
   * One call's turn: after those before it, on the session, until the connection is free again. Where nothing has to
   * be waited for, the work begins, and says what it has to say, before this returns, and no promise is made. Never
   * throws.
   */
  run<T>(queued: QueuedCall<T>): void {
    // At once: a value's own code may make a call while the work begins, and that one comes after it.
    const before = this.#last;
    const turn = this.take();
    const isShared = queued.job.way === "shared" && this.#pipelining > 1;
    const entry = new QueueEntry(this, queued, turn, isShared, before);
    const ahead = isShared ? before?.sent : before?.over;
    if (ahead) ahead.whenFired(() => this.#begin(entry));
    else entry.begin();
  }

  /**
   * At once, so that what all of them say leaves in one write; one after the other, so that a thousand that wait need
   * no stack of a thousand calls.
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

  /** The call has said all it has to say: the next one may go, unless there is too much on the wire. */
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

  /** A call that has said something is over. */
  leave(): void {
    this.#onWire--;
    this.#held?.sent.fire();
    this.#held = undefined;
  }
}

/**
 * One call in its turn:
 *
 *   begin ──> session ──> work ──> over ──> what it abandoned is cleaned up ──> those before it are over ──> passed on
 *     ^                     │
 *     └──── begin again ────┘  the session had ended before it began with it
 */
class QueueEntry<T> implements Ending, Follower {
  readonly #queue: TurnQueue;
  readonly #queued: QueuedCall<T>;
  readonly #turn: Turn;
  readonly #isShared: boolean;
  /** Of the call before it, whose answers come first. */
  readonly #before: Turn | undefined;
  /** On which the work has begun. */
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
    const { asked, observation } = call;
    this.#session = session;
    try {
      observation?.begin(session.connection.config);
      if (this.#isShared && !this.#turn.hasSent) call.follower = this;
      if (session.sessionChanges && asked)
        for (const text of asked.texts ?? [asked.text]) session.sessionChanges.note(text);
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
    // A turn that is passed on twice would count another call out.
    if (this.#isOver) return;
    this.#isOver = true;
    const cleanup = this.#queued.job.call.operation?.cleanup;
    if (cleanup) void cleanup.then(() => this.#pass());
    else this.#pass();
  }

  #pass(): void {
    // Later, since a thousand aborted calls may wait for the one before them.
    if (this.#before && !this.#before.over.hasFired)
      return this.#before.over.whenFired(() => queueMicrotask(() => this.#pass()));
    this.#queue.pass(this.#turn);
    if (this.#turn.hasSent) this.#queue.leave();
    this.#queued.free();
  }
}
