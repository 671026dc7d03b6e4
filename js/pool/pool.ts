// The public pool: every call of a client, each on a connection of its own until it ends.
//
// Knows when calls are taken, and how a pool begins and ends. Must not know how one of them gets a connection
// (lender.ts), who comes first (slots.ts), SQL that cleans (cleaning.ts), sockets or messages.
import { checkConfigured, configured } from "../api/configured.ts";
import { Home } from "../api/home.ts";
import { Listener, type ListenOptions } from "../api/listen.ts";
import type { Errand } from "../api/queue.ts";
import { Transacting } from "../api/transacting.ts";
import { beginStatement, runTransaction, type Transaction, type TransactionOptions } from "../api/transaction.ts";
import { callOption } from "../config/config.ts";
import type { Config, Options } from "../config/options.ts";
import { checkObject, checkOptions, namesOf } from "../config/rules.ts";
import type { Session } from "../session/session.ts";
import { runtime } from "../sockets/runtime.ts";
import { AbortError, TimeoutError, UsageError, type Facts } from "../util/errors.ts";
import { traced } from "../util/trace.ts";
import { within } from "../util/within.ts";
import type { Lease } from "./lease.ts";
import { aloneFromNow, Lender } from "./lender.ts";
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

/** Said of a pool whose calls may be waiting for the code that made them. */
const HELD =
  " All are held by transactions and leases. Code inside a transaction, or with a lease, must call the transaction " +
  "or the lease: a call of the pool waits until one is free.";

/** Milliseconds that calls get when the pool closes. */
const CLOSE_TIMEOUT = 5_000;

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
  readonly #lender: Lender;
  /** Connections that transactions hold. */
  #transactions = 0;
  readonly #listeners = new Map<PoolEvent, Set<() => void>>();
  /** Why no call may be made any more. Each call gets an error of its own. */
  #ended: string | undefined;
  #closing: Promise<void> | undefined;

  /** @internal Use {@link createPool}. */
  constructor(config: Config, pool: PoolConfig, configWith: (given: Options) => Config) {
    const counters = { queries: 0, errors: 0, rows: 0, bytes: 0, running: 0 };
    super(checkConfigured(config, "createPool(url, options)"), counters);
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
      unref: (timer) => pool.holdProcess || runtime().unref?.(timer),
      late: (cause) => this.#late(cause),
      judge: (cause) => upkeep.judge(cause),
      untold: (cause) => upkeep.untold(cause),
    };
    this.#upkeep = upkeep;
    this.#loans = loans;
    this.#slots = new Slots(pool, keeper, mayTick);
    this.#lender = new Lender(config, pool, this.#slots, upkeep, (event) => this.#tell(event));
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
    const trace = this.#loans.recordsStacks ? new Error("acquired here") : undefined;
    const member = this.#lender.atOnce(true) ?? (await traced(this.#lender.borrowUnless(signal)));
    this.#tell("acquire");
    return this.#loans.lend(member, trace, until, (back) => this.#lender.giveBack(back));
  }

  // -- transactions, notifications ------------------------------------------------------------------------------------

  /** @internal */
  protected override async begin<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions,
    sessionOf: (session: Session) => Session | Promise<Session>,
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
        member = this.#lender.atOnce(true) ?? (await this.#lender.borrowFor(call, aloneFromNow()));
        this.#transactions++;
        this.#tell("acquire");
        if (call.finished) return undefined;
        member.call = call;
        return sessionOf(member.session);
      },
      made: () => {},
      begins: () => {},
      settled: () => {},
    });
    void released.then(() => {
      if (!member) return undefined;
      this.#transactions--;
      return this.#lender.giveBack(member);
    });
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
   * back. A connect that has failed is tried again at once.
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

  protected override perform<T>(errand: Errand<T>): void {
    this.#lender.lend(errand);
  }

  #late(cause: unknown): TimeoutError {
    const { acquireTimeout } = this.#pool;
    const { max, total, idle, acquired, connecting, waiting } = this.stats();
    return new TimeoutError(
      "ACQUIRE_TIMEOUT",
      `No connection was free within ${acquireTimeout} ms (acquireTimeout): ${acquired} of ${max} in use, ` +
        `${idle} idle, ${connecting} connecting, ${total} in all, ${waiting} waiting.` +
        (this.#transactions + this.#loans.count >= max ? HELD : ""),
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

/** Options that say which password is used. */
const PASSWORDS = ["password", "passfile", "environment"];

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
  const config = configured(input, overrides, true);
  const configWith = (more: Options): Config => {
    const one = configured(input, { ...overrides, ...more }, true);
    const hasPassword = PASSWORDS.some((name) => name in more);
    // Else its logins ask for the password together with those of the others.
    return hasPassword ? one : Object.freeze({ ...one, password: config.password });
  };
  const { pipelining } = { ...(Object(input) as Options), ...overrides };
  return new Pool(config, resolvePool({ ...config.pool, ...given }, pipelining, isWorkerd), configWith);
}
