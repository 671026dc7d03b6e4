// The page of charts, from bench/results. Decides which figures are shown side by side. Must not contain figures
// itself.
import { readFileSync } from "node:fs";
import path from "node:path";
import { barsOf } from "./charts.mjs";
import { root } from "./pages.mjs";

/** Sockets without a driver: the lower bound of any driver's cost. */
const FLOORS = ["drain", "bare"];

/** The round trip to the server, in milliseconds. */
const DISTANCE = 50;
const away = (row) => row.config.round_trip_ms === DISTANCE;
const plain = (row) => row.config.format === undefined;
const on =
  (...runtimes) =>
  (row) =>
    runtimes.includes(row.runtime);

/** `shapes`: one group of bars each, with its name. `where` selects rows of the case. `more`: greater is better. */
const charts = [
  {
    title: "Rows to NDJSON on Node",
    about: "Process CPU of the client for one streamed result. `drain` is a socket that drops the rows.",
    case: "stream",
    metric: "cpu_ms",
    where: (row) => on("node")(row) && plain(row),
    shapes: {
      narrow_int: "one int4",
      mixed_5col: "five columns of five types",
      wide_jsonb: "jsonb",
      null_heavy: "mostly NULL",
      array_int: "arrays of int4",
      numeric: "numeric",
    },
  },
  {
    title: "The same in workerd, Deno and Bun",
    about: "The runtimes that have their own sockets, with five columns.",
    case: "stream",
    metric: "cpu_ms",
    where: plain,
    split: ["workerd", "deno", "bun"],
    shapes: { mixed_5col: "five columns" },
  },
  {
    title: "Rows to JavaScript objects on Node",
    about: "Process CPU for a whole result as objects: `query` holds it, `rows` iterates.",
    case: "rows",
    metric: "cpu_ms",
    where: on("node"),
    shapes: { narrow_int: "one int4", mixed_5col: "five columns", wide_jsonb: "jsonb", numeric: "numeric" },
  },
  {
    title: "Round trips",
    about:
      "How often a client has to wait for the server on an open socket. " +
      "[The tables](/benchmark-tables#round-trips) describe each scenario.",
    case: "latency",
    metric: "flights",
    where: (row) => on("node", "native")(row) && away(row),
    shapes: {
      connect_new: "connect and one new statement",
      connect_known: "connect, server and statement known",
      new_5: "five new statements at the same time",
      known_5: "five known statements at the same time",
      transaction_3: "a transaction of three statements",
      scope: "one statement under a tenant's setting",
    },
  },
  {
    title: `Wall time at a distance of ${DISTANCE} ms`,
    about: "What the round trips mean for a user whose database is far.",
    case: "latency",
    metric: "wall_ms",
    where: (row) => on("node", "native")(row) && away(row),
    shapes: {
      connect_new: "connect and one new statement",
      new_5: "five new statements at the same time",
      transaction_3: "a transaction of three statements",
    },
  },
  {
    title: "Queries one at a time",
    about: "Process CPU for a small query, on every runtime that was measured.",
    case: "query",
    metric: "cpu_us_per_query",
    split: ["node", "bun", "native"],
    shapes: { select_arg: "one parameter" },
  },
  {
    title: "A pool with sixteen workers",
    about: "Process CPU of the client for each query, straight to PostgreSQL.",
    case: "pool",
    metric: "cpu_us_per_query",
    where: ({ config }) => config.through === "direct" && config.workers === 16,
    split: ["node", "deno", "bun", "native"],
    shapes: { select_1: "select 1", mixed: "mixed queries" },
  },
  {
    title: "Acquire and release",
    about:
      "Acquiring an idle connection of a pool and releasing it. Most of our cost is the stack trace that " +
      "[`leakThreshold`](/pool#leases) records.",
    case: "pool",
    metric: "cpu_us_per_pair",
    shapes: { acquire_release: "one pair" },
  },
  {
    title: "COPY",
    about: "Process CPU of the client. `bytes` are passed through, `rows` are JavaScript values.",
    case: "copy",
    metric: "cpu_ms",
    shapes: {
      in_bytes_16x32: "in, bytes, 16 columns",
      in_rows_16x32: "in, rows, 16 columns",
      out_text: "out, text",
      out_binary: "out, binary",
    },
  },
  {
    title: "Libraries over pgz-edge and over pg",
    about: "Process CPU of one operation through the adapter, and through the same library over `pg`.",
    case: "adapters",
    metric: "cpu_ms",
    split: ["node", "workerd"],
    shapes: {
      facade_10000: "pg's own API, 10,000 rows",
      kysely_10000: "Kysely, 10,000 rows",
      drizzle_10000: "Drizzle, 10,000 rows",
      prisma_10000: "Prisma, 10,000 rows",
      facade_1: "pg's own API, one row",
      kysely_1: "Kysely, one row",
      drizzle_1: "Drizzle, one row",
      prisma_1: "Prisma, one row",
    },
  },
  {
    title: "Memory",
    about: "Peak of the process above idle while it streams the whole table.",
    case: "memory",
    metric: "peak_rss_above_idle_mib",
    shapes: { mixed_5col: "five columns" },
  },
];

/** Returns the part of `versions` that a chart shows: its libraries, then their platforms. */
function made({ date, machine, versions }, { case: name }, rows) {
  const [day] = date.split("T");
  const libraries = Object.keys(versions).filter((one) => rows.some(({ library }) => library.split(" ")[0] === one));
  const places = ["postgresql", ...new Set(rows.map(({ runtime }) => runtime))].filter((one) => one in versions);
  const list = [...libraries, ...places].map((one) => `${one} ${versions[one]}`).join(", ");
  const sizes = [...new Set(rows.map(({ config }) => config.rows ?? config.executions ?? config.operations))];
  const counted = sizes.every((size) => size !== undefined)
    ? `${sizes.map((size) => size.toLocaleString("en")).join(" or ")} rows or executions a trial. `
    : "";
  return (
    `${counted}Median, with a line from the least to the greatest trial. \`make bench CASE=${name}\` on ${day}, commit ` +
    `${versions.commit}, ${machine.cores} cores of ${machine.cpu}, ${machine.memory}, load ${machine.load_before} ` +
    `before and ${machine.load_after} after. ${list}.`
  );
}

function draw(chart) {
  const results = JSON.parse(readFileSync(path.join(root, `bench/results/${chart.case}.json`), "utf8"));
  const chosen = results.rows.filter(
    (row) => row.metric === chart.metric && row.shape in chart.shapes && (chart.where?.(row) ?? true),
  );
  const places = chart.split ?? [undefined];
  const drawn = [];
  const ahead = []; // per group with bars of ours and of peers: no peer is below ours
  const figures = Object.entries(chart.shapes).flatMap(([shape, name]) =>
    places.flatMap((place) => {
      const rows = chosen.filter((row) => row.shape === shape && (place === undefined || row.runtime === place));
      if (rows.length === 0 && place !== undefined) return [];
      if (rows.length === 0) throw new Error(`bench/results/${chart.case}.json has no ${chart.metric} of ${shape}`);
      drawn.push(...rows);
      const several = new Set(rows.map(({ runtime }) => runtime)).size > 1;
      const bars = rows
        .map((row) => ({
          label: several && row.runtime !== "node" ? `${row.library} (${row.runtime})` : row.library,
          kind: FLOORS.includes(row.library) ? "floor" : row.library.startsWith("pgz-edge") ? "own" : "peer",
          ...row,
        }))
        .sort((a, b) => a.median - b.median);
      const best = (wanted) => Math.min(...bars.filter(({ kind }) => kind === wanted).map(({ median }) => median));
      if (best("own") < Infinity && best("peer") < Infinity) ahead.push(best("own") <= best("peer"));
      const where = place === undefined ? "" : `, ${place}`;
      return [barsOf(`${name}${where}`, rows[0].unit, bars)];
    }),
  );
  if (figures.length === 0) throw new Error(`bench/results/${chart.case}.json has nothing for ${chart.title}`);
  return `## ${chart.title}

${chart.about} Less is better.${score(ahead)}

<div class="charts">${figures.join("\n")}</div>

<div class="made">

${made(results, chart, drawn)}

</div>
`;
}

/** Counts the groups for the reader. */
function score(ahead) {
  if (ahead.length === 0) return "";
  return ` No peer is below pgz-edge in ${ahead.filter(Boolean).length} of ${ahead.length} groups that have both.`;
}

export function performancePage() {
  return `---
outline: 2
---

# Performance

Bars of what \`make bench\` has measured, drawn from the files in \`bench/results\` when this site was built. They are
one machine's figures, and it is shared: a difference of a few hundredths means nothing. [Benchmarks](/benchmarks)
says what to decide by and what pgz-edge loses, and [the tables](/benchmark-tables) have more figures for each decision.

${charts.map(draw).join("\n")}`;
}
