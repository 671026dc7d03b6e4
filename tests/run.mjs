// Every test on every runtime: `make test`, or some of them: `node tests/run.mjs node workerd -- tests/integration -t
// cancel` (folders or files in place of a suite's own; the rest goes to vitest). Sets up, builds, starts the servers
// once, runs the suites in order, and counts. `make quick` is the suite `quick`, which runs when it is named only.
//
// Knows the order of all parts, and what is said of them. Must not know what a suite is (run/suites.mjs), or how a
// command runs (run/command.mjs).
//
// Nothing is skipped silently: a test that is skipped, a suite that cannot start, runs out of time or finds no test is
// a failure with its reason. The last line is always `N passed, M failed`, the status 1 when M is not 0.
import { loadavg } from "node:os";
import { wanted } from "./run/arguments.mjs";
import { at, killAll, LAST, minutes, run, timeLeft } from "./run/command.mjs";
import { plannedQuick } from "./run/quick.mjs";
import { failure, table, time } from "./run/rows.mjs";
import { startServersOfAll } from "./run/servers.mjs";
import { releaseSuites, suites as ordinary } from "./run/suites.mjs";

const isQuick = wanted.join() === "quick";
const isRelease = wanted.join() === "release";
const rows = [];
const parts = [];
/** What suites need and there is not: the reason by its name. */
const unmet = {};
let leftOut = [];

async function main() {
  const suites = chosen();
  const setup = await part("setup", () => run(setupOf(suites), { timeout: minutes(40) }));
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

/** What brings all that these suites want. */
function setupOf(suites) {
  const isMore = Object.values(suites).some(({ setup }) => setup === "release");
  return [at("scripts/setup"), ...(isMore ? ["release"] : [])];
}

/** The suites that are asked for, by name; all of `make test`, or of a release, where none is. */
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
  const { status } = await part("build", () => run(command, { timeout: minutes(15) }));
  if (status !== 0) unmet.build = "the build failed, see above";
}

async function start() {
  const wantedServers = isQuick ? { majors: [18] } : { majors: [18, 15], others: true };
  return startServersOfAll(wantedServers).catch((error) => {
    process.stdout.write(`${error.stack}\n`);
    unmet.servers = error.message.split("\n")[0];
  });
}

/** In order up to the last one that is `alone`; then the rest, and at the same time those that are `beside`. */
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
  const work = async () => (reason === undefined ? suite() : [failure(name, reason)]);
  rows.push(...(await part(name, work).catch((error) => [failure(name, error.message)])));
}

/** Runs a part of it all and notes its time. */
async function part(name, work) {
  process.stdout.write(`\n[test] ===== ${name} =====\n`);
  const from = performance.now();
  try {
    return await work();
  } finally {
    parts.push({ name, seconds: (performance.now() - from) / 1000, load: loadavg()[0] });
  }
}

function report() {
  const total = rows.reduce(
    (sum, { passed, failed }) => ({ passed: sum.passed + passed, failed: sum.failed + failed }),
    { passed: 0, failed: 0 },
  );
  // Two test files run at a time, so the seconds of a part's folders add up to more than the part took.
  table(
    ["folder", "passed", "failed", "seconds"],
    rows.map(({ label, passed, failed, seconds }) => [label, passed, failed, time(seconds)]),
  );
  // The load average of a part's last minute: over 3 the machine had other work than these tests.
  const all = { name: "all", seconds: performance.now() / 1000, load: loadavg()[0] };
  table(
    ["part", "seconds", "load"],
    [...parts, all].map(({ name, seconds, load }) => [name, time(seconds), time(load)]),
  );
  if (leftOut.length > 0) process.stdout.write(`\nLeft out:\n${leftOut.map((line) => `  ${line}\n`).join("")}`);
  const reasons = rows.flatMap(({ label, reasons: all = [] }) =>
    all.map((reason) => `  ${label}: ${reason.split("\n")[0]}`),
  );
  // Last but the count: who is shown only the end of a long run finds what failed.
  if (reasons.length > 0) process.stdout.write(`\nFailed:\n${reasons.join("\n")}\n`);
  const isEmpty = total.passed === 0 && !isQuick; // a quick run may find that no test sees the change
  process.exitCode = total.failed > 0 || isEmpty ? 1 : 0;
  process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    killAll();
    process.exit(130); // the servers notice that we are gone
  });
}

await main().catch((error) => rows.push(failure("run", error.stack)));
report();
