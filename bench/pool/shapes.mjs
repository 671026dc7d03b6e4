// The shapes of CASE=pool: seed 004's four cases, and its mixed work with transactions that an error cuts short.
//
// Knows texts, values and their results. Every library, and the Go program too, gets the same list of windows, so that
// a seed determines the work and not a library's random numbers.

/**
 * `n` is the only parameter of each text: the number of rows, except in the last text, where 0 causes an error (22012).
 */
export const texts = [
  "select generate_series(1, $1::int4) as i",
  "select i, i * 2 as d, i::text as t from generate_series(1, $1::int4) i",
  "select i, md5(i::text) as m from generate_series(1, $1::int4) i",
  "select 1 / $1::int4 as i",
];
export const [SERIES, WIDE, HASHES, DIVISION] = texts.keys();
/**
 * The texts of the two SELECT shapes: a constant, and a user's function, after which a pool might reset the session.
 */
export const SELECTS = { select_1: "SELECT 1 as x", select_function: "SELECT bench_pool_one() as x" };
/** SQLSTATE of the intended error of `mixed_dirty`. */
export const INTENDED = "22012";

export const COPIES = 5;
export const COPY_ROWS = 1_000;
export const COPY_OUT = `COPY (SELECT i AS id, 'row_'||i::text AS name, i*10 AS value FROM generate_series(1,${COPY_ROWS}) i) TO STDOUT`;
export const COPY_IN = "COPY bench_pool_in FROM STDIN";
/** The rows of both COPY directions. */
export const copied = Array.from({ length: COPY_ROWS }, (_, at) => `${at + 1}\trow_${at + 1}\t${(at + 1) * 10}\n`).join(
  "",
);

/** `unit`: the unit that is counted as a query. */
export const shapes = {
  select_1: {},
  select_function: {},
  mixed: {},
  mixed_dirty: {},
  copy_out: { bytes: copied.length },
  copy_in: { bytes: copied.length },
};

const WINDOWS = 300;
const WINDOW_QUERIES = 20;

/**
 * Windows of about twenty queries, cut at the ends of transactions: `{ isTransaction, steps: [[text, n], …] }` each, a
 * single query or a transaction. `isDirty`: in two of three an error ends a transaction after its first statement, and
 * nothing follows.
 */
export function windows(isDirty) {
  const random = generator(isDirty ? 2 : 1);
  return Array.from({ length: WINDOWS }, (_, index) => {
    const items = [];
    for (let left = WINDOW_QUERIES; left > 0; left -= queriesOf(items.at(-1))) items.push(item(random));
    return isDirty && index % 3 > 0 ? cut(items) : items;
  });
}

const queriesOf = ({ isTransaction, steps }) => steps.length + (isTransaction ? 2 : 0);

/** Picks an item with the seed's shares. */
function item(random) {
  const share = random(100);
  if (share < 50) return { isTransaction: false, steps: [[SERIES, 1 + random(100)]] };
  if (share < 70) return { isTransaction: false, steps: [[WIDE, 100 + random(1_000)]] };
  const [text, count, rows] =
    share < 85 ? [SERIES, 2 + random(4), () => 1 + random(50)] : [HASHES, 3 + random(5), () => 10 + random(200)];
  return { isTransaction: true, steps: Array.from({ length: count }, () => [text, rows()]) };
}

function cut(items) {
  const at = items.findIndex(({ isTransaction }) => isTransaction);
  if (at < 0) return items;
  const [first] = items[at].steps;
  return [...items.slice(0, at), { isTransaction: true, steps: [first, [DIVISION, 0]] }];
}

/** Returns whole numbers below `end`, from the generator of lib/data.mjs. */
function generator(seed) {
  let state = seed;
  return (end) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state >>> 8) % end;
  };
}
