// Runs many simulated sessions one after the other, by seeds, for a given time, or one session again with its timeline.
//
// Knows seeds and what is printed. Must not know what a session does.
import { kindOf, withoutStacks } from "./by-seeds.ts";
import { real } from "./patches.ts";
import { draw, type Program } from "./program.ts";
import { Coverage } from "./coverage.ts";
import { play, type Report } from "./session.ts";
import { shrink } from "./shrink.ts";

export interface Tally {
  sessions: number;
  calls: number;
  events: number;
  disturbed: number;
  /** Seeds whose sessions had a fault, and the faults. */
  failed: { seed: number; faults: string[] }[];
  seconds: number;
}

/** What a campaign asks and reports while it runs. */
interface Listener {
  isOver?: () => boolean;
  /** Called every five seconds. */
  tell?: (tally: Tally) => void;
  each?: (report: Report, seed: number) => void;
}

export const playFast = (program: Program, coverage?: Coverage): Promise<Report> =>
  withoutStacks(() => play(program, false, coverage));

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
    const report = await playFast(draw(seed));
    add(tally, report);
    if (report.faults.length) tally.failed.push({ seed, faults: report.faults });
    each(report, seed);
    tally.seconds = (real.now() - began) / 1000;
    if (real.now() - told < 5_000) continue;
    told = real.now();
    tell(tally);
  }
  return tally;
}

/** The result of a campaign that coverage leads. */
export interface Exploration extends Omit<Tally, "failed"> {
  failed: { seed: number; variation: number; faults: string[] }[];
  /** Seeds that have reached a pair that no earlier seed had reached. */
  kept: number;
  coverage: Coverage;
}

/**
 * Plays new seeds from `first` on. In between it replays seeds that have reached new pairs of a state and an event,
 * under other faults; `variation` names which.
 */
export async function explore(
  first: number,
  { isOver, tell }: { isOver: () => boolean; tell: (exploration: Exploration) => void },
): Promise<Exploration> {
  const coverage = new Coverage();
  const counts = { sessions: 0, calls: 0, events: 0, disturbed: 0, seconds: 0 };
  const all: Exploration = { ...counts, failed: [], kept: 0, coverage };
  const kept: { seed: number; variations: number }[] = [];
  const began = real.now();
  let told = began;
  for (let next = first, turn = 0; !isOver(); turn++) {
    const again = turn % 2 && kept.length ? kept[(turn * 7_919) % kept.length] : undefined;
    const [seed, variation] = again ? [again.seed, ++again.variations] : [next++, 0];
    const before = coverage.pairs;
    const report = await playFast(draw(seed, variation), coverage);
    add(all, report);
    if (report.faults.length) all.failed.push({ seed, variation, faults: report.faults });
    if (coverage.pairs > before && !again) all.kept = kept.push({ seed, variations: 0 });
    all.seconds = (real.now() - began) / 1000;
    if (real.now() - told < 5_000) continue;
    told = real.now();
    tell(all);
  }
  return all;
}

function add(tally: Omit<Tally, "failed">, report: Report): void {
  tally.sessions++;
  tally.calls += report.calls;
  tally.events += report.events;
  tally.disturbed += report.disturbed;
}

/** Returns the smallest program that fails as this one does. */
export async function shrunk(program: Program): Promise<Program> {
  const wanted = kindOf((await play(program)).faults);
  return await shrinkBy(program, (faults) => kindOf(faults) === wanted);
}

/** Returns the smallest program whose faults satisfy `isSuch`. */
export async function shrinkBy(program: Program, isSuch: (faults: readonly string[]) => boolean): Promise<Program> {
  return await shrink(program, async (candidate) => isSuch((await play(candidate)).faults));
}

/** Returns the program as a line of found.json. Its fault becomes the name of what must hold. */
export function asFound(program: Program, faults: readonly string[]): string {
  return JSON.stringify({ name: faults[0]?.split("\n")[0], program });
}

export { draw, play };
export { clusterCampaign, drawCluster, playCluster, shrunkCluster } from "./cluster/campaign.ts";
export { cacheCampaign, drawCache, playCache, shrunkCache } from "./cache/campaign.ts";
export { hours } from "./expiring.ts";
export { onModel, onReal } from "./conformance.ts";
export { replicationOnModel, replicationOnReal, scripts as replicationScripts } from "./replication-conformance.ts";
