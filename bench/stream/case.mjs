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
import { serverTruth } from "../lib/content.mjs";
import { wantedRuntimes } from "../lib/runtimes.mjs";
import { wantedShapes } from "../lib/shapes.mjs";
import { asTables } from "../lib/tables.mjs";
import { shuffled, summary } from "../lib/statistics.mjs";
import { compareCpu, cost, interleaved, ndjsonShare, resultRows } from "../lib/trials.mjs";
import { pin, SERVER_CPU } from "../lib/worker.mjs";
import { key, startContestants } from "./contestants.mjs";

const WALL_RATIO = 1.1;
const MODE_SHARE = 1.15;
const modes = Object.keys(codes).filter((format) => format !== "ndjson");
const node = key("pgz-edge", "node");

export async function run({ server, option }) {
  const rows = Number(option("ROWS") ?? 100_000);
  const trials = Number(option("TRIALS") ?? 9);
  const pairRows = Number(option("PAIR_ROWS") ?? 1_000_000);
  const pairs = Number(option("PAIRS") ?? 9);
  const shapes = wantedShapes(option);
  const runtimes = wantedRuntimes(option, ["node", "native", "deno", "bun", "workerd"]);

  if (server.own) pin(server.pid, SERVER_CPU); // backends inherit it
  const { contestants, stop } = await startContestants(runtimes, server);
  const result = { rows: [], failures: [] };
  const add = ({ rows, failures }) => void (result.rows.push(...rows), result.failures.push(...failures));
  try {
    const ours = contestants.find((one) => one.key === node);
    const formats = ours ? await availableModes(ours, option("FORMATS")?.split(",") ?? modes) : [];
    const tables = runtimes.includes("workerd") ? await asTables(server, shapes, rows) : new Map();
    for (const [shape, sql] of shapes) {
      const queries = ({ runtime }) => ({ shape, sql: runtime === "workerd" ? tables.get(shape) : sql(rows) });
      add(await cpu(contestants.filter(can(shape)), server, shape, queries, { rows, trials }));
    }
    for (const [shape, sql] of shapes)
      if (formats.length > 0) add(await modeCpu(ours, formats, server, shape, sql(rows), { rows, trials }));
    const drain = contestants.find(({ library }) => library === "drain");
    for (const [shape, sql] of shapes)
      if (drain && pairs > 0) add(await walls([ours, drain], shape, sql(pairRows), { pairRows, pairs }));
    return result;
  } finally {
    await stop();
  }
}

/** COPY as text doubles backslashes, and pg-copy-streams does not undo this. */
function can(shape) {
  return ({ library }) => shape !== "dense_escapes" || library !== "pg-copy-streams";
}

// -- CPU -------------------------------------------------------------------------------------------------------------

async function cpu(contestants, server, shape, queries, { rows, trials }) {
  const expected = await check(contestants, server, shape, queries);
  const samples = await interleaved(contestants, queries, trials, (contestant, { bytes }) =>
    same(contestant, shape, bytes, expected.get(contestant.key)),
  );
  const found = contestants.flatMap((contestant) =>
    resultRows(
      contestant,
      shape,
      { rows, ...(contestant.runtime === "workerd" ? { from: "table" } : {}) },
      samples.get(contestant.key),
      {
        cpu_ms: ["ms", ({ cpu }) => cpu],
        wall_ms: ["ms", ({ wall }) => wall],
        mb_per_s: ["MB/s", ({ wall, bytes }) => bytes / 1000 / wall],
        rows_per_s: ["rows/s", ({ wall }) => (rows * 1000) / wall],
      },
    ),
  );
  return { rows: found, failures: targets(samples, shape) };
}

/**
 * Returns each contestant's number of bytes, after checking their content. `queries`: contestant -> its request for the
 * same rows.
 */
async function check(contestants, server, shape, queries) {
  const truth = await serverTruth(server.appUrl, queries(contestants[0]).sql);
  const expected = new Map();
  for (const contestant of contestants) {
    const got = await contestant.ask({ ...queries(contestant), check: true });
    expected.set(contestant.key, got.bytes);
    if (contestant.library === "drain") continue;
    if (got.lines !== truth.lines)
      throw new Error(`${contestant.key}, ${shape}: ${got.lines} lines instead of ${truth.lines}`);
    const exact = ["pgz-edge", "pgx"].includes(contestant.library);
    if (exact ? got.sha256 !== truth.sha256 : got.canonical !== truth.canonical)
      throw new Error(`${contestant.key}, ${shape}: not what the server's to_json gives`);
  }
  return expected;
}

function same({ key }, shape, bytes, expected) {
  if (bytes !== expected) throw new Error(`${key}, ${shape}: ${bytes} bytes instead of ${expected}`);
}

function targets(samples, shape) {
  const on = (runtime, ...libraries) => libraries.map((library) => key(library, runtime));
  const compare = (runtime, peer, libraries, share) =>
    compareCpu(samples, shape, key("pgz-edge", runtime), peer, libraries, share);
  // On Bun the goal refers to Bun.sql; both other peers are only shown.
  const failures = Object.entries({ node: ndjsonShare(shape), deno: ndjsonShare(shape), bun: undefined }).flatMap(
    ([runtime, share]) => [
      ...compare(runtime, "postgres.js", on(runtime, "postgres.js", "postgres.js cursor"), share),
      ...compare(runtime, "pg", on(runtime, "pg", "pg-query-stream"), share),
    ],
  );
  failures.push(...compare("bun", "Bun.sql", on("bun", "bun.sql"), 1 / 3));
  failures.push(...compare("node", "pgx hand-tuned", on("native", "pgx"), 1));
  const workerd = on("workerd", "postgres.js", "postgres.js cursor");
  failures.push(...compare("workerd", "postgres.js", workerd, 1 / 5));
  if (shape === "mixed_5col") failures.push(...throughput(samples, shape, key("pgz-edge", "workerd"), workerd, 4));
  return failures;
}

function throughput(samples, shape, ours, forms, wanted) {
  if (!samples.has(ours)) return [];
  const wall = (form) => summary(samples.get(form).map(({ wall }) => wall)).median;
  const ratio = Math.min(...forms.map(wall)) / wall(ours);
  console.log(`${shape}: ${ours} has ${ratio.toFixed(1)} times the throughput of postgres.js (to reach: ${wanted})`);
  return ratio < wanted
    ? [`${shape}: ${ours} has ${ratio.toFixed(1)} times the throughput of postgres.js, to reach ${wanted}`]
    : [];
}

// -- modes -----------------------------------------------------------------------------------------------------------

/** Returns the output modes that this build of the driver has. */
async function availableModes(ours, wanted) {
  const found = [];
  for (const format of wanted) {
    try {
      await ours.ask({ sql: "select 1 as a", format });
      found.push(format);
    } catch (error) {
      if (!/INVALID_OPTION|Option "format"/.test(error.message)) throw error;
      console.log(`format ${format}: not there yet`);
    }
  }
  return found;
}

async function modeCpu(ours, formats, server, shape, sql, { rows, trials }) {
  const truth = await serverTruth(server.appUrl, sql);
  const expected = new Map();
  // One process for all modes: code that one mode has warmed is warm for all, and the order is random.
  const asModes = ["ndjson", ...formats].map((format) => ({
    key: format,
    ask: (request) => ours.ask({ format, ...request }),
  }));
  for (const mode of asModes) {
    const got = await mode.ask({ shape, sql, check: true });
    if (got.lines !== truth.lines || got.canonical !== truth.canonical)
      throw new Error(`${mode.key}, ${shape}: not the rows that the server has`);
    expected.set(mode.key, got.bytes);
  }
  const samples = await interleaved(asModes, { shape, sql }, trials, (mode, { bytes }) =>
    same(mode, shape, bytes, expected.get(mode.key)),
  );
  const failures = [];
  const found = formats.flatMap((format) => {
    const ratio = cost(samples, format) / cost(samples, "ndjson");
    console.log(`${shape}: ${format} needs ${ratio.toFixed(2)} of the CPU of ndjson (to reach: ${MODE_SHARE})`);
    if (ratio > MODE_SHARE)
      failures.push(`${shape}: ${format} needs ${ratio.toFixed(2)} of the CPU of ndjson, to reach ${MODE_SHARE}`);
    return resultRows(ours, shape, { rows, format }, samples.get(format), {
      cpu_ms: ["ms", ({ cpu }) => cpu],
      wall_ms: ["ms", ({ wall }) => wall],
    });
  });
  return { rows: found, failures };
}

// -- wall time -------------------------------------------------------------------------------------------------------

async function walls(pair, shape, sql, { pairRows, pairs }) {
  const ratios = [];
  const bytes = new Map();
  for (let round = -1; round < pairs; round++) {
    const wall = {};
    for (const contestant of shuffled(pair)) {
      const got = await contestant.ask({ shape, sql });
      if (!bytes.has(contestant.key)) bytes.set(contestant.key, got.bytes);
      same(contestant, shape, got.bytes, bytes.get(contestant.key));
      wall[contestant.library] = got.wall_ms;
    }
    if (round >= 0) ratios.push(wall["pgz-edge"] / wall.drain);
  }
  const ratio = summary(ratios);
  console.log(`${shape}: wall is ${ratio.median.toFixed(3)} of the bare drain (to reach: ${WALL_RATIO})`);
  const failures =
    ratio.median > WALL_RATIO
      ? [`${shape}: wall is ${ratio.median.toFixed(3)} of the bare drain, to reach ${WALL_RATIO}`]
      : [];
  return {
    rows: [
      {
        shape,
        library: "pgz-edge",
        runtime: "node",
        config: { rows: pairRows },
        metric: "wall_ratio_to_drain",
        unit: "ratio",
        ...ratio,
      },
    ],
    failures,
  };
}
