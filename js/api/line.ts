// Whose turn it is on one connection.
//
// Calls that share the wire go when the call before them has said all it has to say; their answers come in that order.
// Any other call waits until those before it are over, and those behind it wait for its end:
//
//   shared:  ──said──┐············over      alone:  waits for all before it ──────────over──┐
//                    └──said──┐········over                                                 └── next
//
// Knows turns, and what is on the wire. Must not know SQL, options, or where the connection comes from.
import type { Call } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { PIECE } from "../util/limits.ts";

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
 * - `loop`: alone, and its consumer has to finish it before another call can run.
 * - `stream`: the same, and the user has it in hands when the client is closed: it goes on.
 */
export type Way = "alone" | "shared" | "loop" | "stream";

/** Bytes of parameters after which the next call waits until what was said has left. */
const MOST_SAID = PIECE;

export class Line {
  /** Calls that share the wire, at most. */
  readonly #pipelining: number;
  /** Of the call or transaction that was made last; `undefined`: none is on the connection. */
  #last: Turn | undefined;
  /** Calls that share the wire and are not over. */
  #onWire = 0;
  /** Bytes that they have said since a call last waited for the socket. */
  #said = 0;
  /** The turn that is not passed on before another call is over: `pipelining` calls are on the wire. */
  #held: Turn | undefined;

  constructor(pipelining: number) {
    this.#pipelining = pipelining;
  }

  /** When all that was made so far is over; `undefined`: it is. */
  end(): Promise<void> | undefined {
    return this.#last?.end();
  }

  /** A turn behind all others, for who waits for `end` of the line before it. */
  take(): Turn {
    return (this.#last = new Turn());
  }

  /** The turn is over. */
  pass(turn: Turn): void {
    if (this.#last === turn) this.#last = undefined;
    turn.pass();
  }

  /**
   * One call's turn: behind those before it, on the session, until the connection is free again. Where nothing has to
   * be waited for, `work` begins, and says what it has to say, before this returns. Never rejects.
   */
  async run<T>(
    call: Call<T>,
    way: Way,
    connected: () => Session | Promise<Session>,
    work: (session: Session) => Promise<void>,
  ): Promise<void> {
    // At once: a value's own code may make a call while `work` begins, and that one comes behind.
    const before = this.#last;
    const turn = this.take();
    const isShared = way === "shared" && this.#pipelining > 1;
    try {
      const ahead = isShared ? before?.said() : before?.end();
      if (ahead) await ahead;
      if (call.finished) return;
      const first = connected();
      const session = first instanceof Promise ? await first : first;
      if (call.finished) return;
      const { asked, observation } = call;
      observation?.begin(session.connection.config);
      if (isShared) call.onSaid = (bytes) => this.#say(turn, bytes, session);
      if (session.leftovers && asked) for (const text of asked.texts ?? [asked.text]) session.leftovers.note(text);
      await work(session);
    } catch (error) {
      call.fail(error);
    } finally {
      const cleanup = call.operation?.cleanup;
      if (cleanup) await cleanup;
      if (isShared && before) await before.end();
      this.pass(turn);
      if (turn.hasSaid) this.#leave();
    }
  }

  /** The call has said all it has to say: the next one may go, unless there is too much on the wire. */
  #say(turn: Turn, bytes: number, { connection }: Session): void {
    turn.hasSaid = true;
    this.#onWire++;
    this.#said += bytes;
    if (this.#onWire >= this.#pipelining) this.#held = turn;
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
}
