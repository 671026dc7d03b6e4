// The statements that the scripted server can run, with their parameters and results, in text and in binary.
//
// `run(parameters, session)` returns `{ rows }`, `{ rows, error }` (the error comes after these rows) or `{ rows: [],
// hangs: true }` (until a cancel). A statement's `role` selects the scenarios that may change its answers: `statement`
// is under test, `other` is an accompanying one, `check` precedes a first run, `settings` precedes each statement of a
// scope, `transaction` is BEGIN and similar ones, `catalog` queries types.
import { int32 } from "./wire.mjs";

const INT4 = 23;
const TEXT = 25;
const FLOAT8 = 701;
const TIMESTAMPTZ = 1184;
const JSON_ = 114;
/** A composite type of the database, `(a int4, b text)`. */
const PAIR = 16_400;

const encoders = {
  [INT4]: (value, format) => (format === 0 ? Buffer.from(String(value)) : int32(value)),
  [TEXT]: (value) => Buffer.from(value),
  // Its text has 15 digits, as in a session that does not set extra_float_digits.
  [FLOAT8]: (value, format) => (format === 0 ? Buffer.from(String(+value.toPrecision(15))) : float8(value)),
  // In binary it is seconds since 2000, as in a server without integer_datetimes.
  [TIMESTAMPTZ]: (value, format) =>
    format === 0 ? Buffer.from(value) : float8((Date.parse(value) - Date.UTC(2000, 0)) / 1000),
  [JSON_]: (value) => Buffer.from(value),
  [PAIR]: ([a, b], format) =>
    format === 0
      ? Buffer.from(`(${a},"${b}")`)
      : Buffer.concat([
          int32(2),
          int32(INT4),
          int32(4),
          int32(a),
          int32(TEXT),
          int32(Buffer.byteLength(b)),
          Buffer.from(b),
        ]),
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

const divisionByZero = { C: "22012", M: "division by zero", F: "int.c", L: "846", R: "int4div" };

const catalogue = {
  "select n, label from scripted_rows where n > $1": {
    role: "statement",
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
    role: "statement",
    columns: columns({ id: INT4, body: TEXT }),
    run: () => ({ rows: Array.from({ length: 5 }, (_, i) => [i + 1, i === 3 ? null : `line ${i + 1}\nof five`]) }),
  },
  "select at, share, $1::timestamptz::text as given from scripted_times": {
    role: "statement",
    parameterTypes: [TIMESTAMPTZ],
    columns: columns({ at: TIMESTAMPTZ, share: FLOAT8, given: TEXT }),
    run: ([given]) => ({ rows: [["2024-01-02 03:04:05.6+00", 0.1 + 0.2, given]] }),
  },
  "select pair from scripted_pairs": {
    role: "statement",
    columns: columns({ pair: PAIR }),
    run: () => ({ rows: [[[1, "one"]], [null], [[3, "three, four"]]] }),
  },
  "select 1 / 0 as boom": {
    columns: columns({ boom: INT4 }),
    run: () => ({ rows: [], error: divisionByZero }),
  },
  "select 6 / (3 - n) as share from scripted_rows": {
    columns: columns({ share: INT4 }),
    run: () => ({ rows: [[3], [6]], error: divisionByZero }),
  },
  "select $1::text as echo": {
    parameterTypes: [TEXT],
    columns: columns({ echo: TEXT }),
    run: ([text]) => ({ rows: [[text]] }),
  },
  "insert into scripted_ledger values ($1)": {
    parameterTypes: [TEXT],
    columns: [],
    run: ([entry], session) => {
      session.write(entry);
      return { rows: [], tag: "INSERT 0 1" };
    },
  },
  "select 42 as answer": { columns: columns({ answer: INT4 }), run: () => ({ rows: [[42]] }) },
  "select pg_sleep(60)": { columns: columns({ pg_sleep: TEXT }), run: () => ({ rows: [], hangs: true }) },
};

/** The check of a first run: it returns no rows, and fails for columns of a composite type. */
const check = {
  role: "check",
  columns: columns({ int4: INT4 }),
  run: (_values, { statements }) => {
    const misses = statements.get("pgz_first_run")?.columns.some(({ oid }) => oid === PAIR);
    const M = 'invalid input syntax for type integer: "pgz-edge: types"';
    return { rows: [], ...(misses && { error: { C: "22P02", M } }) };
  },
};

/** The settings of a scope. No code here reads them. */
const settings = { role: "settings", columns: [], run: () => ({ rows: [] }) };

/** The catalog's description of PAIR. */
const question = {
  role: "catalog",
  columns: columns({ json_agg: JSON_ }),
  run: () => ({ rows: [[JSON.stringify([[PAIR, "c", "pair", [INT4, TEXT], ["a", "b"]]])]] }),
};

/**
 * BEGIN, COMMIT, ROLLBACK. They change the session's `status`, the transaction status that ReadyForQuery
 * reports.
 */
function transaction(verb) {
  const run = (_values, session) => {
    const { status } = session;
    if (verb === "BEGIN") session.status = "T";
    if (verb === "COMMIT" || verb === "ROLLBACK") session.status = "I";
    if (verb === "COMMIT" && status !== "E") session.commit();
    if (verb === "ROLLBACK") session.rollBack();
    return { rows: [], tag: verb === "COMMIT" && status === "E" ? "ROLLBACK" : verb };
  };
  return { role: "transaction", columns: [], run, ends: verb === "COMMIT" || verb === "ROLLBACK" };
}

/**
 * Returns the statement with this text in any white space, or undefined. The text of a first run may end with a
 * comment.
 */
export function find(text) {
  const sql = text
    .replace(/\n\/\* \w+ \*\/$/, "")
    .replace(/\s+/g, " ")
    .replace(/;?\s*$/, "")
    .trim();
  const verb = /^(BEGIN|COMMIT|ROLLBACK)\b/.exec(sql)?.[1];
  const found =
    catalogue[sql] ??
    (verb && transaction(verb)) ??
    (sql.startsWith("select pg_catalog.current_setting(pg_catalog.concat('pgz-edge: ',why))") ? check : undefined) ??
    (sql.startsWith("select where pg_catalog.set_config(") ? settings : undefined) ??
    (/^with recursive ranges .* pg_catalog\.json_agg/.test(sql) ? question : undefined);
  if (!found) return undefined;
  const statement = { role: "other", parameterTypes: [], ends: false, ...found, sql: text };
  return {
    ...statement,
    run: (parameters, session) => found.run(parameters.map(decoded), session),
    encode: (i, format, value) => (value === null ? null : encoders[statement.columns[i].oid](value, format)),
  };
}

function decoded({ value, oid, format }) {
  return value === null ? null : decoders[oid](value, format);
}
