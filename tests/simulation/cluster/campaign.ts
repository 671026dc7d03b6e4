// Runs many simulated sessions of clusters, one after the other, and finds the smallest one that fails.
//
// Knows what is counted. Must not know what a session does.
import { playedBySeeds, smallestOf, type Listener, type Played } from "../by-seeds.ts";
import { drawCluster, smallerClusters, type ClusterProgram } from "./program.ts";
import { playCluster, type ClusterReport } from "./session.ts";

export interface ClusterTally extends Played {
  calls: number;
  disturbed: number;
  promotions: number;
  /** The number of acknowledged writes that promotions have lost. */
  lost: number;
  routes: Record<string, number>;
}

const KIND = { draw: drawCluster, play: playCluster, smaller: smallerClusters };

export async function clusterCampaign(
  seeds: Iterable<number>,
  listener: Listener<ClusterReport> = {},
): Promise<ClusterTally> {
  const counts = { calls: 0, disturbed: 0, promotions: 0, lost: 0 };
  const routes: Record<string, number> = {};
  const played = await playedBySeeds(KIND, seeds, {
    ...listener,
    each: (report, seed) => {
      for (const name of ["calls", "disturbed", "promotions", "lost"] as const) counts[name] += report[name];
      for (const [reason, count] of Object.entries(report.routes)) routes[reason] = (routes[reason] ?? 0) + count;
      listener.each?.(report, seed);
    },
  });
  return { ...played, ...counts, routes };
}

/** Returns the smallest program that fails as this one does. */
export const shrunkCluster = (program: ClusterProgram, tries = 300): Promise<ClusterProgram> =>
  smallestOf(KIND, program, tries);

export { drawCluster, playCluster };
