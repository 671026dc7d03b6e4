// CASE=profile: where the CPU of a small call goes, by part of the process, ours beside pg and a bare socket that
// exchanges the driver's own bytes. V8's profiler samples the process every 100 us; idle time does not count.
//
// Client and server each have their own CPU, because a client that waits for a shared CPU would seem to work. Sampling
// itself costs some microseconds a query, so the sums are larger than those of CASE=query and CASE=pool: compare parts.
//
//   ROWS queries per trial, TRIALS, WARM       how much
import { TABLE } from "../adapters/libraries.mjs";
import { command } from "../lib/runtimes.mjs";
import { summary } from "../lib/statistics.mjs";
import { interleaved } from "../lib/trials.mjs";
import { CLIENT_CPU, pin, SERVER_CPU, start } from "../lib/worker.mjs";
import { PARTS } from "./parts.mjs";

const child = new URL("child.mjs", import.meta.url);
const shapes = {
  select_arg: ["bare", "pgz-edge", "pg named"],
  pool_100: ["pgz-edge", "pg"],
  kysely_1: ["pgz-edge", "pg"],
  drizzle_1: ["pgz-edge", "pg"],
};

export async function run({ server, option }) {
  const times = Number(option("ROWS") ?? 20_000);
  const trials = Number(option("TRIALS") ?? 7);
  const warm = Number(option("WARM") ?? 20_000);
  const url = `${server.appUrl.split("?")[0]}?sslmode=disable`;
  if (server.own) pin(server.pid, SERVER_CPU);
  await setUp(url);
  const rows = [];
  for (const [shape, libraries] of Object.entries(shapes)) {
    const contestants = libraries.map((library) => begin(shape, library, url));
    try {
      for (const { ask } of contestants) await ask({ times: 1, warm });
      const samples = await interleaved(contestants, { times }, trials, () => {}, { idle: 0 });
      for (const { library } of contestants) rows.push(...partsRows(shape, library, samples.get(library), times));
    } finally {
      await Promise.all(contestants.map((one) => one.stop()));
    }
  }
  return { rows, failures: [] };
}

async function setUp(url) {
  const { default: pg } = await import("pg");
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query(TABLE);
  await client.end();
}

function begin(shape, library, url) {
  const words = command("node", child, shape, library, url);
  return { key: library, library, ...start(`${library}, ${shape}`, words, { cpu: CLIENT_CPU }) };
}

function partsRows(shape, library, samples, times) {
  const row = (part, values) => ({
    shape: `${shape} ${library}`,
    library,
    runtime: "node",
    config: { part, queries: times },
    metric: "cpu_us_per_query",
    unit: "µs",
    ...summary(values),
  });
  const found = PARTS.filter((part) => samples.some(({ parts }) => parts[part] >= 0.005));
  const all = ({ parts }) => Object.values(parts).reduce((sum, us) => sum + us, 0);
  return [
    ...found.map((part) =>
      row(
        part,
        samples.map(({ parts }) => parts[part] ?? 0),
      ),
    ),
    row("all", samples.map(all)),
  ];
}
