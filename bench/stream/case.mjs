// CASE=stream: a query's rows as NDJSON bytes, ours against its peers on Node, Deno, Bun and in workerd, against pgx in
// Go, and against a socket that drops the same rows. Then the other output modes against NDJSON.
//
// Three measurements: (1) process CPU minus its idle CPU, ROWS rows, every contestant in random order per round; (2)
// CPU of each mode, ours on Node; (3) wall time of PAIR_ROWS rows in pairs (ours, drain), as the median of the paired
// ratios. Each run's number of bytes is compared with that of a checked run. The content of the checked run is compared
// with the server's own to_json: bytes (ours, pgx) or values (peers). The Workers, whose throughput is compared, read
// the same rows from tables.
//
//   ROWS TRIALS PAIR_ROWS PAIRS          how much          SHAPES RUNTIMES FORMATS          which, separated by commas
import { formats as codes } from "../../tests/support/numbers.mjs";
import { sha256 } from "../lib/child.mjs";
import { canonicalHash, serverTruth } from "../lib/content.mjs";
import { goal, keyOf, wanted } from "../lib/harness.mjs";
import { goProgram } from "../lib/runtimes.mjs";
import { shapes } from "../lib/shapes.mjs";
import { summary } from "../lib/statistics.mjs";
import { asTables } from "../lib/tables.mjs";
import { ndjsonTimes } from "../lib/trials.mjs";
import { post } from "../lib/workerd.mjs";
import { linesOf } from "./formats.mjs";

/** How many times ours a bare socket is to need in wall time, and NDJSON in CPU beside another mode. */
const DRAIN = 1 / 1.1;
const NDJSON = 1 / 1.15;
const modes = Object.keys(codes).filter((format) => format !== "ndjson");

export default {
  numbers: { ROWS: 100_000, TRIALS: 9, PAIR_ROWS: 1_000_000, PAIRS: 9 },
  shapes: Object.keys(shapes),
  start: { native: (library, url) => [...goProgram("stream/pgx", "pgx"), url] },
  workerd: { read },

  fill: async ({ server, runtimes, shapes: chosen, ROWS }) => ({
    tables: runtimes.includes("workerd") ? await asTables(server, chosen, ROWS) : new Map(),
  }),

  run(shape, context, contestants) {
    const { option, tables, ROWS, PAIR_ROWS, PAIRS } = context;
    const sql = shapes[shape](ROWS);
    const [ours, drain] = ["pgz-edge", "drain"].map((library) =>
      contestants.find(({ key }) => key === keyOf(library, "node")),
    );
    const ofMode = (format) => ({ ...ours, key: format, ask: (request) => ours.ask({ format, ...request }) });
    const table = { rows: ROWS, from: "table" };
    const all = {
      config: ({ runtime }) => (runtime === "workerd" ? table : { rows: ROWS }),
      request: ({ runtime }) => ({ shape, sql: runtime === "workerd" ? tables.get(shape) : sql }),
      goals,
    };
    const inModes = {
      contestants: ["ndjson", ...wanted(option, "FORMATS", modes)].map(ofMode),
      config: ({ key }) => ({ rows: ROWS, format: key }),
      request: { shape, sql },
      rows: (scene, rowsOf) => rowsOf(scene).filter(({ config }) => config.format !== "ndjson"),
      metrics: { cpu_ms: ["ms", ({ cpu }) => cpu], wall_ms: ["ms", ({ wall }) => wall] },
      goals: ({ contestants: [, ...others] }) =>
        others.map(({ key }) => ({ ours: key, peers: ["ndjson"], by: "cpu", wanted: NDJSON })),
    };
    const inPairs = {
      contestants: [ours, drain],
      config: { rows: PAIR_ROWS },
      request: { shape, sql: shapes[shape](PAIR_ROWS) },
      trials: PAIRS,
      idle: 0,
      before: undefined,
      rows: ratios,
      goals: ({ contestants: [{ key }, { key: bare }] }) => [{ ours: key, peers: [bare], wanted: DRAIN }],
    };
    return [all, ...(ours ? [inModes] : []), ...(ours && drain && PAIRS > 0 ? [inPairs] : [])];
  },

  before,

  check({ bytes }, scene, { key }) {
    scene.bytes ??= new Map();
    if (!scene.bytes.has(key)) scene.bytes.set(key, bytes);
    if (bytes !== scene.bytes.get(key)) throw new Error(`${bytes} bytes instead of ${scene.bytes.get(key)}`);
  },

  metrics: {
    cpu_ms: ["ms", ({ cpu }) => cpu],
    wall_ms: ["ms", ({ wall }) => wall],
    mb_per_s: ["MB/s", ({ wall, bytes }) => bytes / 1000 / wall],
    rows_per_s: ["rows/s", ({ wall, config }) => (config.rows * 1000) / wall],
  },
};

/** Compares the content once. After that each trial must have the same number of bytes. */
export async function before(contestants, scene, { server }) {
  scene.bytes = new Map();
  let truth;
  for (const one of contestants) {
    const request = typeof scene.request === "function" ? scene.request(one) : scene.request;
    truth ??= await serverTruth(server.appUrl, request.sql);
    const got = await one.ask({ ...request, check: true });
    scene.bytes.set(one.key, got.bytes);
    if (one.library === "drain") continue;
    const isExact = one.library === "pgx" || one.key.startsWith("pgz-edge on"); // the key of a mode is its format
    const isRight = isExact ? got.sha256 === truth.sha256 : got.canonical === truth.canonical;
    if (got.lines !== truth.lines || !isRight)
      throw new Error(`${one.key}, ${scene.shape}: ${got.lines} lines, not what the server's to_json gives`);
  }
}

/** The answer of a Worker, as that of libraries.mjs. */
async function read(address, { shape, sql, format = "ndjson", check }) {
  const { bytes, chunks } = await post(address, { sql, format, arrays: shape === "array_int" }, check);
  if (!check) return { bytes };
  const all = Buffer.concat(chunks);
  const lines = linesOf(all.toString(), format);
  return { bytes, sha256: sha256(all), lines: lines.length, canonical: canonicalHash(lines) };
}

/** The two contestants of a round make a pair, whose ratio depends less on the machine than their times. */
function ratios({ shape, config, samples, contestants: [ours, drain] }) {
  const walls = ({ key }) => samples.get(key).map(({ wall }) => wall);
  const bare = walls(drain);
  const row = { shape, library: "pgz-edge", runtime: "node", config, metric: "wall_ratio_to_drain", unit: "ratio" };
  return [{ ...row, ...summary(walls(ours).map((wall, round) => wall / bare[round])) }];
}

function goals({ shape }) {
  const over = (runtime, libraries, wanted, by = "cpu") =>
    goal(
      libraries.map((library) => keyOf(library, runtime)),
      wanted,
      { ours: keyOf("pgz-edge", runtime), by },
    );
  const postgresJs = ["postgres.js", "postgres.js cursor"];
  return [
    ...["node", "deno", "bun"].flatMap((runtime) => {
      // On Bun the goal refers to Bun.sql; both other peers are only shown.
      const wanted = runtime === "bun" ? undefined : ndjsonTimes(shape);
      return [over(runtime, postgresJs, wanted), over(runtime, ["pg", "pg-query-stream"], wanted)];
    }),
    over("bun", ["bun.sql"], 3),
    goal("pgx on native", 1, { by: "cpu" }),
    over("workerd", postgresJs, 5),
    ...(shape === "mixed_5col" ? [over("workerd", postgresJs, 4, "wall")] : []),
  ];
}
