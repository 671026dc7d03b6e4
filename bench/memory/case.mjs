// CASE=memory: is memory flat however long a result is? 10 million rows are streamed as NDJSON, and read as objects in
// batches of 10,000: RSS above idle in Node (a process per measurement), heap and wasm memory in workerd. `drain` shows
// the memory of Node's own socket.
//
//   ROWS TRIALS          how much          SHAPES RUNTIMES          which, separated by commas; one shape by default
import { setTimeout as pause } from "node:timers/promises";
import { ask } from "../lib/connect.mjs";
import { begin, numbersOf, plainUrl, wanted } from "../lib/harness.mjs";
import { wantedRuntimes } from "../lib/runtimes.mjs";
import { shapes } from "../lib/shapes.mjs";
import { summary } from "../lib/statistics.mjs";
import { asJson, post, startWorker } from "../lib/workerd.mjs";
import { contestants as listed } from "../peers.mjs";
import { inspect } from "./inspector.mjs";

const MIB = 2 ** 20;
const MOST_ABOVE_IDLE = 16;
const MOST_IN_ISOLATE = 64;
const SMALL = 20_000;

export default { measure };

async function measure({ server, option }) {
  const { ROWS: rows, TRIALS: trials } = numbersOf({ ROWS: 10_000_000, TRIALS: 3 }, option);
  const inRuntime = { node: inNode, workerd: inWorkerd };
  const result = { rows: [], failures: [] };
  for (const shape of option("SHAPES") ? wanted(option, "SHAPES", Object.keys(shapes)) : ["mixed_5col"]) {
    const sql = shapes[shape];
    const truth = { rows, sum: (rows * (rows + 1)) / 2, bytes: await serverBytes(server, sql(rows)) };
    for (const runtime of wantedRuntimes(option, Object.keys(listed.memory)))
      for (const form of listed.memory[runtime]) {
        const found = await inRuntime[runtime](form, { url: plainUrl(server.appUrl), shape, sql, truth, trials });
        result.rows.push(...found.rows);
        if (found.isBad) result.failures.push(found.text);
      }
  }
  return result;
}

const rowOf = (shape, library, runtime, { rows }, metric, values) => ({
  ...{ shape, library, runtime, config: { rows }, metric, unit: "MiB" },
  ...summary(values),
});

/** Returns the length of the NDJSON that the server itself would write. */
async function serverBytes(server, sql) {
  const [{ bytes }] = await ask(
    server.appUrl,
    `select sum(octet_length(to_json(t)::text) + 1)::float8 as bytes from (${sql}) t`,
  );
  return bytes;
}

function check(name, shape, got, truth) {
  for (const fact of ["rows", "sum", "bytes"]) {
    if (got[fact] !== undefined && got[fact] !== truth[fact])
      throw new Error(`${name}, ${shape}: ${fact} ${got[fact]} instead of ${truth[fact]}`);
  }
}

// -- Node ------------------------------------------------------------------------------------------------------------

async function inNode(form, { url, shape, sql, truth, trials }) {
  const request = { sql: sql(truth.rows), small: sql(SMALL), tenth: sql(Math.ceil(truth.rows / 10)) };
  const samples = [];
  for (let trial = 0; trial < trials; trial++) {
    const one = await begin("memory", {}, form, "node", url);
    try {
      const got = await one.ask(request);
      if (form !== "drain") check(form, shape, got, truth);
      samples.push(got);
    } finally {
      await one.stop();
    }
  }
  const row = (metric, valueOf) => rowOf(shape, form, "node", truth, metric, samples.map(valueOf));
  const above = row("peak_rss_above_idle_mib", ({ peak, idle }) => peak - idle);
  const growth = row("peak_rss_growth_mib", ({ peak, peakOfTenth }) => peak - peakOfTenth);
  const text =
    `${shape}: ${form} of ${truth.rows} rows in Node peaks ${above.median.toFixed(1)} MiB above idle, ` +
    `${growth.median.toFixed(1)} above the peak of a tenth of them (to reach: ${MOST_ABOVE_IDLE})`;
  console.log(text);
  const rows = [row("peak_rss_mib", ({ peak }) => peak), above, growth];
  return { rows, text, isBad: form !== "drain" && above.median > MOST_ABOVE_IDLE };
}

// -- workerd ---------------------------------------------------------------------------------------------------------

async function inWorkerd(form, { url, shape, sql, truth, trials }) {
  const query = form === "pgz-edge rows" ? { batches: 10_000 } : {};
  const samples = [];
  for (let trial = 0; trial < trials; trial++)
    samples.push(await sampled(form, url, query, { shape, sql: sql(truth.rows), small: sql(SMALL) }, truth));
  const row = (metric, name) =>
    rowOf(
      shape,
      form,
      "workerd",
      truth,
      metric,
      samples.map((peak) => peak[name]),
    );
  const rows = [row("peak_isolate_mib", "total"), row("peak_heap_mib", "heap"), row("peak_wasm_mib", "wasm")];
  const [{ median }] = rows;
  const text =
    `${shape}: ${form} of ${truth.rows} rows in workerd holds ${median.toFixed(1)} MiB of heap and wasm memory ` +
    `(to reach: ${MOST_IN_ISOLATE}; ${samples[0].samples} samples)`;
  console.log(text);
  return { rows, text, isBad: median >= MOST_IN_ISOLATE };
}

/**
 * The maxima of samples taken while one response is read: MiB of heap (V8's committed pages and ArrayBuffers), of wasm
 * memory, and of both.
 */
async function sampled(form, url, query, { shape, sql, small }, truth) {
  const worker = await startWorker("stream", form, `${form} in workerd`, url, [], { inspectorPort: 0 });
  const peak = { heap: 0, wasm: 0, total: 0, samples: 0 };
  try {
    await answered(worker, { sql: small, ...query });
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

/** Returns `{ bytes }` of a stream, or `{ rows }` counted by the Worker. */
const answered = async ({ address }, query) =>
  query.batches ? asJson(address, query) : { bytes: (await post(address, query)).bytes };
