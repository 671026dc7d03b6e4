// The shapes of CASE=batch. A read has `facts(times)`, which every library must find in seed 002's table. An insert has
// the `table` that it fills.

// Ten executions return 1 to 10 rows: 55 in all, and the sum of their ids is 220; `Harbor 10` comes once, the shorter
// names 54 times.
const read = (times) => ({ rows: 5.5 * times, sum: 22 * times, letters: 44.1 * times, bytes: 148.7 * times });
const LETTERS_OF_FIVE = 40;

/** `share`: the part of the requested executions that a slow shape runs. */
export const shapes = {
  count: { facts: read },
  rows: { facts: read },
  ndjson: { facts: read },
  simple: { share: 1 / 5, facts: (times) => ({ rows: 5 * times, sum: 15 * times, letters: LETTERS_OF_FIVE * times }) },
  inserts_batch_100: { share: 1 / 5, table: "bench_write" },
  insert_exec: { share: 1 / 10, table: "bench_write" },
  insert_prepared: { share: 1 / 10, table: "bench_write" },
  insert_tx: { share: 1 / 10, table: "bench_write" },
  insert_serial: { share: 1 / 5, table: "bench_wide" },
  insert_pipelined_100: { share: 1 / 5, table: "bench_wide" },
  insert_pipelined_1000: { share: 1 / 5, table: "bench_wide" },
};

/** The NDJSON of all executions, concatenated. */
export const ndjson = (times) =>
  Array.from({ length: times }, (_, index) =>
    Array.from({ length: (index % 10) + 1 }, (_, row) => `{"id":${row + 1},"name":"Harbor ${row + 1}"}\n`).join(""),
  ).join("");
