// What each suite of a release found at which commit, so that `make test-release` after a stop runs only what has not
// passed at this commit yet.
//
//   const runs = recordOf(commitOfTree(), ".cache/test-release.json");
//   runs.passed("node-22")                      // its last run, if that passed at this commit
//   runs.add("node-22", rows, { seconds, cpu })
//   runs.lines(["node-22", …])                  // the cells of a table
//
// Knows git's name of the tree. Must not know suites.
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { root } from "./command.mjs";
import { time } from "./rows.mjs";

/** Git's name of the tree. A tree with changes has none, and nothing is recorded of it. */
export function commitOfTree() {
  const git = (...parameters) =>
    execFileSync("git", parameters, { cwd: root, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
  try {
    return git("status", "--porcelain") === "" ? git("rev-parse", "--short", "HEAD") : undefined;
  } catch {
    return undefined; // no repository, or no git
  }
}

export function recordOf(commit, file) {
  /** By suite: `{ commit, date, passed, failed, seconds, cpu }` of its last run. */
  const runs = readRuns(file);
  return {
    passed(suite) {
      const last = runs[suite];
      return last !== undefined && last.failed === 0 && last.commit === commit ? last : undefined;
    },
    add(suite, rows, { seconds, cpu }) {
      if (commit === undefined) return;
      const sum = (key) => rows.reduce((total, row) => total + row[key], 0);
      const date = new Date().toISOString();
      runs[suite] = { commit, date, passed: sum("passed"), failed: sum("failed"), seconds, cpu };
      mkdirSync(path.dirname(file), { recursive: true });
      writeFileSync(file, JSON.stringify(runs, undefined, 2));
    },
    lines: (suites) =>
      suites.map((suite) => {
        const { commit: where = "never", passed = "", failed = "", seconds, cpu } = runs[suite] ?? {};
        return [suite, where, passed, failed, time(seconds), time(cpu)];
      }),
  };
}

function readRuns(file) {
  try {
    return JSON.parse(readFileSync(file, "utf8"));
  } catch {
    return {}; // the first run, or one that was stopped while it wrote
  }
}
