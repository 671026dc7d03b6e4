// What a run costs and may cost, in CPU seconds of all its processes. Servers, workerd and browsers are not children
// whose time this process could ask for. So the machine is asked, or the container if it has a control group of its
// own.
//
//   const slow = slowness();
//   const before = cpuSeconds();
//   …
//   overBudget("test", cpuSeconds() - before, slow);   // what is wrong, or undefined
//
// A slower processor needs more seconds for the same work. So a loop is timed at the start, and the seconds are divided
// by how much slower than on the machine of the budgets it was.
//
// Knows no suites, and not what a run does about a sentence.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { cpus } from "node:os";

/**
 * CPU seconds of `work` on the machine of the budgets: two virtual cores of an AMD EPYC, in November 2026, beside other
 * work. Another core that is busy makes this one slower, which the loop does not see.
 */
const REFERENCE = 0.12;

/** The most CPU seconds after set-up and build. `check` and `quick` are aims that were not measured yet. */
const BUDGETS = { test: 1_300, check: 240, quick: 120 };

/** The CPU seconds that all processes have used, since a time that stays the same during a run. */
export const cpuSeconds = () => ofControlGroup() ?? ofProcessors();

function ofControlGroup() {
  try {
    return Number(/^usage_usec (\d+)$/m.exec(readFileSync("/sys/fs/cgroup/cpu.stat", "utf8"))[1]) / 1e6;
  } catch {
    return undefined; // an older kernel, or no Linux
  }
}

const ofProcessors = () =>
  cpus().reduce((sum, { times: { user, nice, sys, irq } }) => sum + (user + nice + sys + irq) / 1_000, 0);

/** How many times as long as on the machine of the budgets the same work takes. The fastest of five counts. */
export function slowness() {
  const seconds = Array.from({ length: 5 }, () => {
    const before = process.cpuUsage();
    work();
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1e6;
  });
  return Math.min(...seconds) / REFERENCE;
}

/** Some of what tests do: objects, texts, hashes. */
function work() {
  const rows = Array.from({ length: 40_000 }, (_, id) => ({ id, name: `row ${id}`, tags: [id % 7, id % 11] }));
  const texts = Array.from({ length: 4 }, () => JSON.stringify(JSON.parse(JSON.stringify(rows))));
  return texts.reduce((hash, text) => hash.update(text), createHash("sha256")).digest("hex");
}

/** Returns what is wrong if this kind of run has used more than it may; `undefined` if it has not. */
export function overBudget(kind, seconds, slow) {
  const most = BUDGETS[kind];
  if (most === undefined || seconds / slow <= most) return undefined;
  return `took ${Math.round(seconds / slow)} CPU seconds, and ${most} are its budget (tests/run/budget.mjs)`;
}
