// What a simulated session does, as data that a seed draws, that a file can hold, and that can be reduced step by step.
//
// A call is named by its own seed, from which tests/random makes the call and its right result. So a program without
// some of its calls is still a program, and its other calls do not change. Must not know how it is played (session.ts),
// or how it is reduced (shrink.ts).
import { Dice } from "../random/dice.ts";
import type { Fault, Weather } from "./network.ts";
import type { PoolerVersion } from "./server/pooler.ts";
import type { Quirks } from "./server/server.ts";

export interface Program {
  /** The seed of the world: its delays, its cuts, its random numbers. */
  readonly seed: number;
  readonly server: ServerKind;
  readonly weather: Weather;
  readonly users: readonly User[];
  readonly beside: readonly Beside[];
  readonly faults: readonly Fault[];
}

export interface ServerKind {
  readonly version: 15 | 18;
  readonly authentication: "trust" | "password" | "md5" | "scram-sha-256";
  /** Maximum virtual milliseconds that each step of the server may take. */
  readonly thinks: number;
  /** No server exists, during the whole session. */
  readonly isAbsent?: boolean;
  /** The quirks of a server that only speaks PostgreSQL's protocol. */
  readonly quirks?: Quirks;
  /** PgBouncer in transaction mode in front of the server, with `size` connections for each user. */
  readonly pooler?: { readonly version: PoolerVersion; readonly size: number };
}

/** A client or a pool, and what is done with it. Each user has its own role on the server: `u0`, `u1` … */
export interface User {
  readonly kind: "client" | "pool";
  /** `edge`: an idle socket is not read, as on Workers. */
  readonly sockets: "tcp" | "edge" | "websocket";
  readonly options: Readonly<Record<string, unknown>>;
  /** Hooks of a pool that do something besides being called. */
  readonly hooks: readonly Hook[];
  /** Whether each hook of the observer throws. */
  readonly observerThrows: boolean;
  /** Tasks run concurrently. The steps of one task run one after the other. */
  readonly tasks: readonly Task[];
  /** Virtual milliseconds for which a pool is left alone before it ends. */
  readonly lingers?: number;
  /** How the user ends, and when: after its tasks, or at a time of its own. */
  readonly end: { readonly how: "close" | "destroy"; readonly at?: number };
}

/** `sets`: the hook runs a statement of its own. It does so, or throws, once in `oneIn` times. */
export interface Hook {
  readonly name: "beforeConnect" | "afterConnect" | "beforeAcquire" | "afterRelease" | "beforeClose";
  readonly does: "throws" | "refuses" | "sets" | "waits";
  readonly oneIn: number;
}

export interface Task {
  /** `lease`: the task runs on a lease of the pool, which it holds for the whole task. */
  readonly on: "self" | "lease";
  readonly steps: readonly Step[];
}

export interface Step {
  /** `call`, `transaction`: from tests/random, which also runs on real servers. `more`: from calls/. */
  readonly kind: "call" | "transaction" | "more";
  readonly seed: number;
  /** Virtual milliseconds before the step, and from the step's begin to its abort. */
  readonly pause: number;
  readonly abort?: number;
  readonly timeout?: number;
}

/** What a third party does to the server, at a virtual time. `which` selects one of the backends of that time. */
export interface Beside {
  readonly at: number;
  /** `freeze`: the process stops for a minute, and meanwhile the server ends its connections. */
  readonly kind: "terminate" | "cancel" | "restart" | "freeze";
  readonly which: number;
}

/** Returns the program of a seed. A `variation` has the same users under another weather and other faults. */
export function draw(seed: number, variation = 0): Program {
  const program = drawn(seed);
  if (!variation) return program;
  const dice = new Dice(seed * 1_000_003 + variation);
  return { ...program, weather: weather(dice), faults: faults(dice), beside: beside(dice) };
}

const QUIRKS: readonly Quirks[] = [
  { hasNoKeys: true },
  { ignoresCancels: true },
  { cancelsAfter: 300 },
  { hasNoPreparedStatements: true },
];

const weather = (dice: Dice): Weather => ({
  latency: dice.pick([0, 0.1, 1, 20]),
  jitter: dice.pick([0, 0, 1, 30]),
  split: dice.pick(["whole", "whole", "pieces", "bytes"] as const),
});
const faults = (dice: Dice): Fault[] => Array.from({ length: dice.below(4) }, () => fault(dice));
/** The process freezes at most once, because two freezes are longer than any call may take. */
const beside = (dice: Dice): Beside[] => {
  const all = Array.from({ length: dice.below(3) }, () => somebody(dice));
  const first = all.findIndex(({ kind }) => kind === "freeze");
  return all.filter(({ kind }, at) => kind !== "freeze" || at === first);
};

function drawn(seed: number): Program {
  const dice = new Dice(seed);
  const isQuiet = dice.oneIn(4);
  const around = weather(dice);
  const server: ServerKind = {
    version: dice.pick([15, 18] as const),
    authentication: dice.pick(["trust", "password", "md5", "scram-sha-256", "scram-sha-256"] as const),
    thinks: dice.pick([0, 0.1, 2, 20]),
    ...(dice.oneIn(40) ? { isAbsent: true } : {}),
    ...(dice.oneIn(5) ? { pooler: { version: dice.pick(["1.18", "1.24"] as const), size: 1 + dice.below(4) } } : {}),
    ...(dice.oneIn(10) ? { quirks: dice.pick(QUIRKS) } : {}),
  };
  const users = Array.from({ length: 1 + dice.below(3) }, () => user(dice, isQuiet));
  const harm = isQuiet ? [] : faults(dice);
  const others = isQuiet ? [] : beside(dice);
  return { seed, server, weather: around, users, beside: others, faults: harm };
}

function user(dice: Dice, isQuiet: boolean): User {
  const kind = dice.pick(["client", "pool", "pool"] as const);
  const tasks = Array.from({ length: kind === "pool" ? 1 + dice.below(6) : 1 + dice.below(2) }, () =>
    task(dice, kind, isQuiet),
  );
  const end = { how: dice.pick(["close", "close", "close", "destroy"] as const) };
  const early = !isQuiet && dice.oneIn(5) ? { at: dice.below(dice.pick([10, 300])) } : {};
  return {
    kind,
    sockets: dice.pick(["tcp", "tcp", "edge", "websocket"] as const),
    options: { ...clientOptions(dice), ...(kind === "pool" ? poolOptions(dice) : {}) },
    hooks: kind === "pool" && dice.oneIn(3) ? Array.from({ length: 1 + dice.below(2) }, () => hook(dice)) : [],
    observerThrows: dice.oneIn(8),
    tasks,
    ...(kind === "pool" && dice.oneIn(6) ? { lingers: 6_000 } : {}),
    end: { ...end, ...early },
  };
}

function hook(dice: Dice): Hook {
  return {
    name: dice.pick(["beforeConnect", "afterConnect", "beforeAcquire", "afterRelease", "beforeClose"] as const),
    does: dice.pick(["throws", "refuses", "sets", "waits"] as const),
    oneIn: 1 + dice.below(4),
  };
}

/** Milliseconds: the `timeout` of most clients. Without a timeout a silent link would hold its calls forever. */
export const PATIENCE = 20_000;

function clientOptions(dice: Dice): Record<string, unknown> {
  return {
    statementCacheSize: dice.pick([64, 64, 64, 0, 1, 3]),
    prepare: dice.pick(["auto", "auto", "named", "unnamed"]),
    firstRun: dice.pick(["text", "text", "describe"]),
    pipelining: dice.pick([100, 100, 1, 2, 3]),
    flushInterval: dice.pick([100, 0]),
    flushBytes: dice.pick([65_536, 65_536, 1_000]),
    earlyQuery: dice.pick([true, true, false]),
    readBuffer: dice.pick([65_536, 65_536, 1_024]),
    timeout: dice.pick([PATIENCE, PATIENCE, PATIENCE, PATIENCE, 2_000]),
    connectTimeout: 3_000,
    closeTimeout: dice.pick([30_000, 1_000]),
  };
}

function poolOptions(dice: Dice): Record<string, unknown> {
  const max = dice.pick([1, 1, 2, 3, 5]);
  return {
    max,
    min: Math.min(max, dice.pick([0, 0, 0, 1, 3])),
    pipelining: dice.pick([1, 1, 1, 2, 8]),
    idleTimeout: dice.pick([300_000, 1_000, 20]),
    maxLifetime: dice.pick([3_600_000, 3_600_000, 500]),
    acquireTimeout: dice.pick([30_000, 30_000, 200]),
    maxConnecting: dice.pick([5, 1, 2]),
    reset: dice.pick(["auto", "auto", "always"]),
    healthCheckInterval: dice.pick([30_000, 0, 100]),
    leakThreshold: 0,
  };
}

/** One step in eight is of calls/, because each of these costs as much as several others. */
const KINDS = ["transaction", "call", "call", "call", "call", "call", "call", "more"] as const;

function task(dice: Dice, kind: "client" | "pool", isQuiet: boolean): Task {
  return {
    on: kind === "pool" && dice.oneIn(4) ? "lease" : "self",
    steps: Array.from({ length: 1 + dice.below(7) }, (): Step => {
      const disturbed = !isQuiet && dice.oneIn(4);
      return {
        kind: dice.pick(KINDS),
        seed: dice.below(2 ** 31),
        pause: dice.oneIn(3) ? dice.below(dice.pick([2, 50, 2_000])) : 0,
        ...(disturbed && dice.oneIn(2) ? { abort: dice.below(dice.pick([2, 15, 100])) } : {}),
        ...(disturbed && dice.oneIn(2) ? { timeout: 1 + dice.below(dice.pick([3, 30, 300])) } : {}),
      };
    }),
  };
}

function fault(dice: Dice): Fault {
  const link = dice.below(dice.pick([1, 3, 8]));
  const kind = dice.pick([
    "refuse",
    "unresolved",
    "hang",
    "fin",
    "rst",
    "fin",
    "rst",
    "silence",
    "deaf",
    "mute",
  ] as const);
  if (kind === "refuse" || kind === "unresolved" || kind === "hang") return { link, kind };
  if (dice.oneIn(2)) return { link, kind, afterBytes: dice.below(dice.pick([50, 600, 3_000, 40_000])) };
  // A fault placed by bytes mostly falls inside long messages, yet much happens between short ones.
  return {
    link,
    kind,
    behind: dice.pick(["C", "C", "Z", "2", "T", "D", "E"]),
    nth: 1 + dice.below(dice.pick([3, 12, 40])),
  };
}

function somebody(dice: Dice): Beside {
  return {
    at: dice.below(dice.pick([10, 100, 3_000])),
    kind: dice.pick(["terminate", "terminate", "cancel", "cancel", "restart", "freeze"] as const),
    which: dice.below(8),
  };
}
