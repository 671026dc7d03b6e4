// Runs the properties of tests/properties with new inputs each time, for as long as you like, and counts them.
//
// `node tests/properties/fuzz.mjs` runs for a minute. `MINUTES=60 node tests/properties/fuzz.mjs` runs for an hour
// (`make fuzz MINUTES=60` adds random sessions).
//
// Each round is one run of the built test binary with new random numbers. A property that fails prints its smallest
// input, which then becomes a transcript or a test. The last line has the counts.
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));
const until = performance.now() + Number(process.env.MINUTES ?? 1) * 60_000;
const counts = new Map();
let rounds = 0;
let failed = false;

while (!failed && performance.now() < until) {
  const { status, output } = await run();
  failed = status !== 0;
  if (failed) console.log(output);
  rounds++;
  for (const [, subject, count] of output.matchAll(/\[cases\] (\S+)\.rs (\d+)$/gm))
    counts.set(subject, (counts.get(subject) ?? 0) + Number(count));
}
const all = [...counts.values()].reduce((sum, count) => sum + count, 0);
const each = [...counts].sort().map(([subject, count]) => `${subject} ${count}`);
console.log(`${rounds} rounds, ${all} inputs (${each.join(", ")}), ${failed ? "a property FAILED" : "0 faults"}`);
process.exit(failed ? 1 : 0);

function run() {
  return new Promise((resolve) => {
    const command = ["test", "--release", "--quiet", "--test", "properties"];
    const env = { ...process.env, PROPERTY_TIMES: process.env.PROPERTY_TIMES ?? "10" };
    const child = spawn("cargo", command, { cwd: root, env, stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (text) => void (output += text));
    child.once("close", (status) => resolve({ status, output }));
  });
}
