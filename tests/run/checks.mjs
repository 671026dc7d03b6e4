// The suites that vitest does not run: Rust, lint, the simulator. Knows what each prints, and counts it as rows.
import { spawnSync } from "node:child_process";
import { at, bin, minutes, run, say } from "./command.mjs";
import { fail } from "./rows.mjs";

/** scripts/setup has fetched the crates. */
const OFFLINE = { CARGO_NET_OFFLINE: "true" };

export async function rust(...options) {
  const command = ["cargo", "test", "--no-fail-fast", "--all-features", ...options];
  const { output, status, timedOut } = await run(command, { env: OFFLINE, silence: minutes(20) });
  const row = { label: "rust native", passed: 0, failed: 0, reasons: [] };
  for (const [, passed, failed, ignored] of output.matchAll(
    /^test result: .*?(\d+) passed; (\d+) failed; (\d+) ignored/gm,
  )) {
    row.passed += Number(passed);
    row.failed += Number(failed) + Number(ignored);
    if (Number(ignored) > 0) row.reasons.push(`${ignored} ignored`);
  }
  if (timedOut) fail(row, "out of time");
  else if (status !== 0 && row.failed === 0) fail(row, `cargo test ended with status ${status}`);
  else if (row.passed + row.failed === 0) fail(row, "no test ran");
  return [row];
}

/** The longest silence: sessions that take two minutes of CPU have taken fifteen beside five busy processes. */
const HANG = minutes(45);

/** Runs simulated sessions and, at the same time, compares the server models with real servers. */
export async function simulation() {
  const [sessions, models] = await Promise.all([
    countedBy("simulation sessions", ["tests/simulation/check.mjs"], HANG),
    comparedModels(),
  ]);
  return [sessions, ...models];
}

async function comparedModels() {
  return [
    await countedBy("simulation model", ["tests/simulation/conform.mjs"], HANG),
    await countedBy("simulation pooler", ["tests/simulation/conform-pooler.mjs"], HANG),
  ];
}

export async function longSimulation() {
  const half = Math.ceil(Number(process.env.SESSIONS ?? 100_000) / 2);
  const script = ["tests/simulation/check.mjs"];
  const played = [0, half].map((after) => {
    const programs = { FIXED: "0", OF_THE_DAY: String(half), AFTER: String(after) };
    const clustersAndCaches = { FIRST: String(1 + after), CACHES: String(Math.ceil(half / 20)) };
    const env = { ...programs, ...clustersAndCaches };
    return countedBy(`long simulation from ${after}`, script, minutes(240), env);
  });
  return Promise.all(played);
}

/** Checks that two clean builds of the commit give the same bytes in each published file. */
export async function reproducible() {
  return [await countedBy("reproducible", ["scripts/verify.mjs"], HANG)];
}

/** Runs `make demo ONCE=1` and `make test` on a machine that has never seen this project (fresh.mjs). */
export async function fresh() {
  return [await countedBy("fresh", ["tests/run/fresh.mjs"], HANG)];
}

/** Runs a Node script whose last line is `N passed, M failed`. */
async function countedBy(label, script, silence, env = {}) {
  const { output, status, timedOut } = await run([process.execPath, ...script.map((part) => at(part))], {
    silence,
    env,
  });
  const [, passed, failed] = [...output.matchAll(/^(\d+) passed, (\d+) failed$/gm)].at(-1) ?? [];
  const row = { label, passed: Number(passed ?? 0), failed: Number(failed ?? 0), reasons: [] };
  for (const [, name] of output.matchAll(/^\[simulation\] FAILED (.*)$/gm)) row.reasons.push(name);
  if (timedOut) fail(row, "out of time");
  else if (row.passed + row.failed === 0) fail(row, `ended with status ${status} and no count`);
  return row;
}

/**
 * Checks licences and sources of the crates, and duplicate versions of a crate (deny.toml). cargo-deny compiles for
 * minutes, so scripts/setup does not install it, and this check runs only where it is installed. Its advisories come
 * from GitHub: a workflow checks them.
 */
function crates() {
  if (spawnSync("cargo-deny", ["--version"]).status === 0)
    return {
      "cargo deny": ["cargo", "deny", "--offline", "--locked", "--workspace", "check", "bans", "licenses", "sources"],
    };
  say("cargo deny left out: it is not installed (tests/packaging/crates.test.ts has the licences and sources)");
  return {};
}

export async function lint() {
  const clippy = ["cargo", "clippy", "--quiet"];
  const ofRust = {
    "cargo fmt": ["cargo", "fmt", "--all", "--check", "--", "--color=never"],
    "clippy, native": [...clippy, "--all-targets", "--all-features", "--", "-D", "warnings"],
    "clippy, wasm32": [...clippy, "--workspace", "--target", "wasm32-unknown-unknown", "--", "-D", "warnings"],
    ...crates(),
  };
  const ofTypeScript = {
    oxfmt: [bin("oxfmt"), "--list-different", "**/*.{ts,mts,mjs,js}"],
    oxlint: [bin("oxlint"), "--config=oxlint.config.mjs", "--report-unused-disable-directives-severity=error", "."],
    // The compiler in Go: it takes a fifth of the processor time of the one in JavaScript, whose API scripts and tests
    // use. Two threads would take half as much again, and clippy runs beside it.
    tsc: [process.execPath, at("node_modules/typescript-7/bin/tsc"), "--noEmit", "--singleThreaded"],
    workflows: [process.execPath, at("tests/run/workflows.mjs")],
  };
  const row = { label: "lint", passed: 0, failed: 0, reasons: [] };
  const check = async ([name, command]) => {
    const { status, timedOut } = await run(command, { env: OFFLINE, silence: minutes(20) });
    say(`${name} ${status === 0 ? "passed" : "FAILED"}`);
    if (status === 0) row.passed++;
    else fail(row, timedOut ? `${name} ran out of time` : name);
  };
  const lane = async (commands) => {
    for (const one of Object.entries(commands)) await check(one);
  };
  await Promise.all([lane(ofRust), lane(ofTypeScript)]); // each uses one core
  return [row];
}
