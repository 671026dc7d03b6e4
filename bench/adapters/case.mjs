// CASE=adapters: the cost of a query through the library that an application uses, over our driver and over `pg`: one
// row by its key, and 10,000 rows. Process CPU in milliseconds per operation, on Node and in workerd.
//
// On Node each pair of library and driver has a process of its own, in workerd each driver has one. They run in turns,
// and the server has a CPU for itself. A trial in workerd is one request, which connects once. Rows are checked in each
// trial, and must be the same over both drivers. The goal: no more CPU than `pg` for one row, and half of it for
// 10,000.
//
//   TRIALS, ONE and MANY operations of a trial      how much
//   SHAPES, RUNTIMES                                which, separated by commas
import { resultRows, compareCpu, interleaved } from "../lib/trials.mjs";
import { command, wantedRuntimes } from "../lib/runtimes.mjs";
import { pin, SERVER_CPU, start } from "../lib/worker.mjs";
import { post, startWorkerd, timed } from "../workerd/contestant.mjs";
import { MANY, TABLE } from "./libraries.mjs";

const child = new URL("child.mjs", import.meta.url);
const drivers = ["pgz-edge", "pg"];
const libraries = ["facade", "kysely", "drizzle", "prisma"];
const SHARE = { 1: 1, [MANY]: 0.5 };

export async function run({ server, option }) {
  const trials = Number(option("TRIALS") ?? 7);
  const operations = { 1: Number(option("ONE") ?? 3_000), [MANY]: Number(option("MANY") ?? 30) };
  const all = libraries.flatMap((library) => [`${library}_1`, `${library}_${MANY}`]);
  const wanted = option("SHAPES")?.split(",") ?? all;
  const url = `${server.appUrl.split("?")[0]}?sslmode=disable`;
  if (server.own) pin(server.pid, SERVER_CPU); // backends inherit it
  const setup = start("setup", command("node", child, "setup", "pg", url));
  await setup.ask({ setup: TABLE });
  await setup.stop();

  const result = { rows: [], failures: [] };
  for (const runtime of wantedRuntimes(option, ["node", "workerd"]))
    for (const library of libraries) {
      const shapes = wanted.filter((shape) => shape.startsWith(`${library}_`));
      if (!shapes.length) continue;
      const contestants = [];
      for (const driver of drivers) contestants.push(await open[runtime](library, driver, url));
      try {
        for (const shape of shapes) {
          const count = Number(shape.split("_")[1]);
          const samples = await measure(contestants, shape, count, operations[count], trials);
          const config = { operations: operations[count], rows: count };
          const metrics = { cpu_ms: ["ms", ({ cpu }) => cpu / operations[count]] };
          for (const one of contestants)
            result.rows.push(...resultRows(one, shape, config, samples.get(one.key), metrics));
          const [ours, theirs] = contestants.map(({ key }) => key);
          result.failures.push(...compareCpu(samples, shape, ours, theirs, [theirs], SHARE[count]));
        }
      } finally {
        await Promise.all(contestants.map((one) => one.stop()));
      }
    }
  return result;
}

/** Starts one library over one driver, on each runtime. */
const open = {
  node(library, driver, url) {
    const key = `${driver} under ${library}`;
    return { key, library: driver, runtime: "node", ...start(key, command("node", child, library, driver, url)) };
  },

  async workerd(library, driver, url) {
    const key = `${driver} under ${library} in workerd`;
    const { address, pid, stop } = await startWorkerd(driver, key, url, {
      folder: "adapters/workerd",
      compatibilityFlags: ["nodejs_compat"],
    });
    const ask = (work) =>
      timed(pid, async () => {
        const { chunks } = await post(address, { library, ...work }, true);
        return JSON.parse(Buffer.concat(chunks).toString());
      });
    return { key, library: driver, runtime: "workerd", ask, stop };
  },
};

async function measure(contestants, shape, count, times, trials) {
  let reference;
  const verify = ({ key }, { rows, hash }) => {
    if (rows !== count * times) throw new Error(`${key}, ${shape}: ${rows} rows instead of ${count * times}`);
    reference ??= hash;
    if (hash !== reference) throw new Error(`${key}, ${shape}: other rows than under the other driver`);
  };
  return await interleaved(contestants, { count, times }, trials, verify, { idle: 0 });
}
