// The suite `quick`: what the changed files can break (plan.mjs chooses). It is not one of all suites, because those
// contain its tests.
//
// plan.mjs imports what scripts/setup installs, so it is loaded after that has run.
import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { rust } from "./checks.mjs";
import { at, minutes, run, say } from "./command.mjs";
import { failure } from "./rows.mjs";
import { onlyPlainServer } from "./servers.mjs";
import { runVitest } from "./vitest.mjs";

/** Returns what the suite needs and how it runs. `leftOut` has a line for each thing that does not run. */
export async function plannedQuick() {
  const { changedFiles, plan, typesOfJs } = await import("./plan.mjs");
  const since = process.env.SINCE || "HEAD";
  const changed = changedFiles(since);
  say(changed.length > 0 ? `changed against ${since}: ${changed.join(" ")}` : `nothing has changed against ${since}`);
  if (changed.length === 0) say("`make quick SINCE=HEAD~1` compares with the commit before");
  const planned = await plan(changed);
  return { needs: planned.needs, leftOut: planned.leftOut, run: () => runQuick(planned, typesOfJs) };
}

async function runQuick({ rust: ofRust, types, tests, needs }, typesOfJs) {
  const inRust = ofRust ? await rust("--lib") : [];
  const ofTypes = types ? checkTypes(typesOfJs) : [];
  const env = needs.includes("servers") ? onlyPlainServer() : {};
  const tested = tests.length > 0 ? runVitest("quick", [process.execPath], tests, env) : [];
  return [...inRust, ...(await Promise.all([ofTypes, tested])).flat()];
}

async function checkTypes(configuration) {
  const project = at(".cache/quick/tsconfig.json");
  mkdirSync(path.dirname(project), { recursive: true });
  writeFileSync(project, JSON.stringify(configuration));
  const compiler = at("node_modules/typescript-7/bin/tsc"); // as in `make check`
  const { status } = await run([process.execPath, compiler, "-p", project], { silence: minutes(20) });
  return [status === 0 ? { label: "quick types", passed: 1, failed: 0 } : failure("quick types", "tsc, see above")];
}
