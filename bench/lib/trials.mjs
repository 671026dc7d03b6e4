// Interleaved trials of contestants, and what the project wants of their costs.
//
// A contestant is `{ key, library, runtime, ask }`: one library on one runtime in its own process. A trial's CPU is the process's
// own less what it needs when idle.
import { median, shuffled, summary } from "./statistics.mjs";

/**
 * `trials` rounds in random order behind one warm-up round: key -> samples `{ cpu, wall, …answer }` in milliseconds. `request` is for
 * all, or gives each its own; `verify` gets each answer, the warm-up's too, and throws when it is wrong.
 */
export async function interleaved(contestants, request, trials, verify) {
  const samples = new Map(contestants.map(({ key }) => [key, []]));
  for (let trial = -1; trial < trials; trial++) {
    for (const contestant of shuffled(contestants)) {
      const idle = await contestant.ask({ idle: 100 });
      const got = await contestant.ask(typeof request === "function" ? request(contestant) : request);
      verify(contestant, got);
      if (trial < 0) continue; // warm-up
      samples.get(contestant.key).push({ ...got, cpu: Math.max(0, got.cpu_ms - (idle.cpu_ms / idle.wall_ms) * got.wall_ms), wall: got.wall_ms });
    }
  }
  return samples;
}

/** Result rows of one contestant: `metrics` maps a name to `[unit, sample -> value]`. */
export function resultRows({ library, runtime }, shape, config, samples, metrics) {
  return Object.entries(metrics).map(([metric, [unit, value]]) => ({ shape, library, runtime, config, metric, unit, ...summary(samples.map(value)) }));
}

export const cost = (samples, key) => median(samples.get(key).map(({ cpu }) => cpu));

/**
 * Says what share of a peer's CPU ours is, and gives `[failure]` or `[]`. `forms`: the peer's keys, of which the cheapest counts;
 * those that were not measured are left out, and a peer without any is not compared. Without `share` it only says.
 */
export function compareCpu(samples, shape, ours, peer, forms, share) {
  const measured = forms.filter((form) => samples.has(form));
  if (!samples.has(ours) || measured.length === 0) return [];
  const found = cost(samples, ours) / Math.min(...measured.map((form) => cost(samples, form)));
  console.log(`${shape}: ${ours} needs ${part(found)} of the CPU of ${peer}${share ? ` (to reach: ${part(share)})` : ""}`);
  return found > share ? [`${shape}: ${ours} needs ${part(found)} of the CPU of ${peer}, to reach ${part(share)}`] : [];
}

const part = (share) => (share < 0.75 ? `1/${(1 / share).toFixed(1).replace(".0", "")}` : share.toFixed(2));

/** Ours may need this share of the cheaper form of postgres.js and of pg, when rows become NDJSON. */
export const ndjsonShare = (shape) => (shape === "mixed_5col" ? 1 / 7 : 1 / 8);
