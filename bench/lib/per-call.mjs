// Counts what one known call leaves for the garbage collector, in the process that makes the call, on Node only:
//
//   promises         by v8.promiseHooks: the library's and those of the socket's I/O, not the caller's await
//   heap_bytes       allocated on V8's heap, without a collection between
//
// The counts are those of the library's own call, without a wrapper: `call()` returns what the user awaits. `promises`
// is the minimum of ten calls, since other work of the process only adds to it. `heap_bytes` is the minimum of ten
// means.
import process from "node:process";
import { collect } from "./child.mjs";

/**
 * Calls before counting. By then the library has learned all that it can, and V8 has compiled the code, which also
 * takes heap.
 */
const WARM = 5_000;
const COUNTED = 10;
/** Calls per mean: so few that the young generation (16 MiB) holds their allocations. */
const ALLOCATING = 500;

export async function perCall(call) {
  for (let times = 0; times < WARM; times++) await call();
  return { promises: await promisesOf(call), heap_bytes: await heapOf(call) };
}

/** Rows of a result file. */
export function perCallRows({ library, runtime }, shape, config, { promises, heap_bytes }) {
  const row = (metric, unit, value) => ({
    ...{ shape, library, runtime, config, metric, unit },
    ...{ median: value, min: value, max: value, stddev: 0, trials: 1 },
  });
  return [row("promises", "", promises), row("heap_bytes", "B", Math.round(heap_bytes))];
}

async function promisesOf(call) {
  const { promiseHooks } = await import("node:v8");
  const counts = [];
  for (let times = 0; times < COUNTED; times++) {
    let made = 0;
    const stop = promiseHooks.onInit(() => made++);
    await call();
    stop();
    counts.push(made - 1); // the promise of this `await`
  }
  return Math.min(...counts);
}

async function heapOf(call) {
  const means = [];
  for (let round = 0; round < COUNTED; round++) {
    collect();
    const before = process.memoryUsage().heapUsed;
    for (let times = 0; times < ALLOCATING; times++) await call();
    means.push((process.memoryUsage().heapUsed - before) / ALLOCATING);
  }
  return Math.min(...means.filter((mean) => mean > 0)); // a negative mean: there was a collection
}
