// Changes the code, one small thing at a time, and lists the changes that no test notices:
//
//   make mutants FILES="js/util/errors.ts src/protocol"
//
// TypeScript by Stryker against tests/unit (js/pool against tests/unit/{pool-*,session-changes} alone), Rust by
// cargo-mutants against the unit tests in src/ and the transcripts. Where calls are run (BY_SESSIONS), Stryker has the
// unit tests that are named after the file, and simulated sessions try what these have not noticed. By hand, because a
// file takes minutes (each change of the Rust is compiled). A survivor is a missing test, code that is not needed, or a
// change that makes no difference: equivalent.md names those known. What only tests/integration would notice
// survives too. Stryker wants Node 22; it comes from npm with the first run. cargo-mutants: `cargo install --locked
// cargo-mutants`.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { nodeBinary } from "../../scripts/node/index.mjs";
import { filesOf } from "../simulation/mutants.mjs";
import { changesOf, isNoticed, STRYKER_REPORT } from "./changes.mjs";
import { installStryker } from "./install.mjs";

const here = fileURLToPath(new URL(".", import.meta.url));
const root = path.join(here, "../..");
const unitTested = [
  "js/statement/sql.ts",
  "js/config",
  "js/util/errors.ts",
  "js/values/parameters.ts",
  "src/auth",
  "src/protocol",
];

/** Changes that a file's own tests have noticed: sweep.mjs leaves them out. */
const NOTICED = ".cache/mutants/noticed.json";

/** Folders whose code every simulated session runs through. */
const BY_SESSIONS = ["js/api", "js/session", "js/statement"];

const run = (command, parameters, options = {}) => {
  const { status, error } = spawnSync(command, parameters, { cwd: root, stdio: "inherit", ...options });
  if (error) throw error;
  return status ?? 1;
};

function stryker(patterns, tests = "*") {
  const bin = path.join(here, "node_modules/@stryker-mutator/core/bin/stryker.js");
  const config = path.join(here, "stryker.config.mjs");
  const env = { ...process.env, MUTANT_TESTS: tests };
  return run(nodeBinary(24), [bin, "run", config, "--mutate", patterns.join()], { env });
}

/**
 * Lists what is noticed neither by a file's own tests nor by a session: of js/session/learned.ts these are
 * tests/unit/learned.test.ts and tests/unit/told-*.test.ts. The tests of clients run through all of this code; each
 * change would be tried by some two hundred of them.
 */
function bySessions(files) {
  const noticed = [];
  for (const file of files) {
    const tests = ownTestsOf(file);
    if (!tests) continue;
    if (stryker([file], tests) !== 0) return 1;
    noticed.push(...changesOf(readJson(STRYKER_REPORT), isNoticed));
  }
  mkdirSync(path.join(root, ".cache/mutants"), { recursive: true });
  writeFileSync(path.join(root, NOTICED), JSON.stringify(noticed));
  const env = { ...process.env, FILES: files.join(" "), NOTICED };
  return run(process.execPath, [path.join(root, "tests/simulation/sweep.mjs")], { env });
}

function ownTestsOf(file) {
  const name = path.basename(file, ".ts");
  const all = readdirSync(path.join(root, "tests/unit"));
  const own = all.filter((test) => test === `${name}.test.ts` || test.startsWith(`${name}-`));
  return own.length > 0 ? `{${name},${name}-*}` : undefined;
}

function readJson(file) {
  return JSON.parse(readFileSync(path.join(root, file), "utf8"));
}

function typescriptMutants(files) {
  installStryker();
  const isBySessions = (file) => BY_SESSIONS.some((folder) => file.startsWith(folder));
  const swept = files.filter(isBySessions);
  const others = files.filter((file) => !isBySessions(file));
  const globs = others.map((file) => (file.endsWith(".ts") ? file : `${file}/**/*.ts`));
  const isPool = others.every((file) => file.startsWith("js/pool"));
  const statuses = [0];
  if (others.length > 0) statuses.push(stryker(globs, isPool ? "{pool-*,session-changes}" : "*"));
  if (swept.length > 0) statuses.push(bySessions(swept.flatMap(filesOf)));
  return Math.max(...statuses);
}

function cargoMutants(files) {
  const { status } = spawnSync("cargo", ["mutants", "--version"], { stdio: "ignore" });
  if (status !== 0) throw new Error("please run: cargo install --locked cargo-mutants");
  mkdirSync(path.join(root, ".cache"), { recursive: true });
  const globs = files.flatMap((file) => ["--file", file.endsWith(".rs") ? file : `${file}/**/*.rs`]);
  const options = ["--output", ".cache/mutants", "--baseline", "skip", "--timeout", "300", "--no-shuffle"];
  return run("cargo", ["mutants", ...options, ...globs, "--", "--lib", "--test", "transcripts"]);
}

const files = process.argv.slice(2).length > 0 ? process.argv.slice(2) : unitTested;
const typescript = files.filter((file) => file.startsWith("js"));
const rust = files.filter((file) => file.startsWith("src"));
const statuses = [typescript.length > 0 ? typescriptMutants(typescript) : 0, rust.length > 0 ? cargoMutants(rust) : 0];
process.exitCode = Math.max(...statuses);
