// Runs interleaved trials of contestants, and compares their costs with the project's goals.
//
// A contestant is `{ key, library, runtime, ask }`: one library on one runtime in its own process. A trial's CPU time
// is that of the process, minus its idle CPU time.
import { median, shuffled, summary } from "./statistics.mjs";

/**
 * Runs one warm-up round and then `trials` rounds, each in random order. Returns key -> samples `{ cpu, wall, config,
 * …answer }` in milliseconds. `request` is one request for all, or a function of the contestant. `verify` is called
 * with each answer, also those of the warm-up, and throws when one is wrong. Pass `idle: 0` when the process does
 * nothing but the work: then nothing is subtracted.
 */
export async function interleaved(contestants, request, trials, verify, { idle: rest = 100, config } = {}) {
  const samples = new Map(contestants.map(({ key }) => [key, []]));
  for (let trial = -1; trial < trials; trial++) {
    for (const contestant of shuffled(contestants)) {
      const idle = rest ? await contestant.ask({ idle: rest }) : { cpu_ms: 0, wall_ms: 1 };
      const got = await contestant.ask(typeof request === "function" ? request(contestant) : request);
      verify(contestant, got);
      if (trial < 0) continue; // warm-up
      const cpu = Math.max(0, got.cpu_ms - (idle.cpu_ms / idle.wall_ms) * got.wall_ms);
      const own = typeof config === "function" ? config(contestant) : config;
      samples.get(contestant.key).push({ ...got, cpu, wall: got.wall_ms, config: own });
    }
  }
  return samples;
}

/** Returns the result rows of one contestant. `metrics` maps a name to `[unit, sample -> value]`. */
export function resultRows({ library, runtime }, shape, config, samples, metrics) {
  return Object.entries(metrics).map(([metric, [unit, value]]) => ({
    ...{ shape, library, runtime, config, metric, unit },
    ...summary(samples.map(value)),
  }));
}

/**
 * Prints how many times less ours needs than a peer, and returns `[failure]` if that is below `wanted`, otherwise `[]`.
 * `peers` are keys, of which the best counts; those that were not measured are left out. `by`: "cpu", "wall" or sample
 * -> number, which `what` names.
 */
export function compare(title, samples, others, { ours, peers, by = "wall", what = by, wanted }) {
  const valueOf = typeof by === "function" ? by : (sample) => sample[by];
  const of = (found, key) => median(found.get(key).map(valueOf));
  const measured = peers.filter((key) => others.get(key)?.length);
  if (!samples.get(ours)?.length || measured.length === 0) return [];
  const [[least, peer]] = measured.map((key) => [of(others, key), key]).sort(([a], [b]) => a - b);
  const times = least / of(samples, ours);
  const said = `${title}: ${peer} needs ${times.toFixed(2)} times the ${what} of ${ours}`;
  console.log(wanted ? `${said} (to reach: ${wanted})` : said);
  return times < wanted ? [`${said}, to reach ${wanted}`] : [];
}

/** How many times the CPU of ours the better form of postgres.js and of pg is to need, when rows become NDJSON. */
export const ndjsonTimes = (shape) => ({ mixed_5col: 7, dense_escapes: 4 })[shape] ?? 8;
