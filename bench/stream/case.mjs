// CASE=stream: a query's rows as NDJSON bytes on Node, ours against its peers, and against a socket that drops the same rows.
//
// Two measurements, each in one interleaved run: (1) process CPU less its idle, 100,000 rows, every library in random order per
// round; (2) wall time of 1,000,000 rows in pairs (ours, drain), as the median of the paired ratios. Every run's bytes are
// compared with those of a checked run, whose content is compared with the server's own to_json (ours) or, parsed, with ours (peers).
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import pg from "pg";
import { isDeepStrictEqual } from "node:util";
import { pin, start } from "../lib/worker.mjs";
import { median, shuffled, summary } from "../lib/statistics.mjs";
import { shapes } from "./shapes.mjs";

const libraries = ["pgz-edge", "postgres.js", "postgres.js cursor", "pg", "pg-query-stream", "pg-copy-streams", "drain"];
const CLIENT_CPU = 0;
const BACKEND_CPU = 1;
/** Ours may need this share of the cheaper form of each peer. */
const CPU_SHARE = { mixed_5col: 1 / 7 };
const WALL_RATIO = 1.1;

export async function run({ server, option }) {
  const rows = Number(option("ROWS") ?? 100_000);
  const trials = Number(option("TRIALS") ?? 9);
  const pairRows = Number(option("PAIR_ROWS") ?? 1_000_000);
  const pairs = Number(option("PAIRS") ?? 9);

  const children = new Map();
  try {
    for (const library of libraries) {
      const child = await start(fileURLToPath(new URL("child.mjs", import.meta.url)), [library, `${server.appUrl.split("?")[0]}?sslmode=disable`], CLIENT_CPU);
      const { backend } = await child.ask({ hello: true });
      if (server.own) pin(backend, BACKEND_CPU);
      children.set(library, child);
    }
    const results = [];
    const failures = [];
    for (const [shape, sql] of Object.entries(shapes)) {
      const expected = await check(children, server, shape, sql(rows), rows);
      await cpu({ children, shape, sql: sql(rows), trials, expected, rows, results, failures });
    }
    for (const [shape, sql] of Object.entries(shapes)) {
      await walls({ children, shape, sql: sql(pairRows), pairs, pairRows, results, failures });
    }
    return { rows: results, failures };
  } finally {
    for (const child of children.values()) child.stop();
  }
}

/** Each library's bytes for this query, after their content has been found right. */
async function check(children, server, shape, sql, rows) {
  const truth = await serverJson(server, sql);
  const expected = new Map();
  for (const [library, child] of children) {
    const got = await child.ask({ shape, sql, check: true });
    expected.set(library, got.bytes);
    if (library === "drain") continue;
    if (got.lines !== rows) throw new Error(`${library}, ${shape}: ${got.lines} lines instead of ${rows}`);
    const same = (line, other) => isDeepStrictEqual(JSON.parse(line), JSON.parse(other));
    if (!same(got.first, truth.first) || !same(got.last, truth.last)) throw new Error(`${library}, ${shape}: other values than the server's`);
    if (library === "pgz-edge" && got.sha256 !== truth.sha256) throw new Error(`pgz-edge, ${shape}: bytes differ from the server's to_json`);
  }
  return expected;
}

async function serverJson(server, sql) {
  const client = new pg.Client({ connectionString: server.appUrl.split("?")[0] });
  await client.connect();
  const { rows } = await client.query({ text: `select to_json(t)::text from (${sql}) t`, rowMode: "array" });
  await client.end();
  const hash = createHash("sha256");
  for (const [line] of rows) hash.update(`${line}\n`);
  return { sha256: hash.digest("hex"), first: rows[0][0], last: rows.at(-1)[0] };
}

async function cpu({ children, shape, sql, trials, expected, rows, results, failures }) {
  const samples = new Map(libraries.map((library) => [library, []]));
  for (let trial = -1; trial < trials; trial++) {
    for (const library of shuffled(libraries)) {
      const child = children.get(library);
      const idle = await child.ask({ idle: 100 });
      const got = await child.ask({ shape, sql });
      if (got.bytes !== expected.get(library)) throw new Error(`${library}, ${shape}: ${got.bytes} bytes instead of ${expected.get(library)}`);
      if (trial < 0) continue; // warm-up
      samples.get(library).push({ cpu: got.cpu_ms - (idle.cpu_ms / idle.wall_ms) * got.wall_ms, wall: got.wall_ms, bytes: got.bytes });
    }
  }
  for (const library of libraries) {
    const of = (metric) => summary(samples.get(library).map(metric));
    const row = { shape, library, runtime: "node", config: { rows } };
    results.push({ ...row, metric: "cpu_ms", unit: "ms", ...of(({ cpu }) => cpu) });
    results.push({ ...row, metric: "wall_ms", unit: "ms", ...of(({ wall }) => wall) });
    results.push({ ...row, metric: "mb_per_s", unit: "MB/s", ...of(({ wall, bytes }) => bytes / 1000 / wall) });
  }
  const cost = (library) => median(samples.get(library).map(({ cpu }) => cpu));
  for (const [peer, forms] of [["postgres.js", ["postgres.js", "postgres.js cursor"]], ["pg", ["pg", "pg-query-stream"]]]) {
    const share = cost("pgz-edge") / Math.min(...forms.map(cost));
    const target = CPU_SHARE[shape] ?? 1 / 8;
    console.log(`${shape}: pgz-edge needs 1/${(1 / share).toFixed(1)} of the CPU of ${peer} (to reach: 1/${1 / target})`);
    if (share > target) failures.push(`${shape}: CPU is 1/${(1 / share).toFixed(1)} of ${peer}'s, to reach 1/${1 / target}`);
  }
}

async function walls({ children, shape, sql, pairs, pairRows, results, failures }) {
  const ratios = [];
  const bytes = new Map();
  for (let pair = -1; pair < pairs; pair++) {
    const wall = {};
    for (const library of shuffled(["pgz-edge", "drain"])) {
      const got = await children.get(library).ask({ shape, sql });
      if (got.bytes !== (bytes.get(library) ?? got.bytes)) throw new Error(`${library}, ${shape}: other bytes than before`);
      bytes.set(library, got.bytes);
      wall[library] = got.wall_ms;
    }
    if (pair >= 0) ratios.push(wall["pgz-edge"] / wall.drain);
  }
  const ratio = summary(ratios);
  results.push({ shape, library: "pgz-edge", runtime: "node", metric: "wall_ratio_to_drain", unit: "ratio", config: { rows: pairRows }, ...ratio });
  console.log(`${shape}: wall is ${ratio.median.toFixed(3)} of the bare drain (to reach: ${WALL_RATIO})`);
  if (ratio.median > WALL_RATIO) failures.push(`${shape}: wall is ${ratio.median.toFixed(3)} of the bare drain, to reach ${WALL_RATIO}`);
}
