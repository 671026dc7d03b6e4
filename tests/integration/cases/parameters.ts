// Values as parameters, for every built-in type that a column can have. Several JavaScript values must become what the
// server makes of the literal that they mean, under settings that would make it read and write other forms.
import type { Client } from "../../../js/index.ts";
import type { Cases, Context } from "../context.ts";
import { newSchema, rowsOf } from "./helpers.ts";

const ODD = {
  timezone: "America/St_Johns",
  datestyle: "German, DMY",
  intervalstyle: "sql_standard",
  bytea_output: "escape",
  extra_float_digits: "-15",
};
const bytes = (...all: number[]) => Uint8Array.from(all);
const noon = new Date("2024-02-29T12:30:00.500Z");
const ancient = new Date("-000043-03-15T12:00:00Z");
/** A stand-in for a Temporal value, for runtimes without Temporal. It has only what the driver reads. */
const temporal = (type: string, text: string) => ({
  [Symbol.toStringTag]: `Temporal.${type}`,
  toString: () => text,
  toJSON: () => text,
});

/** Returns the runtime's own Temporal. Without it, `dates: "temporal"` must be refused. */
async function temporalOf(t: Context, client: Client) {
  const own = (globalThis as { Temporal?: Record<string, { from(text: string): unknown }> }).Temporal;
  const refusal = { name: "UsageError", code: "UNSUPPORTED_ON_RUNTIME" };
  if (!own) await t.assert.rejects(client.query("select now()", { dates: "temporal" }), refusal);
  return own;
}

/** The type, the literal that the values mean, and the values. */
const MATRIX: [type: string, literal: string, ...values: unknown[]][] = [
  ["bool", "true", true, "t", "YES", "on", "1"],
  ["bool", "false", false, "f", " No ", "off"],
  ["int2", "-32768", -32768, -32768n, "-32768"],
  ["int4", "2147483647", 2147483647, 2147483647n, " +2147483647 "],
  ["int8", "-9223372036854775808", -(2n ** 63n), "-9223372036854775808"],
  ["int8", "9007199254740991", 9007199254740991, 9007199254740991n],
  ["oid", "4294967295", 4294967295, 4294967295n, "4294967295"],
  ["float4", "0.1", 0.1, "0.1"],
  ["float4", "-Infinity", -Infinity, "-inf"],
  ["float8", "1e21", 1e21, 10n ** 21n, "1e21"],
  ["float8", "NaN", NaN, "nan"],
  ["float8", "-0", -0],
  ["float8", "5e-324", 5e-324],
  ["numeric", "1.10", "1.10"],
  ["numeric", "1e21", 1e21, 10n ** 21n],
  ["numeric", "NaN", NaN],
  ["numeric", "Infinity", Infinity],
  ["numeric", "123456789012345678901234567890", 123456789012345678901234567890n],
  ["numeric(6,2)", "3.14", 3.14159, "3.14"],
  ["text", 'é "q" \\ \n\'😀', 'é "q" \\ \n\'😀'],
  ["text", "5", 5, 5n, "5"],
  ["text", "true", true],
  ["text", "", ""],
  ["varchar", "x", "x"],
  ["varchar(3)", "abc", "abc"],
  ["bpchar", "x", "x"],
  ["char(3)", "x", "x"],
  ["name", "n", "n"],
  ['"char"', "x", "x"],
  ["refcursor", "r", "r"],
  [
    "uuid",
    "550e8400-e29b-41d4-a716-446655440000",
    "550e8400-e29b-41d4-a716-446655440000",
    "{550E8400E29B41D4A716446655440000}",
  ],
  [
    "bytea",
    "\\x00ff",
    bytes(0, 255),
    bytes(0, 255).buffer,
    new DataView(bytes(0, 255).buffer),
    bytes(9, 0, 255).subarray(1),
    "\\x00FF",
  ],
  ["bytea", "", bytes()],
  [
    "date",
    "2024-02-29",
    noon,
    "2024-02-29",
    temporal("PlainDate", "2024-02-29"),
    temporal("PlainDate", "2024-02-29[u-ca=hebrew]"),
  ],
  ["date", "0044-03-15 BC", ancient, temporal("PlainDate", "-000043-03-15")],
  ["date", "4714-11-24 BC", new Date(-210_866_803_200_000), temporal("PlainDate", "-004713-11-24")],
  ["date", "275760-09-13", new Date(8.64e15), temporal("PlainDate", "+275760-09-13")],
  ["date", "infinity", "infinity"],
  ["time", "12:30:00.123457", "12:30:00.123457", temporal("PlainTime", "12:30:00.123456789")],
  ["timetz", "12:30+02", "12:30+02"],
  [
    "timestamp",
    "2024-02-29 12:30:00.5",
    noon,
    "2024-02-29T12:30:00.5",
    temporal("PlainDateTime", "2024-02-29T12:30:00.5"),
  ],
  ["timestamp", "2024-02-29", temporal("PlainDate", "2024-02-29")],
  ["timestamp", "0044-03-15 12:00 BC", ancient],
  [
    "timestamptz",
    "2024-02-29 12:30:00.5+00",
    noon,
    "2024-02-29 14:30:00.5+02",
    temporal("Instant", "2024-02-29T12:30:00.5Z"),
    temporal("ZonedDateTime", "2024-02-29T13:30:00.5+01:00[Europe/Paris]"),
  ],
  ["timestamptz", "0044-03-15 12:00+00 BC", ancient, temporal("Instant", "-000043-03-15T12:00:00Z")],
  ["timestamptz", "-infinity", "-infinity"],
  // Without a zone, the session's zone is used, as for any text.
  ["timestamptz", "2024-02-29 12:30 America/St_Johns", "2024-02-29 12:30"],
  [
    "interval",
    "1 year 2 mons 25 days 04:05:06.789",
    "P1Y2M25DT4H5M6.789S",
    "1 year 2 mons 25 days 04:05:06.789",
    temporal("Duration", "P1Y2M3W4DT4H5M6.789S"),
  ],
  ["interval", "-1 year -2 mons -3 days -00:00:00.5", temporal("Duration", "-P1Y2M3DT0.5S")],
  ["json", '{"a": [1, null]}', '{"a": [1, null]}'],
  ["json", '{"a":[1,null]}', { a: [1, null] }],
  ["json", '"x"', '"x"'],
  ["json", "[1,[2]]", [1, [2]]],
  ["json", "null", "null"],
  ["json", "5", 5, 5n],
  ["json", "false", false],
  ["jsonb", '{"a": "é\\\\u0000"}', { a: "é\\u0000" }],
  ["jsonb", '"2024-02-29T12:30:00.500Z"', noon],
  ["jsonb", '"2024-02-29"', temporal("PlainDate", "2024-02-29")],
  ["point", "(1,2)", "(1,2)"],
  ["line", "{1,2,3}", "{1,2,3}"],
  ["lseg", "[(1,2),(3,4)]", "[(1,2),(3,4)]"],
  ["box", "(3,4),(1,2)", "(3,4),(1,2)"],
  ["path", "((1,2),(3,4))", "((1,2),(3,4))"],
  ["polygon", "((1,2),(3,4))", "((1,2),(3,4))"],
  ["circle", "<(1,2),3>", "<(1,2),3>"],
  ["inet", "10.0.0.1", "10.0.0.1"],
  ["cidr", "10.0.0.0/8", "10.0.0.0/8"],
  ["macaddr", "08:00:2b:01:02:03", "08:00:2b:01:02:03"],
  ["macaddr8", "08:00:2b:01:02:03:04:05", "08:00:2b:01:02:03:04:05"],
  ["bit(3)", "101", "101", 101],
  ["varbit", "10", "10"],
  ["xid", "7", "7", 7],
  ["cid", "7", 7n],
  ["xid8", "18446744073709551615", 2n ** 64n - 1n],
  ["tid", "(0,1)", "(0,1)"],
  ["pg_lsn", "16/B374D848", "16/B374D848"],
  ["jsonpath", "$.a", "$.a"],
  ["money", "1.50", "1.50", 1.5],
  ["tsvector", "a b", "a b"],
  ["tsquery", "a & b", "a & b"],
  ["xml", "<a>1</a>", "<a>1</a>"],
  ["aclitem", "app=r/app", "app=r/app"],
  ["pg_snapshot", "10:20:10,14", "10:20:10,14"],
  ["txid_snapshot", "10:20:10,14", "10:20:10,14"],
  ["regproc", "now", "now"],
  ["regprocedure", "abs(int4)", "abs(int4)"],
  ["regoper", "||/", "||/"],
  ["regoperator", "+(int4,int4)", "+(int4,int4)"],
  ["regclass", "pg_class", "pg_class", 1259],
  ["regtype", "int4", "int4", 23n],
  ["regrole", "pg_monitor", "pg_monitor"],
  ["regnamespace", "public", "public"],
  ["regconfig", "simple", "simple"],
  ["regdictionary", "simple", "simple"],
  ["regcollation", '"C"', '"C"'],
  ["int2vector", "1 3", "1 3"],
  ["oidvector", "1 2", "1 2"],
  ["int4range", "[1,10)", { lower: 1, upper: 10 }, { lower: 1n, upper: "9", bounds: "[]" }, "[1,10)"],
  ["int4range", "empty", { empty: true }, { lower: 1, upper: 1 }],
  ["int8range", "(,5)", { lower: null, upper: 5n }],
  ["numrange", "[1.10,2.00]", { lower: "1.10", upper: "2.00", bounds: "[]" }],
  [
    "daterange",
    "[2024-02-29,infinity)",
    { lower: noon, upper: "infinity" },
    { lower: temporal("PlainDate", "2024-02-29"), upper: "infinity" },
  ],
  ["daterange", "[0044-03-15 BC,)", { lower: ancient, upper: null }],
  ["tsrange", '("2024-02-29 12:30:00.5",)', { lower: noon, upper: null, bounds: "()" }],
  [
    "tstzrange",
    '["2024-02-29 12:30:00.5+00","2024-03-01 00:00+00"]',
    { lower: noon, upper: new Date("2024-03-01"), bounds: "[]" },
  ],
  ["int4multirange", "{[1,3),[5,9)}", [{ lower: 1, upper: 3 }, "[5,9)"], "{[1,3),[5,9)}"],
  ["int8multirange", "{}", []],
  ["nummultirange", "{[1.5,)}", [{ lower: 1.5, upper: null }]],
  ["datemultirange", "{[2024-02-29,2024-03-02)}", [{ lower: noon, upper: "2024-03-02" }]],
  ["tsmultirange", '{["2024-02-29 12:30:00.5",)}', [{ lower: noon, upper: null }]],
  ["tstzmultirange", '{["2024-02-29 12:30:00.5+00",)}', [{ lower: noon, upper: null }]],
  [
    "int4[]",
    "{{1,2},{3,NULL}}",
    [
      [1, 2n],
      ["3", null],
    ],
    "{{1,2},{3,NULL}}",
  ],
  ["int4[]", "{}", []],
  ["text[]", '{"a\\"b","c\\\\d","NULL","",NULL,"x,{}"}', ['a"b', "c\\d", "NULL", "", null, "x,{}"]],
  ["bool[]", "{t,f}", [true, "f"]],
  ["float8[]", "{1.5,NaN,-Infinity}", [1.5, NaN, -Infinity]],
  ["numeric[]", "{1.10,2}", ["1.10", 2n]],
  ["bytea[]", '{"\\\\x00ff"}', [bytes(0, 255)]],
  ["uuid[]", "{550e8400-e29b-41d4-a716-446655440000}", ["550e8400-e29b-41d4-a716-446655440000"]],
  [
    "timestamptz[]",
    '{"2024-02-29 12:30:00.5+00",NULL}',
    [noon, null],
    [temporal("Instant", "2024-02-29T12:30:00.5Z"), null],
  ],
  ["date[]", "{2024-02-29}", [noon]],
  ["interval[]", '{"25 days"}', [temporal("Duration", "P3W4D")]],
  ["json[]", '{"[1,[2]]","{\\"a\\":1}",NULL}', [[1, [2]], { a: 1 }, null]],
  ["jsonb[]", '{"5"}', [5]],
  ["box[]", "{(2,2),(1,1);(4,4),(3,3)}", ["(2,2),(1,1)", "(4,4),(3,3)"]],
  ["int4range[]", '{"[1,3)",NULL}', [{ lower: 1, upper: 3 }, null]],
  ["inet[]", "{10.0.0.1}", ["10.0.0.1"]],
  ["int4multirange[]", '{"{[1,3)}"}', ["{[1,3)}"]],
  ["int4multirange[]", '{"{[1,3)}",NULL}', [[{ lower: 1, upper: 3 }], null]],
  ["int4[]", "{{{{{{7}}}}}}", [[[[[[7]]]]]]],
];
const SINCE_19: typeof MATRIX = [
  ["oid8", "18446744073709551615", 2n ** 64n - 1n, "18446744073709551615"],
  ["regdatabase", "template1", "template1"],
];
const matrixOf = (major: number) => [...MATRIX, ...(major >= 19 ? SINCE_19 : [])];

export const parameters: Cases = {
  "parameters: every value of every type is what the server makes of the literal, and NULL is NULL": {
    differs: ["text", "engine"],
    async run(t) {
      const client = await t.client();
      await client.query(
        `select ${Object.entries(ODD)
          .map(([name, value]) => `set_config('${name}', '${value}', false)`)
          .join()}`,
      );
      for (const [type, literal, ...values] of matrixOf(t.server.major)) {
        const wanted = `'${literal.replaceAll("'", "''")}'::${type}::text`;
        for (const value of [...values, null]) {
          const { rows } = await client.query<Record<string, unknown>>({
            text: `select $1::${type}::text as given, ${wanted} as wanted`,
            values: [value],
          });
          t.assert.equal(
            rows[0]?.given,
            value === null ? null : rows[0]?.wanted,
            `${type} ${literal} from ${Object.prototype.toString.call(value)}`,
          );
        }
      }
    },
  },
  "parameters: COPY stores every value of every type as what the server makes of the literal": {
    only: "plain",
    async run(t) {
      const client = await t.client();
      const binary =
        /^(bool|int\d|oid|float\d|numeric|text|varchar|bpchar|char|name|uuid|bytea|date|time|timestamp|timestamptz|json|jsonb)\b(?!range|multirange|\[\]\[)/;
      for (const [index, [type, literal, ...values]] of matrixOf(t.server.major).entries()) {
        await client.query(`create temp table p${index} (v ${type})`);
        const table = t.pgz.sql.identifier(`p${index}`);
        let stored = 0;
        for (const value of [...values, null]) {
          const refused = await client.copyFromRows(table, ["v"], [[value]]).then(
            () => undefined,
            (error: { code: string }) => error.code,
          );
          // Some spellings of text can only be read by the server, and these are refused here.
          if (refused === undefined) stored++;
          else
            t.assert.deepEqual(
              [refused, typeof value, binary.test(type)],
              ["INVALID_PARAMETER", "string", true],
              `${type} ${literal} from ${String(value)}`,
            );
        }
        t.assert(
          stored >= Math.min(2, values.filter((value) => typeof value !== "string").length + 1),
          `${type} ${literal}`,
        );
        const { rows } = await client.query(
          `select v::text as given, '${literal.replaceAll("'", "''")}'::${type}::text as wanted
             from p${index} where v is not null`,
        );
        for (const { given, wanted } of rows) t.assert.equal(given, wanted, `${type} ${literal}`);
        t.assert.equal(rows.length, stored - 1, type);
      }
    },
  },
  async "parameters: composites work as text or from their attributes, and so do enums, domains and their arrays"(t) {
    const [client, schema] = await newSchema(t);
    const { sql } = t.pgz;
    const at = (name: string) => sql.identifier(schema, name);
    await client.exec(sql`create type ${at("mood")} as enum ('sad', 'happy')`);
    await client.exec(sql`create domain ${at("small")} as int4 check (value < 10)`);
    await client.exec(sql`create type ${at("pair")} as (a int4, b text, c timestamptz)`);
    const { rows } =
      await client.query(sql`select (${1}, ${'x"),('}, ${noon})::${at("pair")} = row(1, 'x"),(', '2024-02-29 12:30:00.5+00')::${at("pair")} as made,
          ${"(1,x,)"}::${at("pair")}::text as given,
          ${["(1,x,)", null]}::${at("pair")}[]::text as several, ${"happy"}::${at("mood")}::text as mood,
          ${["sad", null]}::${at("mood")}[]::text as moods, ${7}::${at("small")}::int4 as small`);
    t.assert.deepEqual(rows, [
      { made: true, given: "(1,x,)", several: '{"(1,x,)",NULL}', mood: "happy", moods: "{sad,NULL}", small: 7 },
    ]);
  },
  async "parameters: a value that does not fit its type is refused before anything is sent, and the connection is unchanged"(
    t,
  ) {
    const client = await t.client();
    const refused: [type: string, code: string, ...values: unknown[]][] = [
      ["int2", "PARAMETER_OUT_OF_RANGE", 70_000, "-32769"],
      ["int4", "PARAMETER_OUT_OF_RANGE", 2 ** 31],
      ["int8", "PARAMETER_OUT_OF_RANGE", 2n ** 63n, 2 ** 53],
      ["oid", "PARAMETER_OUT_OF_RANGE", -1],
      ["float4", "PARAMETER_OUT_OF_RANGE", 1e39],
      ["timestamptz", "PARAMETER_OUT_OF_RANGE", new Date(-8.64e15)],
      ["date", "PARAMETER_OUT_OF_RANGE", temporal("PlainDate", "-271821-04-19")],
      ["int4range", "PARAMETER_OUT_OF_RANGE", { lower: 2 ** 31, upper: null }],
      ["int4", "INVALID_PARAMETER", 1.5, "1e3", true, {}, [1]],
      ["text", "INVALID_PARAMETER", "a\0b", "\ud800", {}, bytes(1), Symbol("x")],
      ["date", "INVALID_PARAMETER", new Date(NaN), 5, temporal("PlainDateTime", "2024-02-29T12:30:00")],
      ["interval", "INVALID_PARAMETER", 5, noon],
      ["timestamptz", "INVALID_PARAMETER", temporal("PlainDateTime", "2024-02-29T12:30:00")],
      ["int4range", "INVALID_PARAMETER", { lower: 1 }, [1, 2], 5],
      ["json", "INVALID_PARAMETER", () => 1],
    ];
    for (const [type, code, ...values] of refused) {
      for (const value of values) {
        const error = await t.assert.code(client.query({ text: `select $1::${type}`, values: [value] }), code);
        t.assert(error instanceof t.pgz.UsageError);
      }
    }
    await t.assert.rows(client.query("select 7 as a"), [{ a: 7 }]);
  },
  "parameters: the runtime's own Temporal values work as the stand-ins do, and are refused where there is no Temporal":
    {
      differs: ["engine"],
      async run(t) {
        const client = await t.client();
        const real = await temporalOf(t, client);
        if (!real) return;
        const all: [type: string, of: string, text: string, literal: string][] = [
          ["date", "PlainDate", "-000043-03-15", "0044-03-15 BC"],
          ["date", "PlainDate", "2024-02-29[u-ca=hebrew]", "2024-02-29"],
          ["time", "PlainTime", "12:30:00.123456789", "12:30:00.123457"],
          ["timestamp", "PlainDateTime", "+012345-02-28T12:30", "12345-02-28 12:30"],
          ["timestamptz", "Instant", "2024-02-29T12:30:00.5+01:00", "2024-02-29 11:30:00.5+00"],
          ["timestamptz", "ZonedDateTime", "2024-02-29T12:30+01:00[Europe/Paris]", "2024-02-29 11:30+00"],
          ["timestamptz", "ZonedDateTime", "1900-01-01T00:00:00+00:09:21[Europe/Paris]", "1899-12-31 23:50:39+00"],
          ["interval", "Duration", "-P1Y2M3W4DT5H6M7.89S", "-1 year -2 mons -25 days -05:06:07.89"],
        ];
        for (const [type, of, text, literal] of all) {
          const { rows } = await client.query<Record<string, unknown>>({
            text: `select $1::${type}::text as given, '${literal}'::${type}::text as wanted`,
            values: [real[of]!.from(text)],
          });
          t.assert.equal(rows[0]?.given, rows[0]?.wanted, `${of} ${text}`);
        }
      },
    },
  'dates: "temporal": rows have the runtime\'s own Temporal, and each value goes back as what it was': {
    differs: ["engine"],
    async run(t) {
      const client = await t.client();
      if (!(await temporalOf(t, client))) return;
      const values: [type: string, of: string, literal: string, text: string][] = [
        ["date", "PlainDate", "2024-02-29", "2024-02-29"],
        ["date", "PlainDate", "0044-03-15 BC", "-000043-03-15"],
        ["date", "PlainDate", "12345-06-07", "+012345-06-07"],
        ["time", "PlainTime", "12:30:00.123457", "12:30:00.123457"],
        ["timestamp", "PlainDateTime", "2024-02-29 12:30:00.5", "2024-02-29T12:30:00.5"],
        ["timestamptz", "Instant", "2024-02-29 12:30:00.000001+00", "2024-02-29T12:30:00.000001Z"],
        ["interval", "Duration", "1 year 2 mons 3 days 04:05:06.789", "P1Y2M3DT4H5M6.789S"],
        ["interval", "Duration", "-1 years -00:00:00.5", "-P1YT0.5S"],
        ["interval", "Duration", "25:00", "PT25H"],
      ];
      for (const [type, of, literal, text] of values) {
        const asked = `select '${literal}'::${type} as one, array['${literal}', null]::${type}[] as many`;
        const { rows } = await client.query<{ one: object; many: unknown[] }>(asked, { dates: "temporal" });
        const [{ one, many }] = rows as [{ one: object; many: unknown[] }];
        t.assert.equal(Object.prototype.toString.call(one), `[object Temporal.${of}]`);
        t.assert.deepEqual([String(one), String(many[0]), many[1]], [text, text, null]);
        const back = await client.query(`select $1::${type} = '${literal}'::${type} as same`, [one]);
        t.assert.deepEqual(back.rows, [{ same: true }]);
      }
      const stays =
        "select 'infinity'::date a, '24:00'::time b, '-infinity'::timestamptz c, '1 year -1 day'::interval d";
      const { rows } = await client.query(stays, { dates: "temporal" });
      t.assert.deepEqual(rows, [{ a: "infinity", b: "24:00:00", c: "-infinity", d: "P1Y-1D" }]);
    },
  },
  async "parameters: serialize converts custom values in every kind of call"(t) {
    class Point {
      constructor(
        readonly x: number,
        readonly y: number,
      ) {}
    }
    const seen: unknown[] = [];
    const serialize = (value: unknown) => {
      seen.push(value);
      return value instanceof Point ? `(${value.x},${value.y})` : value;
    };
    await using client = t.pgz.createClient({ ...t.options, serialize });
    const { sql } = t.pgz;
    const at = new Point(1, 2);
    const query = sql`select ${at}::point::text as p, ${[at, null]}::point[]::text as ps, ${null}::int4 as n`;
    const row = { p: "(1,2)", ps: '{"(1,2)",NULL}', n: null };
    for (let run = 0; run < 3; run++) await t.assert.rows(client.query(query), [row]);
    t.assert.equal(seen.length, 6, "nulls are not asked about");
    await t.assert.rows(client.query("select $1::point::text as p", [at]), [{ p: row.p }]);
    t.assert.equal(new TextDecoder().decode(await client.json(sql`select (${at}::point)[0] as x`)), '[{"x":1}]');
    for await (const one of client.rows(sql`select (${at}::point)[1] as y`)) t.assert.deepEqual(one, { y: 2 });
    for await (const batch of client.cursor(sql`select (${at}::point)[1] as y`, 10))
      t.assert.deepEqual(batch, [{ y: 2 }]);
    const batched = await client.batch([sql`select (${at}::point)[0] as x`, sql`select ${7}::int4 as n`]);
    t.assert.deepEqual(rowsOf(batched), [[{ x: 1 }], [{ n: 7 }]]);
    await client.transaction((tx) => t.assert.rows(tx.query(sql`select (${at}::point)[0] as x`), [{ x: 1 }]));
    const prepared = await client.prepare("select ($1::point)[0] as x");
    await t.assert.rows(prepared.query([at]), [{ x: 1 }]);
    await client.exec("create temporary table places (id int4, name text, at point)");
    await client.copyFromRows("places", ["id", "at"], [[1, at], { id: 2, at }]);
    await client.copyFromRows("places", ["id", "name"], [[3, at]]);
    const { rows } = await client.query("select id, coalesce(name, at::text) as a from places order by id");
    t.assert.deepEqual(
      rows,
      [1, 2, 3].map((id) => ({ id, a: "(1,2)" })),
    );

    await using forgetful = t.pgz.createClient({ ...t.options, serialize: () => undefined });
    const lost = { code: "INVALID_PARAMETER" };
    t.assert.match((await t.assert.rejects(forgetful.query(query), lost)).message, /"serialize" returned undefined/);
    await t.assert.code(forgetful.copyFromRows("places", ["id"], [[1]]), "42P01");
    await t.assert.rows(forgetful.query("select 1 as a"), [{ a: 1 }]);
  },
};
