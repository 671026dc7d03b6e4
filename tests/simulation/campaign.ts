// Many simulated sessions one after the other: by seeds, for so long, or one again with its timeline.
//
// Knows seeds, and what is printed. Must not know what a session does.
import { real } from "./patches.ts";
import { draw, type Program } from "./program.ts";
import { play, type Report } from "./session.ts";
import { shrink } from "./shrink.ts";

export interface Tally {
  sessions: number;
  calls: number;
  events: number;
  disturbed: number;
  /** Seeds whose sessions had a fault, with what it was. */
  failed: { seed: number; faults: string[] }[];
  seconds: number;
}

/** What a campaign asks and tells on its way. */
interface Listener {
  isOver?: () => boolean;
  /** Every five seconds. */
  tell?: (tally: Tally) => void;
  each?: (report: Report, seed: number) => void;
}

/** Plays the programs of these seeds until `isOver`. */
export async function campaign(
  seeds: Iterable<number>,
  { isOver = () => false, tell = () => {}, each = () => {} }: Listener = {},
): Promise<Tally> {
  const tally: Tally = { sessions: 0, calls: 0, events: 0, disturbed: 0, failed: [], seconds: 0 };
  const began = real.now();
  let told = began;
  for (const seed of seeds) {
    if (isOver()) break;
    const report = await play(draw(seed));
    add(tally, seed, report);
    each(report, seed);
    tally.seconds = (real.now() - began) / 1000;
    if (real.now() - told < 5_000) continue;
    told = real.now();
    tell(tally);
  }
  return tally;
}

function add(tally: Tally, seed: number, report: Report): void {
  tally.sessions++;
  tally.calls += report.calls;
  tally.events += report.events;
  tally.disturbed += report.disturbed;
  if (report.faults.length) tally.failed.push({ seed, faults: report.faults });
}

/** The smallest program that fails as this one does. */
export async function shrunk(program: Program): Promise<Program> {
  const wanted = kindOf((await play(program)).faults);
  return await shrinkBy(program, (faults) => kindOf(faults) === wanted);
}

/** The smallest program whose faults are still such. */
export async function shrinkBy(program: Program, isSuch: (faults: readonly string[]) => boolean): Promise<Program> {
  return await shrink(program, async (candidate) => isSuch((await play(candidate)).faults));
}

/** What a failure is called, whatever its numbers are: the class and the words of its error, or its first line. */
export function kindOf(faults: readonly string[]): string {
  const [first = ""] = faults;
  const error = /\b[A-Z]\w*Error: .*/.exec(first)?.[0];
  return (error ?? first.split("\n")[0]!).replace(/\d+/g, "#").slice(0, 80);
}

/** The program as a test that can be pasted. */
export function asTest(program: Program, faults: readonly string[]): string {
  return [
    `// ${faults[0]?.split("\n")[0]}`,
    `test("…", async () => {`,
    `  const { faults } = await play(${JSON.stringify(program)});`,
    `  expect(faults).toEqual([]);`,
    `});`,
  ].join("\n");
}

export { draw, play };
export { onModel, onReal } from "./conformance.ts";
