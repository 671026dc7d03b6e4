// CASE=rows: a query's rows as JavaScript objects: `query` (all at once) and `rows(…).batches(n)`, against postgres.js
// and pg on Node and against Bun.sql on Bun. Process CPU minus its idle CPU, ROWS rows, every contestant in random
// order per round.
//
// Each run's number of rows and the sum of a column equal those of a checked run. Every value of the checked run equals
// the server's own to_json, apart from differences in style (numeric as text or number).
//
//   ROWS TRIALS          how much          SHAPES RUNTIMES          which, separated by commas
import { serverTruth } from "../lib/content.mjs";
import { command, wantedRuntimes } from "../lib/runtimes.mjs";
import { wantedShapes } from "../lib/shapes.mjs";
import { compareCpu, interleaved, resultRows } from "../lib/trials.mjs";
import { pin, SERVER_CPU, start } from "../lib/worker.mjs";

const libraries = {
  node: ["pgz-edge query", "pgz-edge rows", "postgres.js", "postgres.js cursor", "pg"],
  bun: ["pgz-edge query", "pgz-edge rows", "bun.sql", "postgres.js"],
};
const child = new URL("child.mjs", import.meta.url);
const key = (library, runtime) => `${library} on ${runtime}`;
/** The share that ours may need of the CPU of each peer's cheaper form. */
const SHARE = 1 / 2;

export async function run({ server, option }) {
  const rows = Number(option("ROWS") ?? 100_000);
  const trials = Number(option("TRIALS") ?? 9);
  const shapes = wantedShapes(option);
  if (server.own) pin(server.pid, SERVER_CPU); // backends inherit it
  const running = [];
  try {
    for (const runtime of wantedRuntimes(option, Object.keys(libraries))) {
      for (const library of libraries[runtime])
        running.push(begin(library, runtime, `${server.appUrl.split("?")[0]}?sslmode=disable`));
    }
    const contestants = await available(running);
    const result = { rows: [], failures: [] };
    for (const [shape, sql] of shapes) {
      const { samples, figures } = await measure(contestants, server, shape, sql(rows), { rows, trials });
      result.rows.push(...figures);
      result.failures.push(...targets(samples, shape));
    }
    return result;
  } finally {
    await Promise.all(running.map((one) => one.stop()));
  }
}

const begin = (library, runtime, url) => ({
  key: key(library, runtime),
  library,
  runtime,
  ...start(key(library, runtime), command(runtime, child, library, url)),
});

/** Returns the contestants that this build of the driver supports. */
async function available(running) {
  const found = [];
  for (const one of running) {
    if ((await one.ask({ hello: true })).available) found.push(one);
    else console.log(`${one.key}: not there yet, only query is measured`);
  }
  return found;
}

async function measure(contestants, server, shape, sql, { rows, trials }) {
  const truth = await serverTruth(server.appUrl, sql);
  const sum = (rows * (rows + 1)) / 2; // the sum of the column id
  const verify = (contestant, got) => {
    if (got.rows !== rows || got.sum !== sum)
      throw new Error(
        `${contestant.key}, ${shape}: ${got.rows} rows with sum ${got.sum} instead of ${rows} with ${sum}`,
      );
  };
  for (const contestant of contestants) {
    const got = await contestant.ask({ shape, sql, check: true });
    verify(contestant, got);
    if (got.canonical !== truth.canonical)
      throw new Error(`${contestant.key}, ${shape}: other values than the server's`);
  }
  const samples = await interleaved(contestants, { shape, sql }, trials, verify);
  const figures = contestants.flatMap((contestant) =>
    resultRows(contestant, shape, { rows }, samples.get(contestant.key), {
      cpu_ms: ["ms", ({ cpu }) => cpu],
      wall_ms: ["ms", ({ wall }) => wall],
      rows_per_s: ["rows/s", ({ wall }) => (rows * 1000) / wall],
    }),
  );
  return { samples, figures };
}

function targets(samples, shape) {
  return ["query", "rows"].flatMap((form) => [
    ...compareCpu(
      samples,
      shape,
      key(`pgz-edge ${form}`, "node"),
      "postgres.js",
      [key("postgres.js", "node"), key("postgres.js cursor", "node")],
      SHARE,
    ),
    ...compareCpu(samples, shape, key(`pgz-edge ${form}`, "node"), "pg", [key("pg", "node")], SHARE),
    ...compareCpu(samples, shape, key(`pgz-edge ${form}`, "bun"), "Bun.sql", [key("bun.sql", "bun")]),
    ...compareCpu(samples, shape, key(`pgz-edge ${form}`, "bun"), "postgres.js", [key("postgres.js", "bun")]),
  ]);
}
