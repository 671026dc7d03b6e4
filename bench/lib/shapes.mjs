// The read shapes of pgz's own benchmark, so that our figures can be compared with its table. `rows` is the only
// parameter. dense_escapes is ours: text with an escape in JSON at every third character. pgz reads numeric from a
// table; here the same values are computed, so that each number of rows is its own query.

const tenInts = Array.from({ length: 10 }, (_, index) => (index ? `g+${index}` : "g")).join(",");

export const shapes = {
  narrow_int: (rows) => `SELECT g::int4 AS id FROM generate_series(1, ${rows}) g`,
  mixed_5col: (rows) =>
    `SELECT g::int4 AS id, 'name-'||g AS name, (g::float8 / 3.0) AS score, (g % 2 = 0) AS flag, ('{"k":'||g||'}')::jsonb AS meta FROM generate_series(1, ${rows}) g`,
  wide_jsonb: (rows) =>
    `SELECT g::int4 AS id, ('{"a":1,"b":[1,2,3],"c":"x"}')::jsonb AS j FROM generate_series(1, ${rows}) g`,
  null_heavy: (rows) =>
    `SELECT g::int4 AS id, CASE WHEN g % 2 = 0 THEN NULL ELSE 'row-'||g END AS v FROM generate_series(1, ${rows}) g`,
  array_int: (rows) => `SELECT g::int4 AS id, ARRAY[${tenInts}]::int4[] AS arr FROM generate_series(1, ${rows}) g`,
  numeric: (rows) =>
    `SELECT g::int4 AS id, (g * 123457::int8 / 10000::numeric)::numeric(18,4) AS price, (g * 123457::int8 % 10000000 / 1000000::numeric)::numeric(10,6) AS rate FROM generate_series(1, ${rows}) g`,
  dense_escapes: (rows) =>
    `SELECT g::int4 AS id, repeat('"key":"C:\\dir\\f",', 4)||g AS text FROM generate_series(1, ${rows}) g`,
};
