// One library in one shape. A request runs the shape the given number of times under V8's profiler, and returns the
// microseconds of each part per query. Rows are checked as they arrive.
import { Session } from "node:inspector/promises";
import * as node from "../../dist/node.js";
import { overPg } from "../adapters/over-pg.mjs";
import { overPgzEdge } from "../adapters/over-pgz-edge.mjs";
import { drivers as pools } from "../pool/drivers.mjs";
import { libraries as clients } from "../query/libraries.mjs";
import { partsOf } from "./parts.mjs";

/** Microseconds between two samples. A query takes about fifteen. */
const INTERVAL = 100;
const WORKERS = 100;
const CONNECTIONS = 16;

/** Shape -> the libraries that are measured in it. */
const measured = {
  select_arg: ["bare", "pgz-edge", "pg named"],
  pool_100: ["pgz-edge", "pg"],
  kysely_1: ["pgz-edge", "pg"],
  drizzle_1: ["pgz-edge", "pg"],
};
/** Shape -> a function that runs it the given number of times. */
const shapes = {
  /** One row by its key, one query after the other on one connection. */
  async select_arg(library, url) {
    const client = await clients[library](url);
    if (library === "bare") return bare(client);
    return async (times) => {
      for (let index = 0; index < times; index++) check((await client.select_arg(index))[0]?.x, index);
    };
  },

  /** Workers that share a pool. */
  async pool_100(library, url) {
    const pool = await pools[library](url, { max: CONNECTIONS, named: true });
    return async (times) => {
      let left = times;
      const worker = async () => {
        while (left-- > 0) check((await pool.select("select_1"))[0]?.x, 1);
      };
      await Promise.all(Array.from({ length: WORKERS }, worker));
    };
  },

  kysely_1: (library, url) => under("kysely", library, url),
  drizzle_1: (library, url) => under("drizzle", library, url),
};

/** One row by its key, with a library on top of the driver. */
async function under(name, library, url) {
  const opened = await (library === "pg" ? overPg : overPgzEdge(node))[name](url);
  return async (times) => {
    for (let index = 0; index < times; index++) {
      const id = 1 + (index % 100);
      check((await opened.one(id))[0]?.id, id);
    }
  };
}

/** Sends the driver's own bytes over a socket without a driver. */
async function bare(client) {
  const recording = await client.recorded("select_arg");
  return async (times) => {
    for (let index = 0; index < times; index++) check(await client.exchange(recording), recording.answer.length);
  };
}

function check(got, expected) {
  if (got !== expected) throw new Error(`${got} where ${expected} was due`);
}

export async function open(library, url, shape) {
  if (!measured[shape].includes(library)) return { shapes: [] };
  const run = await shapes[shape](library, url);
  const profiler = new Session();
  profiler.connect();
  await profiler.post("Profiler.enable");
  await profiler.post("Profiler.setSamplingInterval", { interval: INTERVAL });
  return {
    shapes: [shape],
    clean: false,
    async run({ times, warm }) {
      if (warm) await run(warm);
      await profiler.post("Profiler.start");
      await run(times);
      const { profile } = await profiler.post("Profiler.stop");
      const parts = Object.entries(partsOf(profile)).map(([part, us]) => [part, us / times]);
      return { parts: Object.fromEntries(parts) };
    },
  };
}
