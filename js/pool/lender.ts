// How a call, a transaction or a lease gets a connection of the pool, and gives it back.
//
//   lend ──> at once, or wait ──> the call's turn on its member ──> given back ──> the next one's
//     ^                                                │
//     └────── the session was of no use to it ─────────┘
//
// Knows when a call has a connection for itself, the hook `beforeAcquire`, and what an observer hears of it. Must not
// know who comes first (slots.ts), SQL that cleans (cleaning.ts), sockets or messages.
import type { QueuedCall } from "../api/turn-queue.ts";
import { Job, uselessFor } from "../api/queue.ts";
import type { Config } from "../config/options.ts";
import type { Call, Holder } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { watched } from "../sockets/channels.ts";
import { runtime } from "../sockets/runtime.ts";
import { onAbort } from "../util/abort.ts";
import { PgzError, UsageError } from "../util/errors.ts";
import { emit, inside, newEventId, type Observer } from "../util/observer.ts";
import { copyOf } from "../util/trace.ts";
import { Borrower } from "./borrower.ts";
import { changeOf } from "./session-changes.ts";
import type { Member } from "./member.ts";
import type { PoolConfig } from "./options.ts";
import type { Slots, Waiter, Wish } from "./slots.ts";
import type { MemberLifecycle } from "./member-lifecycle.ts";

/** Attempts of a call whose connection says goodbye before it began. */
const MOST_ATTEMPTS = 3;
/** New connections that `beforeAcquire` may refuse one after the other. */
const MOST_REFUSALS = 10;

export class Lender {
  readonly #config: Config;
  readonly #pool: PoolConfig;
  readonly #slots: Slots;
  readonly #lifecycle: MemberLifecycle;
  readonly #tell: (event: "acquire" | "release") => void;

  constructor(
    config: Config,
    pool: PoolConfig,
    slots: Slots,
    lifecycle: MemberLifecycle,
    tell: (event: "acquire" | "release") => void,
  ) {
    this.#config = config;
    this.#pool = pool;
    this.#slots = slots;
    this.#lifecycle = lifecycle;
    this.#tell = tell;
  }

  // -- calls ----------------------------------------------------------------------------------------------------------

  /** A member for the call: at once where one is free, so that no promise is made. Never throws. */
  lend<T>(job: Job<T>): void {
    const { call, body, free } = job;
    const way = job.way === "shared" && this.#changesSession(call) ? "alone" : job.way;
    this.#find(way === job.way ? job : new Job(call, way, body, free));
  }

  #find<T>(job: Job<T>): void {
    const { call } = job;
    if (call.finished) return job.free();
    call.attached = undefined; // that of the session that was of no use
    const borrowing = new Borrowing(this, job);
    const member = this.atOnce(borrowing.isAlone);
    if (member) return borrowing.begin(member);
    job.since ??= performance.now();
    if (this.#waitsByPromise(call)) {
      this.borrowFor(call, borrowing).then(
        (borrowed) => borrowing.begin(borrowed),
        (error: unknown) => borrowing.end(error),
      );
      return;
    }
    // Thousands may wait, and each collection copies all that they hold: no promise is made of a member.
    call.holder = borrowing;
    this.#slots.wait(borrowing);
  }

  /** Whether it waited, and does not any more. */
  leave<T>(borrowing: Borrowing<T>): boolean {
    return this.#slots.leave(borrowing);
  }

  /** The member is the call's, if that is not over meanwhile. */
  isWanted<T>({ call, way }: Job<T>, member: Member): boolean {
    this.#tell("acquire");
    if (call.finished) return false;
    member.call = call;
    if (way === "stream") member.stream = call;
    return true;
  }

  /** Behind a failure: whether the call goes to another session, since this one was of no use to it. */
  leaves<T>(job: Job<T>, error: unknown, session: Session): boolean {
    const cause = uselessFor(error, session);
    if (!cause) return false;
    // A server that lets nobody in is asked again until `acquireTimeout`, as by who waits.
    if (!job.goesElsewhere(cause, cause === "refused login" ? Infinity : MOST_ATTEMPTS - 1)) return false;
    // What ended it may have ended the others, and where idle ones are not read nobody has told.
    if (cause === "ended session") this.#slots.suspectAll();
    return true;
  }

  /** The call's turn on the member is over. */
  ended<T>(job: Job<T>, isUnheard: boolean): void {
    if (isUnheard) this.#find(job);
    else job.free();
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
  borrowFor(call: Pick<Call<unknown>, "holder">, wish: Wish): Promise<Member> {
    const borrower = new Borrower(this.#slots, wish);
    call.holder = { onFailure: (error) => borrower.giveUp(error) };
    return this.#borrow(borrower);
  }

  async borrowUnless(signal: AbortSignal | undefined): Promise<Member> {
    const borrower = new Borrower(this.#slots, aloneFromNow());
    const stop = onAbort(signal, () => borrower.giveUp(signal!.reason));
    try {
      return await this.#borrow(borrower);
    } finally {
      stop();
    }
  }

  /**
   * `beforeAcquire` decides about each connection, which takes a promise. Who observes the pool, or the call, wants the
   * caller's async context, and a promise takes that along.
   */
  #waitsByPromise<T>({ observation }: Call<T>): boolean {
    return Boolean(this.#pool.beforeAcquire ?? observation ?? watched("acquire", this.#config.observer));
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
      const refusal = await this.#lifecycle.refusal(member, "beforeAcquire");
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

/**
 * A call on its way to a member, and on it:
 *
 *   wait ──> take ──> begin: its turn on the member ──> free
 *     └── fail, or its call has failed ──────────────────┘
 */
class Borrowing<T> implements Waiter, Holder, QueuedCall<T> {
  readonly #lender: Lender;
  readonly job: Job<T>;
  /** That it has been lent. */
  #member: Member | undefined;
  #isBack = false;
  /** The session had ended before it began with it. */
  #isUnheard = false;

  constructor(lender: Lender, job: Job<T>) {
    this.#lender = lender;
    this.job = job;
  }

  // -- in front of a member -------------------------------------------------------------------------------------------

  get isAlone(): boolean {
    return this.job.way !== "shared";
  }

  get isStream(): boolean {
    return this.job.way === "stream";
  }

  get since(): number {
    return this.job.since!;
  }

  /** Later: whoever gives the member back may be in the middle of what its connection has read. */
  take(member: Member): void {
    queueMicrotask(() => this.begin(member));
  }

  /** Later, since a call's end may run a user's code. With an error of its own: all who waited are given this one. */
  fail(error: unknown): void {
    const own = error instanceof PgzError ? copyOf(error) : error;
    queueMicrotask(() => this.end(own));
  }

  end(error: unknown): void {
    this.job.call.fail(error);
    this.job.free();
  }

  // -- on a member ----------------------------------------------------------------------------------------------------

  begin(member: Member): void {
    this.#member = member;
    this.job.call.holder = this;
    if (this.#lender.isWanted(this.job, member)) member.turns.run(this);
    else this.free();
  }

  connected(): Session {
    return this.#member!.session;
  }

  failed(error: unknown, session: Session): "fail" | "leave" {
    this.#isUnheard = this.#lender.leaves(this.job, error, session);
    return this.#isUnheard ? "leave" : "fail";
  }

  free(): void {
    if (!this.#isBack) void this.#lender.giveBack(this.#member!);
    this.#lender.ended(this.job, this.#isUnheard);
  }

  // -- as its call settles --------------------------------------------------------------------------------------------

  /**
   * Gives the member back before the caller goes on, who may make the next call at once: it would find no connection,
   * and wait. A session that is to be cleaned waits until all of its answer is in.
   */
  onSuccess(): void {
    if (!this.isAlone) return;
    this.#isBack = this.#member!.isClean;
    if (this.#isBack) void this.#lender.giveBack(this.#member!);
  }

  onFailure(): void {
    if (this.#lender.leave(this)) this.job.free();
  }
}

/** The wish of a lease or a transaction. */
export function aloneFromNow(): Wish {
  return { isAlone: true, isStream: false, since: performance.now() };
}

function refusedAll(count: number, cause: unknown): UsageError {
  return new UsageError(
    "HOOK_REFUSED",
    `The hook beforeAcquire has refused ${count} connections one after the other: let it agree to a new one.`,
    { retryable: true, cause },
  );
}
