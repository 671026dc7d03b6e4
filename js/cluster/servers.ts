// The servers of a cluster: a pool for each, and the pool of the primary.
//
// If one account names all servers, the pool of the primary has all of them as its hosts and uses the one that accepts
// writes. So it continues after a failover by itself, and calls wait meanwhile (docs/pool.md). If each server has an
// account of its own, as two Hyperdrive bindings have, the primary's pool is that of the server that says it is the
// primary.
//
// Knows which servers there are. Must not know what they say (memory.ts, probes.ts), or which one is chosen.
import { createPool, UsageError, type ConnectInput, type Pool, type PoolOptions } from "../index.ts";
import { queueOf, type Config } from "./pool-queue.ts";
import { memoryOf, type Facts, type Memory } from "./memory.ts";

export class Server {
  readonly key: string;
  readonly host: string;
  readonly port: number;
  readonly facts: Facts;
  /** Number of calls that may be waiting in the server (waiting.ts). */
  waiting = 0;
  readonly #make: () => Pool;
  #pool: Pool;

  constructor({ key, host, port }: Host, facts: Facts, make: () => Pool) {
    this.key = key;
    this.host = host;
    this.port = port;
    this.facts = facts;
    this.#make = make;
    this.#pool = make();
  }

  get pool(): Pool {
    return this.#pool;
  }

  /**
   * Replaces the pool of a server that cannot be reached. Calls that wait for a connection go elsewhere at once,
   * instead of waiting for `acquireTimeout`. Calls that run there may still be answered.
   */
  replacePool(): void {
    const last = this.#pool;
    if (!last.stats().total && !last.stats().waiting) return;
    this.#pool = this.#make();
    void last.close({ timeout: GRACE });
  }
}

/** The default of a pool. */
const ACQUIRE_TIMEOUT = 30_000;
/** Milliseconds that calls have to finish on a server that was given up. */
const GRACE = 30_000;

export class Servers {
  readonly memory: Memory;
  readonly #options: PoolOptions;
  #list: readonly Server[] = [];
  /** The pool of all hosts, if they have one account. */
  #joint: Pool | undefined;
  #jointKeys = "";
  /** The server that is used as the primary instead of the joint pool. */
  #elected: Server | undefined;
  /** The user has closed the cluster. */
  isClosed = false;

  constructor(inputs: readonly ConnectInput[], options: PoolOptions) {
    this.#options = options;
    const found = hostsOf(inputs, options);
    this.memory = memoryOf(found.map(({ key }) => key).join(" "));
    this.#take(found, inputs);
  }

  /** How many milliseconds a call waits for a server. 0: any time. */
  get acquireTimeout(): number {
    return this.#options.acquireTimeout ?? ACQUIRE_TIMEOUT;
  }

  get list(): readonly Server[] {
    return this.#list;
  }

  /** The pool of the server that accepts writes; `undefined`: that server is unknown. */
  get primary(): Pool | undefined {
    return this.#elected?.pool ?? this.#joint;
  }

  /**
   * Chooses the primary after the servers have been asked. If two say that they are the primary, a promotion has left
   * one of them behind, and the server of the newest timeline is used. Returns `false` in that case, which may end at
   * any moment.
   */
  elect(): boolean {
    const primaries = this.primaries;
    const [newest] = primaries.sort((one, other) => timelineOf(other) - timelineOf(one));
    const isSplit = primaries.length > 1;
    this.#elected = this.#joint && !isSplit ? undefined : newest;
    return !isSplit;
  }

  /** A server says that it is the primary, so the pool that looks for one need not pause any longer. */
  wake(): void {
    if (this.#joint?.stats().total === 0) this.#joint.reset();
  }

  /** The servers that say they are the primary. */
  get primaries(): Server[] {
    return this.#list.filter(({ facts }) => facts.status && !facts.status.isStandby);
  }

  /** The primary's pool finds the primary by itself. */
  get isJoint(): boolean {
    return this.#joint !== undefined;
  }

  /** The configuration of the primary's pool, or else of the first server's. */
  get config(): Config {
    return queueOf(this.#joint ?? this.#list[0]!.pool).config;
  }

  /** Replaces the list of servers. Calls on a server that is gone from the list may finish. */
  update(inputs: readonly ConnectInput[]): void {
    const found = hostsOf(inputs, this.#options);
    const keys = (servers: readonly { key: string }[]) => servers.map(({ key }) => key).join(" ");
    if (keys(found) !== keys(this.#list)) this.#take(found, inputs);
  }

  #take(found: readonly Host[], inputs: readonly ConnectInput[]): void {
    const before = new Map(this.#list.map((server) => [server.key, server]));
    this.#list = found.map((host) => before.get(host.key) ?? this.#serverOf(host));
    for (const server of before.values()) if (!this.#list.includes(server)) void server.pool.drain();
    this.#join(found, inputs);
    this.elect();
  }

  #join(found: readonly Host[], inputs: readonly ConnectInput[]): void {
    const keys = found.map(({ key }) => key).join(" ");
    if (keys === this.#jointKeys) return;
    const last = this.#joint;
    this.#jointKeys = keys;
    this.#joint = areOneAccount(inputs)
      ? createPool(found[0]!.input, {
          ...this.#options,
          host: found.map(({ host }) => host).join(","),
          port: found.map(({ port }) => port).join(","),
          hostaddr: found.every(({ hostaddr }) => hostaddr)
            ? found.map(({ hostaddr }) => hostaddr).join(",")
            : undefined,
          targetSessionAttrs: "read-write",
        } as PoolOptions)
      : undefined;
    if (last) void last.drain();
  }

  #serverOf(named: Host): Server {
    const { host, port, hostaddr, input, isOne } = named;
    const one = isOne ? {} : { host, port, hostaddr };
    const options: PoolOptions = { ...this.#options, min: 0, ...one, targetSessionAttrs: "any" };
    return new Server(named, this.memory.of(named.key), () => createPool(input, options));
  }

  /** Returns whether the pool is in use. */
  has(pool: Pool): boolean {
    return this.#pools.includes(pool);
  }

  get #pools(): Pool[] {
    return [...(this.#joint ? [this.#joint] : []), ...this.#list.map(({ pool }) => pool)];
  }

  async each(work: (pool: Pool) => Promise<void>): Promise<void> {
    await Promise.all(this.#pools.map(work));
  }
}

function timelineOf({ facts }: Server): number {
  return facts.status?.timeline ?? 0;
}

interface Host {
  readonly key: string;
  readonly host: string;
  readonly port: number;
  /** The address to connect to instead of resolving the name. */
  readonly hostaddr: string | undefined;
  readonly input: ConnectInput;
  /** The input names only this host. */
  readonly isOne: boolean;
}

function hostsOf(inputs: readonly ConnectInput[], options: PoolOptions): Host[] {
  if (!Array.isArray(inputs) || !inputs.length)
    throw new UsageError("INVALID_OPTION", "createCluster needs the servers: a list, or a string with several hosts.");
  const all = inputs.flatMap((input: ConnectInput) => {
    const { hosts, database, user } = queueOf(createPool(input, { ...options, min: 0 })).config;
    return hosts.map(({ host, port, hostaddr }) => {
      const key = `${host}:${port}/${database}/${user}`;
      return { key, host, port, hostaddr, input, isOne: hosts.length === 1 };
    });
  });
  return [...new Map(all.map((host) => [host.key, host])).values()];
}

/** Returns whether the inputs differ in their hosts only. */
function areOneAccount(inputs: readonly ConnectInput[]): boolean {
  return inputs.length === 1 || new Set(inputs.map(withoutHosts)).size === 1;
}

/** Returns the parts of a connection string around its hosts, or a unique text for any other input. */
function withoutHosts(input: ConnectInput, index: number): string {
  const text = typeof input === "string" ? input : (input as { readonly href?: unknown }).href;
  const [, before, after] = (typeof text === "string" && URL_PARTS.exec(text)) || [];
  return before === undefined ? `input ${index}` : `${before} ${after}`;
}

/** scheme://user:password@ hosts /database?options */
const URL_PARTS = /^(\w+:\/\/(?:[^@/?#]*@)?)[^/?#]*(.*)$/;
