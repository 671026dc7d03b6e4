// CASE=rows: a query's rows as JavaScript objects: `query` (all at once) and `rows(…).batches(n)`, against postgres.js
// and pg on Node and against Bun.sql on Bun. Process CPU minus its idle CPU, ROWS rows, every contestant in random
// order per round.
//
// Each run's number of rows and the sum of a column equal those of a checked run. Every value of the checked run equals
// the server's own to_json, apart from differences in style (numeric as text or number).
//
//   ROWS TRIALS          how much          SHAPES RUNTIMES          which, separated by commas
import { serverTruth } from "../lib/content.mjs";
import { goal } from "../lib/harness.mjs";
import { shapes } from "../lib/shapes.mjs";

/** How many times ours each peer's cheaper form is to need. */
const TIMES = 2;

export default {
  numbers: { ROWS: 100_000, TRIALS: 9 },
  shapes: Object.keys(shapes),

  run: (shape, { ROWS }) => ({ config: { rows: ROWS }, request: { shape, sql: shapes[shape](ROWS) } }),

  async before(contestants, scene, { server }) {
    const truth = await serverTruth(server.appUrl, scene.request.sql);
    for (const one of contestants) {
      const got = await one.ask({ ...scene.request, check: true });
      scene.check(got, scene);
      if (got.canonical !== truth.canonical)
        throw new Error(`${one.key}, ${scene.shape}: other values than the server's`);
    }
  },

  check({ rows, sum }, { config: { rows: count } }) {
    const wanted = (count * (count + 1)) / 2; // the sum of the column id
    if (rows !== count || sum !== wanted)
      throw new Error(`${rows} rows with sum ${sum} instead of ${count} with ${wanted}`);
  },

  metrics: {
    cpu_ms: ["ms", ({ cpu }) => cpu],
    wall_ms: ["ms", ({ wall }) => wall],
    rows_per_s: ["rows/s", ({ wall, config }) => (config.rows * 1000) / wall],
  },

  goals: () =>
    ["query", "rows"].flatMap((form) => {
      const on = (runtime) => ({ by: "cpu", ours: `pgz-edge ${form} on ${runtime}` });
      return [
        goal(["postgres.js on node", "postgres.js cursor on node"], TIMES, on("node")),
        goal("pg on node", TIMES, on("node")),
        ...["bun.sql on bun", "postgres.js on bun"].map((peer) => goal(peer, undefined, on("bun"))),
      ];
    }),
};
