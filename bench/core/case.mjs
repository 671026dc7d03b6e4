// CASE=core: the encoders alone, without server or socket: natively by `cargo bench --bench core` (main.rs), and the
// same rows through the wasm, in each form, by wasm.mjs. Both print lines of JSON, which are the result rows. The
// native build uses the release profile's opt-level, like the wasm.
//
//   SHAPES, FORMATS          which, in wasm, separated by commas
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { lines } from "../lib/lines.mjs";

export default { needsServer: false, measure };

const bench = ["bench", "--quiet", "--bench", "core", "--"];

async function measure({ option }) {
  const native = await lines("cargo", bench);
  if (native.length === 0) throw new Error("cargo bench gave no figures");
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-messages-"));
  try {
    await lines("cargo", [...bench, "--messages", folder]);
    const chosen = Object.fromEntries(
      ["SHAPES", "FORMATS"].flatMap((name) => (option(name) ? [[name, option(name)]] : [])),
    );
    const wasm = await lines(process.execPath, [fileURLToPath(new URL("wasm.mjs", import.meta.url)), folder], chosen);
    const allocating = native.filter(({ metric, median }) => metric === "allocs_per_row" && median > 0);
    return {
      rows: [...native, ...wasm],
      failures: allocating.map(({ shape, median }) => `${shape}: ${median} allocations per row, to reach 0`),
    };
  } finally {
    rmSync(folder, { recursive: true });
  }
}
