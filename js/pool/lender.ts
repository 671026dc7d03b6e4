// How a call, a transaction or a lease gets a connection of the pool, and gives it back.
//
//   lend ──> at once, or wait ──> the call's turn on its member ──> given back ──> the next borrower's
//     ^                                                │
//     └─── the session ended, or refused the login ────┘
//          before it started the call
//
// Knows when a call has a connection for itself, when `beforeAcquire` runs, and the observer's events of acquires and
// releases. Must not know who is served first (slots.ts), SQL that cleans (cleaning.ts), sockets or messages.
import { QueuedCall, sessionFailure } from "../api/turn-queue.ts";
import type { Config } from "../config/options.ts";
import type { Operation } from "../connection/operation.ts";
import type { Call, Holder, Wait } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { watched } from "../runtime/channels.ts";
import { runtime } from "../runtime/runtime.ts";
import { onAbort } from "../util/abort.ts";
import { PgzError, UsageError } from "../util/errors.ts";
import { emit, hasMethod, inside, newEventId, type Observer } from "../util/observer.ts";
import { mayBegin } from "../util/statement-words.ts";
import { copyOf } from "../util/trace.ts";
import { inMicrotask } from "../util/microtask.ts";
import { Borrower } from "./borrower.ts";
import { changeOf } from "./session-changes.ts";
import type { Member } from "./member.ts";
import type { PoolConfig } from "./options.ts";
import type { Slots, Waiter, BorrowRequest } from "./slots.ts";
import type { MemberLifecycle } from "./member-lifecycle.ts";

/** Maximum number of attempts of a call whose sessions end before they start it. */
const MOST_ATTEMPTS = 3;
/** Maximum number of new connections that `beforeAcquire` may refuse in a row. */
const MOST_REFUSALS = 10;

export class Lender {
  readonly #config: Config;
  readonly #pool: PoolConfig;
  readonly #slots: Slots;
  readonly #lifecycle: MemberLifecycle;
  readonly #emit: (event: "acquire" | "release") => void;
  #hasWarned = false;
  readonly #occupancy: () => string;

  constructor(
    config: Config,
    pool: PoolConfig,
    slots: Slots,
    lifecycle: MemberLifecycle,
    emit: (event: "acquire" | "release") => void,
    /** What all connections are doing, as the end of a sentence. */
    occupancy: () => string,
  ) {
    this.#config = config;
    this.#pool = pool;
    this.#slots = slots;
    this.#lifecycle = lifecycle;
    this.#emit = emit;
    this.#occupancy = occupancy;
  }

  // -- calls ----------------------------------------------------------------------------------------------------------

  /** Finds a member for the call: at once if one is free, so that no promise is made. Never throws. */
  lend<T>(borrowing: Borrowing<T>): void {
    const { call } = borrowing;
    if (call.finished) return borrowing.whenFree();
    call.consumer = undefined; // the previous session may have set it
    const member = this.#takeFree(borrowing.isAlone);
    if (member) return borrowing.beginOn(member);
    borrowing.since ||= performance.now();
    if (this.#waitsByPromise(call)) {
      this.borrowFor(call, borrowing).then(
        (borrowed) => borrowing.beginOn(borrowed),
        (error: unknown) => borrowing.end(error),
      );
      return;
    }
    // No promise here: thousands of calls may wait, and each garbage collection copies everything that they hold.
    call.holder = borrowing;
    this.#slots.wait(borrowing);
  }

  /** Stops the call's wait for a member. Returns whether it was waiting. */
  leave<T>(borrowing: Borrowing<T>): boolean {
    return this.#slots.leave(borrowing);
  }

  /** Gives the member to the call. Returns false if the call has settled meanwhile. */
  assign<T>({ call, use }: Borrowing<T>, member: Member): boolean {
    this.#emit("acquire");
    if (call.finished) return false;
    member.call = call;
    if (use === "stream") member.stream = call;
    return true;
  }

  /**
   * Called after a failure. Returns whether the call moves to another session, because this one could not start it.
   */
  leaves<T>(borrowing: Borrowing<T>, session: Session, error: unknown): boolean {
    const cause = sessionFailure(error, session);
    if (!cause) return false;
    // A server that refuses logins is retried until `acquireTimeout`, which bounds a waiter too.
    const most = cause === "refused login" ? Infinity : MOST_ATTEMPTS - 1;
    if (!borrowing.goesElsewhere(cause, session.transaction.place, most)) return false;
    // What ended this session may have ended others. Where idle connections are not read, the driver has not noticed.
    if (cause === "ended session") this.#slots.suspectAll();
    return true;
  }

  /**
   * Whether the call may change its session. Calls that share the connection would find the change, since a session is
   * reset only after its last borrower.
   */
  changesSession({ subject }: Pick<Call<unknown>, "subject">): boolean {
    const { sharing, reset } = this.#pool;
    if (sharing === 1 || subject === undefined) return false;
    const { text } = subject;
    // Calls beside a BEGIN would be rolled back with it.
    return mayBegin(text) || (reset === "auto" && changeOf(text) !== "none");
  }

  /**
   * Says once that SET in a single call lasts no longer than the call. In a script or a batch the rest may be meant to
   * see it.
   */
  warnOfSet(
    { command, statements }: Operation,
    { subject, observation }: Pick<Call<unknown>, "subject" | "observation">,
  ): void {
    if (this.#hasWarned || this.#pool.reset === "never") return;
    if (command !== "SET" || statements > 1 || changeOf(subject?.text ?? "") === "none") return;
    const { observer = this.#config.observer } = observation ?? {};
    const isHeard = hasMethod(observer, "onNotice");
    if (!isHeard && !this.#config.debug) return;
    this.#hasWarned = true;
    if (isHeard) emit(observer, "onNotice", { severity: "WARNING", message: UNDONE });
    // eslint-disable-next-line no-console -- without an observer there is no other place for it
    else console.warn(`pgz-edge: ${UNDONE}`);
  }

  // -- members --------------------------------------------------------------------------------------------------------

  /** Returns a free member for a lease or a transaction, if there is one. */
  aloneAtOnce(): Member | undefined {
    return this.#takeFree(true);
  }

  #takeFree(isAlone: boolean): Member | undefined {
    if (this.#pool.beforeAcquire) return undefined;
    const member = this.#slots.take(isAlone);
    if (!member) return undefined;
    const observer = watched("acquire", this.#config.observer);
    if (observer) void this.#observed(observer, performance.now(), () => member);
    return member;
  }

  /** What a call without a member waits for. */
  waitsFor(): Wait {
    return { text: `waiting for a connection of the pool: ${this.#occupancy()}`, cause: this.#slots.failure };
  }

  /** Resolves with a member for the call. Rejects if the call fails meanwhile. */
  borrowFor(call: Pick<Call<unknown>, "holder">, request: BorrowRequest): Promise<Member> {
    const borrower = new Borrower(this.#slots, request);
    call.holder = {
      onFailure: (error) => borrower.giveUp(error),
      waitsFor: () => (borrower.isServed ? undefined : this.waitsFor()),
    };
    return this.#borrow(borrower);
  }

  /** Resolves with a member for a lease. Rejects if the signal aborts meanwhile. */
  async borrowForLease(signal: AbortSignal | undefined): Promise<Member> {
    const borrower = new Borrower(this.#slots, exclusiveRequest());
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
      borrower.isServed = true;
      const refusal = await this.#lifecycle.refusal(member, "beforeAcquire");
      if (!refusal) return member;
      borrower.isServed = false;
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
    this.#emit("release");
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
export class Borrowing<T> extends QueuedCall<T> implements Waiter, Holder {
  readonly #lender: Lender;
  /** Whether no other call may share the member. */
  readonly isAlone: boolean;
  /** When it began to wait for a member; 0: it has not. */
  since = 0;
  /** The member that was lent. */
  #member: Member | undefined;
  queueIndex = -1;
  #isGivenBack = false;
  /** The session ended or refused the login before it started the call. */
  #goesElsewhere = false;

  constructor(lender: Lender, ...[call, use, ...more]: ConstructorParameters<typeof QueuedCall<T>>) {
    super(call, use === "shared" && lender.changesSession(call) ? "alone" : use, ...more);
    this.#lender = lender;
    this.isAlone = this.use !== "shared";
  }

  // -- before a member ------------------------------------------------------------------------------------------------

  get isStream(): boolean {
    return this.use === "stream";
  }

  /** In a microtask: the code that gives the member back may be in the middle of reading from its connection. */
  take(member: Member): void {
    inMicrotask(() => this.beginOn(member));
  }

  /**
   * In a microtask, since the end of a call may run a user's code. With a copy: all waiters are given the same error.
   */
  fail(error: unknown): void {
    const own = error instanceof PgzError ? copyOf(error) : error;
    inMicrotask(() => this.end(own));
  }

  end(error: unknown): void {
    this.call.fail(error);
    this.whenFree();
  }

  // -- on a member ----------------------------------------------------------------------------------------------------

  beginOn(member: Member): void {
    this.#member = member;
    this.call.holder = this;
    if (this.#lender.assign(this, member)) member.turns.run(this);
    else this.free();
  }

  protected override connected(): Session {
    return this.#member!.session;
  }

  protected override failedOn(session: Session, error: unknown): "fail" | "leave" {
    this.#goesElsewhere = this.#lender.leaves(this, session, error);
    return this.#goesElsewhere ? "leave" : "fail";
  }

  protected override free(): void {
    if (!this.#isGivenBack) void this.#lender.giveBack(this.#member!);
    if (this.#goesElsewhere) this.#lender.lend(this.#again());
    else this.whenFree();
  }

  /** The same call, on its way to another member. */
  #again(): Borrowing<T> {
    const again = new Borrowing(this.#lender, this.call, this.use, this.body, this.whenFree, this.repeats);
    again.since = this.since;
    return again;
  }

  // -- when its call settles ------------------------------------------------------------------------------------------

  /** A transaction ends with the single call that began it, because its connection goes back to the pool. */
  refusal(operation: Operation | undefined): UsageError | undefined {
    if (!operation) return undefined;
    const { transactionStatus } = this.#member!.connection;
    const status = this.isAlone ? transactionStatus : operation.status;
    if (status === "T" || status === "E") return leftOpen();
    // Behind other statements of the call it has ended the implicit transaction of these, and they have taken effect.
    const { wasOutside, command, statements } = operation;
    const foundNone = wasOutside && statements === 1 && /^(COMMIT|ROLLBACK)$/.test(command);
    return foundNone ? endedNone(command) : undefined;
  }

  /**
   * Gives the member back before the caller continues. The caller may make its next call at once, which would find no
   * connection free, and wait. A session that must be cleaned waits until its whole response has arrived.
   */
  onSuccess(operation: Operation | undefined): void {
    if (!this.isAlone) return;
    this.#isGivenBack = this.#member!.isClean;
    if (this.#isGivenBack) void this.#lender.giveBack(this.#member!);
    else if (operation) this.#lender.warnOfSet(operation, this.call);
  }

  onFailure(): void {
    if (this.#lender.leave(this)) this.whenFree();
  }

  waitsFor(): Wait | undefined {
    return this.#member ? undefined : this.#lender.waitsFor();
  }
}

/** The request of a lease or a transaction: a connection that no call shares, from now on. */
export function exclusiveRequest(): BorrowRequest {
  return { isAlone: true, isStream: false, since: performance.now() };
}

const UNDONE =
  "A SET in a single call of a pool is undone when the call is over: use option startup, a scope, a transaction or a lease.";

const CALLS =
  "Each call of a pool may have another connection: use transaction(), or the calls of a lease from acquire().";

function leftOpen(): UsageError {
  return new UsageError("TRANSACTION_OPEN", `The call left a transaction open, which was rolled back. ${CALLS}`);
}

function endedNone(command: string): UsageError {
  return new UsageError("TRANSACTION_FINISHED", `There was no transaction for this ${command}. ${CALLS}`);
}

function refusedAll(count: number, cause: unknown): UsageError {
  return new UsageError(
    "HOOK_REFUSED",
    `The hook beforeAcquire has refused ${count} connections in a row. It must accept a newly opened connection.`,
    { hasNoEffect: true, cause },
  );
}
