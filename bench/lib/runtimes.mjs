// Starts programs on each runtime of the benchmarks: the command line, or an error that says what is missing.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";

const at = (name) => fileURLToPath(new URL(`../../${name}`, import.meta.url));
// npm's deno is a Node program that wraps the real one, which is in the same folder.
const deno = () => [at("node_modules/deno/deno"), at("node_modules/.bin/deno")].find((file) => existsSync(file));

const commands = {
  node: () => [process.execPath, "--expose-gc"],
  deno: () => [deno(), "run", "-A", "--v8-flags=--expose-gc"],
  bun: () => [at("node_modules/.bin/bun")],
};

export function command(runtime, file, ...parameters) {
  return [...commands[runtime](), fileURLToPath(file), ...parameters];
}

/** The runtimes of `RUNTIMES=a,b`, or all. */
export function wantedRuntimes(option, all) {
  const names = option("RUNTIMES")?.split(",") ?? all;
  const unknown = names.find((name) => !all.includes(name));
  if (unknown) throw new Error(`RUNTIMES: ${unknown} is not among ${all.join(", ")}`);
  return names;
}

/** The pgx program, built by Go with the module proxy. Without Go the comparison is impossible, so this fails. */
export const pgx = () => goProgram("replay/pgx", "pgx");

/** Builds the Go program in that folder of bench/. */
export function goProgram(folder, name) {
  const binary = at(`.cache/bench/${name}`);
  mkdirSync(at(".cache/bench"), { recursive: true });
  const built = spawnSync("go", ["build", "-o", binary, "."], { cwd: at(`bench/${folder}`), stdio: ["ignore", 2, 2] });
  if (built.error)
    throw new Error(`pgx is one of the peers, and Go (https://go.dev/dl) is missing: ${built.error.message}`);
  if (built.status !== 0) throw new Error(`bench/${folder} could not be built, see above`);
  return [binary];
}

/**
 * Builds the Rust program in that folder of bench/. It is a crate of its own, which keeps its dependencies out of the
 * driver's lock file.
 */
export function cargoProgram(folder, name) {
  const target = at(`.cache/bench/${name}-target`);
  const built = spawnSync("cargo", ["build", "--release", "--locked", "--quiet", "--target-dir", target], {
    cwd: at(`bench/${folder}`),
    stdio: ["ignore", 2, 2],
  });
  if (built.error ?? built.status !== 0) throw new Error(`bench/${folder} could not be built, see above`);
  return [`${target}/release/${name}`];
}
