// CASE=before: compares this build with another build of ours in one interleaved run, to show what a change costs or
// saves.
//
//   make bench CASE=before BEFORE=/tmp/base          a checkout of an older commit, built by its scripts/setup and
//                                                    scripts/build
//
// Process CPU on Node of queries one at a time, streams, rows as objects and a batch; the first thousand queries of a
// new process (`cold`, by cold.mjs); then the core alone in wasm (core/wasm.mjs). Both builds must return the same rows
// and the same bytes. The two builds run in turns, so that a busy machine slows both.
//
//   SHAPES, TRIALS, ROWS of a stream, TIMES a query runs          which and how much
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { lines } from "../lib/lines.mjs";
import { begin, numbersOf, plainUrl } from "../lib/harness.mjs";
import { shuffled } from "../lib/statistics.mjs";
import { interleaved, resultRows } from "../lib/trials.mjs";
import { CLIENT_CPU, pin, pinned, SERVER_CPU } from "../lib/worker.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));
const CORE_SHAPES = "mixed_5col,narrow_int,wide_jsonb,null_heavy,array_int,numeric";

export default { measure };

async function measure({ server, option }) {
  const before = option("BEFORE");
  if (!before) throw new Error("BEFORE=<folder>: a checkout of an older commit, built");
  const { TRIALS: trials, ROWS, TIMES } = numbersOf({ TRIALS: 15, ROWS: 100_000, TIMES: 5_000 }, option);
  const amount = { rows: ROWS, times: TIMES };
  const url = plainUrl(server.appUrl);
  const { stdout } = spawnSync("git", ["-C", before, "rev-parse", "--short", "HEAD"], { encoding: "utf8" });
  const sides = { [`pgz-edge ${stdout.trim() || "before"}`]: path.resolve(before), "pgz-edge": root };
  if (server.own) pin(server.pid, SERVER_CPU);
  const contestants = [];
  const rows = [];
  try {
    for (const [library, folder] of Object.entries(sides))
      contestants.push(await begin("before", {}, library, "node", url, path.join(folder, "dist/node.js")));
    const shapes = [...contestants[0].shapes, "cold"];
    for (const shape of option("SHAPES")?.split(",") ?? shapes) {
      if (shape === "cold") {
        rows.push(...(await cold(sides, url, trials)));
        continue;
      }
      const truth = await contestants[0].ask({ shape, ...amount });
      const verify = ({ key }, got) => {
        if (got.facts !== truth.facts) throw new Error(`${key}, ${shape}: ${got.facts} instead of ${truth.facts}`);
      };
      // The idle measurement collects garbage, and many small calls are slow for a while after that.
      const idle = /^(query|batch)/.test(shape) ? 0 : 100;
      const samples = await interleaved(contestants, { shape, ...amount }, trials, verify, { idle });
      for (const one of contestants)
        rows.push(
          ...resultRows(one, shape, amount, samples.get(one.key), {
            cpu_us_per_unit: ["us", ({ cpu, units }) => (1000 * cpu) / units],
          }),
        );
    }
  } finally {
    await Promise.all(contestants.map((one) => one.stop()));
  }
  return { rows: [...rows, ...(await core(sides))], failures: [] };
}

/** New processes, in random order within each round. */
async function cold(sides, url, trials) {
  const program = fileURLToPath(new URL("cold.mjs", import.meta.url));
  const told = Object.fromEntries(Object.keys(sides).map((library) => [library, []]));
  for (let trial = 0; trial < trials; trial++)
    for (const [library, folder] of shuffled(Object.entries(sides))) {
      const [command, ...words] = pinned(
        [process.execPath, program, path.join(folder, "dist/node.js"), url],
        CLIENT_CPU,
      );
      told[library].push(...(await lines(command, words)));
    }
  return Object.entries(told).flatMap(([library, samples]) => {
    const counts = Object.keys(samples[0]);
    const metrics = counts.map((queries) => [`cpu_ms ${queries} queries`, ["ms", (sample) => sample[queries]]]);
    return resultRows({ library, runtime: "node" }, "cold", {}, samples, Object.fromEntries(metrics));
  });
}

/** Rows and queries in the core. wasm.mjs prints result rows as lines of JSON. */
async function core(sides) {
  const folder = mkdtempSync(path.join(tmpdir(), "pgz-edge-messages-"));
  try {
    await lines("cargo", ["bench", "--quiet", "--bench", "core", "--", "--messages", folder]);
    const packages = Object.entries(sides).map(([library, at]) => `${library}=${path.join(at, "pkg")}`);
    const program = fileURLToPath(new URL("../core/wasm.mjs", import.meta.url));
    return await lines(process.execPath, [program, folder, ...packages], {
      SHAPES: CORE_SHAPES,
      FORMATS: "ndjson,csv,columns",
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}
