// The public pool: every call of a client, each on a connection of its own until it ends.
//
// Knows how a call, a transaction or a lease gets a connection and gives it back. Must not know who comes first
// (slots.ts), SQL that cleans (cleaning.ts), sockets or messages.
import { configured } from "../api/configured.ts";
import { Home } from "../api/home.ts";
import type { Ending, Way } from "../api/line.ts";
import { Listener, type ListenOptions } from "../api/listen.ts";
import { goesElsewhere, uselessFor, type Body } from "../api/queue.ts";
import { Transacting } from "../api/transacting.ts";
import { beginStatement, runTransaction, type Transaction, type TransactionOptions } from "../api/transaction.ts";
import { callOption } from "../config/config.ts";
import type { Config, Options } from "../config/options.ts";
import { checkObject, checkOptions, namesOf } from "../config/rules.ts";
import type { Call } from "../session/call.ts";
import type { Session } from "../session/session.ts";
import { watched } from "../sockets/channels.ts";
import { runtime } from "../sockets/runtime.ts";
import { onAbort } from "../util/abort.ts";
import { AbortError, TimeoutError, UsageError, type Facts, type PgzError } from "../util/errors.ts";
import { emit, inside, newEventId, type Observer } from "../util/observer.ts";
import { traced } from "../util/trace.ts";
import { within } from "../util/within.ts";
import { Borrower } from "./borrower.ts";
import type { Lease } from "./lease.ts";
import { changeOf } from "./leftovers.ts";
import { Loans } from "./loans.ts";
import type { Member } from "./member.ts";
import { resolvePool, splitOptions, type PoolConfig, type PoolInput, type PoolOptions } from "./options.ts";
import { Slots, type Counts, type Keeper } from "./slots.ts";
import { Upkeep } from "./upkeep.ts";

/** A pool's state, and its counters since it was made. */
export interface PoolStats extends Counts {
  /** `draining`: no call is taken, those that were made run. */
  readonly state: "open" | "draining" | "closed";
  /** Connections, at most. */
  readonly max: number;
  /** Connections: idle, in use, being made, being cleaned or closed. */
  readonly total: number;
  readonly idle: number;
  /** In use by calls, transactions and leases. */
  readonly acquired: number;
  readonly connecting: number;
  /** Calls, transactions and `acquire()`s that wait for a connection. */
  readonly waiting: number;
  /** As of a client: calls made, those that failed, their rows and bytes. */
  readonly queries: number;
  readonly errors: number;
  readonly rows: number;
  readonly bytes: number;
}

/** Options of `acquire`. */
export interface AcquireOptions {
  /** When it aborts, the waiting ends with an `AbortError`. */
  readonly signal?: AbortSignal | undefined;
  /** When it aborts, the lease is taken back as `release()` does: `request.signal` for a lease of a request. */
  readonly until?: AbortSignal | undefined;
}

const ACQUIRE_OPTIONS = namesOf<AcquireOptions>({ signal: true, until: true });

/** What `pool.on` tells of. */
export type PoolEvent = "connect" | "acquire" | "release" | "remove";

/** Attempts of a call whose connection says goodbye before it began. */
const MOST_ATTEMPTS = 3;
/** New connections that `beforeAcquire` may refuse one after the other. */
const MOST_REFUSALS = 10;
/** Milliseconds that calls get when the pool closes. */
const CLOSE_TIMEOUT = 5_000;

/** A call that a member is to be found for, until one has heard it. */
class Errand<T> {
  readonly call: Call<T>;
  readonly way: Way;
  readonly body: Body<T>;
  /** Its connection is free again, or it has never had one. */
  readonly free: () => void;
  /** When it began to wait for a member. */
  since: number | undefined;
  /** Sessions that had ended before they began with it. */
  repeats = 0;

  constructor(call: Call<T>, way: Way, body: Body<T>, free: () => void) {
    this.call = call;
    this.way = way;
    this.body = body;
    this.free = free;
  }
}

/**
 * A pool of connections: {@link createPool} makes it. It has every call of a client. Each takes a connection for itself
 * until it ends, a stream until its last byte, so calls that are made together run together.
 */
export class Pool extends Transacting {
  /** What a platform that suspends idle instances asks for (Vercel's `attachDatabasePool`). */
  readonly options: { readonly max: number; readonly min: number; readonly idleTimeoutMillis: number };
  readonly #pool: PoolConfig;
  readonly #slots: Slots;
  readonly #home = new Home("pool");
  readonly #upkeep: Upkeep;
  readonly #loans: Loans;
  readonly #listeners = new Map<PoolEvent, Set<() => void>>();
  /** Why no call may be made any more. Each call gets an error of its own. */
  #ended: string | undefined;
  #closing: Promise<void> | undefined;

  /** @internal Use {@link createPool}. */
  constructor(config: Config, pool: PoolConfig, configWith: (given: Options) => Config) {
    super(config, { queries: 0, errors: 0, rows: 0, bytes: 0, running: 0 });
    const { counters } = this;
    const { max, min, idleTimeout, leakThreshold } = pool;
    this.#pool = pool;
    this.options = Object.freeze({ max, min, idleTimeoutMillis: idleTimeout });
    const upkeep = new Upkeep({
      config,
      counters,
      pool,
      configWith,
      tell: (event) => this.#tell(event),
      demoted: ({ generation }) => this.#slots.renew(generation),
    });
    const mayTick = runtime().name !== "workerd" || pool.healthCheckInterval > 0;
    const loans = new Loans(config, counters, leakThreshold, mayTick);
    const keeper: Keeper = {
      open: (generation) => upkeep.open(generation),
      close: (member) => upkeep.close(member),
      clean: (member) => upkeep.clean(member),
      check: (member) => upkeep.check(member),
      look: (now) => loans.look(now),
      late: (cause) => this.#late(cause),
      judge: (cause) => upkeep.judge(cause),
      untold: (cause) => upkeep.untold(cause),
    };
    this.#upkeep = upkeep;
    this.#loans = loans;
    this.#slots = new Slots(pool, keeper, mayTick);
    this.#slots.fill();
  }

  // -- leases ---------------------------------------------------------------------------------------------------------

  /**
   * A connection for several calls, when one is free. Rejects with `ACQUIRE_TIMEOUT`, with why connecting failed, or
   * with an `AbortError`.
   *
   * A lease that is not released is told of after `leakThreshold`, and taken back when nothing refers to it any more.
   *
   * @example
   * await using lease = await pool.acquire({ until: request.signal });
   */
  async acquire(options: AcquireOptions = {}): Promise<Lease> {
    checkOptions(options, ACQUIRE_OPTIONS);
    const refused = this.refused();
    if (refused) throw refused;
    const { config } = this;
    const signal = options.signal && callOption(config, options, "signal");
    const until = options.until && callOption(config, { signal: options.until }, "signal");
    if (signal?.aborted) throw new AbortError(signal.reason, { retryable: true });
    const trace = this.#pool.leakThreshold ? new Error("acquired here") : undefined;
    const member = this.#atOnce(true) ?? (await traced(this.#borrowUnless(signal)));
    this.#tell("acquire");
    return this.#loans.lend(member, trace, until, (back) => this.#giveBack(back));
  }

  // -- transactions, notifications ------------------------------------------------------------------------------------

  /** @internal */
  protected override async begin<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions,
    sessionOf: (session: Session) => Session,
  ): Promise<T> {
    const { config, counters } = this;
    const begin = beginStatement(config, options);
    const refused = this.refused();
    if (refused) throw refused;
    let member: Member | undefined;
    const { result, released } = runTransaction(work, options, {
      config,
      counters,
      begin,
      turn: undefined,
      front: undefined,
      connect: async (call) => {
        member = this.#atOnce(true) ?? (await this.#borrowFor(call, "alone", performance.now()));
        this.#tell("acquire");
        if (call.finished) return undefined;
        member.call = call;
        return sessionOf(member.session);
      },
      begins: () => {},
      settled: () => {},
    });
    void released.then(() => member && this.#giveBack(member));
    return await traced(result);
  }

  /**
   * Listens on a connection of its own, which is none of the pool's: as {@link Client.listen} (docs/listen.md).
   *
   * @example
   * for await (const { payload } of await pool.listen("jobs")) console.log(payload);
   */
  async listen(channel: string, options: ListenOptions = {}): Promise<Listener> {
    const refused = this.refused();
    if (refused) throw refused;
    const listener = new Listener(this.config, channel, options);
    await traced(listener.ready);
    return listener;
  }

  // -- the pool itself ------------------------------------------------------------------------------------------------

  /**
   * The pool's state and counters.
   *
   * @example
   * const { idle, acquired, waiting } = pool.stats();
   */
  stats(): PoolStats {
    const { max, total, idle, lent: acquired, connecting, waiting, counts } = this.#slots;
    const { running: _, ...calls } = this.counters;
    const state = this.#closing ? "closed" : this.#ended ? "draining" : "open";
    return { state, max, total, idle, acquired, connecting, waiting, ...counts, ...calls };
  }

  /**
   * Allows more connections, or fewer: idle ones end at once, others when they come back.
   *
   * @example
   * pool.resize(50);
   */
  resize(max: number): void {
    if (!Number.isInteger(max) || max < 1)
      throw new UsageError("INVALID_OPTION", "The size of a pool must be a whole number from 1.");
    this.#slots.resize(max);
  }

  /**
   * Gives none of today's connections any more, as behind a failover: idle ones end now, those in use when they come
   * back.
   *
   * @example
   * process.on("SIGHUP", () => pool.reset());
   */
  reset(): void {
    this.#slots.renew();
  }

  /**
   * Resolves when nothing runs or waits. Rejects with an `AbortError` when the signal aborts first.
   *
   * @example
   * await pool.waitIdle(AbortSignal.timeout(5_000));
   */
  async waitIdle(signal?: AbortSignal): Promise<void> {
    const slots = this.#slots;
    try {
      await slots.until(() => !slots.waiting && !slots.lent, signal);
    } catch (reason) {
      throw new AbortError(reason);
    }
  }

  /**
   * Takes no more calls, lets those finish that run or wait, and closes. Rejects with an `AbortError` when the signal
   * aborts first: then `close()` ends what still runs.
   *
   * @example
   * process.on("SIGTERM", () => pool.drain(AbortSignal.timeout(10_000)).catch(() => pool.close()));
   */
  async drain(signal?: AbortSignal): Promise<void> {
    this.#ended ??= "The pool is draining: make another.";
    await this.waitIdle(signal);
    await this.close();
  }

  /**
   * Ends the pool. Who waits rejects with `POOL_CLOSED`; what runs may finish within `timeout` milliseconds, by default
   * 5,000, then it is cancelled. A stream that was handed out goes on after that, until its end or until it stands
   * still for `closeTimeout`, as after {@link Client.close}. It never rejects, takes a second longer at most, and may be
   * called again.
   *
   * @example
   * await pool.close({ timeout: 1_000 });
   */
  override close({ timeout = CLOSE_TIMEOUT }: { readonly timeout?: number | undefined } = {}): Promise<void> {
    return (this.#closing ??= this.#close(timeout));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #close(timeout: number): Promise<void> {
    this.#ended = "The pool is closed: make another.";
    const ended = closed(this.#ended);
    this.#slots.close(ended);
    if (!this.#slots.waiting) this.#upkeep.abortConnects(ended);
    this.#loans.look(performance.now());
    // Its reader may be waiting for this: a handler's response is read behind its `await using` and `finally`.
    if (this.handed) runtime().background(this.streamed(closedUnderneath));
    const slots = this.#slots;
    await within(
      timeout,
      slots.until(() => slots.isLeftToStreams),
    );
    if (slots.isLeftToStreams) return;
    this.stop(closedUnderneath, true);
    await slots.endRest();
  }

  /**
   * Calls `listener` at each such event.
   *
   * @example
   * pool.on("connect", () => connections.add(1));
   */
  on(event: PoolEvent, listener: () => void): this {
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(listener));
    return this;
  }

  /**
   * Ends what `on` began.
   *
   * @example
   * pool.off("connect", count);
   */
  off(event: PoolEvent, listener: () => void): this {
    this.#listeners.get(event)?.delete(listener);
    return this;
  }

  #tell(event: PoolEvent): void {
    const listeners = this.#listeners.get(event);
    if (!listeners) return;
    for (const listener of listeners) {
      try {
        listener();
      } catch {
        // Whoever watches must not break what is watched.
      }
    }
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  protected override get shown() {
    const { state, max, total, idle, acquired, connecting, waiting, queries, errors } = this.stats();
    const counts = { max, total, idle, acquired, connecting, waiting, queries, errors };
    return { name: "Pool", state, ...this.place, ...counts };
  }

  protected override get signal(): AbortSignal | undefined {
    return this.config.signal;
  }

  protected override refused(): UsageError | undefined {
    return this.#ended === undefined ? this.#home.refused() : closed(this.#ended);
  }

  /** Streams of a pool stand in nobody's way. */
  protected override unfinished(): undefined {}

  protected override connected(): never {
    throw new Error("a pool has no connection of its own");
  }

  protected override perform<T>(call: Call<T>, wanted: Way, body: Body<T>, free: () => void): void {
    const way = wanted === "shared" && this.#changesSession(call) ? "alone" : wanted;
    this.#lend(new Errand(call, way, body, free));
  }

  /** A member for the call: at once where one is free, so that no promise is made. */
  #lend<T>(errand: Errand<T>): void {
    const { call, way } = errand;
    if (call.finished) return errand.free();
    const member = this.#atOnce(way !== "shared");
    if (member) return this.#run(errand, member);
    this.#borrowFor(call, way, (errand.since ??= performance.now())).then(
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
      void this.#giveBack(member);
      return errand.free();
    }
    member.call = call;
    if (way === "stream") member.stream = call;
    let isUnheard = false;
    let isBack = false;
    // Before its caller goes on, who may make the next call at once: it would find no connection, and wait.
    if (way !== "shared") call.onSuccess = () => (isBack = member.isClean) && void this.#giveBack(member);
    const work = (session: Session, ending: Ending) => {
      const failed = (error: unknown) => {
        if (!this.#goesElsewhere(errand, error, session)) return ending.failed(error);
        isUnheard = true;
        ending.over();
      };
      try {
        errand.body(call, session, { over: () => ending.over(), failed });
      } catch (error) {
        failed(error);
      }
    };
    const free = () => {
      if (!isBack) void this.#giveBack(member);
      if (isUnheard) this.#lend(errand);
      else errand.free();
    };
    member.line.run({ call, way, connected: () => member.session, work, free });
  }

  #goesElsewhere<T>(errand: Errand<T>, error: unknown, session: Session): boolean {
    const cause = uselessFor(error, session);
    // A server that lets nobody in is asked again until `acquireTimeout`, as by who waits.
    const most = cause === "refused login" ? Infinity : MOST_ATTEMPTS - 1;
    if (!goesElsewhere(errand.call, cause, errand.repeats, most)) return false;
    if (cause === "ended session") {
      errand.repeats++;
      // What ended it may have ended the others, and where idle ones are not read nobody has told.
      this.#slots.suspectAll();
    }
    return true;
  }

  /** Calls that share its connection would find what it leaves, since a session is reset when the last one goes. */
  #changesSession({ asked }: Pick<Call<unknown>, "asked">): boolean {
    const { sharing, reset } = this.#pool;
    return sharing > 1 && reset === "auto" && asked !== undefined && changeOf(asked.text) !== "none";
  }

  // -- connections ----------------------------------------------------------------------------------------------------

  #atOnce(isAlone: boolean): Member | undefined {
    if (this.#pool.beforeAcquire) return undefined;
    const member = this.#slots.take(isAlone);
    if (!member) return undefined;
    const observer = watched("acquire", this.config.observer);
    if (observer) void this.#observed(observer, performance.now(), () => member);
    return member;
  }

  /** Rejects when the call has failed meanwhile. */
  #borrowFor(call: Pick<Call<unknown>, "onFailure">, way: Way, since: number): Promise<Member> {
    const borrower = new Borrower(this.#slots, way !== "shared", since, way === "stream");
    call.onFailure = (error) => borrower.giveUp(error);
    return this.#borrow(borrower);
  }

  async #borrowUnless(signal: AbortSignal | undefined): Promise<Member> {
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
    const observer = watched("acquire", this.config.observer);
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
    const { host, port, database } = this.config;
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

  #giveBack(member: Member): Promise<void> | undefined {
    const { observer, host, port, database } = this.config;
    if (observer) emit(observer, "onRelease", { host, port, database, useMs: performance.now() - member.since });
    const cleaning = this.#slots.giveBack(member);
    this.#tell("release");
    if (cleaning) runtime().background(cleaning);
    return cleaning;
  }

  #late(cause: unknown): TimeoutError {
    const { acquireTimeout } = this.#pool;
    const { max, total, idle, acquired, connecting, waiting } = this.stats();
    return new TimeoutError(
      "ACQUIRE_TIMEOUT",
      `No connection was free within ${acquireTimeout} ms (acquireTimeout): ${acquired} of ${max} in use, ` +
        `${idle} idle, ${connecting} connecting, ${total} in all, ${waiting} waiting.`,
      { retryable: true, cause },
    );
  }
}

function closed(message: string, facts = {}): UsageError {
  return new UsageError("POOL_CLOSED", message, { retryable: true, ...facts });
}

function closedUnderneath(facts: Facts): UsageError {
  return closed("The pool was closed under this call.", facts);
}

/**
 * Makes a pool, which connects when it has to. `options` are those of a client and the pool's own (docs/pool.md).
 *
 * @throws UsageError as {@link createClient}
 * @example
 * await using pool = createPool("postgres://user:password@localhost/app", { max: 20 });
 * const [users, orders] = await Promise.all([pool.query("select * from users"), pool.query("select * from orders")]);
 */
export function createPool(target: PoolInput, options: PoolOptions = {}): Pool {
  checkObject(options);
  const isWorkerd = runtime().name === "workerd";
  const { given, input, overrides } = splitOptions(target, options);
  const configWith = (more: Options = {}) => configured(input, { ...overrides, ...more }, true);
  const config = configWith();
  const { pipelining } = { ...(Object(input) as Options), ...overrides };
  return new Pool(config, resolvePool({ ...config.pool, ...given }, pipelining, isWorkerd), configWith);
}

function refusedAll(count: number, cause: unknown): UsageError {
  return new UsageError(
    "HOOK_REFUSED",
    `The hook beforeAcquire has refused ${count} connections one after the other: let it agree to a new one.`,
    { retryable: true, cause },
  );
}
