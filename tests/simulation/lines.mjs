// Runs a program of the simulator in another process and reads its output: lines of JSON, each after an @. A driver
// with a fault may print anything, end its process, or loop.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** Milliseconds without output after which the process is assumed to be in an endless loop. */
const STILL = 40_000;

export function say(line) {
  process.stdout.write(`\n@${JSON.stringify(line)}\n`);
}

/**
 * Runs the module `url` with `more` in its environment, and passes each line to `heard`. Resolves to how the process
 * ended.
 */
export function linesOf(url, more, heard) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [fileURLToPath(url)], {
      env: { ...process.env, ...more },
      stdio: ["ignore", "pipe", "ignore"],
    });
    let last = performance.now();
    const watch = setInterval(() => performance.now() - last > STILL && child.kill("SIGKILL"), 500);
    createInterface({ input: child.stdout }).on("line", (line) => {
      if (!line.startsWith("@")) return;
      last = performance.now();
      heard(JSON.parse(line.slice(1)));
    });
    child.on("close", (status, signal) => {
      clearInterval(watch);
      resolve(`the process ended with ${signal ?? status}`);
    });
  });
}
