// Every test on every runtime: `make test`, or some of them: `node tests/run.mjs node workerd -- tests/integration -t
// cancel` (folders or files in place of a suite's own; the rest goes to vitest). Sets up, builds, starts the servers
// once, runs the suites in order, and counts. `make quick` is the suite `quick`, which runs when it is named only.
//
// Nothing is skipped silently: a test that is skipped, a suite that cannot start, runs out of time or finds no test is
// a failure with its reason. The last line is always `N passed, M failed`, the status 1 when M is not 0.
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { loadavg } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { nodeBinary } from "../scripts/node/index.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const at = (...parts) => path.join(root, ...parts);
const bin = (name) => at("node_modules/.bin", name);
const vitest = at("node_modules/vitest/vitest.mjs");
const minutes = (n) => n * 60_000;

/**
 * When no part goes on or begins: red tests that each run out of time must end in a report that names them, before
 * whoever runs this ends it without one.
 */
const last = minutes(75);
const timeLeft = () => Math.max(0, last - performance.now());
/**
 * The longest that vitest may take in a runtime. `node` has twice as many files as the next: it takes ten minutes on
 * two cores, and took more than twenty on a day when they were half as fast.
 */
const longestOf = (label) => minutes(label === "node" ? 35 : 20);
const workerdFaults = ["tests/workerd/faults.test.ts", "tests/workerd/pool-faults.test.ts"];
const workerdWithoutFaults = () =>
  readdirSync(at("tests/workerd"))
    .map((name) => `tests/workerd/${name}`)
    .filter((name) => name.endsWith(".test.ts") && !workerdFaults.includes(name));
const everywhere = ["tests/integration", "tests/adapters", "tests/faults", "tests/random"];

/**
 * Name -> what it needs and how it runs. Each gives rows `{ label, passed, failed }`. Those that
 * are `alone` keep both cores busy. Those `beside` keep one busy, and the rest leave one idle: they run side by side.
 */
const suites = {
  rust: { run: rust, alone: true },
  lint: { needs: ["build"], run: lint, beside: true },
  node: {
    needs: ["build", "servers"],
    alone: true,
    run: () =>
      runVitest(
        "node",
        [process.execPath],
        [
          ...[
            "tests/unit",
            ...everywhere,
            "tests/packaging",
            "tests/demo",
            "tests/site",
            "tests/memory",
            "tests/pool",
            "tests/sql",
          ],
          ...["tests/poolers", "tests/other-servers", "tests/cli"],
        ],
      ),
  },
  simulation: { needs: ["build", "servers"], run: simulation, beside: true },
  // What differs between runtimes is their sockets and streams, and what differs between servers is their answers. No
  // runtime can change an answer, so the older server is seen by "node" alone, and all others see the newest one.
  "node-26": {
    needs: ["build", "servers"],
    run: () => runVitest("node-26", [nodeBinary(26)], ["tests/integration"], onlyNewestServer()),
  },
  deno: {
    needs: ["build", "servers"],
    run: () => runVitest("deno", [bin("deno"), "run", "-A"], everywhere, onlyNewestServer()),
  },
  bun: {
    needs: ["build", "servers"],
    run: () => runVitest("bun", [bin("bun"), "--bun"], everywhere, onlyNewestServer()),
  },
  workerd: {
    needs: ["build", "servers"],
    run: () => runVitest("workerd", [process.execPath], ["tests/workerd"], onlyNewestServer()),
  },
  // The older workerd meets its faults, and each byte of them, in a release.
  "workerd-node-20": {
    needs: ["build", "servers"],
    run: () =>
      runVitest("workerd-node-20", [process.execPath], workerdWithoutFaults(), {
        ...onlyNewestServer(),
        PGZ_TEST_WORKERD: "node-20",
      }),
  },
};
/** Of `make test-release`: what takes minutes by nature, and differs little from what `make test` has run. */
const releaseSuites = {
  "node-26-unit": {
    needs: ["build", "servers"],
    run: () => runVitest("node-26-unit", [nodeBinary(26)], ["tests/unit"], onlyNewestServer()),
  },
  "node-22": {
    needs: ["build", "servers"],
    run: () => runVitest("node-22", [nodeBinary(22)], ["tests/unit", "tests/integration"], onlyNewestServer()),
  },
  "node-24": {
    needs: ["build", "servers"],
    run: () => runVitest("node-24", [nodeBinary(24)], ["tests/unit", "tests/integration"], onlyNewestServer()),
  },
  ...Object.fromEntries(
    [
      ["deno", [bin("deno"), "run", "-A"], "tests/faults", {}],
      ["bun", [bin("bun"), "--bun"], "tests/faults", {}],
      ["node", [process.execPath], "tests/faults", {}],
      ["workerd", [process.execPath], "tests/workerd", {}],
      ["workerd-node-20", [process.execPath], "tests/workerd", { PGZ_TEST_WORKERD: "node-20" }],
    ].map(([label, runtime, folder, env]) => [
      `every-byte-${label}`,
      {
        needs: ["build", "servers"],
        run: () =>
          runVitest(label, runtime, folder === "tests/workerd" ? workerdFaults : [folder], {
            ...onlyNewestServer(),
            ...env,
            PGZ_TEST_RELEASE: "1",
          }),
      },
    ]),
  ),
  // What these leave out in `make test`: a page of each class, another bundler, compiler or workerd.
  "every-page": {
    needs: ["build", "servers"],
    run: () =>
      runVitest(
        "every-page",
        [process.execPath],
        ["tests/site", "tests/memory", "tests/packaging/types.test.ts", "tests/packaging/programs.test.ts"],
        { ...onlyNewestServer(), PGZ_TEST_RELEASE: "1" },
      ),
  },
  "older-server": {
    needs: ["build", "servers"],
    run: () => runVitest("older-server", [process.execPath], ["tests/integration"], onlyOldestServer()),
  },
  "long-simulation": { needs: ["build"], run: longSimulation },
};
/** What the changed files can break (tests/quick.mjs). It is no part of all tests, which contain it. */
const quick = { needs: [], run: runQuick };

const arguments_ = process.argv.slice(2);
const split = arguments_.includes("--") ? arguments_.indexOf("--") : arguments_.length;
const wanted = arguments_.slice(0, split);
const vitestOptions = arguments_.slice(split + 1);
const environment = clean(process.env);
const rows = [];
const parts = [];
const unmet = {};
let leftOut = [];
let children = [];

async function main() {
  const isQuick = wanted.join() === "quick";
  if (isQuick) suites.quick = quick;
  const isRelease = wanted.join() === "release";
  if (isRelease || wanted.some((name) => name in releaseSuites)) Object.assign(suites, releaseSuites);
  for (const name of isRelease ? [] : wanted)
    if (suites[name] === undefined)
      throw new Error(`there is no suite ${name}; there are ${Object.keys(suites).join(", ")}, and quick alone`);
  const names = wanted.length > 0 && !isRelease ? wanted : Object.keys(isRelease ? releaseSuites : suites);

  const setup = await part("setup", () => run([at("scripts/setup")], { timeout: minutes(40) }));
  if (setup.status !== 0) return void rows.push(failure("setup", "scripts/setup failed, see above"));
  if (isQuick) await part("changes", planQuick);
  if (!isQuick || quick.needs.includes("build")) {
    const command = [process.execPath, at("scripts/build.mjs"), ...(isQuick ? ["--without-types"] : [])];
    const build = await part("build", () => run(command, { timeout: minutes(15) }));
    if (build.status !== 0) unmet.build = "the build failed, see above";
  }
  const servers = names.some((name) => suites[name].needs?.includes("servers"))
    ? await part("servers", () => start(isQuick ? { majors: [18] } : { majors: [18, 15], others: true }))
    : undefined;

  const isBeside = (name) => suites[name].beside === true;
  const inOrder = names.filter((name) => !isBeside(name));
  const besideFrom = inOrder.findLastIndex((name) => suites[name].alone) + 1;
  try {
    await all(inOrder.slice(0, besideFrom));
    await Promise.all([all(inOrder.slice(besideFrom)), all(names.filter(isBeside))]);
  } finally {
    await servers?.stop();
  }
}

/** Runs suites one after the other. */
async function all(names) {
  for (const name of names) {
    const { needs = [], run: suite } = suites[name];
    const missing = needs.find((need) => unmet[need] !== undefined);
    const late = timeLeft() === 0 ? `not begun: all took ${last / minutes(1)} minutes` : undefined;
    const reason = late ?? unmet[missing];
    const work = async () => (reason === undefined ? suite() : [failure(name, reason)]);
    rows.push(...(await part(name, work).catch((error) => [failure(name, error.message)])));
  }
}

/** Runs a part of it all and notes its time. */
async function part(name, work) {
  title(name);
  const from = performance.now();
  try {
    return await work();
  } finally {
    parts.push({ name, seconds: (performance.now() - from) / 1000, load: loadavg()[0] });
  }
}

/**
 * PostgreSQL, the side connection and the fault host, and with `others` PgBouncer and the WebSocket proxies, for all
 * suites; their addresses go out in PGZ_TEST_SERVERS.
 */
async function start({ majors, others = false }) {
  const stops = [];
  const stop = async () => {
    for (const one of stops.reverse()) await one();
  };
  try {
    const { startServers } = await import("./servers/index.mjs");
    const { startSidecar } = await import("./servers/sidecar.mjs");
    const { startProxies } = await import("./servers/websockets.mjs");
    const { servers, pgbouncer, stop: stopServers } = await startServers({ majors, pgbouncer: others });
    const all = [...servers, ...(others ? [pgbouncer] : [])];
    stops.push(stopServers);
    say(`the suite "node" runs in Node ${process.versions.node}`);
    const side = await startSidecar(all);
    stops.push(side.stop);
    const proxies = others ? await startProxies(all) : undefined;
    if (proxies !== undefined) stops.push(proxies.stop);
    const faults = existsSync(at("tests/faults/host.mjs"))
      ? await (await import("./faults/host.mjs")).startFaultHost()
      : undefined;
    if (faults !== undefined) stops.push(faults.stop);
    for (const { name, host, port, own } of all) {
      say(
        own
          ? `server ${name} at ${host}:${port}`
          : `server ${name} is the one of DATABASE_URL; cases that need our own roles run on the others only`,
      );
    }
    environment.PGZ_TEST_SERVERS = JSON.stringify({
      servers,
      pgbouncer,
      side: side.url,
      webSockets: proxies?.urls,
      faults: faults?.url,
    });
    return { stop };
  } catch (error) {
    await stop();
    say(error.stack);
    unmet.servers = error.message.split("\n")[0];
  }
}

async function planQuick() {
  const { changedFiles, plan } = await import("./quick.mjs");
  const since = process.env.SINCE || "HEAD";
  const changed = changedFiles(since);
  say(changed.length > 0 ? `changed against ${since}: ${changed.join(" ")}` : `nothing has changed against ${since}`);
  if (changed.length === 0) say("`make quick SINCE=HEAD~1` compares with the commit before");
  Object.assign(quick, await plan(changed));
  leftOut = quick.leftOut;
}

async function runQuick() {
  const inRust = quick.rust ? await rust("--lib") : [];
  const ofTypes = quick.types ? typesOfJs() : [];
  const env = quick.needs.includes("servers") ? onlyPlainServer() : {};
  const tested = quick.tests.length > 0 ? runVitest("quick", [process.execPath], quick.tests, env) : [];
  return [...inRust, ...(await Promise.all([ofTypes, tested])).flat()];
}

async function typesOfJs() {
  const { typesOfJs: configuration } = await import("./quick.mjs");
  const project = at(".cache/quick/tsconfig.json");
  mkdirSync(path.dirname(project), { recursive: true });
  writeFileSync(project, JSON.stringify(configuration));
  const { status } = await run([bin("tsc"), "-p", project], { timeout: minutes(5) });
  return [status === 0 ? { label: "quick types", passed: 1, failed: 0 } : failure("quick types", "tsc, see above")];
}

async function rust(...options) {
  const command = ["cargo", "test", "--no-fail-fast", ...options];
  const { output, status, timedOut } = await run(command, { timeout: minutes(20) });
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

/** Simulated sessions, and the server model against the real ones. */
async function simulation() {
  return [
    await countedBy("simulation sessions", ["tests/simulation/check.mjs"], minutes(5)),
    await countedBy("simulation model", ["tests/simulation/conform.mjs"], minutes(5)),
    await countedBy("simulation pooler", ["tests/simulation/conform-pooler.mjs"], minutes(5)),
  ];
}

async function longSimulation() {
  const sessions = Number(process.env.SESSIONS ?? 100_000);
  const env = { FIXED: "0", OF_THE_DAY: String(sessions) };
  return [await countedBy("long simulation", ["tests/simulation/check.mjs"], minutes(60), env)];
}

/** A script of Node's whose last line is `N passed, M failed`. */
async function countedBy(label, script, timeout, env = {}) {
  const { output, status, timedOut } = await run([process.execPath, ...script.map((part) => at(part))], {
    timeout,
    env,
  });
  const [, passed, failed] = /^(\d+) passed, (\d+) failed$/m.exec(output) ?? [];
  const row = { label, passed: Number(passed ?? 0), failed: Number(failed ?? 0), reasons: [] };
  for (const [, name] of output.matchAll(/^\[simulation\] FAILED (.*)$/gm)) row.reasons.push(name);
  if (timedOut) fail(row, "out of time");
  else if (row.passed + row.failed === 0) fail(row, `ended with status ${status} and no count`);
  return row;
}

async function lint() {
  // worker-example imports the driver by its name, and nothing has bundled it yet in a fresh checkout.
  (await import("../worker-example/build.mjs")).linkDriver();
  const clippy = ["cargo", "clippy", "--quiet"];
  const ofRust = {
    "cargo fmt": ["cargo", "fmt", "--all", "--check", "--", "--color=never"],
    "clippy, native": [...clippy, "--all-targets", "--", "-D", "warnings"],
    "clippy, wasm32": [...clippy, "--workspace", "--target", "wasm32-unknown-unknown", "--", "-D", "warnings"],
  };
  const ofTypeScript = {
    prettier: [bin("prettier"), "--check", "--log-level=warn", "**/*.{ts,mts,mjs,js}"],
    eslint: [bin("eslint"), "."],
    tsc: [bin("tsc"), "--noEmit"],
  };
  const row = { label: "lint", passed: 0, failed: 0, reasons: [] };
  const check = async ([name, command]) => {
    const { status, timedOut } = await run(command, { timeout: minutes(10) });
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

/**
 * vitest under `runtime`, in those of the folders that have tests. A row per folder; in tests/workerd per file, to
 * compare with the others.
 */
async function runVitest(label, runtime, allFolders, env = {}) {
  const paths = vitestOptions.filter((option) => option.startsWith("tests/"));
  const folders =
    paths.length === 0 ? allFolders : paths.filter((one) => allFolders.some((folder) => one.startsWith(folder)));
  if (folders.length === 0)
    return [failure(label, `${paths.join(" ")} does not run here, only ${allFolders.join(" ")}`)];
  const report = at(".cache/reports", `${label}.json`);
  mkdirSync(path.dirname(report), { recursive: true });
  rmSync(report, { force: true });
  const options = [
    "run",
    "--reporter=dot",
    "--reporter=json",
    `--outputFile.json=${report}`,
    ...folders,
    ...vitestOptions.filter((option) => !paths.includes(option)),
  ];
  const host = ["deno", "bun"].includes(label) ? label : "node";
  const { status, timedOut } = await run([...runtime, vitest, ...options], {
    env: { ...env, PGZ_TEST_RUNTIME: host },
    timeout: longestOf(label),
  });
  const result = new Map();
  const rowOf = (file) => {
    const [, folder, rest] = file.split("/");
    const name = `${label} ${folder === "workerd" ? rest.replace(".test.ts", "") : folder}`;
    if (!result.has(name)) result.set(name, { label: name, passed: 0, failed: 0, seconds: 0, reasons: [] });
    return result.get(name);
  };
  if (!existsSync(report))
    return [failure(label, timedOut ? "out of time" : `vitest ended with status ${status} and no report`)];
  for (const file of JSON.parse(readFileSync(report, "utf8")).testResults) {
    const name = path.relative(root, file.name);
    const row = rowOf(name);
    row.seconds += (file.endTime - file.startTime) / 1000;
    for (const test of file.assertionResults) {
      if (test.status === "passed") row.passed++;
      else if (test.status === "failed") fail(row, `${name}: ${test.fullName}`);
      else if (!vitestOptions.includes("-t")) fail(row, `${name}: ${test.fullName}: ${test.status}`);
    }
    if (file.status === "failed" && !file.assertionResults.some((test) => test.status === "failed"))
      fail(row, `${name}: ${file.message || "could not be loaded"}`);
    else if (file.assertionResults.length === 0) fail(row, `${name}: no tests`);
  }
  const found = [...result.values()].filter(({ passed, failed }) => passed + failed > 0);
  if (timedOut) found.push(failure(label, "out of time"));
  else if (found.length === 0) found.push(failure(label, "no test ran"));
  else if (status !== 0 && found.every(({ failed }) => failed === 0))
    found.push(failure(label, `vitest ended with status ${status} (an error outside of a test?)`));
  return found;
}

function onlyNewestServer() {
  const { servers, ...rest } = JSON.parse(environment.PGZ_TEST_SERVERS);
  return { PGZ_TEST_SERVERS: JSON.stringify({ ...rest, servers: servers.slice(0, 1) }) };
}

function onlyOldestServer() {
  const { servers, ...rest } = JSON.parse(environment.PGZ_TEST_SERVERS);
  return { PGZ_TEST_SERVERS: JSON.stringify({ ...rest, servers: servers.filter(({ own }) => own).slice(-1) }) };
}

function onlyPlainServer() {
  const { servers, ...rest } = JSON.parse(environment.PGZ_TEST_SERVERS);
  return { PGZ_TEST_SERVERS: JSON.stringify({ ...rest, servers: [{ ...servers[0], tls: false }], quick: true }) };
}

const failure = (label, reason) => ({ label, passed: 0, failed: 1, reasons: [reason] });

function fail(row, reason) {
  row.failed++;
  row.reasons.push(reason);
}

/**
 * Runs a command in a process group of its own, shows its output as it comes, and kills the whole group when time is
 * up.
 */
function run([command, ...parameters], { env = {}, timeout: longest }) {
  const timeout = Math.min(longest, timeLeft());
  return new Promise((resolve) => {
    const child = spawn(command, parameters, {
      cwd: root,
      env: { ...environment, ...env },
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    children.push(child);
    let output = "";
    let timedOut = false;
    const timer = setTimeout(() => {
      timedOut = true;
      say(`${path.basename(command)}: out of time after ${Math.round(timeout / minutes(1))} minutes`);
      killGroup(child);
    }, timeout);
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding("utf8");
      stream.on("data", (text) => {
        output += text;
        process.stdout.write(text);
      });
    }
    const end = (status) => {
      clearTimeout(timer);
      children = children.filter((one) => one !== child);
      resolve({ output, status, timedOut });
    };
    child.once("error", (error) => {
      say(`${command}: ${error.message}`);
      end(127);
    });
    child.once("exit", (code, signal) => {
      killGroup(child); // what it left behind, which may hold the pipes open
      const status = code ?? `signal ${signal}`;
      const fallback = setTimeout(end, 2000, status);
      child.once("close", () => {
        clearTimeout(fallback);
        end(status);
      });
    });
  });
}

function killGroup({ pid }) {
  if (pid === undefined) return;
  try {
    process.kill(-pid, "SIGKILL");
  } catch {
    // all gone already
  }
}

/**
 * Without what would change the tests' meaning: libpq's variables, flags for compilers and for Node, modes of npm and
 * vitest.
 */
function clean(env) {
  const noise =
    /^(PG[A-Z]+|NODE_(ENV|OPTIONS|EXTRA_CA_CERTS|TLS_REJECT_UNAUTHORIZED)|(CARGO_.*)?RUSTFLAGS|RUSTUP_TOOLCHAIN|MINIFLARE_.*|VITEST.*|CLOUDFLARE_.*|WRANGLER_.*|DENO_.*|BUN_.*|RUST_TEST_.*|TS_NODE_.*|TZ)$/;
  const cargo = path.join(env.CARGO_HOME ?? path.join(env.HOME ?? "", ".cargo"), "bin");
  const kept = Object.fromEntries(Object.entries(env).filter(([name]) => !noise.test(name)));
  return {
    ...kept,
    PATH: [cargo, env.PATH, "/usr/sbin"].join(path.delimiter),
    CI: env.CI ?? "true",
    DENO_NO_UPDATE_CHECK: "1",
    WRANGLER_SEND_METRICS: "false",
    NO_COLOR: "1",
  };
}

const say = (text) => process.stdout.write(`[test] ${text}\n`);
const title = (text) => process.stdout.write(`\n[test] ===== ${text} =====\n`);

function report() {
  const total = rows.reduce(
    (sum, { passed, failed }) => ({ passed: sum.passed + passed, failed: sum.failed + failed }),
    { passed: 0, failed: 0 },
  );
  const reasons = rows.flatMap(({ label, reasons: all = [] }) =>
    all.map((reason) => `  ${label}: ${reason.split("\n")[0]}`),
  );
  if (reasons.length > 0) process.stdout.write(`\nFailed:\n${reasons.join("\n")}\n`);
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
  const isEmpty = total.passed === 0 && !wanted.includes("quick"); // a quick run may find that no test sees the change
  process.exitCode = total.failed > 0 || isEmpty ? 1 : 0;
  process.stdout.write(`${total.passed} passed, ${total.failed} failed\n`);
}

const time = (seconds = NaN) => (Number.isNaN(seconds) ? "" : seconds.toFixed(1));

function table(head, lines) {
  const line = ([name, ...cells]) =>
    `${String(name).padEnd(28)}${cells.map((cell) => String(cell).padStart(9)).join("")}\n`;
  process.stdout.write(`\n${[head, ...lines].map(line).join("")}`);
}

for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {
    children.forEach(killGroup);
    process.exit(130); // the servers notice that we are gone
  });
}

await main().catch((error) => rows.push(failure("run", error.stack)));
report();
