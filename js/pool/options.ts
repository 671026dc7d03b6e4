// The options of a pool besides those of its connections. Each is defined once, as those of a connection are in
// config/table.ts. The table of docs/pool.md is generated from them.
//
// The effect of an option is where it is used (slots.ts, member-lifecycle.ts, cleaning.ts).
import { isPlainObject, unknownOption } from "../config/config.ts";
import type { ConnectInput, Options } from "../config/options.ts";
import { optionNames } from "../config/table.ts";
import { option, optional, valuesOf, type ValueOf } from "../config/entries.ts";
import { checkOptions, flag, invalid, isFunction, oneOf, rule, whole } from "../config/rules.ts";
import { LONGEST_TIMER } from "../util/limits.ts";
import type { Lease } from "./lease.ts";

// Functions, not values: a call at the top of a module stays in the bundle of a program that has no pool.
const milliseconds = () => whole(0, LONGEST_TIMER);
const most = () => whole(1, 100_000);
const hook = () => rule<(lease: Lease) => unknown>("a function", isFunction);

const SIZES = () => ({
  /**
   * Maximum number of connections. Those that are being made or closed count. The connections of `listen()` and
   * `pgz-edge/changes`, and the socket of a CancelRequest, do not.
   *
   * @unit connections
   * @defaultValue 10
   * @runtimes Workers: 5
   */
  max: option(most(), (_, { isWorkerd }) => (isWorkerd ? 5 : 10)),
  /**
   * Connections that are kept, idle or not. They are made when the pool is made. At most `max`.
   *
   * @unit connections
   * @defaultValue 0
   */
  min: option(whole(0, 100_000), 0),
  /**
   * How long a connection may be idle before it ends. 0: for ever.
   *
   * @unit milliseconds
   * @defaultValue 300,000 (5 minutes)
   */
  idleTimeout: option(milliseconds(), 300_000),
  /**
   * How long a connection is used, less up to a tenth at random, so that connections do not all end at once. A
   * connection that is in use ends when it comes back. 0: for ever. Shorter if the password says when the session ends
   * (docs/logins.md#when-a-session-ends).
   *
   * @unit milliseconds
   * @defaultValue 3,600,000 (1 hour)
   * @runtimes Workers: 720,000, because a socket keeps a Durable Object alive for 15 minutes
   */
  maxLifetime: option(milliseconds(), (_, { isWorkerd }) => (isWorkerd ? 720_000 : 3_600_000)),
  /**
   * How long a call or `acquire()` waits for a connection. After that it rejects with `ACQUIRE_TIMEOUT`, whose message
   * gives the pool's state and the reason why the last connect failed. 0: for ever.
   *
   * @unit milliseconds
   * @defaultValue 30,000
   */
  acquireTimeout: option(milliseconds(), 30_000),
  /**
   * How often an idle connection is checked: its server has 2 s to answer. 0: never. Set it in a Durable Object, whose
   * timers and reads outlive requests: then idle connections are checked as on other runtimes
   * (docs/pool.md#where-a-pool-belongs).
   *
   * @unit milliseconds
   * @defaultValue 30,000
   * @runtimes Workers: 0
   */
  healthCheckInterval: option(milliseconds(), (_, { isWorkerd }) => (isWorkerd ? 0 : 30_000)),
  /**
   * Maximum number of connects at a time.
   *
   * @unit connects
   * @defaultValue 5
   */
  maxConnecting: option(most(), 5),
  /**
   * Whether a connection's session is reset when it comes back. `auto`: if a statement may have changed something that
   * outlives it (docs/pool.md#what-the-next-borrower-finds). `always`: each time, which costs a round trip. `never`:
   * only an open transaction is rolled back.
   *
   * @defaultValue `auto`
   */
  reset: option(oneOf("auto", "always", "never"), "auto"),
  /**
   * How long a lease may be held before `onLeaseLeak` of the observer is called, or a warning printed. 0: neither
   * happens.
   *
   * @unit milliseconds
   * @defaultValue 60,000
   */
  leakThreshold: option(milliseconds(), 60_000),
  /**
   * Whether an idle pool keeps the process alive. By default a program ends when its work is done, even if the pool was
   * not closed. Calls and leases keep it alive in any case.
   *
   * @defaultValue false: a script that forgets `close()` must not hang, and a listening socket keeps a server alive
   * @runtimes Workers: no process; Deno: over TLS an idle connection keeps it alive
   */
  holdProcess: option(flag, false),
});

const HOOKS = () => ({
  /**
   * Called before each connect. Returns options for this one connection, such as a password that rotates. A throw ends
   * the connect, and the call that has waited longest rejects with it (docs/pool.md#when-a-hook-throws).
   *
   * @unit function
   */
  beforeConnect: optional(rule<() => Options | void | Promise<Options | void>>("a function", isFunction)),
  /**
   * Called after each connect, before the first call. After a reset it is called again, to repeat its settings. A throw
   * ends the connection, and the call that has waited longest rejects with it. A throw during a reset goes to
   * `onHookError` of the observer (docs/pool.md#when-a-hook-throws).
   *
   * @unit function of a lease
   */
  afterConnect: optional(hook()),
  /**
   * Called before a connection is given to a call or a lease. If it returns `false` or throws, the connection ends, and
   * another is given. After `max` + 10 refusals in a row the call rejects with `HOOK_REFUSED`.
   *
   * @unit function of a lease
   */
  beforeAcquire: optional(hook()),
  /**
   * Called when a connection has come back and is clean. If it returns `false` or throws, the connection ends.
   *
   * @unit function of a lease
   */
  afterRelease: optional(hook()),
  /**
   * Called before the pool ends an unused connection, but not when `close({ timeout })` ends one that is in use. An
   * error that it throws is dropped.
   *
   * @unit function of a lease
   */
  beforeClose: optional(hook()),
});

type SizesTable = ReturnType<typeof SIZES>;
type HooksTable = ReturnType<typeof HOOKS>;

let table: (SizesTable & HooksTable) | undefined;

/** Each option once, as those of a connection in config/table.ts. */
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

/** Hooks at points of a connection's life. Each may be async, and has 5 s. */
export interface PoolHooks extends Hooks {}

/** Options of {@link createPool}: those of a client, and these. Times are milliseconds. */
export interface PoolOptions extends Options, PoolHooks, Given<Sizes> {}

/** The target of {@link createPool}: as of a client, and an object may have the pool's own options too. */
export type PoolInput = ConnectInput | (PoolOptions & { readonly connectionString?: string | undefined });

/** The pool's own options, complete and checked. */
export interface PoolConfig extends PoolHooks, Sizes {
  /** How many calls of the pool may share a connection. */
  readonly sharing: number;
}

/** Separates the pool's own options from those of its connections. */
export function splitOptions(
  input: PoolInput,
  options: PoolOptions,
): { given: object; input: ConnectInput; overrides: Options } {
  const known = [...poolOptionNames(), ...optionNames, "connectionString"];
  const refusal = (name: string) => unknownOption(name, known);
  for (const given of [input, options]) if (isPlainObject(given)) checkOptions(given, known, refusal);
  const [fromInput, rest] = isPlainObject(input) ? split(input) : [{}, input];
  const [own, overrides] = split(options);
  return { given: { ...fromInput, ...own }, input: rest as ConnectInput, overrides };
}

/**
 * The complete options of a pool. `sharing` is option `pipelining`, where it is given. A call that shares a connection
 * comes to it while others use it, when no reset is possible, so `reset: "always"` allows no sharing.
 */
export function resolvePool(options: object, sharing: number | undefined, isWorkerd: boolean): PoolConfig {
  const all = valuesOf(poolOptions(), (name) => (options as Record<string, unknown>)[name], { isWorkerd });
  const { min, max } = all as { readonly min: number; readonly max: number };
  if (min > max) invalid("min", `at most "max", which is ${max}`);
  const mostSharing = all["reset"] === "always" ? 1 : (sharing ?? 1);
  return Object.freeze({ ...all, sharing: mostSharing }) as unknown as PoolConfig;
}

function split(options: object): [own: object, others: object] {
  const entries = Object.entries(options);
  const isOwn = ([name]: [string, unknown]) => Object.hasOwn(poolOptions(), name);
  return [Object.fromEntries(entries.filter(isOwn)), Object.fromEntries(entries.filter((entry) => !isOwn(entry)))];
}
