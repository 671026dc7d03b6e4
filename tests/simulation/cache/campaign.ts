// Runs many simulated sessions of the cache, one after the other, and finds the smallest one that fails.
//
// Knows seeds. Must not know what a session does.
import { smallest, withoutStacks } from "../cluster/campaign.ts";
import { real } from "../patches.ts";
import { drawCache, smallerCaches, type CacheProgram } from "./program.ts";
import { playCache, type CacheReport } from "./session.ts";

export interface CacheTally {
  sessions: number;
  counts: Record<string, number>;
  failed: { seed: number; faults: string[] }[];
  seconds: number;
}

const playFast = (program: CacheProgram): Promise<CacheReport> => withoutStacks(() => playCache(program));

export async function cacheCampaign(
  seeds: Iterable<number>,
  {
    isOver = () => false,
    each = () => {},
  }: { isOver?: () => boolean; each?: (report: CacheReport, seed: number) => void } = {},
): Promise<CacheTally> {
  const tally: CacheTally = { sessions: 0, counts: {}, failed: [], seconds: 0 };
  const began = real.now();
  for (const seed of seeds) {
    if (isOver()) break;
    const report = await playFast(drawCache(seed));
    tally.sessions++;
    for (const [name, count] of Object.entries(report.counts)) tally.counts[name] = (tally.counts[name] ?? 0) + count;
    if (report.faults.length) tally.failed.push({ seed, faults: report.faults });
    each(report, seed);
    tally.seconds = (real.now() - began) / 1_000;
  }
  return tally;
}

/** Returns the smallest program that fails as this one does. */
export const shrunkCache = (program: CacheProgram, tries = 400): Promise<CacheProgram> =>
  smallest(program, smallerCaches, async (one) => (await playFast(one)).faults, tries);

export { drawCache, playCache };
