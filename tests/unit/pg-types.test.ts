// pgz-edge/pg's parsers compared with those of pg-types, for texts in the server's form.
import { createRequire } from "node:module";
import fc from "fast-check";
import { expect, test } from "vitest";
import { getTypeParser } from "../../js/adapters/pg/types/index.ts";
import { escapeLiteral, prepareValue } from "../../js/adapters/pg/values.ts";

const require = createRequire(import.meta.url);
interface Written {
  toPostgres(): string;
  toISO(): string;
}
/** Units may come in any order. */
const unitsOf = (interval: Written) =>
  interval
    .toPostgres()
    .match(/\S+ \w+/g)
    ?.sort();
type Parse = (text: string) => unknown;
const theirs = require("pg-types") as { getTypeParser(oid: number): Parse };
const { utils } = require("pg") as { utils: { prepareValue: Parse; escapeLiteral: Parse } };

const TEXTS: Record<number, string[]> = {
  16: ["t", "f"],
  17: ["\\x", "\\x00ff7f", "a\\000b\\\\c"],
  20: ["0", "-9223372036854775808", "9223372036854775807"],
  23: ["0", "-1", "2147483647", "-2147483648"],
  114: ["null", '{"a":[1,2.5,"x"]}'],
  600: ["(1.5,-2)"],
  701: ["1.5", "-0.25", "1e+300", "NaN", "Infinity"],
  718: ["<(1,2.5),3>"],
  1000: ["{t,f,NULL}"],
  1001: ['{"\\\\x00ff",NULL}'],
  1007: ["{}", "{1,NULL,-3}", "{{1,2},{3,4}}", "[0:1]={5,6}"],
  1009: ['{a,"b,c",NULL,"NULL","q\\"r","back\\\\slash",""}', '{{"x y",z}}'],
  1016: ["{9223372036854775807,NULL}"],
  1017: ['{"(1,2)",NULL}'],
  1022: ["{1.5,NULL,NaN}"],
  1082: ["2024-02-29", "0044-03-15 BC", "0099-12-31", "12345-01-01", "infinity", "-infinity"],
  1114: ["2024-02-29 12:34:56", "2024-02-29 12:34:56.789123", "0001-01-01 00:00:00", "0044-03-15 10:00:00 BC"],
  1184: [
    "2024-02-29 12:34:56.789+00",
    "2024-02-29 12:34:56+00",
    "2024-02-29 12:34:56.1+05:30",
    "1850-01-01 00:00:00+00:19:32",
    "0044-03-15 10:00:00+00 BC",
    "99999-01-01 00:00:00-08",
    "infinity",
  ],
  1185: ['{"2024-02-29 12:34:56+00",NULL}'],
  1186: [
    "00:00:00",
    "1 year 2 mons -3 days",
    "-01:02:03.45",
    "1 day 10:00:00.000001",
    "-1 years -2 mons +3 days 04:05:06",
  ],
  1187: ['{"1 day","02:00:00"}'],
  1231: ["{1.5,NULL}"],
  3807: ['{"{\\"a\\": 1}",NULL}'],
};

for (const [oid, texts] of Object.entries(TEXTS))
  test.each(texts)(`${oid}: %s`, (text) => {
    const ours = getTypeParser(Number(oid))(text) as unknown;
    const expected = theirs.getTypeParser(Number(oid))(text);
    expect(JSON.parse(JSON.stringify([ours]))).toEqual(JSON.parse(JSON.stringify([expected])));
    if (expected instanceof Date) expect((ours as Date).getTime()).toBe(expected.getTime());
  });

test("an interval is written like that of pg-types", () => {
  for (const text of TEXTS[1186]!) {
    const ours = getTypeParser(1186)(text) as Written;
    const other = theirs.getTypeParser(1186)(text) as Written;
    expect(ours.toISO()).toBe(other.toISO());
    expect(unitsOf(ours)).toEqual(unitsOf(other));
  }
});

test("any text array that pg writes is read back", () => {
  const items = fc.array(fc.oneof(fc.string(), fc.constant(null)), { maxLength: 6 });
  fc.assert(
    fc.property(items, (value) => {
      expect(getTypeParser(1009)(prepareValue(value) as string)).toEqual(value);
    }),
  );
});

test("any value is converted like pg converts it", () => {
  const value = fc.oneof(
    fc.string(),
    fc.double({ noNaN: true }),
    fc.boolean(),
    fc.date({ noInvalidDate: true, min: new Date("1950-01-01"), max: new Date("9000-01-01") }),
    fc.uint8Array(),
    fc.array(fc.oneof(fc.string(), fc.integer(), fc.constant(null), fc.array(fc.string(), { minLength: 1 })), {
      minLength: 1,
    }),
    fc.dictionary(fc.string(), fc.integer()),
    fc.constantFrom(null, undefined),
  );
  fc.assert(
    fc.property(value, (one) => {
      expect(prepareValue(one)).toEqual(utils.prepareValue(one as never));
    }),
  );
  fc.assert(
    fc.property(fc.string(), (text) => {
      expect(escapeLiteral(text)).toBe(utils.escapeLiteral(text));
    }),
  );
});
