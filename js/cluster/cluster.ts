// `createCluster(urls, options)`: the calls of a pool run on the primary, those of `reads` on its standbys. A write
// returns a position, and `reads.after(position)` never shows an older state.
//
// Knows the primary and receipts. Must not know how standbys are chosen (router.ts), or what guards say (after.ts).
import {
  PgzError,
  TransactionCalls,
  UsageError,
  type AcquireOptions,
  type BatchOptions,
  type BatchResult,
  type CallOptions,
  type ConnectInput,
  type CopyFromOptions,
  type CopyRow,
  type CopySource,
  type ExecOptions,
  type ExecResult,
  type Lease,
  type Listener,
  type ListenOptions,
  type Pool,
  type PoolStats,
  type QueryInput,
  type QueryOptions,
  type QueryResult,
  type RouteReason,
  type Scope,
  type ScopeOptions,
  type Transaction,
  type TransactionOptions,
} from "../index.ts";
import { trackBegin } from "./again.ts";
import { lagOf } from "./choice.ts";
import type { Facts } from "./memory.ts";
import { queueOf, type CallArguments, type PoolQueue, type RowInput, type SessionOf, type Work } from "./pool-queue.ts";
import { hasNoIdentity, positionIn, positionQuestion, type PositionRow } from "./questions.ts";
import { patienceOf } from "./internal-queries.ts";
import { positionText } from "./position.ts";
import { splitOptions, type ClusterOptions } from "./options.ts";
import { Reads } from "./reads.ts";
import { Receipt, UNKNOWN_TEXT } from "./receipt.ts";
import { Router } from "./router.ts";
import { Servers } from "./servers.ts";
import { arraysOf } from "../util/question.ts";

/** The option of a call that returns the position of what it has committed. */
export interface WithPosition {
  readonly position: true;
}

/** The position of what a call has committed, for `reads.after()`: a short text for a cookie or a header. */
export interface Positioned {
  readonly position: string;
}

/** One server, as `stats()` shows it. */
export interface ServerStats {
  readonly host: string;
  readonly port: number;
  /** `unreachable`: the last question failed. `unknown`: it has not been asked yet. */
  readonly role: "primary" | "standby" | "unreachable" | "unknown";
  /** For a standby: an upper bound of its lag, in milliseconds; `Infinity`: not known. */
  readonly lagMs?: number | undefined;
  /** The round trip of a question and its answer, in milliseconds. */
  readonly roundTripMs?: number | undefined;
  /** Number of calls of `reads` that went to this server as a standby. */
  readonly reads: number;
  readonly pool: PoolStats;
  /** Why it cannot be reached. */
  readonly failure?: unknown;
}

export interface ClusterStats {
  readonly servers: readonly ServerStats[];
  /** Statistics of the primary's pool; `undefined`: no primary is known. */
  readonly primary: PoolStats | undefined;
  /** Number of calls of `reads` by reason: `nearest` went to a standby, all others to the primary (docs/cluster.md). */
  readonly reads: Readonly<Record<RouteReason, number>>;
}

/** The result of {@link createCluster}: the calls of a pool on the primary, and {@link Reads} on standbys. */
export class ClusterCalls extends TransactionCalls {
  /**
   * The same calls on the nearest standby that does not lag by more than `maxLag`, or on the primary if there is none.
   */
  readonly reads: Reads;
  readonly #router: Router;
  #closing: Promise<void> | undefined;
  /** The role may read the cluster's identity, as far as is known. */
  #canReadIdentity = true;

  /** @internal Use {@link createCluster}. */
  constructor(router: Router) {
    const { config } = router.servers;
    super(config, queueOf(router.servers.primary ?? router.servers.list[0]!.pool).counters);
    this.#router = router;
    this.reads = new Reads(router, { refused: () => this.refused(), close: () => this.close() });
  }

  // -- positions ------------------------------------------------------------------------------------------------------

  /**
   * Returns the present position of the primary: everything that has committed is at or before it. Costs a round trip.
   * Calls with `position: true` return their position without one.
   *
   * @example
   * response.headers.append("set-cookie", `position=${await cluster.position()}; Path=/; HttpOnly`);
   */
  async position(): Promise<string> {
    const ask = async (): Promise<string> => {
      const [row] = await arraysOf<PositionRow>(this, positionQuestion(this.#canReadIdentity), { isObserved: true });
      return positionText(positionIn(row!));
    };
    if (!this.#canReadIdentity) return await ask();
    return await ask().catch((error: PgzError) => {
      if (!hasNoIdentity(error)) throw error;
      this.#canReadIdentity = false;
      return ask();
    });
  }

  #receipt(options: CallOptions): Receipt {
    return new Receipt(positionQuestion(this.#canReadIdentity), patienceOf(this.config, options));
  }

  async #positionOf(receipt: Receipt): Promise<string> {
    const { text, error } = await receipt.answer();
    if (text !== undefined) return text;
    // The next call asks again, without the identity, which this role may not read.
    if (error && hasNoIdentity(error)) this.#canReadIdentity = false;
    return UNKNOWN_TEXT;
  }

  /** @internal */
  override async batch(queries: readonly QueryInput[], options: BatchOptions & Partial<WithPosition> = {}) {
    const { position, ...rest } = Object(options) as typeof options;
    if (!position) return (await super.batch(queries, options)) as never;
    const receipt = this.#receipt(rest);
    const results = await super.batch(queries, { ...rest, [RECEIPT]: receipt } as BatchOptions);
    // An empty batch has not run on any server, so it has no answer of its own.
    const text = queries.length ? await this.#positionOf(receipt) : await this.position();
    return Object.assign(results, { position: text }) as never;
  }

  // -- of a pool ------------------------------------------------------------------------------------------------------

  /** Acquires a connection to the primary for several calls, as {@link Pool.acquire}. */
  async acquire(options: AcquireOptions = {}): Promise<Lease> {
    const refused = this.refused();
    if (refused) throw refused;
    return await this.#router.onPrimary(options, (pool) => pool.acquire(options));
  }

  /**
   * Listens on a connection of its own to the primary, and after a promotion to the new primary.
   * As {@link Pool.listen}.
   *
   * @example
   * for await (const { payload } of await cluster.listen("jobs")) console.log(payload);
   */
  async listen(channel: string, options: ListenOptions = {}): Promise<Listener> {
    const refused = this.refused();
    if (refused) throw refused;
    return await this.#router.onPrimary(options, (pool) => pool.listen(channel, options));
  }

  /** Returns what is known about the servers, and where calls of `reads` went. */
  stats(): ClusterStats {
    const now = performance.now();
    const router = this.#router;
    const servers = router.servers.list.map(({ key, host, port, pool, facts }): ServerStats => {
      const { failure, roundTrip } = facts;
      const role = roleOf(facts);
      const lagMs = role === "standby" ? lagOf(facts, now) : undefined;
      const reads = router.readsOf.get(key) ?? 0;
      return { host, port, role, lagMs, roundTripMs: roundTrip, reads, pool: pool.stats(), failure };
    });
    return { servers, primary: router.servers.primary?.stats(), reads: { ...router.reads } };
  }

  /**
   * Asks all servers now for their role, position and round trip. Calls do so by themselves when what is known is too
   * old (`probeInterval`). A program that must have its standbys from the start can wait for this.
   */
  async probe(): Promise<void> {
    const refused = this.refused();
    if (refused) throw refused;
    await this.#router.probes.probe();
  }

  /** Closes the pools, as {@link Pool.close}. It never rejects, and may be called again. */
  override close({ timeout }: { readonly timeout?: number | undefined } = {}): Promise<void> {
    const { servers } = this.#router;
    servers.isClosed = true;
    return (this.#closing ??= servers.each((pool) => pool.close({ timeout })));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // -- for calls ------------------------------------------------------------------------------------------------------

  /** @internal */
  protected override run<T>(...call: CallArguments<T>): Promise<T> {
    const refused = this.refused();
    if (refused) throw refused;
    const { position, [RECEIPT]: given } = call[1] as Extra;
    if (!position && !given) return this.#onPrimary(call[1], (queue) => queue.run(...call));
    const [asked, options, body, way] = call;
    if (way === "stream" || way === "loop")
      throw new UsageError("INVALID_OPTION", 'Option "position" is for calls with a complete result: call position().');
    const { position: _, ...rest } = options as typeof options & Extra;
    const receipt = given ?? this.#receipt(rest);
    const result = this.#onPrimary(rest, (queue) => queue.run(asked, rest, receipt.askAfter(body), way));
    return given ? result : this.#withPosition(result, receipt);
  }

  async #withPosition<T>(result: Promise<T>, receipt: Receipt): Promise<T> {
    return Object.assign((await result) as object, { position: await this.#positionOf(receipt) }) as T;
  }

  /** @internal */
  protected override async runTransaction<T>(
    work: Work<T>,
    options: TransactionOptions & Partial<WithPosition>,
    sessionOf: SessionOf,
  ): Promise<T> {
    const refused = this.refused();
    if (refused) throw refused;
    const { position, ...rest } = Object(options) as typeof options;
    const { tracked, hasBegun } = trackBegin(work);
    const begin = (given: TransactionOptions, of: SessionOf) =>
      this.#router.onPrimary(given, (pool) => queueOf(pool).runTransaction(tracked, given, of), hasBegun);
    if (!position) return await begin(options, sessionOf);
    const receipt = this.#receipt(rest);
    let stop = () => {};
    const listening: SessionOf = async (given) => {
      const session = await sessionOf(given);
      stop = receipt.awaitCommit(session);
      return session;
    };
    try {
      const value = await begin(rest, listening);
      // A transaction without a statement has committed nothing and sent no question.
      const text = receipt.isAsked ? await this.#positionOf(receipt) : await this.position();
      return { value, position: text } as T;
    } finally {
      stop();
    }
  }

  /**
   * Runs a call on the primary. Adds one promise to the pool's call, to catch the error of a server that is no longer
   * the primary.
   */
  #onPrimary<T>(options: CallOptions, run: (queue: PoolQueue) => Promise<T>): Promise<T> {
    const router = this.#router;
    const pool = router.servers.primary;
    const running = pool ? run(queueOf(pool)) : router.onPrimary(options, (found) => run(queueOf(found)));
    return running.then(undefined, (error: unknown) => this.#again(error, pool, options, run));
  }

  /**
   * Finds the primary and runs the call there, if the call has had no effect: a standby refused it (25006), or it was
   * still queued for a server that was given up.
   */
  async #again<T>(
    error: unknown,
    pool: Pool | undefined,
    options: CallOptions,
    run: (queue: PoolQueue) => Promise<T>,
  ): Promise<T> {
    const router = this.#router;
    if (!pool || !(await router.wasQueuedOnDroppedPool(pool, error))) {
      if (!(error instanceof PgzError) || error.code !== "25006" || !(await this.#hasMoved())) throw error;
      router.suspect();
    }
    return await router.onPrimary(options, (found) => run(queueOf(found)));
  }

  /** Probes, and returns whether the server that was used as the primary no longer is. */
  async #hasMoved(): Promise<boolean> {
    const { servers, probes } = this.#router;
    const before = servers.memory.timeline;
    const pool = servers.primary;
    this.#router.suspect();
    await probes.probe();
    const hasMoved = servers.memory.timeline > before || servers.primary !== pool;
    if (hasMoved) pool?.reset();
    return hasMoved;
  }

  /** @internal */
  protected override get shown() {
    const servers = this.stats().servers.map(({ host, port, role }) => `${host}:${port} ${role}`);
    return { name: "Cluster", servers, reads: this.#router.reads };
  }

  /** @internal */
  protected override readonly signal = undefined;

  /** @internal */
  protected override refused(): UsageError | undefined {
    if (!this.#closing) return undefined;
    return new UsageError("POOL_CLOSED", "The cluster is closed: make another.", { hasNoEffect: true });
  }

  /** @internal */
  protected override unfinished(): undefined {}

  /** @internal */
  protected override connected(): never {
    throw new Error("a cluster has no connection of its own");
  }
}

/** Our own key beside the user's options: the receipt that gets the position of this call. */
const RECEIPT = Symbol("receipt");

/** The options of a cluster's call that a pool's call does not have. */
interface Extra {
  readonly position?: boolean | undefined;
  readonly [RECEIPT]?: Receipt | undefined;
}

/** The calls that return a position. */
export interface PositionedCalls {
  query<Row = Record<string, unknown>>(
    query: RowInput<Row>,
    options: QueryOptions & WithPosition,
  ): Promise<QueryResult<Row> & Positioned>;
  query<Row = Record<string, unknown>>(
    text: string,
    values: readonly unknown[],
    options: QueryOptions & WithPosition,
  ): Promise<QueryResult<Row> & Positioned>;
  exec(query: QueryInput, options: ExecOptions & WithPosition): Promise<ExecResult & Positioned>;
  exec(text: string, values: readonly unknown[], options: ExecOptions & WithPosition): Promise<ExecResult & Positioned>;
  batch<Row = Record<string, unknown>>(
    queries: readonly QueryInput[],
    options: BatchOptions &
      WithPosition & { readonly atomic?: true | undefined; readonly results?: "rows" | undefined },
  ): Promise<QueryResult<Row>[] & Positioned>;
  batch<Row = Record<string, unknown>>(
    queries: readonly QueryInput[],
    options: BatchOptions & WithPosition,
  ): Promise<(BatchResult<Row> | PromiseSettledResult<BatchResult<Row>>)[] & Positioned>;
  copyFrom(
    text: QueryInput,
    source: CopySource,
    options: CopyFromOptions & WithPosition,
  ): Promise<ExecResult & Positioned>;
  copyFromRows(
    table: QueryInput,
    columns: readonly string[],
    rows: Iterable<CopyRow> | AsyncIterable<CopyRow>,
    options: CopyFromOptions & WithPosition,
  ): Promise<ExecResult & Positioned>;
  /** Resolves with the result of `work`, and with the position after its COMMIT. */
  transaction<T>(
    work: (transaction: Transaction) => T | Promise<T>,
    options: TransactionOptions & WithPosition,
  ): Promise<{ readonly value: T } & Positioned>;
}

/** A scope of a cluster: its calls return positions too, except `batch`. */
export type ClusterScope = Omit<PositionedCalls, "batch"> & Scope;

/**
 * The calls of a pool, which run on the primary, and `reads`, whose calls run on its standbys. A write returns a
 * position, and `reads.after(position)` never shows an older state.
 */
export type Cluster = PositionedCalls & { scope(options: ScopeOptions): ClusterScope } & ClusterCalls;

/**
 * Creates a cluster of a primary and its standbys. It connects when it has to. `servers`: a list of anything that
 * {@link createPool} accepts, or a connection string with several hosts. `options`: those of a pool, and the cluster's
 * own (docs/cluster.md). The cluster finds out which server is the primary, and asks again when that changes.
 *
 * @throws UsageError as {@link createPool}
 * @example
 * await using cluster = createCluster("postgres://app:secret@one,two,three/app");
 * const { position } = await cluster.exec(sql`insert into orders values (${7})`, { position: true });
 * const { rows } = await cluster.reads.after(position).query("select * from orders");
 */
export function createCluster(servers: ConnectInput | readonly ConnectInput[], options: ClusterOptions = {}): Cluster {
  const { config, pool } = splitOptions(Object(options) as ClusterOptions);
  const inputs = Array.isArray(servers) ? (servers as readonly ConnectInput[]) : [servers as ConnectInput];
  return new ClusterCalls(new Router(new Servers(inputs, pool), config)) as unknown as Cluster;
}

function roleOf({ status, failure }: Facts): ServerStats["role"] {
  if (status) return status.isStandby ? "standby" : "primary";
  return failure === undefined ? "unknown" : "unreachable";
}
