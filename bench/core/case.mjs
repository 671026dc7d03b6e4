// CASE=core: the encoders alone, without server or socket: natively by `cargo bench --bench core` (main.rs), and the
// same rows through the wasm, in each form, by wasm.mjs. The lines of JSON that both print are the result rows.
// Natively it is compiled with the release profile's opt-level, which is what the wasm has.
//
//   SHAPES, FORMATS          which, in wasm, separated by commas
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

/** No server is started for this one. */
export const needsServer = false;

const root = fileURLToPath(new URL("../..", import.meta.url));
const bench = ["bench", "--quiet", "--bench", "core", "--"];

export async function run({ option }) {
  const native = await lines("cargo", bench);
  if (native.length === 0) throw new Error("cargo bench gave no figures");
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-messages-"));
  try {
    await lines("cargo", [...bench, "--messages", folder]);
    const chosen = Object.fromEntries(
      ["SHAPES", "FORMATS"].flatMap((name) => (option(name) ? [[name, option(name)]] : [])),
    );
    const wasm = await lines(process.execPath, [fileURLToPath(new URL("wasm.mjs", import.meta.url)), folder], {
      ...process.env,
      ...chosen,
    });
    const allocating = native.filter(({ metric, median }) => metric === "allocs_per_row" && median > 0);
    return {
      rows: [...native, ...wasm],
      failures: allocating.map(({ shape, median }) => `${shape}: ${median} allocations per row, to reach 0`),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** What a program prints as lines of JSON. */
async function lines(command, parameters, env = process.env) {
  const program = spawn(command, parameters, { cwd: root, env, stdio: ["ignore", "pipe", "inherit"] });
  const ended = new Promise((resolve, reject) => program.on("error", reject).on("exit", resolve));
  const rows = [];
  for await (const line of createInterface({ input: program.stdout }))
    if (line.startsWith("{")) rows.push(JSON.parse(line));
  const status = await ended;
  if (status !== 0) throw new Error(`${path.basename(command)} ended with status ${status}`);
  return rows;
}
