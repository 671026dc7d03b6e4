// CASE=adapters: the cost of a query through the library that an application uses, over our driver and over `pg`: one
// row by its key, and 10,000 rows. Process CPU in milliseconds per operation, on Node and in workerd.
//
// On Node each pair of library and driver has a process of its own, in workerd each driver has one. They run in turns,
// and the server has a CPU for itself. A trial in workerd is one request, which connects once. Rows are checked in each
// trial, and must be the same over both drivers. The goal: no more CPU than `pg` for one row, and half of it for
// 10,000.
//
//   TRIALS, ONE and MANY operations of a trial      how much
//   SHAPES, RUNTIMES                                which, separated by commas
import { ask } from "../lib/connect.mjs";
import { MANY, parts, TABLE } from "./operations.mjs";

/** How many times ours `pg` is to need, by the number of rows. */
const TIMES = { 1: 1, [MANY]: 2 };

export default {
  numbers: { TRIALS: 7, ONE: 3_000, MANY: 30 },
  shapes: parts.flatMap((part) => [`${part}_1`, `${part}_${MANY}`]),
  /** Each pair of library and driver has a process of its own. */
  parts,
  workerd: {
    imports: { "pgz-edge": "./adapters/in-workerd.mjs", pg: "./adapters/over-pg.mjs" },
    compatibilityFlags: ["nodejs_compat"],
  },
  idle: 0,

  fill: async ({ url }) => void (await ask(url, TABLE)),

  run(shape, { ONE, MANY: many }, able) {
    const [part, rows] = shape.split("_");
    const operations = rows === "1" ? ONE : many;
    const config = { operations, rows: Number(rows) };
    const request = { library: part, count: config.rows, times: operations };
    return ["node", "workerd"].flatMap((runtime) => {
      const contestants = able.filter((one) => one.runtime === runtime && one.key.endsWith(part));
      return contestants.length > 0 ? [{ title: `${shape} on ${runtime}`, contestants, config, request }] : [];
    });
  },

  /** The rows are the same over both drivers. */
  check({ rows, hash }, scene) {
    const { operations, rows: count } = scene.config;
    if (rows !== count * operations) throw new Error(`${rows} rows instead of ${count * operations}`);
    scene.hash ??= hash;
    if (hash !== scene.hash) throw new Error("other rows than under the other driver");
  },

  metrics: { cpu_ms: ["ms", ({ cpu, config }) => cpu / config.operations] },

  goals({ contestants: [ours, theirs], config }) {
    return theirs ? [{ ours: ours.key, peers: [theirs.key], by: "cpu", wanted: TIMES[config.rows] }] : [];
  },
};
