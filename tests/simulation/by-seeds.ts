// Plays the programs of many seeds, one after the other, and reduces one that fails.
//
// Knows faults, which of them are alike, and counts. Must not know what a program does, or how it is played.
import type { Coverage } from "./coverage.ts";
import { real } from "./patches.ts";
import { smallest } from "./smallest.ts";

/** What a session tells of itself. */
export interface Report {
  readonly faults: string[];
  /** The hash of everything that was sent, received, called and reported. */
  readonly fingerprint: string;
  readonly lines: readonly string[];
  readonly counts: Readonly<Record<string, number>>;
}

/** How programs of one sort are drawn, played and reduced. */
export interface Game<Program> {
  /** The variable by which run.mjs plays one seed. */
  readonly variable: string;
  /** `variation`: the same under other faults, where the game has it. */
  readonly draw: (seed: number, variation?: number) => Program;
  readonly play: (program: Program, keepsLines?: boolean, coverage?: Coverage) => Promise<Report>;
  /** Yields programs that are each a little smaller. */
  readonly smaller: (program: Program) => Iterable<Program>;
  /** Maximum number of programs that are tried to reduce one. */
  readonly tries: number;
}

/** What `playedBySeeds` asks and reports while it runs. */
export interface Listener {
  readonly isOver?: () => boolean;
  readonly each?: (report: Report, seed: number) => void;
}

export interface Tally {
  sessions: number;
  /** Those of all sessions, added up. */
  counts: Record<string, number>;
  failed: { seed: number; faults: string[] }[];
  seconds: number;
}

/** Plays the programs of these seeds until `isOver`. */
export async function playedBySeeds<Program>(
  { draw, play }: Game<Program>,
  seeds: Iterable<number>,
  { isOver = () => false, each = () => {} }: Listener = {},
): Promise<Tally> {
  const tally: Tally = { sessions: 0, counts: {}, failed: [], seconds: 0 };
  const began = real.now();
  for (const seed of seeds) {
    if (isOver()) break;
    const report = await withoutStacks(() => play(draw(seed)));
    tally.sessions++;
    add(tally.counts, report.counts);
    if (report.faults.length) tally.failed.push({ seed, faults: report.faults });
    each(report, seed);
    tally.seconds = (real.now() - began) / 1_000;
  }
  return tally;
}

export function add(sums: Record<string, number>, counts: Report["counts"]): void {
  for (const [name, count] of Object.entries(counts)) sums[name] = (sums[name] ?? 0) + count;
}

/** Returns the smallest program that fails as this one does. */
export async function smallestOf<Program>({ play, smaller, tries }: Game<Program>, program: Program): Promise<Program> {
  const failure = async (one: Program) => failureOf((await withoutStacks(() => play(one))).faults);
  const wanted = await failure(program);
  if (wanted === undefined) throw new Error("the program does not fail when it is played again");
  return await smallest(program, smaller, async (one) => (await failure(one)) === wanted, tries);
}

/** Plays without stacks of errors, which cost as much as the calls that fail. */
export async function withoutStacks<Result>(play: () => Promise<Result>): Promise<Result> {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return await play();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Names a failure without its numbers and its caller: the class and the words of its error, or its first line. */
function failureOf([first]: readonly string[]): string | undefined {
  if (first === undefined) return undefined;
  const error = /\b[A-Z]\w*Error: .*/.exec(first)?.[0];
  const line = first.split("\n")[0]!.replace(/^lane .*?\): /, "");
  return (error ?? line).replace(/\d+/g, "#").slice(0, 80);
}
