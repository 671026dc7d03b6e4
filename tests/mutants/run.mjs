// Changes the code, one small thing at a time, and lists the changes that no test notices:
//
//   make mutants FILES="js/util/errors.ts src/protocol"
//
// TypeScript by Stryker against tests/unit (js/pool against tests/unit/{pool-*,leftovers} alone), Rust by cargo-mutants
// against the unit tests in src/ and the transcripts. Where calls are run (BY_SESSIONS), simulated sessions come first,
// and Stryker tries what they have not noticed: few files of these folders have a unit test of their own. By hand,
// because a file takes minutes (each change of the Rust is compiled). A survivor is a missing test, code that is not
// needed, or a change that makes no difference: equivalent.md names those of js/pool. What only tests/integration would
// notice survives too. Stryker wants Node 22; it comes from npm with the first run. cargo-mutants: `cargo install
// --locked cargo-mutants`.
import { spawnSync } from "node:child_process";
import { mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { nodeBinary } from "../../scripts/node/index.mjs";
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

/** Lists what neither a session nor a unit test has noticed. */
function bySessions(files) {
  const env = { ...process.env, FILES: files.join(" ") };
  const swept = run(process.execPath, [path.join(root, "tests/simulation/sweep.mjs")], { env });
  if (swept !== 0) return swept;
  const unnoticed = readJson(".cache/mutants/unnoticed.json");
  if (unnoticed.length === 0) return 0;
  const tried = stryker([...new Set(unnoticed.map(({ range }) => range))]);
  if (tried !== 0) return tried;
  // Stryker tries all changes inside a range, also those that a session has noticed.
  const keyOf = ({ range, mutatorName, replacement }) => [range, mutatorName, replacement].join(" ");
  const left = new Set(unnoticed.map(keyOf));
  const survivors = survivorsOf(readJson(".cache/mutants/stryker.json")).filter((one) => left.has(keyOf(one)));
  for (const { range, mutatorName, replacement } of survivors) console.log(`${range} ${mutatorName}: ${replacement}`);
  console.log(`${survivors.length} are noticed by nobody`);
  return 0;
}

/** Of Stryker's report, with ranges as sweep.mjs has them: its columns begin at 1, ours at 0. */
function survivorsOf({ files }) {
  return Object.entries(files).flatMap(([file, { mutants }]) =>
    mutants
      .filter(({ status }) => status === "Survived" || status === "NoCoverage")
      .map(({ location: { start, end }, mutatorName, replacement }) => ({
        range: `${file}:${start.line}:${start.column - 1}-${end.line}:${end.column - 1}`,
        mutatorName,
        replacement,
      })),
  );
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
  if (others.length > 0) statuses.push(stryker(globs, isPool ? "{pool-*,leftovers}" : "*"));
  if (swept.length > 0) statuses.push(bySessions(swept));
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
