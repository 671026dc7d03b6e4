// Ten lines for a user's decision: our figures beside those of the two drivers that most programs use.
//
// Knows which figure answers which question. Must not know the tables that the figures come from.
import { chosen, number } from "./figures.mjs";

/** The forms in which each library is measured. The cheapest form counts, and is named. */
const forms = {
  "pgz-edge": ["pgz-edge", "pgz-edge query", "pgz-edge stream"],
  pg: ["pg", "pg named", "pg pipeline", "pg-query-stream", "pg-copy-streams"],
  "postgres.js": ["postgres.js", "postgres.js cursor"],
};

/**
 * `less`: whether smaller figures are better. `is`: further values that the row's `config` must have. The runtime is
 * Node unless `of` names another.
 */
const decisions = [
  {
    what: "CPU for one row by its key",
    of: { case: "query", shape: "select_arg", metric: "cpu_us_per_query", less: true },
  },
  {
    what: "queries per second of 100 workers on 16 connections",
    of: { case: "pool", shape: "select_1", metric: "queries_per_s", less: false },
    is: { through: "direct", workers: 100 },
  },
  {
    what: "CPU for 10,000 executions of a known statement (pgz-edge: one batch)",
    of: { case: "batch", shape: "rows", metric: "cpu_ms", less: true },
  },
  {
    what: "CPU for 100,000 rows of five columns as NDJSON",
    of: { case: "stream", shape: "mixed_5col", metric: "cpu_ms", less: true },
    is: { format: undefined },
  },
  {
    what: "the same in workerd",
    of: { case: "stream", shape: "mixed_5col", metric: "cpu_ms", runtime: "workerd", less: true },
    is: { format: undefined },
  },
  {
    what: "CPU for 100,000 rows of five columns as objects",
    of: { case: "rows", shape: "mixed_5col", metric: "cpu_ms", less: true },
  },
  {
    what: "CPU for COPY in of rows of 16 columns",
    of: { case: "copy", shape: "in_rows_16x32", metric: "cpu_ms", less: true },
  },
  {
    what: "from a new connection to the first row, 50 ms away",
    of: { case: "latency", shape: "connect_new", metric: "wall_ms", less: true },
    is: { round_trip_ms: 50 },
  },
  {
    what: "five new statements at the same time, 50 ms away",
    of: { case: "latency", shape: "new_5", metric: "wall_ms", less: true },
    is: { round_trip_ms: 50 },
  },
  {
    what: "from the first request of a cold workerd to its first row",
    of: { case: "startup", shape: "plain", metric: "first_row_ms", runtime: "workerd", less: true },
  },
];

/** Returns the best figure of a library's forms, or `undefined` if there is none. */
function best({ of: { shape, runtime = "node", less, ...of }, is = {} }, library) {
  const rows = chosen(of).filter(
    (row) =>
      row.shape === shape &&
      row.runtime === runtime &&
      forms[library].includes(row.library) &&
      Object.entries(is).every(([name, value]) => row.config?.[name] === value),
  );
  return rows.reduce((a, b) => (a && a.median < b.median === less ? a : b), undefined);
}

export function lines() {
  return [
    "## What to decide by",
    "",
    "Medians, on Node unless a line says otherwise. If a peer has several forms, its best one counts and is named. The",
    "ratio compares ours with the better of the two peers: above 1 pgz-edge is better.",
    "",
    `| what | ${Object.keys(forms).join(" | ")} | ratio |`,
    "|---|---|---|---|---|",
    ...decisions.map(row),
    "",
  ];
}

function row(line) {
  const [ours, ...peers] = Object.keys(forms).map((library) => best(line, library));
  if (!ours) return `| ${line.what} | not measured | | | |`;
  const { less } = line.of;
  const said = (one) => {
    if (!one) return "";
    const form = Object.hasOwn(forms, one.library) || one === ours ? "" : ` (${one.library})`;
    return `${number(one.median)} ${one.unit}${form}`;
  };
  const ratios = peers.filter(Boolean).map((peer) => (less ? peer.median / ours.median : ours.median / peer.median));
  const ratio = ratios.length ? Math.min(...ratios).toFixed(2) : "";
  return `| ${line.what} | ${[ours, ...peers].map(said).join(" | ")} | ${ratio} |`;
}
