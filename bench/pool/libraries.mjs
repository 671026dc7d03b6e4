// One library of drivers.mjs as workers that share its pools. A request runs one shape with the given number of workers
// for the given time, and waits until all of them have finished. Rows and bytes are checked as they arrive: a wrong
// result ends the benchmark, a failed task is counted by its SQLSTATE.
import process from "node:process";
import { collect, timed } from "../lib/child.mjs";
import { drivers } from "./drivers.mjs";
import { COPIES, COPY_IN, COPY_OUT, copied, INTENDED, SELECTS, WIDE, HASHES, windows } from "./shapes.mjs";

const bytes = Buffer.from(copied);
const work = { mixed: windows(false), mixed_dirty: windows(true) };

/** Thrown for rows, bytes or counts that are wrong. */
class Wrong extends Error {}

async function one({ select }, shape, found) {
  const rows = await select(shape);
  if (rows.length !== 1 || rows[0].x !== 1) throw new Wrong(`${shape}: ${JSON.stringify(rows)}`);
  found.queries++;
}

const ways = {
  select_1: (pool, _, found) => one(pool, "select_1", found),
  select_function: (pool, _, found) => one(pool, "select_function", found),
  mixed: (pool, index, found) => pool.borrow((on) => inWindow(on, work.mixed[index % work.mixed.length], found)),
  async mixed_dirty(pool, index, found) {
    const window = work.mixed_dirty[index % work.mixed_dirty.length];
    const isCut = window.at(-1).steps.at(-1)[1] === 0;
    try {
      await pool.borrow((on) => inWindow(on, window, found));
    } catch (error) {
      if (!isCut || pool.codeOf(error) !== INTENDED) throw error;
      found.cut++;
      found.queries += 2; // the failed query, and ROLLBACK
      return false;
    }
    if (isCut) throw new Wrong("a division by zero has succeeded");
  },
  copy_out: (pool, _, found) =>
    pool.borrow(async (on) => {
      for (let copy = 0; copy < COPIES; copy++) {
        const pieces = [];
        await on.copyOut(COPY_OUT, (piece) => pieces.push(piece));
        if (!Buffer.concat(pieces).equals(bytes)) throw new Wrong("COPY has given other bytes");
        found.queries++;
      }
    }),
  copy_in: (pool, _, found) =>
    pool.borrow(async (on) => {
      for (let copy = 0; copy < COPIES; copy++) {
        await on.copyIn(COPY_IN, bytes); // the case checks the table
        found.queries++;
      }
    }),
};

async function inWindow(on, window, found) {
  for (const { isTransaction, steps } of window) {
    if (!isTransaction) {
      await step(on, steps[0], found);
      continue;
    }
    found.queries++;
    await on.transaction(async (within) => {
      for (const one of steps) await step(within, one, found);
    });
    found.queries++;
  }
}

async function step(on, [text, n], found) {
  const rows = await on.rows(text, n);
  let sum = 0;
  for (let at = 0; at < rows.length; at++) sum += rows[at].i;
  const last = rows[n - 1];
  const isRight =
    rows.length === n &&
    sum === (n * (n + 1)) / 2 &&
    (text !== WIDE || (last.d === 2 * n && last.t === String(n))) &&
    (text !== HASHES || last.m.length === 32);
  if (!isRight) throw new Wrong(`text ${text} with ${n}: ${rows.length} rows, sum ${sum}, ${JSON.stringify(last)}`);
  found.queries++;
}

async function perform(shape, pool, { workers, duration }) {
  const found = { queries: 0, tasks: 0, failed: 0, cut: 0, errors: {} };
  const latencies = [];
  let next = 0;
  const end = performance.now() + duration;
  const worker = async () => {
    for (let start = performance.now(); start < end; start = performance.now()) {
      found.tasks++;
      try {
        if ((await ways[shape](pool, next++, found)) !== false) latencies.push(performance.now() - start);
      } catch (error) {
        if (error instanceof Wrong) throw error;
        found.failed++;
        const code = pool.codeOf(error);
        found.errors[code] = (found.errors[code] ?? 0) + 1;
      }
    }
  };
  await Promise.all(Array.from({ length: workers }, worker));
  latencies.sort((a, b) => a - b);
  const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => latencies[Math.floor(latencies.length * share)]);
  return { ...found, p50, p95, p99 };
}

async function pairs({ pair }, times) {
  for (let time = 0; time < times; time++) await pair();
  return {};
}

/**
 * Makes that many concurrent calls, of which all but `max` wait. Returns the bytes of each while it waits, and the time
 * that serving them takes.
 */
async function waiters({ select, connections }, times) {
  const heap = () => {
    collect();
    collect(); // frees what the first collection released
    return process.memoryUsage().heapUsed;
  };
  const before = heap();
  const results = Array.from({ length: times }, () => select("select_1"));
  const bytes = (heap() - before) / times;
  const served = await timed(
    async () => {
      for (const result of results) {
        const [{ x }] = await result;
        if (x !== 1) throw new Wrong(`SELECT 1: ${x}`);
      }
      return {};
    },
    { clean: false },
  );
  results.length = 0;
  return { ...served, bytes, left: (heap() - before) / times, connections: connections?.() };
}

/** The shapes that a library supports. */
async function able({ borrow, pair }) {
  const calls = [...Object.keys(SELECTS), "waiters_10000"];
  if (!borrow) return calls;
  const copies = await borrow((on) => Object.entries({ copy_out: on.copyOut, copy_in: on.copyIn }));
  const copying = copies.filter(([, way]) => way).map(([shape]) => shape);
  return [...calls, "mixed", "mixed_dirty", ...copying, ...(pair ? ["acquire_release"] : [])];
}

export async function open(library, direct, pgbouncer, max) {
  const poolOf = (url, named) => drivers[library](url, { max: Number(max), named });
  const pools = { direct: await poolOf(direct, true), pgbouncer: await poolOf(pgbouncer, false) };
  return {
    shapes: await able(pools.direct),
    clean: false,
    call: pools.direct.call,
    run({ shape, through, times, ...how }) {
      const pool = pools[through];
      if (shape === "waiters_10000") return waiters(pool, times);
      return shape === "acquire_release" ? pairs(pool, times) : perform(shape, pool, how);
    },
  };
}
