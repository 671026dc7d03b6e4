// Reads one long result on Node and reports the process's peak memory, one process per measurement.
//
// Idle memory is measured when the driver is loaded and connected and has run the same query over few rows. The peaks,
// first of a tenth of the rows and then of all, are the kernel's high-water mark, reset before each, so that nothing
// between two samples is missed. Both include the garbage that V8 keeps before its first collection; only the second
// includes memory that grows with the result.
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { collect } from "../lib/child.mjs";
import { connectPgz } from "../lib/pgz-edge.mjs";

const BATCH = 10_000;
const PAUSE_EVERY = 1 << 20;

export async function open(form, url) {
  const read = await reader(form, url);
  return {
    async run({ sql, small, tenth }) {
      await read(small);
      collect();
      await pause(200);
      collect();
      const idle = memory("VmRSS");
      writeFileSync("/proc/self/clear_refs", "5"); // resets VmHWM (proc(5))
      await read(tenth);
      const peakOfTenth = memory("VmHWM");
      return { ...(await read(sql)), idle, peakOfTenth, peak: memory("VmHWM") };
    },
  };
}

/** In MiB. */
function memory(name) {
  const [, kib] = new RegExp(`${name}:\\s+(\\d+)`).exec(readFileSync("/proc/self/status", "utf8"));
  return Number(kib) / 1024;
}

async function reader(name, url) {
  if (name === "drain") {
    const source = await (await import("../stream/drain.mjs")).open(url);
    return async (sql) => {
      let bytes = 0;
      await source.run(sql, (chunk) => void (bytes += chunk.length));
      return { bytes };
    };
  }
  const client = await connectPgz(url);
  if (name === "pgz-edge stream") return (sql) => stream(client, sql);
  return (sql) => batches(client, sql);
}

/** A consumer that is slower than the driver: it pauses for a millisecond after each MiB. */
async function stream(client, sql) {
  let bytes = 0;
  let rest = PAUSE_EVERY;
  for await (const chunk of await client.stream(sql)) {
    bytes += chunk.length;
    rest -= chunk.length;
    if (rest > 0) continue;
    await pause(1);
    rest = PAUSE_EVERY;
  }
  return { bytes };
}

async function batches(client, sql) {
  let rows = 0;
  let sum = 0;
  for await (const batch of client.rows(sql).batches(BATCH)) {
    rows += batch.length;
    for (const row of batch) sum += row.id;
  }
  return { rows, sum };
}
