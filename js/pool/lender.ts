// How a call, a transaction or a lease gets a connection of the pool, and gives it back.
//
//   lend ──> at once, or wait ──> the call's turn on its member ──> given back ──> the next borrower's
//     ^                                                │
//     └────── the session was of no use to the call ───┘
//
// Knows when a call has a connection for itself, the hook `beforeAcquire`, and what an observer hears of it. Must not
// know who is served first (slots.ts), SQL that cleans (cleaning.ts), sockets or messages.
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

/** Maximum attempts of a call whose connections end before the call has begun. */
const MOST_ATTEMPTS = 3;
/** Maximum number of new connections that `beforeAcquire` may refuse in a row. */
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

  /** Finds a member for the call: at once if one is free, so that no promise is made. Never throws. */
  lend<T>(job: Job<T>): void {
    const { call, body, free } = job;
    const way = job.way === "shared" && this.#changesSession(call) ? "alone" : job.way;
    this.#find(way === job.way ? job : new Job(call, way, body, free));
  }

  #find<T>(job: Job<T>): void {
    const { call } = job;
    if (call.finished) return job.free();
    call.attached = undefined; // from the session that was of no use
    const borrowing = new Borrowing(this, job);
    const member = this.#atOnce(borrowing.isAlone);
    if (member) return borrowing.begin(member);
    job.since ??= performance.now();
    if (this.#waitsByPromise(call)) {
      this.borrowFor(call, borrowing).then(
        (borrowed) => borrowing.begin(borrowed),
        (error: unknown) => borrowing.end(error),
      );
      return;
    }
    // Thousands may wait, and each garbage collection copies all that they hold: no promise of a member is made.
    call.holder = borrowing;
    this.#slots.wait(borrowing);
  }

  /** Returns whether the call was waiting. It waits no longer. */
  leave<T>(borrowing: Borrowing<T>): boolean {
    return this.#slots.leave(borrowing);
  }

  /** Gives the member to the call. Returns false if the call has settled meanwhile. */
  isWanted<T>({ call, way }: Job<T>, member: Member): boolean {
    this.#tell("acquire");
    if (call.finished) return false;
    member.call = call;
    if (way === "stream") member.stream = call;
    return true;
  }

  /** Called after a failure. Returns whether the call moves to another session, since this one was of no use to it. */
  leaves<T>(job: Job<T>, error: unknown, session: Session): boolean {
    const cause = uselessFor(error, session);
    if (!cause) return false;
    // A server that refuses logins is retried until `acquireTimeout`, which bounds a waiter too.
    if (!job.goesElsewhere(cause, cause === "refused login" ? Infinity : MOST_ATTEMPTS - 1)) return false;
    // What ended this session may have ended others. Where idle connections are not read, the driver has not noticed.
    if (cause === "ended session") this.#slots.suspectAll();
    return true;
  }

  /** Called when the call's turn on the member is over. */
  ended<T>(job: Job<T>, isUnheard: boolean): void {
    if (isUnheard) this.#find(job);
    else job.free();
  }

  /**
   * Whether the call may change its session. Calls that share the connection would find the change, since a session is
   * reset only after its last borrower.
   */
  #changesSession({ subject }: Pick<Call<unknown>, "subject">): boolean {
    const { sharing, reset } = this.#pool;
    return sharing > 1 && reset === "auto" && subject !== undefined && changeOf(subject.text) !== "none";
  }

  // -- members --------------------------------------------------------------------------------------------------------

  /** Returns a free member for a lease or a transaction, if there is one. */
  aloneAtOnce(): Member | undefined {
    return this.#atOnce(true);
  }

  #atOnce(isAlone: boolean): Member | undefined {
    if (this.#pool.beforeAcquire) return undefined;
    const member = this.#slots.take(isAlone);
    if (!member) return undefined;
    const observer = watched("acquire", this.#config.observer);
    if (observer) void this.#observed(observer, performance.now(), () => member);
    return member;
  }

  /** Rejects if the call has failed meanwhile. */
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
   * Whether the call waits by a promise. `beforeAcquire` decides about each connection asynchronously. An observer of
   * the pool or of the call needs the caller's async context, and a promise keeps that.
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
   * Returns a member that `beforeAcquire` agrees to. The hook may refuse each connection that the pool has, and some
   * new ones. A hook that refuses more refuses every connection, and the pool would connect without end.
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

  /** Tells the observer how the acquire ended. */
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
 * A call on its way to a member, and on the member:
 *
 *   wait ──> take ──> begin: its turn on the member ──> free
 *     └── fail, or its call has failed ──────────────────┘
 */
class Borrowing<T> implements Waiter, Holder, QueuedCall<T> {
  readonly #lender: Lender;
  readonly job: Job<T>;
  /** The member that was lent. */
  #member: Member | undefined;
  #isBack = false;
  /** The session had ended before the call began on it. */
  #goesElsewhere = false;

  constructor(lender: Lender, job: Job<T>) {
    this.#lender = lender;
    this.job = job;
  }

  // -- before a member ------------------------------------------------------------------------------------------------

  get isAlone(): boolean {
    return this.job.way !== "shared";
  }

  get isStream(): boolean {
    return this.job.way === "stream";
  }

  get since(): number {
    return this.job.since!;
  }

  /** In a microtask: the caller that gives the member back may be in the middle of reading from its connection. */
  take(member: Member): void {
    queueMicrotask(() => this.begin(member));
  }

  /**
   * In a microtask, since the end of a call may run a user's code. With a copy: all waiters are given the same error.
   */
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
    this.#goesElsewhere = this.#lender.leaves(this.job, error, session);
    return this.#goesElsewhere ? "leave" : "fail";
  }

  free(): void {
    if (!this.#isBack) void this.#lender.giveBack(this.#member!);
    this.#lender.ended(this.job, this.#goesElsewhere);
  }

  // -- as its call settles --------------------------------------------------------------------------------------------

  /**
   * Gives the member back before the caller continues. The caller may make its next call at once, which would find no
   * connection free, and wait. A session that must be cleaned waits until its whole response has arrived.
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

/** What a lease or a transaction asks for. */
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
