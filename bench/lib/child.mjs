// The measured process's side of lib/worker.mjs, on Node, Deno and Bun. CPU time is the process's own, user and system.
import { createHash } from "node:crypto";
import process from "node:process";
import { createInterface } from "node:readline";

/**
 * Answers each request with what `handle` gives; `{ idle }` by itself. Ends with stdin, behind what `end` has to do.
 */
export function serve(handle, end = () => {}) {
  const lines = createInterface({ input: process.stdin });
  lines.on("line", async (line) => {
    const request = JSON.parse(line);
    const reply = await answer(handle, request).catch((error) => ({ error: String(error?.stack ?? error) }));
    process.stdout.write(`${JSON.stringify(reply)}\n`);
  });
  lines.on("close", async () => {
    await end();
    process.exit(0);
  });
}

const answer = async (handle, request) =>
  request.idle ? timed(() => new Promise((resolve) => setTimeout(() => resolve({}), request.idle))) : handle(request);

/**
 * Runs `work` and gives its result with wall and CPU milliseconds. Not `clean` for work of many small calls: V8 forgets
 * with a forced collection what its compiled code knew of objects that have died, and runs slowly for a thousand calls
 * behind it.
 */
export async function timed(work, { clean = true } = {}) {
  if (clean) collect();
  const cpu = process.cpuUsage();
  const start = performance.now();
  const result = await work();
  const wall_ms = performance.now() - start;
  const { user, system } = process.cpuUsage(cpu);
  return { ...result, wall_ms, cpu_ms: (user + system) / 1000 };
}

/** What went before is not the next one's cost. */
export function collect() {
  if (globalThis.Bun) globalThis.Bun.gc(true);
  else globalThis.gc?.();
}

export const runtimeVersion = () => globalThis.Bun?.version ?? globalThis.Deno?.version.deno ?? process.versions.node;

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
