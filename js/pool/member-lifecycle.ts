// The life of a pool's connections: makes, cleans, checks and closes them, with the user's hooks around that.
//
// Knows one connection at a time. Must not know who waits for it, or how many there are (slots.ts).
import type { Counters } from "../api/ledger.ts";
import type { Config, Options } from "../config/options.ts";
import type { Connection } from "../connection/connection.ts";
import { openConnection } from "../login/startup.ts";
import { PgzError, PostgresError } from "../util/errors.ts";
import { clean, isDemoted, ping } from "./cleaning.ts";
import { HookThrew, runHook, reportThrow } from "./hooks.ts";
import { Lease } from "./lease.ts";
import { Member } from "./member.ts";
import type { PoolConfig, PoolHooks } from "./options.ts";
import type { Failure, MemberActions } from "./slots.ts";

/** Minimum lifetime in milliseconds, whatever time a password function gives. */
const SHORTEST_LIFETIME = 1_000;

/** The parts of a pool that this file needs. */
interface Pool {
  readonly config: Config;
  readonly counters: Counters;
  readonly pool: PoolConfig;
  /** The configuration with other options. */
  readonly configWith: (given: Options) => Config;
  readonly emit: (event: "connect" | "remove") => void;
  /** Called when this connection's server refuses writes now. */
  readonly demoted: (member: Member) => void;
}

export class MemberLifecycle implements Pick<
  MemberActions,
  "open" | "close" | "clean" | "check" | "judge" | "unreported"
> {
  readonly #config: Config;
  readonly #counters: Counters;
  readonly #pool: PoolConfig;
  readonly #configWith: Pool["configWith"];
  readonly #emit: Pool["emit"];
  readonly #demoted: Pool["demoted"];
  readonly #connects = new Set<AbortController>();
  #hasConnected = false;

  constructor({ config, counters, pool, configWith, emit, demoted }: Pool) {
    this.#config = config;
    this.#counters = counters;
    this.#pool = pool;
    this.#configWith = configWith;
    this.#emit = emit;
    this.#demoted = demoted;
  }

  async open(generation: number): Promise<Member> {
    const { beforeConnect, afterConnect, maxLifetime, healthCheckInterval, sharing } = this.#pool;
    const given = beforeConnect && (await thrown("beforeConnect", runHook("beforeConnect", beforeConnect)));
    const giveUp = new AbortController();
    this.#connects.add(giveUp);
    try {
      const connection = await openConnection(given ? this.#configWith(given) : this.#config, giveUp);
      connection.staysRead = healthCheckInterval > 0;
      connection.startup.done.then(
        () => (this.#hasConnected = true),
        () => {},
      );
      const now = performance.now();
      const member = new Member(connection, sharing, generation, now, now + lifetime(maxLifetime, connection));
      if (afterConnect) await this.#prepare(member, afterConnect);
      this.#emit("connect");
      return member;
    } finally {
      this.#connects.delete(giveUp);
    }
  }

  /** Fails the connects that are in flight with `error`. */
  abortConnects(error: PgzError): void {
    for (const connect of this.#connects) connect.abort(error);
  }

  /**
   * A hook's error ends one waiter, since the next connect may succeed. Any other error ends all waiters, unless it is
   * transient.
   */
  judge(cause: unknown): Failure {
    if (cause instanceof HookThrew) return { error: cause.error, ends: "first" };
    return { error: cause, ends: this.#isTransient(cause) ? "none" : "all" };
  }

  unreported(cause: unknown): void {
    if (cause instanceof HookThrew) reportThrow(cause, this.#config);
  }

  /** A pool that has never connected reports at once that there is no server: its configuration is wrong. */
  #isTransient(error: unknown): boolean {
    if (!(error instanceof PgzError) || !error.hasNoEffect) return false;
    return error instanceof PostgresError || this.#hasConnected;
  }

  async close(member: Member): Promise<void> {
    const { connection, borrowers } = member;
    // On a connection in use, the hook's calls would come into the middle of the borrower's transaction or COPY.
    const isInUse = borrowers > 0 || connection.isBusy;
    if (!connection.closed && !isInUse) await this.agrees(member, "beforeClose");
    await connection.close();
    this.#emit("remove");
  }

  check({ connection }: Member): Promise<void> {
    return ping(connection);
  }

  clean(member: Member): Promise<void> | undefined {
    const { reset, afterRelease } = this.#pool;
    if (reset !== "always" && !afterRelease && member.isClean) return undefined;
    return this.#cleaned(member);
  }

  async #cleaned(member: Member): Promise<void> {
    const { afterConnect } = this.#pool;
    await clean(member, this.#pool, async () => {
      // `#prepare` has closed the connection if it fails. The borrower's call has settled and cannot reject with this.
      if (afterConnect) await this.#prepare(member, afterConnect).catch((cause: unknown) => this.unreported(cause));
    });
    if (member.mayBeDemoted && !member.connection.closed && (await isDemoted(member))) this.#demoted(member);
    if (member.connection.closed || (await this.agrees(member, "afterRelease"))) return;
    member.isDoomed = true;
  }

  /** Runs `afterConnect`, which makes the settings that every borrower finds. */
  async #prepare(member: Member, afterConnect: (lease: Lease) => unknown): Promise<void> {
    const { connection, sessionChanges } = member;
    try {
      await connection.startup.done;
      sessionChanges.preparing(true);
      await thrown("afterConnect", this.#run(member, "afterConnect", afterConnect));
      sessionChanges.preparing(false);
    } catch (cause) {
      // The hook may have failed only because its connection ended, as any call may.
      const isLost = cause instanceof HookThrew && connection.closed && this.#isTransient(cause.error);
      await connection.close();
      throw isLost ? cause.error : cause;
    }
  }

  /** Whether a hook agrees. A hook that returns `false`, or throws, does not. */
  async agrees(member: Member, name: keyof Omit<PoolHooks, "beforeConnect">): Promise<boolean> {
    return (await this.refusal(member, name)) === undefined;
  }

  /** Why a hook does not agree, with the error it threw, if any. `undefined` if it agrees. */
  async refusal(
    member: Member,
    name: keyof Omit<PoolHooks, "beforeConnect">,
  ): Promise<{ readonly cause?: unknown } | undefined> {
    const hook = this.#pool[name];
    if (!hook) return undefined;
    return this.#run(member, name, hook).then(
      (said) => (said !== false && !member.connection.closed ? undefined : {}),
      (cause: unknown) => ({ cause }),
    );
  }

  /** Runs a hook with a lease of the connection. Calls that still run end with the hook. */
  async #run(member: Member, name: string, hook: (lease: Lease) => unknown): Promise<unknown> {
    const lease = new Lease(this.#config, this.#counters, member, () => undefined);
    try {
      return await runHook(name, () => hook(lease));
    } finally {
      await lease.takeBack();
    }
  }
}

/**
 * Lifetime of a connection: `maxLifetime`, or four fifths of the time until its session expires if that is less. The
 * last borrower then has a fifth to finish. Up to a tenth less at random, so that connections do not all end at once.
 */
function lifetime(maxLifetime: number, { expiresAt = Infinity }: Connection): number {
  // Without the minimum, a clock that is ahead or a wrong time would let each connection expire unused, and the pool
  // would make another.
  const left = Math.max(SHORTEST_LIFETIME, (expiresAt - Date.now()) * 0.8);
  return Math.min(maxLifetime || Infinity, left) * (1 - Math.random() / 10);
}

/** Resolves with the hook's result, or rejects with a {@link HookThrew} that has the hook's name. */
function thrown<T>(hook: string, running: Promise<T>): Promise<T> {
  return running.catch((error: unknown) => {
    throw new HookThrew(hook, error);
  });
}
