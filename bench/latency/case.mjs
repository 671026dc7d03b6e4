// CASE=latency: the time that a user waits. Each shape of shapes.mjs at round trips of 0, 5 and 50 ms, through a
// delaying proxy: wall time in round trips, and the flights, writes and bytes on the wire.
//
// Each trial has its own proxy. For the client its port is a server that it has never seen, so `connect_new` uses no
// learned state although the process is warm. The start of a cold isolate is not in these figures. PostgreSQL requests
// SCRAM. Preparation is not delayed.
//
// Shapes and distances are also interleaved in random order, after a warm-up round, so a machine that is busy for ten
// seconds does not distort a single shape. At 50 ms several contestants run at the same time: they mostly wait.
//
//   TRIALS           how many          SHAPES RUNTIMES          which, separated by commas
import { createServer } from "node:http";
import { delayingProxy } from "../lib/delaying-proxy.mjs";
import { begin, numbersOf, plainUrl, wanted } from "../lib/harness.mjs";
import { cargoProgram, goProgram, wantedRuntimes } from "../lib/runtimes.mjs";
import { shuffled, summary } from "../lib/statistics.mjs";
import { pin, SERVER_CPU } from "../lib/worker.mjs";
import { contestants as listed } from "../peers.mjs";
import { shapesOf } from "./drivers.mjs";
import { shapes } from "./shapes.mjs";

const start = {
  native: (library) =>
    library === "pgx" ? [...goProgram("batch/native", "native"), "latency", "each trial has its own"] : tokio(),
};
const tokio = () => cargoProgram("query/tokio", "latency");

/** Round trips in milliseconds, and the number of contestants that run at the same time. */
const distances = [
  { roundTrip: 0, lanes: 1 },
  { roundTrip: 5, lanes: 1 },
  { roundTrip: 50, lanes: 4 },
];
/**
 * The flights that ours may take, and the slack: the round trips of 50 ms that it may take beyond its flights and those
 * of TCP.
 */
const LIMITS = {
  connect_new: 3,
  connect_known: 2,
  new_5: 1,
  known_5: 1,
  batch_new_5: 2,
  batch_known_5: 1,
  transaction_3: 3,
  scope: 1,
};
const SLACK = 0.4;
/** Milliseconds to wait after a trial: the last bytes of a client that closed must not count for the next trial. */
const SETTLE = 5;

export default { measure };

async function measure({ server, option }) {
  const { TRIALS: trials } = numbersOf({ TRIALS: 5 }, option);
  const chosen = wanted(option, "SHAPES", Object.keys(shapes));
  const runtimes = wantedRuntimes(option, Object.keys(listed.latency));
  const url = plainUrl(server.appUrl);

  if (server.own) pin(server.pid, SERVER_CPU); // backends inherit it
  const marks = await startMarks();
  const contestants = [];
  const result = { rows: [], failures: [] };
  try {
    for (const runtime of runtimes)
      for (const library of listed.latency[runtime])
        contestants.push({ shapes: shapesOf(library), ...(await begin("latency", { start }, library, runtime)) });
    const groups = chosen.flatMap((shape) => distances.map((distance) => group(contestants, shape, distance)));
    for (const one of groups) if (one.distance.roundTrip === 0) await round(one, { url, marks, keep: false });
    for (let trial = 0; trial < trials; trial++)
      for (const one of shuffled(groups)) await round(one, { url, marks, keep: true });
    for (const { shape, distance, members } of groups)
      for (const { contestant, samples } of members) {
        result.rows.push(...figures(contestant, shape, distance, samples));
        if (contestant.library === "pgz-edge") result.failures.push(...targets(contestant, shape, distance, samples));
      }
    return result;
  } finally {
    await Promise.all(contestants.map((one) => one.stop()));
    marks.close();
  }
}

/** One shape at one distance: the contestants that support it, with their samples. */
function group(contestants, shape, distance) {
  const able = contestants.filter(({ shapes }) => shapes.includes(shape));
  return { shape, distance, members: able.map((contestant) => ({ contestant, samples: [] })) };
}

/** Runs a trial of each member. */
async function round({ shape, distance: { roundTrip, lanes }, members }, { url, marks, keep }) {
  const waiting = shuffled(members);
  const lane = async () => {
    for (let one = waiting.pop(); one; one = waiting.pop()) {
      const sample = await once(one.contestant, shape, roundTrip, { url, marks });
      if (keep) one.samples.push(sample);
    }
  };
  await Promise.all(Array.from({ length: lanes }, lane));
}

async function once({ ask }, shape, roundTrip, { url, marks }) {
  const proxy = await delayingProxy(url);
  let counted;
  const mark = marks.add({
    async begin() {
      await new Promise((resolve) => setTimeout(resolve, SETTLE));
      proxy.take();
      proxy.delay(roundTrip);
    },
    end() {
      counted = proxy.take();
      proxy.delay(0);
    },
  });
  try {
    const { wall_ms } = await ask({ shape, url: proxy.url, mark: mark.url });
    return { wall_ms, ...counted };
  } finally {
    mark.remove();
    proxy.close();
  }
}

/**
 * Starts the server to which a trial reports that its measured part begins or ends: `POST <url>/begin`, `POST
 * <url>/end`.
 */
async function startMarks() {
  const trials = new Map();
  const server = createServer(async (request, response) => {
    const [, id, what] = request.url.split("/");
    const mark = trials.get(id)?.[what];
    await mark?.();
    response.writeHead(mark ? 200 : 404).end();
  });
  await new Promise((resolve, reject) => server.once("error", reject).listen(0, "127.0.0.1", resolve));
  let next = 0;
  return {
    add(handlers) {
      const id = String(next++);
      trials.set(id, handlers);
      return { url: `http://127.0.0.1:${server.address().port}/${id}`, remove: () => trials.delete(id) };
    },
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}

/** Counts do not depend on the distance; those of the longest distance are used. */
function figures({ library, runtime }, shape, { roundTrip }, samples) {
  const row = (metric, unit, value) => ({
    shape,
    library,
    runtime,
    config: { round_trip_ms: roundTrip },
    metric,
    unit,
    ...summary(samples.map(value)),
  });
  const wall = row("wall_ms", "ms", ({ wall_ms }) => wall_ms);
  if (roundTrip === 0) return [wall];
  const trips = row("round_trips", "", ({ wall_ms }) => wall_ms / roundTrip);
  if (roundTrip !== distances.at(-1).roundTrip) return [wall, trips];
  return [
    wall,
    trips,
    row("flights", "", ({ flights }) => flights),
    row("writes", "", ({ writes }) => writes),
    row("wire_bytes", "B", ({ wire_bytes }) => wire_bytes),
  ];
}

function targets({ key }, shape, { roundTrip }, samples) {
  const { median: flights, min, max } = summary(samples.map((one) => one.flights));
  const at = `${shape}, ${key}, ${roundTrip} ms`;
  if (min !== max) return [`${at}: ${min} to ${max} flights, which are to be the same each time`];
  if (roundTrip !== distances.at(-1).roundTrip) return [];
  const failures = flights > LIMITS[shape] ? [`${at}: ${flights} flights, to reach ${LIMITS[shape]}`] : [];
  const trips = summary(samples.map(({ wall_ms }) => wall_ms / roundTrip)).median;
  const most = flights + (shape.startsWith("connect") ? 1 : 0) + SLACK;
  if (trips > most) failures.push(`${at}: ${trips.toFixed(2)} round trips of wall time, to reach ${most}`);
  return failures;
}
