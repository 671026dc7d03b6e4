// Runs many simulated sessions of clusters, one after the other, and finds the smallest one that fails.
//
// Knows seeds. Must not know what a session does.
import { real } from "../patches.ts";
import { drawCluster, smallerClusters, type ClusterProgram } from "./program.ts";
import { playCluster, type ClusterReport } from "./session.ts";

export interface ClusterTally {
  sessions: number;
  calls: number;
  disturbed: number;
  promotions: number;
  /** The number of acknowledged writes that promotions have lost. */
  lost: number;
  routes: Record<string, number>;
  failed: { seed: number; faults: string[] }[];
  seconds: number;
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

const playFast = (program: ClusterProgram): Promise<ClusterReport> => withoutStacks(() => playCluster(program));

export async function clusterCampaign(
  seeds: Iterable<number>,
  {
    isOver = () => false,
    each = () => {},
  }: { isOver?: () => boolean; each?: (report: ClusterReport, seed: number) => void } = {},
): Promise<ClusterTally> {
  const counts = { sessions: 0, calls: 0, disturbed: 0, promotions: 0, lost: 0, seconds: 0 };
  const tally: ClusterTally = { ...counts, routes: {}, failed: [] };
  const began = real.now();
  for (const seed of seeds) {
    if (isOver()) break;
    const report = await playFast(drawCluster(seed));
    tally.sessions++;
    for (const name of ["calls", "disturbed", "promotions", "lost"] as const) tally[name] += report[name];
    for (const [reason, count] of Object.entries(report.routes))
      tally.routes[reason] = (tally.routes[reason] ?? 0) + count;
    if (report.faults.length) tally.failed.push({ seed, faults: report.faults });
    each(report, seed);
    tally.seconds = (real.now() - began) / 1_000;
  }
  return tally;
}

/** Returns the smallest program that fails as this one does. */
export const shrunkCluster = (program: ClusterProgram, tries = 300): Promise<ClusterProgram> =>
  smallest(program, smallerClusters, async (one) => (await playFast(one)).faults, tries);

/** Returns the smallest program with the same kind of fault. */
export async function smallest<Program>(
  program: Program,
  smaller: (program: Program) => Iterable<Program>,
  faultsOf: (program: Program) => Promise<readonly string[]>,
  tries: number,
): Promise<Program> {
  const wanted = kindOf(await faultsOf(program));
  let least = program;
  for (let isSmaller = true; isSmaller && tries > 0;) {
    isSmaller = false;
    for (const candidate of smaller(least)) {
      if (tries-- <= 0) break;
      if (kindOf(await faultsOf(candidate)) !== wanted) continue;
      least = candidate;
      isSmaller = true;
      break;
    }
  }
  return least;
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

export { drawCluster, playCluster };
