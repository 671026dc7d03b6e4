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
const { explore, games, playedBySeeds, smallestOf } = await loaded();
const { SEED, VARIATION = 0, CLUSTER, CLUSTERS, CACHE, CACHES, MINUTES = 1 } = env;

if (SEED !== undefined) await one(games.sessions, SEED);
else if (CLUSTER !== undefined) await one(games.clusters, CLUSTER);
else if (CACHE !== undefined) await one(games.caches, CACHE);
else if (CLUSTERS) await many(games.clusters);
else if (CACHES) await many(games.caches);
else await ledByCoverage();

async function one(game, seed) {
  const program = game.draw(Number(seed), Number(VARIATION));
  const { lines, faults } = await game.play(program, true);
  console.log(`${JSON.stringify(program, undefined, 2)}\n${lines.join("\n")}`);
  for (const fault of faults) console.log(`FAULT: ${fault}`);
  if (faults.length) await tellSmallest(game, program, faults);
  process.exit(faults.length ? 1 : 0);
}

async function many(game) {
  const seeds = (function* () {
    for (let seed = first(); ; seed++) yield seed;
  })();
  const { failed, ...all } = await playedBySeeds(game, seeds, { isOver: clock() });
  for (const { seed, faults } of failed.slice(0, 20)) console.log(`${game.variable}=${seed}: ${faults.join("\n")}`);
  if (failed.length) await tellSmallest(game, game.draw(failed[0].seed), failed[0].faults);
  console.log(JSON.stringify({ ...all, failed: failed.length }));
  process.exit(failed.length ? 1 : 0);
}

function first() {
  return Number(env.FIRST ?? (Date.now() % 1_000_000) * 1_000);
}

/** Returns a function that tells whether the minutes are over. */
function clock() {
  const until = performance.now() + Number(MINUTES) * 60_000;
  return () => performance.now() > until;
}

/** A line of found.json. The fault becomes the name of what must hold. */
async function tellSmallest(game, program, [fault]) {
  console.log(JSON.stringify({ name: fault.split("\n")[0], program: await smallestOf(game, program) }));
}

async function ledByCoverage() {
  const all = await explore(first(), { isOver: clock(), tell: progress });
  for (const { seed, variation, faults } of all.failed.slice(0, 20))
    console.log(`SEED=${seed} VARIATION=${variation}: ${faults.join("\n")}`);
  const [failed] = all.failed;
  if (failed) await tellSmallest(games.sessions, games.sessions.draw(failed.seed, failed.variation), failed.faults);
  tellCoverage(all.coverage);
  progress(all);
  process.exit(failed ? 1 : 0);
}

function tellCoverage(coverage) {
  for (const { machine, states, events, pairs, missing } of coverage.report()) {
    console.log(`${machine}: ${states} states, ${events} events, ${pairs} pairs reached, ${missing.length} not`);
    if (env.PAIRS) console.log(missing.map((pair) => `  ${pair}`).join("\n"));
  }
}

function progress({ sessions, counts: { calls, events, disturbed }, failed, kept, coverage, seconds }) {
  const rate = (sessions / seconds).toFixed(0);
  console.log(
    `${sessions} sessions (${rate} a second), ${calls} calls, ${events} events, ${disturbed} disturbances, ` +
      `${coverage.pairs} pairs, ${kept} seeds kept, ${failed.length} failed`,
  );
}
