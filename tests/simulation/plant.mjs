// Puts faults into the driver, one at a time, and reports after how many simulated sessions each was found:
//
//   node tests/simulation/plant.mjs                 the faults of planted.mjs, at most ten minutes each
//   MINUTES=1 ONLY=maxConnecting node …             the faults whose name contains this word
//   DRAWN=20 DRAW=7 node …                          twenty faults of the mutation tool, drawn by seed 7 over js/
//   PART=2/3 DRAWN=20 node …                        every third fault, from the second on: one core of three
//   SURVIVED=.cache/mutants/stryker.json node …     the faults that survived in this report of Stryker
//
// A fault of js/cluster is searched with sessions of clusters, one of js/cache with those of the cache.
//
// Run by hand: the first run fetches the mutation tool from npm (tests/mutants). The last line counts.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath, pathToFileURL } from "node:url";
import { differences } from "./costs.mjs";
import { bundled } from "./load.mjs";
import { drawn, survivors } from "./mutants.mjs";
import { planted } from "./planted.mjs";

const { env } = process;
const minutes = Number(env.MINUTES ?? 10);

if (env.SIMULATION) await find(env.SIMULATION);
else await all();

async function all() {
  const [part, parts] = (env.PART ?? "1/1").split("/").map(Number);
  const faults = (await chosen()).filter((_, at) => at % parts === part - 1);
  let count = 0;
  for (const fault of faults) {
    const outcome = await tried(fault);
    if (outcome.isFound) count++;
    console.log(`${outcome.isFound ? "found" : "NOT FOUND"} | ${fault.name} | ${outcome.text}`);
  }
  console.log(`${count} of ${faults.length} found`);
}

async function chosen() {
  if (env.DRAWN) return drawn(Number(env.DRAWN), Number(env.DRAW ?? 1));
  if (env.SURVIVED) return survivors(JSON.parse(readFileSync(env.SURVIVED, "utf8")));
  const stale = planted.filter(({ file, from }) => textOf(file).split(from).length !== 2);
  if (stale.length) throw new Error(`their place is no more: ${stale.map(({ name }) => name).join("; ")}`);
  return planted.filter(({ name }) => name.includes(env.ONLY ?? ""));
}

function textOf(file) {
  return readFileSync(new URL(`../../${file}`, import.meta.url), "utf8");
}

/** Runs in a process of its own, because the driver with the fault may do anything. */
async function tried(fault) {
  let file;
  try {
    file = await bundled((name, text) => edited(fault, name, text), `planted-${process.pid}`);
  } catch (error) {
    return { isFound: true, text: `does not compile: ${String(error).split("\n")[0]}` };
  }
  const { stdout, status, signal } = spawnSync(process.execPath, [fileURLToPath(import.meta.url)], {
    env: { ...env, SIMULATION: file, GAME: /^js\/(cluster|cache)\//.exec(fault.file)?.[1] ?? "" },
    encoding: "utf8",
    timeout: minutes * 60_000 + 60_000,
    stdio: ["ignore", "pipe", "ignore"],
    maxBuffer: 1 << 28,
  });
  const last = stdout.trim().split("\n").at(-1);
  if (last?.startsWith("{")) return JSON.parse(last);
  return { isFound: true, text: `the process ended with ${signal ?? status}` };
}

function edited({ file, from, to, start, end }, name, text) {
  if (name !== file) return text;
  if (from === undefined) return text.slice(0, start) + to + text.slice(end);
  if (text.split(from).length !== 2) throw new Error(`${file} does not have this once: ${from}`);
  return text.replace(from, () => to);
}

async function find(file) {
  const simulation = await import(pathToFileURL(file).href);
  const until = performance.now() + minutes * 60_000;
  let failed;
  const seeds = (function* () {
    for (let seed = 1; !failed; seed++) yield seed;
  })();
  const listener = {
    isOver: () => performance.now() > until,
    each: ({ faults }, seed) => void (failed ??= faults.length ? { seed, faults } : undefined),
  };
  const { games, playedBySeeds } = simulation;
  const game = { cluster: games.clusters, cache: games.caches }[env.GAME] ?? games.sessions;
  if (game === games.sessions) {
    // As in check.mjs, the costs of quiet sessions are compared too.
    const [differing] = await differences(simulation);
    if (differing) failed = { seed: Number(/\d+/.exec(differing)[0]), faults: [differing] };
  }
  const tally = await playedBySeeds(game, seeds, listener);
  const took = `${tally.sessions} sessions, ${tally.seconds.toFixed(1)} s`;
  const why = failed ? `, seed ${failed.seed}: ${failed.faults[0].split("\n")[0].slice(0, 100)}` : "";
  console.log(`\n${JSON.stringify({ isFound: failed !== undefined, text: took + why })}`);
  process.exit(0);
}
