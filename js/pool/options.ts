// What a pool may be told, besides what its connections are: each option once, as those of a connection in
// config/table.ts. The table of docs/pool.md is made of them.
//
// What an option does is where it is used (slots.ts, member-lifecycle.ts, cleaning.ts).
import { isPlainObject } from "../config/config.ts";
import type { ConnectInput, Options } from "../config/options.ts";
import { optionNames } from "../config/table.ts";
import { option, optional, valuesOf, type ValueOf } from "../config/entries.ts";
import { checkOptions, flag, isFunction, oneOf, rule, whole } from "../config/rules.ts";
import { LONGEST_TIMER } from "../util/limits.ts";
import type { Lease } from "./lease.ts";

// Functions, and not what they give: what a module calls at its top stays in the bundle of a program that has no pool.
const milliseconds = () => whole(0, LONGEST_TIMER);
const most = () => whole(1, 100_000);
const hook = () => rule<(lease: Lease) => unknown>("a function", isFunction);

const SIZES = () => ({
  /**
   * Connections, at most: those that are being made or closed count. `listen()` and `pgz-edge/changes` have one of their
   * own, and a CancelRequest a socket that is no session.
   *
   * @unit connections
   * @defaultValue 10
   * @runtimes Workers: 5
   */
  max: option(most(), (_, { isWorkerd }) => (isWorkerd ? 5 : 10)),
  /**
   * Connections that are kept, idle or not. They are made when the pool is.
   *
   * @unit connections
   * @defaultValue 0
   */
  min: option(whole(0, 100_000), 0),
  /**
   * For how long a connection may be idle; then it ends. 0: for ever.
   *
   * @unit milliseconds
   * @defaultValue 300,000 (5 minutes)
   */
  idleTimeout: option(milliseconds(), 300_000),
  /**
   * For how long a connection is used, less up to a tenth at random, so that they do not all end at once. One that is in
   * use ends when it comes back. 0: for ever. Shorter where the password says when the session ends
   * (docs/logins.md#when-a-session-ends).
   *
   * @unit milliseconds
   * @defaultValue 3,600,000 (1 hour)
   * @runtimes Workers: 720,000, because a socket keeps a Durable Object alive for 15 minutes
   */
  maxLifetime: option(milliseconds(), (_, { isWorkerd }) => (isWorkerd ? 720_000 : 3_600_000)),
  /**
   * For how long a call or `acquire()` waits for a connection; then `ACQUIRE_TIMEOUT`, which says how the pool stands.
   * 0: for ever.
   *
   * @unit milliseconds
   * @defaultValue 30,000
   */
  acquireTimeout: option(milliseconds(), 30_000),
  /**
   * How often an idle connection is asked for a sign of life, with 2 s to answer. 0: never. Set it in a Durable Object,
   * whose timers and reads outlive requests: then idle connections are looked after as they are elsewhere
   * (docs/pool.md#where-a-pool-belongs).
   *
   * @unit milliseconds
   * @defaultValue 30,000
   * @runtimes Workers: 0
   */
  healthCheckInterval: option(milliseconds(), (_, { isWorkerd }) => (isWorkerd ? 0 : 30_000)),
  /**
   * Connects at a time.
   *
   * @unit connects
   * @defaultValue 5
   */
  maxConnecting: option(most(), 5),
  /**
   * What happens to a connection's settings when it comes back. `auto`: they are reset when a statement may have changed
   * something that outlives it (docs/pool.md#what-the-next-borrower-finds). `always`: each time, which costs a round
   * trip. `never`: only an open transaction is rolled back.
   *
   * @defaultValue `auto`
   */
  reset: option(oneOf("auto", "always", "never"), "auto"),
  /**
   * For how long a lease may be held before `onLeaseLeak` of the observer is called, or a warning printed. 0: nobody is
   * told.
   *
   * @unit milliseconds
   * @defaultValue 60,000
   */
  leakThreshold: option(milliseconds(), 60_000),
  /**
   * Whether an idle pool keeps the process alive. By default a program ends when its work is done, though nobody has
   * closed the pool. Calls and leases keep it alive in any case.
   *
   * @defaultValue false: a script that forgets `close()` must not hang, and a server is kept by what it listens on
   * @runtimes Workers: no process; Deno: over TLS an idle connection keeps it alive
   */
  holdProcess: option(flag, false),
});

const HOOKS = () => ({
  /**
   * Before each connect: options of this one connection, such as a password that rotates. A throw ends the connect, and
   * the call that has waited longest rejects with it (docs/pool.md#when-a-hook-throws).
   *
   * @unit function
   */
  beforeConnect: optional(rule<() => Options | void | Promise<Options | void>>("a function", isFunction)),
  /**
   * After each connect, before the first call. Settings that are made here are made again after a reset. A throw ends
   * the connection, and the call that has waited longest rejects with it. A throw during a reset goes to `onHookError`
   * of the observer (docs/pool.md#when-a-hook-throws).
   *
   * @unit function of a lease
   */
  afterConnect: optional(hook()),
  /**
   * Before a connection is given to a call or a lease. `false`, or a throw: that one ends, and another is given. After
   * `max` + 10 refusals in a row the call rejects with `HOOK_REFUSED`.
   *
   * @unit function of a lease
   */
  beforeAcquire: optional(hook()),
  /**
   * When a connection has come back and is clean. `false`, or a throw: it ends.
   *
   * @unit function of a lease
   */
  afterRelease: optional(hook()),
  /**
   * Before the pool ends a connection that nobody uses: not where `close({ timeout })` ends one under its borrower. What
   * it throws is dropped.
   *
   * @unit function of a lease
   */
  beforeClose: optional(hook()),
});

type SizesTable = ReturnType<typeof SIZES>;
type HooksTable = ReturnType<typeof HOOKS>;

let table: (SizesTable & HooksTable) | undefined;

/** Each of them once, as those of a connection in config/table.ts. */
export function poolOptions(): SizesTable & HooksTable {
  return (table ??= { ...SIZES(), ...HOOKS() });
}

/** The names of the pool's own options. */
export function poolOptionNames(): readonly string[] {
  return Object.keys(poolOptions());
}

type Hooks = { readonly [Name in keyof HooksTable]?: ValueOf<HooksTable[Name]> | undefined };
type Given<Values> = { readonly [Name in keyof Values]?: Values[Name] | undefined };
type Sizes = { readonly [Name in keyof SizesTable]: ValueOf<SizesTable[Name]> };

/** What is done with a connection at points of its life. Each may be async, and has 5 s. */
export interface PoolHooks extends Hooks {}

/** Options of {@link createPool}: those of a client, and these. Times are milliseconds. */
export interface PoolOptions extends Options, PoolHooks, Given<Sizes> {}

/** What {@link createPool} takes: as a client, and an object may have the pool's own options too. */
export type PoolInput = ConnectInput | (PoolOptions & { readonly connectionString?: string | undefined });

/** The pool's own, complete and checked. */
export interface PoolConfig extends PoolHooks, Sizes {
  /** Calls of the pool that may share a connection. */
  readonly sharing: number;
}

/** What is the pool's, and what is left for its connections. */
export function splitOptions(
  input: PoolInput,
  options: PoolOptions,
): { given: object; input: ConnectInput; overrides: Options } {
  const known = [...poolOptionNames(), ...optionNames, "connectionString"];
  for (const given of [input, options]) if (isPlainObject(given)) checkOptions(given, known);
  const [fromInput, rest] = isPlainObject(input) ? split(input) : [{}, input];
  const [own, overrides] = split(options);
  return { given: { ...fromInput, ...own }, input: rest as ConnectInput, overrides };
}

/**
 * The complete options of a pool. `sharing`: option `pipelining`, where it is given. Who shares a connection comes to it
 * while others have it, so that `reset: "always"` leaves no sharing.
 */
export function resolvePool(options: object, sharing: number | undefined, isWorkerd: boolean): PoolConfig {
  const all = valuesOf(poolOptions(), (name) => (options as Record<string, unknown>)[name], { isWorkerd });
  const mostSharing = all["reset"] === "always" ? 1 : (sharing ?? 1);
  return Object.freeze({ ...all, sharing: mostSharing }) as unknown as PoolConfig;
}

function split(options: object): [own: object, others: object] {
  const entries = Object.entries(options);
  const isOwn = ([name]: [string, unknown]) => Object.hasOwn(poolOptions(), name);
  return [Object.fromEntries(entries.filter(isOwn)), Object.fromEntries(entries.filter((entry) => !isOwn(entry)))];
}
