// Compares the values of a statement that runs before it is described with the same values of a statement that was
// described first: for each parameter type the server stores the same, or both calls are refused with the same text. It
// runs in Node only, because ECMAScript defines how a number is written, and no runtime can change it.
import { describe, expect, test } from "vitest";
import type { Client, PgzError } from "../../js/index.ts";
import { runtime, testServers } from "../integration/servers.ts";

const { servers } = testServers();
const { connect, sql } = (await import(`../../dist/${runtime}.js`)) as typeof import("../../js/index.ts");

const VALUES: readonly unknown[] = [
  ...[null, "", " ", " 5 ", "1 day"],
  ...String.raw`abc t true yes null NaN -infinity epoch \x0102 \ é {1,2} {a,NULL}`.split(" "),
  ..."0 5 -5 +5 007 010 -0 0x1F 0b1 0o17 1_000 1.50 1e3 70000 3000000000".split(" "),
  ...`9007199254740993 99999999999999999999 2024-01-02 20240102 12:30 [1,5) (1,2) "x" {"a":1}`.split(" "),
  ...[
    0,
    1,
    -1,
    5,
    -5,
    1.5,
    -1.5,
    0.1,
    1e-7,
    1e21,
    16_777_217,
    0.30000001192092896,
    3.4e39,
    -0,
    NaN,
    Infinity,
    -Infinity,
  ],
  ...[
    1230,
    70_000,
    240_101,
    20_240_101,
    1_732_233_600,
    1_732_233_600_000,
    3_000_000_000,
    2 ** 53 - 1,
    2 ** 53,
    -(2 ** 60),
  ],
  ...[0n, 1n, -1n, 20_240_101n, 2n ** 31n, 2n ** 63n - 1n, -(2n ** 63n), 2n ** 63n, 10n ** 30n, true, false],
  ...[
    new Date(0),
    new Date("2024-02-29T12:34:56.789Z"),
    new Date("0001-01-01T00:00Z"),
    new Date(-1e14),
    new Date(8e15),
    new Date(NaN),
  ],
  ...[
    new Uint8Array(),
    Uint8Array.of(1, 255),
    new ArrayBuffer(2),
    new DataView(new ArrayBuffer(1)),
    new Uint8Array(20_000),
  ],
  ...[[], [1, 2], ["a", null], [[1], [2]], {}, { a: 1 }, { lower: 1, upper: 5 }, { empty: true }],
  ...[
    sql.json(5),
    sql.json("x"),
    sql.json({ a: [1] }),
    sql.json(null),
    "a\0b",
    "\ud800",
    undefined,
    Symbol("s"),
    () => 1,
  ],
];

const TYPES = [
  ...["bool", "bytea", '"char"', "name", "int2", "int4", "int8", "oid", "xid", "float4", "float8", "numeric", "money"],
  ...["text", "varchar(3)", "bpchar", "json", "jsonb", "xml", "uuid", "inet", "cidr", "macaddr", "macaddr8", "varbit"],
  ...[
    "date",
    "time",
    "timetz",
    "timestamp",
    "timestamptz",
    "interval",
    "point",
    "box",
    "tid",
    "pg_lsn",
    "tsvector",
    "jsonpath",
  ],
  ...[
    "int4[]",
    "text[]",
    "json[]",
    "bool[]",
    "bytea[]",
    "timestamptz[]",
    "int4range",
    "numrange",
    "daterange",
    "int8multirange",
  ],
  ...["regtype", "first_mood", "first_whole", "first_pair", "first_pair[]"],
];

let unique = 0;

/** Returns what the server stored, or the error. */
async function outcome(client: Client, type: string, value: unknown): Promise<string> {
  // The text is unique each time, so that no isolate has cached it. No row is read: before PostgreSQL 16 a statement
  // whose rows are read is described first.
  const n = unique++;
  const text = `insert into first_outcomes select ${n}, ($1::${type})::text`;
  try {
    await client.exec({ text, values: [value] });
    const [found] = await client.simple(`select stored from first_outcomes where n = ${n}`);
    return `stored ${String(found!.rows[0]!["stored"])}`;
  } catch (error) {
    const { name, code, message, detail } = error as PgzError & { detail?: string };
    return `${name} ${code} ${message} ${detail}`;
  }
}

describe.each(servers)("on $name", ({ url }) => {
  test("each value is stored for each type as when the type is known", async () => {
    const [first, known] = await Promise.all([
      connect(url, { firstRun: "text" }),
      connect(url, { firstRun: "describe" }),
    ]);
    try {
      await first.simple(`drop type if exists first_pair; drop type if exists first_mood; drop domain if exists first_whole;
        create type first_mood as enum ('abc', 't', '5'); create domain first_whole as int4 check (value < 100);
        create type first_pair as (a int4, b text);
        drop table if exists first_outcomes; create unlogged table first_outcomes (n int4, stored text)`);
      const stored = { once: 0, all: 0 };
      for (const type of TYPES) {
        const outcomes = await Promise.all(VALUES.map((value) => outcome(first, type, value)));
        const expected = await Promise.all(VALUES.map((value) => outcome(known, type, value)));
        const pairs = (all: string[]) => all.map((one, at) => [type, VALUES[at], one]);
        expect(pairs(outcomes)).toEqual(pairs(expected));
        for (const [at, one] of outcomes.entries()) {
          if (!one.startsWith("stored") || at % 4) continue;
          const { flights } = first.stats();
          await outcome(first, type, VALUES[at]);
          stored.all++;
          // The insert, and the question for what it has stored.
          if (first.stats().flights - flights === 2) stored.once++;
        }
      }
      // If the driver had described each statement first, this would compare nothing.
      expect(stored.once).toBeGreaterThan(stored.all / 2);
    } finally {
      await Promise.all([first.close(), known.close()]);
    }
  });
});
