// Puts faults into the driver, one at a time, and says after how many simulated sessions each was found:
//
//   node tests/simulation/plant.mjs                 the twenty of planted.mjs, ten minutes each at most
//   MINUTES=1 ONLY=maxConnecting node …             those whose name has this word
//   DRAWN=20 DRAW=7 node …                          as many drawn by a seed from the mutation tool, over js/
//
// By hand: the mutation tool comes from npm with the first run (tests/mutants). The last line counts.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { bundled } from "./load.mjs";
import { planted } from "./planted.mjs";

const { env } = process;
const here = fileURLToPath(new URL(".", import.meta.url));
const root = path.join(here, "../..");
const minutes = Number(env.MINUTES ?? 10);

if (env.SIMULATION) await find(env.SIMULATION);
else await all();

async function all() {
  const listed = env.DRAWN ? [] : planted.filter(({ name }) => name.includes(env.ONLY ?? ""));
  const faults = [...listed, ...(env.DRAWN ? await drawn(Number(env.DRAWN), Number(env.DRAW ?? 1)) : [])];
  let count = 0;
  for (const fault of faults) {
    const outcome = await tried(fault);
    if (outcome.isFound) count++;
    console.log(`${outcome.isFound ? "found" : "NOT FOUND"} | ${fault.name} | ${outcome.text}`);
  }
  console.log(`${count} of ${faults.length} found`);
}

/** In a process of its own: the driver with the fault may do anything. */
async function tried(fault) {
  let file;
  try {
    file = await bundled((name, text) => edited(fault, name, text), `planted-${process.pid}`);
  } catch (error) {
    return { isFound: true, text: `does not compile: ${String(error).split("\n")[0]}` };
  }
  const { stdout, status, signal } = spawnSync(process.execPath, [fileURLToPath(import.meta.url)], {
    env: { ...env, SIMULATION: file },
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
  const { campaign } = await import(pathToFileURL(file).href);
  const until = performance.now() + minutes * 60_000;
  let failed;
  const seeds = (function* () {
    for (let seed = 1; !failed; seed++) yield seed;
  })();
  const tally = await campaign(seeds, {
    isOver: () => performance.now() > until,
    each: ({ faults }, seed) => void (failed ??= faults.length ? { seed, faults } : undefined),
  });
  const took = `${tally.sessions} sessions, ${tally.seconds.toFixed(1)} s`;
  const why = failed ? `, seed ${failed.seed}: ${failed.faults[0].split("\n")[0].slice(0, 100)}` : "";
  console.log(`\n${JSON.stringify({ isFound: failed !== undefined, text: took + why })}`);
  process.exit(0);
}

/** Mutants of the mutation tool, over the rooms of js/ that simulated sessions run through. */
async function drawn(count, seed) {
  const tool = path.join(root, "tests/mutants/node_modules/@stryker-mutator");
  if (!existsSync(tool))
    spawnSync("npm", ["install", "--ignore-scripts", "--no-save", "--no-audit", "--no-fund", "--loglevel=error"], {
      cwd: path.join(root, "tests/mutants"),
      stdio: "inherit",
    });
  const at = (file) => pathToFileURL(path.join(tool, file)).href;
  const { createInstrumenter } = await import(at("instrumenter/dist/src/index.js"));
  const { commonTokens } = await import(at("api/dist/src/plugin/index.js"));
  const { createInjector } = await import(pathToFileURL(path.join(tool, "../typed-inject/dist/src/index.js")).href);
  const quiet = { isTraceEnabled: () => false, isDebugEnabled: () => false };
  for (const level of ["trace", "debug", "info", "warn", "error", "fatal"]) quiet[level] = () => {};
  const instrumenter = createInjector().provideValue(commonTokens.logger, quiet).injectFunction(createInstrumenter);
  const rooms = ["api", "connection", "pool", "session", "statement"];
  const files = rooms.flatMap((room) =>
    readdirSync(path.join(root, "js", room))
      .filter((name) => name.endsWith(".ts"))
      .map((name) => `js/${room}/${name}`),
  );
  const contents = new Map(files.map((name) => [name, readFileSync(path.join(root, name), "utf8")]));
  const sources = files.map((name) => ({ name, content: contents.get(name), mutate: true }));
  const options = { plugins: null, excludedMutations: ["StringLiteral"], ignorers: [], noHeader: true };
  const { mutants } = await instrumenter.instrument(sources, options);
  let state = seed;
  const dice = (below) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % below;
  return Array.from({ length: count }, () => {
    const { fileName, location, replacement, mutatorName } = mutants[dice(mutants.length)];
    const text = contents.get(fileName);
    const [start, end] = [offsetOf(text, location.start), offsetOf(text, location.end)];
    const shown = text.slice(start, end).replace(/\s+/g, " ").slice(0, 60);
    const name = `${fileName}:${location.start.line + 1} ${mutatorName}: ${shown} -> ${replacement.slice(0, 40)}`;
    return { name, file: fileName, start, end, to: replacement };
  });
}

function offsetOf(text, { line, column }) {
  let at = 0;
  for (let number = 0; number < line; number++) at = text.indexOf("\n", at) + 1;
  return at + column;
}
