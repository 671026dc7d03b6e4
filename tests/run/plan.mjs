// What `make quick` runs: from the files that changed to the tests that they can break, in less than a minute.
//
// Knows which parts of the tree a test sees. Must not run anything: quick.mjs does. A unit test is chosen by its
// imports, which esbuild follows, or because it reads a changed file by name. Tests that are not chosen are listed in
// `leftOut`, so that a quick pass is not taken for a complete one.
import { build, stop } from "esbuild";
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const cases = "tests/integration/cases.test.ts";
const documents = "tests/packaging/docs.test.ts";

/** Returns the files that differ from `since`, including deleted and untracked files. */
export function changedFiles(since = "HEAD") {
  const git = (...parameters) => execFileSync("git", parameters, { cwd: root, encoding: "utf8" });
  const differ = git("diff", "--name-only", "--no-renames", "-z", since, "--");
  const untracked = git("ls-files", "--others", "--exclude-standard", "-z");
  return [...new Set(`${differ}${untracked}`.split("\0").filter(Boolean))].sort();
}

/**
 * Returns `{ rust, types, tests, needs, leftOut }`: whether Rust's unit tests and the type-check of js/ run, the files
 * for vitest, what those need (`build`, `servers`), and a line for each thing that does not run.
 */
export async function plan(changed) {
  const any = (pattern) => changed.some((file) => pattern.test(file));
  const rust = any(/^(src\/|Cargo\.|rust-toolchain\.toml$|\.cargo\/)/);
  const types = any(/^(js\/.*\.ts|tsconfig\.json)$/);
  const driver = any(/^js\/(?!(adapters|cli|changes|cluster|testing)\b).*\.ts$/);
  const integration =
    rust || driver || any(/^tests\/(integration\/(cases\/|cases\.test|context|registrations|assert|servers)|faults\/)/);
  const units = await unitTests(rust ? [...changed, "pkg/pgz_edge.js", "pkg/pgz_edge_bg.wasm"] : changed);
  const tests = [...(integration ? [cases] : []), ...units.chosen, ...(any(/\.md$/) ? [documents] : [])];
  const needs = [...(tests.length > 0 ? ["build"] : []), ...(integration ? ["servers"] : [])];
  const leftOut = [
    ...(units.further > 0 ? [`${units.further} files of tests/unit that see a changed file from further away`] : []),
    ...(units.others > 0 ? [`${units.others} files of tests/unit that see none of the changed files`] : []),
    ...(rust ? ["cargo test: all but the unit tests of src/"] : []),
    ...(rust || driver
      ? [`all folders of tests/ but ${integration ? "unit and the plain cases of integration" : "unit"}`]
      : []),
    ...(integration ? ["cases that are marked `slow`; TLS, PostgreSQL 15; Node 22 to 26, Deno, Bun, workerd"] : []),
    ...(any(/^js\/(adapters|changes|cluster|testing)\b/) ? ["tests/adapters, tests/workerd"] : []),
    ...(any(/^js\/cli\//) ? ["tests/cli"] : []),
    ...changed.filter((file) => isTest(file) && !tests.includes(file)),
    "the linters, and types outside of js/: make check",
  ];
  return { rust, types, tests, needs, leftOut };
}

const isTest = (file) => /^tests\/.*\.test\.ts$/.test(file) && existsSync(path.join(root, file));

/**
 * The most unit tests that run. A file that all others import, such as js/util/errors.ts, is seen by more than 200,
 * which take two minutes.
 */
const MOST_UNIT_TESTS = 60;

/**
 * Returns the files of tests/unit that import a changed file, directly or not, or read it: the nearest ones. Also how
 * many are further away, and how many see none of the changed files.
 */
async function unitTests(changed) {
  const all = readdirSync(path.join(root, "tests/unit"))
    .filter((name) => name.endsWith(".test.ts"))
    .map((name) => `tests/unit/${name}`);
  const distances = distancesFrom(changed, await (importers ??= importersOf(all)));
  const distanceOf = (test) => (reads(test, changed) ? 1 : distances.get(test));
  const seeing = all.filter((test) => distanceOf(test) !== undefined);
  const nearest = seeing.sort((a, b) => distanceOf(a) - distanceOf(b)).slice(0, MOST_UNIT_TESTS);
  return {
    chosen: nearest.sort(),
    further: seeing.length - nearest.length,
    others: all.length - seeing.length,
  };
}

/** How many imports lead from each file to a changed one: 0 from the changed file itself. */
function distancesFrom(changed, importersOfFile) {
  const distances = new Map(changed.map((file) => [file, 0]));
  for (const [file, distance] of distances)
    // what is added meanwhile is visited too, the nearest first
    for (const importer of importersOfFile.get(file) ?? [])
      if (!distances.has(importer)) distances.set(importer, distance + 1);
  return distances;
}

/** For each file that a unit test is bundled from, the files that import it. They do not change during a run. */
let importers;

async function importersOf(tests) {
  const { metafile } = await build({
    absWorkingDir: root,
    entryPoints: tests,
    outdir: ".cache/quick",
    bundle: true,
    write: false,
    metafile: true,
    format: "esm",
    platform: "node",
    packages: "external",
    logLevel: "silent",
  });
  await stop(); // its process would count as left behind by the run
  const found = new Map();
  for (const [file, { imports }] of Object.entries(metafile.inputs))
    for (const { path: imported } of imports) found.set(imported, [...(found.get(imported) ?? []), file]);
  return found;
}

/** A test that lists a folder may read any file of js/; others name the file. */
function reads(test, changed) {
  const text = readFileSync(path.join(root, test), "utf8");
  const listed = text.includes("readdirSync") && changed.some((file) => file.startsWith("js/"));
  return listed || changed.some((file) => text.includes(path.basename(file)));
}

/** The configuration that checks only js/, and caches the results of the previous check. */
export const typesOfJs = {
  extends: "../../tsconfig.json",
  compilerOptions: { incremental: true, tsBuildInfoFile: "types.json" },
  include: ["../../js"],
  exclude: ["../../js/adapters/pg-alias"],
};
