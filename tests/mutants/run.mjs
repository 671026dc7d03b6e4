// Changes the code, one small thing at a time, and lists the changes that no test notices:
//
//   make mutants FILES="js/util/errors.ts src/protocol"
//
// TypeScript by Stryker against tests/unit (js/pool against tests/unit/{pool-*,leftovers} alone), Rust by cargo-mutants
// against the unit tests in src/ and the transcripts. By hand, because a file takes minutes (each change of the Rust is
// compiled). A survivor is a missing test, code that is not needed, or a change that makes no difference: equivalent.md names those
// of js/pool. What only tests/integration would notice survives too. Stryker wants Node 22; it comes from npm with the
// first run. cargo-mutants: `cargo install --locked cargo-mutants`.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { nodeBinary } from "../../scripts/node/index.mjs";

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

const run = (command, parameters, options = {}) => {
  const { status, error } = spawnSync(command, parameters, { cwd: root, stdio: "inherit", ...options });
  if (error) throw error;
  return status ?? 1;
};

function stryker(files) {
  if (!existsSync(path.join(here, "node_modules"))) {
    const quiet = ["--no-audit", "--no-fund", "--loglevel=error"];
    run("npm", ["install", "--ignore-scripts", "--no-save", ...quiet], { cwd: here });
  }
  const globs = files.map((file) => (file.endsWith(".ts") ? file : `${file}/**/*.ts`)).join();
  const bin = path.join(here, "node_modules/@stryker-mutator/core/bin/stryker.js");
  const isPool = files.every((file) => file.startsWith("js/pool"));
  const env = { ...process.env, MUTANT_TESTS: isPool ? "{pool-*,leftovers}" : "*" };
  return run(nodeBinary(24), [bin, "run", path.join(here, "stryker.config.mjs"), "--mutate", globs], { env });
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
const statuses = [typescript.length > 0 ? stryker(typescript) : 0, rust.length > 0 ? cargoMutants(rust) : 0];
process.exitCode = Math.max(...statuses);
