// CASE=trace: the cost for a successful call of making a failed one show its caller (docs/errors.md, Where it
// happened), on each runtime, without a connection. NOT REACHED if the additional await costs a microsecond.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { startWorker } from "../../tests/workerd/host.mjs";
import { command, wantedRuntimes } from "../lib/runtimes.mjs";

export const needsServer = false;

const at = (name) => fileURLToPath(new URL(name, import.meta.url));
const MOST_NS = 1_000;

export async function run({ option }) {
  const outfile = at("../../.cache/bench/trace.mjs");
  await build({ entryPoints: [at("measure.mjs")], outfile, bundle: true, format: "esm", logLevel: "error" });
  const rows = [];
  for (const runtime of wantedRuntimes(option, ["node", "deno", "bun", "workerd"])) {
    const { plain, traced, recorded } = await (runtime === "workerd" ? inWorkerd() : inProcess(runtime, outfile));
    rows.push({
      runtime,
      plain_ns: plain,
      traced_ns: traced,
      costs_ns: traced - plain,
      debug_costs_ns: recorded - plain,
    });
  }
  const slow = rows.filter(({ costs_ns }) => costs_ns >= MOST_NS);
  return { rows, failures: slow.map(({ runtime, costs_ns }) => `${runtime}: ${costs_ns} ns, not below ${MOST_NS}`) };
}

function inProcess(runtime, bundle) {
  const [program, ...words] = command(runtime, new URL("child.mjs", import.meta.url), bundle);
  return JSON.parse(execFileSync(program, words, { encoding: "utf8" }));
}

async function inWorkerd() {
  const worker = await startWorker({ entry: at("worker.mjs"), options: {} });
  const times = 500_000;
  const time = async (way, count) => {
    const from = performance.now();
    await (await fetch(new URL(`/?way=${way}&times=${count}`, worker.url))).text();
    return performance.now() - from;
  };
  try {
    const best = {};
    for (let trial = 0; trial < 5; trial++)
      for (const way of ["plain", "traced", "recorded"]) {
        const ns = (((await time(way, times)) - (await time(way, 1))) * 1e6) / times;
        best[way] = Math.round(Math.min(best[way] ?? Infinity, ns));
      }
    return best;
  } finally {
    await worker.stop();
  }
}
