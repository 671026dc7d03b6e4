// Changes of the mutation tool for plant.mjs, drawn by a seed from the places of js/ that simulated sessions run
// through.
//
// A change in a place that no session reaches says nothing about what sessions notice. So the tool's own counters are
// put into the driver once, and 300 sessions tell which changes they would reach. Knows Stryker's instrumenter. Must
// not know how a change is tried.
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { changeOf, changesOf, isUnnoticed, keyOf } from "../mutants/changes.mjs";
import { installStryker } from "../mutants/install.mjs";
import { linesOf, say } from "./lines.mjs";
import { bundled } from "./load.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const ROOMS = ["js/api", "js/connection", "js/pool", "js/session", "js/statement"];
const SURVEY = 300;

if (process.env.SURVEY) await survey(process.env.SURVEY, Number(process.env.SESSIONS));

/** Returns `{ name, file, start, end, to }` of `count` distinct changes. */
export async function drawn(count, seed) {
  const contents = contentsOf(ROOMS.flatMap(filesOf));
  const { files, mutants } = await instrumented(contents);
  const texts = new Map(files.map(({ name, content }) => [name, content]));
  const file = await bundled((name, text) => texts.get(name) ?? text, `surveyed-${process.pid}`);
  const { bySeed } = await surveyed(file, SURVEY);
  const left = mutants.filter(({ id }) => [...bySeed.values()].some((met) => met.has(id)));
  return drawnFrom(left, count, seed).map((mutant) => faultOf(mutant, contents));
}

/** Returns `count` of these by a seed, or all if there are fewer. */
export function drawnFrom(all, count, seed) {
  if (all.length <= count) return all;
  const left = [...all];
  let state = seed;
  const dice = (below) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % below;
  return Array.from({ length: count }, () => left.splice(dice(left.length), 1)[0]);
}

/** Returns the changes in this report of Stryker that its tests have not noticed. */
export async function survivors(report) {
  const wanted = new Set(changesOf(report, isUnnoticed).map(keyOf));
  const contents = contentsOf(Object.keys(report.files));
  const { mutants } = await instrumented(contents);
  return mutants.filter((mutant) => wanted.has(keyOf(changeOf(mutant)))).map((mutant) => faultOf(mutant, contents));
}

export function contentsOf(files) {
  return new Map(files.map((name) => [name, readFileSync(path.join(root, name), "utf8")]));
}

/** Returns the files of a folder, or a file by itself: `js/session`, `js/session/learned.ts`. */
export function filesOf(what) {
  if (what.endsWith(".ts")) return [what];
  const names = readdirSync(path.join(root, what)).filter((name) => name.endsWith(".ts"));
  return names.map((name) => `${what}/${name}`);
}

export function faultOf({ fileName, location, replacement, mutatorName }, contents) {
  const text = contents.get(fileName);
  const [start, end] = [offsetOf(text, location.start), offsetOf(text, location.end)];
  const shown = text.slice(start, end).replace(/\s+/g, " ").slice(0, 60);
  const name = `${fileName}:${location.start.line + 1} ${mutatorName}: ${shown} -> ${replacement.slice(0, 40)}`;
  return { name, file: fileName, start, end, to: replacement };
}

function offsetOf(text, { line, column }) {
  let at = 0;
  for (let number = 0; number < line; number++) at = text.indexOf("\n", at) + 1;
  return at + column;
}

/**
 * Returns which changes these sessions reach, by seed, and which are reached while the modules load. Each set holds the
 * numbers that `instrumented` has assigned.
 */
export async function surveyed(file, sessions) {
  const bySeed = new Map();
  let atLoad = new Set();
  await linesOf(import.meta.url, { SURVEY: file, SESSIONS: sessions }, (line) => {
    if (line.atLoad) atLoad = new Set(line.atLoad);
    else bySeed.set(line.seed, new Set(line.met));
  });
  if (bySeed.size !== sessions) throw new Error(`the survey broke off after ${bySeed.size} sessions`);
  return { atLoad, bySeed };
}

async function survey(file, sessions) {
  const tool = (globalThis.__stryker__ = { mutantCoverage: { static: {}, perTest: {} } });
  const { playFast, draw } = await import(pathToFileURL(file).href);
  say({ atLoad: Object.keys(tool.mutantCoverage.static) });
  for (let seed = 1; seed <= sessions; seed++) {
    tool.mutantCoverage.static = {};
    await playFast(draw(seed));
    say({ seed, met: Object.keys(tool.mutantCoverage.static) });
  }
  process.exit(0);
}

export async function instrumented(contents) {
  const tool = path.join(root, "tests/mutants/node_modules/@stryker-mutator");
  installStryker();
  const from = (file) => import(pathToFileURL(path.join(tool, file)).href);
  const { createInstrumenter } = await from("instrumenter/dist/src/index.js");
  const { commonTokens } = await from("api/dist/src/plugin/index.js");
  const { createInjector } = await from("../typed-inject/dist/src/index.js");
  const quiet = { isTraceEnabled: () => false, isDebugEnabled: () => false };
  for (const level of ["trace", "debug", "info", "warn", "error", "fatal"]) quiet[level] = () => {};
  const instrumenter = createInjector().provideValue(commonTokens.logger, quiet).injectFunction(createInstrumenter);
  const sources = [...contents].map(([name, content]) => ({ name, content, mutate: true }));
  const options = { plugins: null, excludedMutations: ["StringLiteral"], ignorers: [], noHeader: false };
  return instrumenter.instrument(sources, options);
}
