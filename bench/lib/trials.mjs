// Interleaved trials of contestants, and what the project wants of their costs.
//
// A contestant is `{ key, library, runtime, ask }`: one library on one runtime in its own process. A trial's CPU is the
// process's own less what it needs when idle.
import { median, shuffled, summary } from "./statistics.mjs";

/**
 * `trials` rounds in random order behind one warm-up round: key -> samples `{ cpu, wall, …answer }` in milliseconds.
 * `request` is for all, or gives each its own; `verify` gets each answer, the warm-up's too, and throws when it is
 * wrong. `idle: 0` where the process has nothing to do but the work: then there is nothing to take off.
 */
export async function interleaved(contestants, request, trials, verify, { idle: rest = 100 } = {}) {
  const samples = new Map(contestants.map(({ key }) => [key, []]));
  for (let trial = -1; trial < trials; trial++) {
    for (const contestant of shuffled(contestants)) {
      const idle = rest ? await contestant.ask({ idle: rest }) : { cpu_ms: 0, wall_ms: 1 };
      const got = await contestant.ask(typeof request === "function" ? request(contestant) : request);
      verify(contestant, got);
      if (trial < 0) continue; // warm-up
      samples
        .get(contestant.key)
        .push({ ...got, cpu: Math.max(0, got.cpu_ms - (idle.cpu_ms / idle.wall_ms) * got.wall_ms), wall: got.wall_ms });
    }
  }
  return samples;
}

/** Result rows of one contestant: `metrics` maps a name to `[unit, sample -> value]`. */
export function resultRows({ library, runtime }, shape, config, samples, metrics) {
  return Object.entries(metrics).map(([metric, [unit, value]]) => ({
    shape,
    library,
    runtime,
    config,
    metric,
    unit,
    ...summary(samples.map(value)),
  }));
}

export const cost = (samples, key) => median(samples.get(key).map(({ cpu }) => cpu));

/**
 * Says what share of a peer's CPU ours is, and gives `[failure]` or `[]`. `forms`: the peer's keys, of which the
 * cheapest counts; those that were not measured are left out, and a peer without any is not compared. Without `share`
 * it only says.
 */
export function compareCpu(samples, shape, ours, peer, forms, share) {
  const measured = forms.filter((form) => samples.has(form));
  if (!samples.has(ours) || measured.length === 0) return [];
  const found = cost(samples, ours) / Math.min(...measured.map((form) => cost(samples, form)));
  console.log(
    `${shape}: ${ours} needs ${part(found)} of the CPU of ${peer}${share ? ` (to reach: ${part(share)})` : ""}`,
  );
  return found > share ? [`${shape}: ${ours} needs ${part(found)} of the CPU of ${peer}, to reach ${part(share)}`] : [];
}

/**
 * Says how many times a peer's `value` (sample -> number, less is better) ours is, and gives `[failure]` or `[]`:
 * `wanted` has to be reached, if given. `peers` as in {@link compareCpu}.
 */
export function compareSpeed(samples, shape, ours, peer, peers, value, wanted) {
  const measured = peers.filter((form) => samples.get(form)?.length);
  if (!samples.get(ours)?.length || measured.length === 0) return [];
  const found =
    Math.min(...measured.map((form) => median(samples.get(form).map(value)))) / median(samples.get(ours).map(value));
  console.log(
    `${shape}: ${ours} has ${found.toFixed(2)} times the speed of ${peer}${wanted ? ` (to reach: ${wanted})` : ""}`,
  );
  return found < wanted
    ? [`${shape}: ${ours} has ${found.toFixed(2)} times the speed of ${peer}, to reach ${wanted}`]
    : [];
}

const part = (share) => (share < 0.75 ? `1/${(1 / share).toFixed(1).replace(".0", "")}` : share.toFixed(2));

/** Ours may need this share of the cheaper form of postgres.js and of pg, when rows become NDJSON. */
export const ndjsonShare = (shape) => ({ mixed_5col: 1 / 7, dense_escapes: 1 / 4 })[shape] ?? 1 / 8;
