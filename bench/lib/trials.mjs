// Runs interleaved trials of contestants, and compares their costs with the project's goals.
//
// A contestant is `{ key, library, runtime, ask }`: one library on one runtime in its own process. A trial's CPU time
// is that of the process, minus its idle CPU time.
import { median, shuffled, summary } from "./statistics.mjs";

/**
 * Runs one warm-up round and then `trials` rounds, each in random order. Returns key -> samples `{ cpu, wall, …answer
 * }` in milliseconds. `request` is one request for all, or a function of the contestant. `verify` is called with each
 * answer, also those of the warm-up, and throws when one is wrong. Pass `idle: 0` when the process does nothing but the
 * work: then nothing is subtracted.
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

/** Returns the result rows of one contestant. `metrics` maps a name to `[unit, sample -> value]`. */
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
 * Prints our CPU as a share of a peer's, and returns `[failure]` or `[]`. `forms` are the peer's keys, of which the
 * cheapest counts. Forms that were not measured are left out, and a peer without any is not compared. Without `share`
 * it only prints.
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
 * Prints our speed as a multiple of a peer's, by `value` (sample -> number, less is better), and returns `[failure]` or
 * `[]`: `wanted`, if given, must be reached. `peers` as in {@link compareCpu}.
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

/** The share that ours may need of the CPU of the cheaper form of postgres.js and of pg, when rows become NDJSON. */
export const ndjsonShare = (shape) => ({ mixed_5col: 1 / 7, dense_escapes: 1 / 4 })[shape] ?? 1 / 8;
