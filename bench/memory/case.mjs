// CASE=memory: is memory flat however long a result is? 10 million rows are streamed as NDJSON, and read as objects in
// batches of 10,000: RSS above idle in Node (a process per measurement), heap and wasm memory in workerd. `drain` shows
// the memory of Node's own socket.
//
//   ROWS TRIALS          how much          SHAPES RUNTIMES          which, separated by commas; one shape by default
import pg from "pg";
import { setTimeout as pause } from "node:timers/promises";
import { command, wantedRuntimes } from "../lib/runtimes.mjs";
import { wantedShapes } from "../lib/shapes.mjs";
import { summary } from "../lib/statistics.mjs";
import { start } from "../lib/worker.mjs";
import { post, startWorkerd } from "../workerd/contestant.mjs";
import { inspect } from "./inspector.mjs";

const MIB = 2 ** 20;
const MOST_ABOVE_IDLE = 16;
const MOST_IN_ISOLATE = 64;
const SMALL = 20_000;
const child = new URL("child.mjs", import.meta.url);

export async function run({ server, option }) {
  const rows = Number(option("ROWS") ?? 10_000_000);
  const trials = Number(option("TRIALS") ?? 3);
  const shapes = wantedShapes((name) => option(name) ?? (name === "SHAPES" ? "mixed_5col" : undefined));
  const runtimes = { node: inNode, workerd: inWorkerd };
  const result = { rows: [], failures: [] };
  for (const [shape, sql] of shapes) {
    const truth = { rows, sum: (rows * (rows + 1)) / 2, bytes: await serverBytes(server, sql(rows)) };
    for (const runtime of wantedRuntimes(option, Object.keys(runtimes))) {
      const found = await runtimes[runtime]({
        url: `${server.appUrl.split("?")[0]}?sslmode=disable`,
        shape,
        sql,
        truth,
        trials,
      });
      result.rows.push(...found.rows);
      result.failures.push(...found.failures);
    }
  }
  return result;
}

/** Returns the length of the NDJSON that the server itself would write. */
async function serverBytes(server, sql) {
  const client = new pg.Client({ connectionString: server.appUrl });
  await client.connect();
  const { rows } = await client.query(
    `select sum(octet_length(to_json(t)::text) + 1)::float8 as bytes from (${sql}) t`,
  );
  await client.end();
  return rows[0].bytes;
}

function check(name, shape, got, truth) {
  for (const fact of ["rows", "sum", "bytes"]) {
    if (got[fact] !== undefined && got[fact] !== truth[fact])
      throw new Error(`${name}, ${shape}: ${fact} ${got[fact]} instead of ${truth[fact]}`);
  }
}

// -- Node ------------------------------------------------------------------------------------------------------------

async function inNode({ url, shape, sql, truth, trials }) {
  const result = { rows: [], failures: [] };
  for (const form of ["pgz-edge stream", "pgz-edge rows", "drain"]) {
    const samples = [];
    for (let trial = 0; trial < trials; trial++) {
      const got = await measured(form, url, {
        shape,
        sql: sql(truth.rows),
        small: sql(SMALL),
        tenth: sql(Math.ceil(truth.rows / 10)),
      });
      if (got === undefined) break;
      if (form !== "drain") check(form, shape, got, truth);
      samples.push(got);
    }
    if (samples.length === 0) {
      console.log(`${form}: not there yet`);
      continue;
    }
    const above = summary(samples.map(({ peak, idle }) => peak - idle));
    const row = { shape, library: form, runtime: "node", config: { rows: truth.rows } };
    result.rows.push({ ...row, metric: "peak_rss_mib", unit: "MiB", ...summary(samples.map(({ peak }) => peak)) });
    result.rows.push({ ...row, metric: "peak_rss_above_idle_mib", unit: "MiB", ...above });
    const growth = summary(samples.map(({ peak, peakOfTenth }) => peak - peakOfTenth));
    result.rows.push({ ...row, metric: "peak_rss_growth_mib", unit: "MiB", ...growth });
    const text =
      `${shape}: ${form} of ${truth.rows} rows in Node peaks ${above.median.toFixed(1)} MiB above idle, ` +
      `${growth.median.toFixed(1)} above the peak of a tenth of them`;
    console.log(form === "drain" ? text : `${text} (to reach: ${MOST_ABOVE_IDLE})`);
    if (form !== "drain" && above.median > MOST_ABOVE_IDLE)
      result.failures.push(`${text}, to reach ${MOST_ABOVE_IDLE}`);
  }
  return result;
}

async function measured(form, url, request) {
  const one = start(form, command("node", child, form, url));
  try {
    return (await one.ask({ hello: true })).available ? await one.ask(request) : undefined;
  } finally {
    await one.stop();
  }
}

// -- workerd ---------------------------------------------------------------------------------------------------------

async function inWorkerd({ url, shape, sql, truth, trials }) {
  const result = { rows: [], failures: [] };
  for (const [form, query] of [
    ["pgz-edge stream", {}],
    ["pgz-edge rows", { batches: 10_000 }],
  ]) {
    const samples = [];
    for (let trial = 0; trial < trials; trial++) {
      const got = await sampled(form, url, query, { shape, sql: sql(truth.rows), small: sql(SMALL) }, truth);
      if (got === undefined) break;
      samples.push(got);
    }
    if (samples.length === 0) {
      console.log(`${form} in workerd: not there yet`);
      continue;
    }
    const row = { shape, library: form, runtime: "workerd", config: { rows: truth.rows } };
    const peak = (metric, value) => result.rows.push({ ...row, metric, unit: "MiB", ...summary(samples.map(value)) });
    peak("peak_isolate_mib", ({ total }) => total);
    peak("peak_heap_mib", ({ heap }) => heap);
    peak("peak_wasm_mib", ({ wasm }) => wasm);
    const { median } = summary(samples.map(({ total }) => total));
    const text =
      `${shape}: ${form} of ${truth.rows} rows in workerd ` + `holds ${median.toFixed(1)} MiB of heap and wasm memory`;
    console.log(`${text} (to reach: ${MOST_IN_ISOLATE}; ${samples[0].samples} samples)`);
    if (median >= MOST_IN_ISOLATE) result.failures.push(`${text}, to reach ${MOST_IN_ISOLATE}`);
  }
  return result;
}

/**
 * The maxima of samples taken while one response is read: MiB of heap (V8's committed pages and ArrayBuffers), of wasm
 * memory, and of both.
 */
async function sampled(form, url, query, { shape, sql, small }, truth) {
  const worker = await startWorkerd("pgz-edge", `${form} in workerd`, url, { inspectorPort: 0 });
  const peak = { heap: 0, wasm: 0, total: 0, samples: 0 };
  try {
    const warm = await answered(worker, { sql: small, ...query });
    if (warm === undefined) return undefined;
    const { heap, close } = await inspect(worker.inspector);
    let running = true;
    const watch = (async () => {
      while (running) {
        const { totalSize, embedderHeapUsedSize = 0, backingStorageSize = 0 } = await heap();
        const { wasm } = await (await fetch(worker.address)).json();
        const mib = { heap: (totalSize + embedderHeapUsedSize + backingStorageSize) / MIB, wasm: wasm / MIB };
        for (const name of ["heap", "wasm"]) peak[name] = Math.max(peak[name], mib[name]);
        peak.total = Math.max(peak.total, mib.heap + mib.wasm);
        peak.samples++;
        await pause(50);
      }
    })();
    const got = await answered(worker, { sql, ...query });
    running = false;
    await watch;
    close();
    check(`${form} in workerd`, shape, got, truth);
    return peak;
  } finally {
    await worker.stop();
  }
}

/** Returns `{ bytes }` of a stream, `{ rows }` counted by the Worker, or nothing if the driver has no `rows` yet. */
async function answered(worker, query) {
  if (!query.batches) return { bytes: (await post(worker.address, query)).bytes };
  try {
    const { chunks } = await post(worker.address, query, true);
    return JSON.parse(Buffer.concat(chunks));
  } catch (error) {
    if (/client\.rows is not a function/.test(error.message)) return undefined;
    throw error;
  }
}
