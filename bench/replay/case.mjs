// CASE=replay: the upper limit. A stand-in server answers with rows recorded from the real one, as fast as loopback
// carries them, so only the client is measured: rows per second of wall time and its CPU, for pgz-edge, its peers on
// Node, pgx in Go, and a drain. The contestants and their check are those of CASE=stream.
//
//   ROWS per answer, TIMES answers per trial, TRIALS          how much
//   SHAPES                                                which, separated by commas
import { goal } from "../lib/harness.mjs";
import { command } from "../lib/runtimes.mjs";
import { shapes } from "../lib/shapes.mjs";
import { SERVER_CPU, start } from "../lib/worker.mjs";
import stream, { before } from "../stream/case.mjs";

export default {
  numbers: { ROWS: 100_000, TIMES: 5, TRIALS: 9 },
  shapes: Object.keys(shapes),
  start: stream.start,
  libraries: "stream",

  async fill({ server }) {
    const program = command("node", new URL("stand-in.mjs", import.meta.url), server.appUrl);
    const stand = start("stand-in", program, { cpu: SERVER_CPU });
    const { port } = await stand.ask({ hello: true });
    return { url: `postgres://replay@127.0.0.1:${port}/app?sslmode=disable`, close: stand.stop };
  },

  run: (shape, { ROWS, TIMES }) => ({
    config: { rows: ROWS, times: TIMES },
    request: { shape, sql: shapes[shape](ROWS), times: TIMES },
  }),

  before,

  check({ bytes }, scene, { key }) {
    const wanted = scene.bytes.get(key) * scene.config.times;
    if (bytes !== wanted) throw new Error(`${bytes} bytes instead of ${wanted}`);
  },

  metrics: {
    rows_per_s: ["rows/s", ({ wall, config }) => (config.rows * config.times * 1000) / wall],
    mb_per_s: ["MB/s", ({ wall, bytes }) => bytes / 1000 / wall],
    cpu_ms: ["ms", ({ cpu, config }) => cpu / config.times],
    wall_ms: ["ms", ({ wall, config }) => wall / config.times],
  },

  goals: () => [
    ...["postgres.js on node", "pg on node", "pgx on native"].map((peer) => goal(peer, undefined, { by: "cpu" })),
    goal("pgx on native", 1),
  ],
};
