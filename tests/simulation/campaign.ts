// What the commands of the simulator play: the games, and sessions that coverage leads.
//
// Knows seeds. Must not know what a session does, or what is printed.
import { add, withoutStacks, type Game, type Tally } from "./by-seeds.ts";
import { drawCache, smallerCaches, type CacheProgram } from "./cache/program.ts";
import { playCache } from "./cache/session.ts";
import { drawCluster, smallerClusters, type ClusterProgram } from "./cluster/program.ts";
import { playCluster } from "./cluster/session.ts";
import { Coverage } from "./coverage.ts";
import { real } from "./patches.ts";
import { draw, type Program } from "./program.ts";
import { play, type SessionReport } from "./session.ts";
import { smaller } from "./shrink.ts";

const sessions: Game<Program> = { variable: "SEED", draw, play, smaller, tries: 600 };
const clusters: Game<ClusterProgram> = {
  ...{ variable: "CLUSTER", draw: drawCluster, play: playCluster, smaller: smallerClusters, tries: 300 },
};
const caches: Game<CacheProgram> = {
  ...{ variable: "CACHE", draw: drawCache, play: playCache, smaller: smallerCaches, tries: 400 },
};
export const games = { sessions, clusters, caches };

export const playFast = (program: Program, coverage?: Coverage): Promise<SessionReport> =>
  withoutStacks(() => play(program, false, coverage));

/** The result of sessions that coverage leads. */
export interface Exploration extends Omit<Tally, "failed"> {
  failed: { seed: number; variation: number; faults: string[] }[];
  /** Seeds that have reached a pair that no earlier seed had reached. */
  kept: number;
  coverage: Coverage;
}

/**
 * Plays new seeds from `first` on. In between it replays seeds that have reached new pairs of a state and an event,
 * under other faults; `variation` names which. Calls `tell` every five seconds.
 */
export async function explore(
  first: number,
  { isOver, tell }: { isOver: () => boolean; tell: (exploration: Exploration) => void },
): Promise<Exploration> {
  const coverage = new Coverage();
  const all: Exploration = { sessions: 0, counts: {}, failed: [], seconds: 0, kept: 0, coverage };
  const kept: { seed: number; variations: number }[] = [];
  const began = real.now();
  let told = began;
  for (let next = first, turn = 0; !isOver(); turn++) {
    const again = turn % 2 && kept.length ? kept[(turn * 7_919) % kept.length] : undefined;
    const [seed, variation] = again ? [again.seed, ++again.variations] : [next++, 0];
    const before = coverage.pairs;
    const report = await playFast(draw(seed, variation), coverage);
    all.sessions++;
    add(all.counts, report.counts);
    if (report.faults.length) all.failed.push({ seed, variation, faults: report.faults });
    if (coverage.pairs > before && !again) all.kept = kept.push({ seed, variations: 0 });
    all.seconds = (real.now() - began) / 1000;
    if (real.now() - told < 5_000) continue;
    told = real.now();
    tell(all);
  }
  return all;
}

export { draw, play };
export { playedBySeeds, smallestOf } from "./by-seeds.ts";
export { hours } from "./expiring.ts";
export { onModel, onReal } from "./conformance.ts";
export { replicationOnModel, replicationOnReal, scripts as replicationScripts } from "./replication-conformance.ts";
