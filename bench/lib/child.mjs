// The measured process's side of worker.mjs, on Node, Deno and Bun. CPU time is the process's own, user plus system.
import { createHash } from "node:crypto";
import process from "node:process";
import { createInterface } from "node:readline";

/** Answers each request with the result of `handle`. Ends when stdin ends, after `end` has resolved. */
export function serve(handle, end = () => {}) {
  const lines = createInterface({ input: process.stdin });
  lines.on("line", async (line) => {
    const reply = await (async () => handle(JSON.parse(line)))().catch((error) => ({
      error: String(error?.stack ?? error),
    }));
    process.stdout.write(`${JSON.stringify(reply)}\n`);
  });
  lines.on("close", async () => {
    await end();
    process.exit(0);
  });
}

/**
 * Runs `work` and returns its result with wall and CPU milliseconds, unless it measured them itself. Pass `clean:
 * false` for work of many small calls: a forced collection discards what V8's compiled code knew about objects that
 * have died, and the next thousand calls run slowly.
 */
export async function timed(work, { clean = true } = {}) {
  if (clean) collect();
  const cpu = process.cpuUsage();
  const start = performance.now();
  const result = await work();
  const wall_ms = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { wall_ms, cpu_ms: (user + system) / 1000, ...result };
}

/** Collects garbage, so that a trial does not pay for the garbage of the previous one. */
export function collect() {
  if (globalThis.Bun) globalThis.Bun.gc(true);
  else globalThis.gc?.();
}

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
