// CASE=core: the encoders alone, natively, without server, socket or wasm: `cargo bench --bench core` (main.rs), whose lines of JSON are the
// result rows. It is compiled with the release profile's opt-level, which is what the wasm has.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** No server is started for this one. */
export const needsServer = false;

export async function run() {
  const cargo = spawn("cargo", ["bench", "--quiet", "--bench", "core"], { cwd: fileURLToPath(new URL("../..", import.meta.url)), stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve, reject) => cargo.on("error", reject).on("exit", resolve));
  const rows = [];
  for await (const line of createInterface({ input: cargo.stdout })) if (line.startsWith("{")) rows.push(JSON.parse(line));
  const status = await ended;
  if (status !== 0 || rows.length === 0) throw new Error(`cargo bench ended with status ${status} and ${rows.length} figures`);
  const allocating = rows.filter(({ metric, median }) => metric === "allocs_per_row" && median > 0);
  return { rows, failures: allocating.map(({ shape, median }) => `${shape}: ${median} allocations per row, to reach 0`) };
}
