// Simulated sessions by hand:
//
//   node tests/simulation/run.mjs              sessions for a minute, the first seed from the clock
//   MINUTES=60 node tests/simulation/run.mjs   sessions for an hour
//   SEED=7 node tests/simulation/run.mjs       one session: its program, its timeline, what did not hold
//   SEED=7 VARIATION=3 node …                  the same users under other faults
//   CLUSTER=7 node …                           one session of a cluster, and its smallest program if it fails
//   CLUSTERS=1 MINUTES=60 node …               sessions of clusters for an hour
//   CACHE=7, CACHES=1                          the same with sessions of pgz-edge/cache
//
// Coverage leads: seeds that reach new pairs of a state and an event are played again under other faults. In the end
// the pairs that no seed has reached are counted (PAIRS=1 prints them). A seed that fails is printed with what did not
// hold, and the first failing seed also as its smallest program. The last line counts. Nothing here touches a real
// socket. pkg/ must exist (`scripts/build`).
import { loaded } from "./load.mjs";

const { env } = process;
const { explore, draw, play, shrunk, asFound, ...others } = await loaded();
const { clusterCampaign, drawCluster, playCluster, shrunkCluster } = others;
const { cacheCampaign, drawCache, playCache, shrunkCache } = others;
const CLUSTER = {
  name: "CLUSTER",
  campaign: clusterCampaign,
  draw: drawCluster,
  play: playCluster,
  shrunk: shrunkCluster,
};
const CACHE = { name: "CACHE", campaign: cacheCampaign, draw: drawCache, play: playCache, shrunk: shrunkCache };

if (env.CLUSTER !== undefined) await one(CLUSTER, Number(env.CLUSTER));
else if (env.CACHE !== undefined) await one(CACHE, Number(env.CACHE));
else if (env.CLUSTERS) await manyForMinutes(CLUSTER, Number(env.MINUTES ?? 1));
else if (env.CACHES) await manyForMinutes(CACHE, Number(env.MINUTES ?? 1));
else if (env.SEED !== undefined) await again(Number(env.SEED), Number(env.VARIATION ?? 0));
else await forMinutes(Number(env.MINUTES ?? 1));

async function again(seed, variation) {
  const program = draw(seed, variation);
  const report = await play(program, true);
  console.log(JSON.stringify(program, undefined, 2));
  console.log(report.lines.join("\n"));
  for (const fault of report.faults) console.log(`FAULT: ${fault}`);
  if (report.faults.length) await tellLeast(program);
  process.exit(report.faults.length ? 1 : 0);
}

async function one(kind, seed) {
  const program = kind.draw(seed);
  const { lines, faults } = await kind.play(program, true);
  console.log(`${JSON.stringify(program, undefined, 2)}\n${lines.join("\n")}`);
  for (const fault of faults) console.log(`FAULT: ${fault}`);
  if (faults.length) console.log(JSON.stringify(await kind.shrunk(program)));
  process.exit(faults.length ? 1 : 0);
}

async function manyForMinutes({ name, campaign }, minutes) {
  const first = Number(env.FIRST ?? (Date.now() % 1_000_000) * 1_000);
  const until = performance.now() + minutes * 60_000;
  const seeds = (function* () {
    for (let seed = first; ; seed++) yield seed;
  })();
  const { failed, ...all } = await campaign(seeds, { isOver: () => performance.now() > until });
  for (const { seed, faults } of failed.slice(0, 20)) console.log(`${name}=${seed}: ${faults.join("\n")}`);
  console.log(JSON.stringify({ ...all, failed: failed.length }));
  process.exit(failed.length ? 1 : 0);
}

async function forMinutes(minutes) {
  const first = Number(env.FIRST ?? (Date.now() % 1_000_000) * 1_000);
  const until = performance.now() + minutes * 60_000;
  const all = await explore(first, { isOver: () => performance.now() > until, tell: progress });
  for (const { seed, variation, faults } of all.failed.slice(0, 20))
    console.log(`SEED=${seed} VARIATION=${variation}: ${faults.join("\n")}`);
  const [failed] = all.failed;
  if (failed) await tellLeast(draw(failed.seed, failed.variation));
  tellCoverage(all.coverage);
  progress(all);
  process.exit(failed ? 1 : 0);
}

async function tellLeast(program) {
  const least = await shrunk(program);
  console.log(asFound(least, (await play(least)).faults));
}

function tellCoverage(coverage) {
  for (const { machine, states, events, pairs, missing } of coverage.report()) {
    console.log(`${machine}: ${states} states, ${events} events, ${pairs} pairs reached, ${missing.length} not`);
    if (env.PAIRS) console.log(missing.map((pair) => `  ${pair}`).join("\n"));
  }
}

function progress({ sessions, calls, events, disturbed, failed, kept, coverage, seconds }) {
  const rate = (sessions / seconds).toFixed(0);
  console.log(
    `${sessions} sessions (${rate} a second), ${calls} calls, ${events} events, ${disturbed} disturbances, ` +
      `${coverage.pairs} pairs, ${kept} seeds kept, ${failed.length} failed`,
  );
}
