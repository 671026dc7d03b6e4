// Compares our binary formats with the server's, for thousands of generated values of each type. The bytes that a
// writer makes of a value must be those that the type's send function makes of the same text, and the server must
// accept every value that the writer accepts. workerd's engine is Node's, so Node covers it.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { binaryWriter, Block, encodeParameters } from "../../js/values/parameters.ts";
import { isText } from "../../js/util/text.ts";
import { testServers } from "./servers.ts";

const { servers, side } = testServers();

async function ask(server: string, sql: string): Promise<(string | null)[][]> {
  const response = await fetch(`${side}/sql`, { method: "POST", body: JSON.stringify({ server, sql }) });
  const { rows, error } = (await response.json()) as { rows?: (string | null)[][]; error?: string };
  if (!rows) throw new Error(error);
  return rows;
}

/** Returns hexadecimal digits, or the code of the error with which the writer refuses the value. */
function written(type: number, value: unknown): string {
  const block = new Block();
  try {
    binaryWriter(type)!(block, { index: 0, type }, value);
  } catch (error) {
    return (error as { code: string }).code;
  }
  expect(block.view.getInt32(0)).toBe(block.length - 4);
  return Buffer.from(block.bytes.subarray(4, block.length)).toString("hex");
}

const quoted = (text: string) => `'${text.replaceAll("'", "''")}'`;
/** Returns the bytes that the server makes of each text. */
async function sent(server: string, type: string, send: string, texts: string[]): Promise<(string | null)[]> {
  const rows = await ask(
    server,
    `set standard_conforming_strings = on; set TimeZone = 'America/St_Johns';
    select encode(${send}(v::${type}), 'hex')
    from unnest(array[${texts.map(quoted).join()}]::text[]) with ordinality as u(v, n) order by n`,
  );
  return rows.map(([hex]) => hex ?? null);
}

/** Returns the beginning of a query that says of each text `v` whether the type accepts it. */
function isValid(major: number, type: string): string {
  if (major >= 16) return `select pg_input_is_valid(v, '${type}')::text`;
  return `create or replace function pg_temp.is_valid(v text) returns text language plpgsql as
    $$ begin perform v::${type}; return 'true'; exception when others then return 'false'; end $$;
    select pg_temp.is_valid(v)`;
}

/** Removes what the server ignores or strips: zeros at both ends of a numeric, and the digits of its infinities. */
function plain(oid: number, hex: string): string {
  if (oid !== 1700 || /[^\da-f]/.test(hex)) return hex;
  const [, weight, sign, scale, ...all] = hex.match(/.{4}/g)!;
  if (/^[cdf]/.test(sign!)) return sign!;
  let first = 0;
  while (all[first] === "0000") first++;
  const digits = all
    .slice(first)
    .join(" ")
    .replace(/( 0000)+$/, "");
  return `${digits} ${digits ? `${((parseInt(weight!, 16) << 16) >> 16) - first} ${sign}` : "zero"} ${scale}`;
}

const digits = (least: number, most: number) =>
  fc.string({ unit: fc.constantFrom(..."0123456789"), minLength: least, maxLength: most });
const padded = (least: number, most: number, size = 2) =>
  fc.integer({ min: least, max: most }).map((number) => String(number).padStart(size, "0"));
const join = (...parts: fc.Arbitrary<string>[]) => fc.tuple(...parts).map((all) => all.join(""));
const maybe = (part: fc.Arbitrary<string>) => fc.oneof(fc.constant(""), part);
const sign = fc.constantFrom("", "-", "+");
const exponent = maybe(join(fc.constantFrom("e", "E"), sign, fc.integer({ min: 0, max: 40 }).map(String)));
const decimals = join(
  sign,
  fc.oneof(
    digits(1, 30),
    join(digits(1, 20), fc.constant("."), digits(0, 20)),
    join(fc.constant("."), digits(1, 20)),
    join(fc.constantFrom("0", "0000", "10000", "99990000"), maybe(fc.constantFrom(".0", ".00001", ".9999"))),
  ),
  exponent,
);
const fraction = maybe(join(fc.constant("."), digits(1, 9)));
const clock = join(
  padded(0, 23),
  fc.constant(":"),
  padded(0, 59),
  maybe(join(fc.constant(":"), padded(0, 59), fraction)),
);
const day = (years: fc.Arbitrary<string>) =>
  join(years, fc.constant("-"), padded(1, 12), fc.constant("-"), padded(1, 28));
const years = fc.oneof(padded(1, 9999, 4), padded(1900, 2100, 4), padded(10_000, 294_275, 5));
const zone = join(
  fc.oneof(
    fc.constant("Z"),
    join(fc.constantFrom("+", "-"), padded(0, 15), maybe(join(fc.constant(":"), padded(0, 59)))),
  ),
);
const stamp = join(day(years), fc.constantFrom(" ", "T"), clock);
const bc = (text: fc.Arbitrary<string>) => join(text, fc.constant(" BC"));
const hex = (size: number) =>
  fc.string({ unit: fc.constantFrom(..."0123456789abcdefABCDEF"), minLength: size, maxLength: size });
const dashed = fc
  .array(hex(4), { minLength: 8, maxLength: 8 })
  .chain((groups) =>
    fc
      .array(fc.constantFrom("", "-"), { minLength: 7, maxLength: 7 })
      .map((dashes) => groups.map((group, index) => group + (dashes[index] ?? "")).join("")),
  );

/** Texts that the writers accept. */
const TYPES: [name: string, oid: number, send: string, texts: fc.Arbitrary<string>][] = [
  [
    "bool",
    16,
    "boolsend",
    fc.constantFrom("t", "true", "y", "yes", "on", "1", "f", "false", "n", "no", "off", "0", "TRUE", "oFf"),
  ],
  [
    "int2",
    21,
    "int2send",
    fc.oneof(fc.integer({ min: -32768, max: 32767 }).map(String), fc.constantFrom(" 7 ", "+7", "-32768", "32767")),
  ],
  ["int4", 23, "int4send", fc.oneof(fc.integer().map(String), fc.constantFrom("-2147483648", "2147483647"))],
  [
    "int8",
    20,
    "int8send",
    fc.oneof(
      fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }).map(String),
      fc.constantFrom("-9223372036854775808", "9223372036854775807"),
    ),
  ],
  ["oid", 26, "oidsend", fc.integer({ min: 0, max: 2 ** 32 - 1 }).map(String)],
  [
    "float8",
    701,
    "float8send",
    fc.oneof(
      decimals,
      fc.double({ noNaN: true }).map(String),
      fc.constantFrom("NaN", "Infinity", "-Infinity", "5e-324", "1.7976931348623157e308", "-0", " 1.5 "),
    ),
  ],
  [
    "float4",
    700,
    "float4send",
    fc.oneof(
      fc.float({ noNaN: true }).map((number) => String(Math.fround(number))),
      fc.constantFrom("NaN", "Infinity", "-Infinity", "0.1", "1e-45", "3.4028235e38", "-0"),
    ),
  ],
  [
    "numeric",
    1700,
    "numeric_send",
    fc.oneof(
      decimals,
      fc.bigInt().map(String),
      fc.constantFrom(
        "NaN",
        "Infinity",
        "-Infinity",
        "-0",
        "0.000",
        "1e131071",
        `1e-16383`,
        `${"9".repeat(5_000)}.${"1".repeat(5_000)}`,
        " 1.50 ",
      ),
    ),
  ],
  ["text", 25, "textsend", fc.string({ unit: "grapheme" }).filter((text) => !text.includes("\0") && isText(text))],
  ["name", 19, "namesend", fc.constantFrom("a", "é", "x".repeat(63))],
  ["json", 114, "json_send", fc.json()],
  ["jsonb", 3802, "jsonb_send", fc.integer().map(String)],
  [
    "uuid",
    2950,
    "uuid_send",
    fc.oneof(
      fc.uuid(),
      dashed,
      dashed.map((text) => `{${text}}`),
    ),
  ],
  [
    "bytea",
    17,
    "byteasend",
    fc
      .nat(50)
      .chain((size) => hex(2 * size))
      .map((text) => `\\x${text}`),
  ],
  [
    "date",
    1082,
    "date_send",
    fc.oneof(
      day(years),
      day(padded(294_276, 5_874_897, 6)),
      bc(day(padded(1, 4713, 4))),
      stamp,
      join(stamp, zone),
      fc.constantFrom(
        "infinity",
        "-infinity",
        "-Infinity",
        "2024-02-29",
        "2000-02-29",
        "0004-02-29",
        "4714-11-24 BC",
        "0001-02-29 BC",
        "5874897-12-31",
      ),
    ),
  ],
  [
    "time",
    1083,
    "time_send",
    fc.oneof(
      clock,
      fc.constantFrom(
        "24:00",
        "24:00:00",
        "23:59:59.999999",
        "23:59:59.9999999",
        "00:00:00.0000005",
        "00:00:00.0000015",
      ),
    ),
  ],
  [
    "timestamp",
    1114,
    "timestamp_send",
    fc.oneof(
      stamp,
      join(stamp, zone),
      day(years),
      bc(join(day(padded(1, 4713, 4)), fc.constant(" "), clock)),
      fc.constantFrom(
        "infinity",
        "-infinity",
        "4714-11-24 00:00:00 BC",
        "294276-12-31 23:59:59.999999",
        "2024-01-01 24:00:00",
      ),
    ),
  ],
  [
    "timestamptz",
    1184,
    "timestamptz_send",
    fc.oneof(
      join(stamp, zone),
      bc(join(day(padded(1, 4713, 4)), fc.constant(" "), clock, zone)),
      fc.constantFrom(
        "infinity",
        "-infinity",
        "4714-11-24 00:00:00+00 BC",
        "294276-12-31 23:59:59.999999+00",
        "2024-01-01 00:00:00-00:30",
      ),
    ),
  ],
];

describe.each(servers.map(({ name, major }) => ({ name, major })))("PostgreSQL $name", ({ name, major }) => {
  test.each(TYPES)("the binary form of %s (%i) is the server's own", async (type, oid, send, texts) => {
    const some = fc.sample(texts, 2_000);
    const expected = await sent(name, type, send, some);
    some.forEach((text, index) =>
      expect(`${text}: ${plain(oid, written(oid, text))}`).toBe(`${text}: ${plain(oid, expected[index]!)}`),
    );
  });

  test.each(TYPES.filter(([type]) => !/text|name|json|bytea/.test(type)))(
    "a corrupted text of %s (%i) is refused, or written as the server writes it",
    async (type, oid, send, texts) => {
      const spoil = fc
        .tuple(
          texts.filter((text) => text.length < 1_000),
          fc.nat(),
          fc.constantFrom("", ..."0139-+:.TZ eE{}x"),
        )
        .map(([text, at, by]) => text.slice(0, at % (text.length + 1)) + by + text.slice((at % (text.length + 1)) + 1));
      // These two the server must judge: oid's input reads 010 as 8, and a fraction may round up to the first
      // microsecond after the last valid one.
      const left = oid === 26 ? /^\s*\+?0./ : /294276-12-31.*\.999999[5-9]/;
      const some = fc.sample(spoil, 2_000).filter((text) => !/^[A-Z]/.test(written(oid, text)) && !left.test(text));
      const valid = await ask(
        name,
        `${isValid(major, type)}
        from unnest(array[${some.map(quoted).join()}]::text[]) with ordinality as u(v, n) order by n`,
      );
      expect(some.filter((_, index) => valid[index]![0] !== "true")).toEqual([]);
      const expected = await sent(name, type, send, some);
      some.forEach((text, index) =>
        expect(`${text}: ${plain(oid, written(oid, text))}`).toBe(`${text}: ${plain(oid, expected[index]!)}`),
      );
    },
  );
  test.each<[type: string, oid: number, element: string]>([
    ["int4[]", 1007, "int4"],
    ["text[]", 1009, "text"],
    ["numeric[]", 1231, "numeric"],
    ["timestamptz[]", 1185, "timestamptz"],
    ["date[]", 1182, "date"],
    ["uuid[]", 2951, "uuid"],
  ])("%s (%i) of up to six dimensions", async (type, oid, element) => {
    const items = {
      int4: fc.integer().map(String),
      text: fc.string({ unit: fc.constantFrom(...'a"\\{},é ') }),
      numeric: fc.integer({ min: 1, max: 999 }).map(String),
      timestamptz: join(stamp, zone),
      date: day(years),
      uuid: fc.uuid(),
    }[element]!;
    const ofShape = (shape: number[]): fc.Arbitrary<unknown> =>
      shape.length === 0
        ? fc.option(items, { freq: 4 })
        : fc.array(ofShape(shape.slice(1)), { minLength: shape[0]!, maxLength: shape[0]! });
    const arrays = fc
      .array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 6 })
      .chain(ofShape) as fc.Arbitrary<unknown[]>;
    const literal = (value: unknown): string =>
      value === null
        ? "NULL"
        : Array.isArray(value)
          ? `{${value.map(literal).join()}}`
          : `"${(value as string).replace(/["\\]/g, "\\$&")}"`;
    const some = fc.sample(arrays, 300);
    const expected = await sent(name, type, "array_send", some.map(literal));
    // The flag for NULL elements is left out of the comparison, since the server works it out itself.
    const unmarked = (hex: string) => hex.slice(0, 8) + hex.slice(16);
    some.forEach((array, index) => expect(unmarked(written(oid, array))).toBe(unmarked(expected[index]!)));
  });

  test("a Date is written as its ISO text is", async () => {
    const some = fc.sample(
      fc.date({ noInvalidDate: true, min: new Date(-210_866_803_200_000), max: new Date(8.64e15) }),
      1_000,
    );
    for (const [type, oid, send] of [
      ["date", 1082, "date_send"],
      ["timestamp", 1114, "timestamp_send"],
      ["timestamptz", 1184, "timestamptz_send"],
    ] as const) {
      const texts = some.map((date) => Buffer.from(encodeParameters([date], [oid]).subarray(10)).toString());
      const expected = await sent(name, type, send, texts);
      some.forEach((date, index) =>
        expect(`${texts[index]} ${written(oid, date)}`).toBe(`${texts[index]} ${expected[index]}`),
      );
    }
  });
});
