// How a call, a transaction or a lease gets a connection of the pool, and gives it back.
//
//   lend ──> at once, or wait (borrower.ts) ──> the call's turn on its member ──> given back ──> the next one's
//     ^                                                │
//     └────── the session was of no use to it ─────────┘
//
// Knows when a call has a connection for itself, the hook `beforeAcquire`, and what an observer hears of it. Must not
// know who comes first (slots.ts), SQL that cleans (cleaning.ts), sockets or messages.
import type { Visitor, Way } from "../api/line.ts";
import { Errand, uselessFor } from "../api/queue.ts";
import type { Config } from "../config/options.ts";
import type { Call } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { watched } from "../sockets/channels.ts";
import { runtime } from "../sockets/runtime.ts";
import { onAbort } from "../util/abort.ts";
import { UsageError, type PgzError } from "../util/errors.ts";
import { emit, inside, newEventId, type Observer } from "../util/observer.ts";
import { Borrower } from "./borrower.ts";
import { changeOf } from "./leftovers.ts";
import type { Member } from "./member.ts";
import type { PoolConfig } from "./options.ts";
import type { Slots } from "./slots.ts";
import type { Upkeep } from "./upkeep.ts";

/** Attempts of a call whose connection says goodbye before it began. */
const MOST_ATTEMPTS = 3;
/** New connections that `beforeAcquire` may refuse one after the other. */
const MOST_REFUSALS = 10;

export class Lender {
  readonly #config: Config;
  readonly #pool: PoolConfig;
  readonly #slots: Slots;
  readonly #upkeep: Upkeep;
  readonly #tell: (event: "acquire" | "release") => void;

  constructor(
    config: Config,
    pool: PoolConfig,
    slots: Slots,
    upkeep: Upkeep,
    tell: (event: "acquire" | "release") => void,
  ) {
    this.#config = config;
    this.#pool = pool;
    this.#slots = slots;
    this.#upkeep = upkeep;
    this.#tell = tell;
  }

  // -- calls ----------------------------------------------------------------------------------------------------------

  /** A member for the call: at once where one is free, so that no promise is made. Never throws. */
  lend<T>(errand: Errand<T>): void {
    const { call, body, free } = errand;
    const way = errand.way === "shared" && this.#changesSession(call) ? "alone" : errand.way;
    this.#find(way === errand.way ? errand : new Errand(call, way, body, free));
  }

  #find<T>(errand: Errand<T>): void {
    const { call, way } = errand;
    if (call.finished) return errand.free();
    const member = this.atOnce(way !== "shared");
    if (member) return this.#run(errand, member);
    this.borrowFor(call, way, (errand.since ??= performance.now())).then(
      (borrowed) => this.#run(errand, borrowed),
      (error: unknown) => {
        call.fail(error);
        errand.free();
      },
    );
  }

  #run<T>(errand: Errand<T>, member: Member): void {
    const { call, way } = errand;
    call.onFailure = undefined;
    this.#tell("acquire");
    if (call.finished) {
      void this.giveBack(member);
      return errand.free();
    }
    member.call = call;
    if (way === "stream") member.stream = call;
    const loan = new Loan(this, errand, member);
    // Before its caller goes on, who may make the next call at once: it would find no connection, and wait.
    if (way !== "shared") call.onSuccess = () => loan.endEarly();
    member.line.run(loan);
  }

  /** Behind a failure: whether the call goes to another session, since this one was of no use to it. */
  leaves<T>(errand: Errand<T>, error: unknown, session: Session): boolean {
    const cause = uselessFor(error, session);
    if (!cause) return false;
    // A server that lets nobody in is asked again until `acquireTimeout`, as by who waits.
    if (!errand.goesElsewhere(cause, cause === "refused login" ? Infinity : MOST_ATTEMPTS - 1)) return false;
    // What ended it may have ended the others, and where idle ones are not read nobody has told.
    if (cause === "ended session") this.#slots.suspectAll();
    return true;
  }

  /** The call's turn on the member is over. */
  ended<T>(errand: Errand<T>, isUnheard: boolean): void {
    if (isUnheard) this.#find(errand);
    else errand.free();
  }

  /** Calls that share its connection would find what it leaves, since a session is reset when the last one goes. */
  #changesSession({ asked }: Pick<Call<unknown>, "asked">): boolean {
    const { sharing, reset } = this.#pool;
    return sharing > 1 && reset === "auto" && asked !== undefined && changeOf(asked.text) !== "none";
  }

  // -- members --------------------------------------------------------------------------------------------------------

  /** One that is free. */
  atOnce(isAlone: boolean): Member | undefined {
    if (this.#pool.beforeAcquire) return undefined;
    const member = this.#slots.take(isAlone);
    if (!member) return undefined;
    const observer = watched("acquire", this.#config.observer);
    if (observer) void this.#observed(observer, performance.now(), () => member);
    return member;
  }

  /** Rejects when the call has failed meanwhile. */
  borrowFor(call: Pick<Call<unknown>, "onFailure">, way: Way, since: number): Promise<Member> {
    const borrower = new Borrower(this.#slots, way !== "shared", since, way === "stream");
    call.onFailure = (error) => borrower.giveUp(error);
    return this.#borrow(borrower);
  }

  async borrowUnless(signal: AbortSignal | undefined): Promise<Member> {
    const borrower = new Borrower(this.#slots, true, performance.now());
    const stop = onAbort(signal, () => borrower.giveUp(signal!.reason));
    try {
      return await this.#borrow(borrower);
    } finally {
      stop();
    }
  }

  #borrow(borrower: Borrower): Promise<Member> {
    const find = () => (this.#pool.beforeAcquire ? this.#findAgreed(borrower) : borrower.wait());
    const observer = watched("acquire", this.#config.observer);
    return observer ? this.#observed(observer, borrower.since, find) : find();
  }

  /**
   * One that `beforeAcquire` agrees to. It may refuse each connection that the pool has, and some new ones. A hook that
   * goes on refuses every connection, and the pool would connect without end.
   */
  async #findAgreed(borrower: Borrower): Promise<Member> {
    for (let refusals = 1; ; refusals++) {
      const member = this.#slots.take(borrower.isAlone) ?? (await borrower.wait());
      const refusal = await this.#upkeep.refusal(member, "beforeAcquire");
      if (!refusal) return member;
      member.isDoomed = true;
      void this.#slots.giveBack(member);
      if (refusals >= this.#slots.max + MOST_REFUSALS) throw refusedAll(refusals, refusal.cause);
    }
  }

  /** Tells the observer what becomes of it. */
  async #observed(observer: Observer, since: number, find: () => Member | Promise<Member>): Promise<Member> {
    const { host, port, database } = this.#config;
    const start = { id: newEventId(), host, port, database };
    const ended = (error?: PgzError) =>
      emit(observer, "onAcquire", { ...start, waitMs: performance.now() - since, error });
    try {
      const found = inside(emit(observer, "onAcquireStart", start), find);
      const member = found instanceof Promise ? await found : found;
      ended();
      return member;
    } catch (error) {
      ended(error as PgzError);
      throw error;
    }
  }

  giveBack(member: Member): Promise<void> | undefined {
    const { observer, host, port, database } = this.#config;
    if (observer) emit(observer, "onRelease", { host, port, database, useMs: performance.now() - member.since });
    const cleaning = this.#slots.giveBack(member);
    this.#tell("release");
    if (cleaning) runtime().background(cleaning);
    return cleaning;
  }
}

/** A call on the member that it has been lent. */
class Loan<T> implements Visitor<T> {
  readonly #lender: Lender;
  readonly errand: Errand<T>;
  readonly #member: Member;
  #isBack = false;
  /** The session had ended before it began with it. */
  #isUnheard = false;

  constructor(lender: Lender, errand: Errand<T>, member: Member) {
    this.#lender = lender;
    this.errand = errand;
    this.#member = member;
  }

  connected(): Session {
    return this.#member.session;
  }

  failed(error: unknown, session: Session): "fail" | "leave" {
    this.#isUnheard = this.#lender.leaves(this.errand, error, session);
    return this.#isUnheard ? "leave" : "fail";
  }

  /** The call has succeeded. A session that is to be cleaned waits until all of its answer is in. */
  endEarly(): void {
    this.#isBack = this.#member.isClean;
    if (this.#isBack) void this.#lender.giveBack(this.#member);
  }

  free(): void {
    if (!this.#isBack) void this.#lender.giveBack(this.#member);
    this.#lender.ended(this.errand, this.#isUnheard);
  }
}

function refusedAll(count: number, cause: unknown): UsageError {
  return new UsageError(
    "HOOK_REFUSED",
    `The hook beforeAcquire has refused ${count} connections one after the other: let it agree to a new one.`,
    { retryable: true, cause },
  );
}
