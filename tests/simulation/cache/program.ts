// What a simulated session of the cache does, as data that a seed draws and that can be reduced step by step.
//
// Must not know how it is played (session.ts).
import { Dice } from "../../random/dice.ts";
import { CALM, isCalm, type Fault, type Weather } from "../network.ts";
import { shorter } from "../smallest.ts";

/** Tables are `t0` to `t2`; views are `v0` and `v1`, each of all rows of one table. */
export const TABLES = 3;
export const VIEWS = 2;
/** What can be asked: a table, or a view. */
export const SOURCES = ["t0", "t1", "v0", "v1"] as const;

export interface CacheProgram {
  readonly seed: number;
  readonly version: 15 | 18;
  /** Maximum virtual milliseconds that each step of the server may take. */
  readonly thinks: number;
  /** Maximum milliseconds from a commit's record in the log until it is visible. */
  readonly gap: number;
  /** Maximum milliseconds from the record until it is on disk. A crash loses what is not. */
  readonly flush: number;
  readonly weather: Weather;
  /** Faults of the links of isolates. */
  readonly faults: readonly Fault[];
  /** A pool, or a client for each request, as in a Worker. */
  readonly caller: "pool" | "client";
  readonly isolates: number;
  /** The first isolate reads from a standby, which replays within as many milliseconds. 0: there is none. */
  readonly replays: number;
  /** Seconds for which answers may be stored. */
  readonly maxAge: number;
  /** One purge in this many is refused. 0: none. */
  readonly refusesPurges: number;
  /** One call to the invalidator in this many is lost. 0: none. */
  readonly losesCalls: number;
  /** One call that closes a fill in this many is lost. 0: none. */
  readonly losesCloses: number;
  /** Maximum extra milliseconds of one open() in four. */
  readonly delays: number;
  readonly writes: readonly Write[];
  readonly reads: readonly Read[];
  readonly happenings: readonly Happening[];
}

export const WRITES = ["insert", "update", "delete", "truncate", "move view"] as const;

/** A transaction. An update or a delete takes a row that an earlier one has inserted; without one, it inserts. */
export interface Write {
  readonly at: number;
  readonly does: (typeof WRITES)[number];
  readonly table: number;
  /** The view that it moves to the table. */
  readonly view?: number;
  /** Another table, into which it inserts too. */
  readonly also?: number;
  /** Milliseconds from its change to its end. */
  readonly lasts: number;
  readonly rollsBack: boolean;
}

/** A request to a data centre. */
export interface Read {
  readonly at: number;
  readonly source: number;
  readonly centre: number;
  readonly isolate: number;
  /** Milliseconds that the body takes. */
  readonly slow: number;
}

const OF_INVALIDATOR = ["crash", "replace", "lose slot", "lose stream"] as const;
export const HAPPENINGS = [...OF_INVALIDATOR, "restart", "panic", "fail over", "new isolate", "unpublish"] as const;

/**
 * `crash`: the invalidator is gone, for `lasts`. `replace`: another one runs, and the old one goes on for `lasts`.
 * `lose slot`: it crashes, and its slot is dropped. `lose stream`: the server ends its connection. `restart`, `panic`:
 * of the server. `fail over`: another server is at its address, without its slots. `new isolate`: one has to learn
 * everything. `unpublish`: a table leaves the publication, for `lasts`.
 */
export interface Happening {
  readonly at: number;
  readonly kind: (typeof HAPPENINGS)[number];
  readonly lasts: number;
  /** The table that leaves. */
  readonly table?: number;
}

const LENGTH = 7_000;
/** The last write. A later one would purge what an earlier one should have purged. */
const LAST_WRITE = 4_000;

/**
 * What a session is about. `quiet`: nothing happens. `closes`: fills that are never closed, over crashes. `server`: the
 * server loses commits. `old`: answers that the cache asks about again. `publication`: tables leave and join it while
 * transactions run. `joins`: one that has changed a table runs for long after the table has joined. `standby`: one
 * answers too. `any`: anything.
 */
const THEMES = ["quiet", "any", "any", "closes", "server", "old", "publication", "joins", "standby"] as const;
type Theme = (typeof THEMES)[number];

export function drawCache(seed: number): CacheProgram {
  const dice = new Dice(seed ^ 0x3c6ef372);
  const theme = dice.pick(THEMES);
  const isQuiet = theme === "quiet";
  const isolates = 1 + dice.below(3);
  const writes =
    theme === "joins"
      ? [longWrite(dice)]
      : sorted(Array.from({ length: dice.pick([2, 4, 8, 25]) }, () => write(dice, theme)));
  const reads = Array.from({ length: dice.pick([20, 40, 80]) }, () => read(dice, isolates));
  return {
    seed,
    version: dice.pick([15, 18] as const),
    thinks: dice.pick([0, 0, 2, 20]),
    gap: dice.pick([0, 0, 20, 300]),
    flush: theme === "server" ? 150 : dice.pick([0, 0, 20, 100]),
    weather: { latency: dice.pick([0.1, 1, 1, 20]), jitter: dice.pick([0, 0, 1, 30]), split: "whole" },
    faults: isQuiet || dice.oneIn(2) ? [] : Array.from({ length: 1 + dice.below(3) }, () => fault(dice)),
    caller: dice.pick(["pool", "client"] as const),
    isolates,
    replays: theme === "standby" ? dice.pick([20, 150, 400]) : 0,
    maxAge: theme === "old" ? 3 : dice.pick([1, 2, 60, 60]),
    refusesPurges: isQuiet ? 0 : dice.pick([0, 10, 3]),
    losesCalls: isQuiet ? 0 : dice.pick([0, 20, 5]),
    losesCloses: theme === "closes" ? 2 : 0,
    delays: theme === "server" ? 950 : 0,
    writes,
    reads: sorted([...reads, ...writes.flatMap((one) => around(dice, one, isolates, theme))]),
    happenings: sorted(happenings(dice, theme, writes)),
  };
}

const sorted = <Item extends { readonly at: number }>(list: Item[]): Item[] => list.sort((a, b) => a.at - b.at);

function write(dice: Dice, theme: Theme): Write {
  const lasts = dice.below(dice.pick([2, 30, 30, 1_500]));
  const [at, rollsBack] = [dice.below(LAST_WRITE), dice.oneIn(12)];
  if (dice.oneIn(10) && theme !== "standby")
    return { at, does: "move view", table: dice.below(TABLES), view: dice.below(VIEWS), lasts, rollsBack };
  const table = dice.below(2); // t2 is only what views move to
  if (dice.oneIn(12)) return { at, does: "truncate", table, lasts, rollsBack };
  const does = dice.pick(["insert", "insert", "insert", "update", "delete"] as const);
  return { at, does, table, ...(dice.oneIn(6) ? { also: 1 - table } : {}), lasts, rollsBack };
}

/** No later one purges what it should have purged. */
function longWrite(dice: Dice): Write {
  const [at, lasts] = [dice.below(1_500), 1_500 + dice.below(1_500)];
  return { at, does: "insert", table: dice.below(2), lasts, rollsBack: false };
}

function read(dice: Dice, isolates: number): Read {
  return {
    at: dice.below(LENGTH),
    source: dice.below(SOURCES.length),
    centre: dice.below(2),
    isolate: dice.below(isolates),
    slow: dice.below(dice.pick([1, 40, 250, 250, 700])),
  };
}

/** Requests while the transaction ends, most of them for what it changes. */
function around(dice: Dice, { at, lasts, view, table }: Write, isolates: number, theme: Theme): Read[] {
  const changed = SOURCES.indexOf(view === undefined ? (`t${table}` as "t0") : (`v${view}` as "v0"));
  return Array.from({ length: 3 }, () => {
    const one = read(dice, isolates);
    const source = changed >= 0 && !dice.oneIn(3) ? changed : one.source;
    const slow = theme === "closes" && dice.oneIn(3) ? dice.below(1_500) : one.slow;
    // What was stored a lifetime before is asked about again.
    const before = theme === "old" && dice.oneIn(3) ? 3_400 : 0;
    return { ...one, source, slow, at: Math.max(0, at + lasts - before - 300 + dice.below(400)) };
  });
}

function happenings(dice: Dice, theme: Theme, writes: readonly Write[]): Happening[] {
  if (theme === "quiet" || theme === "old") return [];
  if (theme === "any") return Array.from({ length: dice.below(4) }, () => happening(dice));
  if (theme === "standby")
    return dice.oneIn(2) ? [] : [{ kind: "crash", at: dice.below(LENGTH), lasts: dice.below(300) }];
  if (theme === "joins") return [unpublished(dice, writes, 100)];
  if (theme === "publication") return Array.from({ length: 1 + dice.below(3) }, () => unpublished(dice, writes));
  const kinds =
    theme === "server" ? (["panic", "fail over"] as const) : (["crash", "crash", "replace", "lose slot"] as const);
  return Array.from({ length: 1 + dice.below(2) }, () => {
    const { at, lasts } = dice.pick(writes);
    return { kind: dice.pick(kinds), at: Math.max(0, at + lasts - 50 + dice.below(250)), lasts: dice.below(100) };
  });
}

function happening(dice: Dice): Happening {
  const kinds = [
    "crash",
    "crash",
    "replace",
    "lose slot",
    "lose stream",
    "lose stream",
    "restart",
    "panic",
    "fail over",
  ] as const;
  return {
    at: dice.below(LENGTH),
    kind: dice.oneIn(4) ? "new isolate" : dice.pick(kinds),
    lasts: dice.below(dice.pick([5, 300, 2_000])),
  };
}

/**
 * A table of a transaction leaves before it begins or while it runs, and joins while it runs or later. `soon`: at most
 * so many milliseconds after its beginning.
 */
function unpublished(dice: Dice, writes: readonly Write[], soon?: number): Happening {
  const { at, lasts, table } = dice.pick(writes);
  const leaves = Math.max(0, at - dice.below(300) + dice.below(100));
  return { kind: "unpublish", at: leaves, lasts: dice.below(at + (soon ?? lasts + 100) - leaves), table };
}

function fault(dice: Dice): Fault {
  const link = dice.below(dice.pick([2, 6, 30]));
  const kind = dice.pick(["refuse", "fin", "rst", "rst"] as const);
  if (kind === "refuse") return { link, kind };
  return { link, kind, behind: dice.pick(["C", "C", "Z", "D"]), nth: 1 + dice.below(dice.pick([3, 12, 60])) };
}

/** Yields programs that are each a little smaller than this one. */
export function* smallerCaches(program: CacheProgram): Generator<CacheProgram> {
  for (const list of ["happenings", "faults", "writes", "reads"] as const)
    for (const less of shorter<unknown>(program[list])) yield { ...program, [list]: less };
  const plain = {
    thinks: 0,
    gap: 0,
    flush: 0,
    losesCalls: 0,
    losesCloses: 0,
    delays: 0,
    refusesPurges: 0,
    caller: "pool",
  } as const;
  for (const [name, value] of Object.entries(plain))
    if (program[name as keyof typeof plain] !== value) yield { ...program, [name]: value };
  if (!isCalm(program.weather)) yield { ...program, weather: CALM };
}
