// What a pool may be told, besides what its connections are: names, rules and defaults.
//
// Types and a table. What an option does is where it is used (slots.ts, upkeep.ts, cleaning.ts).
import type { ConnectInput, Options } from "../config/options.ts";
import { optionNames } from "../config/config.ts";
import { checkOptions, namesOf, oneOf, rule, whole } from "../config/rules.ts";
import { LONGEST_TIMER } from "../util/limits.ts";
import type { Lease } from "./lease.ts";

/** What is done with a connection at points of its life. Each may be async, and has 5 s. */
export interface PoolHooks {
  /**
   * Before each connect: options of this one connection, such as a password that rotates. A throw ends the connect, and
   * the call that has waited longest rejects with it.
   */
  readonly beforeConnect?: (() => Options | void | Promise<Options | void>) | undefined;
  /**
   * After each connect, before the first call. Settings that are made here are made again after a reset. A throw ends
   * the connection, and the call that has waited longest rejects with it. A throw during a reset goes to `onHookError`
   * of the observer.
   */
  readonly afterConnect?: ((lease: Lease) => unknown) | undefined;
  /**
   * Before a connection is given to a call or a lease. `false`, or a throw: that one ends, and another is given. After
   * `max` + 10 refusals in a row the call rejects with `HOOK_REFUSED`.
   */
  readonly beforeAcquire?: ((lease: Lease) => unknown) | undefined;
  /** When a connection has come back and is clean. `false`, or a throw: it ends. */
  readonly afterRelease?: ((lease: Lease) => unknown) | undefined;
  /**
   * Before the pool ends a connection that nobody uses: not where `close({ timeout })` ends one under its borrower. What
   * it throws is dropped.
   */
  readonly beforeClose?: ((lease: Lease) => unknown) | undefined;
}

/** Options of {@link createPool}: those of a client, and these. Times are milliseconds. */
export interface PoolOptions extends Options, PoolHooks {
  /** Connections, at most; those that are being made or closed count. Default 10, on Workers 5. */
  readonly max?: number | undefined;
  /** Connections that are kept, idle or not. They are made when the pool is. Default 0. */
  readonly min?: number | undefined;
  /** For how long a connection may be idle. 0: for ever. Default 5 minutes. */
  readonly idleTimeout?: number | undefined;
  /**
   * For how long a connection is used, less up to a tenth at random, so that they do not all end at once. One that is
   * in use ends when it comes back. 0: for ever. Default 1 hour, on Workers 12 minutes: a socket keeps a Durable Object
   * alive for 15.
   */
  readonly maxLifetime?: number | undefined;
  /** For how long a call or `acquire()` waits for a connection; then `ACQUIRE_TIMEOUT`. 0: for ever. Default 30 s. */
  readonly acquireTimeout?: number | undefined;
  /**
   * How often an idle connection is asked for a sign of life. 0: never. Default 30 s, on Workers 0. Set it in a Durable
   * Object, whose timers and reads outlive requests: then idle connections are looked after as they are elsewhere.
   */
  readonly healthCheckInterval?: number | undefined;
  /** Connects at a time. Default 5. */
  readonly maxConnecting?: number | undefined;
  /**
   * What happens to a connection's settings when it comes back. `"auto"`: they are reset when a statement may have
   * changed something that outlives it (docs/pool.md). `"always"`: each time, which costs a round trip. `"never"`: only
   * an open transaction is rolled back. Default `"auto"`.
   */
  readonly reset?: "auto" | "always" | "never" | undefined;
  /**
   * For how long a lease may be held before `onLeaseLeak` is called, or a warning printed. 0: nobody is told. Default
   * 1 minute.
   */
  readonly leakThreshold?: number | undefined;
}

/** What {@link createPool} takes: as a client, and an object may have the pool's own options too. */
export type PoolInput = ConnectInput | (PoolOptions & { readonly connectionString?: string | undefined });

/** The pool's own, complete and checked. */
export interface PoolConfig extends PoolHooks {
  readonly max: number;
  readonly min: number;
  readonly idleTimeout: number;
  readonly maxLifetime: number;
  readonly acquireTimeout: number;
  readonly healthCheckInterval: number;
  readonly maxConnecting: number;
  readonly reset: "auto" | "always" | "never";
  readonly leakThreshold: number;
  /** Calls of the pool that may share a connection. */
  readonly sharing: number;
}

const hook = rule("a function", (value) => typeof value === "function");
const milliseconds = whole(0, LONGEST_TIMER);
const most = whole(1, 100_000);

const table = (isWorkerd: boolean) =>
  ({
    max: [most, isWorkerd ? 5 : 10],
    min: [whole(0, 100_000), 0],
    idleTimeout: [milliseconds, 300_000],
    maxLifetime: [milliseconds, isWorkerd ? 720_000 : 3_600_000],
    acquireTimeout: [milliseconds, 30_000],
    healthCheckInterval: [milliseconds, isWorkerd ? 0 : 30_000],
    maxConnecting: [most, 5],
    reset: [oneOf("auto", "always", "never"), "auto"],
    leakThreshold: [milliseconds, 60_000],
    beforeConnect: [hook],
    afterConnect: [hook],
    beforeAcquire: [hook],
    afterRelease: [hook],
    beforeClose: [hook],
  }) as const;

/** The names of the pool's own options. */
export const poolOptionNames = namesOf<Required<Omit<PoolOptions, keyof Options>>>({
  max: true,
  min: true,
  idleTimeout: true,
  maxLifetime: true,
  acquireTimeout: true,
  healthCheckInterval: true,
  maxConnecting: true,
  reset: true,
  leakThreshold: true,
  beforeConnect: true,
  afterConnect: true,
  beforeAcquire: true,
  afterRelease: true,
  beforeClose: true,
});

const KNOWN = [...poolOptionNames, ...optionNames, "connectionString"];

/** What is the pool's, and what is left for its connections. */
export function splitOptions(
  input: PoolInput,
  options: PoolOptions,
): { given: object; input: ConnectInput; overrides: Options } {
  for (const given of [input, options]) if (isPlain(given)) checkOptions(given, KNOWN);
  const [fromInput, rest] = isPlain(input) ? split(input) : [{}, input];
  const [own, overrides] = split(options);
  return { given: { ...fromInput, ...own }, input: rest as ConnectInput, overrides };
}

/**
 * The complete options of a pool. `sharing`: option `pipelining`, where it is given. Who shares a connection comes to it
 * while others have it, so that `reset: "always"` leaves no sharing.
 */
export function resolvePool(options: object, sharing: number | undefined, isWorkerd: boolean): PoolConfig {
  const given = options as Record<string, unknown>;
  const all: Record<string, unknown> = {};
  for (const [name, [check, fallback]] of Object.entries(table(isWorkerd)) as [string, readonly [Check, unknown?]][])
    all[name] = given[name] === undefined ? fallback : check(given[name], name);
  const mostSharing = all["reset"] === "always" ? 1 : (sharing ?? 1);
  return Object.freeze({ ...all, sharing: mostSharing }) as unknown as PoolConfig;
}

type Check = (value: unknown, name: string) => unknown;

function split(options: object): [own: object, others: object] {
  const entries = Object.entries(options);
  const isOwn = ([name]: [string, unknown]) => poolOptionNames.includes(name);
  return [Object.fromEntries(entries.filter(isOwn)), Object.fromEntries(entries.filter((entry) => !isOwn(entry)))];
}

function isPlain(input: unknown): input is object {
  return typeof input === "object" && input !== null && [Object.prototype, null].includes(Object.getPrototypeOf(input));
}
