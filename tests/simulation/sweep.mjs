// Which changes of the driver do simulated sessions not notice? Tries each change that the mutation tool makes in these
// files:
//
//   FILES="js/session js/statement" node tests/simulation/sweep.mjs
//
//   SESSIONS=40     maximum number of sessions for each change, all of which reach its place
//   SEEDS=1000      the number of seeds from which they are chosen
//   NOTICED=file    leaves out the changes in this file (tests/mutants/changes.mjs), which unit tests have noticed
//   ONLY=file       tries the changes in this file
//   CHANGES=500     tries that many changes, drawn by SEED
//
// All changes are in one bundle, and the tool's switch selects the active one, so that a change needs no build. A
// change that is noticed ends its process, and with it whatever the change has broken there. The last line counts.
//
// Knows Stryker's switch. Must not know what a session does.
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { changeOf, keyOf } from "../mutants/changes.mjs";
import { linesOf, say } from "./lines.mjs";
import { bundled } from "./load.mjs";
import { contentsOf, drawnFrom, faultOf, filesOf, instrumented, surveyed } from "./mutants.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const { env } = process;
const costs = JSON.parse(readFileSync(new URL("costs.json", import.meta.url), "utf8"));
const SESSIONS = Number(env.SESSIONS ?? 40);
const SEEDS = Number(env.SEEDS ?? 1_000);
const CHANGES = Number(env.CHANGES ?? Infinity);
const noticed = new Set(listed(env.NOTICED));
const only = new Set(listed(env.ONLY));
/** A session that reaches the changed place more often than this is in a loop: the tool throws there. */
const MOST_HITS = 1_000_000;

if (env.SWEEP) await tryAll(env.SWEEP, JSON.parse(readFileSync(env.SWEEP_WHAT, "utf8")));
else await sweep();

async function sweep() {
  const files = (env.FILES ?? "js/statement").split(/[ ,]+/).flatMap(filesOf);
  const contents = contentsOf(files);
  const { files: changed, mutants: all } = await instrumented(contents);
  const isLeft = (mutant) => {
    const key = keyOf(changeOf(mutant));
    return mutant.status !== "Ignored" && !noticed.has(key) && (only.size === 0 || only.has(key));
  };
  const mutants = drawnFrom(all.filter(isLeft), CHANGES, Number(env.SEED ?? 1));
  const texts = new Map(changed.map(({ name, content }) => [name, content]));
  const file = await bundled((name, text) => texts.get(name) ?? text, `sweep-${process.pid}`);
  const { atLoad, bySeed } = await surveyed(file, SEEDS);
  await checkUnchanged(file, [...bySeed.keys()].slice(0, SESSIONS));
  const tasks = mutants.map(({ id }) => ({ id, isAtLoad: atLoad.has(id), seeds: seedsOf(id, bySeed, atLoad) }));
  const outcomes = await tried(file, tasks);
  const unnoticed = mutants.filter(({ id }) => outcomes.get(id) === undefined);
  for (const mutant of unnoticed) {
    const isMet = tasks.find(({ id }) => id === mutant.id).seeds.length > 0;
    console.log(`${isMet ? "NOT NOTICED" : "not met"} | ${faultOf(mutant, contents).name}`);
  }
  if (noticed.size) console.log(`${noticed.size} are noticed by unit tests`);
  console.log(`${mutants.length - unnoticed.length} of ${mutants.length} are noticed by sessions`);
}

/** Returns the keys of the changes in a file (tests/mutants/changes.mjs). */
function listed(name) {
  return name ? JSON.parse(readFileSync(path.resolve(root, name), "utf8")).map(keyOf) : [];
}

/** Chooses sessions that reach the change: half of them quiet ones, whose costs are known, the other half disturbed. */
function seedsOf(id, bySeed, atLoad) {
  const quiet = [];
  const disturbed = [];
  for (const [seed, met] of bySeed) {
    const some = seed in costs ? quiet : disturbed;
    if (some.length < SESSIONS / 2 && (atLoad.has(id) || met.has(id))) some.push(seed);
  }
  return [...quiet, ...disturbed];
}

/** Checks that nothing is noticed without a change, since otherwise every change would seem to be noticed. */
async function checkUnchanged(file, seeds) {
  const outcomes = await tried(file, [{ id: "none", isAtLoad: false, seeds }]);
  if (outcomes.size) throw new Error(`noticed without a change: ${outcomes.get("none")}`);
}

/** Returns, by id, why a change was noticed. A change that was not noticed has no reason. */
async function tried(file, tasks) {
  const outcomes = new Map();
  const what = path.join(root, `.cache/simulation/sweep-${process.pid}.json`);
  const waiting = tasks.filter(({ seeds }) => seeds.length > 0);
  const total = waiting.length;
  while (waiting.length) {
    // A change that is active while the modules load gets its own process.
    const count = waiting[0].isAtLoad ? 1 : waiting.findIndex(({ isAtLoad }) => isAtLoad);
    const some = waiting.slice(0, count < 0 ? undefined : count);
    writeFileSync(what, JSON.stringify(some));
    const atLoad = some[0].isAtLoad ? { __STRYKER_ACTIVE_MUTANT__: some[0].id } : {};
    let unnoticed = 0;
    let fault;
    const end = await linesOf(import.meta.url, { SWEEP: file, SWEEP_WHAT: what, ...atLoad }, (line) => {
      fault = line.fault;
      if (fault === undefined) unnoticed++;
    });
    waiting.splice(0, unnoticed);
    const isNoticed = fault !== undefined || unnoticed < some.length;
    // After other changes the cause may be theirs: the change is tried again, as the first of the next process.
    if (isNoticed && unnoticed === 0) outcomes.set(waiting.shift().id, fault ?? end);
    const now = total - waiting.length;
    if (now % 50 === 0 || !waiting.length)
      process.stderr.write(`[sweep] ${now} of ${total}, ${outcomes.size} noticed\n`);
  }
  return outcomes;
}

/** Tries changes until one of them is noticed. */
async function tryAll(file, tasks) {
  const { playFast, draw } = await import(pathToFileURL(file).href);
  const tool = (globalThis.__stryker__ ??= {});
  const play = (seed) => {
    Object.assign(tool, { hitCount: 0, hitLimit: MOST_HITS });
    return playFast(draw(seed));
  };
  for (const { id, seeds } of tasks) {
    tool.activeMutant = id;
    const fault = await noticedIn(seeds, play);
    say({ fault });
    if (fault !== undefined) break;
  }
  process.exit(0);
}

/** Returns what is wrong with the first session that has a fault or other costs than before. */
async function noticedIn(seeds, play) {
  for (const seed of seeds) {
    const { faults, costs: now } = await play(seed);
    if (faults.length) return `seed ${seed}: ${faults[0].split("\n")[0]}`;
    if (seed in costs && costs[seed].join() !== now.join()) return `seed ${seed}: it costs ${now.join()}`;
  }
  return undefined;
}
