// What a simulated session of a cluster does, as data that a seed draws and that can be reduced step by step.
//
// Must not know how it is played (session.ts).
import { Dice } from "../../random/dice.ts";
import { CALM, isCalm, type Fault, type Weather } from "../network.ts";
import type { Lag } from "../server/cluster/node.ts";
import { shorter } from "../smallest.ts";

export interface ClusterProgram {
  readonly seed: number;
  readonly version: 15 | 18;
  readonly authentication: "trust" | "scram-sha-256";
  /** Maximum virtual milliseconds that each step of a server may take. */
  readonly thinks: number;
  readonly weather: Weather;
  readonly faults: readonly Fault[];
  /** The lag of each server. The first server is the primary. */
  readonly lags: readonly Lag[];
  readonly isSynchronous: boolean;
  /** Whether the role is a member of pg_read_all_stats. */
  readonly showsReceiver: boolean;
  /** Once in this many commits the last record of the log fills its page. 0: never. */
  readonly fillsPages: number;
  /** Maximum milliseconds until other standbys follow a new primary. */
  readonly turns: number;
  /** One string with several hosts, a list for one account, or accounts that differ. */
  readonly inputs: "hosts" | "list" | "accounts";
  /** Whether transactions that name no level are REPEATABLE READ. */
  readonly isRepeatableRead: boolean;
  readonly sockets: "tcp" | "edge";
  readonly options: Readonly<Record<string, number>>;
  /** As in a Worker: each lane has its own cluster, and the lanes share what is known about the servers. */
  readonly areApart: boolean;
  readonly lanes: readonly (readonly Step[])[];
  readonly happenings: readonly Happening[];
}

export const WRITES = ["exec", "query", "transaction", "last", "batch", "isolated batch", "copyFrom"] as const;
export const READS = [
  ...["query", "transaction", "repeatable read", "batch", "isolated batch"],
  ...["stream", "cursor", "rows", "copyTo", "simple", "scope"],
] as readonly string[];

export interface Step {
  /** `write`: on the cluster, or on `reads` where nothing marks it as a write. `after`: after a position. */
  readonly kind: "write" | "write on reads" | "reads" | "after" | "after any" | "position" | "look";
  /** A name in WRITES or READS. */
  readonly how: string;
  /** The number of numbers that are written. */
  readonly count: number;
  /** A write that requests no position. */
  readonly isBlind?: true;
  /** Virtual milliseconds before the step. */
  readonly pause: number;
}

/** What happens to the servers, at a virtual time. `which` selects one of the servers of that time. */
export interface Happening {
  readonly at: number;
  /**
   * `pause`: a standby replays nothing for a while. `cut`: it receives nothing. `promote`: it becomes the primary, and
   * the old primary continues for `lasts`. `conflict`: its replay conflicts with a session. `restart`, `terminate`:
   * happen to any server.
   */
  readonly kind: "pause" | "cut" | "promote" | "conflict" | "restart" | "terminate";
  readonly which: number;
  readonly lasts: number;
  /** After a promotion: milliseconds until the old primary returns as a standby. */
  readonly returns: number;
}

/** The `maxLag` for `Infinity`, which JSON does not have. */
export const ANY_LAG = -1;

/**
 * `quiet`: nothing happens. `split`: a primary that was left behind lives on. `any`: anything happens, and links fail.
 */
type Theme = "quiet" | "split" | "any";

export function drawCluster(seed: number): ClusterProgram {
  const dice = new Dice(seed ^ 0x5bd1e995);
  const theme = dice.pick(["quiet", "split", "any", "any"] as const);
  const isSplit = theme === "split";
  const servers = isSplit ? 3 : 2 + dice.below(2);
  return {
    seed,
    version: dice.pick([15, 18] as const),
    authentication: dice.pick(["trust", "scram-sha-256"] as const),
    thinks: dice.pick([0, 0, 2, 20]),
    weather: {
      latency: dice.pick([0, 0.1, 1, 1, 20]),
      jitter: dice.pick([0, 0, 1, 10]),
      split: dice.pick(["whole", "whole", "pieces"] as const),
    },
    faults: theme !== "any" || dice.oneIn(2) ? [] : Array.from({ length: 1 + dice.below(3) }, () => fault(dice)),
    lags: Array.from({ length: servers }, () => lag(dice)),
    isSynchronous: !isSplit && dice.oneIn(3),
    showsReceiver: !dice.oneIn(3),
    fillsPages: dice.pick([0, 3, 10]),
    turns: isSplit ? 8_000 : dice.pick([400, 400, 4_000]),
    inputs: dice.pick(["hosts", "list", "accounts"] as const),
    isRepeatableRead: dice.oneIn(4),
    sockets: dice.pick(["tcp", "tcp", "edge"] as const),
    options: { ...options(dice), ...(isSplit ? dice.pick(SPLIT_OPTIONS) : {}) },
    areApart: dice.oneIn(2),
    lanes: Array.from({ length: (isSplit ? 2 : 1) + dice.below(3) }, () => steps(dice, theme)),
    happenings: isSplit ? split(dice) : theme === "any" ? happenings(dice) : [],
  };
}

/** With a limit on lag a standby that follows the wrong primary is not chosen; without a limit it is. */
const SPLIT_OPTIONS: readonly Record<string, number>[] = [
  { maxLag: 50, probeInterval: 100 },
  { maxLag: ANY_LAG, probeInterval: 100 },
  { maxLag: ANY_LAG },
  {},
];

function lag(dice: Dice): Lag {
  return {
    receives: dice.pick([
      [0, 0],
      [1, 2],
      [20, 100],
    ] as const),
    replays: dice.pick([
      [0, 0],
      [0, 3],
      [5, 20],
      [100, 1_000],
      [0, 5_000],
    ] as const),
  };
}

function options(dice: Dice): Record<string, number> {
  return {
    max: dice.pick([1, 2, 4]),
    pipelining: dice.pick([1, 1, 4]),
    statementCacheSize: dice.pick([64, 64, 0]),
    timeout: 20_000,
    connectTimeout: 3_000,
    acquireTimeout: dice.pick([30_000, 5_000]),
    idleTimeout: dice.pick([300_000, 1_000]),
    maxLag: dice.pick([10_000, 10_000, 500, 50, ANY_LAG]),
    wait: dice.pick([1_000, 1_000, 0, 50, 3_000]),
    probeInterval: dice.pick([2_000, 2_000, 100, 5_000, 0]),
  };
}

function steps(dice: Dice, theme: Theme): Step[] {
  return Array.from({ length: 2 + dice.below(14) }, (): Step => {
    const kinds = ["write", "write", "write", "after", "after", "after", "after any", "reads", "reads"] as const;
    const isRare = dice.oneIn(theme === "split" ? 5 : 12);
    const kind = isRare ? dice.pick(["position", "look", "look", "write on reads"] as const) : dice.pick(kinds);
    const isWrite = kind === "write";
    return {
      kind,
      how: isWrite ? dice.pick(WRITES) : kind === "write on reads" ? "exec" : dice.pick(READS),
      count: 1 + dice.below(3),
      ...(isWrite && dice.oneIn(8) ? { isBlind: true } : {}),
      pause: dice.oneIn(2) ? dice.below(dice.pick([3, 60, 1_500])) : 0,
    };
  });
}

function happenings(dice: Dice): Happening[] {
  const within = dice.pick([20, 300, 4_000, 12_000]);
  return Array.from({ length: 1 + dice.below(5) }, () => ({
    at: dice.below(within),
    kind: dice.pick(["pause", "cut", "promote", "promote", "conflict", "conflict", "restart", "terminate"] as const),
    which: dice.below(8),
    lasts: dice.pick([0, 0, 300, 4_000, 9_000]),
    returns: 400 + dice.below(dice.pick([100, 8_000])),
  })).sort((one, other) => one.at - other.at);
}

/** The old primary continues for seconds, in which it may write more than the new one. */
function split(dice: Dice): Happening[] {
  const at = dice.below(dice.pick([300, 2_000]));
  const which = dice.below(8);
  const lasts = dice.pick([1_000, 5_000, 10_000]);
  const cut: Happening = { at: at >> 1, kind: "cut", which, lasts: 20_000, returns: 0 };
  const promote: Happening = { at, kind: "promote", which, lasts, returns: 400 + dice.below(3_000) };
  return dice.oneIn(2) ? [cut, promote] : [promote];
}

function fault(dice: Dice): Fault {
  const link = dice.below(dice.pick([3, 8, 16]));
  const kind = dice.pick(["refuse", "hang", "fin", "rst", "rst", "silence", "mute"] as const);
  if (kind === "refuse" || kind === "hang") return { link, kind };
  if (dice.oneIn(2)) return { link, kind, afterBytes: dice.below(dice.pick([600, 3_000, 20_000])) };
  return { link, kind, behind: dice.pick(["C", "C", "Z", "E"]), nth: 1 + dice.below(dice.pick([3, 12, 40])) };
}

/** Yields programs that are each a little smaller than this one. */
export function* smallerClusters(program: ClusterProgram): Generator<ClusterProgram> {
  for (const name of ["lanes", "happenings", "faults"] as const)
    for (const list of shorter<unknown>(program[name])) yield { ...program, [name]: list };
  for (const [at, lane] of program.lanes.entries())
    for (const less of shorter(lane)) {
      const lanes = program.lanes.map((one, other) => (other === at ? less : one));
      if (less.length) yield { ...program, lanes };
    }
  if (program.lags.length > 2) yield { ...program, lags: program.lags.slice(0, 2) };
  if (!isCalm(program.weather)) yield { ...program, weather: CALM };
  const plain = { authentication: "trust", thinks: 0, fillsPages: 0, isRepeatableRead: false, sockets: "tcp" } as const;
  for (const [name, value] of Object.entries(plain))
    if (program[name as keyof typeof plain] !== value) yield { ...program, [name]: value };
  for (const name of Object.keys(program.options)) {
    const { [name]: _, ...rest } = program.options;
    if (name !== "timeout") yield { ...program, options: rest };
  }
}
