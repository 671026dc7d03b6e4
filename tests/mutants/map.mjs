// Which folder of tests notices which change of the code? Draws changes of js/ and src/ by a seed, makes them in a copy
// of HEAD, and runs the folders there, the cheapest first:
//
//   node tests/mutants/map.mjs                     150 changes by seed 1; a later call goes on where this one stopped
//   SEED=7 CHANGES=60 node tests/mutants/map.mjs
//   MINUTES=60 node tests/mutants/map.mjs          begins no run after an hour
//   node tests/mutants/map.mjs table               prints what is known so far
//
// A folder sees only the changes that no cheaper folder has noticed. Stryker tries those of TypeScript against the unit
// tests, and the simulator's sweep tries what is left: neither needs a build for each. After that few are left, and
// most folders notice none of them. So several changes are made at once, and only a run that fails is repeated with
// half of them. Two changes of one file are never made at once.
//
// By hand, on an idle machine. Changes of Rust need cargo-mutants: `cargo install --locked cargo-mutants`. Everything
// is kept in .cache/map/<seed>, beside the copy. A run that was begun on another machine goes on from what
// tests/mutants/maps/<seed> has of it, with the code of its commit.
//
// Knows folders and suites as tests/run.mjs takes them. Must not know what a test does.
import { spawnSync } from "node:child_process";
import { appendFileSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { nodeBinary } from "../../scripts/node/index.mjs";
import { cpuSeconds } from "../run/budget.mjs";
import { contentsOf, drawnFrom, faultOf, instrumented } from "../simulation/mutants.mjs";
import { changeOf, changesOf, isNoticed, keyOf, STRYKER_REPORT } from "./changes.mjs";
import { installStryker } from "./install.mjs";

const { env } = process;
const root = fileURLToPath(new URL("../..", import.meta.url));
const SEED = Number(env.SEED ?? 1);
const CHANGES = Number(env.CHANGES ?? 150);
const MINUTES = Number(env.MINUTES ?? 240);
/** Of four changes one is of Rust, as of four lines one is. */
const OF_RUST = Math.round(CHANGES / 4);
/** Maximum number of changes that are made at once. */
const TOGETHER = 12;

const home = path.join(root, ".cache/map", String(SEED));
const begun = path.join(root, "tests/mutants/maps", String(SEED));
const tree = path.join(home, "tree");
const known = path.join(home, "known.jsonl");

/** The command line, which only its own tests and those of the packages start. */
const COMMANDS = "js/cli/";

const SIMULATION = [["scripts/build.mjs", "--without-types"], ["tests/simulation/check.mjs"]];

/**
 * `only`: the code that such a run can reach at all, and `without` what it cannot. `first` have an order of their own,
 * before all others. `all` tries all changes in one go. `together`: how many are made at once, fewer where most are
 * noticed.
 */
const STEPS = [
  { name: "unit", first: 1, only: "js/", suite: "node", folder: "tests/unit", all: byUnitTests },
  { name: "simulation", first: 2, only: "js/", commands: SIMULATION, all: bySessions },
  { name: "rust", first: 3, only: "src/", suite: "rust", together: 1 },
  { name: "unit over Rust", first: 4, only: "src/", suite: "node", folder: "tests/unit" },
  { name: "simulation over Rust", first: 5, only: "src/", commands: SIMULATION },
  { name: "build", first: 6, commands: [["scripts/build.mjs"]] },
  ...["random", "other-servers", "memory", "replication", "site", "pool", "faults", "poolers", "cluster"].map(ofNode),
  ...["adapters", "integration", "demo"].map(ofNode),
  { ...ofNode("sql"), without: undefined },
  { ...ofNode("cli"), without: undefined, together: 2 },
  { ...ofNode("packaging"), without: undefined },
  { name: "workerd", suite: "workerd", without: COMMANDS },
  { name: "deno", suite: "deno", without: COMMANDS },
  { name: "bun", suite: "bun", without: COMMANDS },
  { name: "workerd-node-20", suite: "workerd-node-20", without: COMMANDS },
];

function ofNode(folder) {
  return { name: folder, suite: "node", folder: `tests/${folder}`, without: COMMANDS };
}

const until = performance.now() + MINUTES * 60_000;
const isLate = () => performance.now() > until;
const readJson = (file) => JSON.parse(readFileSync(file, "utf8"));
const say = (text) => process.stdout.write(`[map] ${text}\n`);

if (process.argv[2] === "table") printTable(readKnown());
else await map();

async function map() {
  if (existsSync(begun) && !existsSync(home)) cpSync(begun, home, { recursive: true });
  installStryker();
  const changes = await drawn();
  makeTree();
  for (const step of byCost()) await tryAll(step, changes);
  printTable(readKnown());
}

// -- the changes ------------------------------------------------------------------------------------------------------

/** Returns `{ name, file, start, end, to }` of each change. They are drawn once. */
async function drawn() {
  const file = path.join(home, "changes.json");
  if (existsSync(file)) return readJson(file);
  mkdirSync(home, { recursive: true });
  const changes = [...drawnFrom(await ofTypeScript(), CHANGES - OF_RUST, SEED), ...drawnFrom(ofRust(), OF_RUST, SEED)];
  writeFileSync(file, JSON.stringify(changes, null, 1));
  return changes;
}

async function ofTypeScript() {
  const files = tracked("js").filter((name) => name.endsWith(".ts") && !name.endsWith(".d.ts"));
  const contents = contentsOf(files);
  const { mutants } = await instrumented(contents);
  const isWanted = ({ status }) => status !== "Ignored";
  return mutants.filter(isWanted).map((mutant) => ({ ...faultOf(mutant, contents), change: changeOf(mutant) }));
}

function ofRust() {
  const { stdout, status } = spawnSync("cargo", ["mutants", "--list", "--json"], {
    cwd: root,
    encoding: "utf8",
    maxBuffer: 1 << 28,
  });
  if (status !== 0) throw new Error("please run: cargo install --locked cargo-mutants");
  return JSON.parse(stdout).map(({ file, span, replacement, name }) => {
    const text = readFileSync(path.join(root, file), "utf8");
    const at = ({ line, column }) => text.split("\n", line - 1).join("\n").length + (line > 1 ? 1 : 0) + column - 1;
    return { name, file, start: at(span.start), end: at(span.end), to: replacement };
  });
}

function tracked(folder) {
  return git("ls-files", folder).trim().split("\n");
}

function git(...parameters) {
  const { stdout, status } = spawnSync("git", parameters, { cwd: root, encoding: "utf8", maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`git ${parameters.join(" ")} ended with status ${status}`);
  return stdout;
}

// -- the copy ---------------------------------------------------------------------------------------------------------

/** A clone of HEAD, with what scripts/setup has installed and scripts/build has made here. */
function makeTree() {
  if (existsSync(tree)) return;
  git("clone", "--quiet", "--shared", root, tree);
  const commit = path.join(home, "commit");
  if (existsSync(commit)) git("-C", tree, "checkout", "--quiet", readFileSync(commit, "utf8").trim());
  else writeFileSync(commit, git("rev-parse", "HEAD"));
  mkdirSync(path.join(tree, ".cache"));
  const packages = ["", "scripts/tests/", "scripts/docs/", "scripts/node/", "tests/mutants/"].map(
    (folder) => `${folder}node_modules`,
  );
  for (const name of packages) copy(name, "-al");
  const caches = ["build", "jars", "npm.stamp", "pgbouncer-1.24.1", "prisma", "tls"].map((name) => `.cache/${name}`);
  for (const name of ["pkg", "dist", "target", ...caches]) copy(name, "-a");
  must(spawnSync(process.execPath, ["scripts/build.mjs"], { cwd: tree, encoding: "utf8" }), "the build");
}

function copy(name, how) {
  if (!existsSync(path.join(root, name))) return;
  const { status } = spawnSync("cp", [how, path.join(root, name), path.join(tree, name)], { stdio: "inherit" });
  if (status !== 0) throw new Error(`${name} could not be copied`);
}

/** Makes these changes, calls `work`, and takes them back. */
function changed(changes, work) {
  const texts = new Map(changes.map(({ file }) => [file, readFileSync(path.join(tree, file), "utf8")]));
  for (const { file, start, end, to } of changes) {
    const text = texts.get(file);
    writeFileSync(path.join(tree, file), text.slice(0, start) + to + text.slice(end));
  }
  try {
    return work();
  } finally {
    for (const [file, text] of texts) writeFileSync(path.join(tree, file), text);
  }
}

// -- the runs ---------------------------------------------------------------------------------------------------------

/** Returns the steps in the order of what they cost without a change, where nothing may fail. */
function byCost() {
  const file = path.join(home, "costs.json");
  const costs = existsSync(file) ? readJson(file) : {};
  for (const step of STEPS) {
    if (costs[step.name] || isLate()) continue;
    const { fault, cpu, seconds } = run(step);
    if (fault !== undefined) throw new Error(`${step.name} fails without a change: ${fault}`);
    costs[step.name] = { cpu: Math.round(cpu), seconds: Math.round(seconds) };
    writeFileSync(file, JSON.stringify(costs, null, 1));
  }
  const rank = ({ name, first }) => first ?? 1e6 + (costs[name]?.cpu ?? 1e5);
  return STEPS.filter(({ name }) => costs[name]).sort((a, b) => rank(a) - rank(b));
}

async function tryAll(step, changes) {
  const facts = readKnown();
  const isOpen = ({ name }) => !facts.some((fact) => fact.change === name && (fact.fault || fact.step === step.name));
  const isReached = ({ file }) => file.startsWith(step.only ?? "") && !(step.without && file.startsWith(step.without));
  const open = changes.filter((change) => isOpen(change) && isReached(change));
  if (open.length === 0 || isLate()) return;
  if (step.all === undefined) return groupsOf(open, step.together).forEach((some) => tryTogether(step, some));
  const noticed = step.all(open);
  for (const change of open) remember(step, [change], noticed.get(change.name));
  say(`${step.name}: ${noticed.size} of ${open.length} noticed`);
}

/** Returns why a change was noticed, by its name. */
function byUnitTests(changes) {
  const settings = { mutate: changes.map(({ change }) => change.range), reporters: ["json", "progress-append-only"] };
  const config = path.join(tree, ".cache/stryker.config.mjs");
  const basis = JSON.stringify(path.join(tree, "tests/mutants/stryker.config.mjs"));
  writeFileSync(config, `import basis from ${basis};\nexport default { ...basis, ...${JSON.stringify(settings)} };\n`);
  const stryker = "tests/mutants/node_modules/@stryker-mutator/core/bin/stryker.js";
  must(
    spawnSync(nodeBinary(24), [stryker, "run", config], { cwd: tree, stdio: ["ignore", "inherit", "inherit"] }),
    "Stryker",
  );
  const noticed = new Set(changesOf(readJson(path.join(tree, STRYKER_REPORT)), isNoticed).map(keyOf));
  const found = changes.filter(({ change }) => noticed.has(keyOf(change)));
  return new Map(found.map(({ name }) => [name, "a unit test"]));
}

function bySessions(changes) {
  const only = path.join(home, "sweep.json");
  writeFileSync(only, JSON.stringify(changes.map(({ change }) => change)));
  const FILES = [...new Set(changes.map(({ file }) => file))].join(" ");
  const options = { cwd: tree, encoding: "utf8", env: { ...env, FILES, ONLY: only }, maxBuffer: 1 << 28 };
  const { stdout } = must(spawnSync(process.execPath, ["tests/simulation/sweep.mjs"], options), "the sweep");
  const isMissed = ({ name }) => stdout.includes(`| ${name}\n`);
  return new Map(changes.filter((change) => !isMissed(change)).map(({ name }) => [name, "a session"]));
}

function must(done, what) {
  if (done.status !== 0) throw new Error(`${what} ended with status ${done.status}: ${done.stderr ?? ""}`);
  return done;
}

function groupsOf(changes, most = TOGETHER) {
  const groups = [];
  for (const change of changes) {
    const isFree = (group) => group.length < most && group.every(({ file }) => file !== change.file);
    const group = groups.find(isFree);
    if (group) group.push(change);
    else groups.push([change]);
  }
  return groups;
}

function tryTogether(step, changes) {
  if (isLate()) return;
  const { fault, seconds } = changed(changes, () => run(step));
  say(
    `${step.name}: ${changes.length === 1 ? changes[0].name : `${changes.length} changes`}: ${fault ?? "passed"} (${Math.round(seconds)} s)`,
  );
  if (fault === undefined || changes.length === 1) return remember(step, changes, fault);
  const half = Math.ceil(changes.length / 2);
  tryTogether(step, changes.slice(0, half));
  tryTogether(step, changes.slice(half));
}

/** Returns what the run costs, and why it failed. */
function run(step) {
  const [from, before] = [performance.now(), cpuSeconds()];
  const fault = commandsOf(step).reduce((found, command) => found ?? faultOfCommand(command), undefined);
  return { fault, cpu: cpuSeconds() - before, seconds: (performance.now() - from) / 1_000 };
}

function commandsOf({ suite, folder, commands }) {
  const toVitest = suite === "rust" ? [] : ["--", ...(folder ? [folder] : []), "--bail", "1"];
  return commands ?? [["tests/run.mjs", suite, ...toVitest]];
}

/** A change can make a test loop, also in processes of its own, and take all memory: both have an end. */
function faultOfCommand(command) {
  const limits = ["20m", "prlimit", ...(command.includes("rust") ? ["--as=8000000000"] : []), process.execPath];
  const { stdout, status } = spawnSync("timeout", [...limits, ...command], {
    cwd: tree,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"],
    maxBuffer: 1 << 28,
  });
  if (status === 0) return undefined;
  if (status === 124) return "it did not end";
  return (
    /^Failed:\n {2}(.*)/m.exec(stdout)?.[1] ?? (stdout.trim().split("\n").at(-1)?.slice(0, 200) || `status ${status}`)
  );
}

// -- what is known ----------------------------------------------------------------------------------------------------

function remember({ name }, changes, fault) {
  for (const change of changes)
    appendFileSync(known, `${JSON.stringify({ change: change.name, step: name, ...(fault && { fault }) })}\n`);
}

function readKnown() {
  if (!existsSync(known)) return [];
  return readFileSync(known, "utf8")
    .trim()
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));
}

function printTable(facts) {
  const costs = readJson(path.join(home, "costs.json"));
  console.log("| folder | CPU s | seconds | tried | noticed first here |\n|---|---|---|---|---|");
  for (const [name, { cpu, seconds }] of Object.entries(costs)) {
    const tried = facts.filter(({ step }) => step === name);
    console.log(`| ${name} | ${cpu} | ${seconds} | ${tried.length} | ${tried.filter(({ fault }) => fault).length} |`);
  }
  const noticed = new Set(facts.filter(({ fault }) => fault).map(({ change }) => change));
  const all = new Set(facts.map(({ change }) => change));
  console.log(`\n${noticed.size} of ${all.size} are noticed. Not noticed so far:\n`);
  for (const change of all) if (!noticed.has(change)) console.log(`- ${change}`);
}
