// The statements that the scripted server can run: what they take, what they give, in text and in binary.
//
// `run(parameters)` gives `{ rows }`, `{ rows, error }` (the error comes after these rows) or `{ rows: [], hangs: true
// }` (until a cancel).
const INT4 = 23;
const TEXT = 25;
const FLOAT8 = 701;
const TIMESTAMPTZ = 1184;

const encoders = {
  [INT4]: (value, format) => {
    if (format === 0) return Buffer.from(String(value));
    const b = Buffer.alloc(4);
    b.writeInt32BE(value);
    return b;
  },
  [TEXT]: (value) => Buffer.from(value),
  // Its text has as many digits as a session asks for that says nothing of extra_float_digits.
  [FLOAT8]: (value, format) => (format === 0 ? Buffer.from(String(+value.toPrecision(15))) : float8(value)),
  // In binary seconds since 2000, as of a server without integer_datetimes.
  [TIMESTAMPTZ]: (value, format) =>
    format === 0 ? Buffer.from(value) : float8((Date.parse(value) - Date.UTC(2000, 0)) / 1000),
};
const float8 = (value) => {
  const b = Buffer.alloc(8);
  b.writeDoubleBE(value);
  return b;
};
const decoders = {
  [INT4]: (value, format) => (format === 0 ? Number(value.toString()) : value.readInt32BE(0)),
  [TEXT]: (value) => value.toString(),
  [TIMESTAMPTZ]: (value, format) => (format === 0 ? value.toString() : "binary"),
};
const columns = (definition) =>
  Object.entries(definition).map(([name, oid]) => ({ name, oid, size: oid === INT4 ? 4 : -1 }));

const catalogue = {
  "select n, label from scripted_rows where n > $1": {
    parameterTypes: [INT4],
    columns: columns({ n: INT4, label: TEXT }),
    run: ([after]) => ({
      rows: [
        [1, "one"],
        [2, null],
        [3, 'three "quoted"'],
      ].filter(([n]) => n > after),
    }),
  },
  "select id, body from scripted_stream": {
    parameterTypes: [],
    columns: columns({ id: INT4, body: TEXT }),
    run: () => ({ rows: Array.from({ length: 5 }, (_, i) => [i + 1, i === 3 ? null : `line ${i + 1}\nof five`]) }),
  },
  "select at, share, $1::timestamptz::text as given from scripted_times": {
    parameterTypes: [TIMESTAMPTZ],
    columns: columns({ at: TIMESTAMPTZ, share: FLOAT8, given: TEXT }),
    run: ([given]) => ({ rows: [["2024-01-02 03:04:05.6+00", 0.1 + 0.2, given]] }),
  },
  "select 1 / 0 as boom": {
    parameterTypes: [],
    columns: columns({ boom: INT4 }),
    run: () => ({ rows: [], error: { C: "22012", M: "division by zero", F: "int.c", L: "846", R: "int4div" } }),
  },
  "select 6 / (3 - n) as share from scripted_rows": {
    parameterTypes: [],
    columns: columns({ share: INT4 }),
    run: () => ({ rows: [[3], [6]], error: { C: "22012", M: "division by zero" } }),
  },
  "select $1::text as echo": {
    parameterTypes: [TEXT],
    columns: columns({ echo: TEXT }),
    run: ([text]) => ({ rows: [[text]] }),
  },
  "select 42 as answer": { parameterTypes: [], columns: columns({ answer: INT4 }), run: () => ({ rows: [[42]] }) },
  "select pg_sleep(60)": {
    parameterTypes: [],
    columns: columns({ pg_sleep: TEXT }),
    run: () => ({ rows: [], hangs: true }),
  },
};

/** The statement of this text, with white space as it comes, or undefined. */
export function find(sql) {
  const found =
    catalogue[
      sql
        .replace(/\s+/g, " ")
        .replace(/;?\s*$/, "")
        .trim()
    ];
  return (
    found && {
      ...found,
      run: (parameters) =>
        found.run(parameters.map(({ value, oid, format }) => (value === null ? null : decoders[oid](value, format)))),
      encode: (i, format, value) => (value === null ? null : encoders[found.columns[i].oid](value, format)),
    }
  );
}
