// Reduces a program that fails to the smallest one found that fails in the same way, and plays programs by their seeds.
//
// Knows lists and faults. Must not know what a program is, or how it is played.
import { real } from "./patches.ts";

/** Yields the list without each half, then without each quarter …, at last without each item. */
export function* shorter<Item>(list: readonly Item[]): Generator<Item[]> {
  for (let size = Math.max(list.length >> 1, 1); size > 0 && list.length; size >>= 1)
    for (let from = 0; from < list.length; from += size) yield [...list.slice(0, from), ...list.slice(from + size)];
}

/** Returns the smallest program that was found within `tries` programs. `smaller`: each a little smaller. */
export async function smallest<Program>(
  program: Program,
  smaller: (program: Program) => Iterable<Program>,
  stillFails: (program: Program) => Promise<boolean>,
  tries: number,
): Promise<Program> {
  let least = program;
  for (let isSmaller = true; isSmaller && tries > 0;) {
    isSmaller = false;
    for (const candidate of smaller(least)) {
      if (tries-- <= 0) break;
      if (!(await stillFails(candidate))) continue;
      least = candidate;
      isSmaller = true;
      break;
    }
  }
  return least;
}

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

/** Names a failure without its numbers and its caller. */
function kindOf([first]: readonly string[]): string {
  if (first === undefined) return "none";
  const [line = ""] = first.split("\n");
  return line
    .replace(/^lane .*?\): /, "")
    .replace(/\d+/g, "#")
    .slice(0, 40);
}
