// CASE=query: one query at a time on one connection, seed 001's four cases and seed 002's single executions, then a
// hundred in flight. Wall time and process CPU per query, ours against the libraries of Node and Bun, tokio-postgres as
// the native peer, and a bare socket that sends and awaits the driver's own bytes.
//
// Client and backend share one CPU (`PIN=split`: one each), because otherwise the scheduler's placement of the backend
// matters more than the library. The rows of each run are counted and summed; those of a checked run are equal in every
// library. Traffic is counted through a proxy, by processes that are not timed: the first execution of a statement, the
// second, and the later ones. Separate processes also count what one known call of each library leaves for the garbage
// collector on Node, promises and heap.
//
// Each process runs a shape some thousand times before its trials, because V8 optimises its code only by then.
//
//   ROWS executions per trial, TRIALS, WARM          how much
//   SHAPES RUNTIMES                            which, separated by commas
import { delayingProxy } from "../lib/delaying-proxy.mjs";
import { goal } from "../lib/harness.mjs";
import { perCallRows } from "../lib/per-call.mjs";
import { cargoProgram } from "../lib/runtimes.mjs";
import { resultRows } from "../lib/trials.mjs";
import { shapes } from "./shapes.mjs";

const OF_BARE = 0.85;
const OF_BARE_PIPELINED = 0.8;

export default {
  numbers: { ROWS: 2_000, TRIALS: 5, WARM: 4_000 },
  shapes: Object.keys(shapes),
  start: { native: (library, url) => [...cargoProgram("query/tokio", "tokio-peer"), url] },
  oneCpu: true,
  idle: 0,

  run(shape, { ROWS, TRIALS, cpus }) {
    const { queries = 1, more = 1 } = shapes[shape];
    const times = Math.ceil((ROWS * more) / queries);
    return {
      config: { executions: times * queries, cpus },
      request: { shape, times },
      trials: more > 1 ? Math.ceil(TRIALS / 2) : TRIALS,
    };
  },

  /**
   * Checks that each library's rows of one operation are the same. Columns that a library does not decode
   * (tokio-postgres: most of pg_type) are left out.
   */
  async before(contestants, { shape }) {
    let reference;
    for (const { key, library, ask } of contestants) {
      if (library === "bare") continue;
      const rows = (await ask({ shape, check: true })).rows.map(Object.fromEntries);
      reference ??= rows;
      const same =
        rows.length === reference.length &&
        rows.every((row, index) => Object.entries(row).every(([name, value]) => same1(reference[index][name], value)));
      if (!same || Object.keys(rows[0]).length === 0)
        throw new Error(
          `${key}, ${shape}: ${JSON.stringify(rows[0])} where others have ${JSON.stringify(reference[0])}`,
        );
    }
  },

  warm: ({ shape }, { WARM }) => [{ times: Math.ceil(WARM / Math.sqrt(shapes[shape].queries ?? 1)) }],

  check(got, { shape, request }, { library }) {
    const expected = shapes[shape].expected(request.times);
    const isRight =
      library === "bare" ? got.bytes === got.expected : got.rows === expected.rows && got.sum === expected.sum;
    if (!isRight) throw new Error(`${JSON.stringify(got)} instead of ${JSON.stringify(expected)}`);
  },

  metrics: {
    us_per_query: ["µs", ({ wall, config }) => (wall * 1000) / config.executions],
    cpu_us_per_query: ["µs", ({ cpu, config }) => (cpu * 1000) / config.executions],
    queries_per_s: ["queries/s", ({ wall, config }) => (config.executions * 1000) / wall],
  },

  goals({ shape }) {
    const pipelined = shape === "pipelined_100";
    const seed001 = shape.startsWith("select");
    return [
      goal("postgres.js on node", pipelined ? 1.5 : seed001 ? 1.3 : undefined),
      goal("pg named on node", seed001 ? 1.1 : undefined),
      goal("slonik on node"),
      goal("tokio-postgres on native"),
      goal("bare on node", pipelined ? OF_BARE_PIPELINED : OF_BARE),
      goal("bun.sql on bun", pipelined ? 1 : undefined, { ours: "pgz-edge on bun" }),
    ];
  },

  /** Counts in processes of their own, in which nothing else is compiled or awaited. */
  async more({ all, shapes: wanted, begin, url }) {
    const rows = [];
    for (const [library, runtime] of all.filter(([library]) => library !== "bare")) {
      if (runtime === "node" && wanted.includes("select_arg")) {
        const one = await begin(library, runtime);
        rows.push(...perCallRows(one, "select_arg", { execution: "known" }, await one.ask({ counts: true })));
        await one.stop();
      }
      const proxy = await delayingProxy(url);
      const one = await begin(library, runtime, proxy.url);
      try {
        for (const shape of wanted.filter((name) => one.shapes.includes(name)))
          rows.push(...(await onTheWire(one, shape, proxy)));
      } finally {
        await one.stop();
        proxy.close();
      }
    }
    return rows;
  },
};

/** JSON is compared as text without its white space. Its members may come in the server's order. */
const same1 = (a, b) =>
  a === b ||
  (typeof a === "string" && a.startsWith("{") && JSON.stringify(JSON.parse(a)) === JSON.stringify(JSON.parse(b)));

async function onTheWire(one, shape, proxy) {
  const rows = [];
  for (const [execution, times] of Object.entries({ first: 1, second: 1, known: 10 })) {
    if (one.runtime === "native" && execution !== "known") continue; // it prepares its statements when it connects
    proxy.take();
    await one.ask({ shape, times });
    const counted = proxy.take();
    rows.push(
      ...resultRows(one, shape, { execution }, [counted], {
        writes: ["", ({ writes }) => writes / times],
        round_trips: ["", ({ flights }) => flights / times],
        wire_bytes: ["B", ({ wire_bytes }) => wire_bytes / times],
      }),
    );
  }
  return rows;
}
