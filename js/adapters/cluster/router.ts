// Where a call of the cluster goes: which server is chosen, what observers and `stats()` hear of it, and what is learned
// from a failure.
//
// Holds together the servers, what is known of them, and who looks. Must not know what a call does, or positions.
import {
  ConnectionError,
  PostgresError,
  UsageError,
  type CallOptions,
  type Observer,
  type Place,
  type Pool,
  type RouteReason,
} from "../../index.ts";
import { choose, lagOf, type Choice } from "./choice.ts";
import { Lookout } from "./look.ts";
import type { ClusterConfig } from "./options.ts";
import type { Servers } from "./servers.ts";
import { type Server } from "./servers.ts";

/** Milliseconds between two looks for a primary that is not there: twice as many each time, up to here. */
const FIRST_PAUSE = 20,
  LONGEST_PAUSE = 500;
/** Of a call whose server is given up before it has begun there. */
const MOST_ATTEMPTS = 10;

export type Reads = Record<RouteReason, number>;

/** What a call wants of a server. */
export interface Wish {
  readonly tried?: ReadonlySet<string>;
  readonly lsn?: bigint;
}

export class Router {
  readonly servers: Servers;
  readonly lookout: Lookout;
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
  /** Of them, those of each server. */
  readonly readsOf = new Map<string, number>();
  #turn = 0;

  constructor(servers: Servers, config: ClusterConfig) {
    this.servers = servers;
    this.config = config;
    this.lookout = new Lookout(servers, config);
  }

  /**
   * The standby for a call, or why it is the primary's. Where what is known is old the servers are asked: meanwhile the
   * call goes by what is known, unless that names no standby.
   */
  choose(wish: Wish): Choice<Server> | Promise<Choice<Server>> {
    const now = performance.now();
    const choice = this.#choose(wish, now);
    if (!this.lookout.isDue(now)) return choice;
    if (choice.is === "primary") return this.lookout.lookForStandby().then(() => this.#choose(wish, performance.now()));
    void this.lookout.look();
    return choice;
  }

  #choose({ tried, lsn }: Wish, now: number): Choice<Server> {
    return choose(this.servers.list, { now, maxLag: this.config.maxLag, turn: this.#turn++, tried, lsn });
  }

  /** The pool of the primary; looks for it where nobody knows. */
  primary(options: CallOptions = {}): Pool | Promise<Pool> {
    return this.servers.primary ?? this.#find(options);
  }

  /**
   * Where there was a primary another one is waited for, as a pool waits for its server. Where none was ever known, who
   * was asked last has the error that tells why.
   */
  async #find(options: CallOptions): Promise<Pool> {
    const { servers } = this;
    // Whoever runs the call checks them.
    const { timeout, signal } = Object(options) as CallOptions;
    const until = performance.now() + Math.min(servers.acquireTimeout || Infinity, Number(timeout) || Infinity);
    for (let pause = FIRST_PAUSE; ; pause = Math.min(pause * 2, LONGEST_PAUSE)) {
      await this.lookout.look();
      if (servers.primary) return servers.primary;
      if (!servers.memory.timeline || servers.isClosed || signal?.aborted) return servers.list[0]!.pool;
      if (performance.now() + pause > until) throw noPrimary(servers);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  /**
   * The call waited in a pool that was given up with its server meanwhile, so that nothing of it has left: it goes to
   * whoever is the primary now.
   */
  async wasLeft(pool: Pool, error: unknown): Promise<boolean> {
    if (!(error instanceof UsageError) || error.code !== "POOL_CLOSED" || !error.retryable) return false;
    if (this.servers.has(pool)) return false;
    // The look that gave it up is not over yet: until then that server is still taken for the primary.
    await this.lookout.look();
    this.suspect();
    return true;
  }

  /** Runs this on the primary, on the next one where that is given up before it has begun. `hasBegun`: not any more. */
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
        if (attempts === MOST_ATTEMPTS || hasBegun() || !(await this.wasLeft(pool, error))) throw error;
      }
    }
  }

  /** Who is what may have changed. */
  suspect(): void {
    this.servers.memory.isSuspect = true;
  }

  /** The server did not take a call: it is not asked again before the next look. */
  gone(server: Server, error: unknown): void {
    this.servers.memory.failed(server.facts, error);
    if (!(error instanceof PostgresError)) server.leave();
    this.suspect();
  }

  // -- what is told ---------------------------------------------------------------------------------------------------

  toStandby(server: Server, waitedMs = 0): void {
    this.reads.nearest++;
    this.readsOf.set(server.key, (this.readsOf.get(server.key) ?? 0) + 1);
    const { host, port } = server;
    const lagMs = lagOf(server.facts, performance.now());
    this.#tell({ host, port }, "standby", "nearest", waitedMs, lagMs);
  }

  toPrimary(reason: RouteReason, waitedMs = 0): void {
    this.reads[reason]++;
    const known = this.servers.list.find(({ facts }) => facts.told && !facts.told.isStandby);
    const { host, port } = known ?? this.servers.config;
    this.#tell({ host, port }, "primary", reason, waitedMs);
  }

  #tell(
    place: Pick<Place, "host" | "port">,
    role: "standby" | "primary",
    reason: RouteReason,
    waitedMs: number,
    lagMs?: number,
  ): void {
    const { observer, database } = this.servers.config;
    if (!observer?.onRoute) return;
    try {
      (observer as Observer).onRoute!({ ...place, database, role, reason, lagMs, waitedMs });
    } catch {
      // Whoever watches must not break what is watched.
    }
  }
}

function noPrimary({ list }: Servers): ConnectionError {
  const failed = list.find(({ facts }) => facts.failure !== undefined);
  return new ConnectionError("CONNECT_FAILED", "No server of the cluster that can be reached is its primary.", {
    stage: "session",
    retryable: true,
    cause: failed?.facts.failure,
  });
}
