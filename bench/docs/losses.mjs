// Compares ours with every peer in every figure that a peer has too.
//
// Knows which metrics can be compared. Must not know what a page shows.
import { isOurs, nameOf, number, results, unique } from "./figures.mjs";

/** The cases with peers, in the order of the pages. */
const CASES = "stream rows query pool copy batch latency startup changes adapters replay".split(" ");
/** Metric -> its name for a reader. All are better when they are less. Speeds are left out: they are inverted times. */
const METRICS = {
  cpu_ms: "CPU",
  cpu_us_per_query: "CPU of a query",
  cpu_us_per_pair: "CPU of acquire and release",
  us_per_query: "wall time of a query",
  wall_ms: "wall time",
  p99_ms: "99th percentile of tasks",
  first_row_ms: "until the first row",
  flights: "flights",
  round_trips: "round trips",
  writes: "socket writes",
  wire_bytes: "bytes on the wire",
  peak_rss_mib: "peak memory",
  bytes_per_waiter: "memory of a waiting call",
  promises: "promises of a call",
  heap_bytes: "heap of a call",
};
/** The parts of `config` that make figures incomparable, and how a reader calls them. */
const APART = {
  through: (value) => (value === "direct" ? "direct" : "through PgBouncer"),
  workers: (value) => `${value} workers`,
  round_trip_ms: (value) => `${value} ms away`,
  execution: (value) => `${value} execution`,
  format: (value) => value,
};
/** Sockets without a driver. They are the lower bound, not peers. */
const FLOORS = ["drain", "bare", "empty"];
/** On a shared machine a ratio this close to 1 means no difference. */
export const SAME = 0.05;

/**
 * Each figure of ours beside the best peer's on the same runtime, and on Node also beside the best native one: `{
 * title, shape, ours, best, ratio }`. A `ratio` below 1 means that ours is worse.
 */
export const comparisons = () => CASES.flatMap((name) => ofCase(name, results(name)?.rows ?? []));

function ofCase(name, rows) {
  const groups = new Map();
  for (const row of rows) {
    if (!(row.metric in METRICS) || isRepeated(row)) continue;
    const apart = Object.keys(APART).flatMap((key) =>
      row.config[key] === undefined ? [] : [APART[key](row.config[key])],
    );
    const title = [`${name}: ${METRICS[row.metric]}`, ...apart].join(", ");
    const key = JSON.stringify([title, row.shape]);
    if (!groups.has(key)) groups.set(key, { title, shape: row.shape, rows: [] });
    groups.get(key).rows.push(row);
  }
  return [...groups.values()].flatMap(ofGroup);
}

/** The wall time of CASE=latency in another unit, or by workerd's clock, which has whole milliseconds. */
function isRepeated({ metric, runtime, config: { round_trip_ms: distance } }) {
  return distance !== undefined && (metric === "round_trips" || (runtime === "workerd" && distance === 0));
}

function ofGroup({ title, shape, rows }) {
  const others = rows.filter(({ library }) => !isOurs(library) && !FLOORS.includes(library));
  return rows
    .filter(({ library }) => isOurs(library))
    .flatMap((ours) =>
      unique([ours.runtime, ...(ours.runtime === "node" ? ["native"] : [])]).flatMap((runtime) => {
        const peers = others.filter((peer) => peer.runtime === runtime);
        if (peers.length === 0) return [];
        const best = peers.reduce((a, b) => (b.median < a.median ? b : a));
        return [{ title, shape, ours, best, ratio: best.median / ours.median }];
      }),
    );
}

const HEAD = ["| what | shape | pgz-edge | best peer | ratio (1 is equal) |", "|---|---|---|---|---|"];

/** A table of losses. */
export const lossTable = (losses) => [...HEAD, ...losses.map(loss), ""];

function loss({ title, shape, ours, best, ratio }) {
  const said = (one) => `${nameOf(one)}: ${`${number(one.median)} ${one.unit}`.trim()}`;
  return `| ${title} | ${shape} | ${said(ours)} | ${said(best)} | ${ratio.toFixed(2)} |`;
}
