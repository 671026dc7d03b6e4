// The public pool: it has every call of a client, each on a connection of its own until the call ends.
//
// Knows when calls are accepted, and how a pool begins and ends. Must not know how a call gets a connection
// (lender.ts), who is served first (slots.ts), SQL that cleans (cleaning.ts), sockets or messages.
import { checkConfigured, configuredForPool } from "../api/configured.ts";
import { OwnerCheck } from "../api/owner-check.ts";
import { Listener, type ListenOptions } from "../api/listen.ts";
import type { QueuedCall } from "../api/turn-queue.ts";
import { TransactionCalls } from "../api/transaction-calls.ts";
import type { Transaction } from "../api/transaction.ts";
import { beginStatement, type TransactionOptions } from "../api/transaction-options.ts";
import { TransactionRun } from "../api/transaction-run.ts";
import { callOption } from "../config/config.ts";
import type { Config, Options } from "../config/options.ts";
import { checkObject, checkOptions, isFunction, namesOf } from "../config/rules.ts";
import type { Session } from "../session/session.ts";
import { runtime } from "../runtime/runtime.ts";
import { AbortError, PgzError, TimeoutError, UsageError, type Facts } from "../util/errors.ts";
import { traced } from "../util/trace.ts";
import { withDeadline } from "../util/deadline.ts";
import { reportThrow } from "./hooks.ts";
import type { Lease } from "./lease.ts";
import { Borrowing, exclusiveRequest, Lender } from "./lender.ts";
import { Loans } from "./loans.ts";
import type { Member } from "./member.ts";
import { resolvePool, splitOptions, type PoolConfig, type PoolInput, type PoolOptions } from "./options.ts";
import { Slots, type Counts, type MemberActions } from "./slots.ts";
import { MemberLifecycle } from "./member-lifecycle.ts";

/** A pool's state, and its counters since it was made. */
export interface PoolStats extends Counts {
  /** `draining`: no new call is accepted, and calls that were made run to their end. */
  readonly state: "open" | "draining" | "closed";
  /** Maximum number of connections. */
  readonly max: number;
  /** Connections that are idle, in use, being made, being cleaned or being closed. */
  readonly total: number;
  readonly idle: number;
  /** In use by calls, transactions and leases. */
  readonly acquired: number;
  readonly connecting: number;
  /** Calls, transactions and `acquire()`s that wait for a connection. */
  readonly waiting: number;
  /** As of a client: calls made, failed calls, their rows and bytes. */
  readonly queries: number;
  readonly errors: number;
  readonly rows: number;
  readonly bytes: number;
}

/** Options of `acquire`. */
export interface AcquireOptions {
  /** When it aborts before there is a connection, `acquire` rejects with an `AbortError`. */
  readonly signal?: AbortSignal | undefined;
  /** When it aborts, the lease is taken back as `release()` does: `request.signal` for a lease of a request. */
  readonly until?: AbortSignal | undefined;
}

const ACQUIRE_OPTIONS = namesOf<AcquireOptions>({ signal: true, until: true });

/** Events of `pool.on`. */
export type PoolEvent = (typeof EVENTS)[number];

const EVENTS = ["connect", "acquire", "release", "remove"] as const;

/** Added to the error of a pool whose calls may be waiting for the code that made them. */
const HELD =
  ". All are held by transactions and leases. Code inside a transaction, or with a lease, must call the transaction " +
  "or the lease: a call of the pool waits until one is free";

const READ =
  ". A stream, a loop over rows and a cursor use their connection until they are read to the end or cancelled";

/** Milliseconds that running calls get when the pool closes. */
const CLOSE_TIMEOUT = 5_000;

/**
 * A pool of connections, from {@link createPool}. It has every call of a client. Each call has a connection for itself
 * until it ends, a stream until its last byte, so calls that are made together run together.
 */
export class Pool extends TransactionCalls {
  /** Read by a platform that suspends idle instances (Vercel's `attachDatabasePool`). */
  readonly options: { readonly max: number; readonly min: number; readonly idleTimeoutMillis: number };
  readonly #pool: PoolConfig;
  readonly #slots: Slots;
  readonly #owner = new OwnerCheck("pool");
  readonly #lifecycle: MemberLifecycle;
  readonly #loans: Loans;
  readonly #lender: Lender;
  /** Number of connections that transactions hold. */
  #transactions = 0;
  readonly #listeners = new Map<PoolEvent, Set<() => void>>();
  /** Why no call is accepted any more. Each call gets an error object of its own. */
  #ended: string | undefined;
  #closing: Promise<void> | undefined;

  /** @internal Use {@link createPool}. */
  constructor(config: Config, pool: PoolConfig, configWith: (given: Options) => Config) {
    const counters = { queries: 0, errors: 0, rows: 0, bytes: 0, running: 0 };
    super(checkConfigured(config, "createPool(url, options)"), counters);
    const { max, min, idleTimeout, leakThreshold } = pool;
    this.#pool = pool;
    this.options = Object.freeze({ max, min, idleTimeoutMillis: idleTimeout });
    const lifecycle = new MemberLifecycle({
      config,
      counters,
      pool,
      configWith,
      emit: (event) => this.#emit(event),
      demoted: ({ generation }) => this.#slots.renew(generation),
    });
    const mayUseTimer = runtime().name !== "workerd" || pool.healthCheckInterval > 0;
    const loans = new Loans(config, counters, leakThreshold, mayUseTimer);
    const actions: MemberActions = {
      open: (generation) => lifecycle.open(generation),
      close: (member) => lifecycle.close(member),
      clean: (member) => lifecycle.clean(member),
      check: (member) => lifecycle.check(member),
      checkLeases: (now) => loans.checkAll(now),
      unref: (timer) => pool.holdProcess || runtime().unref?.(timer),
      late: (cause) => this.#late(cause),
      judge: (cause) => lifecycle.judge(cause),
      unreported: (cause) => lifecycle.unreported(cause),
    };
    this.#lifecycle = lifecycle;
    this.#loans = loans;
    this.#slots = new Slots(pool, actions, mayUseTimer);
    this.#lender = new Lender(
      config,
      pool,
      this.#slots,
      lifecycle,
      (event) => this.#emit(event),
      () => this.#occupancy(),
    );
    this.#slots.fill();
  }

  // -- leases ---------------------------------------------------------------------------------------------------------

  /**
   * Resolves with a connection for several calls, when one is free. Rejects with `ACQUIRE_TIMEOUT`, with the error of a
   * failed connect, or with an `AbortError`.
   *
   * A lease that is not released is reported after `leakThreshold`, and taken back when no code refers to it any more.
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
    if (signal?.aborted) throw new AbortError(signal.reason, { hasNoEffect: true });
    const trace = this.#loans.recordsStacks ? new Error("acquired here") : undefined;
    const member = this.#lender.aloneAtOnce() ?? (await traced(this.#lender.borrowForLease(signal)));
    this.#emit("acquire");
    return this.#loans.lend(member, trace, until, (back) => this.#lender.giveBack(back));
  }

  // -- transactions, notifications ------------------------------------------------------------------------------------

  /** @internal */
  protected override async runTransaction<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions,
    sessionOf: (session: Session) => Session | Promise<Session>,
  ): Promise<T> {
    const begin = beginStatement(this.config, options);
    const refused = this.refused();
    if (refused) throw refused;
    let member: Member | undefined;
    const run = new TransactionRun<T>(this.config, this.counters, { work, begin, options });
    const { call } = run;
    const released = run.run(async () => {
      if (call.finished) return undefined;
      member = this.#lender.aloneAtOnce() ?? (await this.#lender.borrowFor(call, exclusiveRequest()));
      this.#transactions++;
      this.#emit("acquire");
      if (call.finished) return undefined;
      member.call = call;
      return sessionOf(member.session);
    });
    void released.then(() => {
      if (!member) return undefined;
      this.#transactions--;
      return this.#lender.giveBack(member);
    });
    return await traced(call.promise);
  }

  /**
   * Listens on a connection of its own, which is not one of the pool's, as {@link Client.listen} does (docs/listen.md).
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
   * Sets the maximum number of connections. If it is lower, idle connections end at once, others when they come back.
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
   * Stops using the present connections, for example after a failover: idle connections end now, those in use when they
   * come back. If the last connect failed, the pool tries again at once.
   *
   * @example
   * process.on("SIGHUP", () => pool.reset());
   */
  reset(): void {
    this.#slots.renew();
  }

  /**
   * Resolves when no call runs or waits. Rejects with an `AbortError` when the signal aborts first.
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
   * Accepts no more calls, lets running and waiting calls finish, and closes. Rejects with an `AbortError` when the
   * signal aborts first: then call `close()`, which ends those that still run.
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
   * Ends the pool. Waiting calls reject with `POOL_CLOSED`. Running calls may finish within `timeout` milliseconds, by
   * default 5,000; after that they are cancelled. A stream that was handed out continues even then, until its end or
   * until it has made no progress for `closeTimeout`, as after {@link Client.close}. It never rejects, takes a second
   * longer at most, and may be called again.
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
    if (!this.#slots.waiting) this.#lifecycle.abortConnects(ended);
    this.#loans.checkAll(performance.now());
    // Does not wait for the streams: a handler's response is read only after its `await using` and `finally`.
    if (this.userStream) runtime().background(this.whenStreamsEnd(closedUnderneath));
    const slots = this.#slots;
    await withDeadline(
      timeout,
      slots.until(() => slots.isLeftToStreams),
    );
    if (slots.isLeftToStreams) return;
    this.stopAllButStreams(closedUnderneath);
    await slots.endRest();
  }

  /**
   * Calls `listener` at each such event, without arguments (docs/pool.md#events).
   *
   * @throws UsageError for an event that a pool does not have, such as the `error` of `pg`
   * @example
   * pool.on("connect", () => connections.add(1));
   */
  on(event: PoolEvent, listener: () => void): this {
    checkEvent(event);
    if (!isFunction(listener)) throw new UsageError("INVALID_OPTION", "A listener of a pool must be a function.");
    const listeners = this.#listeners.get(event) ?? new Set();
    this.#listeners.set(event, listeners.add(listener));
    return this;
  }

  /**
   * Removes a listener that `on` added.
   *
   * @example
   * pool.off("connect", count);
   */
  off(event: PoolEvent, listener: () => void): this {
    checkEvent(event);
    this.#listeners.get(event)?.delete(listener);
    return this;
  }

  #emit(event: PoolEvent): void {
    const listeners = this.#listeners.get(event);
    if (listeners) for (const listener of listeners) void this.#call(event, listener);
  }

  /** A listener that throws must not break the pool, whether at once or by its promise. */
  async #call(event: PoolEvent, listener: () => unknown): Promise<void> {
    try {
      await listener();
    } catch (error) {
      reportThrow({ hook: `on("${event}")`, error }, this.config);
    }
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  protected override get shown() {
    const { state, max, total, idle, acquired, connecting, waiting, queries, errors } = this.stats();
    const counts = { max, total, idle, acquired, connecting, waiting, queries, errors };
    return { name: "Pool", state, ...this.address, ...counts };
  }

  protected override get signal(): AbortSignal | undefined {
    return this.config.signal;
  }

  protected override refused(): UsageError | undefined {
    return this.#ended === undefined ? this.#owner.refused() : closed(this.#ended);
  }

  /** Streams of a pool block no other call. */
  protected override unfinished(): undefined {}

  protected override connected(): never {
    throw new Error("a pool has no connection of its own");
  }

  protected override perform<T>(...call: ConstructorParameters<typeof QueuedCall<T>>): void {
    this.#lender.lend(new Borrowing(this.#lender, ...call));
  }

  #late(cause: unknown): TimeoutError {
    const { acquireTimeout } = this.#pool;
    return new TimeoutError(
      "ACQUIRE_TIMEOUT",
      `No connection was free within ${acquireTimeout} ms (acquireTimeout): ${this.#occupancy()}.`,
      { hasNoEffect: true, cause },
    );
  }

  /** What all connections are doing, as the end of a sentence. */
  #occupancy(): string {
    const { max, total, idle, acquired, connecting, waiting } = this.stats();
    const held = this.#transactions + this.#loans.count >= max ? HELD : acquired >= max ? READ : "";
    return (
      `${acquired} of ${max} in use, ${idle} idle, ${connecting} connecting, ${total} in all, ${waiting} waiting` +
      failureOf(this.#slots.failure) +
      held
    );
  }
}

/** Only the driver's own texts are certain to hold no password. A hook may have thrown anything: that is the cause. */
function failureOf(error: unknown): string {
  if (error === undefined) return "";
  const why = error instanceof PgzError ? `: ${error.message.replace(/\.$/, "")}` : "";
  return `; the last connect failed${why}`;
}

function closed(message: string, facts = {}): UsageError {
  return new UsageError("POOL_CLOSED", message, { hasNoEffect: true, ...facts });
}

function closedUnderneath(facts: Facts): UsageError {
  return closed("The pool was closed under this call.", facts);
}

/** The listeners of other pools get a client or errors, and would never be called here. */
function checkEvent(event: string): void {
  if ((EVENTS as readonly string[]).includes(event)) return;
  throw new UsageError(
    "INVALID_OPTION",
    `A pool has no event "${String(event)}", only ${EVENTS.join(", ")}. For settings of each connection use option ` +
      "afterConnect, for lost connections and notices option observer, for notifications pool.listen(). Errors reject " +
      "the calls, so they need no listener.",
  );
}

/** Options that say which password is used. */
const PASSWORDS = ["password", "passfile", "environment"];

/**
 * Makes a pool, which connects on demand. `options` are those of a client and the pool's own (docs/pool.md).
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
  const config = configuredForPool(input, overrides);
  const configWith = (more: Options): Config => {
    const one = configuredForPool(input, { ...overrides, ...more });
    const hasPassword = PASSWORDS.some((name) => name in more);
    // Otherwise its logins share one request for the password with those of the other connections.
    return hasPassword ? one : Object.freeze({ ...one, password: config.password });
  };
  const { pipelining } = { ...(Object(input) as Options), ...overrides };
  return new Pool(config, resolvePool({ ...config.pool, ...given }, pipelining, isWorkerd), configWith);
}
