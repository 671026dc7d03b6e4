// The queries of CASE=query: seed 001's four cases and seed 002's table. All libraries share these texts; the
// statements that they make from them are their own.

/**
 * The tables of the queries. `harbors` is seed 002's, with a hundred rows. It is a temporary table, so that a server
 * that is not ours is left unchanged.
 */
export const setup = [
  "create temp table harbors (id serial primary key, name varchar(255) not null)",
  "insert into harbors (name) select 'Harbor ' || i from generate_series(1, 100) i",
];
export const simpleText = "SELECT id, name FROM harbors LIMIT 5";
export const IN_FLIGHT = 100;

/** The parameters of select_args after the first, which counts. */
export const args = {
  text: "Grüße, 'quoted' \\ and \"double\"",
  time: new Date("2026-02-03T04:05:06.789Z"),
  bytes: Buffer.from(Array.from({ length: 32 }, (_, index) => index * 8)),
  json: { a: [1, 2.5, null], b: { c: "x" } },
};

/**
 * Shape -> `expected(times)`: the rows, and the sum of `value(row)` over them, of the operations 0 to times - 1.
 * Operation i has the value i (pipelined_100: values 0 to 99 in each; singles_55000: i % 10 + 1 rows). `queries`: the
 * queries of one operation. `more`: a trial has that many times the executions, and there are half as many trials,
 * because seed 002 has ten thousand where the others have two.
 */
export const shapes = {
  select: { value: ({ x }) => x, expected: (times) => ({ rows: times, sum: times }) },
  select_arg: { value: ({ x }) => x, expected: (times) => ({ rows: times, sum: (times * (times - 1)) / 2 }) },
  select_args: { value: ({ a }) => a, expected: (times) => ({ rows: times, sum: (times * (times - 1)) / 2 }) },
  select_where: { value: ({ typname }) => typname.length, expected: (times) => ({ rows: times, sum: 4 * times }) },
  simple: { value: ({ id }) => id, expected: (times) => ({ rows: 5 * times, sum: 15 * times }) },
  singles_55000: { value: ({ id }) => id, expected: (times) => ({ rows: 5.5 * times, sum: 22 * times }), more: 5 },
  pipelined_100: {
    value: ({ x }) => x,
    expected: (times) => ({ rows: IN_FLIGHT * times, sum: 4950 * times }),
    queries: IN_FLIGHT,
    more: 5,
  },
};

/**
 * Returns a row as text that does not depend on the types of its library: times and bytes have one form each, other
 * values are printed.
 */
export function canonicalRow(row) {
  return Object.entries(row).map(([name, value]) => [
    name,
    name === "c" ? new Date(value).toISOString() : plain(value),
  ]);
}

function plain(value) {
  if (value === null || value === undefined) return null;
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("hex");
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}
