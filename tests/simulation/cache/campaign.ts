// Runs many simulated sessions of the cache, one after the other, and finds the smallest one that fails.
//
// Knows what is counted. Must not know what a session does.
import { playedBySeeds, smallestOf, type Listener, type Played } from "../by-seeds.ts";
import { drawCache, smallerCaches, type CacheProgram } from "./program.ts";
import { playCache, type CacheReport } from "./session.ts";

export interface CacheTally extends Played {
  readonly counts: Record<string, number>;
}

const KIND = { draw: drawCache, play: playCache, smaller: smallerCaches };

export async function cacheCampaign(
  seeds: Iterable<number>,
  listener: Listener<CacheReport> = {},
): Promise<CacheTally> {
  const counts: Record<string, number> = {};
  const played = await playedBySeeds(KIND, seeds, {
    ...listener,
    each: (report, seed) => {
      for (const [name, count] of Object.entries(report.counts)) counts[name] = (counts[name] ?? 0) + count;
      listener.each?.(report, seed);
    },
  });
  return { ...played, counts };
}

/** Returns the smallest program that fails as this one does. */
export const shrunkCache = (program: CacheProgram, tries = 400): Promise<CacheProgram> =>
  smallestOf(KIND, program, tries);

export { drawCache, playCache };
