// CASE=replay: the upper limit. A stand-in server answers with rows recorded from the real one, as fast as loopback
// carries them, so only the client is measured: rows per second of wall time and its CPU, for pgz-edge, its peers on
// Node, pgx in Go, and a drain.
//
//   ROWS per answer, TIMES answers per trial, TRIALS          how much
//   SHAPES                                                which, separated by commas
import { serverTruth } from "../lib/content.mjs";
import { command, pgx } from "../lib/runtimes.mjs";
import { wantedShapes } from "../lib/shapes.mjs";
import { median } from "../lib/statistics.mjs";
import { compareCpu, interleaved, resultRows } from "../lib/trials.mjs";
import { SERVER_CPU, start } from "../lib/worker.mjs";

const libraries = [
  ["pgz-edge", "node"],
  ["postgres.js", "node"],
  ["pg", "node"],
  ["drain", "node"],
  ["pgx", "native"],
];
const child = new URL("../ndjson/child.mjs", import.meta.url);

export async function run({ server, option }) {
  const rows = Number(option("ROWS") ?? 100_000);
  const times = Number(option("TIMES") ?? 5);
  const trials = Number(option("TRIALS") ?? 9);
  const shapes = wantedShapes(option);
  const native = pgx();
  const running = [];
  const begin = (name, words, options) => {
    running.push(start(name, words, options));
    return running.at(-1);
  };
  try {
    const stand = begin("stand-in", command("node", new URL("server.mjs", import.meta.url), server.appUrl), {
      cpu: SERVER_CPU,
    });
    const { port } = await stand.ask({ hello: true });
    const url = `postgres://replay@127.0.0.1:${port}/app?sslmode=disable`;
    const contestants = libraries.map(([library, runtime]) => {
      const words = runtime === "native" ? [...native, url] : command(runtime, child, library, url);
      return { key: library, library, runtime, ...begin(library, words) };
    });
    const result = { rows: [], failures: [] };
    for (const [shape, sql] of shapes) {
      const expected = await check(contestants, server, shape, sql(rows));
      const verify = ({ key }, { bytes }) => {
        if (bytes !== expected.get(key) * times)
          throw new Error(`${key}, ${shape}: ${bytes} bytes instead of ${times} times ${expected.get(key)}`);
      };
      const samples = await interleaved(contestants, { shape, sql: sql(rows), times }, trials, verify);
      for (const contestant of contestants)
        result.rows.push(...figures(contestant, shape, { rows, times }, samples.get(contestant.key)));
      result.failures.push(...targets(samples, shape));
    }
    return result;
  } finally {
    await Promise.all(running.map((one) => one.stop()));
  }
}

/**
 * Checks the rows against the real server, which produced them. Returns each contestant's number of bytes for one
 * response.
 */
async function check(contestants, server, shape, sql) {
  const truth = await serverTruth(server.appUrl, sql);
  const expected = new Map();
  for (const { key, ask } of contestants) {
    const got = await ask({ shape, sql, check: true });
    expected.set(key, got.bytes);
    if (key === "drain") continue;
    const right = ["pgz-edge", "pgx"].includes(key) ? got.sha256 === truth.sha256 : got.canonical === truth.canonical;
    if (got.lines !== truth.lines || !right) throw new Error(`${key}, ${shape}: not what the server's to_json gives`);
  }
  return expected;
}

function figures(contestant, shape, config, samples) {
  const rows = config.rows * config.times;
  return resultRows(contestant, shape, config, samples, {
    rows_per_s: ["rows/s", ({ wall }) => (rows * 1000) / wall],
    mb_per_s: ["MB/s", ({ wall, bytes }) => bytes / 1000 / wall],
    cpu_ms: ["ms", ({ cpu }) => cpu / config.times],
    wall_ms: ["ms", ({ wall }) => wall / config.times],
  });
}

function targets(samples, shape) {
  for (const peer of ["postgres.js", "pg", "pgx"]) compareCpu(samples, shape, "pgz-edge", peer, [peer]);
  const wall = (key) => median(samples.get(key).map(({ wall }) => wall));
  const ratio = wall("pgx") / wall("pgz-edge");
  console.log(
    `${shape}: the ceiling of pgz-edge is ${ratio.toFixed(2)} of that of pgx hand-tuned (to reach: 1), ` +
      `${(wall("drain") / wall("pgz-edge")).toFixed(2)} of that of the drain`,
  );
  return ratio < 1 ? [`${shape}: the replay ceiling is ${ratio.toFixed(2)} of that of pgx hand-tuned, to reach 1`] : [];
}
