// Runs vitest in a runtime, and converts its report to rows. Must not know which folders belong to which suite
// (suites.mjs).
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { withoutCaches } from "../../scripts/own-caches.mjs";
import { forVitest } from "./arguments.mjs";
import { at, minutes, root, run } from "./command.mjs";
import { fail, failure } from "./rows.mjs";

const vitest = at("node_modules/vitest/vitest.mjs");
/**
 * The longest silence of vitest, whose reporter prints a dot for each test. In a release one test of `cluster` makes
 * two million calls, and `changes` has tests of many minutes: their limit is HOURS (tests/support/release.ts).
 */
const SILENCE = minutes(20);
const OF_HOURS = minutes(95);

/**
 * Runs vitest under `runtime`, in those of the folders that have tests. Returns a row for each folder; in tests/workerd
 * a row for each file, for comparison with the other runtimes.
 */
export async function runVitest(label, runtime, allFolders, env = {}) {
  const paths = forVitest.filter((option) => option.startsWith("tests/"));
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
    ...forVitest.filter((option) => !paths.includes(option)),
  ];
  const host = ["deno", "bun"].includes(label) ? label : "node";
  const { status, timedOut } = await run([...runtime, vitest, ...options], {
    env: { ...withoutCaches(process.env), ...env, PGZ_TEST_RUNTIME: host },
    silence: ["cluster", "changes"].includes(label) ? OF_HOURS : SILENCE,
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
      else if (test.status === "failed") fail(row, `${name}: ${test.fullName}: ${messageOf(test)}`);
      else if (!forVitest.includes("-t")) fail(row, `${name}: ${test.fullName}: ${test.status}`);
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

const messageOf = ({ failureMessages = [] }) => failureMessages[0]?.split("\n")[0] ?? "no message";
