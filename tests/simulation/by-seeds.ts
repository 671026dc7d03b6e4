// Plays the programs of many seeds, one after the other, and reduces one that fails.
//
// Knows faults, and which of them are alike. Must not know what a program does, or how it is played.
import { real } from "./patches.ts";
import { smallest } from "./smallest.ts";

/** A kind of program. */
export interface Kind<Program, Report> {
  readonly draw: (seed: number) => Program;
  readonly play: (program: Program) => Promise<Report>;
  readonly smaller: (program: Program) => Iterable<Program>;
}

interface WithFaults {
  readonly faults: string[];
}

/** What a campaign asks and reports while it runs. */
export interface Listener<Report> {
  readonly isOver?: () => boolean;
  readonly each?: (report: Report, seed: number) => void;
}

export interface Played {
  sessions: number;
  failed: { seed: number; faults: string[] }[];
  seconds: number;
}

/** Plays the programs of these seeds until `isOver`. */
export async function playedBySeeds<Program, Report extends WithFaults>(
  { draw, play }: Kind<Program, Report>,
  seeds: Iterable<number>,
  { isOver = () => false, each = () => {} }: Listener<Report>,
): Promise<Played> {
  const tally: Played = { sessions: 0, failed: [], seconds: 0 };
  const began = real.now();
  for (const seed of seeds) {
    if (isOver()) break;
    const report = await withoutStacks(() => play(draw(seed)));
    tally.sessions++;
    if (report.faults.length) tally.failed.push({ seed, faults: report.faults });
    each(report, seed);
    tally.seconds = (real.now() - began) / 1_000;
  }
  return tally;
}

/** Returns the smallest program that fails as this one does. */
export async function smallestOf<Program, Report extends WithFaults>(
  { play, smaller }: Kind<Program, Report>,
  program: Program,
  tries: number,
): Promise<Program> {
  const kind = async (one: Program) => kindOf((await withoutStacks(() => play(one))).faults);
  const wanted = await kind(program);
  return await smallest(program, smaller, async (one) => (await kind(one)) === wanted, tries);
}

/** Plays without stacks of errors, which cost as much as the calls that fail. */
export async function withoutStacks<Report>(play: () => Promise<Report>): Promise<Report> {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return await play();
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

/** Names a failure without its numbers and its caller: the class and the words of its error, or its first line. */
export function kindOf([first = ""]: readonly string[]): string {
  const error = /\b[A-Z]\w*Error: .*/.exec(first)?.[0];
  const line = first.split("\n")[0]!.replace(/^lane .*?\): /, "");
  return (error ?? line).replace(/\d+/g, "#").slice(0, 80);
}
