// The read shapes of pgz's own benchmark, so that figures can be laid beside its table. `rows` is the only parameter.

export const shapes = {
  narrow_int: (rows) => `SELECT g::int4 AS id FROM generate_series(1, ${rows}) g`,
  mixed_5col: (rows) =>
    `SELECT g::int4 AS id, 'name-'||g AS name, (g::float8 / 3.0) AS score, (g % 2 = 0) AS flag, ('{"k":'||g||'}')::jsonb AS meta FROM generate_series(1, ${rows}) g`,
  wide_jsonb: (rows) => `SELECT g::int4 AS id, ('{"a":1,"b":[1,2,3],"c":"x"}')::jsonb AS j FROM generate_series(1, ${rows}) g`,
  null_heavy: (rows) => `SELECT g::int4 AS id, CASE WHEN g % 2 = 0 THEN NULL ELSE 'row-'||g END AS v FROM generate_series(1, ${rows}) g`,
};
