// The simulator's part of `make test`, on one core:
//
//   3,000 sessions by seeds that never change, 1,000 by the day's seeds: FIXED from FIRST on, OF_THE_DAY after AFTER
//   programs that failed once, each reduced as far as possible (found.json; the faults are fixed)
//   150 clusters of a primary and its standbys by fixed seeds, 50 by the day's: CLUSTERS (cluster/)
//   30 sessions of pgz-edge/cache by fixed seeds, 10 by the day's: CACHES (cache/)
//   hours in which logins expire (expiring.ts)
//   what quiet sessions cost on the wire (costs.mjs)
//   the same seed twice in this process, and once in another one: the same trace, byte for byte
//   an error of the simulator itself ends it with status 1
//
// The last line is `N passed, M failed`. With SIMULATION (the path of the bundle) this program is that other process,
// which prints the hashes of its traces and the costs that differ.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { differences } from "./costs.mjs";
import { bundled } from "./load.mjs";

const { env } = process;
const FIRST = Number(env.FIRST ?? 1);
const FIXED = Number(env.FIXED ?? 3_000);
const OF_THE_DAY = Number(env.OF_THE_DAY ?? 1_000);
const AFTER = Number(env.AFTER ?? 0);
/** The number of cluster sessions by fixed seeds. A third as many run by the day's seeds. */
const CLUSTERS = Number(env.CLUSTERS ?? 150);
/** The same for sessions of the cache. */
const CACHES = Number(env.CACHES ?? 30);
/** The number of sessions that are played again to compare their traces. */
const AGAIN = { sessions: 60, clusters: 10, caches: 2 };

const file = env.SIMULATION ?? (await bundled());
const simulation = await import(pathToFileURL(file).href);
const found = JSON.parse(readFileSync(new URL("found.json", import.meta.url), "utf8"));
const { games, hours, play, playedBySeeds, smallestOf } = simulation;

/** For each of the first seeds, the hash of everything that was sent, received, called and reported. */
async function fingerprints() {
  const all = [];
  for (const [name, count] of Object.entries(AGAIN)) {
    const { draw, play } = games[name];
    for (let seed = 1; seed <= count; seed++) all.push((await play(draw(seed))).fingerprint);
  }
  return all;
}

if (env.SIMULATION) {
  // The cost of a session depends on the sessions before it, as its trace does. Here these are always the same.
  console.log(JSON.stringify({ traces: await fingerprints(), costs: await differences(simulation) }));
  process.exit(0);
}

const counts = { passed: 0, failed: 0 };
// This comes first because the driver remembers the types of 100 servers and then forgets all of them (MOST_CATALOGS).
// After the sessions of a day that may happen between two connections of one session, whose first runs then check other
// types.
const first = await fingerprints();
check("the same trace again in this process", differing(first, await fingerprints()));
const { traces, costs } = elsewhere();
check("the same trace in another process", differing(first, traces));
check("what quiet sessions cost", costs);
check("an error between two sessions ends the process", unnoticed());
const day = Math.floor(Date.now() / 86_400_000);
await byFixedSeeds("sessions", FIXED);
await byFixedSeeds("clusters", CLUSTERS);
await byFixedSeeds("caches", CACHES, ofAllKinds);
await bySeedsOfTheDay("sessions", OF_THE_DAY);
await bySeedsOfTheDay("clusters", OF_THE_DAY ? Math.ceil(CLUSTERS / 3) : 0);
await bySeedsOfTheDay("caches", OF_THE_DAY ? Math.ceil(CACHES / 3) : 0);
for (const { name, program } of found) check(name, (await play(program)).faults);
for (const { name, run } of hours) check(`an hour of ${name}`, await run());
console.log(`${counts.passed} passed, ${counts.failed} failed`);
process.exit(counts.failed ? 1 : 0);

function byFixedSeeds(game, count, also) {
  return bySeeds(game, `${game} by seeds ${FIRST} to ${FIRST + count - 1}`, FIRST, count, also);
}

function bySeedsOfTheDay(game, count) {
  return bySeeds(game, `${game} by seeds of the day`, day * 10_000 + AFTER, count);
}

/** `also`: returns what else is wrong, by the counts of all. */
async function bySeeds(game, name, from, count, also = () => []) {
  const seeds = Array.from({ length: count }, (_, at) => from + at);
  const { sessions, counts, failed, seconds } = await playedBySeeds(games[game], seeds);
  console.log(`[simulation] ${name}: ${(sessions / seconds).toFixed(1)} a second, ${JSON.stringify(counts)}`);
  check(name, [
    ...failed.map(({ seed, faults }) => `${games[game].variable}=${seed}: ${faults.join("\n")}`),
    ...also(counts),
  ]);
  if (!failed.length) return;
  const least = await smallestOf(games[game], games[game].draw(failed[0].seed));
  console.log(JSON.stringify({ name: failed[0].faults[0].split("\n")[0], program: least }));
}

/** The seeds that never change must reach all of it. */
function ofAllKinds(counts) {
  const never = Object.entries(counts).filter(([, count]) => !count);
  return CACHES < 30 ? [] : never.map(([what]) => `the count of "${what}" is 0`);
}

function check(name, faults) {
  console.log(`[simulation] ${faults.length ? "FAILED" : "passed"} ${name}`);
  for (const fault of faults.slice(0, 5)) console.log(fault);
  counts[faults.length ? "failed" : "passed"]++;
}

function differing(some, others) {
  return some.flatMap((one, at) => (one === others[at] ? [] : [`seed ${at + 1}: ${one} and ${others[at]}`]));
}

function unnoticed() {
  const program = `import { draw, play } from ${JSON.stringify(pathToFileURL(file).href)};
    await play(draw(1));
    throw new Error("planted");`;
  const { status, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", program], { encoding: "utf8" });
  return status === 1 && stderr.includes("planted") ? [] : [`status ${status}: ${stderr}`];
}

function elsewhere() {
  const here = fileURLToPath(import.meta.url);
  const { stdout } = spawnSync(process.execPath, [here], { env: { ...env, SIMULATION: file }, encoding: "utf8" });
  return JSON.parse(stdout.trim().split("\n").at(-1));
}
