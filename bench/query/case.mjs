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
import { countingProxy } from "../lib/counting-proxy.mjs";
import { perCallRows } from "../lib/per-call.mjs";
import { cargoProgram, command, wantedRuntimes } from "../lib/runtimes.mjs";
import { compareSpeed, interleaved, resultRows } from "../lib/trials.mjs";
import { CLIENT_CPU, pin, SERVER_CPU, start } from "../lib/worker.mjs";
import { shapes } from "./shapes.mjs";

const libraries = {
  node: ["pgz-edge", "pg named", "pg", "postgres.js", "slonik", "@effect/sql-pg", "bare"],
  bun: ["pgz-edge", "postgres.js", "bun.sql", "bare"],
  native: ["tokio-postgres"],
};
const child = new URL("child.mjs", import.meta.url);
const key = (library, runtime) => `${library} on ${runtime}`;
const OF_BARE = 0.85;
const OF_BARE_PIPELINED = 0.8;

export async function run({ server, option }) {
  const times = Number(option("ROWS") ?? 2_000);
  const trials = Number(option("TRIALS") ?? 5);
  const warm = Number(option("WARM") ?? 4_000);
  const wanted = option("SHAPES")?.split(",") ?? Object.keys(shapes);
  const split = option("PIN") === "split";
  const runtimes = wantedRuntimes(option, Object.keys(libraries));
  const native = runtimes.includes("native") ? cargoProgram("query/tokio", "tokio-peer") : undefined;
  const url = `${server.appUrl.split("?")[0]}?sslmode=disable`;
  const result = { rows: [], failures: [] };

  if (server.own) pin(server.pid, split ? SERVER_CPU : CLIENT_CPU); // backends inherit it
  const begin = (library, runtime, url) => {
    const words = runtime === "native" ? [...native, url] : command(runtime, child, library, url);
    return { key: key(library, runtime), library, runtime, ...start(key(library, runtime), words) };
  };
  const all = runtimes.flatMap((runtime) => libraries[runtime].map((library) => [library, runtime]));
  const contestants = all.map(([library, runtime]) => begin(library, runtime, url));
  try {
    for (const one of contestants) one.shapes = (await one.ask({ hello: true })).shapes;
    for (const shape of wanted) {
      const able = contestants.filter((one) => one.shapes.includes(shape));
      if (!able.some(({ library }) => library === "pgz-edge")) console.log(`${shape}: pgz-edge has not got it yet`);
      await check(able, shape);
      const { samples, config } = await measure(able, shape, { times, trials, warm, split });
      result.rows.push(...able.flatMap((one) => figures(one, shape, config, samples.get(one.key))));
      result.failures.push(...targets(samples, shape));
    }
  } finally {
    await Promise.all(contestants.map((one) => one.stop()));
  }
  if (wanted.includes("select_arg"))
    for (const [library, runtime] of all)
      if (library !== "bare" && runtime === "node")
        result.rows.push(...(await perKnownCall(library, runtime, url, begin)));
  for (const [library, runtime] of all)
    if (library !== "bare") result.rows.push(...(await onTheWire(library, runtime, url, begin, wanted)));
  return result;
}

/**
 * Checks that each library's rows of one operation are the same. Columns that a library does not decode
 * (tokio-postgres: most of pg_type) are left out.
 */
async function check(contestants, shape) {
  let reference;
  for (const { key, library, ask } of contestants) {
    if (library === "bare") continue;
    const rows = (await ask({ shape, check: true })).rows.map(Object.fromEntries);
    reference ??= rows;
    const same =
      rows.length === reference.length &&
      rows.every((row, index) => Object.entries(row).every(([name, value]) => same1(reference[index][name], value)));
    if (!same || Object.keys(rows[0]).length === 0)
      throw new Error(`${key}, ${shape}: ${JSON.stringify(rows[0])} where others have ${JSON.stringify(reference[0])}`);
  }
}

/** JSON is compared as text without its white space. Its members may come in the server's order. */
const same1 = (a, b) =>
  a === b ||
  (typeof a === "string" && a.startsWith("{") && JSON.stringify(JSON.parse(a)) === JSON.stringify(JSON.parse(b)));

async function measure(contestants, shape, { times, trials, warm, split }) {
  const { expected, queries = 1, more = 1 } = shapes[shape];
  const operations = Math.ceil((times * more) / queries);
  const verify = ({ key, library }, got) => {
    const right =
      library === "bare"
        ? got.bytes === got.expected
        : got.rows === expected(operations).rows && got.sum === expected(operations).sum;
    if (!right)
      throw new Error(`${key}, ${shape}: ${JSON.stringify(got)} instead of ${JSON.stringify(expected(operations))}`);
  };
  for (const { ask } of contestants) await ask({ shape, times: Math.ceil(warm / Math.sqrt(queries)) });
  const samples = await interleaved(
    contestants,
    { shape, times: operations },
    more > 1 ? Math.ceil(trials / 2) : trials,
    verify,
    { idle: 0 },
  );
  return {
    samples,
    config: {
      executions: operations * queries,
      cpus: split ? "client and server one each" : "client and server on one",
    },
  };
}

function figures(contestant, shape, config, samples) {
  return resultRows(contestant, shape, config, samples, {
    us_per_query: ["µs", ({ wall }) => (wall * 1000) / config.executions],
    cpu_us_per_query: ["µs", ({ cpu }) => (cpu * 1000) / config.executions],
    queries_per_s: ["queries/s", ({ wall }) => (config.executions * 1000) / wall],
  });
}

function targets(samples, shape) {
  const on = (runtime, ...names) => names.map((name) => key(name, runtime));
  const compare = (runtime, peer, names, wanted) =>
    compareSpeed(samples, shape, key("pgz-edge", runtime), peer, names, ({ wall }) => wall, wanted);
  if (shape === "pipelined_100") {
    return [
      ...compare("node", "a bare socket", on("node", "bare"), OF_BARE_PIPELINED),
      ...compare("node", "postgres.js", on("node", "postgres.js"), 1.5),
      ...compare("bun", "Bun.sql", on("bun", "bun.sql"), 1),
      ...compare("node", "tokio-postgres", on("native", "tokio-postgres")),
    ];
  }
  const seed001 = shape.startsWith("select");
  return [
    ...compare("node", "postgres.js", on("node", "postgres.js"), seed001 ? 1.3 : undefined),
    ...compare("node", "pg named", on("node", "pg named"), seed001 ? 1.1 : undefined),
    ...compare("node", "slonik", on("node", "slonik")),
    ...compare("node", "tokio-postgres", on("native", "tokio-postgres")),
    ...compare("node", "a bare socket", on("node", "bare"), OF_BARE),
    ...compare("bun", "Bun.sql", on("bun", "bun.sql")),
  ];
}

/** Counts in a process of its own, in which nothing else is compiled or awaited. */
async function perKnownCall(library, runtime, url, begin) {
  const one = begin(library, runtime, url);
  try {
    await one.ask({ hello: true });
    return perCallRows(one, "select_arg", { execution: "known" }, await one.ask({ counts: true }));
  } finally {
    await one.stop();
  }
}

// -- the wire --------------------------------------------------------------------------------------------------------

async function onTheWire(library, runtime, url, begin, wanted) {
  const proxy = await countingProxy(url);
  const one = begin(library, runtime, proxy.url);
  const rows = [];
  try {
    const { shapes: able } = await one.ask({ hello: true });
    for (const shape of wanted.filter((name) => able.includes(name))) {
      for (const [execution, times] of [
        ["first", 1],
        ["second", 1],
        ["known", 10],
      ]) {
        if (runtime === "native" && execution !== "known") continue; // it prepares its statements when it connects
        proxy.take();
        await one.ask({ shape, times });
        const counted = proxy.take();
        const figure = (metric, unit, value) => ({
          shape,
          library,
          runtime,
          config: { execution },
          metric,
          unit,
          median: value / times,
          min: value / times,
          max: value / times,
          stddev: 0,
          trials: 1,
        });
        rows.push(
          figure("writes", "", counted.writes),
          figure("round_trips", "", counted.round_trips),
          figure("wire_bytes", "B", counted.sent + counted.received),
        );
      }
    }
    return rows;
  } finally {
    await one.stop();
    proxy.close();
  }
}
