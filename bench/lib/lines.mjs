// Runs one of our programs at the project's root and returns the lines of JSON that it prints. Other output is dropped.
import { spawn } from "node:child_process";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("../..", import.meta.url));

/** `env` is added to the environment. Throws if the program fails. */
export async function lines(command, parameters, env = {}) {
  const program = spawn(command, parameters, {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = new Promise((resolve, reject) => program.on("error", reject).on("exit", resolve));
  const rows = [];
  for await (const line of createInterface({ input: program.stdout }))
    if (line.startsWith("{")) rows.push(JSON.parse(line));
  const status = await ended;
  if (status !== 0) throw new Error(`${path.basename(command)} ended with status ${status}`);
  return rows;
}
