// Runs every test on every runtime (`make test`), or some suites: `node tests/run.mjs node workerd -- tests/integration
// -t cancel` (folders or files replace those of a suite; the rest goes to vitest). It sets up, builds, starts the
// servers once, runs the suites in order, and counts. `make quick` is the suite `quick`, which runs only when it is
// named.
//
// Knows the order of all parts and the report about them. Must not know what a suite is (run/suites.mjs), or how a
// command runs (run/command.mjs).
//
// All commands of a run share a temporary folder that no other run has. What is left there at the end, and a process
// that still runs, is a failure (run/leftovers.mjs).
//
// Nothing is skipped silently: a skipped test, and a suite that cannot start, runs out of time or finds no test, are
// failures with a reason. The last line is always `N passed, M failed`; the exit status is 1 when M is not 0.
import { loadavg } from "node:os";
import { forVitest, wanted } from "./run/arguments.mjs";
import { cpuSeconds, overBudget, slowness } from "./run/budget.mjs";
import { at, environment, killAll, LAST, minutes, run, timeLeft } from "./run/command.mjs";
import { begin, leftBy, remove, removeFiles, variablesOf } from "./run/leftovers.mjs";
import { plannedQuick } from "./run/quick.mjs";
import { commitOfTree, recordOf } from "./run/record.mjs";
import { failure, table, time } from "./run/rows.mjs";
import { startServersOfAll } from "./run/servers.mjs";
import { releaseSuites, suites as ordinary } from "./run/suites.mjs";
import { newestMajor } from "./servers/postgres-19.mjs";

const isQuick = wanted.join() === "quick";
const isRelease = wanted.join() === "release";
const slow = slowness();
const cpuAtStart = cpuSeconds();
const rows = [];
const parts = [];
/** Missing prerequisites of suites: name -> reason. */
const unmet = {};
let leftOut = [];
const releases = recordOf(commitOfTree(), at(".cache/test-release.json"));
const theRun = begin();
Object.assign(environment, variablesOf(theRun));
Object.assign(process.env, variablesOf(theRun));

async function main() {
  const suites = chosen();
  const setup = await part("setup", () => run(setupOf(suites), { silence: minutes(40) }));
  if (setup.status !== 0) return void rows.push(failure("setup", "scripts/setup failed, see above"));
  if (isQuick) {
    suites.quick = await part("changes", plannedQuick);
    ({ leftOut } = suites.quick);
  }
  if (!isQuick || suites.quick.needs.includes("build")) await build();
  const needServers = Object.values(suites).some(({ needs }) => needs?.includes("servers"));
  const servers = needServers ? await part("servers", start) : undefined;
  try {
    await inTurn(suites);
  } finally {
    await servers?.stop();
  }
}

/** Returns the command that installs everything that these suites need. */
function setupOf(suites) {
  const parts = Object.values(suites).map(({ setup }) => setup);
  if (parts.includes("release")) return [at("scripts/setup"), "release"];
  return [at("scripts/setup"), ...(parts.every((part) => part === "check") ? ["check"] : [])]; // quick: no suites yet
}

/** The requested suites by name. Without a request: all of `make test`, or of a release. */
function chosen() {
  if (isQuick) return {};
  if (isRelease) return releaseSuites;
  if (wanted.length === 0) return ordinary;
  const known = { ...ordinary, ...releaseSuites };
  const unknown = wanted.find((name) => known[name] === undefined);
  if (unknown) throw new Error(`there is no suite ${unknown}: only ${Object.keys(known).join(", ")}, and quick alone`);
  return Object.fromEntries(wanted.map((name) => [name, known[name]]));
}

async function build() {
  const command = [process.execPath, at("scripts/build.mjs"), ...(isQuick ? ["--without-types"] : [])];
  const { status } = await part("build", () => run(command, { silence: minutes(20) }));
  if (status !== 0) unmet.build = "the build failed, see above";
}

async function start() {
  try {
    const newest = newestMajor();
    if (newest < 19) leftOut.push("PostgreSQL 19: 18 took its place (scripts/setup installs it, or says why not)");
    // A release also has suites on 18. Where there is no 19, it is the newest.
    const older = isRelease || wanted.includes("postgres-18") ? [18, 15] : [15];
    const majors = isQuick ? [newest] : [...new Set([newest, ...older])];
    return await startServersOfAll({ majors, others: !isQuick });
  } catch (error) {
    process.stdout.write(`${error.stack}\n`);
    unmet.servers = error.message.split("\n")[0];
    return undefined;
  }
}

/**
 * Runs the suites in order up to the last one that is `alone`; then the rest in order, concurrently with those that are
 * `beside`.
 */
async function inTurn(suites) {
  const names = Object.keys(suites);
  const isBeside = (name) => suites[name].beside === true;
  const inOrder = names.filter((name) => !isBeside(name));
  const besideFrom = inOrder.findLastIndex((name) => suites[name].alone) + 1;
  const all = async (some) => {
    for (const name of some) await runSuite(name, suites[name]);
  };
  await all(inOrder.slice(0, besideFrom));
  await Promise.all([all(inOrder.slice(besideFrom)), all(names.filter(isBeside))]);
}

async function runSuite(name, { needs = [], run: suite }) {
  const missing = needs.find((need) => unmet[need] !== undefined);
  const late = timeLeft() === 0 ? `not begun: all took ${LAST / minutes(1)} minutes` : undefined;
  const reason = late ?? unmet[missing];
  const passed = isRelease ? releases.passed(name) : undefined;
  if (passed !== undefined) return void rows.push({ label: `${name}, passed before`, ...passed });
  const work = async () => (reason === undefined ? suite() : [failure(name, reason)]);
  const found = await part(name, work).catch((error) => [failure(name, error.message)]);
  rows.push(...found);
  const cost = parts.findLast((one) => one.name === name);
  if (isRecorded(name)) releases.add(name, found, cost);
}

/** A release's suite that has run whole, even alone. */
const isRecorded = (name) => forVitest.length === 0 && releaseSuites[name] !== undefined;

/** Counts what the run has left on the machine, and removes it. */
async function cleanUp() {
  const { foldersOfServers } = await import("./servers/home.mjs");
  const lines = await leftBy(theRun, [foldersOfServers()]);
  remove(theRun);
  rows.push({ label: "left behind", passed: 0, failed: lines.length, reasons: lines });
}

/** Runs one part and records its time. */
async function part(name, work) {
  process.stdout.write(`\n[test] ===== ${name} =====\n`);
  const [from, cpuFrom] = [performance.now(), cpuSeconds()];
  try {
    return await work();
  } finally {
    parts.push(costs(name, from, cpuFrom));
  }
}

function costs(name, from, cpuFrom) {
  return { name, seconds: (performance.now() - from) / 1000, cpu: cpuSeconds() - cpuFrom, load: loadavg()[0] };
}

/** The kind of this run, as budget.mjs names it. Other suites have no budget. */
function kind() {
  if (wanted.length === 0) return "test";
  return { quick: "quick", "rust,lint": "check" }[wanted.join()];
}

/**
 * Reports a run that takes more CPU than it may. With PGZ_TEST_BUDGET=fail, which is for CI, that is a failure. A
 * developer's machine has other work, which counts too. Set-up and build are not counted: what they take depends on
 * what a machine has already.
 */
function checkBudget(all) {
  const before = parts.filter(({ name }) => ["setup", "build"].includes(name));
  const over = overBudget(kind(), all.cpu - before.reduce((sum, { cpu }) => sum + cpu, 0), slow);
  if (over === undefined) return;
  process.stdout.write(`\n[test] the run ${over}\n`);
  if (process.env.PGZ_TEST_BUDGET === "fail") rows.push(failure("budget", over));
}

function report() {
  const all = costs("all", 0, cpuAtStart);
  checkBudget(all);
  const total = rows.reduce(
    (sum, { passed, failed }) => ({ passed: sum.passed + passed, failed: sum.failed + failed }),
    { passed: 0, failed: 0 },
  );
  // Two test files run at a time, so the seconds of a part's folders add up to more than the part took.
  table(
    ["folder", "passed", "failed", "seconds"],
    rows.map(({ label, passed, failed, seconds }) => [label, passed, failed, time(seconds)]),
  );
  // `cpu`: seconds of all processors. With as many seconds as there are processors, a part can only get faster by doing
  // less. The load average of a part's last minute: above 5 the machine had other work besides these tests.
  table(
    ["part", "seconds", "cpu", "load"],
    [...parts, all].map(({ name, seconds, cpu, load }) => [name, time(seconds), time(cpu), time(load)]),
  );
  const ofReleases = ["suite of a release", "commit", "passed", "failed", "seconds", "cpu"];
  if (isRelease) table(ofReleases, releases.lines(Object.keys(releaseSuites)));
  process.stdout.write(`\nThis machine takes ${slow.toFixed(2)} times as long as the one of the budgets.\n`);
  if (leftOut.length > 0) process.stdout.write(`\nLeft out:\n${leftOut.map((line) => `  ${line}\n`).join("")}`);
  const reasons = rows.flatMap(({ label, reasons: all = [] }) =>
    all.map((reason) => `  ${label}: ${reason.split("\n")[0]}`),
  );
  // The last lines before the count, so that a reader who sees only the end of a long run finds the failures.
  if (reasons.length > 0) process.stdout.write(`\nFailed:\n${reasons.join("\n")}\n`);
  const isEmpty = total.passed === 0 && !isQuick; // a quick run may find that no test covers the change
  process.exitCode = total.failed > 0 || isEmpty ? 1 : 0;
  process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    killAll();
    removeFiles(theRun);
    process.exit(130); // the servers notice that this process has ended
  });
}

await main().catch((error) => rows.push(failure("run", error.stack)));
await cleanUp().catch((error) => rows.push(failure("left behind", error.stack)));
report();
