// Where a call of the cluster goes: which server is chosen, what observers and `stats()` learn of it, and what is
// learned from a failure.
//
// Holds together the servers, the memory about them, and the probes. Must not know what a call does, or positions.
import {
  ConnectionError,
  PostgresError,
  UsageError,
  type CallOptions,
  type Observer,
  type ServerAddress,
  type Pool,
  type RouteReason,
} from "../index.ts";
import { onAbort } from "../util/abort.ts";
import { withDeadline } from "../util/deadline.ts";
import { choose, lagOf, type Choice } from "./choice.ts";
import { Probes } from "./probes.ts";
import type { ClusterConfig } from "./options.ts";
import type { Server, Servers } from "./servers.ts";

/**
 * Milliseconds between two probes for a primary that cannot be found. The pause doubles each time, up to the longest.
 */
const FIRST_SEARCH_PAUSE = 20,
  LONGEST_SEARCH_PAUSE = 500;
/** Maximum number of attempts of a call whose server is given up before the call has begun there. */
const MOST_ATTEMPTS = 10;

type Reads = Record<RouteReason, number>;

/** What a call requires of a server. */
interface Wish {
  readonly tried?: ReadonlySet<string>;
  readonly lsn?: bigint;
}

export class Router {
  readonly servers: Servers;
  readonly probes: Probes;
  readonly config: ClusterConfig;
  /** Calls of `reads` by where they went and why. */
  readonly reads: Reads = {
    nearest: 0,
    none: 0,
    unreachable: 0,
    lag: 0,
    position: 0,
    unknown: 0,
    conflict: 0,
    write: 0,
  };
  /** The calls of `reads` on standbys, by the server's key. */
  readonly readsOf = new Map<string, number>();
  #turn = 0;

  constructor(servers: Servers, config: ClusterConfig) {
    this.servers = servers;
    this.config = config;
    this.probes = new Probes(servers, config);
  }

  /**
   * Returns the standby for a call, or the reason why the primary must run it. If the facts are old, starts a
   * probe. The call waits for it only if no known standby is suitable.
   */
  choose(wish: Wish, options: CallOptions): Choice<Server> | Promise<Choice<Server>> {
    const now = performance.now();
    const choice = this.#choose(wish, now);
    if (!this.probes.isDue(now)) return choice;
    if (choice.is === "primary") return this.probeForStandby(options).then(() => this.#choose(wish, performance.now()));
    void this.probes.probe();
    return choice;
  }

  /** Looks for a suitable standby, at most until the call's limits end. The callee then rejects with the reason. */
  async probeForStandby(options: CallOptions): Promise<void> {
    const { timeout = this.servers.config.timeout } = Object(options) as CallOptions;
    const { aborted, stop } = whenAborted(this.#signalsOf(options));
    const probed = Promise.race([this.probes.probeForStandby(), aborted]);
    await (Number(timeout) ? withDeadline(Number(timeout), probed) : probed);
    stop();
  }

  /** The callee validates the options. */
  #signalsOf(options: CallOptions): AbortSignal[] {
    return [(Object(options) as CallOptions).signal, this.servers.config.signal].filter(isSignal);
  }

  #choose({ tried, lsn }: Wish, now: number): Choice<Server> {
    return choose(this.servers.list, { now, maxLag: this.config.maxLag, turn: this.#turn++, tried, lsn });
  }

  /** Returns the pool of the primary. Looks for the primary if it is unknown. */
  primary(options: CallOptions = {}): Pool | Promise<Pool> {
    return this.servers.primary ?? this.#find(options);
  }

  /**
   * Waits for the next primary if there was one before, as a pool waits for its server. If no primary was ever known,
   * returns the pool of the first server, whose error tells why. It does so too if a signal aborts: the call then
   * rejects with the reason.
   */
  async #find(options: CallOptions): Promise<Pool> {
    const { servers } = this;
    const { timeout } = Object(options) as CallOptions;
    const until = performance.now() + Math.min(servers.acquireTimeout || Infinity, Number(timeout) || Infinity);
    const signals = this.#signalsOf(options);
    const { aborted, stop } = whenAborted(signals);
    try {
      for (let pause = FIRST_SEARCH_PAUSE; ; pause = Math.min(pause * 2, LONGEST_SEARCH_PAUSE)) {
        await Promise.race([this.probes.probe(), aborted]);
        if (servers.primary) return servers.primary;
        const isOver = servers.isClosed || signals.some((one) => one.aborted);
        if (isOver || !servers.memory.timeline) return servers.list[0]!.pool;
        if (performance.now() + pause > until) throw noPrimary(servers);
        await withDeadline(pause, aborted);
        if (signals.some((one) => one.aborted)) return servers.list[0]!.pool;
      }
    } finally {
      stop();
    }
  }

  /**
   * Returns whether the call was still queued in the pool of a server that was dropped. Nothing of such a call has been
   * sent, so it may go to the present primary.
   */
  async wasQueuedOnDroppedPool(pool: Pool, error: unknown): Promise<boolean> {
    if (!(error instanceof UsageError) || error.code !== "POOL_CLOSED" || !error.hasNoEffect) return false;
    if (this.servers.has(pool)) return false;
    // The probe that gave the pool up is not over yet. Until it is, that server still counts as the primary.
    await this.probes.probe();
    this.suspect();
    return true;
  }

  /**
   * Runs a call on the primary. If that primary is given up before the call has begun, runs it on the next one.
   * `hasBegun`: whether the call has begun, so that it must not move to another server.
   */
  async onPrimary<T>(
    options: CallOptions,
    run: (pool: Pool) => Promise<T>,
    hasBegun: () => boolean = () => false,
  ): Promise<T> {
    for (let attempts = 1; ; attempts++) {
      const pool = await this.primary(options);
      try {
        return await run(pool);
      } catch (error) {
        if (attempts === MOST_ATTEMPTS || hasBegun() || !(await this.wasQueuedOnDroppedPool(pool, error))) throw error;
      }
    }
  }

  /** Notes that roles may have changed. */
  suspect(): void {
    this.servers.memory.isSuspect = true;
  }

  /** Notes that the server did not accept a call. It gets no calls before the next probe. */
  markUnreachable(server: Server, error: unknown): void {
    this.servers.memory.failed(server.facts, error);
    if (!(error instanceof PostgresError)) server.replacePool();
    this.suspect();
  }

  // -- for observers and stats() --------------------------------------------------------------------------------------

  /** Records that a call goes to this standby. */
  recordStandby(server: Server, waitedMs = 0): void {
    this.reads.nearest++;
    this.readsOf.set(server.key, (this.readsOf.get(server.key) ?? 0) + 1);
    const { host, port } = server;
    const lagMs = lagOf(server.facts, performance.now());
    this.#notifyObserver({ host, port }, "standby", "nearest", waitedMs, lagMs);
  }

  /** Records that a call of `reads` goes to the primary. */
  recordPrimary(reason: RouteReason, waitedMs = 0): void {
    this.reads[reason]++;
    const known = this.servers.list.find(({ facts }) => facts.status && !facts.status.isStandby);
    const { host, port } = known ?? this.servers.config;
    this.#notifyObserver({ host, port }, "primary", reason, waitedMs);
  }

  #notifyObserver(
    address: Pick<ServerAddress, "host" | "port">,
    role: "standby" | "primary",
    reason: RouteReason,
    waitedMs: number,
    lagMs?: number,
  ): void {
    const { observer, database } = this.servers.config;
    if (!observer?.onRoute) return;
    try {
      (observer as Observer).onRoute!({ ...address, database, role, reason, lagMs, waitedMs });
    } catch {
      // An observer must not break the call that it observes.
    }
  }
}

function isSignal(value: AbortSignal | undefined): value is AbortSignal {
  return typeof value?.addEventListener === "function";
}

/** `aborted` resolves when one of the signals aborts. Call `stop` when that no longer matters. */
function whenAborted(signals: readonly AbortSignal[]): { aborted: Promise<void>; stop: () => void } {
  let stops: (() => void)[] = [];
  const aborted = new Promise<void>((resolve) => (stops = signals.map((one) => onAbort(one, resolve))));
  return { aborted, stop: () => stops.forEach((stop) => stop()) };
}

function noPrimary({ list }: Servers): ConnectionError {
  const failed = list.find(({ facts }) => facts.failure !== undefined);
  return new ConnectionError("CONNECT_FAILED", "No server of the cluster that can be reached is its primary.", {
    stage: "session",
    hasNoEffect: true,
    cause: failed?.facts.failure,
  });
}
