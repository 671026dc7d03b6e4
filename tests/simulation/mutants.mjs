// Changes of the mutation tool for plant.mjs: drawn by a seed, over the places of js/ that simulated sessions run through.
//
// A change of a place that no session comes to says nothing of what sessions notice. So the tool's own counters are put
// into the driver once, and 300 sessions say which changes they would meet. Knows Stryker's instrumenter. Must not know
// how a change is tried.
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { installStryker } from "../mutants/install.mjs";
import { bundled } from "./load.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const ROOMS = ["js/api", "js/connection", "js/pool", "js/session", "js/statement"];
const SURVEY = 300;

if (process.env.SURVEY) await survey(process.env.SURVEY);

/** `{ name, file, start, end, to }` of so many changes, none of them twice. */
export async function drawn(count, seed) {
  const contents = contentsOf(ROOMS.flatMap(filesOf));
  const { files, mutants } = await instrumented(contents);
  const texts = new Map(files.map(({ name, content }) => [name, content]));
  const file = await bundled((name, text) => texts.get(name) ?? text, `surveyed-${process.pid}`);
  const met = metBy(file);
  const left = mutants.filter(({ id }) => met.has(id));
  let state = seed;
  const dice = (below) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % below;
  return Array.from({ length: count }, () => faultOf(left.splice(dice(left.length), 1)[0], contents));
}

/** Of the changes that `make mutants` tells of in this output, those that its tests have not noticed. */
export async function survivors(output) {
  const told = [...output.matchAll(/^\[(?:Survived|NoCoverage)\] (\w+)\n(\S+):(\d+):(\d+)\n((?:[-+ ].*\n)*)/gm)];
  const contents = contentsOf([...new Set(told.map(([, , file]) => file))]);
  const { mutants } = await instrumented(contents);
  return told.flatMap(([, mutator, file, line, column, shown]) => {
    const isThere = ({ fileName, location: { start }, mutatorName }) =>
      fileName === file && mutatorName === mutator && start.line === line - 1 && start.column === column - 1;
    const faults = mutants.filter(isThere).map((mutant) => faultOf(mutant, contents));
    return faults.find((fault) => isShown(fault, contents.get(file), Number(line), shown)) ?? faults.slice(0, 1);
  });
}

/** Whether the text with this change begins, in this line, as the output shows it. */
function isShown({ start, end, to }, text, line, shown) {
  const changed = (text.slice(0, start) + to + text.slice(end)).split("\n")[line - 1].trim();
  const added = /^\+(.*)$/m.exec(shown)?.[1].trim();
  return added === changed;
}

export function contentsOf(files) {
  return new Map(files.map((name) => [name, readFileSync(path.join(root, name), "utf8")]));
}

/** Of a folder, or a file by itself: `js/session`, `js/session/told.ts`. */
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

/** The numbers of the changes that sessions come to. */
function metBy(file) {
  const { stdout } = spawnSync(process.execPath, [fileURLToPath(import.meta.url)], {
    env: { ...process.env, SURVEY: file },
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
    maxBuffer: 1 << 28,
  });
  return new Set(JSON.parse(stdout.trim().split("\n").at(-1)));
}

async function survey(file) {
  const { campaign } = await import(pathToFileURL(file).href);
  // What runs while the modules load is met by everybody.
  globalThis.__stryker__.mutantCoverage.static = {};
  await campaign(Array.from({ length: SURVEY }, (_, at) => at + 1));
  console.log(`\n${JSON.stringify(Object.keys(globalThis.__stryker__.mutantCoverage.static))}`);
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
